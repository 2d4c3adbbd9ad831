/* linear: y = x·Wᵀ + b.
 *
 * x (N, in), W (out, in), b (1, out) or none, y (N, out).
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

static struct qkv_matrix matrix(const float *data, size_t row_stride, size_t column_stride) {
    return (struct qkv_matrix){.data = data, .row_stride = row_stride, .column_stride = column_stride};
}

enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, const float *x, size_t N, float *dx,
                                          bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          float *dbias) {
    size_t in = weight->columns, out = weight->rows;
    enum qkv_status status = QKV_OK;
    if (dx) {
        status = qkv_gemm(tape->ctx, tape->arena, dx, in, matrix(dy, out, 1), matrix(weight->data, in, 1), N, in, out,
                          (struct qkv_gemm_options){.accumulate = accumulate});
    }
    if (status == QKV_OK && dweight) {
        status = qkv_gemm(tape->ctx, tape->arena, dweight, in, matrix(dy, 1, out), matrix(x, in, 1), out, in, N,
                          (struct qkv_gemm_options){.accumulate = true});
    }
    if (status == QKV_OK && dbias) {
        struct column_sum s = {.ctx = tape->ctx, .out = dbias, .x = dy, .rows = N, .columns = out};
        qkv_parallel_range(tape->ctx, out, COLUMNS_A_PIECE, sum_columns, &s);
    }
    return status;
}

enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, float *y, const float *x, size_t N,
                                         const struct qkv_tensor *weight, const struct qkv_tensor *bias) {
    size_t in = weight->columns, out = weight->rows;
    return qkv_gemm(tape->ctx, tape->arena, y, out, matrix(x, in, 1), matrix(weight->data, 1, in), N, out, in,
                    (struct qkv_gemm_options){.bias = bias ? bias->data : NULL});
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
    return qkv_linear_backward_parts(tape, qkv_gradient_in(node), x->data, x->rows, dx, accumulate, weight, dweight,
                                     dbias);
}

struct qkv_tensor *qkv_op_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias) {
    if (!x || tape->status != QKV_OK) {
        return NULL;
    }
    if (qkv_tape_failed(tape, qkv_linear_check(tape, "linear", x, weight, bias))) {
        return NULL;
    }
    struct qkv_tensor *y = qkv_tape_tensor(tape, x->rows, weight->rows);
    if (!y || qkv_tape_failed(tape, qkv_linear_forward_parts(tape, y->data, x->data, x->rows, weight, bias))) {
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
