/* bf16.h: what the driver of the matrix product in bf16 (kernel/gemm_bf16.c) and its kernels (bf16.c here, once for every
 * table) agree on.
 *
 * Two bf16 that follow one another along k make a word, the even one in the lower half. B is packed into panels of nr columns:
 * panel p holds words [pair][j] of column p·nr + j, zero past the last column and past the last term up to a multiple of `step`.
 * How A is packed is the kernels' own affair: rows in groups of `mr`, `a_size` bytes a term. Sums are fp32. */
#ifndef QKV_ISA_BF16_H
#define QKV_ISA_BF16_H

#include "kernel/kernel.h"

/* Where sums go when the last run has been added: out = sums + bias. */
struct qkv_bf16_out {
    void *data; /* the block's corner; NULL: not the last run */
    size_t ld;
    enum qkv_dtype dtype; /* QKV_F32 or QKV_BF16 */
    bool accumulate;      /* to what `data` holds */
    const float *bias;    /* of the block's first column, or NULL */
    size_t earlier_count; /* sums of earlier groups of terms, added first, one after the other */
    const float *earlier[QKV_ORDER_LEVELS];
    size_t earlier_ld;
};

/* One block of C: rows × columns, over K of the products' terms. */
struct qkv_bf16_block {
    size_t rows, columns, K;
    size_t wanted;                 /* rows whose sums anybody reads, the first ones; 0: all */
    const void *a;                 /* packed */
    const uint16_t *rows_in_place; /* or the rows where they lie, `lda` apart: those of whole groups; the rest in `a` */
    size_t lda;
    const uint32_t *b; /* packed panels */
    float *c;          /* sums; may be what `out` is when that is fp32 and not accumulated to */
    size_t ldc;
    bool resume; /* c holds sums */
    bool chain;  /* with resume: chains of additions begin with them */
    size_t unit; /* operands are packed in units of so many terms (order_unit); 0: of `step` */
    struct qkv_bf16_out out;
};

/* A few rows of C, over one run. */
struct qkv_bf16_few {
    size_t rows, columns, K;
    const void *a; /* as few_a left them, from the run's first term on */
    size_t lda;    /* bytes between rows of them */
    const uint32_t *b;
    float *c;
    size_t ldc;
    bool resume;
    struct qkv_bf16_out out;
};

struct qkv_bf16_kernels {
    const char *unit; /* "amx", "bf16 dot products", "fp32" */
    bool native;      /* the machine multiplies bf16 itself */
    bool in_place;    /* whole groups of rows of bf16 can be read where they lie */
    size_t mr, nr;    /* rows a group of A, columns a panel of B */
    size_t group;     /* rows of A that the kernels multiply together: of one or two of those */
    size_t step;      /* terms are padded to a multiple of this */
    size_t run;       /* most terms a run */
    size_t a_size;    /* bytes a term of packed A */
    size_t few_rows;
    /* Whole panels over [0, columns) × [0, K). */
    void (*pack_b)(uint32_t *out, struct qkv_operand b, size_t K, size_t columns);
    /* Rows [0, rows) in groups; `staging` has room for rows × K floats. */
    void (*pack_a)(void *out, struct qkv_operand a, size_t rows, size_t K, float *staging);
    /* The same of K terms that stand behind `before` pairs in packed operands of `pairs` pairs; `before` is not 0 only where
     * `order_step` is not 1. */
    void (*pack_b_at)(uint32_t *out, size_t pairs, size_t before, struct qkv_operand b, size_t K, size_t columns,
                      size_t unit);
    void (*pack_a_at)(void *out, size_t pairs, size_t before, struct qkv_operand a, size_t rows, size_t K, size_t unit);
    /* Sums in a defined order: the terms of a sequence begin at a multiple of order_step, with zeros before. Where no sequence of a
     * call has more than `unit` terms, a multiple of that will do, with the same bits (but the sign of a zero that is too small a
     * number): order_unit or that doubled, up to order_step. */
    size_t order_step, order_unit;
    /* Around calls of `block`, once an item of work: AMX has to be told the shape of its tiles, which takes some hundred cycles.
     * `unit` is that of all the blocks. Nothing else of this table may be called in between but packing. */
    void (*enter)(size_t unit);
    void (*leave)(void);
    void (*block)(const struct qkv_bf16_block *block);
    /* Several, one after the other, of the same rows and columns: what one has made others go on from or add (out.earlier). */
    void (*blocks)(const struct qkv_bf16_block *blocks, size_t count);
    /* One row of A, K terms, for `few`: at most 4 bytes a term, terms padded. */
    void (*few_a)(void *out, struct qkv_operand row, size_t K);
    void (*few)(const struct qkv_bf16_few *few);
    /* Products in registers only; returns the FLOPs done. */
    double (*peak)(size_t iterations);
};

#endif
