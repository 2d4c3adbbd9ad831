/* linear_norms: rows of w + scale·b·a, the sums of adapted weights and their adapter; and the lengths of these rows,
 * which adapters with magnitudes divide by (DoRA, Liu et al. 2024). */
#include <math.h>
#include <string.h>

#include "op/linear.h"
#include "op/weights.h"

/* Numbers of a row that are in a buffer at once: whole blocks of every type. */
enum { PIECE = QKV_TYPE_BLOCK_MAX, LANES = 8, ROWS_A_PIECE = 4 };

/* The weight that has a row of a part; *row becomes its row. */
static const struct qkv_weight *row_weight(const struct qkv_weight *weight, size_t *row) {
    while (*row >= weight->rows) *row -= (weight++)->rows;
    return weight;
}

/* x = columns [begin, begin + n) of row `row` of w + scale·b·a */
static void row_piece(const struct qkv_kernels *kernels, const struct qkv_weight *weight,
                      const struct qkv_adapter_part *part, size_t row, size_t begin, size_t n, float *x) {
    const size_t rank = part->b.columns, columns = part->a.columns;
    const float *a = part->a.data, *b = (const float *)part->b.data + row * rank;
    weight = row_weight(weight, &row);
    const size_t at = row * columns + begin;
    if (weight->stored)
        qkv_to_float(x, (const char *)weight->array.data + qkv_type_span(weight->array.dtype, at), weight->array.dtype,
                     n);
    else
        memcpy(x, weight->data + at, n * sizeof *x);
    for (size_t r = 0; r < rank; r++) kernels->scale(x, true, a + r * columns + begin, part->scale * b[r], n);
}

void qkv_adapter_sum_row(struct qkv_context *ctx, const struct qkv_weight *first, const struct qkv_adapter_part *part,
                         size_t row, float *x) {
    row_piece(ctx->kernels, first, part, row, 0, part->a.columns, x);
}

struct norms {
    struct qkv_context *ctx;
    const struct qkv_weight *weight;
    const struct qkv_adapter_part *part;
};

static void norms_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct norms *o = argument;
    const size_t columns = o->part->a.columns;
    for (size_t row = begin; row < end; row++) {
        double lanes[LANES] = {0}, sum = 0;
        float x[PIECE];
        for (size_t at = 0, n; at < columns; at += n) {
            n = qkv_min(PIECE, columns - at);
            row_piece(o->ctx->kernels, o->weight, o->part, row, at, n, x);
            for (size_t i = 0; i < n; i++) lanes[i % LANES] += (double)x[i] * (double)x[i];
        }
        for (size_t i = 0; i < LANES; i++) sum += lanes[i];
        o->part->norm[row] = (float)sqrt(sum);
    }
}

void qkv_adapter_norm(struct qkv_context *ctx, const struct qkv_weight *first, const struct qkv_adapter_part *part) {
    struct norms o = {ctx, first, part};
    qkv_parallel_range(ctx, part->b.rows, ROWS_A_PIECE, norms_rows, &o);
}
