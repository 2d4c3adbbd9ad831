#include "op/inputs.h"

#include <stdlib.h>

enum { ROWS_A_PIECE = 64, COLUMNS_A_PIECE = 64 };

struct inputs_work {
    struct qkv_context *ctx;
    double *squares;
    const char *x;
    enum qkv_dtype dtype;
    float *floats; /* (ROWS_A_PIECE, columns), where x is not fp32 */
    size_t rows, columns;
};

/* A column's squares are one chain of sums, so the number of threads changes no bit. */
static void inputs_square(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct inputs_work *w = argument;
    const float *x = w->floats ? w->floats : (const float *)(const void *)w->x;
    for (size_t n = 0; n < w->rows; n++)
        for (size_t c = begin; c < end; c++) {
            const double number = (double)x[n * w->columns + c];
            w->squares[c] += number * number;
        }
}

static enum qkv_status inputs_run(void *argument) {
    const struct inputs_work *all = argument;
    const size_t bytes = qkv_type_span(all->dtype, all->columns);
    for (size_t first = 0; first < all->rows; first += ROWS_A_PIECE) {
        struct inputs_work piece = *all;
        piece.x += first * bytes;
        piece.rows = qkv_min(ROWS_A_PIECE, all->rows - first);
        if (piece.floats) qkv_to_float(piece.floats, piece.x, piece.dtype, piece.rows * piece.columns);
        qkv_parallel_range(piece.ctx, piece.columns, COLUMNS_A_PIECE, inputs_square, &piece);
    }
    return QKV_OK;
}

/* The number of a list's weight with which an operand begins; the count of the list: the operand is of another one. */
static size_t inputs_first(const struct qkv_inputs *inputs, const struct qkv_tensor *operand) {
    const struct qkv_weights *all = inputs->weights;
    for (size_t i = 0; i < all->count && operand->operand.weight_count; i++)
        if (&all->list[i] == operand->operand.weights) return i;
    return all->count;
}

enum qkv_status qkv_inputs_add(struct qkv_context *ctx, const struct qkv_tensor *operand, struct qkv_linear_rows x,
                               size_t N) {
    struct qkv_inputs *inputs = ctx->inputs;
    const size_t first = inputs_first(inputs, operand);
    if (first == inputs->weights->count) return QKV_OK;
    struct qkv_input_sums *sums = &inputs->of[first];
    if (!sums->squares) sums->squares = qkv_allocate(ctx, operand->columns, sizeof *sums->squares);
    if (!sums->squares) return QKV_MEMORY;
    struct inputs_work work = {ctx, sums->squares, x.data, x.dtype, NULL, N, operand->columns};
    if (x.dtype != QKV_F32) {
        size_t floats;
        if (!qkv_multiply(ROWS_A_PIECE, operand->columns, &floats))
            return qkv_fail_memory(ctx, 0, "inputs of products");
        work.floats = qkv_allocate(ctx, floats, sizeof *work.floats);
        if (!work.floats) return QKV_MEMORY;
    }
    const enum qkv_status status = qkv_compute(ctx, inputs_run, &work);
    sums->rows += (double)N;
    free(work.floats);
    return status;
}

const struct qkv_input_sums *qkv_inputs_of(const struct qkv_inputs *inputs, const struct qkv_weight *weight) {
    const size_t first = weight->part_of ? inputs_first(inputs, weight->part_of) : inputs->weights->count;
    static const struct qkv_input_sums none;
    return first < inputs->weights->count ? &inputs->of[first] : &none;
}

void qkv_inputs_free(struct qkv_inputs *inputs) {
    if (!inputs) return;
    for (size_t i = 0; i < inputs->weights->count && inputs->of; i++) free(inputs->of[i].squares);
    free(inputs->of);
    free(inputs);
}
