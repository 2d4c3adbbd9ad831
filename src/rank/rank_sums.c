/* rank_sums: gradients of several ranks become one sum. The owner of some floats gets the sums of all nodes of the
 * tree for them, a share of a bucket at a time, adds them as the tree says, and is the only one who has them then. */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "rank/ranks.h"

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

/* Adds the rounds of gradients [to, end), which lie from `at` on in a node's sum; only counted where rounds is NULL. */
static size_t sums_add_rounds(const struct qkv_rank_cut *cut, struct qkv_rank_round *rounds, size_t count,
                              struct qkv_rank_round run) {
    for (size_t to = run.to, next; to < run.end; to = next) {
        const size_t bucket = to / cut->bucket;
        next = qkv_min((bucket + 1) * cut->bucket, run.end);
        if (rounds) rounds[count] = (struct qkv_rank_round){bucket, to, next, run.at + (to - run.to), run.later};
        count++;
    }
    return count;
}

size_t qkv_rank_rounds_of(const struct qkv_rank_cut *cut, size_t rounds, size_t groups) {
    return groups > 1 ? rounds : cut->buckets;
}

size_t qkv_rank_rounds(const struct qkv_weights *w, const struct qkv_rank_cut *cut, struct qkv_rank_round *rounds) {
    size_t count = 0, at = w->floats, uses;
    for (size_t b = cut->buckets; b-- > 0;)
        count = sums_add_rounds(cut, rounds, count,
                                (struct qkv_rank_round){.to = b * cut->bucket,
                                                        .end = qkv_min((b + 1) * cut->bucket, cut->floats),
                                                        .at = b * cut->bucket});
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct qkv_tensor *x = w->tensors[i];
        const size_t stride = qkv_parts_later(x, &uses), own = uses && x->learning.gradient ? qkv_rank_place(w, x) : 0;
        for (size_t use = 0; use < uses; use++, at += stride)
            count = sums_add_rounds(
                cut, rounds, count,
                (struct qkv_rank_round){.to = own, .end = own + x->rows * x->columns, .at = at, .later = true});
    }
    return count;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* The most nodes that a rank has, and all other ranks together, in a batch of so many rows; 0: of any number. */
static void sums_count_nodes(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t batch,
                             size_t *own, size_t *others) {
    const size_t most = (size_t)options->groups; /* more rows make no more groups */
    *own = 1;
    *others = 0;
    for (size_t rows = batch ? qkv_min(batch, most) : 1; rows <= (batch ? qkv_min(batch, most) : most); rows++) {
        size_t all = 0;
        for (int rank = 0; rank < qkv_context_ranks(ctx); rank++) {
            const size_t count = qkv_rank_share_of(ctx, options, rows, rank).count;
            if (rank == qkv_context_rank(ctx))
                *own = qkv_max(*own, count);
            else
                all += count;
        }
        *others = qkv_max(*others, all);
    }
}

static bool sums_pack(const struct qkv_train_options *options) {
    return !strcmp(options->gradients, "bf16");
}

enum qkv_status qkv_rank_sums_bytes(const struct qkv_model *model, const struct qkv_train_options *options,
                                    size_t batch, size_t later_floats, size_t *bytes) {
    size_t own, others, floats, slots;
    *bytes = 0;
    if (qkv_context_ranks(model->ctx) == 1) return QKV_OK;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(model->ctx, model->weights.floats);
    sums_count_nodes(model->ctx, options, batch, &own, &others);
    if (qkv_add_size(model->weights.floats, later_floats, &floats) && qkv_multiply(floats, own - 1, &slots) &&
        qkv_multiply(others, cut.share, &floats) && qkv_add_size(floats, slots, &slots) &&
        qkv_multiply(slots, sizeof(float), &slots)) {
        *bytes = slots + (own + 3) * QKV_CACHE_LINE;
        if (sums_pack(options)) *bytes += 2 * cut.share * sizeof(uint16_t);
        return QKV_OK;
    }
    return qkv_fail_memory(model->ctx, SIZE_MAX, "gradients of ranks");
}

