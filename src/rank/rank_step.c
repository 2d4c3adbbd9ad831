/* rank_step: what a rank says to the others in a step, and which of them a number that is not finite comes from. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"
#include "rank/ranks.h"

/* ---- a step ----------------------------------------------------------------------------------------------------- */

/* One message to all: whether the rank's part of the step went well, the losses of its groups and the squares of
 * what it owns. */
enum { CARD_STATUS, CARD_LOSSES, CARD_SQUARES = CARD_LOSSES + QKV_GROUPS_MAX };

size_t qkv_rank_card(const struct qkv_rank_cut *cut) {
    return CARD_SQUARES + qkv_rank_pieces(cut);
}

enum qkv_status qkv_rank_settle(const struct qkv_rank_sums *sums, struct qkv_model *m,
                                const struct qkv_train_options *options, enum qkv_status status, size_t rows,
                                double *losses) {
    const int ranks = qkv_context_ranks(m->ctx);
    const size_t size = ranks > 1 ? qkv_rank_card(&sums->cut) : 0;
    double *own = sums->cards;
    int32_t statuses[QKV_RANKS_MOST];
    if (ranks == 1 || status == QKV_RANK) return status;
    double *all = own + size;
    const enum qkv_status squared = qkv_rank_square(m, own + CARD_SQUARES);
    if (!status) status = squared;
    own[CARD_STATUS] = (double)status;
    memcpy(own + CARD_LOSSES, losses, QKV_GROUPS_MAX * sizeof *losses);
    const enum qkv_status lost = qkv_rank_gather(m->ctx, own, size * sizeof *own, all);
    if (lost) return lost;
    for (int r = 0; r < ranks; r++) {
        const struct qkv_rank_share share = qkv_rank_share_of(m->ctx, options, rows, r);
        const double *card = all + (size_t)r * size;
        statuses[r] = (int32_t)card[CARD_STATUS];
        for (size_t g = share.begin; g < share.end; g++) losses[g] = card[CARD_LOSSES + g];
        qkv_rank_take_squares(m, r, card + CARD_SQUARES);
    }
    return qkv_rank_judge(m->ctx, status, statuses);
}

static enum qkv_status rank_add_loads(struct qkv_model *m, struct qkv_stack *s) {
    const int ranks = qkv_context_ranks(m->ctx);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; s->spec && i < (size_t)s->spec->layers && !status; i++) {
        struct qkv_experts *e = s->layers[i].ffn.experts;
        const size_t count = e ? e->weights.count : 0;
        uint64_t *all = e ? qkv_allocate(m->ctx, (size_t)ranks * count, sizeof *all) : NULL;
        if (!e) continue;
        status = all ? qkv_rank_gather(m->ctx, e->loads, count * sizeof *all, all) : QKV_MEMORY;
        for (size_t k = 0; k < count && !status; k++) {
            e->loads[k] = 0;
            for (int r = 0; r < ranks; r++) e->loads[k] += all[(size_t)r * count + k];
        }
        free(all);
    }
    return status;
}

enum qkv_status qkv_rank_loads(struct qkv_model *m) {
    if (qkv_context_ranks(m->ctx) == 1) return QKV_OK;
    enum qkv_status status = rank_add_loads(m, &m->encoder);
    return status ? status : rank_add_loads(m, &m->decoder);
}

/* ---- who is to blame -------------------------------------------------------------------------------------------- */

static void rank_blame(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows, int rank,
                       char blame[QKV_RANK_BLAME]) {
    size_t begin, end;
    qkv_rank_rows(ctx, options, rows, rank, &begin, &end);
    snprintf(blame, QKV_RANK_BLAME, " that rank %d makes of rows %zu to %zu of the batch", rank, begin + 1, end);
}

void qkv_rank_blame_losses(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows,
                           const double *losses, char blame[QKV_RANK_BLAME]) {
    const int ranks = qkv_context_ranks(ctx);
    for (int r = 0; r < ranks && ranks > 1; r++) {
        const struct qkv_rank_share share = qkv_rank_share_of(ctx, options, rows, r);
        for (size_t g = share.begin; g < share.end; g++) {
            if (isfinite(losses[g])) continue;
            rank_blame(ctx, options, rows, r, blame);
            return;
        }
    }
}

/* Of what a rank does not own its array of gradients still has what it has made itself, but of other nodes than the
 * last. */
enum qkv_status qkv_rank_blame_norm(const struct qkv_rank_sums *sums, struct qkv_model *m,
                                    const struct qkv_train_options *options, size_t rows, char blame[QKV_RANK_BLAME]) {
    const struct qkv_weights *w = &m->weights;
    const int ranks = qkv_context_ranks(m->ctx), rank = qkv_context_rank(m->ctx);
    const struct qkv_rank_cut cut = qkv_rank_cut_of(m->ctx, w->floats);
    uint8_t bad[2] = {0}, all[QKV_RANKS_MOST][2]; /* what others own, and what the rank owns */
    if (ranks == 1) return QKV_OK;
    for (size_t b = 0; b < cut.buckets; b++)
        for (int r = 0; r < ranks; r++) {
            size_t begin, end;
            qkv_rank_own(&cut, b, r, &begin, &end);
            double sum = m->ctx->kernels->sum_squares(w->gradients + begin, end - begin);
            for (size_t i = 0; i < sums->slot_count && r != rank; i++)
                sum += m->ctx->kernels->sum_squares(sums->slots[i] + begin, end - begin);
            if (!isfinite(sum)) bad[r == rank] = 1;
        }
    enum qkv_status status = qkv_rank_gather(m->ctx, bad, sizeof bad, all);
    for (int own = 0; own < 2 && !status; own++)
        for (int r = 0; r < ranks; r++)
            if (all[r][own]) {
                rank_blame(m->ctx, options, rows, r, blame);
                return QKV_OK;
            }
    return status;
}
