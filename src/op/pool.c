/* pool: one vector per sequence of x (B·T, C): the first position, the last one, or the mean over the positions before
 * the sequence's length. Backward: the pooled positions get dy divided by their number, all others zero. */
#include "op/op.h"

#include <string.h>

struct pool {
    enum qkv_pool kind;
    size_t B, T;
    const int32_t *lengths;
    const struct qkv_rows *rows; /* the rows of x, without padding; NULL: (B,T) */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    size_t C;
    const float *x, *dy;
    float *y, *dx;
    bool accumulate;
};

/* The number of pooled rows of sequence b; *first: the first of them, counted in the sequence. */
static size_t pool_pooled(const struct pool *o, size_t b, size_t *first) {
    size_t length = !o->lengths ? o->T : o->lengths[b] < 0 ? 0 : (size_t)o->lengths[b];
    if (length > o->T) length = o->T;
    if (o->rows && o->rows->ragged) length = (size_t)(o->rows->start[b + 1] - o->rows->start[b]);
    *first = o->kind == QKV_POOL_LAST && length ? length - 1 : 0;
    return o->kind != QKV_POOL_MEAN && length > 1 ? 1 : length;
}

/* The first row of sequence b. */
static size_t pool_first(const struct pool *o, size_t b) {
    return o->rows && o->rows->ragged ? (size_t)o->rows->start[b] : b * o->T;
}
static size_t pool_rows(const struct pool *o, size_t b) {
    return o->rows && o->rows->ragged ? (size_t)(o->rows->start[b + 1] - o->rows->start[b]) : o->T;
}

static void forward_row(void *argument, size_t b, int thread) {
    (void)thread;
    const struct pool *o = argument;
    size_t first, count = pool_pooled(o, b, &first);
    float *y = o->y + b * o->C;
    memset(y, 0, o->C * sizeof(float));
    o->kernels->column_sums(y, o->x + (pool_first(o, b) + first) * o->C, o->C, count, o->C);
    if (count > 1) {
        o->kernels->scale(y, false, y, 1.0F / (float)count, o->C);
    }
}

static void backward_row(void *argument, size_t b, int thread) {
    (void)thread;
    const struct pool *o = argument;
    size_t first, count = pool_pooled(o, b, &first), rows = pool_rows(o, b);
    float *dx = o->dx + pool_first(o, b) * o->C;
    for (size_t t = 0; t < rows; t++, dx += o->C) {
        if (t >= first && t < first + count) {
            o->kernels->scale(dx, o->accumulate, o->dy + b * o->C, 1.0F / (float)count, o->C);
        } else if (!o->accumulate) {
            memset(dx, 0, o->C * sizeof(float));
        }
    }
}

static struct pool pool_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct pool o = *(const struct pool *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.C = node->output->columns;
    return o;
}

enum qkv_status qkv_check_pool(struct qkv_tape *tape, struct qkv_node *node) {
    const struct pool *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (x->rows == (o->rows ? o->rows->N : o->B * o->T)) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "pool: x is (%zu,%zu) but the batch is %zu x %zu", x->rows, x->columns, o->B,
                    o->T);
}

enum qkv_status qkv_forward_pool(struct qkv_tape *tape, struct qkv_node *node) {
    struct pool o = pool_of(tape, node);
    o.x = node->inputs[0]->data;
    o.y = node->output->data;
    qkv_parallel(tape->ctx, o.B, forward_row, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_pool(struct qkv_tape *tape, struct qkv_node *node) {
    struct pool o = pool_of(tape, node);
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx) {
        qkv_parallel(tape->ctx, o.B, backward_row, &o);
    }
    return status;
}

struct qkv_cost qkv_cost_pool(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    return (struct qkv_cost){.bytes = backward ? qkv_gradient_bytes(x) + qkv_gradient_bytes(y)
                                               : qkv_tensor_bytes(x) + qkv_tensor_bytes(y)};
}

static struct qkv_tensor *pool_build(struct qkv_tape *tape, struct qkv_tensor *x, const struct pool *options) {
    struct pool *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = *options;
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_pool, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, o->B, x->columns);
    if (node.output && x->learning.order) {
        node.output->learning.order = x->learning.order->pooled;
    }
    return qkv_tape_run(tape, &node);
}

struct qkv_tensor *qkv_op_pool(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind, size_t B, size_t T,
                               const int32_t *lengths) {
    return pool_build(tape, x, &(struct pool){.kind = kind, .B = B, .T = T, .lengths = lengths});
}

struct qkv_tensor *qkv_op_pool_rows(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind,
                                    const struct qkv_rows *rows) {
    return pool_build(tape, x, &(struct pool){.kind = kind, .B = rows->B, .T = rows->T, .rows = rows});
}
