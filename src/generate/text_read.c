/* Texts that are embedded or classified: how they are read, and what is made of hidden states: a vector of a text is
 * pooled from those of its tokens, then passes through the dense layers of the model's folder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/texts.h"
#include "model/decode.h"
#include "model/spec.h"
#include "text/text.h"

/* ---- lines ------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_lines_check(struct qkv_model *model, const char *doing) {
    if (qkv_model_source_tokenizer(model)) return QKV_OK;
    return qkv_tokenizer_missing(model->ctx, model->origin.tokenizer, doing,
                                 qkv_model_tokenizer(model) ? QKV_SOURCE_FILE : QKV_TOKENIZER_FILE, "");
}

void qkv_line_options_init(struct qkv_line_options *options, size_t size) {
    static const struct qkv_line_options usual = {.size = sizeof usual, .long_lines = QKV_LONG_ERROR};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_line_refuse(const struct qkv_model *m, const char *what, size_t line, size_t tokens, size_t most) {
    if (most < (size_t)m->spec.context)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s %zu has %zu tokens, more than the limit of %zu; shorten it", what,
                        line + 1, tokens, most);
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "%s %zu has %zu tokens, but the model's context is %zu; shorten it or cut it in two, or choose "
                    "what becomes of long lines (option long = skip, keep-start or keep-end)",
                    what, line + 1, tokens, most);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

static void pool_first(const float *x, size_t C, float *out) {
    memcpy(out, x, C * sizeof *out);
}

static void pool_mean(const float *x, size_t T, size_t C, float *out) {
    for (size_t c = 0; c < C; c++) {
        double sum = 0;
        for (size_t t = 0; t < T; t++) sum += (double)x[t * C + c];
        out[c] = (float)(sum / (double)T);
    }
}

static void pool_last(const float *x, size_t T, size_t C, float *out) {
    memcpy(out, x + (T - 1) * C, C * sizeof *out);
}

static void pool_max(const float *x, size_t T, size_t C, float *out) {
    memcpy(out, x, C * sizeof *out);
    for (size_t t = 1; t < T; t++)
        for (size_t c = 0; c < C; c++)
            if (!(x[t * C + c] <= out[c])) out[c] = x[t * C + c]; /* a NaN stays */
}

static void pool_row(enum qkv_pool pool, const float *x, size_t T, size_t C, float *out) {
    if (pool == QKV_POOL_FIRST)
        pool_first(x, C, out);
    else if (pool == QKV_POOL_LAST)
        pool_last(x, T, C, out);
    else if (pool == QKV_POOL_MAX)
        pool_max(x, T, C, out);
    else
        pool_mean(x, T, C, out);
}

size_t qkv_embed_channels(const struct qkv_model *model) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    return (size_t)qkv_stack_width(spec, spec->encoder.layers ? &spec->encoder : &spec->decoder);
}

size_t qkv_embed_width(const struct qkv_model *model) {
    if (!model) return 0;
    const struct qkv_model_pooling *p = &model->pooling;
    return p->dense_count ? p->dense[p->dense_count - 1].out : qkv_embed_channels(model);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_text_vectors(struct qkv_model *model, struct qkv_text_vector *texts, size_t count) {
    const size_t C = qkv_embed_channels(model), width = qkv_embed_width(model);
    struct qkv_context *ctx = qkv_model_context(model);
    float *x = qkv_allocate(ctx, count * C, sizeof *x);
    if (!x) return QKV_MEMORY;
    for (size_t b = 0; b < count; b++) {
        const struct qkv_text_vector *text = &texts[b];
        const size_t T = text->count, from = text->skipped;
        if (from < T) pool_row(text->pool, text->hidden + from * C, T - from, C, x + b * C);
    }
    const enum qkv_status status = qkv_model_dense_apply(ctx, &model->pooling, count, &x);
    for (size_t b = 0; b < count && !status; b++) {
        memcpy(texts[b].out, x + b * width, width * sizeof *x);
        texts[b].broken = !qkv_vector_normalize(texts[b].out, width, texts[b].normalize);
    }
    free(x);
    return status;
}

enum qkv_status qkv_text_embedder_read(const struct qkv_text_embedder *e, const char *line, size_t size, int32_t **ids,
                                       size_t *count) {
    const char *prompt = e->options.prompt;
    struct qkv_buffer text = {0};
    struct qkv_context *ctx = qkv_model_context(e->model);
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(e->model);
    *ids = NULL, *count = 0;
    if (qkv_is_blank(line, size)) return QKV_OK;
    if (!prompt || !*prompt) return qkv_source_encode(ctx, tokenizer, line, size, e->begin, e->end, ids, count);
    enum qkv_status status = qkv_buffer_append(ctx, &text, prompt, strlen(prompt));
    if (!status) status = qkv_buffer_append(ctx, &text, line, size);
    if (!status) status = qkv_source_encode(ctx, tokenizer, text.data, text.size, e->begin, e->end, ids, count);
    qkv_buffer_free(&text);
    return status;
}

/* Counts the tokens of the prompt that are not pooled, as sentence-transformers does: those of the prompt alone,
 * without a token that ends it. */
static enum qkv_status embedder_skip(struct qkv_text_embedder *e) {
    int32_t *ids = NULL;
    size_t count = 0;
    const char *prompt = e->options.prompt;
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(e->model);
    if (!prompt || !*prompt || !e->model->pooling.without_prompt || !tokenizer) return QKV_OK;
    enum qkv_status status = qkv_source_encode(qkv_model_context(e->model), tokenizer, prompt, strlen(prompt), e->begin,
                                               e->end, &ids, &count);
    qkv_free(ids);
    if (status) return status;
    const bool ended = count && qkv_source_frame(tokenizer, e->begin, e->end).after;
    e->skipped = count - ended;
    return QKV_OK;
}

enum qkv_status qkv_text_embedder_begin(struct qkv_model *model, const struct qkv_embed_options *options,
                                        struct qkv_text_embedder *out) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    const enum qkv_pool pool = options->pool;
    if (pool != QKV_POOL_FIRST && pool != QKV_POOL_MEAN && pool != QKV_POOL_LAST && pool != QKV_POOL_MAX)
        return qkv_fail(qkv_model_context(model), QKV_ARGUMENT, "the pool is %d; it must be one of enum qkv_pool",
                        (int)pool);
    /* as in training: a classifier has both specials, a source its end, a plain text none; a published model has
     * what its template says */
    const bool own = !model->origin.family, classifier = spec->head.kind == QKV_HEAD_CLASSIFY && own;
    *out = (struct qkv_text_embedder){.model = model,
                                      .options = *options,
                                      .begin = classifier,
                                      .end = classifier || (spec->encoder.layers && spec->decoder.layers && own)};
    return embedder_skip(out);
}

