/* Vectors of lines of text: hidden states of the encoder, or of the only decoder, pooled over the tokens of each
 * line, then passed through the dense layers of the model's folder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/line_batches.h"
#include "generate/texts.h"
#include "model/decode.h"

struct embedder {
    struct qkv_text_embedder how;
    struct qkv_encoded *encoded; /* begun again for each batch */
    const char *const *lines;
    float *vectors;
};

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

/* ---- texts ------------------------------------------------------------------------------------------------------- */

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

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static enum qkv_status embed_run(void *user, const struct qkv_line_batch *batch) {
    struct embedder *e = user;
    struct qkv_model *model = e->how.model;
    struct qkv_context *ctx = qkv_model_context(model);
    const size_t C = qkv_embed_channels(model), width = qkv_embed_width(model);
    enum qkv_status status = qkv_encoded_begin(e->encoded, batch->ids, batch->lengths, batch->B, batch->T);
    if (status) return status;
    const float *hidden = qkv_encoded_output(e->encoded).data;
    struct qkv_text_vector *texts = qkv_allocate(ctx, batch->B, sizeof *texts);
    if (!texts) return QKV_MEMORY;
    for (size_t b = 0; b < batch->B; b++)
        texts[b] = (struct qkv_text_vector){.hidden = hidden + b * batch->T * C,
                                            .count = (size_t)batch->lengths[b],
                                            .skipped = e->how.skipped,
                                            .pool = e->how.options.pool,
                                            .normalize = e->how.options.normalize,
                                            .out = e->vectors + batch->lines[b] * width};
    status = qkv_text_vectors(model, texts, batch->B);
    for (size_t b = 0; b < batch->B && !status; b++)
        if (texts[b].broken)
            status = qkv_fail(ctx, QKV_NUMBER,
                              "the hidden states of line %zu are not finite: the model's weights are broken; take "
                              "those of an earlier checkpoint",
                              batch->lines[b] + 1);
    free(texts);
    return status;
}

static enum qkv_status embed_encode(void *user, size_t index, int32_t **ids, size_t *count) {
    const struct embedder *e = user;
    return qkv_text_embedder_read(&e->how, e->lines[index], strlen(e->lines[index]), ids, count);
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

enum qkv_status qkv_embed(struct qkv_model *model, const char *const *lines, size_t count,
                          const struct qkv_embed_options *options, float *vectors) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, lines);
    QKV_NEED_ALL(qkv_call, count, vectors);
    struct qkv_embed_options taken = qkv_embed_defaults(model);
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_embed_options, &taken, options);
    if (status) return status;
    const struct qkv_line_options rule = {.size = sizeof rule,
                                          .long_lines = taken.long_lines,
                                          .long_count = taken.long_count,
                                          .max_tokens = taken.max_tokens};
    struct embedder e = {.lines = lines, .vectors = vectors};
    status = qkv_text_embedder_begin(model, &taken, &e.how);
    if (!status) status = qkv_lines_check(model, "embed");
    if (status) return status;
    if (count) memset(vectors, 0, count * qkv_embed_width(model) * sizeof *vectors);
    struct qkv_line_reader reader = {.model = model,
                                     .begin = e.how.begin,
                                     .end = e.how.end,
                                     .options = &rule,
                                     .encode = embed_encode,
                                     .run = embed_run,
                                     .user = &e};
    e.encoded = qkv_encoded_allocate(model, false);
    if (!e.encoded) return model->planned ? QKV_ARGUMENT : QKV_MEMORY; /* a plan has no weights */
    status = qkv_lines_run(&reader, lines, count);
    qkv_encoded_free(e.encoded);
    return status;
}
