/* rank_spread: what all ranks get of what one of them has: the norm of all gradients, and the weights that a rank
 * has updated. */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "op/steps.h"
#include "rank/ranks.h"

/* ---- norm ------------------------------------------------------------------------------------------------------- */

size_t qkv_rank_pieces(const struct qkv_rank_cut *cut) {
    return cut->buckets * (cut->share / QKV_GRADIENT_PIECE);
}

enum qkv_status qkv_rank_square(struct qkv_model *model, double *sums) {
    struct qkv_weights *w = &model->weights;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(w->ctx, w->floats);
    enum qkv_status status = QKV_OK;
    for (size_t b = 0; b < cut.buckets && !status; b++, sums += cut.share / QKV_GRADIENT_PIECE) {
        size_t begin, end;
        qkv_rank_own(&cut, b, qkv_context_rank(w->ctx), &begin, &end);
        status = QKV_STEP(w->ctx, squares, .x = w->gradients + begin, .count = end - begin, .piece = QKV_GRADIENT_PIECE,
                          .sums = sums);
    }
    return status;
}

void qkv_rank_take_squares(struct qkv_model *model, int rank, const double *sums) {
    struct qkv_weights *w = &model->weights;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(w->ctx, w->floats);
    for (size_t b = 0; b < cut.buckets; b++, sums += cut.share / QKV_GRADIENT_PIECE) {
        size_t begin, end;
        qkv_rank_own(&cut, b, rank, &begin, &end);
        if (begin < end)
            memcpy(w->gradient_sums + begin / QKV_GRADIENT_PIECE, sums,
                   qkv_pieces(end - begin, QKV_GRADIENT_PIECE) * sizeof *sums);
    }
}

enum qkv_status qkv_rank_norm(struct qkv_model *model, double *norm) {
    enum qkv_status status = QKV_OK;
    if (qkv_context_ranks(model->ctx) == 1) status = qkv_weights_square_gradients(&model->weights);
    *norm = qkv_weights_gradient_norm(&model->weights);
    return status;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* Weights lie as their gradients do, one behind the other with nothing between, so these may travel from where they
 * are: *first is where the first gradient's weight is. */
static bool spread_alike(const struct qkv_weights *w, float **first) {
    size_t end = 0; /* floats that are found to lie so */
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct qkv_tensor *x = w->tensors[i];
        if (!x->learning.gradient) continue;
        const size_t at = (size_t)(x->learning.gradient - w->gradients), behind = at + x->rows * x->columns;
        if (!end) *first = x->data;
        if (at > end || (float *)x->data != *first + at) return false;
        end = qkv_max(end, behind);
    }
    return end && end == w->floats;
}

/* What ranks own of an array that is cut like the gradients goes to all others. */
static enum qkv_status spread_array(struct qkv_context *ctx, const struct qkv_rank_cut *cut, float *array) {
    const int rank = qkv_context_rank(ctx);
    enum qkv_status status = QKV_OK;
    for (size_t b = 0; b < cut->buckets; b++) {
        size_t begin, end, first, last;
        qkv_rank_own(cut, b, rank, &begin, &end);
        for (int shift = 1; shift < cut->ranks && !status; shift++) {
            const int to = (rank + shift) % cut->ranks, from = (rank + cut->ranks - shift) % cut->ranks;
            qkv_rank_own(cut, b, from, &first, &last);
            status = qkv_rank_exchange(ctx, to, array + begin, (end - begin) * sizeof *array, from, array + first,
                                       (last - first) * sizeof *array);
        }
    }
    return status;
}

/* Copies floats [begin, end) of the array of gradients from the weights that lie otherwise, or to them. */
static enum qkv_status spread_copy_run(struct qkv_weights *w, size_t begin, size_t end, bool out) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        const struct qkv_weight *weight = &w->list[i];
        if (!weight->trainable) continue;
        const size_t at = (size_t)(weight->gradient - w->gradients);
        const size_t from = qkv_max(begin, at), to = qkv_min(end, at + weight->rows * weight->columns);
        if (from >= to) continue;
        float *there = w->gradients + from, *here = weight->data + (from - at);
        status = QKV_STEP(w->ctx, copy, .to = out ? there : here, .from = out ? here : there,
                          .bytes = (to - from) * sizeof(float));
    }
    return status;
}

/* Copies the weights that this rank owns out, or those that others own back. */
static enum qkv_status spread_copy(struct qkv_weights *w, const struct qkv_rank_cut *cut, bool out) {
    enum qkv_status status = QKV_OK;
    for (size_t b = 0; b < cut->buckets; b++)
        for (int r = 0; r < cut->ranks && !status; r++) {
            size_t begin, end;
            qkv_rank_own(cut, b, r, &begin, &end);
            if ((r == qkv_context_rank(w->ctx)) == out) status = spread_copy_run(w, begin, end, out);
        }
    return status;
}

/* What this rank has of gradients that others own; those of its own the optimizer has cleared. */
static enum qkv_status spread_clear(struct qkv_weights *w, const struct qkv_rank_cut *cut) {
    enum qkv_status status = QKV_OK;
    for (size_t b = 0; b < cut->buckets; b++)
        for (int r = 0; r < cut->ranks && !status; r++) {
            size_t begin, end;
            qkv_rank_own(cut, b, r, &begin, &end);
            if (r != qkv_context_rank(w->ctx))
                status = QKV_STEP(w->ctx, clear, .to = w->gradients + begin, .bytes = (end - begin) * sizeof(float));
        }
    return status;
}

