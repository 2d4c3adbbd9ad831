/* The prompt of a continuation: a text or ids, checked, encoded and cut to the context. */
#include <string.h>

#include "generate/generate.h"
#include "generate/search.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "text/sequence.h"
#include "text/text.h"

size_t qkv_prompt_context(const struct qkv_model *model, const struct qkv_generate_options *o) {
    return o->context ? o->context : (size_t)qkv_model_spec(model)->context;
}

size_t qkv_prompt_length(const struct qkv_model *model, const struct qkv_generate_options *o,
                         const struct qkv_prompt *p) {
    const size_t context = qkv_prompt_context(model, o);
    size_t length;
    return o->context || !qkv_add_size(p->count, p->tokens, &length) || length > context ? context : length;
}

bool qkv_prompt_ends(const struct qkv_generate_options *o, int32_t id) {
    bool ends = id == o->end_id;
    for (size_t i = 0; i < o->end_count && !ends; i++) ends = id == o->ends[i];
    return ends;
}

enum qkv_status qkv_prompt_check(struct qkv_model *model, const struct qkv_generate_options *o) {
    struct qkv_context *ctx = qkv_model_context(model);
    int vocab = qkv_model_spec(model)->vocab;
    if (o->context > (size_t)qkv_model_spec(model)->context)
        return qkv_fail(ctx, QKV_ARGUMENT, "a context of %zu is more than the model's, %d; give at most that",
                        o->context, qkv_model_spec(model)->context);
    if (!qkv_model_tokenizer(model) && (!o->ids || o->stop_count))
        return qkv_tokenizer_missing(ctx, model->origin.tokenizer, NULL, QKV_TOKENIZER_FILE,
                                     ", or give ids and no stop texts");
    if (o->end_id < -1 || o->end_id >= vocab)
        return qkv_fail(ctx, QKV_ARGUMENT, "end_id is %d; it must be a token, 0 to %d, or -1 for none", (int)o->end_id,
                        vocab - 1);
    if (o->end_count > QKV_TOKEN_ENDS)
        return qkv_fail(ctx, QKV_ARGUMENT, "end_count is %zu; at most %d tokens end a text", o->end_count,
                        QKV_TOKEN_ENDS);
    for (size_t i = 0; i < o->end_count; i++)
        if (o->ends[i] < 0 || o->ends[i] >= vocab)
            return qkv_fail(ctx, QKV_ARGUMENT, "ends[%zu] is %d; it must be a token, 0 to %d", i, (int)o->ends[i],
                            vocab - 1);
    for (size_t i = 0; i < o->stop_count; i++)
        if (!o->stops[i] || !*o->stops[i])
            return qkv_fail(ctx, QKV_ARGUMENT, "stop text %zu is empty: it would end every text at once; leave it out",
                            i + 1);
    if (o->constraint && !qkv_model_tokenizer(model))
        return qkv_tokenizer_missing(ctx, model->origin.tokenizer, "a constraint is about text", QKV_TOKENIZER_FILE,
                                     ", or leave the constraint out");
    return qkv_sampling_check(ctx, &o->sampling);
}

/* Copies ids unchanged; the caller keeps the originals. */
static enum qkv_status prompt_copy_ids(struct qkv_context *ctx, const struct qkv_generate_options *o, size_t vocab,
                                       int32_t **ids, size_t *count) {
    for (size_t i = 0; i < o->id_count; i++)
        if (o->ids[i] < 0 || (size_t)o->ids[i] >= vocab)
            return qkv_fail(ctx, QKV_ARGUMENT, "id %zu of the prompt is %d, but the model's ids are 0 to %zu", i + 1,
                            (int)o->ids[i], vocab - 1);
    if (!o->id_count) return QKV_OK;
    *ids = qkv_allocate(ctx, o->id_count, sizeof **ids);
    if (!*ids) return QKV_MEMORY;
    memcpy(*ids, o->ids, o->id_count * sizeof **ids);
    *count = o->id_count;
    return QKV_OK;
}

/* An empty prompt begins with a newline, as at the start of a line; without a token for that, with token 0. */
static enum qkv_status prompt_begin(struct qkv_context *ctx, struct qkv_prompt *p) {
    enum qkv_status status = QKV_OK;
    qkv_free(p->ids);
    p->ids = NULL;
    if (p->tokenizer) status = qkv_tokenizer_encode(ctx, p->tokenizer, "\n", 1, false, &p->ids, &p->count);
    if (status || p->count > 0) return status;
    qkv_free(p->ids);
    p->ids = qkv_allocate(ctx, 1, sizeof *p->ids); /* token 0 */
    p->count = p->ids != NULL;
    return p->ids ? QKV_OK : QKV_MEMORY;
}

