/* linear: y = x·Wᵀ + b.
 *
 * x (N, in), W (out, in), b (1, out) or none, y (N, out). In mixed precision x, W and dy are rounded to bf16 where they are
 * packed, and y where it is stored.
 * Backward: dx = dy·W, dW += dyᵀ·x, db += Σ_n dy[n]. */
#include "op/linear.h"

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

/* One product of the three, in the context's precision: c (+)= a·b + bias. */
struct product {
    struct qkv_rows c;
    bool accumulate;
    struct qkv_operand a, b;
    struct qkv_panels *panels; /* of b, or NULL */
    const float *bias;
    size_t M, N, K;
};

static struct qkv_operand operand(struct qkv_rows x, size_t row_stride, size_t column_stride) {
    return (struct qkv_operand){x.data, x.dtype, row_stride, column_stride};
}

static struct qkv_matrix matrix(struct qkv_operand x) {
    return (struct qkv_matrix){.data = x.data, .row_stride = x.row_stride, .column_stride = x.column_stride};
}

static enum qkv_status multiply(struct qkv_tape *tape, const struct product *p) {
    if (tape->ctx->precision == QKV_FP32) {
        return qkv_gemm(tape->ctx, tape->arena, p->c.data, p->N, matrix(p->a), matrix(p->b), p->M, p->N, p->K,
                        (struct qkv_gemm_options){.accumulate = p->accumulate, .bias = p->bias});
    }
    struct qkv_bf16_options options = {.dtype = p->c.dtype, .accumulate = p->accumulate, .bias = p->bias};
    if (p->panels) {
        if (p->panels->packed != *p->panels->now && !tape->ctx->dry) {
            qkv_bf16_pack(tape->ctx, p->panels->data, p->b, p->K, p->N);
            p->panels->packed = *p->panels->now;
        }
        options.panels = p->panels->data;
    }
    return qkv_gemm_bf16(tape->ctx, tape->arena, p->c.data, p->N, p->a, p->b, p->M, p->N, p->K, options);
}

static struct qkv_rows floats(const float *data) {
    return (struct qkv_rows){(void *)(uintptr_t)data, QKV_F32};
}

enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, struct qkv_rows x, size_t N,
                                          float *dx, bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          float *dbias) {
    size_t in = weight->columns, out = weight->rows;
    enum qkv_status status = QKV_OK;
    if (dx) {
        struct product p = {floats(dx),
                            accumulate,
                            operand(floats(dy), out, 1),
                            operand(floats(weight->data), in, 1),
                            weight->turned,
                            NULL,
                            N,
                            in,
                            out};
        status = multiply(tape, &p);
    }
    if (status == QKV_OK && dweight) {
        struct product p = {
            floats(dweight), true, operand(floats(dy), 1, out), operand(x, in, 1), NULL, NULL, out, in, N};
        status = multiply(tape, &p);
    }
    if (status == QKV_OK && dbias) {
        struct column_sum s = {.ctx = tape->ctx, .out = dbias, .x = dy, .rows = N, .columns = out};
        qkv_parallel_range(tape->ctx, out, COLUMNS_A_PIECE, sum_columns, &s);
    }
    return status;
}

enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_rows y, struct qkv_rows x, size_t N,
                                         const struct qkv_tensor *weight, const struct qkv_tensor *bias) {
    size_t in = weight->columns, out = weight->rows;
    struct product p = {y,
                        false,
                        operand(x, in, 1),
                        operand(floats(weight->data), 1, in),
                        weight->panels,
                        bias ? bias->data : NULL,
                        N,
                        out,
                        in};
    return multiply(tape, &p);
}

enum qkv_status qkv_backward_linear(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1], *bias = node->inputs[2];
    enum qkv_status status = QKV_OK;
    bool accumulate, always;
    float *dweight = qkv_gradient_out(tape, weight, &always, &status);
    float *dbias = qkv_gradient_out(tape, bias, &always, &status);
    float *dx = qkv_gradient_out(tape, x, &accumulate, &status);
    if (status != QKV_OK) {
        return status;
    }
    return qkv_linear_backward_parts(tape, qkv_gradient_in(node), (struct qkv_rows){x->data, x->dtype}, x->rows, dx,
                                     accumulate, weight, dweight, dbias);
}

struct qkv_tensor *qkv_op_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias, enum qkv_result result) {
    if (!x || tape->status != QKV_OK) {
        return NULL;
    }
    if (qkv_tape_failed(tape, qkv_linear_check(tape, "linear", x, weight, bias))) {
        return NULL;
    }
    struct qkv_tensor *y = result == QKV_RESULT_NARROW ? qkv_tape_narrow(tape, x->rows, weight->rows)
                                                       : qkv_tape_tensor(tape, x->rows, weight->rows);
    if (!y) {
        return NULL;
    }
    struct qkv_rows to = {y->data, y->dtype}, from = {x->data, x->dtype};
    if (qkv_tape_failed(tape, qkv_linear_forward_parts(tape, to, from, x->rows, weight, bias))) {
        return NULL;
    }
    return qkv_tape_record(tape, qkv_backward_linear, (struct qkv_tensor *[]){x, weight, bias}, 3, y, NULL);
}

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias) {
    if (x->columns == weight->columns && (!bias || bias->columns == weight->rows)) {
        return QKV_OK;
    }
    if (x->columns != weight->columns) {
        qkv_fail(tape->ctx, QKV_SHAPE, "%s: x is (%zu,%zu) but w (%zu,%zu) expects %zu columns", what, x->rows,
                 x->columns, weight->rows, weight->columns, weight->columns);
    } else {
        qkv_fail(tape->ctx, QKV_SHAPE, "%s: w is (%zu,%zu) but the bias has %zu elements", what, weight->rows,
                 weight->columns, bias->columns);
    }
    if (weight->name) {
        qkv_fail_at(tape->ctx, "%s", weight->name);
    }
    return QKV_SHAPE;
}
