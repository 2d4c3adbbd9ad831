/* A toy: exact products of x and weights that are both blocks of 32 integers with a scale in binary32 (toydot). */
#include "kernel/epilogue.h"

#include <math.h>
#include <string.h>

enum { NUMBERS = 32, BYTES = 4 + NUMBERS };

static bool native(const struct qkv_kernels *kernels) {
    (void)kernels;
    return true;
}

static void toydot_round(const struct qkv_context *ctx, void *out, const float *x, size_t n) {
    (void)ctx;
    qkv_type_toydot.from_float(out, x, n);
}

/* A row of x times a row of the weights, each of `blocks` blocks. */
static float toydot_row(const signed char *x, const signed char *w, size_t blocks) {
    float acc = 0;
    for (; blocks--; x += BYTES, w += BYTES) {
        float x_scale, w_scale;
        int sum = 0;
        memcpy(&x_scale, x, sizeof x_scale);
        memcpy(&w_scale, w, sizeof w_scale);
        for (size_t k = 4; k < BYTES; k++) sum += x[k] * w[k];
        acc = fmaf(x_scale * w_scale, (float)sum, acc);
    }
    return acc;
}

static void toydot_column(void *argument, size_t n, int thread) {
    (void)thread;
    const struct qkv_product_call *call = argument;
    const size_t blocks = call->K / NUMBERS;
    size_t row = n;
    const struct qkv_stored_part *part = qkv_stored_part_of(call->stored.weights, &row);
    const signed char *w = (const signed char *)part->data + row * blocks * BYTES;
    for (size_t m = 0; m < call->M; m++) {
        const size_t at = m * call->ldc + n;
        float sum = toydot_row((const signed char *)call->a.data + m * blocks * BYTES, w, blocks), before = 0;
        char *c = (char *)call->c + at * qkv_type_size(call->dtype);
        if (call->accumulate) qkv_to_float(&before, c, call->dtype, 1);
        sum += before;
        if (call->bias) sum += call->bias[n];
        qkv_from_float(c, &sum, call->dtype, 1);
    }
}

struct toydot_rows {
    const struct qkv_kernels *kernels;
    const struct qkv_product_call *call;
};

static void toydot_epilogue(void *argument, size_t row, int thread) {
    (void)thread;
    const struct toydot_rows *r = argument;
    qkv_epilogue_run(r->kernels, r->call, row, 1, 0, r->call->N);
}

static enum qkv_status toydot_multiply(struct qkv_context *ctx, struct qkv_arena *scratch,
                                       const struct qkv_product_call *call) {
    struct qkv_product_call own = *call;
    (void)scratch;
    qkv_parallel(ctx, call->N, toydot_column, &own);
    struct toydot_rows rows = {ctx->kernels, call};
    if (call->epilogue.kind != QKV_EPILOGUE_none) qkv_parallel(ctx, call->M, toydot_epilogue, &rows);
    return QKV_OK;
}

static bool toydot_serves(enum qkv_dtype type) {
    return type == QKV_TOYDOT;
}

const struct qkv_product qkv_product_toydot = {.name = "toydot",
                                               .help = "blocks of 32 integers, added exactly",
                                               .promise = QKV_EXACT_BLOCKS,
                                               .precision = -1,
                                               .serves = toydot_serves,
                                               .activation = QKV_F32,
                                               .form = QKV_TOYDOT,
                                               .round = toydot_round,
                                               .native = native,
                                               .multiply = toydot_multiply};
