/* cpu_weights: steps that compute the numbers of weights: new ones, and those of stored types as fp32. */
#include "backend/cpu_work.h"

enum { NUMBERS_A_STREAM = 1 << 16 };

static void start_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_start_weights *s = w->step;
    struct qkv_random random = qkv_random_start(s->seed, s->stream + begin / NUMBERS_A_STREAM);
    for (size_t i = begin; i < end; i++) {
        if (s->std > 0)
            s->out[i] = s->std * (float)qkv_random_normal(&random);
        else if (s->bound > 0)
            s->out[i] = (float)((double)s->bound * (2 * qkv_random_uniform(&random) - 1));
        else
            s->out[i] = s->starts ? s->starts[i] : s->constant;
    }
}

enum qkv_status qkv_cpu_start_weights(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_start_weights *s = call;
    qkv_cpu_ranges(ctx, s->count, NUMBERS_A_STREAM, start_piece, s);
    return QKV_OK;
}

static void unpack_row(void *argument, size_t row, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_unpack *s = w->step;
    qkv_stored_floats(w->ctx->kernels, s->stored, row, 0, s->columns, s->out + row * s->columns);
}

enum qkv_status qkv_cpu_unpack(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_unpack *s = call;
    qkv_cpu_each(ctx, s->rows, unpack_row, s);
    return QKV_OK;
}
