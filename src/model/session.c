/* session: decoding one sequence with a KV cache: a decoder of one row and no source.
 *
 * Long inputs go through in chunks of a fixed size, so the memory of a step does not grow with the prompt; because a row's
 * bits depend on that row only, the chunks give exactly what one pass over everything gives. */
#include "model/decode.h"

#include <stdlib.h>

enum { CHUNK = 256 };

struct qkv_session {
    struct qkv_model *model;
    struct qkv_decoder *decoder;
    size_t capacity;
};

static enum qkv_status session_check(struct qkv_model *m, size_t capacity) {
    size_t context = (size_t)m->spec.context;
    if (!m->decoder.spec || m->encoder.spec || m->spec.head.kind != QKV_HEAD_LM) {
        bool pair = qkv_spec_topology(&m->spec) == QKV_ENCODER_DECODER;
        return qkv_fail(m->ctx, QKV_ARGUMENT, "generating needs a decoder alone with an lm head; this model has %s",
                        pair              ? "an encoder beside it: translate with it"
                        : m->encoder.spec ? "an encoder: classify, fill or embed with it"
                                          : "another head");
    }
    if (capacity > context) {
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a session of %zu positions is longer than the model's context of %zu",
                        capacity, context);
    }
    return QKV_OK;
}

enum qkv_status qkv_session_measure(struct qkv_model *model, size_t capacity, size_t *bytes) {
    struct qkv_decoder_options options = {.rows = 1, .capacity = capacity, .chunk = CHUNK};
    enum qkv_status status = session_check(model, capacity);
    *bytes = 0;
    return status == QKV_OK ? qkv_decoder_measure(model, &options, bytes) : status;
}

enum qkv_status qkv_session_create(struct qkv_model *model, size_t capacity, struct qkv_session **out) {
    QKV_CALL(model->ctx);
    struct qkv_decoder_options options = {.rows = 1, .capacity = capacity, .chunk = CHUNK};
    *out = NULL;
    if (model->planned) {
        return qkv_fail(model->ctx, QKV_ARGUMENT, "a planned model has no weights to run with");
    }
    enum qkv_status status = session_check(model, capacity);
    if (status != QKV_OK) {
        return status;
    }
    struct qkv_session *s = qkv_allocate(model->ctx, 1, sizeof *s);
    if (!s) {
        return QKV_MEMORY;
    }
    s->model = model;
    s->capacity = capacity ? capacity : (size_t)model->spec.context;
    s->decoder = qkv_decoder_allocate(model);
    status = s->decoder ? qkv_decoder_begin(s->decoder, &options) : QKV_MEMORY;
    if (status != QKV_OK) {
        qkv_session_free(s);
        return status;
    }
    *out = s;
    return QKV_OK;
}

void qkv_session_free(struct qkv_session *s) {
    if (!s) {
        return;
    }
    qkv_decoder_free(s->decoder);
    free(s);
}

static enum qkv_status check_append(struct qkv_session *s, const int32_t *ids, size_t n) {
    struct qkv_model *m = s->model;
    size_t length = qkv_decoder_length(s->decoder);
    if (n > s->capacity - length) {
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "%zu more tokens do not fit: the session holds %zu of %zu positions (a longer context needs a model "
            "trained with one)",
            n, length, s->capacity);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= m->spec.vocab) {
            return qkv_fail(m->ctx, QKV_ARGUMENT, "token id %d is out of range: ids are 0 to %d", ids[i],
                            m->spec.vocab - 1);
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_session_append(struct qkv_session *s, const int32_t *ids, size_t n) {
    QKV_CALL(s->model->ctx);
    enum qkv_status status = check_append(s, ids, n);
    size_t before = qkv_decoder_length(s->decoder);
    for (size_t done = 0; done < n && status == QKV_OK;) {
        size_t T = n - done < CHUNK ? n - done : CHUNK;
        status = qkv_decoder_append(s->decoder, ids + done, T, done + T == n);
        done += T;
    }
    if (status != QKV_OK) {
        qkv_decoder_truncate(s->decoder, before);
    }
    return status;
}

const float *qkv_session_logits(const struct qkv_session *s) {
    return qkv_decoder_logits(s->decoder);
}

size_t qkv_session_length(const struct qkv_session *s) {
    return qkv_decoder_length(s->decoder);
}

size_t qkv_session_capacity(const struct qkv_session *s) {
    return s->capacity;
}

void qkv_session_truncate(struct qkv_session *s, size_t length) {
    qkv_decoder_truncate(s->decoder, length);
}