static enum qkv_status sums_take(struct qkv_rank_sums *s, const struct qkv_train_options *options, size_t batch) {
    struct qkv_model *m = s->parts->model;
    size_t own, others, bytes;
    sums_count_nodes(m->ctx, options, batch, &own, &others);
    enum qkv_status status = qkv_rank_sums_bytes(m, options, batch, s->parts->later_floats, &bytes);
    if (!status) status = qkv_arena_create(m->ctx, &s->arena, bytes, "gradients of ranks");
    if (status) return status;
    s->received = qkv_arena_take(&s->arena, others * s->cut.share, sizeof(float));
    if (s->received && sums_pack(options)) s->packed = qkv_arena_take(&s->arena, 2 * s->cut.share, sizeof *s->packed);
    if (!s->received || (sums_pack(options) && !s->packed)) return QKV_MEMORY;
    for (s->slot_count = 0; s->slot_count + 1 < own; s->slot_count++) {
        s->slots[s->slot_count] = qkv_arena_take(&s->arena, m->weights.floats + s->parts->later_floats, sizeof(float));
        if (!s->slots[s->slot_count]) return QKV_MEMORY;
    }
    return QKV_OK;
}

/* Weights that a pass uses more than once are complete only after it. */
static void sums_count_waits(struct qkv_rank_sums *s) {
    const struct qkv_weights *w = &s->parts->model->weights;
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct qkv_tensor *x = w->tensors[i];
        if (!x->learning.gradient) continue;
        const size_t at = (size_t)(x->learning.gradient - w->gradients), last = at + x->rows * x->columns - 1;
        for (size_t b = at / s->cut.bucket; b <= last / s->cut.bucket; b++) s->waits[b]++;
    }
}

static int sums_round(void *argument, size_t round) {
    return qkv_rank_round_run(argument, round);
}

enum qkv_status qkv_rank_sums_create(struct qkv_model *model, struct qkv_part_sums *parts,
                                     const struct qkv_train_options *options, size_t batch, struct qkv_rank_sums *s) {
    struct qkv_context *ctx = model->ctx;
    *s = (struct qkv_rank_sums){0};
    if (qkv_context_ranks(ctx) == 1) return QKV_OK;
    s->parts = parts;
    s->cut = qkv_rank_cut_of(ctx, model->weights.floats);
    enum qkv_status status = sums_take(s, options, batch);
    if (status) return status;
    s->round_count = qkv_rank_rounds(&model->weights, &s->cut, NULL);
    s->rounds = qkv_allocate(ctx, s->round_count + 1, sizeof *s->rounds);
    s->waits = qkv_allocate(ctx, s->cut.buckets + 1, sizeof *s->waits);
    s->missing = qkv_allocate(ctx, s->cut.buckets + 1, sizeof *s->missing);
    s->cards = qkv_allocate(ctx, (size_t)(s->cut.ranks + 1) * qkv_rank_card(&s->cut), sizeof *s->cards);
    if (!s->rounds || !s->waits || !s->missing || !s->cards) return QKV_MEMORY;
    qkv_rank_rounds(&model->weights, &s->cut, s->rounds);
    sums_count_waits(s);
    return qkv_worker_create(ctx, sums_round, s, &s->worker);
}

void qkv_rank_sums_free(struct qkv_rank_sums *sums) {
    qkv_worker_free(sums->worker);
    qkv_arena_free(&sums->arena);
    free(sums->rounds);
    free(sums->waits);
    free(sums->missing);
    free(sums->cards);
    *sums = (struct qkv_rank_sums){0};
}

void qkv_rank_sums_keep(struct qkv_rank_sums *sums, const struct qkv_rank_share *share, size_t node) {
    if (!sums->parts || node + 1 == share->count) return;
    struct qkv_weights *w = &sums->parts->model->weights;
    const size_t later = sums->parts->later_floats;
    memcpy(sums->slots[node], w->gradients, w->floats * sizeof(float));
    qkv_weights_clear_gradients(w);
    if (!later) return;
    memcpy(sums->slots[node] + w->floats, sums->parts->later, later * sizeof(float));
    memset(sums->parts->later, 0,
           later * sizeof(float) + sums->parts->later_bytes); /* and what says that rows are used */
}

/* ---- a round ---------------------------------------------------------------------------------------------------- */

struct qkv_rank_piece qkv_rank_piece_of(const struct qkv_rank_cut *cut, const struct qkv_rank_round *round, int rank) {
    size_t begin, end;
    qkv_rank_own(cut, round->bucket, rank, &begin, &end);
    begin = qkv_max(begin, round->to);
    end = qkv_min(end, round->end);
    if (begin >= end) return (struct qkv_rank_piece){0};
    return (struct qkv_rank_piece){round->at + (begin - round->to), begin, end - begin};
}

