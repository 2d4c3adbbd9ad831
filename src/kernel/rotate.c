/* rotate: rotates the heads of a view in place, each row by its position. */
#include "kernel/kernel.h"

struct rotate {
    const struct qkv_kernels *kernels;
    const struct qkv_view *x;
    const struct qkv_rotation *r;
    float *scratch;
};

static void rotate_row(void *argument, size_t row, int thread) {
    const struct rotate *call = argument;
    const struct qkv_view *x = call->x;
    const struct qkv_rotation *r = call->r;
    size_t t = row % x->T, h = row / x->T % x->H, b = row / x->T / x->H, at = b * x->batch + h * x->head + t * x->row;
    size_t position = r->positions ? (size_t)r->positions[b * x->T + t] : t, channels = 2 * r->pairs;
    const float *table = r->table + position * r->pairs * 2;
    if (x->dtype == QKV_F32) {
        call->kernels->rotate((float *)x->data + at, 1, x->D, r->pairs, r->interleaved, table, r->inverse);
        return;
    }
    float *copy = call->scratch + (size_t)thread * channels;
    qkv_to_float(copy, (uint16_t *)x->data + at, x->dtype, channels);
    call->kernels->rotate(copy, 1, channels, r->pairs, r->interleaved, table, r->inverse);
    qkv_from_float((uint16_t *)x->data + at, copy, x->dtype, channels);
}

void qkv_rotate_heads(struct qkv_context *ctx, const struct qkv_view *x, const struct qkv_rotation *rotation,
                      float *scratch) {
    struct rotate call = {.kernels = ctx->kernels, .x = x, .r = rotation, .scratch = scratch};
    qkv_parallel(ctx, x->B * x->H * x->T, rotate_row, &call);
}
