/* check_op_rows.h: checks of the operators that choose, pool or move rows. */
#ifndef QKV_CHECK_OP_ROWS_H
#define QKV_CHECK_OP_ROWS_H

#include "op_fixture.h"

static void check(struct fixture *f, build *make) {
    compare_slopes(f, make, evaluate);
}

#define POOL(name, text, help) QKV_POOL_##name,
static const enum qkv_pool pools[] = {QKV_POOL_LIST(POOL)};

static struct qkv_tensor *build_pool(struct fixture *f) {
    static const int32_t lengths[] = {4, 0, 2};
    return qkv_op_pool(&f->tape, &f->leaves[0], *(const enum qkv_pool *)f->options, 3, 4, lengths);
}

static void check_pool(void **state) {
    (void)state;
    for (uint64_t i = 0; i < TEST_COUNT(pools); i++) {
        struct fixture f;
        start(&f, 80 + i);
        f.options = &pools[i];
        leaf(&f, 12, 9, 0);
        check(&f, build_pool);
        finish(&f);
    }
}

/* Pooling rows without padding; the lengths say which there are. */
static struct qkv_tensor *build_pool_rows(struct fixture *f) {
    static const int32_t lengths[] = {4, 0, 2};
    static const struct qkv_rows shape = {.N = 6, .B = 3, .T = 4, .ragged = true};
    const struct qkv_rows *rows = qkv_rows_make(&f->tape, &shape, lengths, NULL);
    return qkv_op_pool_rows(&f->tape, &f->leaves[0], *(const enum qkv_pool *)f->options, rows);
}

static void rows_without_padding_are_pooled(void **state) {
    (void)state;
    for (uint64_t i = 0; i < TEST_COUNT(pools); i++) {
        struct fixture f;
        start(&f, 180 + i);
        f.options = &pools[i];
        leaf(&f, 6, 9, 0);
        check(&f, build_pool_rows);
        finish(&f);
    }
}

static struct qkv_tensor *build_scores(struct fixture *f) {
    return qkv_op_scores(&f->tape, &f->leaves[0], &f->leaves[1], f->leaf_count > 2 ? &f->leaves[2] : NULL, f->options,
                         NULL);
}

/* softcap(x·wᵀ + b) of row n for weight v. */
static double scores_formula(const struct fixture *f, size_t n, size_t v) {
    const struct qkv_softcap *o = f->options;
    const size_t C = f->leaves[0].columns;
    double s = f->leaf_count > 2 ? (double)f->values[2][v] : 0;
    for (size_t c = 0; c < C; c++) s += (double)f->values[0][n * C + c] * (double)f->values[1][v * C + c];
    s *= o->scale == 0 ? 1 : (double)o->scale;
    return o->cap > 0 ? (double)o->cap * tanh(s / (double)o->cap) : s;
}

/* Also compares the outputs with the formula. */
static void check_scores(void **state) {
    (void)state;
    static const struct qkv_softcap options[] = {
        {.scale = 0.3F, .cap = 2}, {.scale = -1.7F}, {.cap = 0.5F}, {.cap = 0}};
    for (uint64_t i = 0; i < 2 * TEST_COUNT(options); i++) {
        struct fixture f;
        start(&f, 480 + i);
        f.options = &options[i / 2];
        leaf(&f, 7, 9, 0);
        leaf(&f, 13, 9, 0);
        if (i % 2) leaf(&f, 1, 13, 0);
        check(&f, build_scores);
        const struct qkv_tensor *y = build_scores(&f);
        for (size_t n = 0; n < 7 * 13; n++) {
            const double s = scores_formula(&f, n / 13, n % 13);
            assert_true(fabs((double)cell(y, n) - s) <= 1e-5 * (1 + fabs(s)));
        }
        finish(&f);
    }
}

/* Sequences of 5, 0 and 3 positions in rows of 6, 0 and 4, so the last positions are missing; windows at every
 * second position. */
static const int32_t unfold_x[] = {0, 6, 6, 10}, unfold_count[] = {5, 0, 3}, unfold_y[] = {0, 3, 3, 5};
static const struct qkv_unfold_options unfold_options = {
    .B = 3, .kernel = 3, .stride = 2, .rows = 5, .x_start = unfold_x, .count = unfold_count, .y_start = unfold_y};

static struct qkv_tensor *build_unfold(struct fixture *f) {
    return qkv_op_unfold(&f->tape, &f->leaves[0], &unfold_options, NULL);
}

/* Also checks the place of each number. */
static void check_unfold(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 470);
    leaf(&f, 10, 7, 0);
    check(&f, build_unfold);
    const struct qkv_tensor *y = build_unfold(&f);
    for (size_t b = 0; b < 3; b++)
        for (int32_t t = 0; t < unfold_y[b + 1] - unfold_y[b]; t++)
            for (size_t c = 0; c < 7; c++)
                for (int32_t j = 0; j < 3; j++) {
                    const int32_t i = 2 * t + j - 1;
                    const float want =
                        i < 0 || i >= unfold_count[b] ? 0 : f.values[0][(size_t)(unfold_x[b] + i) * 7 + c];
                    assert_true(cell(y, ((size_t)(unfold_y[b] + t) * 7 + c) * 3 + (size_t)j) == want);
                }
    finish(&f);
}

static struct qkv_tensor *build_gather(struct fixture *f) {
    static const int32_t index[] = {5, 0, 5, 2, 5, 10};
    return qkv_op_gather(&f->tape, &f->leaves[0], index, TEST_COUNT(index));
}

static void check_gather(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 86);
    leaf(&f, 11, 70, 0);
    check(&f, build_gather);
    const struct qkv_tensor *y = build_gather(&f);
    for (size_t c = 0; c < 70; c++) assert_true(cell(y, 3 * 70 + c) == f.values[0][2 * 70 + c]);
    finish(&f);
}

static struct qkv_tensor *build_scatter(struct fixture *f) {
    static const int32_t index[] = {7, 0, 3, 4};
    return qkv_op_scatter(&f->tape, &f->leaves[0], index, 9);
}

static void check_scatter(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 87);
    leaf(&f, 4, 70, 0);
    check(&f, build_scatter);
    const struct qkv_tensor *y = build_scatter(&f);
    for (size_t c = 0; c < 70; c++) {
        assert_true(cell(y, 7 * 70 + c) == f.values[0][c] && cell(y, 4 * 70 + c) == f.values[0][3 * 70 + c]);
        assert_true(cell(y, 8 * 70 + c) == 0 && cell(y, 70 + c) == 0);
    }
    finish(&f);
}

#endif
