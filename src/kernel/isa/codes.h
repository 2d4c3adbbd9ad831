/* codes.h: the interface between the driver of products of integers (kernel/gemm_codes.c) and its kernels (codes.c
 * here, once for each table).
 *
 * Weights whose blocks are integers with scales (type/type.h: codes) are packed into panels of nr rows of the weights,
 * which are columns of C. x is in the form i8_32 or i8_256 (type/type_form.h). An output is one chain over the blocks
 * of the weights, from the first to the last:
 *
 *     sum = fmaf(scale of w · scale of x, (float)Σ scales[p] · code of w · code of x, sum)
 *     sum = fmaf(−(minimum of w · scale of x), (float)Σ minimums[p] · code of x, sum)         where w has a minimum
 *
 * The sums of integers are exact, so they have the same bits on every table, in any order. */
#ifndef QKV_ISA_CODES_H
#define QKV_ISA_CODES_H

#include "kernel/product.h"

/* x is packed for the kernels in tiles of `tile` rows; the rows that are left fill tiles of 2 rows, and of 1. A tile has
 * groups of 32 numbers of its rows, one after the other: eight words of four codes, a word of each row after the other,
 * then so two words of pairs of sums, one of sums, and the scale of the block. */
enum { QKV_CODES_X_PAIRS = 8, QKV_CODES_X_SUMS = 10, QKV_CODES_X_SCALE = 11, QKV_CODES_X_WORDS = 12 };

/* The product of some rows of packed x, from the first of a tile on, with a panel. */
struct qkv_codes_work {
    const struct qkv_type *type; /* of the weights */
    const void *panel;
    const uint32_t *x;
    size_t rows, K;
    float *sums; /* (rows, nr) */
};

/* Rows of weights, to be packed. */
struct qkv_codes_rows {
    const struct qkv_type *type;
    const unsigned char *data;
    size_t bytes; /* of a row */
    size_t rows;  /* at most nr; others are 0 */
    size_t K;
};

typedef void qkv_codes_multiply(const struct qkv_codes_work *work);

struct qkv_codes_kernels {
    const char *unit; /* which instructions multiply: "8-bit pairs", "scalar" */
    bool native;      /* there are instructions for it */
    size_t nr, tile;
    void (*pack)(void *panel, const struct qkv_codes_rows *rows);
    /* The kernel for such weights; NULL: there is none. */
    qkv_codes_multiply *(*multiply)(const struct qkv_type *type);
};

/* Bytes of a row of K weights in a panel. */
static inline size_t qkv_codes_row_bytes(const struct qkv_type *type, size_t K) {
    const struct qkv_type_codes *codes = type->codes;
    const size_t parts = codes->scales ? type->block / codes->part : 0, own = codes->minimum ? 2 : 1;
    return K / type->block * (type->block / 8 * (size_t)codes->bits + parts * own + sizeof(uint16_t) * own);
}

#endif
