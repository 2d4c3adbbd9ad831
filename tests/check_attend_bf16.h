/* check_attend_bf16.h: attention with bf16 products, against the reference in double precision. Tables without bf16
 * run the same code on widened numbers, here only. It needs no test framework.
 *
 * Half of the cases have inputs that bf16 represents exactly. Then scores have the error of fp32, the log-sum-exp
 * that of the coarse exponential (1.02e-4 of every weight), and y and the gradients that of rounding weights and dS
 * (2^-9 each, relative to the norm of the whole). In the other cases, every term of q·k is also off by up to 2^-8 of
 * its size. */
#ifndef QKV_CHECK_ATTEND_BF16_H
#define QKV_CHECK_ATTEND_BF16_H

#include "check_attend_apart.h"
#include "kernel/isa/attend.h"
#include "kernel/isa/bf16.h"

/* A copy of the context's table, and mixed precision. */
static inline void attend_bf16_context(struct qkv_context *ctx, struct qkv_kernels *kernels) {
    *kernels = *ctx->kernels;
    ctx->kernels = kernels;
    ctx->precision = QKV_MIXED_BF16;
}

/* Every input becomes what bf16 holds of it. */
static inline void attend_round_inputs(struct attend_case *c) {
    for (size_t which = ATTEND_Q; which < ATTEND_Y; which++) {
        const struct qkv_heads *x = attend_tensor(c, which);
        for (size_t i = 0; i < c->elements[which]; i++) {
            void *at = (char *)c->buffer[which] + i * qkv_type_size(x->dtype);
            uint16_t half;
            float number;
            qkv_to_float(&number, at, x->dtype, 1);
            qkv_from_float(&half, &number, QKV_BF16, 1);
            qkv_to_float(&number, &half, QKV_BF16, 1);
            qkv_from_float(at, &number, x->dtype, 1);
        }
    }
}

static inline bool attend_bf16_check_case(struct qkv_context *ctx, struct attend_case *c, bool exact,
                                          struct attend_error *worst) {
    const double steep = fabs((double)c->a.scale) * sqrt((double)c->a.D), off = exact ? 0 : 0x1p-8 * steep;
    const double rows = (double)(c->a.B * c->a.H * c->a.Tq) / (double)(c->a.Tk ? c->a.Tk : 1);
    const struct attend_limits limits = {.y = 0x1p-9 + 2 * off,
                                         .gradient = 0x1.8p-7 + 4 * off,
                                         .lse = 2e-4 + 24 * off,
                                         .floor = 0.3,
                                         .floor_rows = rows > 1 ? sqrt(rows) : 1}; /* sums of that many whole weights */
    if (exact) attend_round_inputs(c);
    return attend_check_within(ctx, c, &limits, worst);
}

/* Random cases that have enough rows. The worst errors are those of exact inputs. */
static inline bool attend_bf16_check_random(struct qkv_context *ctx, uint64_t seed, size_t cases,
                                            struct attend_error *worst) {
    for (size_t i = 0, ran = 0; ran < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        const bool enough = c.a.Tq * (c.a.H / c.a.Hkv) >= 16, exact = ran % 2;
        const bool good = !enough || attend_bf16_check_case(ctx, &c, exact, exact ? worst : NULL);
        attend_case_free(&c);
        if (!good) {
            printf("  in random case %zu of seed %llu, %s\n", i, (unsigned long long)seed,
                   exact ? "of bf16" : "to be rounded");
            return false;
        }
        ran += enough;
    }
    return true;
}

#endif
