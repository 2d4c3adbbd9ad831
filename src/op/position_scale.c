/* position_scale: multiplies some columns of each row by a number that grows with the row's position, in place, as the
 * queries of Llama 4 and Ministral 3 (Nakanishi 2025, "Scalable-softmax").
 *
 * Row n is multiplied by f(t) = 1 + beta·ln(1 + ⌊(t + offset)/length⌋), t = positions[n]; dx = f(t)·dy. */
#include "base/math.h"
#include "op/op.h"

enum { ROWS_A_PIECE = 16 };

struct position_scale {
    size_t column, width;
    struct qkv_temperature_spec rule;
    const int32_t *positions;
    /* set while it runs */
    const struct qkv_kernels *kernels;
    void *x;
    enum qkv_dtype dtype;
    float *rows; /* bf16: for each thread, the columns of a row as fp32 */
    size_t columns;
};

static float position_factor(const struct qkv_temperature_spec *rule, int32_t t) {
    const int64_t whole = ((int64_t)t + rule->offset) / rule->length;
    return (float)(1 + rule->beta * qkv_log(1 + (double)whole));
}

static void position_scale_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct position_scale *o = argument;
    for (size_t n = begin; n < end; n++) {
        const size_t at = n * o->columns + o->column;
        const float factor = position_factor(&o->rule, o->positions[n]);
        const bool wide = o->dtype == QKV_F32;
        float *x = wide ? (float *)o->x + at : o->rows + (size_t)thread * o->width;
        uint16_t *halves = (uint16_t *)o->x + at;
        if (!wide) o->kernels->widen(x, halves, o->width);
        for (size_t i = 0; i < o->width; i++) x[i] *= factor;
        if (!wide) o->kernels->narrow(halves, x, o->width);
    }
}

static struct position_scale position_scale_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct position_scale o = *(const struct position_scale *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.columns = node->output->columns;
    return o;
}

enum qkv_status qkv_check_position_scale(struct qkv_tape *tape, struct qkv_node *node) {
    const struct position_scale *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (o->column + o->width <= x->columns && o->rule.length > 0) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE,
                    "position_scale: %zu columns from column %zu on, length %d, do not fit x (%zu,%zu)", o->width,
                    o->column, o->rule.length, x->rows, x->columns);
}

enum qkv_status qkv_forward_position_scale(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0];
    struct position_scale o = position_scale_of(tape, node);
    const size_t mark = qkv_arena_mark(tape->arena);
    o.x = x->data;
    o.dtype = x->dtype;
    o.rows = qkv_tape_take(tape, x->dtype == QKV_F32 ? 0 : (size_t)tape->ctx->threads * o.width, sizeof(float));
    if (!o.rows) return QKV_MEMORY;
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, position_scale_rows, &o);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

enum qkv_status qkv_backward_position_scale(struct qkv_tape *tape, struct qkv_node *node) {
    struct position_scale o = position_scale_of(tape, node);
    bool accumulate;
    enum qkv_status status = QKV_OK;
    /* x has no other user, so the gradient of the output is complete and becomes that of x in place. */
    o.x = qkv_gradient_out(tape, node->output, &accumulate, &status);
    o.dtype = QKV_F32;
    if (status) return status;
    qkv_parallel_range(tape->ctx, node->inputs[0]->rows, ROWS_A_PIECE, position_scale_rows, &o);
    return qkv_gradient_pass(tape, node, node->inputs[0]);
}

struct qkv_cost qkv_cost_position_scale(const struct qkv_node *node, bool backward) {
    const struct position_scale *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    const double part = (double)o->width / (double)x->columns;
    return (struct qkv_cost){.bytes = 2 * part * (backward ? qkv_gradient_bytes(x) : qkv_tensor_bytes(x))};
}

struct qkv_tensor *qkv_op_position_scale(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t width,
                                         const struct qkv_temperature_spec *rule, const int32_t *positions) {
    if (!rule->given) return x;
    struct position_scale *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct position_scale){.column = column, .width = width, .rule = *rule, .positions = positions};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_position_scale, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_same(tape, x);
    return qkv_tape_run(tape, &node);
}
