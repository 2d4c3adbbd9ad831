/* beam: beam search for one source (Graves 2012; length penalty of Wu et al. 2016, n-grams blocked as in Paulus et
 * al. 2017).
 *
 * A step takes the 2·beam likeliest continuations of the live hypotheses. Continuations that end are finished if
 * they are among the first `beam`; the `beam` best of the others become the live hypotheses. The score of a
 * hypothesis of n tokens, its end included, is
 *
 *     log-probability / ((5 + n)/6)^a
 *
 * A source is done when n_best hypotheses are finished and no live one can beat the last of them. Log-probabilities
 * only fall, so a live hypothesis can at best reach the score of its present log-probability at its present length
 * or at the maximum length: stopping there changes no result. With a beam of 1 (greedy), the first hypothesis whose
 * likeliest token is an end is the result. At the maximum length, a live hypothesis ends if its end is among the
 * `beam` likeliest continuations; else it is cut. */
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
    for (size_t i = 0; i < rules->ids.end_count; i++)
        if (rules->ids.ends[i] == id) return true;
    return false;
}

static double score_of(const struct qkv_beam *b, double log_probability, size_t tokens) {
    return log_probability / qkv_pow((5 + (double)tokens) / 6, b->rules->options->length_penalty);
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
    const size_t width = qkv_search_width(b->rules), n_best = b->rules->options->n_best;
    size_t used = 0, all, finished;
    bool fits = qkv_multiply(width, b->max_length, &all);
    fits = qkv_multiply(n_best, b->max_length, &finished) && fits;
    b->sums = beam_piece(block, &used, width, sizeof *b->sums, &fits);
    b->heap = beam_piece(block, &used, width, 2 * sizeof *b->heap, &fits);
    b->lanes = beam_piece(block, &used, width, sizeof *b->lanes, &fits);
    b->parents = beam_piece(block, &used, width, sizeof *b->parents, &fits);
    b->finished = beam_piece(block, &used, n_best, sizeof *b->finished, &fits);
    b->next = beam_piece(block, &used, width, sizeof *b->next, &fits);
    b->ids = beam_piece(block, &used, all, sizeof *b->ids, &fits);
    b->next_ids = beam_piece(block, &used, all, sizeof *b->next_ids, &fits);
    b->banned = beam_piece(block, &used, b->max_length, sizeof *b->banned, &fits);
    b->finished_ids = beam_piece(block, &used, finished, sizeof *b->finished_ids, &fits);
    *bytes = used;
    return fits;
}

enum qkv_status qkv_beam_create(const struct qkv_search_rules *rules, size_t source, size_t number, size_t max_length,
                                struct qkv_beam *beam) {
    size_t bytes;
    *beam = (struct qkv_beam){.rules = rules, .source = source, .number = number, .max_length = max_length, .live = 1};
    if (!lay_out(beam, NULL, &bytes)) return qkv_fail_memory(rules->ctx, SIZE_MAX, "the hypotheses of a source");
    beam->memory = qkv_allocate(rules->ctx, bytes, 1);
    if (!beam->memory) return QKV_MEMORY;
    lay_out(beam, beam->memory, &bytes);
    return QKV_OK;
}

void qkv_beam_free(struct qkv_beam *beam) {
    free(beam->memory);
    *beam = (struct qkv_beam){0};
}

/* ---- finished hypotheses ---------------------------------------------------------------------------------------- */

/* Stores a hypothesis if it is among the n_best; of equal ones, the first stays first. */
static void beam_finish(struct qkv_beam *b, const int32_t *ids, double log_probability, bool ended) {
    const size_t n_best = b->rules->options->n_best, count = b->length;
    double score = score_of(b, log_probability, count + ended);
    size_t at = b->finished_count;
    if (at == n_best && !(score > b->finished[at - 1].score)) return;
    int32_t *place = b->finished_ids + at * b->max_length;
    if (at == n_best)
        place = b->finished_ids + (size_t)(b->finished[--at].ids - b->finished_ids); /* the place of the worst one */
    else
        b->finished_count++;
    for (; at > 0 && score > b->finished[at - 1].score; at--) b->finished[at] = b->finished[at - 1];
    if (count) memcpy(place, ids, count * sizeof *ids);
    b->finished[at] = (struct qkv_hypothesis){
        .ids = place, .count = count, .log_probability = log_probability, .score = score, .ended = ended};
}

