/* linear_products: the three products of a linear layer, y = x·Wᵀ + b, dx = dy·W and dW += dyᵀ·x, and db += Σ_n dy[n].
 * The operand's product (kernel/product.h) says in which form x, W and dy are multiplied. A weight with `fp32` set (a
 * router's) has fp32 products and fp32 y, of x as it is stored. */
#include "op/inputs.h"
#include "op/linear.h"
#include "op/weights.h"

enum { COLUMNS_A_PIECE = 64 };

struct column_sum {
    struct qkv_context *ctx;
    float *out;
    const float *x;
    size_t rows, columns;
};

static void sum_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct column_sum *s = argument;
    s->ctx->kernels->column_sums(s->out + begin, s->x + begin, s->columns, s->rows, end - begin);
}

static struct qkv_operand linear_operand(struct qkv_linear_rows x, size_t row_stride, size_t column_stride) {
    return (struct qkv_operand){x.data, x.dtype, row_stride, column_stride};
}

static struct qkv_stored_operand linear_stored(const struct qkv_tensor *weight, bool transposed) {
    return (struct qkv_stored_operand){.weights = weight->operand.stored.count ? &weight->operand.stored : NULL,
                                       .transposed = transposed,
                                       .turned = weight->operand.divided && !transposed ? weight->operand.packed->data
                                                                                        : NULL};
}

static struct qkv_linear_rows linear_floats(const float *data) {
    return (struct qkv_linear_rows){(void *)(uintptr_t)data, QKV_F32};
}

static const void *linear_packed(const struct qkv_packed_weight *packed) {
    return packed ? packed->data : NULL;
}

/* The next run of trainable rows of an operand, until false. An operand without a list of weights has one run: all
 * rows. */
static bool linear_learns(const struct qkv_tensor *operand, size_t rows, size_t *begin, size_t *end) {
    if (operand->operand.weight_count) return qkv_weights_learn(operand, begin, end);
    *end = rows;
    return *begin < rows;
}

/* The carry of the gradient of some rows of a weight, which begins at `own`; NULL: the gradient goes to `own`. */
static struct qkv_order_carry *linear_carry(const struct qkv_tensor *weight, const struct qkv_linear_carry *how,
                                            const float *own, struct qkv_order_carry *carry) {
    const struct qkv_gradient_carry *all = how->done ? weight->learning.carry : NULL;
    if (!all || !all->own) return NULL;
    const size_t at = (size_t)(own - all->own);
    *carry = (struct qkv_order_carry){.to = all->to + at, .goes_on = how->goes_on, .count = how->more ? 0 : all->count};
    for (size_t i = 0; i < carry->count; i++) carry->earlier[i] = all->earlier[i] + at;
    return carry;
}

struct carried {
    const struct qkv_order_carry *rows;
    bool *done;
};

/* A plan does not set it: an expert may have no rows. */
static enum qkv_status linear_carried(void *argument) {
    const struct carried *c = argument;
    *c->done = c->rows->done;
    return QKV_OK;
}

/* dW (+)= dyᵀ·x of the rows [begin, end) of W; dy has ld columns. */
static enum qkv_status linear_backward_rows(struct qkv_tape *tape, const float *dy, size_t ld, struct qkv_linear_rows x,
                                            size_t N, const struct qkv_tensor *weight, float *dweight, size_t begin,
                                            size_t end, const struct qkv_row_order *order,
                                            struct qkv_linear_carry carry) {
    const struct qkv_product *product = qkv_operand_product_back(tape, weight);
    const size_t in = weight->columns;
    float *own = dweight + begin * in;
    const struct qkv_operand a = linear_operand(linear_floats(dy + begin), 1, ld), b = linear_operand(x, in, 1);
    if (!order)
        return qkv_product_run(product, tape->ctx, tape->arena,
                               &(struct qkv_product_call){.c = own,
                                                          .dtype = QKV_F32,
                                                          .ldc = in,
                                                          .a = a,
                                                          .b = b,
                                                          .M = end - begin,
                                                          .N = in,
                                                          .K = N,
                                                          .accumulate = true});
    struct qkv_order_carry rows, *to = linear_carry(weight, &carry, own, &rows);
    const struct qkv_sums_call sums = {own, in, a, b, end - begin, in, &order->sums, to};
    enum qkv_status status = product->sum(tape->ctx, tape->arena, &sums);
    struct carried carried = {to, carry.done};
    return to && !status ? qkv_compute(tape->ctx, linear_carried, &carried) : status;
}

