/* Options from the generation settings of a model's folder. */
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
    qkv_options_give(options, o, sizeof *o);
    return g->given;
}
