/* gemm.h: the interface between the drivers of the matrix product (kernel/gemm*.c) and its kernels (gemm_tiles.c here,
 * once for each ISA).
 *
 * C is computed tile by tile, `mr` rows by `nr` columns in registers. B is packed into panels of nr columns: panel p
 * holds B[k][p·nr + j] at [k·nr + j], zero past the last column, panels K·nr apart. A is read without packing if its
 * rows are contiguous, or packed into panels of `height` <= mr rows: A[p·height + i][k] at [k·height + i], panels
 * K·height apart; the last panel has only its own rows. If both are contiguous across the terms and small enough for
 * the cache, neither is packed before. */
#ifndef QKV_ISA_GEMM_H
#define QKV_ISA_GEMM_H

#include "kernel/product.h"

enum { QKV_GEMM_RUN_MAX = 256 }; /* maximum of terms in a run: a panel of B of 16 KB stays in the first cache */
/* The terms of a run, of which the last may be shorter: runs are nearly equal. */
static inline size_t qkv_gemm_run_length(size_t K) {
    return K ? qkv_round_up(qkv_pieces(K, qkv_pieces(K, QKV_GEMM_RUN_MAX)), 16) : 0;
}

/* One block of C: rows × columns, over K terms. */
struct qkv_gemm_block {
    size_t rows, columns, K;
    const float *a; /* element (i, k) at a[i·a_stride + k], or packed in panels of `height` rows if a_stride is 0 */
    size_t a_stride, height;
    /* Not 0: neither is packed, and both are contiguous across the terms: elements (i, k) and (k, j) at a[k·a_across +
     * i] and b[k·b_across + j]. All panels of B are then whole. */
    size_t a_across, b_across;
    /* or NULL. The first tile of each panel of B packs it here, K rows of one panel, for the other tiles */
    float *panel;
    const float *next_panel; /* the panel of B that is needed after those of the block; NULL: unknown */
    bool row_by_row;         /* order of tiles: those of some rows first, else those of some columns */
    const float *b;          /* packed panels */
    float *c;
    size_t ldc;
    bool resume;          /* adds the run's sums to C; else overwrites C */
    bool chain;           /* instead: each chain of additions begins with C's old value */
    const float *bias;    /* added after the last run, or NULL */
    size_t earlier_count; /* sums of earlier groups, of packed A: added last, one after the other */
    const float *const *earlier;
    size_t earlier_ld;
};

/* A few rows of C (as in decoding) if A's rows and B's columns are contiguous along k: B is transposed in registers. */
enum { QKV_FEW_ROWS = 8, QKV_FEW_PAIR = 2 };
struct qkv_gemm_few {
    size_t rows, columns, K; /* rows <= QKV_FEW_ROWS */
    size_t run;              /* terms of a run, <= QKV_GEMM_RUN_MAX; the last may be shorter */
    struct qkv_matrix a;
    const float *across; /* of more than QKV_FEW_PAIR rows: A[m][k] at [k·QKV_FEW_ROWS + m], 0 for others */
    const void *b;       /* floats; in a format's own kernel in that format, perhaps unaligned */
    size_t b_stride;     /* numbers between columns */
    float *c;
    size_t ldc;
    bool accumulate;
    const float *bias;
};

struct qkv_gemm_kernels {
    size_t mr, nr;
    bool row_by_row; /* tiles are so high that B may come from the second cache for each of them */
    /* Columns [0, columns) and rows [0, K) of B in panels; only whole panels are written, columns past the end as 0. */
    void (*pack_b)(float *out, struct qkv_matrix b, size_t K, size_t columns);
    /* Rows [0, rows) of A in panels of `height` rows. */
    void (*pack_a)(float *out, struct qkv_matrix a, size_t rows, size_t K, size_t height);
    void (*block)(const struct qkv_gemm_block *block);
    void (*few)(const struct qkv_gemm_few *few);
};

#endif
