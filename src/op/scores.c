/* scores: scores = softcap(x·Wᵀ + b), of the tokens of a vocabulary, or of classes.
 *
 * x (N, C), W (V, C), b (1, V) or none; scores (N, V), fp32. The softcap (softcap.c) is computed on each block of the
 * product while it is in cache. Backward: dscores times the slope of the softcap is the gradient of the product, whose
 * gradients are those of a linear. The loss computes its scores with the same function, some rows at a time
 * (cross_entropy.c). */
#include "op/scores.h"
#include "op/linear.h"

enum { CHUNK_FLOATS = 16 << 20, CHUNK_ROWS = 16 };
enum { X, WEIGHT, BIAS };

size_t qkv_scores_chunk(size_t V) {
    return qkv_max(CHUNK_FLOATS / V, (size_t)CHUNK_ROWS);
}

enum qkv_status qkv_scores_rows(struct qkv_tape *tape, const struct qkv_tensor *x, size_t first, size_t rows,
                                const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                const struct qkv_softcap *softcap, float *scores) {
    const size_t size = qkv_type_size(x->dtype);
    const struct qkv_linear_rows rows_of_x = {(char *)x->data + first * x->columns * size, x->dtype};
    struct qkv_epilogue epilogue = {0};
    if (!qkv_softcap_is_none(softcap))
        epilogue = (struct qkv_epilogue){.kind = QKV_EPILOGUE_softcap, .softcap = *softcap};
    return qkv_linear_forward_parts(tape, (struct qkv_linear_rows){scores, QKV_F32}, rows_of_x, rows, weight, bias,
                                    epilogue);
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_check_scores(struct qkv_tape *tape, struct qkv_node *node) {
    return qkv_linear_check(tape, "head", node->inputs[X], node->inputs[WEIGHT], node->inputs[BIAS]);
}

enum qkv_status qkv_forward_scores(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[X], *weight = node->inputs[WEIGHT];
    const size_t V = weight->rows, chunk = qkv_scores_chunk(V);
    enum qkv_status status = QKV_OK;
    for (size_t first = 0; first < x->rows && !status; first += chunk)
        status = qkv_scores_rows(tape, x, first, qkv_min(x->rows - first, chunk), weight, node->inputs[BIAS],
                                 node->saved, (float *)node->output->data + first * V);
    return status;
}

enum qkv_status qkv_backward_scores(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_softcap *softcap = node->saved;
    struct qkv_tensor *x = node->inputs[X], *weight = node->inputs[WEIGHT], *bias = node->inputs[BIAS];
    bool accumulate, always;
    enum qkv_status status = QKV_OK;
    float *dweight = qkv_gradient_out(tape, weight, &always, &status);
    float *dbias = qkv_gradient_out(tape, bias, &always, &status);
    float *dx = qkv_gradient_out(tape, x, &accumulate, &status);
    if (status) return status;
    const size_t mark = qkv_arena_mark(tape->arena), count = x->rows * weight->rows;
    const float *dscores = qkv_gradient_in(node);
    if (!qkv_softcap_is_none(softcap)) {
        float *uncapped = qkv_tape_take(tape, count, sizeof *uncapped);
        if (!uncapped) return QKV_MEMORY;
        qkv_softcap_slopes(tape->ctx, softcap, uncapped, dscores, node->output->data, count);
        dscores = uncapped;
    }
    const struct qkv_linear_carry carry = {
        .done = weight->learning.uses == 1 && weight->learning.given == 1 ? &weight->learning.carried : NULL};
    status = qkv_linear_backward_parts(tape, dscores, (struct qkv_linear_rows){x->data, x->dtype}, x->rows, dx,
                                       accumulate, weight, dweight, bias, dbias, x->learning.order, carry);
    qkv_arena_release(tape->arena, mark);
    return status;
}

struct qkv_cost qkv_cost_scores(const struct qkv_node *node, bool backward) {
    return (struct qkv_cost){.flops = qkv_product_flops(node->inputs[X], node->inputs[WEIGHT], backward)};
}

struct qkv_tensor *qkv_op_scores(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias, const struct qkv_softcap *softcap, float *out) {
    if (!x || tape->status) return NULL;
    struct qkv_softcap *saved = qkv_tape_take_graph(tape, sizeof *saved);
    if (!saved) return NULL;
    *saved = *softcap;
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_scores, saved);
    node.inputs[X] = x;
    node.inputs[WEIGHT] = weight;
    node.inputs[BIAS] = bias;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = out ? qkv_tape_view(tape, out, x->rows, weight->rows) : qkv_tape_tensor(tape, x->rows, weight->rows);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
