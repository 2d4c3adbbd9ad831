/* A GGUF file of architecture qkv: weights under our names, the spec and the tokenizers as JSON. gguf_export.c writes
 * such files for models that no other architecture can express. */
#include <stdlib.h>
#include <string.h>

#include "io/generation.h"
#include "io/gguf_own.h"
#include "io/io.h"
#include "io/opening.h"
#include "io/safetensors.h"
#include "text/text.h"

enum qkv_status qkv_gguf_own_spec(const struct qkv_gguf *g, const char *const *settings, size_t setting_count,
                                  struct qkv_spec *spec) {
    size_t size;
    const char *type = qkv_gguf_one_text(g, "general.type", &size);
    if (type && size == strlen("adapter") && !memcmp(type, "adapter", size))
        return qkv_fail(g->ctx, QKV_FORMAT,
                        "%s: general.type is \"adapter\"; open its model, and add the adapter with option adapter",
                        g->path);
    const char *text = qkv_gguf_one_text(g, QKV_GGUF_SPEC, &size);
    if (!text) return qkv_fail(g->ctx, QKV_FORMAT, "%s has no text " QKV_GGUF_SPEC, g->path);
    return qkv_spec_parse(g->ctx, spec, g->path, text, size, settings, setting_count);
}

enum qkv_status qkv_gguf_own_open(struct qkv_context *ctx, const char *path, struct qkv_gguf **keys,
                                  struct qkv_tensors **tensors, bool *mine) {
    *mine = false;
    *keys = NULL;
    *tensors = NULL;
    if (!qkv_gguf_is(path)) return QKV_OK;
    const enum qkv_status status = qkv_gguf_open(ctx, path, keys, tensors);
    *mine = !status && qkv_gguf_is_own(*keys);
    if (*mine || status) return status;
    qkv_gguf_free(*keys);
    qkv_tensors_close(*tensors);
    *keys = NULL;
    *tensors = NULL;
    return QKV_OK;
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

static enum qkv_status own_find(struct qkv_opening *o, bool *mine) {
    struct qkv_tensors *tensors;
    const enum qkv_status status = qkv_gguf_own_open(o->ctx, o->place.folder, &o->keys, &tensors, mine);
    o->state = tensors;
    return status || !*mine ? status : qkv_gguf_own_spec(o->keys, NULL, 0, o->spec);
}

static enum qkv_status own_check(struct qkv_opening *o) {
    return qkv_own_check(o, NULL);
}

static enum qkv_status own_labels(struct qkv_model *m, const struct qkv_gguf *g) {
    const struct qkv_gguf_value *value = qkv_gguf_find(g, QKV_GGUF_LABELS);
    const size_t count = value && value->array && value->type == QKV_GGUF_STRING ? value->count : 0;
    const char **labels = count ? qkv_allocate(m->ctx, count, sizeof *labels) : NULL;
    const char *text;
    size_t at = 0, size, n = 0;
    if (!count) return QKV_OK;
    enum qkv_status status = labels ? QKV_OK : QKV_MEMORY;
    while (!status && n < count && qkv_gguf_text(g, value, &at, &text, &size)) {
        labels[n] = qkv_copy_bytes(m->ctx, text, size);
        if (labels[n])
            n++;
        else
            status = QKV_MEMORY;
    }
    if (!status && n < count)
        status = qkv_fail(m->ctx, QKV_FORMAT, "%s: " QKV_GGUF_LABELS " has %zu texts, not %zu", g->path, n, count);
    if (!status) status = qkv_model_set_labels(m, labels, count);
    for (size_t i = 0; i < n; i++) free((char *)(uintptr_t)labels[i]);
    free(labels);
    return status;
}

static enum qkv_status own_tokenizers(struct qkv_opening *o, const struct qkv_gguf *g) {
    struct qkv_model *m = o->model;
    struct qkv_tokenizer *t;
    size_t size;
    const char *source = qkv_gguf_one_text(g, QKV_GGUF_SOURCE, &size);
    enum qkv_status status = QKV_OK;
    if (qkv_gguf_find(g, QKV_GGUF_TOKENIZER) || qkv_gguf_find(g, "tokenizer.ggml.tokens")) {
        status = qkv_gguf_tokenizer(g, &t);
        if (!status) status = qkv_model_set_tokenizer(m, t);
    }
    if (!status) {
        m->origin.gguf = qkv_copy_string(o->ctx, g->path);
        if (!m->origin.gguf) status = QKV_MEMORY;
    }
    if (status || !source) return status;
    status = qkv_tokenizer_parse(o->ctx, source, size, g->path, &t);
    return status ? status : qkv_model_set_source_tokenizer(m, t);
}

static enum qkv_status own_read_texts(struct qkv_opening *o) {
    const struct qkv_gguf *g = o->keys;
    struct qkv_model *m = o->model;
    const struct qkv_gguf_value *pooling = qkv_gguf_find(g, QKV_GGUF_OWN ".pooling_type");
    const double type =
        pooling && !pooling->array && pooling->type == QKV_GGUF_U32 ? qkv_gguf_number(g, pooling, 0) : 0;
    size_t size;
    const char *generation = qkv_gguf_one_text(g, QKV_GGUF_GENERATION, &size);
    enum qkv_status status = own_tokenizers(o, g);
    if (!status && generation)
        status = qkv_generation_parse(o->ctx, g->path, generation, size, &m->spec, &m->generation);
    if (!status) qkv_gguf_set_pooling(&m->pooling, type);
    return status ? status : own_labels(m, g);
}

const struct qkv_source qkv_source_gguf_own = {.name = "gguf of qkv",
                                               .help = "a GGUF file of architecture qkv",
                                               .find = own_find,
                                               .match = qkv_own_match,
                                               .check = own_check,
                                               .bytes = qkv_own_bytes,
                                               .read = qkv_own_read,
                                               .read_texts = own_read_texts,
                                               .close = qkv_own_close};
