/* Vectors of lines of text: hidden states of the encoder, or of a decoder alone, pooled over the tokens of each line. */
#include <math.h>
#include <string.h>

#include "generate/line_batches.h"
#include "model/decode.h"

struct embedder {
    struct qkv_model *model;
    struct qkv_encoded *encoded; /* begun again for each batch */
    enum qkv_pool pool;
    bool normalize;
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
            if (!(x[t * C + c] <= out[c])) out[c] = x[t * C + c]; /* what is no number stays */
}

size_t qkv_embed_width(const struct qkv_model *model) {
    if (!model) return 0;
    const struct qkv_spec *spec = qkv_model_spec(model);
    return (size_t)qkv_stack_width(spec, spec->encoder.layers ? &spec->encoder : &spec->decoder);
}

/* False where a number is not finite. */
static bool embed_finish(float *x, size_t C, bool normalize) {
    double sum = 0;
    for (size_t c = 0; c < C; c++) sum += (double)x[c] * (double)x[c];
    if (!isfinite(sum)) return false;
    for (size_t c = 0; c < C && normalize && sum > 0; c++) x[c] = (float)((double)x[c] / sqrt(sum));
    return true;
}

static enum qkv_status embed_run(void *user, const struct qkv_line_batch *batch) {
    struct embedder *e = user;
    const size_t C = qkv_embed_width(e->model);
    enum qkv_status status = qkv_encoded_begin(e->encoded, batch->ids, batch->lengths, batch->B, batch->T);
    if (status) return status;
    const float *hidden = qkv_encoded_output(e->encoded).data;
    for (size_t b = 0; b < batch->B && !status; b++) {
        const float *x = hidden + b * batch->T * C;
        float *out = e->vectors + batch->lines[b] * C;
        if (e->pool == QKV_POOL_FIRST)
            pool_first(x, C, out);
        else if (e->pool == QKV_POOL_LAST)
            pool_last(x, (size_t)batch->lengths[b], C, out);
        else if (e->pool == QKV_POOL_MAX)
            pool_max(x, (size_t)batch->lengths[b], C, out);
        else
            pool_mean(x, (size_t)batch->lengths[b], C, out);
        if (!embed_finish(out, C, e->normalize))
            status =
                qkv_fail(qkv_model_context(e->model), QKV_NUMBER,
                         "the hidden states of line %zu are no finite numbers: the model's weights are broken; take "
                         "those of an earlier checkpoint",
                         batch->lines[b] + 1);
    }
    return status;
}

enum qkv_status qkv_embed_with(struct qkv_model *model, const char *const *lines, size_t count, enum qkv_pool pool,
                               bool normalize, const struct qkv_line_options *options, float *vectors) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, lines);
    QKV_NEED_ALL(qkv_call, count, vectors);
    const struct qkv_line_options usual = qkv_line_defaults();
    if (!options) options = &usual;
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct embedder e = {.model = model, .pool = pool, .normalize = normalize, .vectors = vectors};
    if (pool != QKV_POOL_FIRST && pool != QKV_POOL_MEAN && pool != QKV_POOL_LAST && pool != QKV_POOL_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "the pool is %d; it must be one of enum qkv_pool", (int)pool);
    enum qkv_status status = qkv_lines_check(model, "embed");
    if (status) return status;
    if (count) memset(vectors, 0, count * qkv_embed_width(model) * sizeof *vectors);
    e.encoded = qkv_encoded_allocate(model, false);
    if (!e.encoded) return model->planned ? QKV_ARGUMENT : QKV_MEMORY; /* a plan has no weights */
    /* As lines were seen in training: a classifier's have both specials, a source its end, a plain text none; a published model sees what
     * its template says. */
    const bool own = !model->origin.family, classifier = spec->head.kind == QKV_HEAD_CLASSIFY && own;
    struct qkv_line_reader reader = {.model = model,
                                     .begin = classifier,
                                     .end = classifier || (spec->encoder.layers && spec->decoder.layers && own),
                                     .options = options,
                                     .run = embed_run,
                                     .user = &e};
    status = qkv_lines_run(&reader, lines, count);
    qkv_encoded_free(e.encoded);
    return status;
}

enum qkv_status qkv_embed(struct qkv_model *model, const char *const *lines, size_t count, enum qkv_pool pool,
                          bool normalize, float *vectors) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, lines);
    QKV_NEED_ALL(qkv_call, count, vectors);
    const struct qkv_line_options options = qkv_line_defaults();
    return qkv_embed_with(model, lines, count, pool, normalize, &options, vectors);
}
