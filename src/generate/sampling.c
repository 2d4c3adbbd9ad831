/* Choosing the next token from its scores: repetition penalty (Keskar et al. 2019), temperature, top-k (Fan et al.
 * 2018), top-p (the nucleus, Holtzman et al. 2020) and min-p (Nguyen et al. 2024).
 *
 * The filters need the likeliest tokens only, in order. They come from a heap one by one: V + n·log V operations for
 * n tokens, instead of sorting the vocabulary. Equal scores are ordered by id. The heap is in the workspace of the
 * context, which grows to the largest vocabulary and then serves every token. */
#include "backend/backends.h"
#include "base/math.h"
#include "generate/generate.h"
#include "kernel/kernel.h"

#include <float.h>
#include <limits.h>

/* Scores are floats: shares that differ by less than this count as equal. */
#define SHARE_ERROR 1e-6

struct candidate {
    float score;
    int32_t id;
};

struct candidates {
    struct candidate *at; /* a heap at [0, count), then the tokens taken from it, the likeliest last */
    size_t total, count;
    double temperature;
    float best;
};

struct qkv_sampling qkv_sampling_defaults(void) {
    return (struct qkv_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1};
}

enum qkv_status qkv_sampling_check(struct qkv_context *ctx, const struct qkv_sampling *s) {
    char shown[QKV_REAL_TEXT];
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "temperature is %s; it must be from 0 (always the likeliest token) to 1.7e308",
                        qkv_real_text(shown, s->temperature));
    if (s->top_k < 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "top_k is %d; it must be from 0 (all) to %d", s->top_k, INT_MAX);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return qkv_fail(ctx, QKV_ARGUMENT, "top_p is %s; it must be greater than 0 and at most 1 (1: all)",
                        qkv_real_text(shown, s->top_p));
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return qkv_fail(ctx, QKV_ARGUMENT, "min_p is %s; it must be from 0 (all) to 1", qkv_real_text(shown, s->min_p));
    if (!(s->repeat_penalty > 0 && isfinite(s->repeat_penalty)))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "repeat_penalty is %s; it must be greater than 0 and at most 1.7e308 (1: off)",
                        qkv_real_text(shown, s->repeat_penalty));
    if (s->repeat_last < 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "repeat_last is %d; it must be from 0 (all) to %d", s->repeat_last, INT_MAX);
    return QKV_OK;
}

/* ---- scores ----------------------------------------------------------------------------------------------------- */

static enum qkv_status copy_scores(struct qkv_context *ctx, struct candidates *c, const float *logits) {
    for (size_t i = 0; i < c->total; i++) {
        if (isnan(logits[i]))
            return qkv_fail(ctx, QKV_NUMBER,
                            "the score of token %zu is not a number: the weights are broken, or training diverged; use "
                            "an earlier checkpoint",
                            i);
        c->at[i] = (struct candidate){.score = logits[i], .id = (int32_t)i};
    }
    return QKV_OK;
}

/* Penalises each recent token once, however often it occurs: the penalty starts from its own logit each time. */
static void sampling_penalise(struct candidates *c, const struct qkv_sampling *s, const float *logits,
                              const int32_t *history, size_t count) {
    size_t last = s->repeat_last && (size_t)s->repeat_last < count ? (size_t)s->repeat_last : count;
    for (size_t i = count - last; i < count && s->repeat_penalty != 1; i++) {
        int32_t id = history[i];
        if (id < 0 || (size_t)id >= c->total) continue;
        float old = logits[id];
        double score = old > 0 ? (double)old / s->repeat_penalty : (double)old * s->repeat_penalty;
        c->at[id].score = isfinite(old) ? (float)qkv_fmax(qkv_fmin(score, (double)FLT_MAX), -(double)FLT_MAX) : old;
    }
}

/* The probability relative to the likeliest token's, which is 1. */
static double sampling_weight(const struct candidates *c, struct candidate x) {
    return x.score == c->best ? 1 : qkv_exp(((double)x.score - (double)c->best) / c->temperature);
}

