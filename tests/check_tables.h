/* check_tables.h: fp32 results of one table against those of the scalar table, bit for bit: row and vector kernels,
 * and attention with its gradients. Products are checked against the chain that every table promises (check_gemm.h). */
#ifndef QKV_CHECK_TABLES_H
#define QKV_CHECK_TABLES_H

#include "check_attend.h"
#include "checks.h"

#include "kernel/tables.h"

typedef const struct qkv_kernels *Table;

/* Plain C, also where the processor fuses multiply-adds, for which the table "scalar" has other kernels. */
extern const struct qkv_isa qkv_isa_scalar;
static Table scalar_table(void) {
    static struct qkv_kernels scalar;
    scalar = *qkv_isa_scalar.kernels;
    scalar.isa = "plain scalar";
    return &scalar;
}

/* The two tables, and the number of floats that both get. */
struct tables_case {
    Table table, scalar;
    struct qkv_random *random;
    size_t n;
};

/* The outputs of a kernel, of both tables: the statement is run with k and `y`, which starts as a copy of x. */
#define TABLES_SAME(t, x, floats, name, ...)                                                                           \
    do {                                                                                                               \
        float *own_ = copied(x, floats), *theirs_ = copied(x, floats);                                                 \
        for (int other_ = 0; other_ < 2; other_++) {                                                                   \
            Table k = other_ ? (t)->scalar : (t)->table;                                                               \
            float *y = other_ ? theirs_ : own_;                                                                        \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        CHECK(same_bits(own_, theirs_, floats), "%s: other bits than scalar, %zu floats", name, (size_t)(floats));     \
        guarded_free(own_, floats, name);                                                                              \
        guarded_free(theirs_, floats, name);                                                                           \
    } while (0)

static void tables_vectors(const struct tables_case *t) {
    const size_t n = t->n;
    float *a = random_floats(t->random, n, 3), *b = random_floats(t->random, n, 1),
          *c = random_floats(t->random, n, 20);
    const float *others[] = {b, c};
    TABLES_SAME(t, a, n, "add_several", k->add_several(y, a, others, 2, n));
    TABLES_SAME(t, a, n, "scale", k->scale(y, true, b, 0.3f, n));
    TABLES_SAME(t, a, n, "exp", k->exp(y, c, n));
    TABLES_SAME(t, a, n, "clip", k->clip(y, NULL, 1.5f, n));
    for (int kind = 0; kind < QKV_FFN_COUNT; kind++) {
        const enum qkv_ffn_kind ffn = (enum qkv_ffn_kind)kind;
        float *up = random_floats(t->random, n, 1);
        TABLES_SAME(t, a, n, "activation_forward", k->activation_forward(ffn, y, c, n));
        TABLES_SAME(t, a, n, "activation_backward", k->activation_backward(ffn, y, true, b, c, n));
        TABLES_SAME(t, a, n, "gated_forward", k->gated_forward(ffn, 2, y, a, b, n));
        TABLES_SAME(t, a, n, "gated_backward", k->gated_backward(ffn, 2, y, up, false, b, c, a, n));
        guarded_free(up, n, "gated_backward");
    }
    double sums[2], *sum = sums;
    *sum++ = t->table->sum_squares(c, n), *sum = t->scalar->sum_squares(c, n);
    CHECK(sums[0] == sums[1], "sum_squares of %zu: %a, scalar %a", n, sums[0], sums[1]);
    if (n) {
        const float lse = t->table->log_sum_exp(c, n), want = t->scalar->log_sum_exp(c, n);
        CHECK(same_bits(&lse, &want, 1), "log_sum_exp of %zu: %a, scalar %a", n, (double)lse, (double)want);
        TABLES_SAME(t, a, n, "softmax_scaled", k->softmax_scaled(y, c, want, 0.7f, 0.1f, n));
    }
    guarded_free(a, n, "vectors");
    guarded_free(b, n, "vectors");
    guarded_free(c, n, "vectors");
}

static void tables_optimizers(const struct tables_case *t) {
    const size_t n = t->n;
    float *w = random_floats(t->random, n, 1), *m = random_floats(t->random, n, 1), *g = random_floats(t->random, n, 1);
    float *moments = guarded_new(n), *squares = guarded_new(n), *gradient = guarded_new(n);
    for (int coupled = 0; coupled < 2; coupled++)
        TABLES_SAME(t, w, n, "adamw", {
            for (size_t i = 0; i < n; i++) moments[i] = m[i], squares[i] = m[i] * m[i], gradient[i] = g[i];
            k->adamw(y, moments, squares, gradient, 0.9f, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.2f, 0.1f, coupled, n);
        });
    TABLES_SAME(t, w, n, "sgd", {
        for (size_t i = 0; i < n; i++) moments[i] = m[i], gradient[i] = g[i];
        k->sgd(y, moments, gradient, 0.9f, 1e-3f, 0.9f, 0.1f, n);
    });
    TABLES_SAME(t, w, n, "lion", {
        for (size_t i = 0; i < n; i++) moments[i] = m[i], gradient[i] = g[i];
        k->lion(y, moments, gradient, 0.9f, 1e-3f, 0.9f, 0.95f, 0.1f, n);
    });
    TABLES_SAME(t, w, n, "momentum", {
        for (size_t i = 0; i < n; i++) gradient[i] = g[i];
        k->momentum(y, gradient, 0.9f, 0.95f, n);
    });
    TABLES_SAME(t, w, n, "descend", {
        for (size_t i = 0; i < n; i++) gradient[i] = g[i];
        k->descend(y, gradient, 0.9f, 1e-3f, 0.1f, n);
    });
    float *all[] = {w, m, g, moments, squares, gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i], n, "optimizers");
}

