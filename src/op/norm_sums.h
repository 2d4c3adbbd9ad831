/* norm_sums: the gradients of a norm's weight and bias, summed over rows in pieces that are added in order: the same at any number of
 * threads and, where rows have an order, in any part of a batch. For the operators that are norms. */
#ifndef QKV_NORM_SUMS_H
#define QKV_NORM_SUMS_H

#include "op/op.h"

struct qkv_norm_sums {
    const struct qkv_kernels *kernels;
    size_t rows, columns;              /* of x; numbers of a weight */
    size_t pieces, rows_a_piece;       /* what backward shares out */
    float *partial;                    /* (pieces, 2, columns): of the weight, and of the bias */
    const struct qkv_order *order;     /* NULL: none. Else pieces begin with sequences: */
    size_t *begins;                    /* (pieces + 1): their rows */
    size_t groups[QKV_GROUPS_MAX + 1]; /* the pieces that groups begin with */
};

/* Pieces of the rows of x, in memory of the tape's arena. QKV_OK or QKV_MEMORY. */
enum qkv_status qkv_norm_sums_start(struct qkv_tape *tape, const struct qkv_tensor *x, size_t columns,
                                    struct qkv_norm_sums *sums);
/* All pieces, by all threads, some rows at a time. */
void qkv_norm_sums_each(struct qkv_context *ctx, const struct qkv_norm_sums *sums, qkv_range_body *body,
                        void *argument);
/* The rows [*begin, *end) of a piece, and its part of both gradients, (2, columns), zeroed. */
float *qkv_norm_sums_piece(const struct qkv_norm_sums *sums, size_t piece, size_t *begin, size_t *end);
/* dw += what all pieces have of the weight, db of the bias; either may be NULL. */
void qkv_norm_sums_add(struct qkv_context *ctx, const struct qkv_norm_sums *sums, float *dw, float *db);

#endif
