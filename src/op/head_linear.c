/* head_linear: a product per head with a weight of its own. With it latent attention absorbs its projections of keys
 * and values into queries and outputs (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.2).
 *
 * x (N, H·(in + tail)), w the heads' matrices stacked by rows: y (N, H·(out + tail)) has [x_h[0 … in)·w_h | x_h[in …)]
 * for each head h, w_h (in, out); or, transposed, x_h·w_hᵀ, w_h (out, in). Mixed precision is that of linear: numbers
 * are rounded to bf16 where they are packed, and y where it is stored. */
#include "op/op.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

struct head_linear {
    size_t heads, in, out, tail;
    bool transposed;
};

/* ---- the tails --------------------------------------------------------------------------------------------------- */

/* Copies the tail of each head from one matrix to another. */
struct tails {
    const struct qkv_kernels *kernels;
    size_t heads, from_width, to_width, tail; /* in bytes; in floats where `add` is set */
    const char *from;
    char *to;
    bool add;
};

static void tails_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct tails *o = argument;
    for (size_t i = begin * o->heads; i < end * o->heads; i++) {
        const char *from = o->from + (i + 1) * o->from_width - o->tail;
        char *to = o->to + (i + 1) * o->to_width - o->tail;
        if (o->add)
            o->kernels->add((float *)(void *)to, (const float *)(const void *)to, (const float *)(const void *)from,
                            o->tail / sizeof(float));
        else
            memcpy(to, from, o->tail);
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static struct qkv_operand head_operand(const void *data, enum qkv_dtype dtype, size_t row_stride,
                                       size_t column_stride) {
    return (struct qkv_operand){data, dtype, row_stride, column_stride};
}

/* The columns from `column` on; NULL of data that is NULL, as that of a plan may be. */
static void *head_at(const void *data, enum qkv_dtype dtype, size_t column) {
    return data ? (char *)(uintptr_t)data + column * qkv_type_size(dtype) : NULL;
}

/* w_h, or its transpose, as the right operand of a product; `rows` is the caller's and has the rows of head h where the
 * weight is in a mapped file. */
static void head_right(struct qkv_product_call *p, const struct qkv_tensor *weight, size_t heads, size_t h,
                       bool transposed, struct qkv_stored *rows) {
    const size_t first = weight->rows / heads * h, C = weight->columns;
    const bool stored = weight->operand.stored.count > 0;
    const float *w = stored || !weight->data ? NULL : (const float *)weight->data + first * C;
    p->b = transposed ? head_operand(w, QKV_F32, 1, C) : head_operand(w, QKV_F32, C, 1);
    *rows = weight->operand.stored;
    rows->first_row += first;
    p->stored = (struct qkv_stored_operand){.weights = stored ? rows : NULL, .transposed = transposed};
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_check_head_linear(struct qkv_tape *tape, struct qkv_node *node) {
    const struct head_linear *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1];
    if (o->heads && o->in && o->out && weight->rows % o->heads == 0 && x->columns == o->heads * (o->in + o->tail))
        return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE,
                    "head_linear: %zu heads do not fit x (%zu,%zu) and w (%zu,%zu) with tails of %zu", o->heads,
                    x->rows, x->columns, weight->rows, weight->columns, o->tail);
}

enum qkv_status qkv_forward_head_linear(struct qkv_tape *tape, struct qkv_node *node) {
    const struct head_linear *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->output;
    const struct qkv_product *product = qkv_operand_product_back(tape, weight);
    const size_t mark = qkv_arena_mark(tape->arena), size = qkv_type_size(y->dtype);
    enum qkv_status status = QKV_OK;
    struct qkv_stored rows;
    const size_t heads = tape->ctx->at_most ? 1 : o->heads; /* which take the same memory */
    for (size_t h = 0; h < heads && !status; h++) {
        struct qkv_product_call p = {
            .c = head_at(y->data, y->dtype, h * (o->out + o->tail)),
            .dtype = y->dtype,
            .ldc = y->columns,
            .a = head_operand(head_at(x->data, x->dtype, h * (o->in + o->tail)), x->dtype, x->columns, 1),
            .M = x->rows,
            .N = o->out,
            .K = o->in};
        head_right(&p, weight, o->heads, h, o->transposed, &rows);
        status = qkv_product_run(product, tape->ctx, tape->arena, &p);
    }
    struct tails t = {.kernels = tape->ctx->kernels,
                      .heads = o->heads,
                      .from_width = (o->in + o->tail) * size,
                      .to_width = (o->out + o->tail) * size,
                      .tail = o->tail * size,
                      .from = x->data,
                      .to = y->data};
    if (!status && o->tail) qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, tails_rows, &t);
    qkv_arena_release(tape->arena, mark);
    return status;
}

