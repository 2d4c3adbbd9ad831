/* Texts of an engine: requests to embed, classify or fill, read into ids as the public functions read them. */
#include "base/sized_options.h"
#include "generate/engine.h"

#include <stdlib.h>
#include <string.h>

void qkv_engine_text_free(struct qkv_engine_text *text) {
    qkv_free(text->ids);
    qkv_free(text->types);
    text->filler.ids = NULL; /* they are the text's */
    qkv_filler_free(&text->filler);
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* Copies ids that the request gives in place of a text. */
static enum qkv_status text_take_ids(struct qkv_engine *e, const struct qkv_engine_job *job, int32_t **ids,
                                     size_t *count) {
    const struct qkv_generate_options *o = &job->options;
    const struct qkv_spec *spec = &e->model->spec;
    const bool source = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    const size_t vocab = (size_t)(source ? spec->source_vocab : spec->vocab);
    if (job->request.prompt_size)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "the text is given as a text and as ids; leave one of them out");
    for (size_t i = 0; i < o->id_count; i++)
        if (o->ids[i] < 0 || (size_t)o->ids[i] >= vocab)
            return qkv_fail(e->ctx, QKV_ARGUMENT, "id %zu of the text is %d, but the model's ids are 0 to %zu", i + 1,
                            (int)o->ids[i], vocab - 1);
    if (!o->id_count) return QKV_OK;
    *ids = qkv_allocate(e->ctx, o->id_count, sizeof **ids);
    if (!*ids) return QKV_MEMORY;
    memcpy(*ids, o->ids, o->id_count * sizeof **ids);
    *count = o->id_count;
    return QKV_OK;
}

/* The rule for texts that are too long, by the options of the request. */
static struct qkv_long_rule text_rule(const struct qkv_engine *e, enum qkv_long kind, size_t max_tokens) {
    const size_t context = (size_t)e->model->spec.context;
    return (struct qkv_long_rule){.kind = kind, .most = max_tokens && max_tokens < context ? max_tokens : context};
}

static enum qkv_status text_refuse(const struct qkv_engine *e, size_t tokens, size_t most) {
    return qkv_fail(e->ctx, QKV_ARGUMENT,
                    "the text has %zu tokens, but at most %zu are read; shorten it, or choose what becomes of long "
                    "texts (option long = skip, keep-start or keep-end)",
                    tokens, most);
}

/* Applies the rule to a text; one that is skipped has no tokens. */
static enum qkv_status text_fit(const struct qkv_engine *e, struct qkv_engine_text *t, const struct qkv_long_rule *rule,
                                struct qkv_sequence_frame frame) {
    const size_t count = t->count;
    const enum qkv_long_fate fate = qkv_long_apply(rule, frame, t->ids, &t->count);
    if (fate == QKV_FATE_REFUSED) return text_refuse(e, count, rule->most);
    if (fate == QKV_FATE_SKIPPED) t->count = 0;
    return QKV_OK;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static enum qkv_status text_embed(struct qkv_engine *e, struct qkv_engine_job *job) {
    const struct qkv_engine_request *r = &job->request;
    struct qkv_engine_text *t = &job->text;
    struct qkv_embed_options o = qkv_embed_defaults(e->model);
    struct qkv_text_embedder how;
    struct qkv_sequence_frame frame = {0};
    enum qkv_status status = QKV_TAKE_OPTIONS(e->ctx, qkv_embed_options, &o, r->embed);
    if (!status) status = qkv_text_embedder_begin(e->model, &o, &how);
    if (!status && job->options.ids) {
        status = text_take_ids(e, job, &t->ids, &t->count);
    } else if (!status) {
        status = qkv_lines_check(e->model, "embed");
        if (!status) status = qkv_text_embedder_read(&how, r->prompt, r->prompt_size, &t->ids, &t->count);
        frame = qkv_source_frame(qkv_model_source_tokenizer(e->model), how.begin, how.end);
        t->skipped = how.skipped;
    }
    if (status) return status;
    const struct qkv_long_rule rule = text_rule(e, o.long_lines, o.max_tokens);
    t->pool = o.pool;
    t->normalize = o.normalize;
    return text_fit(e, t, &rule, frame);
}

static enum qkv_status text_pair(struct qkv_engine *e, struct qkv_engine_job *job, const struct qkv_long_rule *rule) {
    const struct qkv_engine_request *r = &job->request;
    const struct qkv_text_pair pair = {{r->prompt_size ? r->prompt : "", r->second}, {r->prompt_size, r->second_size}};
    struct qkv_engine_text *t = &job->text;
    struct qkv_pair_template template;
    enum qkv_long_fate fate;
    enum qkv_status status =
        qkv_pair_template_read(e->ctx, qkv_model_source_tokenizer(e->model), qkv_classify_ends(e->model), &template);
    if (status) return status;
    status = qkv_classify_join(e->model, &template, rule, &pair, &t->ids, &t->types, &t->count, &fate);
    qkv_pair_template_free(&template);
    if (status) return status;
    if (fate == QKV_FATE_REFUSED) return text_refuse(e, t->count, rule->most);
    if (fate != QKV_FATE_FITS) t->count = 0;
    return QKV_OK;
}

static enum qkv_status text_classify(struct qkv_engine *e, struct qkv_engine_job *job) {
    const struct qkv_engine_request *r = &job->request;
    struct qkv_engine_text *t = &job->text;
    const bool ends = qkv_classify_ends(e->model);
    struct qkv_line_options o = qkv_line_defaults();
    struct qkv_sequence_frame frame = {0};
    enum qkv_status status = QKV_TAKE_OPTIONS(e->ctx, qkv_line_options, &o, r->line);
    if (!status && qkv_spec_topology(&e->model->spec) == QKV_ENCODER_DECODER)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "classify needs a model of one stack; this one has an encoder and a decoder");
    if (!status) status = qkv_classify_check(e->model);
    const struct qkv_long_rule rule = text_rule(e, o.long_lines, o.max_tokens);
    if (!status && job->options.ids) {
        if (r->second) return qkv_fail(e->ctx, QKV_ARGUMENT, "a pair is given as two texts, not as ids");
        status = text_take_ids(e, job, &t->ids, &t->count);
        return status ? status : text_fit(e, t, &rule, frame);
    }
    if (!status) status = qkv_lines_check(e->model, "classify");
    if (!status && r->second) return text_pair(e, job, &rule);
    if (status || qkv_is_blank(r->prompt, r->prompt_size)) return status;
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(e->model);
    status = qkv_source_encode(e->ctx, tokenizer, r->prompt, r->prompt_size, ends, ends, &t->ids, &t->count);
    return status ? status : text_fit(e, t, &rule, qkv_source_frame(tokenizer, ends, ends));
}

