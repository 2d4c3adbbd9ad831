/* clip: clamps some columns of a tensor to ±limit, in place, as MPT and OLMo clamp queries, keys and values.
 *
 * y = max(−limit, min(limit, x)); dx = dy where |x| <= limit, else 0. Backward needs one bit per number. */
#include "op/op.h"

enum { ROWS_A_PIECE = 16 };

struct clip {
    size_t column, width;
    float limit;
    uint8_t *inside; /* (N, ceil(width / 8)): the bits for backward; NULL: backward will not run */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    void *x;
    enum qkv_dtype dtype;
    float *rows; /* bf16: for each thread, the columns of a row as fp32 */
    size_t columns;
};

static size_t clip_bytes(const struct clip *o) {
    return (o->width + 7) / 8;
}

static void clip_forward_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct clip *o = argument;
    for (size_t n = begin; n < end; n++) {
        const size_t at = n * o->columns + o->column;
        uint8_t *inside = o->inside ? o->inside + n * clip_bytes(o) : NULL;
        if (o->dtype == QKV_F32) {
            o->kernels->clip((float *)o->x + at, inside, o->limit, o->width);
            continue;
        }
        float *row = o->rows + (size_t)thread * o->width;
        uint16_t *halves = (uint16_t *)o->x + at;
        o->kernels->widen(row, halves, o->width);
        o->kernels->clip(row, inside, o->limit, o->width);
        o->kernels->narrow(halves, row, o->width);
    }
}

static void clip_backward_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct clip *o = argument;
    for (size_t n = begin; n < end; n++) {
        float *dx = (float *)o->x + n * o->columns + o->column;
        const uint8_t *inside = o->inside + n * clip_bytes(o);
        for (size_t i = 0; i < o->width; i++) dx[i] = inside[i / 8] >> i % 8 & 1 ? dx[i] : 0;
    }
}

static struct clip clip_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct clip o = *(const struct clip *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.columns = node->output->columns;
    return o;
}

enum qkv_status qkv_check_clip(struct qkv_tape *tape, struct qkv_node *node) {
    const struct clip *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (o->column + o->width <= x->columns && o->limit > 0) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "clip: %zu columns from column %zu on, limit %g, do not fit x (%zu,%zu)",
                    o->width, o->column, (double)o->limit, x->rows, x->columns);
}

enum qkv_status qkv_forward_clip(struct qkv_tape *tape, struct qkv_node *node) {
    struct clip *saved = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (tape->recording && x->learning.requires_grad) saved->inside = qkv_tape_take(tape, x->rows, clip_bytes(saved));
    struct clip o = clip_of(tape, node);
    const size_t mark = qkv_arena_mark(tape->arena);
    o.x = x->data;
    o.dtype = x->dtype;
    o.rows = qkv_tape_take(tape, x->dtype == QKV_F32 ? 0 : (size_t)tape->ctx->threads * o.width, sizeof(float));
    if (tape->status) return tape->status;
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, clip_forward_rows, &o);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

enum qkv_status qkv_backward_clip(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0];
    struct clip o = clip_of(tape, node);
    bool accumulate;
    enum qkv_status status = QKV_OK;
    /* x has no other user, so the gradient of the output is complete and becomes that of x in place. */
    o.x = qkv_gradient_out(tape, node->output, &accumulate, &status);
    if (status) return status;
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, clip_backward_rows, &o);
    return qkv_gradient_pass(tape, node, x);
}

struct qkv_cost qkv_cost_clip(const struct qkv_node *node, bool backward) {
    const struct clip *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    const double part = (double)o->width / (double)x->columns, bits = (double)(x->rows * clip_bytes(o));
    const double bytes = 2 * part * (backward ? qkv_gradient_bytes(x) : qkv_tensor_bytes(x));
    return (struct qkv_cost){.bytes = bytes + (o->inside ? bits : 0)};
}

struct qkv_tensor *qkv_op_clip(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t width, float limit) {
    if (!(limit > 0)) return x;
    struct clip *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct clip){.column = column, .width = width, .limit = limit};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_clip, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_same(tape, x);
    return qkv_tape_run(tape, &node);
}
