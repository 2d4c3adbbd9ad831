/* Checks of a search, its rules, and the tokens that its targets begin and end with. */
#include "generate/generate.h"
#include "generate/search.h"
#include "model/decode.h"
#include "text/text.h"

#include <math.h>

enum qkv_status qkv_search_check_model(struct qkv_model *model, const char *doing) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct qkv_context *ctx = qkv_model_context(model);
    if (qkv_spec_topology(spec) != QKV_ENCODER_DECODER)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s needs an encoder and a decoder; this model has %s", doing,
                        spec->decoder.layers ? "a decoder alone; use generate"
                                             : "an encoder alone; use classify, fill or embed");
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s needs an lm head, which scores the next token; this model has another",
                        doing);
    return QKV_OK;
}

enum qkv_status qkv_search_check(struct qkv_context *ctx, size_t context, const struct qkv_search_options *o) {
    char shown[QKV_REAL_TEXT];
    if (o->beam < 1 || o->beam > 65536)
        return qkv_fail(ctx, QKV_ARGUMENT, "beam is %zu; it must be from 1 (greedy) to 65536", o->beam);
    if (o->n_best < 1 || o->n_best > 65536)
        return qkv_fail(ctx, QKV_ARGUMENT, "n_best is %zu; it must be from 1 to 65536", o->n_best);
    if (o->sample && o->beam > 1)
        return qkv_fail(ctx, QKV_ARGUMENT, "sampling has no beam; leave beam at 1, or search without sampling");
    if (!o->sample && o->n_best > o->beam)
        return qkv_fail(ctx, QKV_ARGUMENT, "n_best is %zu, but a beam of %zu has at most %zu results; widen the beam",
                        o->n_best, o->beam, o->beam);
    if (!isfinite(o->length_penalty))
        return qkv_fail(ctx, QKV_ARGUMENT, "length_penalty is %s; it must be from -1.7e308 to 1.7e308 (0: off)",
                        qkv_real_text(shown, o->length_penalty));
    if (o->max_tokens > context - 1 && o->max_tokens)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "max_tokens is %zu, but the model's context of %zu holds %zu after the beginning; give less",
                        o->max_tokens, context, context - 1);
    if (o->batch > 65536)
        return qkv_fail(ctx, QKV_ARGUMENT, "batch is %zu; it must be from 0 to 65536 (0: %d)", o->batch,
                        QKV_SEARCH_BATCH);
    if (!qkv_stopping_name(o->stopping))
        return qkv_fail(ctx, QKV_ARGUMENT, "stopping is %d; it must be never, false or true", (int)o->stopping);
    return qkv_sampling_check(ctx, &o->sampling);
}

enum qkv_status qkv_search_rule(struct qkv_model *model, struct qkv_search_rules *rules) {
    const struct qkv_search_options *o = rules->options;
    struct qkv_score_rules *score = &rules->score;
    enum qkv_status status = qkv_rules_take(model, o->rules, &score->tokens);
    if (o->no_repeat) score->tokens.no_repeat = o->no_repeat;
    score->penalty = o->sample ? 1 : o->sampling.repeat_penalty;
    score->penalty_last = (size_t)o->sampling.repeat_last;
    score->ends = rules->ids.ends;
    size_t kinds = 1 + qkv_max(rules->ids.ends.count, (size_t)1);
    if (!status && !qkv_multiply(kinds, o->beam, &rules->most))
        status = qkv_fail_memory(rules->ctx, SIZE_MAX, "the hypotheses of a source");
    return status;
}

enum qkv_status qkv_search_find_ids(struct qkv_model *model, struct qkv_search_job *job) {
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_tokenizer *t = qkv_model_tokenizer(model);
    if (!t) return qkv_tokenizer_missing(ctx, model->origin.tokenizer, NULL, QKV_TOKENIZER_FILE, "");
    if (!qkv_model_source_tokenizer(model))
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "this model's sources have a vocabulary of their own, but there is no tokenizer for it; put its "
            "source_tokenizer.json into the model folder");
    job->vocab = (size_t)qkv_tokenizer_vocab(t);
    const struct qkv_model_generation *g = &model->generation;
    struct qkv_search_ids *ids = &job->ids;
    *ids = (struct qkv_search_ids){.begin = qkv_model_target_begin(model),
                                   .ends = {g->ends, g->end_count},
                                   .end = qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END)};
    if (!g->end_count && ids->end >= 0) ids->ends = (struct qkv_token_list){&ids->end, 1};
    if (ids->begin < 0 || !ids->ends.count)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the tokenizer has no special token %s, which targets %s with; a model trained on pairs has it",
                        ids->begin < 0 ? QKV_TOKEN_BEGIN : QKV_TOKEN_END, ids->begin < 0 ? "begin" : "end");
    /* targets do not contain their begin token, unless the folder names a start or bad words */
    if (g->start < 0 && !g->bad_word_ids && ids->begin != ids->ends.ids[0])
        ids->barred = (struct qkv_token_list){&ids->begin, 1};
    return QKV_OK;
}
