/* linear: y = x·Wᵀ + b, of the products of linear_products.c.
 *
 * x (N, in), W (out, in), b (1, out) or none, y (N, out). With a residual r: y = r + s·(x·Wᵀ + b), and dy is s times
 * that of y. An operand with an adapter has one more term (linear_adapter.c), which may read x after a dropout of its
 * own; so have rows that choose one of several adapters. */
#include "op/linear.h"
#include "op/steps.h"

/* ---- the operator ----------------------------------------------------------------------------------------------- */

enum {
    X = QKV_LINEAR_X,
    WEIGHT = QKV_LINEAR_WEIGHT,
    BIAS = QKV_LINEAR_BIAS,
    RESIDUAL = QKV_LINEAR_RESIDUAL,
    ADAPTER_X = QKV_LINEAR_ADAPTER_X
};

enum qkv_status qkv_check_linear(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[X], *weight = node->inputs[WEIGHT], *residual = node->inputs[RESIDUAL];
    enum qkv_status status = qkv_linear_check(tape, "linear", x, weight, node->inputs[BIAS]);
    if (!status && residual && (residual->rows != x->rows || residual->columns != weight->rows)) {
        status = qkv_fail(tape->ctx, QKV_SHAPE, "add: (%zu,%zu) and (%zu,%zu)", residual->rows, residual->columns,
                          x->rows, weight->rows);
    }
    return status;
}

/* What a node with a residual or an adapter saves. */
struct linear_saved {
    float scale;                         /* of the product where there is a residual, else 1 */
    float *low, *v;                      /* of the adapter (linear.h), where the node is recorded */
    const struct qkv_adapter_runs *runs; /* of the tape */
};

static float linear_scale(const struct qkv_node *node) {
    return node->saved ? ((const struct linear_saved *)node->saved)->scale : 1;
}

static struct qkv_tensor *linear_adapter_x(const struct qkv_node *node) {
    return node->inputs[ADAPTER_X] ? node->inputs[ADAPTER_X] : node->inputs[X];
}

static struct qkv_dora linear_dora(const struct qkv_node *node, float *y) {
    const struct linear_saved *saved = node->saved;
    const struct qkv_tensor *residual = node->inputs[RESIDUAL];
    return (struct qkv_dora){.adapter = node->inputs[WEIGHT]->operand.adapter,
                             .weight = node->inputs[WEIGHT],
                             .bias = node->inputs[BIAS],
                             .x = node->inputs[X],
                             .read = linear_adapter_x(node),
                             .residual = residual ? residual->data : NULL,
                             .scale = saved->scale,
                             .y = y,
                             .v = saved->v,
                             .low = saved->low};
}

/* Takes what the operand's own adapter saves. */
static bool linear_adapter_take(struct qkv_tape *tape, const struct qkv_node *node) {
    const struct qkv_adapter *adapter = node->inputs[WEIGHT]->operand.adapter;
    const struct qkv_tensor *y = node->output;
    struct linear_saved *saved = node->saved;
    saved->low = qkv_tape_take(tape, qkv_adapter_low(adapter, y->rows), sizeof(float));
    if (adapter->magnitudes) saved->v = qkv_tape_take(tape, y->rows * y->columns, sizeof(float));
    return saved->low && (saved->v || !adapter->magnitudes);
}