/* x as fp32: itself, or a widened copy. */
static const float *head_wide(struct qkv_tape *tape, const struct qkv_tensor *x) {
    const struct qkv_linear_rows rows = {x->data, x->dtype};
    return qkv_tape_convert(tape, &qkv_product_f32, rows, x->rows * x->columns).data;
}

/* The gradient of the matrix of head h: xᵀ·dy, or, transposed, dyᵀ·x. */
static enum qkv_status head_backward_weight(struct qkv_tape *tape, const struct qkv_node *node, size_t h,
                                            const float *x, const float *dy, float *dweight) {
    const struct head_linear *o = node->saved;
    const struct qkv_tensor *weight = node->inputs[1], *in = node->inputs[0];
    const struct qkv_product *product = qkv_operand_product_back(tape, weight);
    const size_t lx = in->columns, ly = node->output->columns;
    const float *left = o->transposed ? dy : x, *right = o->transposed ? x : dy;
    const struct qkv_product_call p = {.c = dweight + h * (weight->rows / o->heads) * weight->columns,
                                       .dtype = QKV_F32,
                                       .ldc = weight->columns,
                                       .a = head_operand(left, QKV_F32, 1, o->transposed ? ly : lx),
                                       .b = head_operand(right, QKV_F32, o->transposed ? lx : ly, 1),
                                       .M = weight->rows / o->heads,
                                       .N = weight->columns,
                                       .K = in->rows,
                                       .accumulate = true};
    if (!in->learning.order) return qkv_product_run(product, tape->ctx, tape->arena, &p);
    return product->sum(tape->ctx, tape->arena,
                        &(struct qkv_sums_call){p.c, p.ldc, p.a, p.b, p.M, p.N, &in->learning.order->sums, NULL});
}

enum qkv_status qkv_backward_head_linear(struct qkv_tape *tape, struct qkv_node *node) {
    const struct head_linear *o = node->saved;
    struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1];
    const struct qkv_product *product = qkv_operand_product_back(tape, weight);
    const size_t from = o->out + o->tail, to = o->in + o->tail;
    bool accumulate, always;
    enum qkv_status status = QKV_OK;
    float *dweight = qkv_gradient_out(tape, weight, &always, &status);
    float *dx = qkv_gradient_out(tape, x, &accumulate, &status);
    const float *dy = qkv_gradient_in(node);
    const size_t mark = qkv_arena_mark(tape->arena);
    const float *wide = dweight ? head_wide(tape, x) : NULL;
    struct qkv_stored rows;
    if (!status && tape->status) status = tape->status;
    for (size_t h = 0; h < o->heads && !status; h++) {
        struct qkv_product_call p = {.c = dx ? dx + h * to : NULL,
                                     .dtype = QKV_F32,
                                     .ldc = x->columns,
                                     .a = head_operand(dy + h * from, QKV_F32, node->output->columns, 1),
                                     .M = x->rows,
                                     .N = o->in,
                                     .K = o->out,
                                     .accumulate = accumulate};
        head_right(&p, weight, o->heads, h, !o->transposed, &rows);
        if (dx) status = qkv_product_run(product, tape->ctx, tape->arena, &p);
        if (!status && dweight) status = head_backward_weight(tape, node, h, wide + h * to, dy + h * from, dweight);
    }
    struct tails t = {.kernels = tape->ctx->kernels,
                      .heads = o->heads,
                      .from_width = from * sizeof(float),
                      .to_width = to * sizeof(float),
                      .tail = o->tail * sizeof(float),
                      .from = (const char *)dy,
                      .to = (char *)dx,
                      .add = accumulate};
    if (!status && dx && o->tail) qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, tails_rows, &t);
    qkv_arena_release(tape->arena, mark);
    return status;
}

struct qkv_cost qkv_cost_head_linear(const struct qkv_node *node, bool backward) {
    const struct head_linear *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1];
    const double once = 2 * (double)x->rows * (double)o->heads * (double)o->in * (double)o->out;
    const int products = backward ? (x->learning.requires_grad ? 1 : 0) + (weight->learning.requires_grad ? 1 : 0) : 1;
    return (struct qkv_cost){.flops = once * products};
}

struct qkv_tensor *qkv_op_head_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                      size_t heads, size_t tail, bool transposed) {
    struct head_linear *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    const size_t rows = heads ? weight->rows / heads : 0;
    *o = (struct head_linear){.heads = heads,
                              .in = transposed ? weight->columns : rows,
                              .out = transposed ? rows : weight->columns,
                              .tail = tail,
                              .transposed = transposed};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_head_linear, o);
    node.inputs[0] = x;
    node.inputs[1] = weight;
    if (!qkv_tape_check(tape, &node)) return NULL;
    const size_t columns = heads * (o->out + tail);
    node.output =
        x->dtype == QKV_F32 ? qkv_tape_tensor(tape, x->rows, columns) : qkv_tape_for_products(tape, x->rows, columns);
    return qkv_tape_run(tape, &node);
}
