/* add: y = x + f, the residual connection (He et al. 2016); dropout: y = x·m/(1 − p) (Srivastava et al. 2014).
 *
 * add's gradient goes to both sides unchanged. dropout's mask is a function of its key and the element's number
 * (kernel.h), so backward makes it again instead of keeping it. Both write over an input that nobody needs again. */
#include "op/op.h"

enum { ELEMENTS_A_PIECE = 16384 };

struct add {
    struct qkv_context *ctx;
    float *y;
    const float *x;
};

static void add_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct add *o = argument;
    o->ctx->kernels->add(o->y + begin, o->x + begin, o->y + begin, end - begin);
}

enum qkv_status qkv_backward_add(struct qkv_tape *tape, struct qkv_node *node) {
    enum qkv_status status = qkv_gradient_pass(tape, node, node->inputs[0]);
    return status == QKV_OK ? qkv_gradient_pass(tape, node, node->inputs[1]) : status;
}

struct qkv_tensor *qkv_op_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *f) {
    if (!x || !f || tape->status != QKV_OK) {
        return NULL;
    }
    if (x->rows != f->rows || x->columns != f->columns) {
        qkv_tape_failed(tape, qkv_fail(tape->ctx, QKV_SHAPE, "add: (%zu,%zu) and (%zu,%zu)", x->rows, x->columns,
                                       f->rows, f->columns));
        return NULL;
    }
    struct qkv_tensor *y = qkv_tape_view(tape, f->data, f->rows, f->columns);
    if (!y) {
        return NULL;
    }
    struct add o = {.ctx = tape->ctx, .y = y->data, .x = x->data};
    qkv_parallel_range(tape->ctx, y->rows * y->columns, ELEMENTS_A_PIECE, add_elements, &o);
    return qkv_tape_record(tape, qkv_backward_add, (struct qkv_tensor *[]){x, f}, 2, y, NULL);
}

struct dropout {
    const struct qkv_kernels *kernels;
    float rate;
    uint32_t key[2];
    float *y;
    const float *x;
    bool accumulate;
};

static void drop_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dropout *o = argument;
    o->kernels->dropout(o->y + begin, o->accumulate, o->x + begin, o->rate, o->key, begin, end - begin);
}

enum qkv_status qkv_backward_dropout(struct qkv_tape *tape, struct qkv_node *node) {
    struct dropout o = *(const struct dropout *)node->saved;
    enum qkv_status status = QKV_OK;
    o.x = qkv_gradient_in(node);
    o.y = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.y) {
        qkv_parallel_range(tape->ctx, node->output->rows * node->output->columns, ELEMENTS_A_PIECE, drop_elements, &o);
    }
    return status;
}

void qkv_tape_dropout_key(struct qkv_tape *tape, uint32_t key[2]) {
    uint32_t counter[2] = {tape->dropout_count++, 0};
    qkv_threefry(tape->dropout_key, counter, key);
}

struct qkv_tensor *qkv_op_dropout(struct qkv_tape *tape, struct qkv_tensor *x, float rate) {
    if (!x || tape->status != QKV_OK || !tape->training || rate <= 0) {
        return x;
    }
    struct qkv_tensor *y = qkv_tape_view(tape, x->data, x->rows, x->columns);
    struct dropout *o = qkv_tape_take_record(tape, sizeof *o);
    if (!y || !o) {
        return NULL;
    }
    *o = (struct dropout){.kernels = tape->ctx->kernels, .rate = rate, .y = y->data, .x = x->data};
    qkv_tape_dropout_key(tape, o->key);
    qkv_parallel_range(tape->ctx, y->rows * y->columns, ELEMENTS_A_PIECE, drop_elements, o);
    return qkv_tape_record(tape, qkv_backward_dropout, &x, 1, y, o);
}
