/* cpu_work: what the loops of the CPU's steps get: the step's struct, and the context with its kernels. */
#ifndef QKV_CPU_WORK_H
#define QKV_CPU_WORK_H

#include "backend/backends.h"

struct qkv_cpu_work {
    const struct qkv_context *ctx;
    const void *step;
};

/* qkv_parallel and qkv_parallel_range, whose body gets a struct qkv_cpu_work. */
static inline void qkv_cpu_each(struct qkv_context *ctx, size_t count, qkv_body *body, const void *step) {
    struct qkv_cpu_work work = {ctx, step};
    qkv_parallel(ctx, count, body, &work);
}

static inline void qkv_cpu_ranges(struct qkv_context *ctx, size_t count, size_t grain, qkv_range_body *body,
                                  const void *step) {
    struct qkv_cpu_work work = {ctx, step};
    qkv_parallel_range(ctx, count, grain, body, &work);
}

#endif