static void tables_norms(const struct tables_case *t) {
    const size_t rows = between(t->random, 1, 9), C = t->n, n = rows * C;
    float *x = random_floats(t->random, n, 2), *dy = random_floats(t->random, n, 1),
          *w = random_floats(t->random, C, 1);
    float *b = random_floats(t->random, C, 1), *mean = random_floats(t->random, rows, 1);
    float *rstd = random_floats(t->random, rows, 1);
    for (int kind = 0; C && kind < QKV_NORM_COUNT; kind++) {
        const enum qkv_norm_kind norm = (enum qkv_norm_kind)kind;
        float *shift = qkv_norm_centered(norm) ? b : NULL;
        TABLES_SAME(t, x, n, "norm_forward", k->norm_forward(norm, y, NULL, NULL, x, w, shift, 1e-5f, rows, C));
        TABLES_SAME(t, mean, rows, "mean", k->norm_forward(norm, dy, y, NULL, x, w, shift, 1e-5f, rows, C));
        TABLES_SAME(t, rstd, rows, "rstd", k->norm_forward(norm, dy, NULL, y, x, w, shift, 1e-5f, rows, C));
        TABLES_SAME(t, x, n, "norm_backward, dx",
                    k->norm_backward(norm, y, true, NULL, NULL, dy, x, mean, rstd, w, rows, C));
        TABLES_SAME(t, w, C, "norm_backward, dw",
                    k->norm_backward(norm, NULL, false, y, NULL, dy, x, mean, rstd, w, rows, C));
    }
    guarded_free(x, n, "norms");
    guarded_free(dy, n, "norms");
    guarded_free(w, C, "norms");
    guarded_free(b, C, "norms");
    guarded_free(mean, rows, "norms");
    guarded_free(rstd, rows, "norms");
}

static void tables_rotations(const struct tables_case *t) {
    const size_t pairs = t->n, D = 2 * pairs + t->n % 3, heads = 3;
    float *x = random_floats(t->random, heads * D, 1), *turns = random_floats(t->random, 2 * pairs, 1);
    for (int how = 0; how < 4; how++)
        TABLES_SAME(t, x, heads * D, "rotate", k->rotate(y, heads, D, pairs, how % 2, turns, how / 2));
    guarded_free(x, heads * D, "rotations");
    guarded_free(turns, 2 * pairs, "rotations");
}

static void check_tables(Table table, struct qkv_random *random) {
    for (size_t s = 0; s < RAGGED_COUNT; s++) {
        const struct tables_case t = {table, scalar_table(), random, ragged(s)};
        tables_vectors(&t);
        tables_optimizers(&t);
        tables_norms(&t);
        tables_rotations(&t);
    }
}

/* Attention in fp32, forward and backward. */
static bool attend_check_tables(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    const Table table = ctx->kernels;
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        c.g.accumulate = false;
        size_t floats;
        good = attend_run(ctx, &c, true);
        float *own = attend_outputs(&c, &floats);
        ctx->kernels = scalar_table();
        good = attend_run(ctx, &c, true) && good;
        float *theirs = attend_outputs(&c, &floats);
        ctx->kernels = table;
        if (good && !attend_same(own, theirs, floats)) {
            printf("%s: %s: other bits than scalar, in case %zu of seed %llu\n", table->isa, c.text, i,
                   (unsigned long long)seed);
            good = false;
        }
        guard_page_free(own);
        guard_page_free(theirs);
        attend_case_free(&c);
    }
    return good;
}

#endif