/* `frame`: of a source that is a text; a prompt is one of its own, and ids have none. */
static enum qkv_status prompt_fit(struct qkv_model *model, const struct qkv_generate_options *o,
                                  struct qkv_sequence_frame frame, struct qkv_prompt *p) {
    const bool source = p->source != NULL;
    const struct qkv_long_rule rule = {.kind = o->long_prompt,
                                       .most = source ? (size_t)model->spec.context : qkv_prompt_context(model, o)};
    size_t *found = source ? &p->source_count : &p->count;
    const size_t count = *found;
    const enum qkv_long_fate fate = qkv_long_apply(&rule, frame, source ? p->source : p->ids, found);
    if (fate == QKV_FATE_REFUSED)
        return qkv_fail(qkv_model_context(model), QKV_ARGUMENT,
                        "the prompt has %zu tokens, but the %scontext holds %zu; shorten the prompt by %zu "
                        "tokens, or take a model with a longer context, or choose what becomes of a long prompt "
                        "(option long = keep-start or keep-end)",
                        count, o->context && !source ? "" : "model's ", rule.most, count - rule.most);
    p->found = count > rule.most ? count : 0;
    p->skipped = fate == QKV_FATE_SKIPPED;
    return QKV_OK;
}

/* Sets the rules of a prompt, and how many tokens are made after it. */
static enum qkv_status prompt_rule(struct qkv_model *model, const struct qkv_generate_options *o,
                                   struct qkv_prompt *p) {
    struct qkv_context *ctx = qkv_model_context(model);
    p->begun = p->count;
    p->tokens = o->tokens;
    p->constraint = qkv_constraint_hold(o->constraint);
    p->rules.penalty = 1;
    if (o->max_length && o->max_length <= p->count && !p->skipped)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the prompt has %zu tokens, but the maximum length of a text with its prompt is %zu "
                        "(max_length of generation_config.json); say how many new tokens there may be",
                        p->count, o->max_length);
    if (o->max_length) p->tokens = qkv_min(p->tokens, o->max_length - qkv_min(o->max_length, p->count));
    if (o->end_id >= 0) p->ends[p->end_count++] = o->end_id;
    for (size_t i = 0; i < o->end_count; i++) p->ends[p->end_count++] = o->ends[i];
    enum qkv_status status = qkv_rules_take(model, o->rules, &p->rules.tokens);
    if (status || p->rules.tokens.source_penalty == 1) return status;
    struct qkv_token_list read = {p->ids, p->count};
    if (p->source) read = (struct qkv_token_list){p->source, p->source_count};
    p->once = qkv_allocate(ctx, read.count, sizeof *p->once);
    if (!p->once) return QKV_MEMORY;
    p->once_count = qkv_ids_once(read, p->once);
    return QKV_OK;
}

void qkv_prompt_free(struct qkv_prompt *p) {
    qkv_free(p->ids);
    qkv_free(p->source);
    qkv_free(p->once);
    qkv_constraint_free(p->constraint);
}

static enum qkv_status prompt_copy_list(struct qkv_context *ctx, const int32_t *ids, size_t count, int32_t **copy) {
    *copy = NULL;
    if (!ids) return QKV_OK;
    *copy = qkv_allocate(ctx, count + 1, sizeof **copy);
    if (!*copy) return QKV_MEMORY;
    memcpy(*copy, ids, count * sizeof **copy);
    return QKV_OK;
}

enum qkv_status qkv_prompt_copy(struct qkv_context *ctx, const struct qkv_prompt *from, struct qkv_prompt *to) {
    *to = *from;
    to->ids = to->source = to->once = NULL;
    to->constraint = qkv_constraint_hold(from->constraint);
    enum qkv_status status = prompt_copy_list(ctx, from->ids, from->count, &to->ids);
    if (!status) status = prompt_copy_list(ctx, from->source, from->source_count, &to->source);
    return status ? status : prompt_copy_list(ctx, from->once, from->once_count, &to->once);
}