/* ---- the likeliest tokens --------------------------------------------------------------------------------------- */

static bool sampling_likelier(struct candidate a, struct candidate b) {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

static void sift_down(struct candidates *c, size_t i) {
    struct candidate x = c->at[i];
    for (size_t child; (child = 2 * i + 1) < c->count; i = child) {
        if (child + 1 < c->count && sampling_likelier(c->at[child + 1], c->at[child])) child++;
        if (!sampling_likelier(c->at[child], x)) break;
        c->at[i] = c->at[child];
    }
    c->at[i] = x;
}

static void make_heap(struct candidates *c) {
    for (size_t i = c->count / 2; i-- > 0;) sift_down(c, i);
}

/* Takes the likeliest token from the heap, and puts it before those taken earlier. */
static struct candidate sampling_take(struct candidates *c) {
    struct candidate top = c->at[0];
    c->at[0] = c->at[--c->count];
    c->at[c->count] = top;
    sift_down(c, 0);
    return top;
}

/* Returns the n-th likeliest of the tokens taken. */
static struct candidate sampling_taken(const struct candidates *c, size_t n) {
    return c->at[c->total - 1 - n];
}

/* Takes the likeliest tokens that the filters leave, and returns how many. *sum: their weight. */
static size_t sampling_filter(struct candidates *c, const struct qkv_sampling *s, double *sum) {
    size_t max_count = s->top_k && (size_t)s->top_k < c->total ? (size_t)s->top_k : c->total, chosen = 0;
    double whole = 0;
    make_heap(c);
    if (max_count < c->total) {
        for (size_t n = 0; n < max_count; n++) whole += sampling_weight(c, sampling_take(c));
    } else {
        for (size_t i = 0; i < c->total; i++) whole += sampling_weight(c, c->at[i]);
    }
    *sum = 0;
    while (chosen < max_count) {
        struct candidate x = chosen < c->total - c->count ? sampling_taken(c, chosen) : sampling_take(c);
        double share = sampling_weight(c, x);
        if (chosen > 0 && (share == 0 || share < s->min_p * (1 - SHARE_ERROR))) break;
        *sum += share;
        chosen++;
        if (s->top_p < 1 && *sum >= s->top_p * whole * (1 - SHARE_ERROR)) break;
    }
    return chosen;
}

/* ---- the draw --------------------------------------------------------------------------------------------------- */

static int32_t draw_filtered(struct candidates *c, const struct qkv_sampling *s, double uniform) {
    double sum, below = 0;
    size_t chosen = sampling_filter(c, s, &sum);
    for (size_t n = 0; n < chosen; n++) {
        below += sampling_weight(c, sampling_taken(c, n));
        if (below > uniform * sum) return sampling_taken(c, n).id;
    }
    return sampling_taken(c, chosen - 1).id;
}

static int32_t draw_any(const struct candidates *c, double uniform) {
    double sum = 0, below = 0;
    int32_t last = 0;
    for (size_t i = 0; i < c->total; i++) sum += sampling_weight(c, c->at[i]);
    for (size_t i = 0; i < c->total; i++) {
        double share = sampling_weight(c, c->at[i]);
        if (share > 0) last = (int32_t)i;
        below += share;
        if (share > 0 && below > uniform * sum) break;
    }
    return last;
}

static enum qkv_status sampling_choose(struct qkv_context *ctx, struct candidates *c, const struct qkv_sampling *s,
                                       uint64_t draw, int32_t *id) {
    struct candidate best = c->at[0];
    for (size_t i = 1; i < c->total; i++)
        if (c->at[i].score > best.score) best = c->at[i];
    if (best.score == -INFINITY)
        return qkv_fail(ctx, QKV_NUMBER, "the scores of all %zu tokens are -inf; there is none to choose", c->total);
    c->best = best.score;
    c->temperature = s->temperature;
    struct qkv_random random = qkv_random_start(s->seed, draw);
    double uniform = qkv_random_uniform(&random);
    bool all = s->top_k == 0 && s->top_p == 1 && s->min_p == 0;
    *id = s->temperature == 0 ? best.id : all ? draw_any(c, uniform) : draw_filtered(c, s, uniform);
    return QKV_OK;
}

/* Leaves the tokens of a constraint; end tokens by whether the text may end. */
static enum qkv_status sampling_allow(struct qkv_context *ctx, struct candidates *c, const struct qkv_allowed *allowed,
                                      struct qkv_token_list ends) {
    float end_scores[QKV_TOKEN_ENDS + 1], best = -INFINITY;
    for (size_t i = 0; i < ends.count; i++) end_scores[i] = c->at[ends.ids[i]].score;
    for (size_t i = 0; i < c->total; i++)
        if (i >= allowed->count || !(allowed->bits[i / 64] >> i % 64 & 1)) c->at[i].score = -INFINITY;
    for (size_t i = 0; i < ends.count; i++) c->at[ends.ids[i]].score = allowed->ends ? end_scores[i] : -INFINITY;
    for (size_t i = 0; i < c->total; i++) best = c->at[i].score > best ? c->at[i].score : best;
    if (best > -INFINITY) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "no token can follow: those that the constraint allows are excluded by other rules, or the "
                    "vocabulary of %zu tokens lacks one that it needs; give up one of the two",
                    c->total);
}

