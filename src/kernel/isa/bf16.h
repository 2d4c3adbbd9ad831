/* bf16.h: the interface between the driver of the matrix product in bf16 (kernel/gemm_bf16.c) and its kernels (bf16.c
 * here, once for each table).
 *
 * Two consecutive bf16 along k make a word, the even one in the lower half. B is packed into panels of nr columns:
 * panel p holds words [pair][j] of column p·nr + j, zero past the last column and past the last term up to a multiple
 * of `step`. The kernels choose how A is packed: rows in groups of `mr`, `a_size` bytes a term. Sums are fp32. */
#ifndef QKV_ISA_BF16_H
#define QKV_ISA_BF16_H

#include "kernel/product.h"

/* The destination after the last run: out = sums + bias. */
struct qkv_bf16_out {
    void *data; /* the block's corner; NULL: not the last run */
    size_t ld;
    enum qkv_dtype dtype; /* QKV_F32 or QKV_BF16 */
    bool accumulate;      /* adds to `data` */
    const float *bias;    /* of the block's first column, or NULL */
    size_t earlier_count; /* sums of earlier groups of terms, added first, one after the other */
    const float *earlier[QKV_ORDER_LEVELS];
    size_t earlier_ld;
};

/* One block of C: rows × columns, over K terms. */
struct qkv_bf16_block {
    size_t rows, columns, K;
    size_t wanted; /* rows whose sums are read, the first ones; 0: all */
    const void *a; /* packed */
    /* or the rows without packing, `lda` apart: those of whole groups; the rest in `a` */
    const uint16_t *rows_in_place;
    size_t lda;
    const uint32_t *b; /* packed panels */
    float *c;          /* sums; may be the same as `out` if that is fp32 and does not accumulate */
    size_t ldc;
    bool resume; /* c holds sums */
    bool chain;  /* with resume: chains of additions begin with them */
    size_t unit; /* terms of a unit in which operands are packed (order_unit); 0: `step` */
    struct qkv_bf16_out out;
};

/* A few rows of C, over one run. */
struct qkv_bf16_few {
    size_t rows, columns, K;
    const void *a; /* packed by few_a, from the run's first term on */
    size_t lda;    /* bytes between rows of them */
    const uint32_t *b;
    float *c;
    size_t ldc;
    bool resume;
    struct qkv_bf16_out out;
};

struct qkv_bf16_kernels {
    const char *unit; /* "amx", "bf16 dot products", "fp32" */
    bool native;      /* the machine has instructions that multiply bf16 */
    bool in_place;    /* the kernels can read whole groups of rows of bf16 without packing */
    size_t mr, nr;    /* rows of a group of A, columns of a panel of B */
    size_t group;     /* rows of A that the kernels multiply together: one or two groups */
    size_t step;      /* terms are padded to a multiple of this */
    size_t run;       /* maximum of terms in a run */
    size_t a_size;    /* bytes a term of packed A */
    size_t few_rows;
    /* Whole panels over [0, columns) × [0, K). */
    void (*pack_b)(uint32_t *out, struct qkv_operand b, size_t K, size_t columns);
    /* Rows [0, rows) in groups; `staging` has room for rows × K floats. */
    void (*pack_a)(void *out, struct qkv_operand a, size_t rows, size_t K, float *staging);
    /* The same for K terms after `before` pairs in packed operands of `pairs` pairs; `before` is not 0 only if
     * `order_step` is not 1. */
    void (*pack_b_at)(uint32_t *out, size_t pairs, size_t before, struct qkv_operand b, size_t K, size_t columns,
                      size_t unit);
    void (*pack_a_at)(void *out, size_t pairs, size_t before, struct qkv_operand a, size_t rows, size_t K, size_t unit);
    /* Sums in a defined order: the terms of a sequence begin at a multiple of order_step, with zeros before. If no
     * sequence of a call has more than `unit` terms, a multiple of `unit` gives the same bits (except the sign of a
     * zero that is an underflow). `unit` is order_unit or a doubling of it, up to order_step. */
    size_t order_step, order_unit;
    /* Called before and after calls of `block`, once for each item: setting the shape of AMX tiles takes some hundred
     * cycles. `unit` is that of all the blocks. In between, only packing functions of this table may be called. */
    void (*enter)(size_t unit);
    void (*leave)(void);
    void (*block)(const struct qkv_bf16_block *block);
    /* Several blocks, one after the other, of the same rows and columns: a block may resume the sums of an earlier one,
     * or add them (out.earlier). */
    void (*blocks)(const struct qkv_bf16_block *blocks, size_t count);
    /* Packs one row of A, K terms, for `few`: at most 4 bytes a term, terms padded. */
    void (*few_a)(void *out, struct qkv_operand row, size_t K);
    void (*few)(const struct qkv_bf16_few *few);
    /* Products in registers only; returns the FLOPs done. */
    double (*peak)(size_t iterations);
};

#endif