/* What this rank has of a node of its own, from a place in its sum on. */
static float *sums_own(const struct qkv_rank_sums *s, size_t node, size_t at) {
    const struct qkv_weights *w = &s->parts->model->weights;
    if (node + 1 < s->shares[qkv_context_rank(w->ctx)].count) return s->slots[node] + at;
    return at < w->floats ? w->gradients + at : s->parts->later + (at - w->floats);
}

/* As floats, or rounded to bf16. */
static int sums_exchange(const struct qkv_rank_sums *s, int to, const float *sent, size_t out, int from,
                         float *received, size_t in) {
    const struct qkv_context *ctx = s->parts->model->ctx;
    const struct qkv_communicator *c = &ctx->ranks;
    if (!s->packed) return c->exchange(c->state, to, sent, out * sizeof(float), from, received, in * sizeof(float));
    uint16_t *there = s->packed, *here = there + s->cut.share;
    if (out) ctx->kernels->narrow(there, sent, out);
    const int error = c->exchange(c->state, to, there, out * sizeof *there, from, here, in * sizeof *here);
    if (in && !error) ctx->kernels->widen(received, here, in);
    return error;
}

/* Sends each owner its piece of every node, and receives those of the piece that is this rank's own. */
static int sums_travel(const struct qkv_rank_sums *s, const struct qkv_rank_round *round) {
    const struct qkv_communicator *c = &s->parts->model->ctx->ranks;
    const struct qkv_rank_piece mine = qkv_rank_piece_of(&s->cut, round, c->rank);
    int error = 0;
    for (int shift = 1; shift < c->ranks; shift++) {
        const int to = (c->rank + shift) % c->ranks, from = (c->rank + c->ranks - shift) % c->ranks;
        const struct qkv_rank_piece theirs = qkv_rank_piece_of(&s->cut, round, to);
        for (size_t node = 0; node < s->nodes && !error; node++) {
            const size_t out = node < s->shares[c->rank].count ? theirs.count : 0;
            const size_t in = node < s->shares[from].count ? mine.count : 0;
            if (!out && !in) continue;
            float *received = in ? s->received + (s->first[from] + node) * s->cut.share : NULL;
            error = sums_exchange(s, to, out ? sums_own(s, node, theirs.at) : NULL, out, from, received, in);
        }
    }
    return error;
}

/* Adds the nodes of all ranks for this rank's piece, in the order of groups. */
static void sums_add(const struct qkv_rank_sums *s, const struct qkv_rank_round *round) {
    const struct qkv_model *m = s->parts->model;
    const struct qkv_communicator *c = &m->ctx->ranks;
    const struct qkv_rank_piece mine = qkv_rank_piece_of(&s->cut, round, c->rank);
    const struct qkv_kernels *kernels = m->ctx->kernels;
    float *levels[QKV_ORDER_LEVELS], *sum = NULL, *out = m->weights.gradients + mine.to;
    if (!mine.count) return;
    for (int r = 0; r < c->ranks; r++) {
        const struct qkv_rank_share *share = &s->shares[r];
        for (size_t node = 0; node < share->count; node++) {
            const struct qkv_order_step step =
                qkv_order_step(share->nodes[node].begin, share->nodes[node].end, share->groups);
            sum = r == c->rank ? sums_own(s, node, mine.at) : s->received + (s->first[r] + node) * s->cut.share;
            for (size_t i = 0; i < step.count; i++) kernels->add(sum, levels[step.levels[i]], sum, mine.count);
            if (!step.last) levels[step.level] = sum;
        }
    }
    if (!sum) return;
    if (!round->later) {
        if (sum != out) memcpy(out, sum, mine.count * sizeof *out);
        return;
    }
    kernels->add(out, sum, out, mine.count);
    /* Sums of other ranks were added there too, to rows that this rank has not marked: nobody else clears them. */
    memset(s->parts->later + (mine.at - m->weights.floats), 0, mine.count * sizeof *sum);
}

int qkv_rank_round_run(struct qkv_rank_sums *sums, size_t i) {
    const int error = sums_travel(sums, &sums->rounds[i]);
    if (!error) sums_add(sums, &sums->rounds[i]);
    return error;
}
