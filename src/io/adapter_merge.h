/* adapter_merge.h: what an export of a model costs the matrices that an adapter was merged into, for the files that
 * write models (merge_cost.c). The result is in model->merge_cost. */
#ifndef QKV_ADAPTER_MERGE_H
#define QKV_ADAPTER_MERGE_H

#include "model/model.h"

/* Σ x² and Σ (x − y)². */
double qkv_merge_square(const float *x, size_t n);
double qkv_merge_distance(const float *x, const float *y, size_t n);
/* Sums of squares over the rows of a tensor. Begin with {0}. */
struct qkv_merge_sum {
    double square, error, change; /* of the exact numbers, of what rounding changed, and of what the adapter changed */
    const char *name;             /* of the first weight; NULL: no row was added */
};
/* Adds a row of a weight. */
void qkv_merge_sum_row(struct qkv_merge_sum *sum, const struct qkv_weight *weight, const float *exact,
                       const float *rounded, size_t n);
/* Adds the tensor to the cost of the model, if it has rows. */
void qkv_merge_sum_end(struct qkv_model *model, const struct qkv_merge_sum *sum);
/* Sets the cost of an export that rounds all matrices to a type of reals. Fails with QKV_MEMORY. */
enum qkv_status qkv_merge_cost_of(struct qkv_model *model, const struct qkv_type *type);

#endif