static struct qkv_embed_options embed_usual(const struct qkv_model *model) {
    struct qkv_embed_options o = {.size = sizeof o, .pool = QKV_POOL_MEAN, .long_lines = QKV_LONG_ERROR};
    if (!model) return o;
    const struct qkv_model_pooling *p = &model->pooling;
    if (!qkv_model_spec(model)->encoder.layers) o.pool = QKV_POOL_LAST; /* the only token that has seen all others */
    if (!p->given) return o;
    o.pool = p->pool;
    o.normalize = p->normalize;
    o.long_lines = QKV_LONG_KEEP_START;
    o.max_tokens = p->most;
    if (p->prompt_usual < p->prompt_count) o.prompt = p->prompts[p->prompt_usual].text;
    return o;
}

void qkv_embed_options_init(const struct qkv_model *model, struct qkv_embed_options *options, size_t size) {
    const struct qkv_embed_options usual = embed_usual(model);
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

bool qkv_classify_ends(const struct qkv_model *model) {
    return model->origin.family == NULL;
}

enum qkv_status qkv_classify_check(struct qkv_model *model) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    if (spec->head.kind != QKV_HEAD_CLASSIFY)
        return qkv_fail(qkv_model_context(model), QKV_ARGUMENT,
                        "classify needs a model with a classify head; this one has head.kind %s: %s",
                        qkv_head_text(spec->head.kind),
                        spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS
                            ? "it classifies the words of sentences (qkv_classify_words)"
                            : "train one on labelled lines (preset text-classifier, option labeled = FILE)");
    return QKV_OK;
}

enum qkv_status qkv_classify_join(struct qkv_model *model, const struct qkv_pair_template *template,
                                  const struct qkv_long_rule *rule, const struct qkv_text_pair *pair, int32_t **ids,
                                  int32_t **types, size_t *count, enum qkv_long_fate *fate) {
    struct qkv_context *ctx = qkv_model_context(model);
    int32_t *parts[2] = {NULL};
    size_t sizes[2] = {0};
    enum qkv_status status = QKV_OK;
    *fate = QKV_FATE_FITS;
    *ids = *types = NULL;
    *count = 0;
    if (qkv_is_blank(pair->texts[0], pair->sizes[0]) && qkv_is_blank(pair->texts[1], pair->sizes[1])) return QKV_OK;
    for (size_t i = 0; i < 2 && !status; i++)
        status = qkv_tokenizer_encode(ctx, qkv_model_source_tokenizer(model), pair->texts[i], pair->sizes[i], false,
                                      &parts[i], &sizes[i]);
    if (!status) *fate = qkv_pair_join(ctx, template, rule, parts, sizes, ids, types, count);
    qkv_free(parts[0]);
    qkv_free(parts[1]);
    if (!status && *fate == QKV_FATE_FITS && (!*ids || !*types)) status = QKV_MEMORY;
    if (!status && *fate == QKV_FATE_FITS) return QKV_OK;
    qkv_free(*ids);
    qkv_free(*types);
    *ids = *types = NULL;
    return status;
}
