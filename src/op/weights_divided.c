/* weights_divided: operands that ranks divide: each rank has all their numbers as packed bf16, and a share of them as
 * fp32. */
#include "op/weights.h"

float *qkv_weights_divide(struct qkv_weights *w, struct qkv_tensor *tensor) {
    float *data = tensor->data;
    tensor->operand.divided = true;
    tensor->data = tensor->operand.packed->data; /* not NULL: the operand exists, but must not be read as floats */
    for (size_t i = 0; i < tensor->operand.weight_count; i++) {
        struct qkv_weight *weight = &w->list[tensor->operand.weights - w->list + (ptrdiff_t)i];
        weight->data = NULL;
        weight->array.data = NULL;
    }
    return data;
}

void qkv_weights_lend(struct qkv_weights *w, bool lent) {
    for (size_t i = 0; i < w->count; i++) {
        if (!w->list[i].part_of->operand.divided) continue;
        w->list[i].data = lent ? w->list[i].gradient : NULL;
        w->list[i].array.data = w->list[i].data;
    }
}

const struct qkv_weight *qkv_weights_divided(const struct qkv_weights *w) {
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i].part_of->operand.divided && !w->list[i].data) return &w->list[i];
    return NULL;
}
