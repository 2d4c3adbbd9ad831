/* check_cuts.h: properties that hold bit for bit within one table: the result of an element does not depend on how
 * its range is cut, and that of a row not on the other rows. */
#ifndef QKV_CHECK_CUTS_H
#define QKV_CHECK_CUTS_H

#include "check_kernels.h"

/* Every elementwise kernel on [begin, end) of the same arrays; x, z are inputs, y0…y3 outputs. */
struct cut_arrays {
    const float *x, *z;
    float *y[4];
    size_t n;
};
enum { CUT_KERNELS = 11 + QKV_FFN_COUNT };
static void run_elementwise(Table k, int which, const struct cut_arrays *c, size_t begin, size_t end) {
    const float *x = c->x + begin, *z = c->z + begin;
    float *y[4];
    const size_t n = end - begin;
    const uint32_t key[2] = {5, 6};
    for (int i = 0; i < 4; i++) y[i] = c->y[i] + begin;
    switch (which) {
    case 0:
        k->add(y[0], x, z, n);
        break;
    case 1:
        k->scale(y[0], true, x, 0.3f, n);
        break;
    case 2:
        k->exp(y[0], x, n);
        break;
    case 3:
        k->dropout(y[0], NULL, x, 0.3f, key, 7 + begin, n);
        break;
    case 4:
        k->dropout(y[0], NULL, x, 0.3f, key, 1000 + begin, n);
        break;
    case 5:
        k->softmax_scaled(y[0], x, 1.5f, 0.1f, 0.01f, n);
        break;
    case 6:
        k->adamw(y[0], y[1], y[2], y[3], 0.9f, 0.1f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f, 0.4f, false, n);
        break;
    case 7:
        k->sgd(y[0], y[1], y[3], 0.9f, 0.1f, 0.9f, 0.1f, n);
        break;
    case 8:
        k->lion(y[0], y[1], y[3], 0.9f, 0.1f, 0.9f, 0.95f, 0.1f, n);
        break;
    case 9:
        k->momentum(y[0], y[1], 0.9f, 0.95f, n);
        break;
    case 10:
        k->descend(y[0], y[1], 0.9f, 0.1f, 0.3f, n);
        break;
    default: {
        const enum qkv_ffn_kind kind = (enum qkv_ffn_kind)(which - 11);
        k->activation_forward(kind, y[0], x, n);
        k->activation_backward(kind, y[1], false, z, x, n);
        k->gated_backward(kind, 0.7f, y[2], y[3], true, z, x, x, n);
    }
    }
}

static void check_cuts(Table k, struct qkv_random *random) {
    for (int round = 0; round < 60; round++) {
        for (int which = 0; which < CUT_KERNELS; which++) {
            const size_t n = between(random, 1, 150);
            struct cut_arrays whole = {random_floats(random, n, 2), random_floats(random, n, 1), {0}, n}, cut = whole;
            for (int i = 0; i < 4; i++) {
                whole.y[i] = random_floats(random, n, 1);
                for (size_t j = 0; j < n; j++)
                    whole.y[i][j] = fabsf(whole.y[i][j]); /* a second moment is not negative */
                cut.y[i] = copied(whole.y[i], n);
            }
            run_elementwise(k, which, &whole, 0, n);
            for (size_t begin = 0; begin < n;) {
                size_t end = between(random, begin, n < begin + 40 ? n : begin + 40);
                run_elementwise(k, which, &cut, begin, end);
                begin = end;
            }
            for (int i = 0; i < 4; i++) {
                CHECK(same_bits(whole.y[i], cut.y[i], n), "kernel %d depends on the cut of %zu", which, n);
                guarded_free(whole.y[i], n, "elementwise kernel");
                guarded_free(cut.y[i], n, "elementwise kernel");
            }
            guarded_free((float *)(uintptr_t)whole.x, n, "random");
            guarded_free((float *)(uintptr_t)whole.z, n, "random");
        }
    }
}

/* The norms of rows together and of each alone, and what the rows add to the gradients of the weights. */
static void check_rows_of(Table k, struct qkv_random *random, size_t rows, size_t C) {
    const size_t n = rows * C;
    float *x = random_floats(random, n, 1), *w = random_floats(random, C, 1), *dy = random_floats(random, n, 1);
    float *y = guarded_new(n), *one = guarded_new(n), *mean = guarded_new(rows), *rstd = guarded_new(rows), alone[2];
    for (int i = 0; i < 2 * QKV_NORM_COUNT; i++) {
        const enum qkv_norm_kind kind = (enum qkv_norm_kind)(i / 2);
        const float *gain = i % 2 ? w : NULL;
        k->norm_forward(kind, y, mean, rstd, x, gain, NULL, 1e-5f, rows, C);
        for (size_t r = 0; r < rows; r++) {
            k->norm_forward(kind, one + r * C, alone + 1, alone, x + r * C, gain, NULL, 1e-5f, 1, C);
            CHECK(same_bits(alone, rstd + r, 1), "norm of a row");
            CHECK(!qkv_norm_centered(kind) || same_bits(alone + 1, mean + r, 1), "norm of a row");
        }
        CHECK(same_bits(y, one, n), "a row's norm depends on its neighbours at C = %zu", C);
        float *dw[2] = {random_floats(random, C, 1)}, *db[2] = {random_floats(random, C, 1)};
        dw[1] = copied(dw[0], C), db[1] = copied(db[0], C);
        k->norm_backward(kind, y, false, dw[0], db[0], dy, x, mean, rstd, gain, rows, C);
        for (size_t r = 0; r < rows; r++)
            k->norm_backward(kind, one + r * C, false, dw[1], db[1], dy + r * C, x + r * C, mean + r, rstd + r, gain, 1,
                             C);
        CHECK(same_bits(y, one, n), "a row's norm gradient depends on its neighbours at C = %zu", C);
        CHECK(same_bits(dw[0], dw[1], C) && same_bits(db[0], db[1], C),
              "gradients of a norm's weights depend on the cut of %zu rows at C = %zu", rows, C);
        for (int j = 0; j < 2; j++) guarded_free(dw[j], C, "norm"), guarded_free(db[j], C, "norm");
    }
    float *all[] = {x, dy, y, one};
    for (size_t i = 0; i < 4; i++) guarded_free(all[i], n, "norm");
    guarded_free(w, C, "random");
    guarded_free(mean, rows, "norm");
    guarded_free(rstd, rows, "norm");
}

static void check_rows(Table k, struct qkv_random *random) {
    for (size_t s = 1; s < RAGGED_COUNT; s++) check_rows_of(k, random, 1 + s % 11, ragged(s));
    const size_t wide[] = {8190, 8192, 8193}; /* how many rows go side by side depends on the width */
    for (size_t i = 0; i < 3; i++) check_rows_of(k, random, 6, wide[i]);
}

/* X(name): every check of a table's row and vector kernels. */
#define KERNEL_CHECKS(X)                                                                                               \
    X(vectors)                                                                                                         \
    X(column_sums) X(exp) X(activations) X(norms) X(rotate) X(clip) X(dropout) X(softmax) X(optimizers) X(cuts) X(rows)

#endif
