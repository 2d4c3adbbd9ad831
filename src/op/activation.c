/* activation: y = act(x), and gated: y = act(gate)·up with gate and up side by side in x (N, 2F).
 *
 * act is ReLU, GELU (Hendrycks & Gimpel 2016: x·Φ(x), or its tanh form) or SiLU; gated with SiLU it is SwiGLU, with GELU
 * GeGLU (Shazeer 2020). Backward from x, which is kept: dx = dy·act'(x); dgate = dy·up·act'(gate), dup = dy·act(gate). */
#include "op/linear.h"

enum { ELEMENTS_A_PIECE = 4096, ROWS_A_PIECE = 8 };

/* In bf16, so many numbers at a time are widened. */
enum { PART = 512 };

struct activation {
    const struct qkv_kernels *kernels;
    enum qkv_activation_kind kind;
    const void *x;
    void *y;
    enum qkv_dtype dtype; /* of x and y */
    const float *dy;
    float *dx;
    size_t F; /* gated only */
    bool accumulate;
};

/* n numbers of x from `at` on: where they lie, or widened to `part`. */
static const float *part_of_x(const struct activation *o, size_t at, size_t n, float part[PART]) {
    if (o->dtype == QKV_F32) {
        return (const float *)o->x + at;
    }
    o->kernels->widen(part, (const uint16_t *)o->x + at, n);
    return part;
}

static void forward_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct activation *o = argument;
    if (o->dtype == QKV_F32) {
        o->kernels->activation_forward(o->kind, (float *)o->y + begin, (const float *)o->x + begin, end - begin);
        return;
    }
    float x[PART], y[PART];
    for (size_t n; begin < end; begin += n) {
        n = end - begin < PART ? end - begin : PART;
        o->kernels->activation_forward(o->kind, y, part_of_x(o, begin, n, x), n);
        o->kernels->narrow((uint16_t *)o->y + begin, y, n);
    }
}

static void backward_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct activation *o = argument;
    float x[PART];
    for (size_t n; begin < end; begin += n) {
        n = o->dtype == QKV_F32 || end - begin < PART ? end - begin : PART;
        o->kernels->activation_backward(o->kind, o->dx + begin, o->accumulate, o->dy + begin, part_of_x(o, begin, n, x),
                                        n);
    }
}

static void forward_gated_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct activation *o = argument;
    float gates[PART], ups[PART], y[PART];
    for (size_t n = begin; n < end; n++) {
        for (size_t f = 0, count; f < o->F; f += count) {
            count = o->dtype == QKV_F32 || o->F - f < PART ? o->F - f : PART;
            const float *gate = part_of_x(o, n * 2 * o->F + f, count, gates);
            const float *up = part_of_x(o, n * 2 * o->F + o->F + f, count, ups);
            if (o->dtype == QKV_F32) {
                o->kernels->gated_forward(o->kind, (float *)o->y + n * o->F + f, gate, up, count);
                continue;
            }
            o->kernels->gated_forward(o->kind, y, gate, up, count);
            o->kernels->narrow((uint16_t *)o->y + n * o->F + f, y, count);
        }
    }
}

static void backward_gated_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct activation *o = argument;
    float gates[PART], ups[PART];
    for (size_t n = begin; n < end; n++) {
        float *dgate = o->dx + n * 2 * o->F, *dup = dgate + o->F;
        for (size_t f = 0, count; f < o->F; f += count) {
            count = o->dtype == QKV_F32 || o->F - f < PART ? o->F - f : PART;
            const float *gate = part_of_x(o, n * 2 * o->F + f, count, gates);
            const float *up = part_of_x(o, n * 2 * o->F + o->F + f, count, ups);
            o->kernels->gated_backward(o->kind, dgate + f, dup + f, o->accumulate, o->dy + n * o->F + f, gate, up,
                                       count);
        }
    }
}