/* Whether no live hypothesis can beat the last of the n_best. */
static bool beam_decided(const struct qkv_beam *b) {
    const struct qkv_search_options *o = b->rules->options;
    if (o->beam == 1 && b->finished_count) return true;
    if (b->finished_count < o->n_best) return false;
    double best = -INFINITY;
    for (size_t r = 0; r < b->live; r++) best = qkv_fmax(best, b->sums[r]);
    double bound = qkv_fmax(score_of(b, best, b->length), score_of(b, best, b->max_length + 1));
    return !(bound > b->finished[o->n_best - 1].score);
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

/* Makes the new live hypotheses: their parents with one token more. */
static void beam_grow(struct qkv_beam *b, size_t live) {
    for (size_t r = 0; r < live; r++) {
        int32_t *to = b->next_ids + r * b->max_length;
        if (b->length) memcpy(to, b->ids + b->parents[r] * b->max_length, b->length * sizeof *to);
        to[b->length] = b->next[r];
    }
    int32_t *ids = b->ids;
    b->ids = b->next_ids;
    b->next_ids = ids;
    b->live = live;
    b->length++;
}

/* At the maximum length a hypothesis ends or is cut. */
static void finish_all(struct qkv_beam *b, size_t candidates) {
    const struct qkv_search_rules *rules = b->rules;
    size_t first = candidates < rules->options->beam ? candidates : rules->options->beam;
    for (size_t r = 0; r < b->live; r++) {
        size_t c = 0;
        while (c < first && !(beam_ends(rules, b->heap[c].id) && (size_t)b->heap[c].row == r)) c++;
        bool ended = c < first;
        beam_finish(b, b->ids + r * b->max_length, ended ? b->heap[c].log_probability : b->sums[r], ended);
    }
    b->live = 0;
}

struct qkv_continuation qkv_beam_continuation(const struct qkv_beam *b, const float *scores) {
    return (struct qkv_continuation){.scores = scores,
                                     .rows = b->live,
                                     .sums = b->sums,
                                     .ids = b->ids,
                                     .length = b->length,
                                     .stride = b->max_length,
                                     .banned = b->banned,
                                     .best = b->heap};
}

void qkv_beam_step(struct qkv_beam *b, const struct qkv_continuation *found) {
    const struct qkv_search_rules *rules = b->rules;
    const size_t beam = rules->options->beam, count = found->count;
    size_t live = 0;
    b->broken = found->broken;
    if (b->length == b->max_length || count == 0) {
        finish_all(b, count);
        return;
    }
    for (size_t c = 0; c < count; c++)
        if (beam_ends(rules, b->heap[c].id) && c < beam)
            beam_finish(b, b->ids + (size_t)b->heap[c].row * b->max_length, b->heap[c].log_probability, true);
    for (size_t c = 0; c < count && live < beam; c++) {
        if (beam_ends(rules, b->heap[c].id)) continue;
        b->parents[live] = (size_t)b->heap[c].row;
        b->next[live] = b->heap[c].id;
        b->sums[live++] = b->heap[c].log_probability;
    }
    beam_grow(b, live);
    if (beam_decided(b)) b->live = 0;
}

/* ---- sampling --------------------------------------------------------------------------------------------------- */

/* Lists the tokens that would repeat n tokens of a row. */
static void find_banned(struct qkv_beam *b, const int32_t *ids) {
    b->banned_count = qkv_repeats(ids, b->length, b->rules->options->no_repeat, b->banned);
}

/* Each line and hypothesis has a seed of its own. */
static uint64_t seed_of(const struct qkv_beam *b, size_t lane) {
    uint64_t seed = b->rules->options->sampling.seed;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[2];
    uint32_t counter[2] = {(uint32_t)b->number, (uint32_t)lane};
    qkv_threefry(key, counter, out);
    return out[0] | (uint64_t)out[1] << 32;
}

/* Draws the next token of a row; its log-probability is that of the model, without the sampling options. */
static enum qkv_status beam_draw(struct qkv_beam *b, const float *scores, const int32_t *ids, size_t lane,
                                 struct qkv_candidate *c) {
    const struct qkv_search_rules *rules = b->rules;
    struct qkv_sampling sampling = rules->options->sampling;
    sampling.seed = seed_of(b, lane);
    if (b->length == 0 && rules->ids.first >= 0) {
        *c = (struct qkv_candidate){.id = rules->ids.first};
        return QKV_OK;
    }
    find_banned(b, ids);
    const struct qkv_barred barred[QKV_BARRED_LISTS] = {{b->banned, b->banned_count},
                                                        {rules->ids.barred, rules->ids.barred_count}};
    enum qkv_status status = qkv_sample_barred(rules->ctx, &sampling, barred, scores, rules->vocab, ids, b->length,
                                               (uint64_t)b->length, &c->id);
    if (status) return status;
    double lse = (double)rules->ctx->kernels->log_sum_exp(scores, rules->V);
    if (!isfinite(lse)) b->broken = true;
    c->log_probability = (double)scores[c->id] - lse;
    return QKV_OK;
}

enum qkv_status qkv_beam_draw(struct qkv_beam *b, const float *scores) {
    const struct qkv_search_rules *rules = b->rules;
    const bool first = b->length == 0;
    size_t rows = first ? qkv_search_width(rules) : b->live, live = 0;
    enum qkv_status status = QKV_OK;
    for (size_t r = 0; r < rows && !status; r++) {
        size_t parent = first ? 0 : r, lane = first ? r : b->lanes[r];
        const int32_t *ids = b->ids + parent * b->max_length;
        struct qkv_candidate c;
        double sum = first ? 0 : b->sums[r];
        status = beam_draw(b, scores + parent * rules->V, ids, lane, &c);
        if (status) break;
        const bool ended = beam_ends(rules, c.id);
        if (ended || b->length == b->max_length) {
            beam_finish(b, ids, ended ? sum + c.log_probability : sum, ended);
            continue;
        }
        b->parents[live] = parent;
        b->next[live] = c.id;
        b->lanes[live] = lane;
        b->sums[live++] = sum + c.log_probability;
    }
    if (b->length == b->max_length || status)
        b->live = 0;
    else
        beam_grow(b, live);
    return status;
}
