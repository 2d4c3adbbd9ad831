/* rotate: rotary position embedding (RoPE, Su et al. 2021), in place on some heads of a tensor.
 *
 * Pair p of a head at position t is rotated by the angle whose cosine and sine the table (positions, pairs, 2) holds:
 * (a, b) → (a·cos − b·sin, a·sin + b·cos). A rotation is orthogonal, so backward rotates the gradient by the negative
 * angle. */
#include "op/op.h"

enum { ROWS_A_PIECE = 16 };

struct rotate {
    size_t column, heads, D, pairs;
    bool interleaved;
    const float *table;
    const int32_t *positions;
    /* set while it runs */
    const struct qkv_kernels *kernels;
    void *x;
    enum qkv_dtype dtype;
    float *rows; /* bf16: for each thread, the heads of a row as fp32 */
    size_t columns;
    bool inverse;
};

/* Columns from the first channel of the first head to the last rotated channel of the last head. */
static size_t rotate_width(const struct rotate *r) {
    return r->heads ? (r->heads - 1) * r->D + 2 * r->pairs : 0;
}

static void rotate_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct rotate *r = argument;
    const size_t width = rotate_width(r);
    for (size_t n = begin; n < end; n++) {
        const size_t at = n * r->columns + r->column;
        const bool wide = r->dtype == QKV_F32;
        float *x = wide ? (float *)r->x + at : r->rows + (size_t)thread * width;
        uint16_t *halves = (uint16_t *)r->x + at;
        if (!wide) {
            r->kernels->widen(x, halves, width);
        }
        r->kernels->rotate(x, r->heads, r->D, r->pairs, r->interleaved,
                           r->table + (size_t)r->positions[n] * r->pairs * 2, r->inverse);
        if (!wide) {
            r->kernels->narrow(halves, x, width);
        }
    }
}

static struct rotate rotate_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct rotate r = *(const struct rotate *)node->saved;
    r.kernels = tape->ctx->kernels;
    r.columns = node->output->columns;
    return r;
}

enum qkv_status qkv_check_rotate(struct qkv_tape *tape, struct qkv_node *node) {
    const struct rotate *r = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (r->column + rotate_width(r) <= x->columns && 2 * r->pairs <= r->D) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE,
                    "rotate: %zu heads of %zu with %zu pairs, from column %zu on, do not fit x (%zu,%zu)", r->heads,
                    r->D, r->pairs, r->column, x->rows, x->columns);
}

enum qkv_status qkv_forward_rotate(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0];
    struct rotate r = rotate_of(tape, node);
    size_t mark = qkv_arena_mark(tape->arena);
    r.x = x->data;
    r.dtype = x->dtype;
    r.rows =
        qkv_tape_take(tape, x->dtype == QKV_F32 ? 0 : (size_t)tape->ctx->threads * rotate_width(&r), sizeof(float));
    if (!r.rows) return QKV_MEMORY;
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, rotate_rows, &r);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

enum qkv_status qkv_backward_rotate(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0];
    struct rotate r = rotate_of(tape, node);
    bool accumulate;
    enum qkv_status status = QKV_OK;
    /* x has no other user, so the gradient of the output is complete and becomes that of x in place. */
    r.x = qkv_gradient_out(tape, node->output, &accumulate, &status);
    r.dtype = QKV_F32;
    r.inverse = true;
    if (status) return status;
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, rotate_rows, &r);
    return qkv_gradient_pass(tape, node, x);
}

struct qkv_cost qkv_cost_rotate(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0];
    return (struct qkv_cost){.bytes = 2 * (backward ? qkv_gradient_bytes(x) : qkv_tensor_bytes(x))};
}

struct qkv_tensor *qkv_op_rotate(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t heads, size_t D,
                                 size_t pairs, bool interleaved, const float *table, const int32_t *positions) {
    struct rotate *r = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *r) : NULL;
    if (!r) return NULL;
    *r = (struct rotate){.column = column,
                         .heads = heads,
                         .D = D,
                         .pairs = pairs,
                         .interleaved = interleaved,
                         .table = table,
                         .positions = positions};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_rotate, r);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_same(tape, x);
    return qkv_tape_run(tape, &node);
}