/* Chooses with the arena of the workspace. */
static enum qkv_status sampling_run(struct qkv_context *ctx, const struct qkv_sample_call *call,
                                    struct qkv_arena *arena, int32_t *id) {
    struct candidates c = {.total = call->vocab, .count = call->vocab};
    const bool changes = qkv_score_changes(call->rules);
    const float *logits = call->logits;
    c.at = qkv_arena_take(arena, call->vocab, sizeof *c.at);
    float *changed = changes ? qkv_arena_take(arena, call->vocab, sizeof *changed) : NULL;
    if (!c.at || (changes && !changed)) return QKV_MEMORY;
    enum qkv_status status = copy_scores(ctx, &c, logits);
    if (status) return status;
    if (changes) {
        qkv_score_apply(call->rules, call->text, 0, logits, changed, call->vocab);
        for (size_t i = 0; i < call->vocab; i++) c.at[i].score = changed[i];
        logits = changed;
    }
    sampling_penalise(&c, call->sampling, logits, call->text->ids, call->text->count);
    for (size_t i = 0; i < call->barred.count; i++)
        if (call->barred.ids[i] >= 0 && (size_t)call->barred.ids[i] < c.total)
            c.at[call->barred.ids[i]].score = -INFINITY;
    if (call->allowed) status = sampling_allow(ctx, &c, call->allowed, call->rules->ends);
    if (status) return status;
    return sampling_choose(ctx, &c, call->sampling, call->draw, id);
}

enum qkv_status qkv_sample_by_rules(struct qkv_context *ctx, const struct qkv_sample_call *call, int32_t *id) {
    struct qkv_arena *arena;
    size_t bytes;
    enum qkv_status status = qkv_sampling_check(ctx, call->sampling);
    *id = -1;
    if (status) return status;
    if (call->vocab == 0 || call->vocab > INT32_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "cannot choose among %zu tokens; a vocabulary has 1 to %d", call->vocab,
                        INT32_MAX);
    if (!qkv_multiply(call->vocab, sizeof(struct candidate) + sizeof(float), &bytes) ||
        !qkv_add_size(bytes, QKV_CACHE_LINE, &bytes))
        return qkv_fail_memory(ctx, SIZE_MAX, "candidates");
    status = qkv_workspace(ctx, bytes, &arena);
    if (status) return status;
    const size_t mark = qkv_arena_mark(arena);
    status = sampling_run(ctx, call, arena, id);
    qkv_arena_release(arena, mark);
    return status;
}