/* An operand with an adapter: both terms are added in fp32, then stored as the output is. */
static enum qkv_status linear_forward_adapter(struct qkv_tape *tape, struct qkv_node *node, struct qkv_linear_rows rows,
                                              struct qkv_epilogue epilogue) {
    const struct qkv_tensor *weight = node->inputs[WEIGHT], *x = linear_adapter_x(node), *y = node->output;
    const struct qkv_adapter *adapter = weight->operand.adapter;
    const struct linear_saved *saved = node->saved;
    const size_t count = y->rows * y->columns;
    const bool records = qkv_tape_records(tape, node), magnitudes = adapter && adapter->magnitudes;
    if (adapter && records && !linear_adapter_take(tape, node)) return QKV_MEMORY;
    const size_t mark = qkv_arena_mark(tape->arena);
    if (adapter && !records && !linear_adapter_take(tape, node)) return QKV_MEMORY;
    float *sum = y->dtype == QKV_F32 ? y->data : qkv_tape_take(tape, count, sizeof(float));
    if (tape->status || !sum) return QKV_MEMORY;
    enum qkv_status status = QKV_OK;
    if (!magnitudes || x != node->inputs[X])
        status = qkv_linear_forward_parts(tape, (struct qkv_linear_rows){sum, QKV_F32}, rows, x->rows, weight,
                                          node->inputs[BIAS], epilogue);
    const struct qkv_dora dora = linear_dora(node, sum);
    if (!status && magnitudes)
        status = qkv_dora_forward(tape, &dora);
    else if (!status && adapter)
        status = qkv_adapter_forward(tape, adapter, sum, y->columns, saved->scale, x, saved->low);
    else if (!status)
        status = qkv_adapter_forward_runs(tape, node, sum, saved->scale);
    if (!status && sum != y->data)
        status = QKV_STEP(tape->ctx, round, .to = y->data, .from = sum, .count = count, .product = tape->product);
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_forward_linear(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[X], *weight = node->inputs[WEIGHT];
    const struct qkv_tensor *residual = node->inputs[RESIDUAL], *y = node->output;
    const struct qkv_linear_rows rows = qkv_tape_form(tape, qkv_operand_product(tape, weight), x);
    struct qkv_epilogue epilogue = {0};
    if (residual)
        epilogue = (struct qkv_epilogue){.kind = QKV_EPILOGUE_residual,
                                         .residual = residual->data,
                                         .ld = residual->columns,
                                         .scale = linear_scale(node)};
    else if (node->fused)
        epilogue = qkv_activation_fuse(tape, node->fused, qkv_tape_records(tape, node));
    if (tape->status) return tape->status;
    if (qkv_adapter_applies(&tape->runs, weight)) return linear_forward_adapter(tape, node, rows, epilogue);
    return qkv_linear_forward_parts(tape, (struct qkv_linear_rows){y->data, y->dtype}, rows, x->rows, weight,
                                    node->inputs[BIAS], epilogue);
}

enum qkv_status qkv_backward_linear(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[X], *weight = node->inputs[WEIGHT], *bias = node->inputs[BIAS];
    enum qkv_status status = qkv_gradient_pass(tape, node, node->inputs[RESIDUAL]);
    bool accumulate, always;
    float *dweight = qkv_gradient_out(tape, weight, &always, &status);
    float *dbias = qkv_gradient_out(tape, bias, &always, &status);
    float *dx = qkv_gradient_out(tape, x, &accumulate, &status);
    struct qkv_tensor *read = linear_adapter_x(node);
    bool again = true;
    float *dread = read == x ? dx : qkv_gradient_out(tape, read, &again, &status);
    if (status) return status;
    const size_t mark = qkv_arena_mark(tape->arena), count = x->rows * weight->rows;
    const float scale = linear_scale(node), *dy = qkv_gradient_in(node);
    if (scale != 1) {
        float *scaled = qkv_tape_take(tape, count, sizeof *scaled);
        if (!scaled) return QKV_MEMORY;
        qkv_scale_floats(tape->ctx, scaled, false, dy, scale, count);
        dy = scaled;
    }
    if (weight->operand.adapter && weight->operand.adapter->magnitudes) {
        const struct qkv_dora dora = linear_dora(node, NULL);
        const struct qkv_dora_back back = {dy, dx, dread, dweight, dbias, accumulate, again};
        status = qkv_dora_backward(tape, &dora, &back);
        qkv_arena_release(tape->arena, mark);
        return status;
    }
    const struct qkv_linear_carry carry = {
        .done = weight->learning.uses == 1 && weight->learning.given == 1 ? &weight->learning.carried : NULL};
    const struct qkv_form *form = qkv_tape_formed(tape, x, qkv_operand_product_back(tape, weight)->form);
    const struct qkv_linear_rows rows = {form ? form->data : x->data, form ? form->dtype : x->dtype};
    status = qkv_linear_backward_parts(tape, dy, rows, x->rows, dx, accumulate, weight, dweight, bias, dbias,
                                       x->learning.order, carry);
    if (!status && weight->operand.adapter)
        status = qkv_adapter_backward(tape, weight->operand.adapter, dy, weight->rows, read, dread, again,
                                      ((const struct linear_saved *)node->saved)->low);
    qkv_arena_release(tape->arena, mark);
    return status;
}

struct qkv_cost qkv_cost_linear(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[X], *weight = node->inputs[WEIGHT];
    const struct qkv_adapter *adapter = weight->operand.adapter;
    const struct linear_saved *saved = node->saved;
    struct qkv_cost cost = {.flops = qkv_product_flops(x, weight, backward)};
    if (adapter) cost.flops += qkv_adapter_flops(adapter, x, backward);
    /* of x after a dropout */
    if (adapter && adapter->magnitudes && node->inputs[ADAPTER_X])
        cost.flops += qkv_product_flops(node->inputs[ADAPTER_X], weight, backward);
    for (size_t i = 0; saved && !adapter && i < saved->runs->count; i++) {
        struct qkv_adapter_run rows;
        const struct qkv_adapter *chosen = qkv_adapter_of_run(saved->runs, i, weight, x->rows, &rows);
        const struct qkv_tensor some = {.rows = rows.count, .columns = x->columns, .learning = x->learning};
        if (chosen) cost.flops += qkv_adapter_flops(chosen, &some, backward);
        if (chosen && chosen->magnitudes) cost.flops += qkv_product_flops(&some, weight, backward);
    }
    return cost;
}

/* ---- builders --------------------------------------------------------------------------------------------------- */

/* Makes a checked node without output. Returns false after an error, and where x is NULL. */
static bool linear_node(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight, struct qkv_tensor *bias,
                        struct qkv_tensor *residual, float scale, struct qkv_node *node) {
    if (!x || tape->status) return false;
    const struct qkv_adapter *adapter = weight->operand.adapter;
    *node = qkv_tape_node(tape, QKV_OPERATOR_linear, NULL);
    node->inputs[X] = x;
    node->inputs[WEIGHT] = weight;
    node->inputs[BIAS] = bias;
    node->inputs[RESIDUAL] = residual;
    if (!qkv_tape_check(tape, node)) return false;
    if (!residual && !qkv_adapter_applies(&tape->runs, weight)) return true;
    struct linear_saved *saved = qkv_tape_take_graph(tape, sizeof *saved);
    if (!saved) return false;
    *saved = (struct linear_saved){.scale = scale, .runs = &tape->runs};
    node->saved = saved;
    if (!adapter) return true;
    node->more = adapter->operands;
    node->more_count = adapter->operand_count;
    struct qkv_tensor *read = qkv_op_dropout_copy(tape, x, adapter->dropout);
    if (read != x) node->inputs[ADAPTER_X] = read;
    return read != NULL;
}

struct qkv_tensor *qkv_op_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias, enum qkv_result result) {
    struct qkv_node node;
    if (!linear_node(tape, x, weight, bias, NULL, 1, &node)) return NULL;
    node.output = result == QKV_RESULT_FOR_PRODUCTS ? qkv_tape_for_products(tape, x->rows, weight->rows)
                                                    : qkv_tape_tensor(tape, x->rows, weight->rows);
    return qkv_tape_run(tape, &node);
}

struct qkv_tensor *qkv_op_linear_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                     struct qkv_tensor *bias, struct qkv_tensor *residual, float scale) {
    struct qkv_node node;
    if (!residual || !linear_node(tape, x, weight, bias, residual, scale, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, weight->rows);
    return qkv_tape_run(tape, &node);
}

/* The adapter's term comes before the activation, so the two are not one pass over the result. */
struct qkv_tensor *qkv_op_linear_activation(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                            struct qkv_tensor *bias, enum qkv_ffn_kind kind, bool gated, float limit) {
    struct qkv_node node, activation;
    if (!linear_node(tape, x, weight, bias, NULL, 1, &node)) return NULL;
    node.output = qkv_tape_for_products(tape, x->rows, weight->rows);
    /* taken before the product in both ways, so that one plan holds for both */
    if (!qkv_activation_node(tape, node.output, kind, gated, limit, &activation)) return NULL;
    if (qkv_adapter_applies(&tape->runs, weight))
        return qkv_tape_run(tape, &node) ? qkv_tape_run(tape, &activation) : NULL;
    node.fused = &activation;
    return qkv_tape_run(tape, &node);
}
