/* Options of generations and searches: the defaults, and those of the generation settings of a model's folder. */
#include <string.h>

#include "base/sized_options.h"
#include "generate/generate.h"
#include "model/model.h"
#include "text/text.h"

void qkv_generate_options_init(struct qkv_generate_options *options, size_t size) {
    const struct qkv_generate_options usual = {
        .size = sizeof usual, .sampling = qkv_sampling_defaults(), .tokens = 200, .end_id = -1};
    qkv_options_init(options, size, &usual, sizeof usual);
}

void qkv_search_options_init(struct qkv_search_options *options, size_t size) {
    const struct qkv_search_options usual = {
        .size = sizeof usual, .beam = 1, .n_best = 1, .length_penalty = 0.6, .sampling = qkv_sampling_defaults()};
    qkv_options_init(options, size, &usual, sizeof usual);
}

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
