/* gemm_few.h: products with one or two rows, where reading B is all the work: the W × W squares of B are turned in
 * registers and used at once, nothing is packed. Every element is summed in the same runs and order as in gemm.c. */
#ifndef QKV_ISA_GEMM_FEW_H
#define QKV_ISA_GEMM_FEW_H

#include "kernel/isa/gemm.h"
#include "kernel/isa/simd.h"

#define FEW_ROWS   2
#define FEW_GROUPS 4
/* Terms taken from one group before the next one's turn: a cache line of each row, which is then done with. The rows of a
 * matrix are often a power of two apart, so that few of their lines fit into the first cache together. */
#define FEW_TERMS (W < 16 ? 16 : W)

/* Keeps the compiler from making a pointer of its own for every row of every square, which would leave no registers. */
#if defined(__GNUC__)
#define FEW_ONE_POINTER(p) __asm__("" : "+r"(p))
#else
#define FEW_ONE_POINTER(p) ((void)0)
#endif

/* `rows` × one vector of sums over W terms, which begin at `a` and, for the first column, at b. */
QKV_INLINE void few_square(const size_t rows, vf sum[FEW_ROWS], const float *a, size_t a_row, const float *b,
                           size_t step) {
    vf turned[W];
    FEW_ONE_POINTER(a);
    FEW_ONE_POINTER(b);
    vf_load_turned(turned, b, step);
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) {
        QKV_UNROLL
        for (size_t m = 0; m < rows; m++) sum[m] = vf_fma(vf_set(a[m * a_row + i]), turned[i], sum[m]);
    }
}

/* The same where fewer than W terms or `columns` < W are left. */
QKV_INLINE void few_rest(const size_t rows, vf sum[FEW_ROWS], const struct qkv_gemm_few *f, const float *b, size_t k,
                         size_t end, size_t columns) {
    const size_t a_row = f->a.row_stride;
    vf turned[W];
    QKV_UNROLL
    for (size_t j = 0; j < W; j++)
        turned[j] = j < columns ? vf_load_n(b + j * f->b.column_stride + k, end - k) : vf_zero();
    vf_transpose(turned);
    for (size_t i = 0; i < W && i < end - k; i++) {
        QKV_UNROLL
        for (size_t m = 0; m < rows; m++) sum[m] = vf_fma(vf_set(f->a.data[m * a_row + k + i]), turned[i], sum[m]);
    }
}

/* One run of terms [k, end) for `rows` × `groups` vectors of C from column n on, both constants where this is expanded;
 * `columns` exist of the last group: W unless groups is 1. */
QKV_INLINE void few_run(const size_t rows, const size_t groups, const struct qkv_gemm_few *f, size_t n, size_t columns,
                        size_t k, size_t end) {
    vf sum[FEW_GROUPS][FEW_ROWS];
    const float *b = f->b.data + n * f->b.column_stride, *bias = f->bias && end == f->K ? f->bias + n : NULL;
    const bool resume = f->accumulate || k > 0;
    const size_t group = W * f->b.column_stride;
    QKV_UNROLL
    for (size_t g = 0; g < groups; g++) {
        QKV_UNROLL
        for (size_t m = 0; m < rows; m++) sum[g][m] = vf_zero();
    }
    for (; columns >= W && end - k >= FEW_TERMS; k += FEW_TERMS) {
        QKV_UNROLL
        for (size_t g = 0; g < groups; g++) {
            QKV_UNROLL
            for (size_t t = 0; t < FEW_TERMS; t += W)
                few_square(rows, sum[g], f->a.data + k + t, f->a.row_stride, b + g * group + k + t, f->b.column_stride);
        }
    }
    for (; k < end; k += W) {
        QKV_UNROLL
        for (size_t g = 0; g < groups; g++) few_rest(rows, sum[g], f, b + g * group, k, end, columns);
    }
    QKV_UNROLL
    for (size_t g = 0; g < groups; g++) {
        const size_t here = groups > 1 ? W : columns;
        QKV_UNROLL
        for (size_t m = 0; m < rows; m++) {
            float *c = f->c + m * f->ldc + n + g * W;
            if (resume) sum[g][m] = vf_add(vf_load_n(c, here), sum[g][m]);
            if (bias) sum[g][m] = vf_add(sum[g][m], vf_load_n(bias + g * W, here));
            vf_store_n(c, sum[g][m], here);
        }
    }
}

QKV_INLINE void few_columns(const size_t rows, const size_t groups, const struct qkv_gemm_few *f, size_t n,
                            size_t columns) {
    size_t k = 0;
    do {
        const size_t end = f->K - k < f->run ? f->K : k + f->run;
        few_run(rows, groups, f, n, columns, k, end);
        k = end;
    } while (k < f->K);
}

QKV_INLINE void few_rows(const size_t rows, const size_t groups, const struct qkv_gemm_few *f) {
    size_t n = 0;
    for (; f->columns - n >= groups * W; n += groups * W) few_columns(rows, groups, f, n, W);
    for (; n < f->columns; n += W) few_columns(rows, 1, f, n, f->columns - n);
}

static void gemm_few(const struct qkv_gemm_few *f) {
    if (f->rows == 1)
        few_rows(1, FEW_GROUPS, f);
    else
        few_rows(2, FEW_GROUPS, f);
}

#endif
