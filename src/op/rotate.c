/* rotate: rotary position embedding (RoPE, Su et al. 2021), in place on some heads of a tensor.
 *
 * Pair p of a head at position t turns by the angle whose cosine and sine the table (positions, pairs, 2) holds:
 * (a, b) → (a·cos − b·sin, a·sin + b·cos). A rotation is orthogonal, so backward turns the gradient the other way. */
#include "op/op.h"

enum { ROWS_A_PIECE = 16 };

struct rotate {
    const struct qkv_kernels *kernels;
    float *x;
    size_t columns, column, heads, D, pairs;
    bool interleaved, inverse;
    const float *table;
    const int32_t *positions;
};

static void rotate_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct rotate *r = argument;
    for (size_t n = begin; n < end; n++) {
        r->kernels->rotate(r->x + n * r->columns + r->column, r->heads, r->D, r->pairs, r->interleaved,
                           r->table + (size_t)r->positions[n] * r->pairs * 2, r->inverse);
    }
}

enum qkv_status qkv_backward_rotate(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0];
    struct rotate r = *(const struct rotate *)node->saved;
    bool accumulate;
    enum qkv_status status = QKV_OK;
    /* x has no other user, so what came to the output is all there is: turn it where it lies. */
    r.x = qkv_gradient_out(tape, node->output, &accumulate, &status);
    r.inverse = true;
    if (status != QKV_OK) {
        return status;
    }
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, rotate_rows, &r);
    return qkv_gradient_pass(tape, node, x);
}

struct qkv_tensor *qkv_op_rotate(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t heads, size_t D,
                                 size_t pairs, bool interleaved, const float *table, const int32_t *positions) {
    if (!x || tape->status != QKV_OK) {
        return NULL;
    }
    if (column + heads * D > x->columns || 2 * pairs > D) {
        qkv_tape_failed(tape, qkv_fail(tape->ctx, QKV_SHAPE,
                                       "rotate: %zu heads of %zu from column %zu, %zu pairs, of x (%zu,%zu)", heads, D,
                                       column, pairs, x->rows, x->columns));
        return NULL;
    }
    struct rotate *r = qkv_tape_take_record(tape, sizeof *r);
    struct qkv_tensor *y = qkv_tape_view(tape, x->data, x->rows, x->columns);
    if (!r || !y) {
        return NULL;
    }
    *r = (struct rotate){.kernels = tape->ctx->kernels,
                         .x = x->data,
                         .columns = x->columns,
                         .column = column,
                         .heads = heads,
                         .D = D,
                         .pairs = pairs,
                         .interleaved = interleaved,
                         .table = table,
                         .positions = positions};
    qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, rotate_rows, r);
    return qkv_tape_record(tape, qkv_backward_rotate, (struct qkv_tensor *[]){x}, 1, y, r);
}
