/* row_order: sums of vectors over rows in a defined order (kernel.h): rows of a group in order, groups in a binary
 * tree. */
#include "op/op.h"

#include <string.h>

enum { COLUMNS_A_PIECE = 64 };

void qkv_order_begins(const struct qkv_order *order, size_t begins[QKV_GROUPS_MAX + 1]) {
    for (size_t g = 0; g <= order->groups; g++) begins[g] = order->start[order->first[g]];
}

void qkv_order_sum(const struct qkv_kernels *kernels, size_t groups, const size_t *begins, float *out, const float *x,
                   size_t ldx, size_t columns) {
    float levels[QKV_ORDER_LEVELS][COLUMNS_A_PIECE];
    if (groups == 1) {
        kernels->column_sums(out, x + begins[0] * ldx, ldx, begins[1] - begins[0], columns);
        return;
    }
    for (size_t c = 0, n; c < columns; c += n) {
        n = columns - c < COLUMNS_A_PIECE ? columns - c : COLUMNS_A_PIECE;
        for (size_t g = 0; g < groups; g++) {
            const struct qkv_order_step step = qkv_order_step(g, g + 1, groups);
            float *sum = levels[step.last ? QKV_ORDER_LEVELS - 1 : step.level];
            memset(sum, 0, n * sizeof *sum);
            kernels->column_sums(sum, x + begins[g] * ldx + c, ldx, begins[g + 1] - begins[g], n);
            for (size_t i = 0; i < step.count; i++) kernels->add(sum, levels[step.levels[i]], sum, n);
            if (step.last) kernels->add(out + c, out + c, sum, n);
        }
    }
}

struct column_sum {
    const struct qkv_kernels *kernels;
    const struct qkv_order *order; /* NULL: all `rows` are one group */
    size_t rows, ldx;
    float *out;
    const float *x;
};

static void order_sum_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct column_sum *s = argument;
    size_t begins[QKV_GROUPS_MAX + 1] = {0, s->rows};
    if (s->order) qkv_order_begins(s->order, begins);
    qkv_order_sum(s->kernels, s->order ? s->order->groups : 1, begins, s->out + begin, s->x + begin, s->ldx,
                  end - begin);
}

void qkv_order_columns(struct qkv_context *ctx, const struct qkv_order *order, float *out, const float *x, size_t ldx,
                       size_t columns) {
    struct column_sum s = {.kernels = ctx->kernels, .order = order, .ldx = ldx, .out = out, .x = x};
    qkv_parallel_range(ctx, columns, COLUMNS_A_PIECE, order_sum_columns, &s);
}

void qkv_order_sequences(struct qkv_context *ctx, const struct qkv_row_order *order, float *out, const float *x,
                         size_t B, size_t columns) {
    struct column_sum s = {.kernels = ctx->kernels,
                           .order = order ? &order->pooled->sums : NULL,
                           .rows = B,
                           .ldx = columns,
                           .out = out,
                           .x = x};
    qkv_parallel_range(ctx, columns, COLUMNS_A_PIECE, order_sum_columns, &s);
}