/* ---- divided weights -------------------------------------------------------------------------------------------- */

enum spread_way { SPREAD_COUNT, SPREAD_OUT, SPREAD_IN };

/* Where an operand's numbers are while they travel: as floats, or, divided, as bf16 where its gradient was. */
static char *spread_numbers(const struct qkv_tensor *x) {
    return x->operand.divided ? (char *)x->learning.gradient : x->data;
}

/* What a rank owns of a bucket, operand behind operand, into a message or out of it; its bytes. */
static size_t spread_message(const struct qkv_weights *w, const struct qkv_rank_cut *cut, size_t bucket, int rank,
                             enum spread_way way, char *message) {
    size_t begin, end, bytes = 0;
    qkv_rank_own(cut, bucket, rank, &begin, &end);
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct qkv_tensor *x = w->tensors[i];
        if (!x->learning.gradient) continue;
        const size_t at = qkv_rank_place(w, x), size = x->operand.divided ? sizeof(uint16_t) : sizeof(float);
        const size_t from = qkv_max(begin, at), to = qkv_min(end, at + x->rows * x->columns);
        if (at >= end) break;
        if (from >= to) continue;
        if (way == SPREAD_OUT) memcpy(message + bytes, spread_numbers(x) + (from - at) * size, (to - from) * size);
        if (way == SPREAD_IN) memcpy(spread_numbers(x) + (from - at) * size, message + bytes, (to - from) * size);
        bytes += (to - from) * size;
    }
    return bytes;
}

size_t qkv_rank_weight_bytes(const struct qkv_weights *w, const struct qkv_rank_cut *cut, size_t bucket, int rank) {
    size_t begin, end;
    bool divided = false;
    for (size_t i = 0; i < w->tensor_count && !divided; i++) divided = w->tensors[i]->operand.divided;
    if (divided) return spread_message(w, cut, bucket, rank, SPREAD_COUNT, NULL);
    qkv_rank_own(cut, bucket, rank, &begin, &end);
    return (end - begin) * sizeof(float);
}

/* The weights of this rank's runs as bf16, to where their gradients were. */
static enum qkv_status spread_round(struct qkv_weights *w, const struct qkv_rank_masters *masters) {
    enum qkv_status status = QKV_OK;
    for (size_t run = 0; run < masters->run_count && !status; run++) {
        const struct qkv_moment_run *r = &masters->runs[run];
        const struct qkv_weight *weight = &w->list[r->weight];
        if (!r->master) continue;
        uint16_t *to =
            (uint16_t *)(void *)weight->part_of->learning.gradient + weight->first_row * weight->columns + r->begin;
        status = QKV_STEP(w->ctx, round, .to = to, .from = r->master, .count = r->end - r->begin,
                          .product = weight->part_of->operand.product);
    }
    return status;
}

/* Where their gradients were, which are used up, divided weights lie as bf16 until all of them are there and can be
 * packed. */
static enum qkv_status spread_divided(struct qkv_weights *w, const struct qkv_rank_cut *cut,
                                      const struct qkv_rank_masters *masters) {
    struct qkv_context *ctx = w->ctx;
    const int rank = qkv_context_rank(ctx);
    enum qkv_status status = spread_round(w, masters);
    for (size_t b = 0; b < cut->buckets; b++) {
        const size_t out = spread_message(w, cut, b, rank, SPREAD_OUT, masters->sent);
        for (int shift = 1; shift < cut->ranks && !status; shift++) {
            const int to = (rank + shift) % cut->ranks, from = (rank + cut->ranks - shift) % cut->ranks;
            const size_t in = spread_message(w, cut, b, from, SPREAD_COUNT, NULL);
            status = qkv_rank_exchange(ctx, to, masters->sent, out, from, masters->received, in);
            if (!status) spread_message(w, cut, b, from, SPREAD_IN, masters->received);
        }
    }
    for (size_t i = 0; i < w->tensor_count && !status; i++) {
        struct qkv_tensor *x = w->tensors[i];
        if (!x->operand.divided) continue;
        const struct qkv_operand b = {
            .data = x->learning.gradient, .dtype = QKV_BF16, .row_stride = 1, .column_stride = x->columns};
        status = QKV_STEP(ctx, pack, .product = x->operand.product, .packed = x->operand.packed->data, .operand = b,
                          .K = x->columns, .N = x->rows);
    }
    qkv_weights_clear_gradients(w);
    return status;
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_rank_spread_gradients(struct qkv_model *model) {
    const struct qkv_rank_cut cut = qkv_rank_cut_of(model->ctx, model->weights.floats);
    return cut.ranks == 1 ? QKV_OK : spread_array(model->ctx, &cut, model->weights.gradients);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* The gradients are used up, so their array carries weights that lie otherwise. */
enum qkv_status qkv_rank_spread_weights(struct qkv_model *model, const struct qkv_rank_masters *masters) {
    struct qkv_weights *w = &model->weights;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(w->ctx, w->floats);
    enum qkv_status status;
    float *first = NULL;
    if (cut.ranks == 1) return QKV_OK;
    if (masters->arena.base) return spread_divided(w, &cut, masters);
    if (spread_alike(w, &first)) {
        status = spread_array(w->ctx, &cut, first);
        return status ? status : spread_clear(w, &cut);
    }
    status = spread_copy(w, &cut, true);
    if (!status) status = spread_array(w->ctx, &cut, w->gradients);
    if (!status) status = spread_copy(w, &cut, false);
    qkv_weights_clear_gradients(w);
    return status;
}
