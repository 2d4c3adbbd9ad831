/* cpu_sums: steps that add gradients of parts of a batch, as the tree of sums says (kernel/order.h). */
#include "backend/backends.h"

#include <string.h>

#define FLOATS_A_PIECE ((size_t)1 << 14)

struct squares {
    const struct qkv_kernels *kernels;
    const struct qkv_step_squares *step;
};

static void squares_piece(void *argument, size_t piece, int thread) {
    (void)thread;
    const struct squares *q = argument;
    const struct qkv_step_squares *s = q->step;
    const size_t begin = piece * s->piece;
    s->sums[piece] = q->kernels->sum_squares(s->x + begin, qkv_min(s->piece, s->count - begin));
}

enum qkv_status qkv_cpu_squares(struct qkv_context *ctx, const void *call) {
    struct squares q = {ctx->kernels, call};
    qkv_parallel(ctx, qkv_pieces(q.step->count, q.step->piece), squares_piece, &q);
    return QKV_OK;
}

struct round {
    const struct qkv_context *ctx;
    const struct qkv_step_round *step;
};

static void round_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct round *r = argument;
    const struct qkv_step_round *s = r->step;
    const size_t at = qkv_type_span(s->product->form, begin);
    s->product->round(r->ctx, (char *)s->to + at, s->from + begin, end - begin);
}

enum qkv_status qkv_cpu_round(struct qkv_context *ctx, const void *call) {
    struct round r = {ctx, call};
    qkv_parallel_range(ctx, r.step->count, FLOATS_A_PIECE, round_piece, &r);
    return QKV_OK;
}

struct carry {
    const struct qkv_kernels *kernels;
    const struct qkv_step_carry *step;
};

static void carry_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct carry *c = argument;
    const struct qkv_step_carry *s = c->step;
    float *sum = s->sum + begin;
    const float *levels[QKV_ORDER_LEVELS];
    for (size_t i = 0; i < s->level_count; i++) levels[i] = s->levels[i] + begin;
    c->kernels->add_several(s->to ? s->to + begin : sum, sum, levels, s->level_count, end - begin);
    if (s->to) memset(sum, 0, (end - begin) * sizeof *sum);
}

enum qkv_status qkv_cpu_carry(struct qkv_context *ctx, const void *call) {
    struct carry c = {ctx->kernels, call};
    qkv_parallel_range(ctx, c.step->count, FLOATS_A_PIECE, carry_piece, &c);
    return QKV_OK;
}

/* ---- rows that are marked --------------------------------------------------------------------------------------- */

struct rows {
    const struct qkv_kernels *kernels;
    const void *step;
};

static void each_row(struct qkv_context *ctx, size_t rows, size_t columns, qkv_range_body *body, const void *step) {
    struct rows r = {ctx->kernels, step};
    qkv_parallel_range(ctx, rows, FLOATS_A_PIECE / columns + 1, body, &r);
}

static void carry_marked(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct rows *rows = argument;
    const struct qkv_step_carry_rows *s = rows->step;
    const size_t n = s->columns;
    for (size_t r = begin; r < end; r++) {
        float *sum = s->sum + r * n;
        uint8_t any = s->sum_marks[r];
        for (size_t i = 0; i < s->level_count; i++) {
            if (!s->level_marks[i][r]) continue;
            rows->kernels->add(sum, s->levels[i] + r * n, sum, n);
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
    each_row(ctx, s->rows, s->columns, carry_marked, s);
    return QKV_OK;
}

static void add_marked(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct rows *rows = argument;
    const struct qkv_step_add_rows *s = rows->step;
    const size_t n = s->columns;
    for (size_t r = begin; r < end; r++)
        if (s->marks[r]) rows->kernels->add(s->to + r * n, s->x + r * n, s->to + r * n, n);
}

enum qkv_status qkv_cpu_add_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_add_rows *s = call;
    each_row(ctx, s->rows, s->columns, add_marked, s);
    return QKV_OK;
}

static void clear_marked(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct rows *rows = argument;
    const struct qkv_step_clear_rows *s = rows->step;
    for (size_t r = begin; r < end; r++) {
        if (s->marks[r]) memset(s->x + r * s->columns, 0, s->columns * sizeof *s->x);
        s->marks[r] = 0;
    }
}

enum qkv_status qkv_cpu_clear_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_clear_rows *s = call;
    each_row(ctx, s->rows, s->columns, clear_marked, s);
    return QKV_OK;
}
