/* attend_tables.h: shared by the tests of attention: contexts of every kernel table of this machine, and the number
 * of random cases. */
#ifndef QKV_ATTEND_TABLES_H
#define QKV_ATTEND_TABLES_H

#include "test.h"

#include "base/backend.h"
#include "check_attend_apart.h"

static inline struct qkv_context context_of(size_t table, int threads) {
    struct qkv_context ctx = {.threads = threads, .kernels = qkv_kernels_at(table), .backend = &qkv_backend_bare};
    return ctx;
}

#define FOR_TABLES(ctx)                                                                                                \
    for (size_t t_ = 0; qkv_kernels_at(t_) && (ctx = context_of(t_, 2), true); qkv_team_free(&ctx), t_++)

/* $QKV_TEST_CASES multiplies the number of random cases. */
static inline size_t cases(size_t n) {
    const char *text = getenv("QKV_TEST_CASES");
    return text ? n * strtoul(text, NULL, 10) : n;
}

#endif
