/* rules: the rules for the tokens of a text: defaults, those of a model's folder, and those of a program. */
#include <math.h>

#include "base/sized_options.h"
#include "generate/generate.h"
#include "model/model.h"

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
