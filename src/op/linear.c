/* linear: y = x·Wᵀ + b.
 *
 * x (N, in), W (out, in), b (1, out) or none, y (N, out). Backward: dx = dy·W, dW += dyᵀ·x, db += Σ_n dy[n].
 * With a residual r: y = r + s·(x·Wᵀ + b), and dy is s times that of y. An operand with an adapter has one more term
 * (linear_adapter.c), which may read x after a dropout of its own.
 * The operand's product (kernel/product.h) says in which form x, W and dy are multiplied. A weight with `fp32` set (a
 * router's) has fp32 products and fp32 y, of x as it is stored. */
#include "op/linear.h"
#include "op/inputs.h"
#include "op/steps.h"
#include "op/weights.h"

enum { COLUMNS_A_PIECE = 64 };

struct column_sum {
    struct qkv_context *ctx;
    float *out;
    const float *x;
    size_t rows, columns;
};

static void sum_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct column_sum *s = argument;
    s->ctx->kernels->column_sums(s->out + begin, s->x + begin, s->columns, s->rows, end - begin);
}

static struct qkv_operand linear_operand(struct qkv_linear_rows x, size_t row_stride, size_t column_stride) {
    return (struct qkv_operand){x.data, x.dtype, row_stride, column_stride};
}

static struct qkv_stored_operand linear_stored(const struct qkv_tensor *weight, bool transposed) {
    return (struct qkv_stored_operand){.weights = weight->operand.stored.count ? &weight->operand.stored : NULL,
                                       .transposed = transposed,
                                       .turned = weight->operand.divided && !transposed ? weight->operand.packed->data
                                                                                        : NULL};
}

static struct qkv_linear_rows linear_floats(const float *data) {
    return (struct qkv_linear_rows){(void *)(uintptr_t)data, QKV_F32};
}

static const void *linear_packed(const struct qkv_packed_weight *packed) {
    return packed ? packed->data : NULL;
}

/* The next run of trainable rows of an operand, until false. An operand without a list of weights has one run: all
 * rows. */
static bool linear_learns(const struct qkv_tensor *operand, size_t rows, size_t *begin, size_t *end) {
    if (operand->operand.weight_count) return qkv_weights_learn(operand, begin, end);
    *end = rows;
    return *begin < rows;
}

/* The carry of the gradient of some rows of a weight, which begins at `own`; NULL: the gradient goes to `own`. */
static struct qkv_order_carry *linear_carry(const struct qkv_tensor *weight, const struct qkv_linear_carry *how,
                                            const float *own, struct qkv_order_carry *carry) {
    const struct qkv_gradient_carry *all = how->done ? weight->learning.carry : NULL;
    if (!all || !all->own) return NULL;
    const size_t at = (size_t)(own - all->own);
    *carry = (struct qkv_order_carry){.to = all->to + at, .goes_on = how->goes_on, .count = how->more ? 0 : all->count};
    for (size_t i = 0; i < carry->count; i++) carry->earlier[i] = all->earlier[i] + at;
    return carry;
}

struct carried {
    const struct qkv_order_carry *rows;
    bool *done;
};

/* A plan does not set it: an expert may have no rows. */
static enum qkv_status linear_carried(void *argument) {
    const struct carried *c = argument;
    *c->done = c->rows->done;
    return QKV_OK;
}

/* dW (+)= dyᵀ·x of the rows [begin, end) of W; dy has ld columns. */
static enum qkv_status linear_backward_rows(struct qkv_tape *tape, const float *dy, size_t ld, struct qkv_linear_rows x,
                                            size_t N, const struct qkv_tensor *weight, float *dweight, size_t begin,
                                            size_t end, const struct qkv_row_order *order,
                                            struct qkv_linear_carry carry) {
    const struct qkv_product *product = qkv_operand_product_back(tape, weight);
    const size_t in = weight->columns;
    float *own = dweight + begin * in;
    const struct qkv_operand a = linear_operand(linear_floats(dy + begin), 1, ld), b = linear_operand(x, in, 1);
    if (!order)
        return product->multiply(tape->ctx, tape->arena,
                                 &(struct qkv_product_call){.c = own,
                                                            .dtype = QKV_F32,
                                                            .ldc = in,
                                                            .a = a,
                                                            .b = b,
                                                            .M = end - begin,
                                                            .N = in,
                                                            .K = N,
                                                            .accumulate = true});
    struct qkv_order_carry rows, *to = linear_carry(weight, &carry, own, &rows);
    const struct qkv_sums_call sums = {own, in, a, b, end - begin, in, &order->sums, to};
    enum qkv_status status = product->sum(tape->ctx, tape->arena, &sums);
    struct carried carried = {to, carry.done};
    return to && !status ? qkv_compute(tape->ctx, linear_carried, &carried) : status;
}

