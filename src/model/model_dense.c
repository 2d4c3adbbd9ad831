/* The dense layers behind a pooling: y = act(W·x + b), plus x or R·x where the layer has a residual. */
#include <math.h>
#include <stdlib.h>

#include "kernel/product.h"
#include "model/model.h"

struct dense_product {
    struct qkv_context *ctx;
    struct qkv_arena *arena;
    const struct qkv_model_dense *dense;
    const float *x, *weight, *bias;
    float *y;
    size_t rows;
    bool accumulate;
};

bool qkv_vector_normalize(float *x, size_t C, bool normalize) {
    double sum = 0;
    for (size_t c = 0; c < C; c++) sum += (double)x[c] * (double)x[c];
    if (!isfinite(sum)) return false;
    for (size_t c = 0; c < C && normalize && sum > 0; c++) x[c] = (float)((double)x[c] / sqrt(sum));
    return true;
}

static enum qkv_status dense_multiply(void *argument) {
    const struct dense_product *p = argument;
    const struct qkv_model_dense *d = p->dense;
    const struct qkv_product_call call = {.c = p->y,
                                          .dtype = QKV_F32,
                                          .ldc = d->out,
                                          .a = {p->x, QKV_F32, d->in, 1},
                                          .b = {p->weight, QKV_F32, 1, d->in},
                                          .M = p->rows,
                                          .N = d->out,
                                          .K = d->in,
                                          .bias = p->bias,
                                          .accumulate = p->accumulate};
    return qkv_product_f32.multiply(p->ctx, p->arena, &call);
}

static enum qkv_status dense_product_measure(struct dense_product p, size_t *bytes) {
    struct qkv_arena measured = {0};
    p.arena = &measured;
    return qkv_plan(p.ctx, &measured, "a dense layer", dense_multiply, &p, bytes);
}

/* y (+)= x·Wᵀ (+ b), in fp32. */
static enum qkv_status dense_product(struct dense_product p) {
    size_t bytes = 0;
    enum qkv_status status = dense_product_measure(p, &bytes);
    if (!status) status = qkv_workspace(p.ctx, bytes, &p.arena);
    return status ? status : dense_multiply(&p);
}

/* Computes y of one layer from rows of x. */
static enum qkv_status dense_layer(struct qkv_context *ctx, const struct qkv_model_dense *d, float *x, size_t rows,
                                   float *y) {
    for (size_t i = 0; i < rows && d->normalize; i++) qkv_vector_normalize(x + i * d->in, d->in, true);
    struct dense_product p = {
        .ctx = ctx, .dense = d, .x = x, .weight = d->weight, .bias = d->bias, .rows = rows, .y = y};
    enum qkv_status status = dense_product(p);
    if (!status && d->activation >= 0)
        ctx->kernels->activation_forward((enum qkv_ffn_kind)d->activation, y, y, rows * d->out);
    for (size_t i = 0; i < rows * d->out && !status && d->residual && !d->has_shortcut; i++) y[i] += x[i];
    p.weight = d->shortcut, p.bias = NULL, p.accumulate = true;
    return status || !d->has_shortcut ? status : dense_product(p);
}

enum qkv_status qkv_model_dense_apply(struct qkv_context *ctx, const struct qkv_model_pooling *pooling, size_t rows,
                                      float **x) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < pooling->dense_count && !status; i++) {
        float *y = qkv_allocate(ctx, rows * pooling->dense[i].out, sizeof *y);
        status = y ? dense_layer(ctx, &pooling->dense[i], *x, rows, y) : QKV_MEMORY;
        free(*x);
        *x = y;
    }
    return status;
}

enum qkv_status qkv_model_dense_measure(struct qkv_model *model, size_t rows, size_t *bytes) {
    const struct qkv_model_pooling *pooling = &model->pooling;
    *bytes = 0;
    for (size_t i = 0; i < pooling->dense_count; i++) {
        const struct qkv_model_dense *d = &pooling->dense[i];
        size_t product = 0;
        enum qkv_status status =
            dense_product_measure((struct dense_product){.ctx = model->ctx, .dense = d, .rows = rows}, &product);
        if (status) return status;
        *bytes = qkv_max(*bytes, product + rows * (d->in + d->out) * sizeof(float));
    }
    return QKV_OK;
}
