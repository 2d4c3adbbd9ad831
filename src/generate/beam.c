/* beam: beam search for one source, as transformers has it (Graves 2012).
 *
 * A step takes the likeliest continuations of the live hypotheses: (ends + 1)·beam, so that `beam` of them do not end.
 * Continuations that end are finished if they are among the first `beam`; the `beam` best of the others become the live
 * hypotheses. The score of a hypothesis of n tokens, its end included, is
 *
 *     log-probability / n^a
 *
 * and the `beam` best finished hypotheses are stored. enum qkv_stopping says when a source is done. Log-probabilities
 * only fall, so a live hypothesis can at best reach the score of its present log-probability at its present length or
 * at the maximum length: QKV_STOPPING_NEVER changes no result. At the maximum length, the first `beam` continuations
 * are finished, with their end or without. With a beam of 1 (greedy), the first hypothesis whose likeliest token is an
 * end is the result. */
#include "generate/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "backend/backends.h"
#include "generate/generate.h"

size_t qkv_search_width(const struct qkv_search_rules *rules) {
    return rules->options->sample ? rules->options->n_best : rules->options->beam;
}

static bool beam_ends(const struct qkv_search_rules *rules, int32_t id) {
    for (size_t i = 0; i < rules->ids.ends.count; i++)
        if (rules->ids.ends.ids[i] == id) return true;
    return false;
}

static double score_of(const struct qkv_beam *b, double log_probability, size_t tokens) {
    const double n = tokens ? (double)tokens : 1;
    return log_probability / qkv_pow(n, b->rules->options->length_penalty);
}

static size_t beam_stride(const struct qkv_beam *b) {
    return b->max_length + b->begun;
}

const int32_t *qkv_beam_ids(const struct qkv_beam *b, size_t row) {
    return b->ids + row * beam_stride(b);
}