/* A text is a sequence, with the tokens of the tokenizer's template around it. */
enum qkv_status qkv_prompt_read(struct qkv_model *model, const char *text, size_t size,
                                const struct qkv_generate_options *o, struct qkv_prompt *p) {
    struct qkv_context *ctx = qkv_model_context(model);
    const size_t vocab = (size_t)qkv_model_spec(model)->vocab;
    p->tokenizer = qkv_model_tokenizer(model);
    p->vocab = p->tokenizer ? (size_t)qkv_tokenizer_vocab(p->tokenizer) : vocab;
    if (p->vocab > vocab) p->vocab = vocab;
    p->empty = size == 0 && !o->id_count;
    p->trimmed = p->empty && p->tokenizer && p->tokenizer->whole_words;
    p->lead = -1;
    p->barred = p->tokenizer && p->vocab > 1 ? (int32_t)qkv_tokenizer_unknown(p->tokenizer) : -1;
    if (o->ids && size)
        return qkv_fail(ctx, QKV_ARGUMENT, "the prompt is given as a text and as ids; leave one of them out");
    enum qkv_status status =
        o->ids ? prompt_copy_ids(ctx, o, p->vocab, &p->ids, &p->count)
               : qkv_tokenizer_encode_sequence(ctx, p->tokenizer, size ? text : "", size, true, &p->ids, &p->count);
    if (!status && o->take_prompt) o->take_prompt(o->prompt_user, p->ids, p->count);
    if (!status && p->count == 0) status = prompt_begin(ctx, p);
    if (!status && !o->ids) p->frame = qkv_source_frame(p->tokenizer, false, false);
    if (!status) status = prompt_fit(model, o, p->frame, p);
    return status ? status : prompt_rule(model, o, p);
}

/* Sets the tokens that targets begin and end with, as a search has them. */
static enum qkv_status prompt_target(struct qkv_model *model, struct qkv_generate_options *o,
                                     const struct qkv_languages *languages, struct qkv_prompt *p) {
    struct qkv_search_job job = {0};
    enum qkv_status status = qkv_search_check_model(model, "generating");
    if (!status) status = qkv_search_find_ids(model, &job);
    if (status) return status;
    p->tokenizer = qkv_model_tokenizer(model);
    p->vocab = qkv_min(job.vocab, (size_t)model->spec.vocab);
    p->empty = p->trimmed = true;
    p->barred = job.ids.barred.count ? *job.ids.barred.ids : -1;
    p->ids = qkv_allocate(qkv_model_context(model), 1, sizeof *p->ids);
    if (!p->ids) return QKV_MEMORY;
    *p->ids = languages->begin >= 0 ? languages->begin : job.ids.begin;
    p->count = 1;
    if (o->end_id >= 0 || o->end_count) return QKV_OK;
    for (size_t i = 0; i < job.ids.ends.count && i < QKV_TOKEN_ENDS; i++) o->ends[o->end_count++] = job.ids.ends.ids[i];
    return QKV_OK;
}

/* The source of a text, with its languages. */
static enum qkv_status prompt_encode_source(struct qkv_model *model, const char *text, size_t size,
                                            const struct qkv_languages *languages, struct qkv_sequence_frame *frame,
                                            struct qkv_prompt *p) {
    const struct qkv_tokenizer *t = qkv_model_source_tokenizer(model);
    *frame = qkv_source_frame(t, false, true);
    if (qkv_is_blank(text, size)) return QKV_OK;
    const enum qkv_status status =
        qkv_source_encode(qkv_model_context(model), t, text, size, false, true, &p->source, &p->source_count);
    return status ? status : qkv_languages_put(model, languages, frame, &p->source, &p->source_count);
}

enum qkv_status qkv_prompt_read_source(struct qkv_model *model, const char *text, size_t size,
                                       struct qkv_generate_options *o, const struct qkv_languages *languages,
                                       struct qkv_prompt *p) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_sequence_frame frame = {0};
    p->lead = -1;
    enum qkv_status status = prompt_target(model, o, languages, p);
    if (status) return status;
    if (o->ids && size)
        return qkv_fail(ctx, QKV_ARGUMENT, "the prompt is given as a text and as ids; leave one of them out");
    if (o->ids && (languages->source >= 0 || languages->before >= 0))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the source is given as ids, which have its languages already; leave the languages out");
    status = o->ids ? prompt_copy_ids(ctx, o, (size_t)model->spec.source_vocab, &p->source, &p->source_count)
                    : prompt_encode_source(model, text, size, languages, &frame, p);
    p->skipped = !p->source_count;
    if (!status && p->source_count) status = prompt_fit(model, o, frame, p);
    if (!status) status = prompt_rule(model, o, p);
    return status ? status : qkv_languages_rule(model, languages, o->rules, &p->rules.tokens, &p->lead);
}

size_t qkv_prompt_token_size(const struct qkv_prompt *p, size_t place) {
    size_t size = 0;
    if (p->tokenizer && !p->empty && place >= p->frame.before && place + p->frame.after < p->count)
        qkv_tokenizer_token(p->tokenizer, p->ids[place], &size);
    return size;
}

const char *qkv_prompt_token(const struct qkv_prompt *p, const int32_t *ids, size_t index, size_t *size) {
    return qkv_target_token(p->tokenizer, p->lead, p->trimmed, ids, index, size);
}
