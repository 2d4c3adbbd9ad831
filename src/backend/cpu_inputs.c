/* cpu_inputs: steps that copy a caller's numbers to the rows of a matrix: vectors, patches of images, frames. */
#include "backend/cpu_work.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static void take_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_take_rows *t = w->step;
    for (size_t n = begin; n < end; n++) {
        const size_t from = t->index ? (size_t)t->index[n] : n;
        memcpy(t->to + n * t->columns, t->from + from * t->columns, t->columns * sizeof *t->to);
    }
}

enum qkv_status qkv_cpu_take_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_take_rows *t = call;
    qkv_cpu_ranges(ctx, t->rows, ROWS_A_PIECE, take_rows, t);
    return QKV_OK;
}

static bool all_finite(const float *x, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += 0 * x[i];
    return sum == 0;
}

static void clean_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_clean_rows *c = w->step;
    const size_t bytes = c->columns * sizeof *c->to;
    for (size_t n = begin; n < end; n++) {
        const size_t j = c->past + n % c->T, b = n / c->T;
        const bool padding = (c->lengths && j >= (size_t)c->lengths[b]) || (c->starts && j < (size_t)c->starts[b]);
        if (padding && !all_finite(c->from + n * c->columns, c->columns))
            memset(c->to + n * c->columns, 0, bytes);
        else
            memcpy(c->to + n * c->columns, c->from + n * c->columns, bytes);
    }
}

enum qkv_status qkv_cpu_clean_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_clean_rows *c = call;
    qkv_cpu_ranges(ctx, c->B * c->T, ROWS_A_PIECE, clean_rows, c);
    return QKV_OK;
}

/* ---- patches and frames ---------------------------------------------------------------------------------------- */

static void patch_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_patches *s = w->step;
    const size_t P = s->patch, width = s->width, across = width / P, size = s->height * width;
    const size_t patches = across * (s->height / P);
    for (size_t n = begin; n < end; n++) {
        const size_t image = n / patches, top = n % patches / across * P, left = n % across * P;
        float *to = s->to + n * s->channels * P * P;
        for (size_t c = 0; c < s->channels; c++)
            for (size_t y = 0; y < P; y++, to += P)
                memcpy(to, s->from + (image * s->channels + c) * size + (top + y) * width + left, P * sizeof *to);
    }
}

enum qkv_status qkv_cpu_patches(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_patches *s = call;
    const size_t patches = (s->width / s->patch) * (s->height / s->patch);
    qkv_cpu_ranges(ctx, s->images * patches, ROWS_A_PIECE, patch_rows, s);
    return QKV_OK;
}

static void frame_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_frame_rows *f = w->step;
    size_t b = 0;
    for (size_t n = begin; n < end; n++) {
        while (n >= (size_t)f->start[b + 1]) b++;
        const size_t t = n - (size_t)f->start[b];
        const float *from = f->from + b * f->channels * f->frames + t;
        for (size_t c = 0; c < f->channels; c++) f->to[n * f->channels + c] = t < f->frames ? from[c * f->frames] : 0;
    }
}

enum qkv_status qkv_cpu_frame_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_frame_rows *f = call;
    qkv_cpu_ranges(ctx, f->rows, ROWS_A_PIECE, frame_rows, f);
    return QKV_OK;
}
