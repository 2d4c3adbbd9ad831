/* cpu_sums: steps that add gradients of parts of a batch, as the tree of sums says (kernel/order.h). */
#include "backend/cpu_work.h"

#include <string.h>

#define FLOATS_A_PIECE ((size_t)1 << 14)

static void squares_piece(void *argument, size_t piece, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_squares *s = w->step;
    const size_t begin = piece * s->piece;
    s->sums[piece] = w->ctx->kernels->sum_squares(s->x + begin, qkv_min(s->piece, s->count - begin));
}

enum qkv_status qkv_cpu_squares(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_squares *s = call;
    qkv_cpu_each(ctx, qkv_pieces(s->count, s->piece), squares_piece, s);
    return QKV_OK;
}

static void round_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_round *s = w->step;
    const size_t at = qkv_type_span(s->product->form, begin);
    s->product->round(w->ctx, (char *)s->to + at, s->from + begin, end - begin);
}

enum qkv_status qkv_cpu_round(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_round *s = call;
    qkv_cpu_ranges(ctx, s->count, FLOATS_A_PIECE, round_piece, s);
    return QKV_OK;
}

static void carry_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_carry *s = w->step;
    float *sum = s->sum + begin;
    const float *levels[QKV_ORDER_LEVELS];
    for (size_t i = 0; i < s->level_count; i++) levels[i] = s->levels[i] + begin;
    w->ctx->kernels->add_several(s->to ? s->to + begin : sum, sum, levels, s->level_count, end - begin);
    if (s->to) memset(sum, 0, (end - begin) * sizeof *sum);
}

enum qkv_status qkv_cpu_carry(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_carry *s = call;
    qkv_cpu_ranges(ctx, s->count, FLOATS_A_PIECE, carry_piece, s);
    return QKV_OK;
}

/* ---- rows that are marked --------------------------------------------------------------------------------------- */

static void carry_marked(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_carry_rows *s = w->step;
    const size_t n = s->columns;
    for (size_t r = begin; r < end; r++) {
        float *sum = s->sum + r * n;
        uint8_t any = s->sum_marks[r];
        for (size_t i = 0; i < s->level_count; i++) {
            if (!s->level_marks[i][r]) continue;
            w->ctx->kernels->add(sum, s->levels[i] + r * n, sum, n);
            any = 1;
        }
        s->sum_marks[r] = any && !s->to;
        if (!s->to) continue;
        s->to_marks[r] = any;
        if (!any) continue;
        memcpy(s->to + r * n, sum, n * sizeof *sum);
        memset(sum, 0, n * sizeof *sum);
    }
}

enum qkv_status qkv_cpu_carry_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_carry_rows *s = call;
    qkv_cpu_ranges(ctx, s->rows, FLOATS_A_PIECE / s->columns + 1, carry_marked, s);
    return QKV_OK;
}

static void add_marked(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_add_rows *s = w->step;
    const size_t n = s->columns;
    for (size_t r = begin; r < end; r++)
        if (s->marks[r]) w->ctx->kernels->add(s->to + r * n, s->x + r * n, s->to + r * n, n);
}

enum qkv_status qkv_cpu_add_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_add_rows *s = call;
    qkv_cpu_ranges(ctx, s->rows, FLOATS_A_PIECE / s->columns + 1, add_marked, s);
    return QKV_OK;
}

static void clear_marked(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_clear_rows *s = w->step;
    for (size_t r = begin; r < end; r++) {
        if (s->marks[r]) memset(s->x + r * s->columns, 0, s->columns * sizeof *s->x);
        s->marks[r] = 0;
    }
}

enum qkv_status qkv_cpu_clear_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_clear_rows *s = call;
    qkv_cpu_ranges(ctx, s->rows, FLOATS_A_PIECE / s->columns + 1, clear_marked, s);
    return QKV_OK;
}
