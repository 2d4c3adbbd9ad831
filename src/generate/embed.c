/* Vectors of lines of text: hidden states of the encoder, or of the only decoder, pooled over the tokens of each
 * line, then passed through the dense layers of the model's folder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/line_batches.h"
#include "model/decode.h"

struct embedder {
    struct qkv_model *model;
    const struct qkv_embed_options *options;
    struct qkv_encoded *encoded;    /* begun again for each batch */
    struct qkv_line_reader *reader; /* reads the lines, each with the prompt before it */
    const char *const *lines;
    size_t skipped; /* tokens of the prompt that are not pooled */
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

static size_t embed_channels(const struct qkv_model *model) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    return (size_t)qkv_stack_width(spec, spec->encoder.layers ? &spec->encoder : &spec->decoder);
}

size_t qkv_embed_width(const struct qkv_model *model) {
    if (!model) return 0;
    const struct qkv_model_pooling *p = &model->pooling;
    return p->dense_count ? p->dense[p->dense_count - 1].out : embed_channels(model);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static enum qkv_status embed_run(void *user, const struct qkv_line_batch *batch) {
    struct embedder *e = user;
    struct qkv_context *ctx = qkv_model_context(e->model);
    const size_t C = embed_channels(e->model), width = qkv_embed_width(e->model);
    enum qkv_status status = qkv_encoded_begin(e->encoded, batch->ids, batch->lengths, batch->B, batch->T);
    if (status) return status;
    const float *hidden = qkv_encoded_output(e->encoded).data;
    float *x = qkv_allocate(ctx, batch->B * C, sizeof *x);
    if (!x) return QKV_MEMORY;
    for (size_t b = 0; b < batch->B; b++) {
        const size_t T = (size_t)batch->lengths[b], from = e->skipped;
        if (from < T) pool_row(e->options->pool, hidden + (b * batch->T + from) * C, T - from, C, x + b * C);
    }
    status = qkv_model_dense_apply(ctx, &e->model->pooling, batch->B, &x);
    for (size_t b = 0; b < batch->B && !status; b++) {
        float *out = e->vectors + batch->lines[b] * width;
        memcpy(out, x + b * width, width * sizeof *out);
        if (!qkv_vector_normalize(out, width, e->options->normalize))
            status = qkv_fail(ctx, QKV_NUMBER,
                              "the hidden states of line %zu are not finite: the model's weights are broken; take "
                              "those of an earlier checkpoint",
                              batch->lines[b] + 1);
    }
    free(x);
    return status;
}

/* Encodes a line with the prompt before it. */
static enum qkv_status embed_encode(void *user, size_t index, int32_t **ids, size_t *count) {
    const struct embedder *e = user;
    const char *line = e->lines[index];
    struct qkv_buffer text = {0};
    *ids = NULL, *count = 0;
    if (qkv_is_blank(line, strlen(line))) return QKV_OK;
    struct qkv_context *ctx = qkv_model_context(e->model);
    enum qkv_status status = qkv_buffer_append(ctx, &text, e->options->prompt, strlen(e->options->prompt));
    if (!status) status = qkv_buffer_append(ctx, &text, line, strlen(line));
    if (!status)
        status = qkv_source_encode(ctx, qkv_model_source_tokenizer(e->model), text.data, text.size, e->reader->begin,
                                   e->reader->end, ids, count);
    qkv_buffer_free(&text);
    return status;
}

/* Counts the tokens of the prompt that are not pooled, as sentence-transformers does: those of the prompt alone,
 * without a token that ends it. */
static enum qkv_status embed_skip(struct embedder *e) {
    int32_t *ids = NULL;
    size_t count = 0;
    const char *prompt = e->options->prompt;
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(e->model);
    if (!prompt || !*prompt || !e->model->pooling.without_prompt) return QKV_OK;
    enum qkv_status status = qkv_source_encode(qkv_model_context(e->model), tokenizer, prompt, strlen(prompt),
                                               e->reader->begin, e->reader->end, &ids, &count);
    qkv_free(ids);
    if (status) return status;
    const bool ended = count && qkv_source_frame(tokenizer, e->reader->begin, e->reader->end).after;
    e->skipped = count - ended;
    return QKV_OK;
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
    options = &taken;
    const struct qkv_line_options rule = {.size = sizeof rule,
                                          .long_lines = taken.long_lines,
                                          .long_count = taken.long_count,
                                          .max_tokens = taken.max_tokens};
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    const enum qkv_pool pool = options->pool;
    if (pool != QKV_POOL_FIRST && pool != QKV_POOL_MEAN && pool != QKV_POOL_LAST && pool != QKV_POOL_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "the pool is %d; it must be one of enum qkv_pool", (int)pool);
    status = qkv_lines_check(model, "embed");
    if (status) return status;
    if (count) memset(vectors, 0, count * qkv_embed_width(model) * sizeof *vectors);
    /* as in training: a classifier has both specials, a source its end, a plain text none; a published model has
     * what its template says */
    const bool own = !model->origin.family, classifier = spec->head.kind == QKV_HEAD_CLASSIFY && own;
    const bool prompted = options->prompt && *options->prompt;
    struct embedder e = {.model = model, .options = options, .lines = lines, .vectors = vectors};
    struct qkv_line_reader reader = {.model = model,
                                     .begin = classifier,
                                     .end = classifier || (spec->encoder.layers && spec->decoder.layers && own),
                                     .options = &rule,
                                     .encode = prompted ? embed_encode : NULL,
                                     .run = embed_run,
                                     .user = &e};
    e.reader = &reader;
    status = embed_skip(&e);
    if (status) return status;
    e.encoded = qkv_encoded_allocate(model, false);
    if (!e.encoded) return model->planned ? QKV_ARGUMENT : QKV_MEMORY; /* a plan has no weights */
    status = qkv_lines_run(&reader, lines, count);
    qkv_encoded_free(e.encoded);
    return status;
}
