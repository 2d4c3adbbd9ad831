/* activation: y = act(x), or gated: y = act(gate)·up with gate and up side by side in x (N, 2F).
 *
 * act is that of a kind of feed-forward (QKV_FFN_LIST): gated with SiLU it is SwiGLU, with GELU GeGLU (Shazeer 2020).
 * Some gates clamp their input. Backward reads x, which is saved:
 * dx = dy·act'(x), or gated: dgate = dy·up·act'(gate), dup = dy·act(gate).
 * Where a product in fp32 makes x for an activation without a gate alone, forward replaces x by act'(x), most of which
 * it has computed already. */
#include "op/linear.h"

enum { ELEMENTS_A_PIECE = 4096, ROWS_A_PIECE = 8 };

/* Numbers of bf16 that are widened to fp32 at a time. */
enum { PART = 512 };

struct activation {
    enum qkv_ffn_kind kind;
    float limit; /* of gates that clamp */
    /* set while the activation runs */
    const struct qkv_kernels *kernels;
    const void *x;
    void *y;
    enum qkv_dtype dtype; /* of x and y */
    const float *dy;
    float *dx;
    size_t F; /* columns of y */
    bool accumulate;
    bool slope; /* forward replaces x by act'(x), in fp32 without a gate: backward is then a product */
};

/* n numbers of x from `at` on: fp32 where they are, bf16 widened into `part`. */
static const float *part_of_x(const struct activation *o, size_t at, size_t n, float part[PART]) {
    if (o->dtype == QKV_F32) return (const float *)o->x + at;
    o->kernels->widen(part, (const uint16_t *)o->x + at, n);
    return part;
}

static void forward_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct activation *o = argument;
    const size_t size = qkv_type_size(o->dtype);
    qkv_activate(o->kernels, o->kind, o->dtype, (char *)o->y + begin * size, (const char *)o->x + begin * size,
                 end - begin);
}

static void backward_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct activation *o = argument;
    if (o->slope) {
        o->kernels->activation_backward_slope(o->dx + begin, o->accumulate, o->dy + begin, (const float *)o->x + begin,
                                              end - begin);
        return;
    }
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
    const size_t bytes = o->F * qkv_type_size(o->dtype);
    for (size_t n = begin; n < end; n++)
        qkv_activate_gated(o->kernels, o->kind, o->limit, o->dtype, (char *)o->y + n * bytes,
                           (const char *)o->x + n * 2 * bytes, o->F);
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
            o->kernels->gated_backward(o->kind, o->limit, dgate + f, dup + f, o->accumulate, o->dy + n * o->F + f, gate,
                                       up, count);
        }
    }
}

static bool activation_is_gated(const struct qkv_tape *tape, const struct qkv_node *node) {
    return node->row == &tape->rows[QKV_OPERATOR_gated];
}

static struct activation activation_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct activation o = *(const struct activation *)node->saved;
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    o.kernels = tape->ctx->kernels;
    o.x = x->data;
    o.y = y->data;
    o.dtype = x->dtype;
    o.F = y->columns;
    return o;
}

static enum qkv_status activation_backward(struct qkv_tape *tape, struct qkv_node *node, size_t count, size_t grain,
                                           qkv_range_body *body) {
    struct activation o = activation_of(tape, node);
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx) {
        qkv_parallel_range(tape->ctx, count, grain, body, &o);
    }
    return status;
}

static struct qkv_cost activation_cost(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(x) +
                                      (backward ? qkv_gradient_bytes(x) + qkv_gradient_bytes(y) : qkv_tensor_bytes(y))};
}

/* ---- activation ------------------------------------------------------------------------------------------------- */

/* The check of an activation without a gate: any shape is allowed. */
enum qkv_status qkv_check_activation(struct qkv_tape *tape, struct qkv_node *node) {
    (void)node;
    return tape->status;
}