/* The tokens of a live hypothesis, without those that it begins with. */
static const int32_t *beam_tokens(const struct qkv_beam *b, size_t row) {
    return qkv_beam_ids(b, row) + b->begun;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Returns the next piece of a block; with `block` NULL only counts. */
static void *beam_piece(unsigned char *block, size_t *used, size_t count, size_t size, bool *fits) {
    size_t bytes, at = *used, padded;
    *fits = qkv_multiply(count, size, &bytes) && qkv_add_size(bytes, 15, &padded) &&
            qkv_add_size(at, padded & ~(size_t)15, used) && *fits;
    return block && *fits ? block + at : NULL;
}

static bool lay_out(struct qkv_beam *b, unsigned char *block, size_t *bytes) {
    const size_t width = qkv_search_width(b->rules);
    size_t used = 0, all;
    bool fits = qkv_multiply(width, beam_stride(b), &all);
    b->sums = beam_piece(block, &used, width, sizeof *b->sums, &fits);
    b->heap = beam_piece(block, &used, b->rules->most, sizeof *b->heap, &fits);
    b->lanes = beam_piece(block, &used, width, sizeof *b->lanes, &fits);
    b->parents = beam_piece(block, &used, width, sizeof *b->parents, &fits);
    b->finished = beam_piece(block, &used, width, sizeof *b->finished, &fits);
    b->next = beam_piece(block, &used, width, sizeof *b->next, &fits);
    b->ids = beam_piece(block, &used, all, sizeof *b->ids, &fits);
    b->next_ids = beam_piece(block, &used, all, sizeof *b->next_ids, &fits);
    b->finished_ids = beam_piece(block, &used, all, sizeof *b->finished_ids, &fits);
    b->once = beam_piece(block, &used, b->text.source.count, sizeof *b->once, &fits);
    *bytes = used;
    return fits;
}

enum qkv_status qkv_beam_create(const struct qkv_search_rules *rules, const struct qkv_beam_start *start,
                                struct qkv_beam *beam) {
    const size_t begun = start->prompt.count;
    size_t bytes;
    *beam = (struct qkv_beam){.rules = rules,
                              .number = start->number,
                              .max_length = start->max_length,
                              .begun = begun,
                              .live = 1,
                              .text = {.prompt = begun, .max_tokens = start->max_length, .source = start->ids}};
    if (!lay_out(beam, NULL, &bytes)) return qkv_fail_memory(rules->ctx, SIZE_MAX, "the hypotheses of a source");
    beam->memory = qkv_allocate(rules->ctx, bytes, 1);
    if (!beam->memory) return QKV_MEMORY;
    lay_out(beam, beam->memory, &bytes);
    for (size_t row = 0; row < qkv_search_width(rules); row++) {
        memcpy(beam->ids + row * beam_stride(beam), start->prompt.ids, begun * sizeof *beam->ids);
        memcpy(beam->next_ids + row * beam_stride(beam), start->prompt.ids, begun * sizeof *beam->ids);
    }
    if (rules->score.tokens.source_penalty != 1)
        beam->text.source_once = (struct qkv_token_list){beam->once, qkv_ids_once(start->ids, beam->once)};
    return QKV_OK;
}

void qkv_beam_free(struct qkv_beam *beam) {
    free(beam->memory);
    *beam = (struct qkv_beam){0};
}

/* ---- finished hypotheses ---------------------------------------------------------------------------------------- */

/* Stores a hypothesis of `count` tokens and its `end` (0 or 1 tokens) if it is among the best; of equal ones, the first
 * stays first. Returns its place for ids, or NULL. */
static int32_t *beam_store(struct qkv_beam *b, size_t count, size_t end, double log_probability) {
    const size_t width = qkv_search_width(b->rules);
    const double score = score_of(b, log_probability, count + end);
    size_t at = b->finished_count;
    if (at == width && !(score > b->finished[at - 1].score)) return NULL;
    int32_t *place = b->finished_ids + at * beam_stride(b);
    if (at == width)
        place = b->finished_ids + (size_t)(b->finished[--at].ids - b->finished_ids); /* the place of the worst one */
    else
        b->finished_count++;
    for (; at > 0 && score > b->finished[at - 1].score; at--) b->finished[at] = b->finished[at - 1];
    b->finished[at] = (struct qkv_hypothesis){
        .ids = place, .count = count, .log_probability = log_probability, .score = score, .ended = end > 0};
    return place;
}

/* Finishes a hypothesis with one token more: its end, or at the maximum length any token. */
static void beam_finish(struct qkv_beam *b, size_t row, struct qkv_candidate c) {
    const bool ended = beam_ends(b->rules, c.id);
    int32_t *place = beam_store(b, b->length + !ended, ended, c.log_probability);
    if (!place) return;
    if (b->length) memcpy(place, beam_tokens(b, row), b->length * sizeof *place);
    if (!ended) place[b->length] = c.id;
}

/* Finishes hypotheses that no token may follow. */
static void beam_cut(struct qkv_beam *b) {
    for (size_t r = 0; r < b->live; r++) {
        int32_t *place = beam_store(b, b->length, 0, b->sums[r]);
        if (place && b->length) memcpy(place, beam_tokens(b, r), b->length * sizeof *place);
    }
    b->live = 0;
}

static bool beam_decided(const struct qkv_beam *b) {
    const struct qkv_search_options *o = b->rules->options;
    const size_t needed = o->stopping == QKV_STOPPING_NEVER ? o->n_best : o->beam;
    if (o->beam == 1 && b->finished_count) return true;
    if (b->finished_count < needed) return false;
    if (o->stopping == QKV_STOPPING_TRUE) return true;
    double best = -INFINITY;
    for (size_t r = 0; r < b->live; r++) best = qkv_fmax(best, b->sums[r]);
    double bound = score_of(b, best, b->length);
    if (o->stopping == QKV_STOPPING_NEVER) bound = qkv_fmax(bound, score_of(b, best, b->max_length));
    return !(bound > b->finished[needed - 1].score);
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

/* Makes the new live hypotheses: their parents with one token more. */
static void beam_grow(struct qkv_beam *b, size_t live) {
    const size_t stride = beam_stride(b), count = b->length + b->begun;
    for (size_t r = 0; r < live; r++) {
        int32_t *to = b->next_ids + r * stride;
        memcpy(to, b->ids + b->parents[r] * stride, count * sizeof *to);
        to[count] = b->next[r];
    }
    int32_t *ids = b->ids;
    b->ids = b->next_ids;
    b->next_ids = ids;
    b->live = live;
    b->length++;
}

static struct qkv_score_text beam_text(const struct qkv_beam *b, size_t row) {
    struct qkv_score_text text = b->text;
    text.ids = b->ids + row * beam_stride(b);
    text.count = b->length + b->begun;
    return text;
}

struct qkv_continuation qkv_beam_continuation(const struct qkv_beam *b, const float *scores) {
    const struct qkv_search_rules *rules = b->rules;
    return (struct qkv_continuation){.scores = scores,
                                     .rows = b->live,
                                     .sums = b->sums,
                                     .text = beam_text(b, 0),
                                     .stride = beam_stride(b),
                                     .rules = qkv_score_changes(&rules->score) ? &rules->score : NULL,
                                     .greedy = rules->options->beam == 1,
                                     .barred = rules->ids.barred,
                                     .vocab = rules->vocab,
                                     .most = rules->most,
                                     .best = b->heap};
}

void qkv_beam_step(struct qkv_beam *b, const struct qkv_continuation *found) {
    const struct qkv_search_rules *rules = b->rules;
    const size_t beam = rules->options->beam, count = found->count;
    const bool last = b->length + 1 == b->max_length;
    size_t live = 0;
    b->broken = found->broken;
    if (count == 0) {
        beam_cut(b);
        return;
    }
    for (size_t c = 0; c < count && c < beam; c++)
        if (last || beam_ends(rules, b->heap[c].id)) beam_finish(b, (size_t)b->heap[c].row, b->heap[c]);
    for (size_t c = 0; c < count && live < beam && !last; c++) {
        if (beam_ends(rules, b->heap[c].id)) continue;
        b->parents[live] = (size_t)b->heap[c].row;
        b->next[live] = b->heap[c].id;
        b->sums[live++] = b->heap[c].log_probability;
    }
    beam_grow(b, live);
    if (live && beam_decided(b)) b->live = 0;
}

/* ---- sampling --------------------------------------------------------------------------------------------------- */

/* Each line and hypothesis has a seed of its own. */
static uint64_t seed_of(const struct qkv_beam *b, size_t lane) {
    uint64_t seed = b->rules->options->sampling.seed;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[2];
    uint32_t counter[2] = {(uint32_t)b->number, (uint32_t)lane};
    qkv_threefry(key, counter, out);
    return out[0] | (uint64_t)out[1] << 32;
}

/* Draws the next token of a row; its log-probability is that of the model, without rules and sampling options; that of
 * a forced token is 0. */
static enum qkv_status beam_draw(struct qkv_beam *b, const float *scores, size_t row, size_t lane,
                                 struct qkv_candidate *c) {
    const struct qkv_search_rules *rules = b->rules;
    const struct qkv_score_text text = beam_text(b, row);
    struct qkv_sampling sampling = rules->options->sampling;
    sampling.seed = seed_of(b, lane);
    *c = (struct qkv_candidate){.row = (int32_t)row};
    const struct qkv_sample_call call = {.sampling = &sampling,
                                         .rules = &rules->score,
                                         .barred = rules->ids.barred,
                                         .text = &text,
                                         .logits = scores,
                                         .vocab = rules->vocab,
                                         .draw = (uint64_t)b->length};
    enum qkv_status status = qkv_sample_by_rules(rules->ctx, &call, &c->id);
    if (status || qkv_score_forced(&rules->score, &text).count) return status;
    double lse = (double)rules->ctx->kernels->log_sum_exp(scores, rules->V);
    if (!isfinite(lse)) b->broken = true;
    c->log_probability = (double)scores[c->id] - lse;
    return QKV_OK;
}

enum qkv_status qkv_beam_draw(struct qkv_beam *b, const float *scores) {
    const struct qkv_search_rules *rules = b->rules;
    const bool first = b->length == 0, last = b->length + 1 == b->max_length;
    size_t rows = first ? qkv_search_width(rules) : b->live, live = 0;
    for (size_t r = 0; r < rows; r++) {
        size_t parent = first ? 0 : r, lane = first ? r : b->lanes[r];
        struct qkv_candidate c;
        enum qkv_status status = beam_draw(b, scores + parent * rules->V, parent, lane, &c);
        if (status) return status;
        c.log_probability += first ? 0 : b->sums[r];
        if (last || beam_ends(rules, c.id)) {
            beam_finish(b, parent, c);
            continue;
        }
        b->parents[live] = parent;
        b->next[live] = c.id;
        b->lanes[live] = lane;
        b->sums[live++] = c.log_probability;
    }
    beam_grow(b, live);
    return QKV_OK;
}
