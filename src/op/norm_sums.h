/* norm_sums: sums over rows, for operators that are norms: the gradients of a norm's weight and bias. Pieces of rows
 * are added in order, so any thread count gives the same bits; where rows have an order, so does any part of a
 * batch. */
#ifndef QKV_NORM_SUMS_H
#define QKV_NORM_SUMS_H

#include "op/op.h"

struct qkv_norm_sums {
    const struct qkv_kernels *kernels;
    size_t rows, columns;              /* rows of x, columns of the weight */
    size_t pieces, rows_a_piece;       /* the pieces that threads share out */
    float *partial;                    /* (pieces, 2, columns): sums for the weight and for the bias */
    const struct qkv_order *order;     /* NULL: none. Else a piece never spans two sequences: */
    size_t *begins;                    /* (pieces + 1): the first row of each piece */
    size_t groups[QKV_GROUPS_MAX + 1]; /* the first piece of each group */
};

/* Cuts the rows of x into pieces, in memory of the tape's arena. Returns QKV_OK or QKV_MEMORY. */
enum qkv_status qkv_norm_sums_start(struct qkv_tape *tape, const struct qkv_tensor *x, size_t columns,
                                    struct qkv_norm_sums *sums);
/* Runs body for all pieces on all threads. Each call of body gets a range of pieces. */
void qkv_norm_sums_each(struct qkv_context *ctx, const struct qkv_norm_sums *sums, qkv_range_body *body,
                        void *argument);
/* The rows [*begin, *end) of a piece. Returns the piece's sums, (2, columns), zeroed. */
float *qkv_norm_sums_piece(const struct qkv_norm_sums *sums, size_t piece, size_t *begin, size_t *end);
/* dw += the sum of all pieces for the weight, db += that for the bias; either may be NULL. */
void qkv_norm_sums_add(struct qkv_context *ctx, const struct qkv_norm_sums *sums, float *dw, float *db);

#endif
