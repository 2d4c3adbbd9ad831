/* pool: one vector for each batch row of x (B·T, C): the first position's, or the mean over the positions before the
 * row's length. Backward gives dy to the positions that were pooled, divided by their number, and zero to the others. */
#include "op/op.h"

#include <string.h>

struct pool {
    const struct qkv_kernels *kernels;
    enum qkv_pool kind;
    size_t B, T, C;
    const int32_t *lengths;
    const float *x, *dy;
    float *y, *dx;
    bool accumulate;
};

static size_t pooled(const struct pool *o, size_t b) {
    size_t length = !o->lengths ? o->T : o->lengths[b] < 0 ? 0 : (size_t)o->lengths[b];
    if (length > o->T) {
        length = o->T;
    }
    return o->kind == QKV_POOL_FIRST && length > 1 ? 1 : length;
}

static void forward_row(void *argument, size_t b, int thread) {
    (void)thread;
    const struct pool *o = argument;
    size_t count = pooled(o, b);
    float *y = o->y + b * o->C;
    memset(y, 0, o->C * sizeof(float));
    o->kernels->column_sums(y, o->x + b * o->T * o->C, o->C, count, o->C);
    if (count > 1) {
        o->kernels->scale(y, false, y, 1.0F / (float)count, o->C);
    }
}

static void backward_row(void *argument, size_t b, int thread) {
    (void)thread;
    const struct pool *o = argument;
    size_t count = pooled(o, b);
    float *dx = o->dx + b * o->T * o->C;
    for (size_t t = 0; t < o->T; t++, dx += o->C) {
        if (t < count) {
            o->kernels->scale(dx, o->accumulate, o->dy + b * o->C, 1.0F / (float)count, o->C);
        } else if (!o->accumulate) {
            memset(dx, 0, o->C * sizeof(float));
        }
    }
}

enum qkv_status qkv_backward_pool(struct qkv_tape *tape, struct qkv_node *node) {
    struct pool o = *(const struct pool *)node->saved;
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx) {
        qkv_parallel(tape->ctx, o.B, backward_row, &o);
    }
    return status;
}

struct qkv_tensor *qkv_op_pool(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind, size_t B, size_t T,
                               const int32_t *lengths) {
    if (!x || tape->status != QKV_OK) {
        return NULL;
    }
    if (x->rows != B * T) {
        qkv_tape_failed(tape, qkv_fail(tape->ctx, QKV_SHAPE, "pool: x is (%zu,%zu) but the batch is %zu x %zu", x->rows,
                                       x->columns, B, T));
        return NULL;
    }
    struct qkv_tensor *y = qkv_tape_tensor(tape, B, x->columns);
    struct pool *o = qkv_tape_take_record(tape, sizeof *o);
    if (!y || !o) {
        return NULL;
    }
    *o = (struct pool){.kernels = tape->ctx->kernels,
                       .kind = kind,
                       .B = B,
                       .T = T,
                       .C = x->columns,
                       .lengths = lengths,
                       .x = x->data,
                       .y = y->data};
    qkv_parallel(tape->ctx, B, forward_row, o);
    return qkv_tape_record(tape, qkv_backward_pool, &x, 1, y, o);
}
