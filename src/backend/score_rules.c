/* score_rules: the rules for the next token, in the order of transformers. A penalty divides or multiplies a score by
 * its sign (Keskar et al. 2019); n-grams are blocked as in Paulus et al. 2017; all else excludes tokens.
 *
 * The penalties of the source and of the text keep signs, so their order does not matter. Both change a score once,
 * however often its token occurs. */
#include <float.h>
#include <string.h>

#include "backend/backends.h"
#include "base/math.h"

static bool rules_have(struct qkv_token_list list, int32_t id) {
    for (size_t i = 0; i < list.count; i++)
        if (list.ids[i] == id) return true;
    return false;
}

static void rules_exclude(float *scores, size_t vocab, int32_t id) {
    if (id >= 0 && (size_t)id < vocab) scores[id] = -INFINITY;
}

static void rules_exclude_all(float *scores, size_t vocab, struct qkv_token_list list) {
    for (size_t i = 0; i < list.count; i++) rules_exclude(scores, vocab, list.ids[i]);
}

/* A score after a penalty of what it has more than `shift`. */
static float rules_penalised(float score, double shift, double penalty) {
    const double x = (double)score - shift;
    const double changed = shift + (x < 0 ? x * penalty : x / penalty);
    return isfinite(score) ? (float)qkv_fmax(qkv_fmin(changed, (double)FLT_MAX), -(double)FLT_MAX) : score;
}

static void rules_penalise(const struct qkv_score_rules *rules, const struct qkv_score_text *text, double shift,
                           const float *from, float *to, size_t vocab) {
    const size_t last = rules->penalty_last && rules->penalty_last < text->count ? rules->penalty_last : text->count;
    for (size_t i = text->count - last; i < text->count && rules->penalty != 1; i++) {
        const int32_t id = text->ids[i];
        if (id >= 0 && (size_t)id < vocab) to[id] = rules_penalised(from[id], shift, rules->penalty);
    }
    for (size_t i = 0; i < text->source_once.count && rules->tokens.source_penalty != 1; i++) {
        const int32_t id = text->source_once.ids[i];
        if (id >= 0 && (size_t)id < vocab) to[id] = rules_penalised(to[id], shift, 1 / rules->tokens.source_penalty);
    }
}

/* Excludes the tokens that would complete n tokens in a row of `said`. */
static void rules_block(const struct qkv_score_text *text, struct qkv_token_list said, size_t n, float *to,
                        size_t vocab) {
    if (n == 0 || text->count + 1 < n) return;
    const int32_t *latest = text->ids + text->count - (n - 1);
    for (size_t at = 0; at + n <= said.count; at++)
        if (!memcmp(said.ids + at, latest, (n - 1) * sizeof *latest)) rules_exclude(to, vocab, said.ids[at + n - 1]);
}

static void rules_bad_words(const struct qkv_score_rules *rules, const struct qkv_score_text *text, float *to,
                            size_t vocab) {
    const struct qkv_token_list words = rules->tokens.bad_words;
    for (size_t at = 0, n; at < words.count; at += n + 1) {
        for (n = 0; at + n < words.count && words.ids[at + n] >= 0;) n++;
        const int32_t *word = words.ids + at;
        if (n == 0 || n - 1 > text->count || (n == 1 && rules_have(rules->ends, *word))) continue;
        if (!memcmp(word, text->ids + text->count - (n - 1), (n - 1) * sizeof *word))
            rules_exclude(to, vocab, word[n - 1]);
    }
}

struct qkv_token_list qkv_score_forced(const struct qkv_score_rules *rules, const struct qkv_score_text *text) {
    const struct qkv_token_rules *t = &rules->tokens;
    if (t->last.count && text->count - text->prompt + 1 == text->max_tokens) return t->last;
    if (t->first >= 0 && text->count == 1) return (struct qkv_token_list){&t->first, 1};
    return (struct qkv_token_list){0};
}

static void rules_force(struct qkv_token_list forced, double shift, float *to, size_t vocab) {
    for (size_t i = 0; i < vocab && forced.count; i++) to[i] = -INFINITY;
    for (size_t i = 0; i < forced.count; i++)
        if (forced.ids[i] >= 0 && (size_t)forced.ids[i] < vocab) to[forced.ids[i]] = (float)shift;
}

void qkv_score_apply(const struct qkv_score_rules *rules, const struct qkv_score_text *text, double shift,
                     const float *from, float *to, size_t vocab) {
    const struct qkv_token_rules *t = &rules->tokens;
    const size_t made = text->count - text->prompt;
    memcpy(to, from, vocab * sizeof *to);
    rules_penalise(rules, text, shift, from, to, vocab);
    rules_block(text, (struct qkv_token_list){text->ids, text->count}, t->no_repeat, to, vocab);
    rules_block(text, text->source, t->source_no_repeat, to, vocab);
    rules_bad_words(rules, text, to, vocab);
    if (text->count < t->min_length || made < t->min_tokens) rules_exclude_all(to, vocab, rules->ends);
    rules_force(qkv_score_forced(rules, text), shift, to, vocab);
    rules_exclude_all(to, vocab, t->suppressed);
    if (made == (text->prompt == 1 && t->first >= 0)) rules_exclude_all(to, vocab, t->suppressed_first);
}

bool qkv_score_changes(const struct qkv_score_rules *rules) {
    const struct qkv_token_rules *t = &rules->tokens;
    return rules->penalty != 1 || t->min_length || t->min_tokens || t->no_repeat || t->source_no_repeat ||
           t->source_penalty != 1 || t->first >= 0 || t->last.count || t->suppressed.count ||
           t->suppressed_first.count || t->bad_words.count;
}
