/* rank_masters: weights that ranks divide in mixed precision (ZeRO stage 1, Rajbhandari et al. 2020, of the fp32
 * weights too). Products read bf16, so of a matrix that nothing else reads a rank needs the fp32 numbers only where
 * it updates them: its masters. */
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "op/steps.h"
#include "rank/ranks.h"

/* ---- which ------------------------------------------------------------------------------------------------------ */

static bool masters_divides(const struct qkv_tensor *x) {
    bool learns = x->operand.packed && x->operand.weight_count;
    for (size_t i = 0; i < x->operand.weight_count && learns; i++)
        learns = x->operand.weights[i].trainable && qkv_weight_only_multiplied(&x->operand.weights[i]);
    return learns;
}

size_t qkv_rank_choose_divided(struct qkv_model *m) {
    size_t bytes = 0;
    for (size_t i = 0; i < m->weights.tensor_count && qkv_context_ranks(m->ctx) > 1; i++) {
        struct qkv_tensor *x = m->weights.tensors[i];
        x->operand.divided = masters_divides(x);
        if (x->operand.divided) bytes += qkv_round_up(x->rows * x->columns * sizeof(float), QKV_CACHE_LINE);
    }
    return bytes;
}

/* Two messages of weights. */
static size_t masters_room(const struct qkv_rank_cut *cut) {
    return 2 * cut->share * sizeof(float);
}

/* Bytes of `count` numbers for each that a rank updates. */
static size_t masters_own(const struct qkv_model *m, const struct qkv_rank_cut *cut, int rank, qkv_rank_moments *count,
                          const void *user) {
    size_t bytes = 0, begin, end;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct qkv_weight *weight = &m->weights.list[i];
        const struct qkv_tensor *x = weight->part_of;
        const size_t each = weight->trainable ? count(user, weight) : 0;
        if (!each) continue;
        const size_t at = qkv_rank_place(&m->weights, x) +
                          weight->first_row * (weight->array.rank == 1 ? 1 : x->columns),
                     last = at + weight->rows * weight->columns;
        for (size_t b = at / cut->bucket; b < cut->buckets && b * cut->bucket < last; b++) {
            qkv_rank_own(cut, b, rank, &begin, &end);
            begin = qkv_max(begin, at), end = qkv_min(end, last);
            if (begin < end) bytes += each * qkv_round_up((end - begin) * sizeof(float), QKV_CACHE_LINE);
        }
    }
    return bytes;
}

/* A number for each of a divided weight. */
static size_t masters_count(const void *user, const struct qkv_weight *weight) {
    (void)user;
    return weight->part_of->operand.divided;
}

size_t qkv_rank_moment_bytes(const struct qkv_model *m, int rank, qkv_rank_moments *count, const void *user) {
    const struct qkv_rank_cut cut = qkv_rank_cut_of(m->ctx, m->weights.floats);
    return masters_own(m, &cut, rank, count, user);
}

size_t qkv_rank_master_bytes(const struct qkv_model *m, int rank, size_t *message_bytes) {
    const struct qkv_rank_cut cut = qkv_rank_cut_of(m->ctx, m->weights.floats);
    const size_t bytes = masters_own(m, &cut, rank, masters_count, NULL);
    bool any = false;
    for (size_t i = 0; i < m->weights.tensor_count; i++) any |= m->weights.tensors[i]->operand.divided;
    *message_bytes = any ? masters_room(&cut) : 0;
    return bytes;
}

/* ---- dividing --------------------------------------------------------------------------------------------------- */

static enum qkv_status masters_take(struct qkv_weights *w, struct qkv_moment_run *runs, size_t run_count,
                                    struct qkv_rank_masters *masters) {
    const struct qkv_rank_cut cut = qkv_rank_cut_of(w->ctx, w->floats);
    size_t bytes = masters_room(&cut);
    for (size_t i = 0; i < run_count; i++) /* as many as the weights have, at most */
        if (w->list[runs[i].weight].part_of->operand.divided)
            bytes += qkv_round_up((runs[i].end - runs[i].begin) * sizeof(float), QKV_CACHE_LINE);
    enum qkv_status status = qkv_arena_create(w->ctx, &masters->arena, bytes, "fp32 weights of a rank");
    if (status) return status;
    masters->sent = qkv_arena_take(&masters->arena, cut.share, sizeof(float));
    masters->received = qkv_arena_take(&masters->arena, cut.share, sizeof(float));
    for (size_t i = 0; i < run_count; i++) {
        const struct qkv_weight *weight = &w->list[runs[i].weight];
        const size_t count = runs[i].end - runs[i].begin;
        if (!weight->part_of->operand.divided) continue;
        runs[i].master = qkv_arena_take(&masters->arena, count, sizeof(float));
        if (!runs[i].master) return QKV_MEMORY;
        memcpy(runs[i].master, weight->data + runs[i].begin, count * sizeof(float));
    }
    return QKV_OK;
}

enum qkv_status qkv_rank_divide(struct qkv_model *m, struct qkv_moment_run *runs, size_t run_count,
                                struct qkv_rank_masters *masters) {
    struct qkv_weights *w = &m->weights;
    if (!qkv_rank_choose_divided(m)) return QKV_OK;
    masters->runs = runs;
    masters->run_count = run_count;
    enum qkv_status status = masters_take(w, runs, run_count, masters);
    for (size_t i = 0; i < w->tensor_count && !status; i++) {
        struct qkv_tensor *x = w->tensors[i];
        if (!x->operand.divided) continue;
        const struct qkv_operand b = {.data = x->data, .dtype = QKV_F32, .row_stride = 1, .column_stride = x->columns};
        status = QKV_STEP(m->ctx, pack, .product = x->operand.product, .packed = x->operand.packed->data, .operand = b,
                          .K = x->columns, .N = x->rows);
        if (!status) qkv_arena_discard(&m->arena, qkv_weights_divide(w, x), x->rows * x->columns * sizeof(float));
    }
    return status;
}
