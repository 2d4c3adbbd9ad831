/* share_runs: divides the runs of a comparison among ranks. Run number seed × variants + variant belongs to the rank
 * with this number modulo the ranks, which trains it as if it were alone. Results go to all ranks. */
#include <stdlib.h>
#include <string.h>

#include "lab/compare/compare_room.h"

enum { SENTENCE = 1024, NOTES = 8192 };

void qkv_variant_fail(struct qkv_comparison *c, struct qkv_variant_state *v) {
    const char *key = qkv_message_key(c->ctx);
    if (!v->failure && !v->failed_key && key) v->failed_key = qkv_copy_string(NULL, key);
    if (!v->failure) v->failure = qkv_copy_string(NULL, qkv_message(c->ctx));
    v->shown.failure = v->failure ? v->failure : "out of memory";
    qkv_forgive(c->ctx); /* the other variants continue */
}

void qkv_comparison_set_ranks(struct qkv_comparison *c) {
    c->ranks = c->ctx->ranks;
    c->ctx->ranks = qkv_communicator_defaults();
}

void qkv_comparison_reset_ranks(struct qkv_comparison *c) {
    c->ctx->ranks = c->ranks;
}

bool qkv_comparison_owns(const struct qkv_comparison *c, size_t variant, size_t seed) {
    const size_t ranks = c->ranks.ranks > 1 ? (size_t)c->ranks.ranks : 1;
    return (seed * c->count + variant) % ranks == (size_t)c->ranks.rank;
}

enum qkv_status qkv_comparison_agree(struct qkv_comparison *c, enum qkv_status status) {
    qkv_comparison_reset_ranks(c);
    status = qkv_rank_agree(c->ctx, status);
    qkv_comparison_set_ranks(c);
    return status;
}

static enum qkv_status share_gather(struct qkv_comparison *c, const void *own, size_t bytes, void *all) {
    qkv_comparison_reset_ranks(c);
    const enum qkv_status status = qkv_rank_gather(c->ctx, own, bytes, all);
    qkv_comparison_set_ranks(c);
    return status;
}

/* Runs with other kernels, or with another precision if that is auto, have other numbers and cannot be compared. */
enum qkv_status qkv_comparison_alike(struct qkv_comparison *c) {
    struct card {
        char isa[32], precision[8];
    } own = {.isa = ""}, all[QKV_RANKS_MOST];
    if (c->ranks.ranks <= 1) return QKV_OK;
    snprintf(own.isa, sizeof own.isa, "%s", qkv_context_isa(c->ctx));
    snprintf(own.precision, sizeof own.precision, "%s", qkv_auto_precision(c->ctx) == QKV_FP32 ? "fp32" : "bf16");
    enum qkv_status status = share_gather(c, &own, sizeof own, all);
    if (status) return status;
    if (strcmp(own.isa, all->isa) != 0)
        status =
            qkv_fail(c->ctx, QKV_ARGUMENT,
                     "kernel table %s here and %s on rank 0; set QKV_ISA on all hosts to one that each of them has",
                     own.isa, all->isa);
    else if (strcmp(own.precision, all->precision) != 0)
        status = qkv_fail(c->ctx, QKV_ARGUMENT,
                          "precision auto is %s here and %s on rank 0; give all ranks the same "
                          "QKV_PRECISION",
                          own.precision, all->precision);
    return qkv_comparison_agree(c, status);
}

/* A variant that failed on one rank fails on all, with the message of the first rank that has one. */
static enum qkv_status share_failure(struct qkv_comparison *c, struct qkv_variant_state *v, char *all) {
    char own[SENTENCE] = "";
    if (v->lost) snprintf(own, sizeof own, "%s", v->shown.failure);
    const enum qkv_status status = share_gather(c, own, sizeof own, all);
    for (int r = 0; r < c->ranks.ranks && !status; r++) {
        const char *sentence = all + (size_t)r * SENTENCE;
        if (!*sentence) continue;
        free(v->failure);
        v->failure = NULL;
        qkv_fail(c->ctx, QKV_ARGUMENT, "rank %d: %s", r, sentence);
        qkv_variant_fail(c, v);
        break;
    }
    v->lost = false;
    return status;
}

enum qkv_status qkv_comparison_share_failures(struct qkv_comparison *c) {
    if (c->ranks.ranks <= 1) return QKV_OK;
    char *all = qkv_allocate(c->ctx, (size_t)c->ranks.ranks, SENTENCE);
    enum qkv_status status = qkv_comparison_agree(c, all ? QKV_OK : QKV_MEMORY);
    for (size_t i = 0; i < c->count && !status; i++) status = share_failure(c, &c->variants[i], all);
    free(all);
    return status;
}

enum qkv_status qkv_comparison_share_losses(struct qkv_comparison *c) {
    const size_t n = c->count * c->seeds;
    if (c->ranks.ranks <= 1) return QKV_OK;
    double *own = qkv_allocate(c->ctx, n, sizeof *own);
    double *all = qkv_allocate(c->ctx, (size_t)c->ranks.ranks * n, sizeof *all);
    enum qkv_status status = qkv_comparison_agree(c, own && all ? QKV_OK : QKV_MEMORY);
    for (size_t i = 0; i < n && !status; i++) own[i] = c->variants[i % c->count].losses[i / c->count];
    if (!status) status = share_gather(c, own, n * sizeof *own, all);
    for (size_t i = 0; i < n && !status; i++)
        c->variants[i % c->count].losses[i / c->count] = all[i % (size_t)c->ranks.ranks * n + i];
    free(own);
    free(all);
    return status;
}

/* Tells each note once. */
enum qkv_status qkv_comparison_note(struct qkv_comparison *c, const char *note, const struct qkv_compare_listener *l) {
    for (size_t i = 0; i < c->notes.count; i++)
        if (!strcmp(c->notes.items[i], note)) return QKV_OK;
    if (l->note && !c->ranks.rank) l->note(l->user, note);
    return qkv_texts_add(c->ctx, &c->notes, "%s", note);
}

/* Rank 0 tells the notes of the other ranks, too. */
enum qkv_status qkv_comparison_share_notes(struct qkv_comparison *c, const struct qkv_compare_listener *l) {
    if (c->ranks.ranks <= 1) return QKV_OK;
    char own[NOTES] = "", *all = qkv_allocate(c->ctx, (size_t)c->ranks.ranks, NOTES);
    size_t used = 0;
    enum qkv_status status = qkv_comparison_agree(c, all ? QKV_OK : QKV_MEMORY);
    for (size_t i = 0; i < c->notes.count; i++) {
        const size_t n = strlen(c->notes.items[i]) + 1;
        if (used + n + 1 > sizeof own) break;
        memcpy(own + used, c->notes.items[i], n);
        used += n;
    }
    if (!status) status = share_gather(c, own, sizeof own, all);
    for (int r = 0; r < c->ranks.ranks && !status; r++)
        for (const char *note = all + (size_t)r * NOTES; *note && !status; note += strlen(note) + 1)
            status = qkv_comparison_note(c, note, l);
    free(all);
    return status;
}