enum qkv_status qkv_linear_backward_weight(struct qkv_tape *tape, const float *dy, size_t ld, struct qkv_linear_rows x,
                                           size_t N, const struct qkv_tensor *weight, float *dweight,
                                           const struct qkv_row_order *order, struct qkv_linear_carry carry) {
    size_t begin, end;
    enum qkv_status status = QKV_OK;
    for (begin = 0; !status && linear_learns(weight, weight->rows, &begin, &end); begin = end)
        status = linear_backward_rows(tape, dy, ld, x, N, weight, dweight, begin, end, order, carry);
    return status;
}

static enum qkv_status linear_backward_x(struct qkv_tape *tape, const float *dy, size_t N, float *dx, bool accumulate,
                                         const struct qkv_tensor *weight) {
    const size_t in = weight->columns, out = weight->rows;
    const struct qkv_product_call call = {.c = dx,
                                          .dtype = QKV_F32,
                                          .ldc = in,
                                          .accumulate = accumulate,
                                          .a = linear_operand(linear_floats(dy), out, 1),
                                          .b = linear_operand(linear_floats(weight->data), in, 1),
                                          .stored = linear_stored(weight, false),
                                          .packed = linear_packed(weight->operand.packed_transposed),
                                          .M = N,
                                          .N = in,
                                          .K = out};
    return qkv_product_run(qkv_operand_product_back(tape, weight), tape->ctx, tape->arena, &call);
}

enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, struct qkv_linear_rows x, size_t N,
                                          float *dx, bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          const struct qkv_tensor *bias, float *dbias,
                                          const struct qkv_row_order *order, struct qkv_linear_carry carry) {
    const size_t out = weight->rows, mark = qkv_arena_mark(tape->arena);
    enum qkv_status status = QKV_OK;
    size_t begin, end;
    if (dweight) x = qkv_tape_convert(tape, qkv_operand_product_back(tape, weight), x, N * weight->columns);
    if (tape->status) return tape->status;
    if (dx) status = linear_backward_x(tape, dy, N, dx, accumulate, weight);
    for (begin = 0; !status && dweight && linear_learns(weight, out, &begin, &end); begin = end)
        status = linear_backward_rows(tape, dy, out, x, N, weight, dweight, begin, end, order, carry);
    for (begin = 0; !status && dbias && linear_learns(bias, out, &begin, &end); begin = end) {
        struct column_sum s = {.ctx = tape->ctx, .out = dbias + begin, .x = dy + begin, .rows = N, .columns = out};
        if (order)
            qkv_order_columns(tape->ctx, &order->sums, s.out, s.x, out, end - begin);
        else
            qkv_parallel_range(tape->ctx, end - begin, COLUMNS_A_PIECE, sum_columns, &s);
    }
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_linear_rows y, struct qkv_linear_rows x,
                                         size_t N, const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                         struct qkv_epilogue epilogue) {
    const struct qkv_product *product = qkv_operand_product(tape, weight);
    const size_t mark = qkv_arena_mark(tape->arena), in = weight->columns;
    if (tape->ctx->inputs && qkv_tape_failed(tape, qkv_inputs_add(tape->ctx, weight, x, N))) return tape->status;
    x = qkv_tape_convert(tape, product, x, N * in);
    if (tape->status) return tape->status;
    const struct qkv_product_call call = {
        .c = y.data,
        .dtype = y.dtype,
        .ldc = weight->rows,
        .a = linear_operand(x, in, 1),
        .b = linear_operand(linear_floats(weight->data), 1, in),
        .stored = linear_stored(weight, true),
        .packed = product == weight->operand.product ? linear_packed(weight->operand.packed) : NULL,
        .bias = bias ? bias->data : NULL,
        .epilogue = epilogue,
        .M = N,
        .N = weight->rows,
        .K = in};
    const enum qkv_status status = qkv_product_run(product, tape->ctx, tape->arena, &call);
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias) {
    if (x->columns == weight->columns && (!bias || bias->columns == weight->rows)) return QKV_OK;
    if (x->columns != weight->columns) {
        qkv_fail(tape->ctx, QKV_SHAPE, "%s: x is (%zu,%zu) but w (%zu,%zu) expects %zu columns", what, x->rows,
                 x->columns, weight->rows, weight->columns, weight->columns);
    } else {
        qkv_fail(tape->ctx, QKV_SHAPE, "%s: w is (%zu,%zu) but the bias has %zu elements", what, weight->rows,
                 weight->columns, bias->columns);
    }
    if (weight->operand.name) {
        qkv_fail_at(tape->ctx, "%s", weight->operand.name);
    }
    return QKV_SHAPE;
}
