/* session: decoding one sequence with a KV cache: a decoder of one row and no source, and its forks, which share its
 * pages.
 *
 * Long inputs are cut into passes of a limited number of tokens, so the memory of a step does not grow with the prompt;
 * a row's bits depend on that row only, so the result is that of one pass. The tokens of a spec's prefix are not
 * cut. */
#include "base/sized_options.h"
#include "model/decode.h"

#include <stdlib.h>

struct qkv_session {
    struct qkv_model *model;
    struct qkv_decoder *decoder;
};

enum qkv_status qkv_session_check(struct qkv_model *m, size_t capacity) {
    size_t context = (size_t)m->spec.context;
    if (!m->decoder.spec || m->encoder.spec || m->spec.head.kind != QKV_HEAD_LM) {
        bool pair = qkv_spec_topology(&m->spec) == QKV_ENCODER_DECODER;
        return qkv_fail(m->ctx, QKV_ARGUMENT, "generating needs a decoder alone with an lm head; this model has %s",
                        pair              ? "an encoder beside it: translate with it"
                        : m->encoder.spec ? "an encoder: classify, fill or embed with it"
                                          : "another head");
    }
    if (capacity > context)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a session of %zu positions is longer than the model's context of %zu",
                        capacity, context);
    return QKV_OK;
}

enum qkv_status qkv_session_measure(struct qkv_model *model, size_t capacity, size_t *bytes) {
    struct qkv_decoder_options options = {
        .size = sizeof options, .rows = 1, .capacity = capacity, .chunk = QKV_DECODER_CHUNK};
    enum qkv_status status = qkv_session_check(model, capacity);
    *bytes = 0;
    return !status ? qkv_decoder_measure(model, &options, bytes) : status;
}

/* A session that owns `decoder` from here on. NULL without memory; then the decoder is freed. */
static struct qkv_session *session_of(struct qkv_model *model, struct qkv_decoder *decoder) {
    struct qkv_session *s = qkv_allocate(model->ctx, 1, sizeof *s);
    if (s)
        *s = (struct qkv_session){model, decoder};
    else
        qkv_decoder_free(decoder);
    return s;
}

void qkv_session_options_init(struct qkv_session_options *options, size_t size) {
    static const struct qkv_session_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

static enum qkv_status session_create(struct qkv_model *model, const struct qkv_session_options *o,
                                      struct qkv_session **out) {
    const struct qkv_decoder_options options = {.size = sizeof options,
                                                .rows = 1,
                                                .capacity = o->capacity,
                                                .chunk = QKV_DECODER_CHUNK,
                                                .pages = o->pages,
                                                .lengths = o->length ? &o->length : NULL,
                                                .cache = o->cache};
    *out = NULL;
    enum qkv_status status = qkv_model_check_weights(model);
    if (!status) status = qkv_session_check(model, o->capacity);
    if (status) return status;
    struct qkv_decoder *decoder = qkv_decoder_allocate(model);
    status = decoder ? qkv_decoder_begin(decoder, &options) : QKV_MEMORY;
    if (status) {
        qkv_decoder_free(decoder);
        return status;
    }
    *out = session_of(model, decoder);
    return *out ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_session_create(struct qkv_model *model, const struct qkv_session_options *options,
                                   struct qkv_session **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    struct qkv_session_options own = qkv_session_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_session_options, &own, options);
    return status ? status : session_create(model, &own, out);
}

enum qkv_status qkv_session_fork(const struct qkv_session *s, struct qkv_session **out) {
    QKV_CALL_OUT(s ? s->model->ctx : NULL, out);
    QKV_NEED(qkv_call, s);
    struct qkv_decoder *decoder;
    enum qkv_status status = qkv_decoder_fork(s->decoder, 0, &decoder);
    if (status) return status;
    *out = session_of(s->model, decoder);
    return *out ? QKV_OK : QKV_MEMORY;
}

void qkv_session_free(struct qkv_session *s) {
    if (!s) return;
    qkv_decoder_free(s->decoder);
    free(s);
}

/* Checks an append, with the words of a session in messages. */
static enum qkv_status check_append(const struct qkv_session *s, size_t n) {
    size_t length = qkv_decoder_length(s->decoder);
    if (n > s->decoder->capacity - length) {
        return qkv_fail(
            s->model->ctx, QKV_ARGUMENT,
            "%zu more tokens do not fit: the session holds %zu of %zu positions (a longer context needs a model "
            "trained with one)",
            n, length, s->decoder->capacity);
    }
    return QKV_OK;
}

enum qkv_status qkv_session_append(struct qkv_session *s, const int32_t *ids, size_t n) {
    QKV_CALL(s ? s->model->ctx : NULL);
    QKV_NEED(qkv_call, s);
    QKV_NEED_ALL(qkv_call, n, ids);
    enum qkv_status status = check_append(s, n);
    return status || !n ? status : qkv_decoder_grow(s->decoder, &(struct qkv_decoder_input){.ids = ids, .counts = &n});
}

enum qkv_status qkv_session_score(struct qkv_session *s, const int32_t *ids, size_t n, const size_t *scored,
                                  size_t count) {
    QKV_CALL(s ? s->model->ctx : NULL);
    QKV_NEED(qkv_call, s);
    QKV_NEED_ALL(qkv_call, n, ids);
    QKV_NEED_ALL(qkv_call, count, scored);
    enum qkv_status status = check_append(s, n);
    const struct qkv_decoder_input input = {.ids = ids, .counts = &n, .scored = scored, .scored_count = count};
    if (!status && (!scored || !count))
        return qkv_fail(s->model->ctx, QKV_ARGUMENT,
                        "name the tokens whose scores are wanted; qkv_session_append returns those of the last one");
    return status ? status : qkv_decoder_grow(s->decoder, &input);
}

const float *qkv_session_logits(const struct qkv_session *s) {
    if (!s) return NULL;
    return qkv_decoder_logits(s->decoder);
}

struct qkv_decoder *qkv_session_decoder(struct qkv_session *s) {
    return s->decoder;
}

struct qkv_model *qkv_session_model(const struct qkv_session *s) {
    return s->model;
}

size_t qkv_session_length(const struct qkv_session *s) {
    if (!s) return 0;
    return qkv_decoder_length(s->decoder);
}

size_t qkv_session_capacity(const struct qkv_session *s) {
    if (!s) return 0;
    return s->decoder->capacity;
}

struct qkv_cache_pages qkv_session_pages(const struct qkv_session *s) {
    if (!s) return (struct qkv_cache_pages){0};
    return qkv_decoder_pages(s->decoder);
}

void qkv_session_truncate(struct qkv_session *s, size_t length) {
    if (!s) return;
    qkv_decoder_shorten(s->decoder, 0, length);
}
