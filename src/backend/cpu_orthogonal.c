/* cpu_orthogonal: the iteration of Newton and Schulz that Muon (Jordan et al. 2024) makes a matrix orthogonal with, as
 * products of fp32 in one order of sums: a kernel table has the same bits at any number of threads.
 *
 * Each of 5 steps is X = a·X + (b·A + c·A²)·X with A = X·Xᵀ, of the published a, b, c; of a matrix with more rows than
 * columns the same of its transpose. With X = s·Y and P = Y·Yᵀ a step is
 *
 *   Q = P + (c·s²/b)·P²     Y = Y + (b·s²/a)·Q·Y     s = a·s
 *
 * so that products alone touch the numbers, with a residual behind them. */
#include <math.h>

#include "backend/cpu_work.h"
#include "base/math.h"
#include "kernel/product.h"

static const double orthogonal_a = 3.4445, orthogonal_b = -4.7750, orthogonal_c = 2.0315;
enum { ORTHOGONAL_STEPS = 5, ORTHOGONAL_PIECE = 1 << 14 };

struct orthogonal {
    const struct qkv_kernels *kernels;
    float *x;             /* (rows, columns) */
    size_t rows, columns; /* of Y */
    double *sums;         /* (rows) of squares */
    const float *from;
    float factor, *to;
};

static void orthogonal_square(void *argument, size_t row, int thread) {
    (void)thread;
    const struct orthogonal *w = argument;
    w->sums[row] = w->kernels->sum_squares(w->x + row * w->columns, w->columns);
}

/* What divides by the norm, or by 1e-7 if that is more. */
static void orthogonal_norm(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    struct orthogonal *w = argument;
    double sum = 0;
    for (size_t i = 0; i < w->rows; i++) sum += w->sums[i];
    w->factor = (float)(1 / qkv_fmax(sqrt(sum), 1e-7));
}

static void orthogonal_scale(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct orthogonal *w = argument;
    w->kernels->scale(w->to + begin, false, w->from + begin, w->factor, end - begin);
}

/* c = residual + scale·a·b, or, without a residual, a·b. */
static enum qkv_status orthogonal_product(struct qkv_context *ctx, struct qkv_arena *scratch, float *c, size_t M,
                                          size_t N, size_t K, struct qkv_operand a, struct qkv_operand b,
                                          const float *residual, double scale) {
    struct qkv_product_call call = {.c = c, .dtype = QKV_F32, .ldc = N, .a = a, .b = b, .M = M, .N = N, .K = K};
    if (residual)
        call.epilogue =
            (struct qkv_epilogue){.kind = QKV_EPILOGUE_residual, .residual = residual, .scale = (float)scale, .ld = N};
    return qkv_product_f32.multiply(ctx, scratch, &call);
}

/* One step: from Y to `next`; P and Q are square. */
static enum qkv_status orthogonal_step(struct qkv_context *ctx, const struct qkv_step_orthogonalise *call, float *y,
                                       float *p, float *q, float *next, double s) {
    const double a = orthogonal_a, b = orthogonal_b, c = orthogonal_c;
    const size_t R = call->rows, C = call->columns, m = qkv_min(R, C);
    const struct qkv_operand rows = {y, QKV_F32, C, 1}, turned = {y, QKV_F32, 1, C};
    const struct qkv_operand square = {p, QKV_F32, m, 1}, factor = {q, QKV_F32, m, 1};
    const bool wide = R <= C;
    struct qkv_arena *scratch = call->scratch;
    enum qkv_status status =
        orthogonal_product(ctx, scratch, p, m, m, wide ? C : R, wide ? rows : turned, wide ? turned : rows, NULL, 1);
    if (!status) status = orthogonal_product(ctx, scratch, q, m, m, m, square, square, p, c * s * s / b);
    if (status) return status;
    return orthogonal_product(ctx, scratch, next, R, C, m, wide ? factor : rows, wide ? rows : factor, y,
                              b * s * s / a);
}

enum qkv_status qkv_cpu_orthogonalise(struct qkv_context *ctx, const void *argument) {
    const struct qkv_step_orthogonalise *call = argument;
    const size_t n = call->rows * call->columns, m = qkv_min(call->rows, call->columns);
    const size_t mark = qkv_arena_mark(call->scratch);
    double *sums = qkv_arena_take(call->scratch, call->rows, sizeof *sums);
    float *p = sums ? qkv_arena_take(call->scratch, m * m, sizeof *p) : NULL;
    float *q = p ? qkv_arena_take(call->scratch, m * m, sizeof *q) : NULL;
    float *other = q ? qkv_arena_take(call->scratch, n, sizeof *other) : NULL;
    if (!other) return QKV_MEMORY;
    struct orthogonal w = {
        .kernels = ctx->kernels, .x = call->x, .rows = call->rows, .columns = call->columns, .sums = sums};
    qkv_parallel(ctx, call->rows, orthogonal_square, &w);
    qkv_parallel(ctx, 1, orthogonal_norm, &w);
    w.from = w.to = call->x;
    qkv_parallel_range(ctx, n, ORTHOGONAL_PIECE, orthogonal_scale, &w);
    float *y = call->x, *next = other;
    double s = 1;
    enum qkv_status status = QKV_OK;
    for (int step = 0; step < ORTHOGONAL_STEPS && !status; step++) {
        status = orthogonal_step(ctx, call, y, p, q, next, s);
        float *had = y;
        y = next, next = had;
        s *= orthogonal_a;
    }
    w.from = y, w.to = call->x, w.factor = (float)s;
    if (!status) qkv_parallel_range(ctx, n, ORTHOGONAL_PIECE, orthogonal_scale, &w);
    qkv_arena_release(call->scratch, mark);
    return status;
}
