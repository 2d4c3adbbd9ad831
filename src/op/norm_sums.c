#include "op/norm_sums.h"

#include <string.h>

enum { ROWS_A_PIECE = 16, BACKWARD_PIECES = 32, COLUMNS_A_PIECE = 64, ORDERED_ROWS = 64 };

/* Cuts each sequence into pieces of ORDERED_ROWS rows. */
static enum qkv_status cut_sequences(void *argument) {
    struct qkv_norm_sums *s = argument;
    const struct qkv_order *order = s->order;
    s->pieces = 0;
    for (size_t g = 0; g < order->groups; g++) {
        s->groups[g] = s->pieces;
        for (size_t q = order->first[g]; q < order->first[g + 1]; q++)
            for (size_t n = order->start[q]; n < order->start[q + 1]; n += ORDERED_ROWS) s->begins[s->pieces++] = n;
    }
    s->groups[order->groups] = s->pieces;
    s->begins[s->pieces] = order->terms;
    return QKV_OK;
}

enum qkv_status qkv_norm_sums_start(struct qkv_tape *tape, const struct qkv_tensor *x, size_t columns,
                                    struct qkv_norm_sums *s) {
    *s = (struct qkv_norm_sums){.kernels = tape->ctx->kernels, .rows = x->rows, .columns = columns};
    s->rows_a_piece = (x->rows + BACKWARD_PIECES - 1) / BACKWARD_PIECES;
    if (s->rows_a_piece < ROWS_A_PIECE) s->rows_a_piece = ROWS_A_PIECE;
    s->pieces = (x->rows + s->rows_a_piece - 1) / s->rows_a_piece;
    if (x->learning.order) {
        s->order = &x->learning.order->sums;
        s->pieces = x->rows / ORDERED_ROWS + s->order->sequences; /* an upper bound */
        s->begins = qkv_tape_take(tape, s->pieces + 1, sizeof *s->begins);
    }
    s->partial = qkv_tape_take(tape, s->pieces * 2 * columns, sizeof(float));
    if (!s->partial || (s->order && !s->begins)) return QKV_MEMORY;
    return s->order ? qkv_compute(tape->ctx, cut_sequences, s) : QKV_OK;
}

/* Threads take several pieces at a time: a piece of a short sequence is less work than handing it out. */
void qkv_norm_sums_each(struct qkv_context *ctx, const struct qkv_norm_sums *s, qkv_range_body *body, void *argument) {
    qkv_parallel_range(ctx, s->pieces, ORDERED_ROWS * s->pieces / qkv_max(s->rows, 1), body, argument);
}

float *qkv_norm_sums_piece(const struct qkv_norm_sums *s, size_t piece, size_t *begin, size_t *end) {
    *begin = s->order ? s->begins[piece] : piece * s->rows_a_piece;
    *end = s->order ? s->begins[piece + 1] : *begin + s->rows_a_piece < s->rows ? *begin + s->rows_a_piece : s->rows;
    float *both = s->partial + piece * 2 * s->columns;
    memset(both, 0, 2 * s->columns * sizeof *both);
    return both;
}

struct sums_add {
    const struct qkv_norm_sums *sums;
    float *outs[2];
};

static void add_pieces(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct sums_add *a = argument;
    const struct qkv_norm_sums *s = a->sums;
    for (size_t i = 0; i < 2; i++) {
        float *out = a->outs[i] ? a->outs[i] + begin : NULL;
        const float *partial = s->partial + i * s->columns + begin;
        if (out && s->order)
            qkv_order_sum(s->kernels, s->order->groups, s->groups, out, partial, 2 * s->columns, end - begin);
        else if (out)
            s->kernels->column_sums(out, partial, 2 * s->columns, s->pieces, end - begin);
    }
}

void qkv_norm_sums_add(struct qkv_context *ctx, const struct qkv_norm_sums *sums, float *dw, float *db) {
    struct sums_add a = {.sums = sums, .outs = {dw, db}};
    qkv_parallel_range(ctx, sums->columns, COLUMNS_A_PIECE, add_pieces, &a);
}
