/* cpu_memory: steps that copy, clear, add and move numbers. */
#include "backend/cpu_work.h"

#include <string.h>

enum { BYTES_A_PIECE = 1 << 16, FLOATS_A_PIECE = 1 << 14, SPREAD_COLUMNS = 4096 };

static void copy_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_copy *c = w->step;
    memcpy((char *)c->to + begin, (const char *)c->from + begin, end - begin);
}

/* Ranges that overlap are moved by one thread. */
enum qkv_status qkv_cpu_copy(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_copy *c = call;
    const uintptr_t to = (uintptr_t)c->to, from = (uintptr_t)c->from;
    if (to == from || !c->bytes) return QKV_OK;
    if (to < from + c->bytes && from < to + c->bytes)
        memmove(c->to, c->from, c->bytes);
    else
        qkv_cpu_ranges(ctx, c->bytes, BYTES_A_PIECE, copy_piece, c);
    return QKV_OK;
}

static void clear_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_clear *c = w->step;
    memset((char *)c->to + begin, c->byte, end - begin);
}

enum qkv_status qkv_cpu_clear(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_clear *c = call;
    qkv_cpu_ranges(ctx, c->bytes, BYTES_A_PIECE, clear_piece, c);
    return QKV_OK;
}

static void add_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_add *s = w->step;
    float *to = s->to + begin;
    w->ctx->kernels->add(to, to, s->x + begin, end - begin);
}

enum qkv_status qkv_cpu_add(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_add *s = call;
    qkv_cpu_ranges(ctx, s->count, FLOATS_A_PIECE, add_piece, s);
    return QKV_OK;
}

/* Moves some columns, the last row first: a row's place is never before the row. */
static void spread_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_spread *s = w->step;
    for (size_t place = s->places, n = s->rows; place-- > n;) {
        float *to = s->matrix + place * s->columns + begin;
        if (n && (size_t)s->place[n - 1] == place)
            memcpy(to, s->matrix + --n * s->columns + begin, (end - begin) * sizeof *to);
        else
            memset(to, 0, (end - begin) * sizeof *to);
    }
}

enum qkv_status qkv_cpu_spread(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_spread *s = call;
    qkv_cpu_ranges(ctx, s->columns, SPREAD_COLUMNS, spread_columns, s);
    return QKV_OK;
}