static enum qkv_status backward(struct qkv_tape *tape, struct qkv_node *node, size_t count, size_t grain,
                                qkv_range_body *body) {
    struct activation o = *(const struct activation *)node->saved;
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx) {
        qkv_parallel_range(tape->ctx, count, grain, body, &o);
    }
    return status;
}

enum qkv_status qkv_backward_activation(struct qkv_tape *tape, struct qkv_node *node) {
    return backward(tape, node, node->output->rows * node->output->columns, ELEMENTS_A_PIECE, backward_elements);
}

enum qkv_status qkv_backward_gated(struct qkv_tape *tape, struct qkv_node *node) {
    return backward(tape, node, node->output->rows, ROWS_A_PIECE, backward_gated_rows);
}

/* ---- builders ------------------------------------------------------------------------------------------------------- */

/* Of rows × columns of the output, which a product has just made the input of. */
static void finish_elements(const struct qkv_finish *finish, size_t row, size_t rows, size_t column, size_t columns) {
    const struct qkv_activation_finish *f = (const struct qkv_activation_finish *)(const void *)finish;
    const struct qkv_tensor *y = f->output;
    for (size_t n = row; n < row + rows; n++) {
        forward_elements(f->record, n * y->columns + column, n * y->columns + column + columns, 0);
    }
}

static void finish_gated(const struct qkv_finish *finish, size_t row, size_t rows, size_t column, size_t columns) {
    const struct qkv_activation_finish *f = (const struct qkv_activation_finish *)(const void *)finish;
    (void)column, (void)columns;
    forward_gated_rows(f->record, row, row + rows, 0);
}

bool qkv_activation_prepare(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_activation_kind kind, bool gated,
                            struct qkv_activation_finish *out) {
    if (gated && x->columns % 2) {
        qkv_tape_failed(tape, qkv_fail(tape->ctx, QKV_SHAPE,
                                       "gated: x is (%zu,%zu); gate and up need an even number of columns", x->rows,
                                       x->columns));
        return false;
    }
    const size_t columns = gated ? x->columns / 2 : x->columns;
    struct qkv_tensor *y =
        x->dtype == QKV_F32 ? qkv_tape_tensor(tape, x->rows, columns) : qkv_tape_narrow(tape, x->rows, columns);
    struct activation *o = qkv_tape_take_record(tape, sizeof *o);
    if (!y || !o) {
        return false;
    }
    *o = (struct activation){
        .kernels = tape->ctx->kernels, .kind = kind, .x = x->data, .y = y->data, .dtype = x->dtype, .F = columns};
    *out = (struct qkv_activation_finish){
        .finish = {gated ? finish_gated : finish_elements, gated}, .record = o, .output = y};
    return true;
}

static struct qkv_tensor *record(struct qkv_tape *tape, struct qkv_tensor *x, bool gated,
                                 const struct qkv_activation_finish *f) {
    qkv_backward *back = gated ? qkv_backward_gated : qkv_backward_activation;
    return qkv_tape_record(tape, back, &x, 1, f->output, f->record);
}

struct qkv_tensor *qkv_activation_record(struct qkv_tape *tape, struct qkv_tensor *x, bool gated,
                                         const struct qkv_activation_finish *finish) {
    tape->fused = true;
    struct qkv_tensor *y = record(tape, x, gated, finish);
    tape->fused = false;
    return y;
}

struct qkv_tensor *qkv_op_activation(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_activation_kind kind) {
    struct qkv_activation_finish f;
    if (!x || tape->status != QKV_OK || !qkv_activation_prepare(tape, x, kind, false, &f)) {
        return NULL;
    }
    qkv_parallel_range(tape->ctx, x->rows * x->columns, ELEMENTS_A_PIECE, forward_elements, f.record);
    return record(tape, x, false, &f);
}

struct qkv_tensor *qkv_op_gated(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_activation_kind kind) {
    struct qkv_activation_finish f;
    if (!x || tape->status != QKV_OK || !qkv_activation_prepare(tape, x, kind, true, &f)) {
        return NULL;
    }
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, forward_gated_rows, f.record);
    return record(tape, x, true, &f);
}
