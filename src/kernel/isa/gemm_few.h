/* gemm_few.h: products with one or two rows, where reading B is all the work: the W × W squares of B are turned in
 * registers and used at once, nothing is packed. Every element is summed in the same runs and order as in gemm.c. */
#ifndef QKV_ISA_GEMM_FEW_H
#define QKV_ISA_GEMM_FEW_H

#include "kernel/isa/gemm.h"
#include "kernel/isa/simd.h"

#define FEW_ROWS 2

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

/* One run of terms [k, end) for `rows` × one vector of C from column n on, of which `columns` exist. No more columns at a time:
 * each is a stream of its own from memory, and the processor runs ahead of a few of them only. */
QKV_INLINE void few_run(const size_t rows, const struct qkv_gemm_few *f, size_t n, size_t columns, size_t k,
                        size_t end) {
    vf sum[FEW_ROWS];
    const float *b = f->b.data + n * f->b.column_stride, *bias = f->bias && end == f->K ? f->bias + n : NULL;
    const bool resume = f->accumulate || k > 0;
    QKV_UNROLL
    for (size_t m = 0; m < rows; m++) sum[m] = vf_zero();
    for (; columns >= W && end - k >= W; k += W)
        few_square(rows, sum, f->a.data + k, f->a.row_stride, b + k, f->b.column_stride);
    for (; k < end; k += W) few_rest(rows, sum, f, b, k, end, columns);
    QKV_UNROLL
    for (size_t m = 0; m < rows; m++) {
        float *c = f->c + m * f->ldc + n;
        if (resume) sum[m] = vf_add(vf_load_n(c, columns), sum[m]);
        if (bias) sum[m] = vf_add(sum[m], vf_load_n(bias, columns));
        vf_store_n(c, sum[m], columns);
    }
}

QKV_INLINE void few_columns(const size_t rows, const struct qkv_gemm_few *f) {
    for (size_t n = 0; n < f->columns; n += W) {
        size_t k = 0;
        do {
            const size_t end = f->K - k < f->run ? f->K : k + f->run;
            few_run(rows, f, n, f->columns - n, k, end);
            k = end;
        } while (k < f->K);
    }
}

static void gemm_few(const struct qkv_gemm_few *f) {
    if (f->rows == 1)
        few_columns(1, f);
    else
        few_columns(2, f);
}

#endif