enum qkv_status qkv_linear_backward_weight(struct qkv_tape *tape, const float *dy, size_t ld, struct qkv_linear_rows x,
                                           size_t N, const struct qkv_tensor *weight, float *dweight,
                                           const struct qkv_row_order *order, struct qkv_linear_carry carry) {
    size_t begin, end;
    enum qkv_status status = QKV_OK;
    for (begin = 0; !status && linear_learns(weight, weight->rows, &begin, &end); begin = end)
        status = linear_backward_rows(tape, dy, ld, x, N, weight, dweight, begin, end, order, carry);
    return status;
}

static enum qkv_status linear_backward_x(struct qkv_tape *tape, const float *dy, size_t N, float *dx, bool accumulate,
                                         const struct qkv_tensor *weight) {
    const size_t in = weight->columns, out = weight->rows;
    const struct qkv_product_call call = {.c = dx,
                                          .dtype = QKV_F32,
                                          .ldc = in,
                                          .accumulate = accumulate,
                                          .a = linear_operand(linear_floats(dy), out, 1),
                                          .b = linear_operand(linear_floats(weight->data), in, 1),
                                          .stored = linear_stored(weight, false),
                                          .packed = linear_packed(weight->operand.packed_transposed),
                                          .M = N,
                                          .N = in,
                                          .K = out};
    return qkv_operand_product_back(tape, weight)->multiply(tape->ctx, tape->arena, &call);
}

enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, struct qkv_linear_rows x, size_t N,
                                          float *dx, bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          const struct qkv_tensor *bias, float *dbias,
                                          const struct qkv_row_order *order, struct qkv_linear_carry carry) {
    const size_t out = weight->rows, mark = qkv_arena_mark(tape->arena);
    enum qkv_status status = QKV_OK;
    size_t begin, end;
    if (dweight) x = qkv_tape_convert(tape, qkv_operand_product_back(tape, weight), x, N * weight->columns);
    if (tape->status) return tape->status;
    if (dx) status = linear_backward_x(tape, dy, N, dx, accumulate, weight);
    for (begin = 0; !status && dweight && linear_learns(weight, out, &begin, &end); begin = end)
        status = linear_backward_rows(tape, dy, out, x, N, weight, dweight, begin, end, order, carry);
    for (begin = 0; !status && dbias && linear_learns(bias, out, &begin, &end); begin = end) {
        struct column_sum s = {.ctx = tape->ctx, .out = dbias + begin, .x = dy + begin, .rows = N, .columns = out};
        if (order)
            qkv_order_columns(tape->ctx, &order->sums, s.out, s.x, out, end - begin);
        else
            qkv_parallel_range(tape->ctx, end - begin, COLUMNS_A_PIECE, sum_columns, &s);
    }
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_linear_rows y, struct qkv_linear_rows x,
                                         size_t N, const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                         struct qkv_epilogue epilogue) {
    const struct qkv_product *product = qkv_operand_product(tape, weight);
    const size_t mark = qkv_arena_mark(tape->arena), in = weight->columns;
    if (tape->ctx->inputs && qkv_tape_failed(tape, qkv_inputs_add(tape->ctx, weight, x, N))) return tape->status;
    x = qkv_tape_convert(tape, product, x, N * in);
    if (tape->status) return tape->status;
    const struct qkv_product_call call = {
        .c = y.data,
        .dtype = y.dtype,
        .ldc = weight->rows,
        .a = linear_operand(x, in, 1),
        .b = linear_operand(linear_floats(weight->data), 1, in),
        .stored = linear_stored(weight, true),
        .packed = product == weight->operand.product ? linear_packed(weight->operand.packed) : NULL,
        .bias = bias ? bias->data : NULL,
        .epilogue = epilogue,
        .M = N,
        .N = weight->rows,
        .K = in};
    const enum qkv_status status = product->multiply(tape->ctx, tape->arena, &call);
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias) {
    if (x->columns == weight->columns && (!bias || bias->columns == weight->rows)) return QKV_OK;
    if (x->columns != weight->columns) {
        qkv_fail(tape->ctx, QKV_SHAPE, "%s: x is (%zu,%zu) but w (%zu,%zu) expects %zu columns", what, x->rows,
                 x->columns, weight->rows, weight->columns, weight->columns);
    } else {
        qkv_fail(tape->ctx, QKV_SHAPE, "%s: w is (%zu,%zu) but the bias has %zu elements", what, weight->rows,
                 weight->columns, bias->columns);
    }
    if (weight->operand.name) {
        qkv_fail_at(tape->ctx, "%s", weight->operand.name);
    }
    return QKV_SHAPE;
}

