/* attend_precisions.h: contexts of every kernel table of this machine, in fp32 and in bf16. */
#ifndef QKV_ATTEND_PRECISIONS_H
#define QKV_ATTEND_PRECISIONS_H

#include "attend_tables.h"
#include "check_attend_bf16.h"

struct fixture {
    struct qkv_kernels kernels;
    struct qkv_context ctx;
};

/* NULL past the last. */
static inline struct qkv_context *context_at(struct fixture *f, size_t at) {
    if (!qkv_kernels_at(at / 2)) return NULL;
    f->ctx = context_of(at / 2, 2);
    if (at % 2) attend_bf16_context(&f->ctx, &f->kernels);
    return &f->ctx;
}

#define FOR_PRECISIONS(f, ctx) for (size_t t_ = 0; (ctx = context_at(&(f), t_)); qkv_team_free(ctx), t_++)

#endif
