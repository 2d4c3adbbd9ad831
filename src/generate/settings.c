/* Options and rules from the generation settings of a model's folder. */
#include <math.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/generate.h"
#include "model/model.h"
#include "text/text.h"

/* Returns the usual end of texts of a tokenizer, if nothing else names one. */
static int32_t settings_usual_end(const struct qkv_tokenizer *t) {
    const int32_t *before, *after;
    size_t before_count = 0, after_count = 0;
    const int32_t end = qkv_tokenizer_special(t, QKV_TOKEN_TEXT_END);
    if (end >= 0) return end;
    if (!qkv_tokenizer_template(t, &before, &before_count, &after, &after_count)) return -1;
    const bool begun = before_count && !after_count && before[0] == qkv_tokenizer_role(t, QKV_TOKEN_ROLE_BEGIN);
    return begun ? qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END) : -1;
}

bool qkv_generate_settings(const struct qkv_model *model, struct qkv_generate_options *options) {
    if (!model || !options) return false;
    struct qkv_generate_options all = qkv_generate_defaults(), *o = &all;
    if (QKV_TAKE_OPTIONS(model->ctx, qkv_generate_options, o, options)) return false;
    const struct qkv_model_generation *g = &model->generation;
    const struct qkv_tokenizer *t = model->tokenizer;
    int32_t ends[QKV_TOKEN_ENDS];
    size_t count = g->end_count;
    memcpy(ends, g->ends, sizeof ends);
    if (!count && t && (t->has_role[QKV_TOKEN_ROLE_END] || t->end_count)) count = qkv_tokenizer_ends(t, ends);
    if (!count && t && (ends[0] = settings_usual_end(t)) >= 0) count = 1;
    o->end_id = -1;
    o->end_count = 0;
    for (size_t i = 0; i < count; i++)
        if (ends[i] < model->spec.vocab) o->ends[o->end_count++] = ends[i];
    const uint64_t seed = o->sampling.seed;
    if (g->given) o->sampling = g->sampling, o->sampling.seed = seed;
    if (g->given && g->max_tokens) o->tokens = g->max_tokens;
    if (g->given && !g->max_tokens && g->max_length) o->tokens = SIZE_MAX, o->max_length = g->max_length;
    qkv_options_give(options, o, sizeof *o);
    return g->given;
}

bool qkv_search_settings(const struct qkv_model *model, struct qkv_search_options *options) {
    if (!model || !options) return false;
    struct qkv_search_options all = qkv_search_defaults(), *o = &all;
    if (QKV_TAKE_OPTIONS(model->ctx, qkv_search_options, o, options)) return false;
    const struct qkv_model_generation *g = &model->generation;
    if (!g->given) return false;
    const uint64_t seed = o->sampling.seed;
    const size_t room = (size_t)model->spec.context - 1;
    const size_t wanted = g->max_tokens ? g->max_tokens : g->max_length ? qkv_max(g->max_length - 1, (size_t)1) : 0;
    o->sample = g->sampling.temperature > 0;
    o->beam = g->beams && !o->sample ? g->beams : 1;
    o->length_penalty = g->length_penalty;
    o->stopping = g->stopping;
    o->max_tokens = qkv_min(wanted, room);
    o->sampling = g->sampling;
    o->sampling.seed = seed;
    qkv_options_give(options, o, sizeof *o);
    return true;
}

const char *qkv_stopping_name(enum qkv_stopping stopping) {
    static const char *const names[] = {"never", "false", "true"};
    return (size_t)stopping < sizeof names / sizeof *names ? names[stopping] : NULL;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

void qkv_token_rules_init(struct qkv_token_rules *rules, size_t size) {
    const struct qkv_token_rules usual = {.size = sizeof usual, .source_penalty = 1, .first = -1};
    qkv_options_init(rules, size, &usual, sizeof usual);
}

static struct qkv_token_rules settings_rules(const struct qkv_model_generation *g) {
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    rules.first = g->first;
    rules.bad_words = (struct qkv_token_list){g->bad_words, g->bad_word_ids};
    if (!g->given) return rules;
    rules.min_length = g->min_length;
    rules.min_tokens = g->min_tokens;
    rules.no_repeat = g->no_repeat;
    rules.source_no_repeat = g->source_no_repeat;
    rules.source_penalty = g->source_penalty;
    rules.last = (struct qkv_token_list){g->last, g->last_count};
    rules.suppressed = (struct qkv_token_list){g->suppressed, g->suppressed_count};
    rules.suppressed_first = (struct qkv_token_list){g->suppressed_first, g->suppressed_first_count};
    return rules;
}

void qkv_model_token_rules(const struct qkv_model *model, struct qkv_token_rules *rules) {
    if (!model || !rules) return;
    struct qkv_token_rules own = settings_rules(&model->generation), taken = own;
    if (!QKV_TAKE_OPTIONS(model->ctx, qkv_token_rules, &taken, rules)) qkv_options_give(rules, &own, sizeof own);
}

const char *qkv_model_unread_settings(const struct qkv_model *model) {
    return model ? model->generation.unread : "";
}

static enum qkv_status rules_check_list(struct qkv_context *ctx, const char *name, struct qkv_token_list list) {
    if (list.count && !list.ids)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has %zu ids, but its list is NULL", name, list.count);
    return QKV_OK;
}

enum qkv_status qkv_rules_take(struct qkv_model *model, const struct qkv_token_rules *rules,
                               struct qkv_token_rules *taken) {
    struct qkv_context *ctx = qkv_model_context(model);
    char shown[QKV_REAL_TEXT];
    *taken = rules ? qkv_token_rules_defaults() : settings_rules(&model->generation);
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_token_rules, taken, rules);
    if (!status && !(taken->source_penalty > 0 && isfinite(taken->source_penalty)))
        status =
            qkv_fail(ctx, QKV_ARGUMENT, "source_penalty is %s; it must be greater than 0 and at most 1.7e308 (1: off)",
                     qkv_real_text(shown, taken->source_penalty));
    if (!status && (taken->first < -1 || taken->first >= model->spec.vocab))
        status = qkv_fail(ctx, QKV_ARGUMENT, "first is %d; it must be a token, 0 to %d, or -1 for any",
                          (int)taken->first, model->spec.vocab - 1);
    if (!status) status = rules_check_list(ctx, "last", taken->last);
    if (!status) status = rules_check_list(ctx, "suppressed", taken->suppressed);
    if (!status) status = rules_check_list(ctx, "suppressed_first", taken->suppressed_first);
    return status ? status : rules_check_list(ctx, "bad_words", taken->bad_words);
}

size_t qkv_ids_once(struct qkv_token_list ids, int32_t *once) {
    size_t count = 0;
    for (size_t i = 0; i < ids.count; i++) {
        size_t at = 0;
        while (at < count && once[at] != ids.ids[i]) at++;
        if (at == count) once[count++] = ids.ids[i];
    }
    return count;
}