/* ---- the operator ----------------------------------------------------------------------------------------------- */

/* The inputs of a node: x, weight, bias or NULL, a residual or NULL, and, of an adapter with dropout, the x that it
 * reads, else NULL. */
enum { X, WEIGHT, BIAS, RESIDUAL, ADAPTER_X };

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
    float scale; /* of the product where there is a residual, else 1 */
    float *low;  /* of qkv_adapter_forward, where the node is recorded */
};

static float linear_scale(const struct qkv_node *node) {
    return node->saved ? ((const struct linear_saved *)node->saved)->scale : 1;
}

static struct qkv_tensor *linear_adapter_x(const struct qkv_node *node) {
    return node->inputs[ADAPTER_X] ? node->inputs[ADAPTER_X] : node->inputs[X];
}

/* An operand with an adapter: both terms are added in fp32, then stored as the output is. */
static enum qkv_status linear_forward_adapter(struct qkv_tape *tape, struct qkv_node *node, struct qkv_linear_rows rows,
                                              struct qkv_epilogue epilogue) {
    struct qkv_tensor *weight = node->inputs[WEIGHT], *x = linear_adapter_x(node);
    const struct qkv_tensor *y = node->output;
    const struct qkv_adapter *adapter = weight->operand.adapter;
    struct linear_saved *saved = node->saved;
    const size_t count = y->rows * y->columns;
    float *low = qkv_tape_records(tape, node)
                     ? saved->low = qkv_tape_take(tape, qkv_adapter_low(adapter, x->rows), sizeof(float))
                     : NULL;
    const size_t mark = qkv_arena_mark(tape->arena);
    if (!low) low = qkv_tape_take(tape, qkv_adapter_low(adapter, x->rows), sizeof(float));
    float *sum = y->dtype == QKV_F32 ? y->data : qkv_tape_take(tape, count, sizeof(float));
    if (!low || !sum) return QKV_MEMORY;
    enum qkv_status status = qkv_linear_forward_parts(tape, (struct qkv_linear_rows){sum, QKV_F32}, rows, x->rows,
                                                      weight, node->inputs[BIAS], epilogue);
    if (!status) status = qkv_adapter_forward(tape, adapter, sum, y->columns, saved->scale, x, low);
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
    if (weight->operand.adapter) return linear_forward_adapter(tape, node, rows, epilogue);
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
    return (struct qkv_cost){.flops = qkv_product_flops(x, weight, backward) +
                                      (adapter ? qkv_adapter_flops(adapter, x, backward) : 0)};
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
    if (!adapter && !residual) return true;
    struct linear_saved *saved = qkv_tape_take_graph(tape, sizeof *saved);
    if (!saved) return false;
    *saved = (struct linear_saved){.scale = scale};
    node->saved = saved;
    if (!adapter) return true;
    node->more = adapter->operands;
    node->more_count = 2 * adapter->count;
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
    if (weight->operand.adapter) {
        struct qkv_tensor *y = qkv_tape_run(tape, &node);
        return qkv_activation_node(tape, y, kind, gated, limit, &activation) ? qkv_tape_run(tape, &activation) : NULL;
    }
    if (!qkv_activation_node(tape, node.output, kind, gated, limit, &activation)) return NULL;
    node.fused = &activation;
    return qkv_tape_run(tape, &node);
}
