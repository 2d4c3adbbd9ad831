/* row_gate: y = x·sigmoid(g), one factor per row: x, y (N, C), g (N, 1), all fp32; the shared expert of Qwen2-MoE has
 * it.
 *
 * Backward: dx = dy·s, dg = (Σ dy·x)·s·(1 − s) with s = sigmoid(g). */
#include "op/op.h"

enum { ROWS_A_PIECE = 16 };

struct row_gate {
    const struct qkv_kernels *kernels;
    const float *x, *g, *dy;
    float *y, *dx, *dg;
    bool add_x, add_g;
    size_t C;
};

float qkv_dot(const float *a, const float *b, size_t n) {
    enum { SUMS = 8 };
    float sums[SUMS] = {0};
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t k = 0; k < SUMS; k++) sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sums[i % SUMS] += a[i] * b[i];
    for (size_t k = SUMS / 2; k; k /= 2)
        for (size_t j = 0; j < k; j++) sums[j] += sums[j + k];
    return sums[0];
}

static float row_gate_factor(const struct row_gate *o, size_t n) {
    float negative = -o->g[n], power;
    o->kernels->exp(&power, &negative, 1);
    return 1 / (1 + power);
}

static void row_gate_forward(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct row_gate *o = argument;
    for (size_t n = begin; n < end; n++)
        o->kernels->scale(o->y + n * o->C, false, o->x + n * o->C, row_gate_factor(o, n), o->C);
}

static void row_gate_backward(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct row_gate *o = argument;
    for (size_t n = begin; n < end; n++) {
        const float s = row_gate_factor(o, n), *dy = o->dy + n * o->C;
        if (o->dg) {
            const float dg = qkv_dot(dy, o->x + n * o->C, o->C) * s * (1 - s);
            o->dg[n] = o->add_g ? o->dg[n] + dg : dg;
        }
        if (o->dx) o->kernels->scale(o->dx + n * o->C, o->add_x, dy, s, o->C);
    }
}

static struct row_gate row_gate_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    return (struct row_gate){.kernels = tape->ctx->kernels,
                             .x = node->inputs[0]->data,
                             .g = node->inputs[1]->data,
                             .y = node->output->data,
                             .C = node->output->columns};
}

enum qkv_status qkv_check_row_gate(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0], *g = node->inputs[1];
    if (x->dtype == QKV_F32 && g->dtype == QKV_F32 && g->rows == x->rows && g->columns == 1) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "row_gate: x is (%zu,%zu) and its gate (%zu,%zu); both are fp32", x->rows,
                    x->columns, g->rows, g->columns);
}

enum qkv_status qkv_forward_row_gate(struct qkv_tape *tape, struct qkv_node *node) {
    struct row_gate o = row_gate_of(tape, node);
    qkv_parallel_range(tape->ctx, node->output->rows, ROWS_A_PIECE, row_gate_forward, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_row_gate(struct qkv_tape *tape, struct qkv_node *node) {
    struct row_gate o = row_gate_of(tape, node);
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.add_x, &status);
    o.dg = qkv_gradient_out(tape, node->inputs[1], &o.add_g, &status);
    if (!status) qkv_parallel_range(tape->ctx, node->output->rows, ROWS_A_PIECE, row_gate_backward, &o);
    return status;
}

struct qkv_cost qkv_cost_row_gate(const struct qkv_node *node, bool backward) {
    const double bytes = qkv_tensor_bytes(node->output);
    return (struct qkv_cost){.bytes = (backward ? 3 : 2) * bytes};
}

struct qkv_tensor *qkv_op_row_gate(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *gate) {
    if (!x || !gate || tape->status) return NULL;
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_row_gate, NULL);
    node.inputs[0] = x;
    node.inputs[1] = gate;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, x->columns);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
