/* attend: y = softmax(scale·q·kᵀ, masked and biased)·v, the fused operator of kernel/attend.c on the tape.
 *
 * q (B·Tq, …), k and v (B·Tk, …) hold their heads side by side in some of their columns, often all three in one tensor;
 * y (B·Tq, H·Dv). Only the log-sum-exp of each row is kept for backward (Dao et al. 2022), beside q, k, v and y themselves. */
#include "op/op.h"

#include <string.h>

struct attend {
    struct qkv_attend kernel; /* first: profile.c looks at it */
    struct qkv_columns q, k, v;
    size_t batch_rows; /* rows of k and v a batch row */
    float *daddend;
};

static struct qkv_heads heads(void *data, enum qkv_dtype dtype, struct qkv_columns c, size_t T, size_t D) {
    if (data) {
        data = (char *)data + c.column * qkv_dtype_size(dtype);
    }
    return (struct qkv_heads){
        .data = data, .batch_stride = T * c.x->columns, .row_stride = c.x->columns, .head_stride = D, .dtype = dtype};
}

static bool same(struct qkv_columns a, struct qkv_columns b) {
    return a.x == b.x;
}

struct fill {
    float *data;
    size_t count;
};

static void zero_body(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct fill *f = argument;
    memset(f->data, 0, f->count * sizeof(float));
}

/* The gradients are either all overwritten or all added to: where they differ, the new ones start from zero. That of the
 * addend is always added to. */
enum qkv_status qkv_backward_attend(struct qkv_tape *tape, struct qkv_node *node) {
    const struct attend *o = node->saved;
    const struct qkv_columns *parts[3] = {&o->q, &o->k, &o->v};
    float *gradients[3];
    bool accumulates[3], any = o->daddend != NULL, all = true;
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < 3; i++) {
        int first = 0;
        while (!same(*parts[first], *parts[i])) {
            first++;
        }
        if (first < i) { /* its tensor came before: same storage, same state */
            gradients[i] = gradients[first];
            accumulates[i] = accumulates[first];
            continue;
        }
        gradients[i] = qkv_gradient_out(tape, parts[i]->x, &accumulates[i], &status);
        if (status != QKV_OK) {
            return status;
        }
        if (!gradients[i]) {
            continue;
        }
        any = any || accumulates[i];
        all = all && accumulates[i];
    }
    for (int i = 0; i < 3 && any && !all; i++) {
        struct fill f = {.data = gradients[i], .count = parts[i]->x->rows * parts[i]->x->columns};
        bool again = (i > 0 && gradients[i] == gradients[0]) || (i > 1 && gradients[i] == gradients[1]);
        if (gradients[i] && !accumulates[i] && !again) {
            qkv_parallel(tape->ctx, 1, zero_body, &f);
        }
    }
    const struct qkv_attend *a = &o->kernel;
    struct qkv_heads dy = a->y;
    dy.data = node->output->slot->data;
    dy.dtype = QKV_F32;
    struct qkv_attend_gradients g = {.dy = dy,
                                     .dq = heads(gradients[0], QKV_F32, o->q, a->Tq, a->D),
                                     .dk = heads(gradients[1], QKV_F32, o->k, o->batch_rows, a->D),
                                     .dv = heads(gradients[2], QKV_F32, o->v, o->batch_rows, a->Dv),
                                     .daddend = o->daddend,
                                     .accumulate = any};
    return qkv_attend_backward(tape->ctx, tape->arena, a, &g);
}

static enum qkv_status check(struct qkv_tape *tape, struct qkv_columns c, const char *name, size_t rows, size_t width) {
    if (c.x->rows == rows && c.column + width <= c.x->columns) {
        return QKV_OK;
    }
    return qkv_fail(tape->ctx, QKV_SHAPE, "attend: %s needs (%zu,%zu) from column %zu but its tensor is (%zu,%zu)",
                    name, rows, width, c.column, c.x->rows, c.x->columns);
}

struct qkv_tensor *qkv_op_attend(struct qkv_tape *tape, struct qkv_columns q, struct qkv_columns k,
                                 struct qkv_columns v, const struct qkv_attend_options *o) {
    if (!q.x || !k.x || !v.x || tape->status != QKV_OK) {
        return NULL;
    }
    size_t batch_rows = o->Tk_stride ? o->Tk_stride : o->Tk, kv_count = o->kv_rows ? o->kv_count : o->B;
    if (qkv_tape_failed(tape, check(tape, q, "q", o->B * o->Tq, o->H * o->D)) ||
        qkv_tape_failed(tape, check(tape, k, "k", kv_count * batch_rows, o->Hkv * o->D)) ||
        qkv_tape_failed(tape, check(tape, v, "v", kv_count * batch_rows, o->Hkv * o->Dv))) {
        return NULL;
    }
    struct qkv_tensor *y = q.x->dtype == QKV_F32 ? qkv_tape_tensor(tape, o->B * o->Tq, o->H * o->Dv)
                                                 : qkv_tape_narrow(tape, o->B * o->Tq, o->H * o->Dv);
    struct attend *s = qkv_tape_take_record(tape, sizeof *s);
    bool keeps_lse = tape->recording || o->kept;
    float *lse = keeps_lse ? qkv_tape_take(tape, o->B * o->H * o->Tq, sizeof(float)) : NULL;
    if (!y || !s || tape->status != QKV_OK) {
        return NULL;
    }
    *s = (struct attend){.q = q, .k = k, .v = v, .batch_rows = batch_rows, .daddend = o->daddend};
    s->kernel = (struct qkv_attend){.B = o->B,
                                    .H = o->H,
                                    .Hkv = o->Hkv,
                                    .Tq = o->Tq,
                                    .Tk = o->Tk,
                                    .D = o->D,
                                    .Dv = o->Dv,
                                    .q = heads(q.x->data, q.x->dtype, q, o->Tq, o->D),
                                    .k = heads(k.x->data, k.x->dtype, k, batch_rows, o->D),
                                    .v = heads(v.x->data, v.x->dtype, v, batch_rows, o->Dv),
                                    .y = heads(y->data, y->dtype, (struct qkv_columns){y, 0}, o->Tq, o->Dv),
                                    .kv_rows = o->kv_rows,
                                    .lse = lse,
                                    .lo = o->lo,
                                    .hi = o->hi,
                                    .mask = o->mask,
                                    .mask_pairs = o->mask_pairs,
                                    .addend = o->addend,
                                    .addend_pairs = o->addend_pairs,
                                    .scale = o->scale,
                                    .softcap = o->softcap,
                                    .bias = o->bias,
                                    .bias_row = o->bias_row,
                                    .bias_zero = o->bias_zero,
                                    .position = o->positions};
    if (tape->training && o->dropout > 0) {
        s->kernel.dropout = o->dropout;
        qkv_tape_dropout_key(tape, s->kernel.key);
    }
    if (qkv_tape_failed(tape, qkv_attend_forward(tape->ctx, tape->arena, &s->kernel))) {
        return NULL;
    }
    if (o->kept) {
        *o->kept = &s->kernel;
    }
    return qkv_tape_record(tape, qkv_backward_attend, (struct qkv_tensor *[]){q.x, k.x, v.x}, 3, y, s);
}
