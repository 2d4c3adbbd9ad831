/* inputs: how large the inputs of products are.
 *
 * While a context has a struct qkv_inputs, each product x·wᵀ of its model's weights adds the squares of x, column by
 * column. Quantising weighs the errors of a matrix's columns with their means (io/importance.c). */
#ifndef QKV_INPUTS_H
#define QKV_INPUTS_H

#include "op/weights.h"

/* Of one operand. */
struct qkv_input_sums {
    double *squares; /* (columns); NULL: no product has read it */
    double rows;     /* of x that were added */
};
struct qkv_inputs {
    const struct qkv_weights *weights;
    struct qkv_input_sums *of; /* one per weight; those of an operand are at its first weight */
};

/* Adds the N rows of x, in any type, in the order of their number. Operands of other lists of weights are left out.
 * Fails with QKV_MEMORY. */
enum qkv_status qkv_inputs_add(struct qkv_context *ctx, const struct qkv_tensor *operand, struct qkv_linear_rows x,
                               size_t N);
/* The sums of the operand that a weight is part of. */
const struct qkv_input_sums *qkv_inputs_of(const struct qkv_inputs *inputs, const struct qkv_weight *weight);
void qkv_inputs_free(struct qkv_inputs *inputs);

#endif
