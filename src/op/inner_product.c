/* inner_product: the loss of a model without a head, Σ scale·x·g with a given g. */
#include "op/op.h"

enum { ELEMENTS_A_PIECE = 16384 };

struct inner_product {
    const float *g;
    float scale;
    struct qkv_loss *loss; /* the caller's: valid while forward runs */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    const float *x;
    float *dx;
    size_t count;
    bool accumulate;
    double sum;
};

static enum qkv_status multiply_up(void *argument) {
    struct inner_product *o = argument;
    for (size_t i = 0; i < o->count; i++) o->sum += (double)o->x[i] * (double)o->g[i];
    return QKV_OK;
}

static void scale_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct inner_product *o = argument;
    o->kernels->scale(o->dx + begin, o->accumulate, o->g + begin, o->scale, end - begin);
}

static struct inner_product inner_product_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct inner_product o = *(const struct inner_product *)node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    o.kernels = tape->ctx->kernels;
    o.x = x->data;
    o.count = x->rows * x->columns;
    return o;
}

enum qkv_status qkv_check_inner_product(struct qkv_tape *tape, struct qkv_node *node) {
    if (node->inputs[0]->dtype == QKV_F32) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "inner_product: x is bf16, but the product needs fp32 numbers");
}

enum qkv_status qkv_forward_inner_product(struct qkv_tape *tape, struct qkv_node *node) {
    struct inner_product *saved = node->saved, o = inner_product_of(tape, node);
    const enum qkv_status status = qkv_compute(tape->ctx, multiply_up, &o);
    *saved->loss = (struct qkv_loss){.sum = o.sum, .counted = 1};
    saved->loss = NULL;
    return status;
}

enum qkv_status qkv_backward_inner_product(struct qkv_tape *tape, struct qkv_node *node) {
    struct inner_product o = inner_product_of(tape, node);
    enum qkv_status status = QKV_OK;
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx) {
        qkv_parallel_range(tape->ctx, o.count, ELEMENTS_A_PIECE, scale_elements, &o);
    }
    return status;
}

struct qkv_cost qkv_cost_inner_product(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0];
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(x) + (backward ? qkv_gradient_bytes(x) : qkv_tensor_bytes(x))};
}

void qkv_op_inner_product(struct qkv_tape *tape, struct qkv_tensor *x, const float *g, float scale,
                          struct qkv_loss *loss) {
    *loss = (struct qkv_loss){0};
    struct inner_product *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return;
    *o = (struct inner_product){.g = g, .scale = scale, .loss = loss};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_inner_product, o);
    node.inputs[0] = x;
    if (qkv_tape_check(tape, &node)) {
        qkv_tape_run(tape, &node);
    }
}