enum qkv_status qkv_forward_activation(struct qkv_tape *tape, struct qkv_node *node) {
    struct activation o = activation_of(tape, node);
    qkv_parallel_range(tape->ctx, node->output->rows * node->output->columns, ELEMENTS_A_PIECE, forward_elements, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_activation(struct qkv_tape *tape, struct qkv_node *node) {
    return activation_backward(tape, node, node->output->rows * node->output->columns, ELEMENTS_A_PIECE,
                               backward_elements);
}

struct qkv_cost qkv_cost_activation(const struct qkv_node *node, bool backward) {
    return activation_cost(node, backward);
}

/* ---- gated ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_check_gated(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0];
    if (x->columns % 2 == 0) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "gated: x is (%zu,%zu); gate and up need an even number of columns", x->rows,
                    x->columns);
}

enum qkv_status qkv_forward_gated(struct qkv_tape *tape, struct qkv_node *node) {
    struct activation o = activation_of(tape, node);
    qkv_parallel_range(tape->ctx, node->output->rows, ROWS_A_PIECE, forward_gated_rows, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_gated(struct qkv_tape *tape, struct qkv_node *node) {
    return activation_backward(tape, node, node->output->rows, ROWS_A_PIECE, backward_gated_rows);
}

struct qkv_cost qkv_cost_gated(const struct qkv_node *node, bool backward) {
    return activation_cost(node, backward);
}

/* ---- fused with the product that makes the input ---------------------------------------------------------------- */

struct qkv_epilogue qkv_activation_epilogue(enum qkv_ffn_kind kind, bool gated, float limit, void *y, size_t F) {
    return (struct qkv_epilogue){
        .kind = gated ? QKV_EPILOGUE_gated : QKV_EPILOGUE_activation, .ffn = kind, .limit = limit, .out = y, .ld = F};
}

struct qkv_epilogue qkv_activation_fuse(struct qkv_tape *tape, struct qkv_node *node, bool backward) {
    const bool gated = activation_is_gated(tape, node);
    struct activation *o = node->saved;
    *o = activation_of(tape, node);
    o->slope = backward && !gated && o->dtype == QKV_F32;
    struct qkv_epilogue epilogue = qkv_activation_epilogue(o->kind, gated, o->limit, o->y, o->F);
    epilogue.slope = o->slope;
    return epilogue;
}

void qkv_activation_forward_rows(struct qkv_context *ctx, enum qkv_ffn_kind kind, bool gated, float limit, void *y,
                                 struct qkv_linear_rows x, size_t rows, size_t F) {
    struct activation o = {
        .kind = kind, .limit = limit, .kernels = ctx->kernels, .x = x.data, .y = y, .dtype = x.dtype, .F = F};
    if (gated)
        qkv_parallel_range(ctx, rows, ROWS_A_PIECE, forward_gated_rows, &o);
    else
        qkv_parallel_range(ctx, rows * F, ELEMENTS_A_PIECE, forward_elements, &o);
}

void qkv_activation_backward_rows(struct qkv_context *ctx, enum qkv_ffn_kind kind, bool gated, float limit, float *dx,
                                  const float *dy, struct qkv_linear_rows x, size_t rows, size_t F) {
    struct activation o = {.kind = kind,
                           .limit = limit,
                           .kernels = ctx->kernels,
                           .x = x.data,
                           .dtype = x.dtype,
                           .dy = dy,
                           .dx = dx,
                           .F = F};
    if (gated)
        qkv_parallel_range(ctx, rows, ROWS_A_PIECE, backward_gated_rows, &o);
    else
        qkv_parallel_range(ctx, rows * F, ELEMENTS_A_PIECE, backward_elements, &o);
}

/* ---- builders ---------------------------------------------------------------------------------------------------- */

bool qkv_activation_node(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, bool gated, float limit,
                         struct qkv_node *node) {
    struct activation *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return false;
    *o = (struct activation){.kind = kind, .limit = limit};
    *node = qkv_tape_node(tape, gated ? QKV_OPERATOR_gated : QKV_OPERATOR_activation, o);
    node->inputs[0] = x;
    if (!qkv_tape_check(tape, node)) return false;
    const size_t columns = gated ? x->columns / 2 : x->columns;
    node->output =
        x->dtype == QKV_F32 ? qkv_tape_tensor(tape, x->rows, columns) : qkv_tape_for_products(tape, x->rows, columns);
    return node->output != NULL;
}

struct qkv_tensor *qkv_op_activation(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind) {
    struct qkv_node node;
    return qkv_activation_node(tape, x, kind, false, 0, &node) ? qkv_tape_run(tape, &node) : NULL;
}

struct qkv_tensor *qkv_op_gated(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, float limit) {
    struct qkv_node node;
    return qkv_activation_node(tape, x, kind, true, limit, &node) ? qkv_tape_run(tape, &node) : NULL;
}
