/* rank_trainer: what a trainer that is one of several ranks says to the others. */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"
#include "train/train.h"

/* ---- before the first step ----------------------------------------------------------------------------------------------- */

/* What must be the same everywhere, so that every rank makes the same bits. */
struct rank_card {
    char version[32], isa[16], spec[QKV_DIGEST_TEXT], options[QKV_DIGEST_TEXT];
    uint64_t l1d, l2;
};

static enum qkv_status rank_differs(struct qkv_context *ctx, int rank, const char *what, const char *first,
                                    const char *other, const char *advice) {
    return qkv_fail(ctx, QKV_ARGUMENT, "rank %d has %s %s, and rank 0 %s; %s", rank, what, other, first, advice);
}

static enum qkv_status rank_compare(struct qkv_context *ctx, int rank, const struct rank_card *a,
                                    const struct rank_card *b) {
    char first[64], other[64];
    if (strcmp(a->version, b->version) != 0)
        return rank_differs(ctx, rank, "version", a->version, b->version, "all ranks must run the same build");
    if (strcmp(a->isa, b->isa) != 0)
        return rank_differs(ctx, rank, "kernel table", a->isa, b->isa,
                            "set QKV_ISA on all hosts to one that each of them has");
    if (strcmp(a->spec, b->spec) != 0)
        return rank_differs(ctx, rank, "a spec with digest", a->spec, b->spec, "give all ranks the same");
    if (strcmp(a->options, b->options) != 0)
        return rank_differs(ctx, rank, "options with digest", a->options, b->options, "give all ranks the same");
    if (a->l1d == b->l1d && a->l2 == b->l2) return QKV_OK;
    snprintf(first, sizeof first, "%llu and %llu", (unsigned long long)a->l1d, (unsigned long long)a->l2);
    snprintf(other, sizeof other, "%llu and %llu", (unsigned long long)b->l1d, (unsigned long long)b->l2);
    return rank_differs(ctx, rank, "caches of", first, other, "the bits would differ; choose hosts of one kind");
}

enum qkv_status qkv_rank_check(struct qkv_trainer *t, const struct qkv_spec *spec) {
    struct qkv_context *ctx = t->ctx;
    const int ranks = qkv_context_ranks(ctx);
    struct rank_card own = {.l1d = ctx->l1d, .l2 = ctx->l2}, all[QKV_GROUPS_MAX];
    if (ranks == 1) return QKV_OK;
    if (ranks > QKV_GROUPS_MAX || ranks > t->options.groups)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "there are %d ranks and %lld groups of a batch, and a rank makes whole groups; choose groups=%d or "
            "more, or fewer ranks (at most %d)",
            ranks, (long long)t->options.groups, ranks, (int)QKV_GROUPS_MAX);
    snprintf(own.version, sizeof own.version, "%s", qkv_version());
    snprintf(own.isa, sizeof own.isa, "%s", ctx->isa);
    enum qkv_status status = spec ? qkv_spec_digest(ctx, spec, own.spec) : QKV_OK;
    if (!status) status = qkv_train_digest(ctx, &t->options, own.options);
    if (!status) status = qkv_rank_gather(ctx, &own, sizeof own, all);
    for (int r = 1; r < ranks && !status; r++) status = rank_compare(ctx, r, &all[0], &all[r]);
    return status;
}

/* ---- a step -------------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_rank_losses(struct qkv_trainer *t, size_t rows, double *losses) {
    const int ranks = qkv_context_ranks(t->ctx);
    double all[QKV_GROUPS_MAX][QKV_GROUPS_MAX];
    if (ranks == 1) return QKV_OK;
    enum qkv_status status = qkv_rank_gather(t->ctx, losses, sizeof all[0], all);
    for (int r = 0; r < ranks && !status; r++) {
        const struct qkv_rank_share share = qkv_rank_share_of(t->ctx, &t->options, rows, r);
        for (size_t g = share.begin; g < share.end; g++) losses[g] = all[r][g];
    }
    return status;
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

/* ---- checkpoints ----------------------------------------------------------------------------------------------------------- */

/* The part of a weight whose gradients lie in [begin, end). */
static bool rank_part(const struct qkv_weights *w, const struct qkv_weight *weight, int rank, const struct qkv_model *m,
                      size_t *from, size_t *count) {
    size_t begin, end;
    if (!weight->trainable) return false;
    qkv_rank_floats(m, rank, &begin, &end);
    const size_t at = (size_t)(weight->gradient - w->gradients), size = weight->rows * weight->columns;
    const size_t first = qkv_max(begin, at), last = qkv_min(end, at + size);
    if (first >= last) return false;
    *from = first - at;
    *count = last - first;
    return true;
}

enum qkv_status qkv_rank_collect(struct qkv_trainer *t) {
    const struct qkv_weights *w = &t->model->weights;
    const int rank = qkv_context_rank(t->ctx), ranks = qkv_context_ranks(t->ctx);
    enum qkv_status status = QKV_OK;
    for (size_t k = 0; ranks > 1 && k < qkv_optimizer_moments(t->optimizer); k++) {
        for (size_t i = 0; i < w->count && !status; i++) {
            float *moment = qkv_optimizer_moment(t->optimizer, k, i);
            size_t from, count;
            for (int r = 1; r < ranks && !status; r++) {
                if ((rank && rank != r) || !rank_part(w, &w->list[i], r, t->model, &from, &count)) continue;
                const size_t bytes = count * sizeof *moment;
                status = rank ? qkv_rank_exchange(t->ctx, 0, moment + from, bytes, 0, NULL, 0)
                              : qkv_rank_exchange(t->ctx, r, NULL, 0, r, moment + from, bytes);
            }
        }
    }
    return status;
}
