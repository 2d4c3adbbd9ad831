/* softcap: y = c·tanh(a·x / c), or a·x without a cap: scores are multiplied by a factor a and bounded by ±c (Gemma 2).
 *
 * x, y of one shape, fp32. Backward from y: dx = dy·a·(1 − (y / c)²). The loss fuses it with its product
 * (cross_entropy.c). */
#include "op/softcap.h"

enum { ELEMENTS_A_PIECE = 4096 };

bool qkv_softcap_is_none(const struct qkv_softcap *o) {
    return o->cap == 0 && (o->scale == 0 || o->scale == 1);
}

void qkv_softcap_slope(const struct qkv_softcap *o, float *dx, bool accumulate, const float *dy, const float *y,
                       size_t n) {
    const float scale = o->scale == 0 ? 1 : o->scale, inverse = o->cap == 0 ? 0 : 1 / o->cap;
    for (size_t i = 0; i < n; i++) {
        const float t = y[i] * inverse, d = dy[i] * scale * ((1 - t) * (1 + t));
        dx[i] = accumulate ? dx[i] + d : d;
    }
}

struct softcap {
    struct qkv_softcap options;
    /* set while it runs */
    const struct qkv_kernels *kernels;
    const float *x, *dy;
    float *y, *dx;
    bool accumulate;
};

static void softcap_forward(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct softcap *o = argument;
    qkv_softcap_apply(o->kernels, &o->options, o->y + begin, o->x + begin, end - begin);
}

static void softcap_backward(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct softcap *o = argument;
    qkv_softcap_slope(&o->options, o->dx + begin, o->accumulate, o->dy + begin, o->y + begin, end - begin);
}

enum qkv_status qkv_check_softcap(struct qkv_tape *tape, struct qkv_node *node) {
    if (node->inputs[0]->dtype == QKV_F32) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "softcap: x is bf16, but scores are fp32");
}

enum qkv_status qkv_forward_softcap(struct qkv_tape *tape, struct qkv_node *node) {
    struct softcap o = *(const struct softcap *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.x = node->inputs[0]->data, o.y = node->output->data;
    qkv_parallel_range(tape->ctx, node->output->rows * node->output->columns, ELEMENTS_A_PIECE, softcap_forward, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_softcap(struct qkv_tape *tape, struct qkv_node *node) {
    struct softcap o = *(const struct softcap *)node->saved;
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node), o.y = node->output->data;
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx)
        qkv_parallel_range(tape->ctx, node->output->rows * node->output->columns, ELEMENTS_A_PIECE, softcap_backward,
                           &o);
    return status;
}

struct qkv_cost qkv_cost_softcap(const struct qkv_node *node, bool backward) {
    const double bytes = qkv_tensor_bytes(node->output);
    return (struct qkv_cost){.bytes = (backward ? 3 : 2) * bytes};
}

struct qkv_tensor *qkv_op_softcap(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_softcap *options) {
    if (!x || tape->status || qkv_softcap_is_none(options)) return x;
    struct softcap *o = qkv_tape_take_graph(tape, sizeof *o);
    if (!o) return NULL;
    *o = (struct softcap){.options = *options};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_softcap, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, x->columns);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