static enum qkv_status text_fill(struct qkv_engine *e, struct qkv_engine_job *job) {
    struct qkv_engine_text *t = &job->text;
    struct qkv_line_options o = qkv_line_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(e->ctx, qkv_line_options, &o, job->request.line);
    if (status) return status;
    t->filler = (struct qkv_filler){
        .model = e->model, .top = job->request.top, .rule = text_rule(e, o.long_lines, o.max_tokens)};
    if (job->options.ids)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "a text with masks is given as a text, not as ids: its masks have places");
    status = qkv_filler_check(&t->filler);
    if (!status)
        status =
            qkv_filler_read(&t->filler, job->request.prompt_size ? job->request.prompt : "", job->request.prompt_size);
    t->ids = t->filler.ids;
    if (status || t->filler.skipped) return status;
    t->count = t->filler.count;
    return qkv_filler_take(&t->filler);
}

/* The kinds of texts, in the order of enum qkv_engine_kind. */
static enum qkv_status (*const text_readers[])(struct qkv_engine *e, struct qkv_engine_job *job) = {
    NULL, text_embed, text_classify, text_fill};
enum { KINDS = sizeof text_readers / sizeof *text_readers };

static enum qkv_status text_check(struct qkv_engine *e, const struct qkv_engine_request *r) {
    if ((unsigned)r->kind >= KINDS)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "kind is %d; it must be one of enum qkv_engine_kind", (int)r->kind);
    if (r->answers != 1)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "answers is %zu; a text that is embedded, classified or filled has one",
                        r->answers);
    if (!e->room.longest)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "this engine reads no texts to embed or classify: it is made of a decoder whose folder records "
                        "no pooling; give `text`, the largest number of tokens of a text, when it is made");
    return QKV_OK;
}

enum qkv_status qkv_engine_text_read(struct qkv_engine *e, struct qkv_engine_job *job) {
    struct qkv_engine_request *r = &job->request;
    struct qkv_generate_options *o = &job->options;
    enum qkv_status status = text_check(e, r);
    if (!status) status = text_readers[r->kind](e, job);
    if (!status && job->text.count > e->room.longest)
        status = qkv_fail(e->ctx, QKV_ARGUMENT,
                          "the text has %zu tokens, but the engine reads texts of at most %zu; shorten it, or make the "
                          "engine with a larger `text`",
                          job->text.count, e->room.longest);
    *o = (struct qkv_generate_options){0}; /* the caller's */
    r->prompt = r->second = NULL;
    r->options = NULL;
    r->biases = NULL;
    r->embed = NULL;
    r->line = NULL;
    return status;
}

size_t qkv_engine_text_width(const struct qkv_engine *e, const struct qkv_engine_job *job) {
    const size_t classes = (size_t)e->model->spec.head.classes;
    if (job->request.kind == QKV_ENGINE_FILL) return 0;
    if (job->request.kind == QKV_ENGINE_TOKENS) return job->text.count * classes;
    return job->request.kind == QKV_ENGINE_EMBED ? qkv_embed_width(e->model) : classes;
}

enum qkv_status qkv_engine_text_none(struct qkv_engine *e, struct qkv_engine_job *job, struct qkv_engine_told *told) {
    const size_t width = qkv_engine_text_width(e, job);
    if (!width) return QKV_OK;
    told->vector = qkv_allocate(e->ctx, width, sizeof *told->vector);
    if (!told->vector) return QKV_MEMORY;
    if (job->request.kind == QKV_ENGINE_CLASSIFY) qkv_scores_none(1, width, told->vector);
    told->event.vector = told->vector;
    told->event.vector_count = width;
    return QKV_OK;
}
