/* join_heads: heads of two parts, of which all heads share the second: keys of multi-head latent attention (DeepSeek-AI
 * 2024), whose rotated channels are the same in every head; with one head, the row of the latent cache.
 *
 * a (N, H·Da), b (N, Db): y (N, H·(Da + Db)) has [a_h | b] for each head h. da_h = dy_h[0 … Da), db = Σ_h dy_h[Da …
 * ). */
#include "op/op.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

struct join {
    size_t heads;
    /* set while it runs */
    const struct qkv_kernels *kernels;
    size_t own, shared; /* width of a_h and of b: in bytes, in backward in numbers */
    const char *a, *b;
    char *y;
    const float *dy;
    float *da, *db;
    bool add_a, add_b;
};

static void join_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct join *o = argument;
    const size_t H = o->heads, width = o->own + o->shared;
    for (size_t n = begin; n < end; n++)
        for (size_t h = 0; h < H; h++) {
            char *y = o->y + (n * H + h) * width;
            memcpy(y, o->a + (n * H + h) * o->own, o->own);
            memcpy(y + o->own, o->b + n * o->shared, o->shared);
        }
}

static void join_back_part(const struct join *o, float *dx, bool add, const float *dy, size_t n) {
    if (add)
        o->kernels->add(dx, dx, dy, n);
    else
        memcpy(dx, dy, n * sizeof *dx);
}

static void join_back_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct join *o = argument;
    const size_t H = o->heads, width = o->own + o->shared;
    for (size_t n = begin; n < end; n++)
        for (size_t h = 0; h < H; h++) {
            const float *dy = o->dy + (n * H + h) * width;
            if (o->da) join_back_part(o, o->da + (n * H + h) * o->own, o->add_a, dy, o->own);
            if (o->db) join_back_part(o, o->db + n * o->shared, o->add_b || h > 0, dy + o->own, o->shared);
        }
}

enum qkv_status qkv_check_join_heads(struct qkv_tape *tape, struct qkv_node *node) {
    const struct join *o = node->saved;
    const struct qkv_tensor *a = node->inputs[0], *b = node->inputs[1];
    if (o->heads && a->columns % o->heads == 0 && a->rows == b->rows && a->dtype == b->dtype) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "join_heads: a (%zu,%zu) and b (%zu,%zu) cannot be joined to %zu heads",
                    a->rows, a->columns, b->rows, b->columns, o->heads);
}

enum qkv_status qkv_forward_join_heads(struct qkv_tape *tape, struct qkv_node *node) {
    struct join o = *(const struct join *)node->saved;
    const struct qkv_tensor *a = node->inputs[0], *b = node->inputs[1];
    const size_t size = qkv_type_size(a->dtype);
    o.own = a->columns / o.heads * size, o.shared = b->columns * size;
    o.a = a->data, o.b = b->data, o.y = node->output->data;
    qkv_parallel_range(tape->ctx, a->rows, ROWS_A_PIECE, join_rows, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_join_heads(struct qkv_tape *tape, struct qkv_node *node) {
    struct join o = *(const struct join *)node->saved;
    struct qkv_tensor *a = node->inputs[0], *b = node->inputs[1];
    enum qkv_status status = QKV_OK;
    o.kernels = tape->ctx->kernels;
    o.own = a->columns / o.heads, o.shared = b->columns;
    o.da = qkv_gradient_out(tape, a, &o.add_a, &status);
    o.db = qkv_gradient_out(tape, b, &o.add_b, &status);
    o.dy = qkv_gradient_in(node);
    if (status) return status;
    qkv_parallel_range(tape->ctx, a->rows, ROWS_A_PIECE, join_back_rows, &o);
    return QKV_OK;
}

struct qkv_cost qkv_cost_join_heads(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *const all[] = {node->inputs[0], node->inputs[1], node->output};
    double bytes = 0;
    for (size_t i = 0; i < 3; i++) bytes += backward ? qkv_gradient_bytes(all[i]) : qkv_tensor_bytes(all[i]);
    return (struct qkv_cost){.bytes = bytes};
}

struct qkv_tensor *qkv_op_join_heads(struct qkv_tape *tape, struct qkv_tensor *a, struct qkv_tensor *b, size_t heads) {
    struct join *o = a && b && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct join){.heads = heads};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_join_heads, o);
    node.inputs[0] = a;
    node.inputs[1] = b;
    if (!qkv_tape_check(tape, &node)) return NULL;
    const size_t columns = a->columns + heads * b->columns;
    node.output =
        a->dtype == QKV_F32 ? qkv_tape_tensor(tape, a->rows, columns) : qkv_tape_for_products(tape, a->rows, columns);
    return qkv_tape_run(tape, &node);
}