enum qkv_status qkv_sample(struct qkv_context *ctx, const struct qkv_sampling *sampling, const float *logits,
                           size_t vocab, const int32_t *history, size_t history_count, uint64_t draw, int32_t *id) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, logits);
    QKV_NEED(ctx, id);
    QKV_NEED_ALL(ctx, history_count, history);
    const struct qkv_sampling usual = qkv_sampling_defaults();
    const struct qkv_score_rules none = {.tokens = qkv_token_rules_defaults(), .penalty = 1};
    const struct qkv_score_text text = {.ids = history, .count = history_count};
    if (!sampling) sampling = &usual;
    const size_t last = sampling->repeat_last > 0 ? (size_t)sampling->repeat_last : history_count;
    for (size_t i = last < history_count ? history_count - last : 0; i < history_count; i++)
        if (sampling->repeat_penalty != 1 && (history[i] < 0 || (size_t)history[i] >= vocab)) {
            *id = -1;
            return qkv_fail(ctx, QKV_ARGUMENT, "history[%zu] is %d, but ids are 0 to %zu", i, history[i], vocab - 1);
        }
    const struct qkv_sample_call call = {
        .sampling = sampling, .rules = &none, .text = &text, .logits = logits, .vocab = vocab, .draw = draw};
    return qkv_sample_by_rules(ctx, &call, id);
}

/* Whether the ids have all tokens that are no text of the constraint: the prompt, and a language that leads. */
static bool prompt_is_led(const struct qkv_prompt *p, size_t count) {
    return p->lead < 0 || count > p->begun;
}

/* The text that was made after these, as the constraint reads it. */
static struct qkv_constrained_text prompt_text(const struct qkv_prompt *p, const int32_t *ids, size_t count) {
    const size_t from = p->begun + (p->lead >= 0 && ids[p->begun] == p->lead);
    return (struct qkv_constrained_text){
        .tokenizer = p->tokenizer, .ids = ids + from, .count = count - from, .unspaced = p->trimmed};
}

enum qkv_status qkv_prompt_is_whole(struct qkv_context *ctx, const struct qkv_prompt *p, const int32_t *ids,
                                    size_t count, struct qkv_constraint_place *place, bool *whole) {
    *whole = false;
    if (!p->constraint || !prompt_is_led(p, count)) return QKV_OK;
    const struct qkv_constrained_text text = prompt_text(p, ids, count);
    return qkv_constraint_is_last(ctx, p->constraint, &text, place, whole);
}

enum qkv_status qkv_prompt_sample(struct qkv_context *ctx, const struct qkv_prompt *p,
                                  const struct qkv_sampling *sampling, const float *logits, const int32_t *history,
                                  size_t history_count, struct qkv_constraint_place *place, uint64_t draw,
                                  int32_t *id) {
    struct qkv_score_rules rules = p->rules;
    rules.ends = (struct qkv_token_list){p->ends, p->end_count};
    const struct qkv_score_text text = {.ids = history,
                                        .count = history_count,
                                        .prompt = p->begun,
                                        .max_tokens = p->tokens,
                                        .source = p->source ? (struct qkv_token_list){p->source, p->source_count}
                                                            : (struct qkv_token_list){history, p->begun},
                                        .source_once = {p->once, p->once_count}};
    struct qkv_allowed allowed = {0};
    const bool bound = p->constraint && prompt_is_led(p, history_count);
    const struct qkv_sample_call call = {.sampling = sampling,
                                         .rules = &rules,
                                         .barred = {&p->barred, 1},
                                         .text = &text,
                                         .logits = logits,
                                         .vocab = p->vocab,
                                         .draw = draw,
                                         .allowed = bound ? &allowed : NULL};
    if (bound) {
        const struct qkv_constrained_text made = prompt_text(p, history, history_count);
        const enum qkv_status status = qkv_constraint_allowed(ctx, p->constraint, &made, place, &allowed);
        if (status) return status;
    }
    return qkv_sample_by_rules(ctx, &call, id);
}
