/* Weights of a family: in a published folder, or in GGUF files. The path of a GGUF file is the opening's folder, which
 * has no other files. */
#include <stdlib.h>

#include "io/gguf.h"
#include "io/opening.h"
#include "io/pooling.h"
#include "io/published.h"
#include "text/text.h"

enum qkv_status qkv_theirs_open(struct qkv_opening *o, bool *mine) {
    struct qkv_published *published = NULL;
    const enum qkv_status status = qkv_published_open(o->ctx, o->place.folder, true, &published, o->spec);
    o->state = published;
    *mine = published != NULL;
    return status;
}

enum qkv_status qkv_theirs_tokenizer(struct qkv_context *ctx, const char *folder, struct qkv_tokenizer **out) {
    struct qkv_gguf *keys;
    struct qkv_tensors *tensors;
    if (!qkv_gguf_is(folder)) return qkv_tokenizer_open(ctx, folder, out);
    enum qkv_status status = qkv_gguf_open(ctx, folder, &keys, &tensors);
    if (!status) status = qkv_gguf_tokenizer(keys, out);
    qkv_gguf_free(keys);
    qkv_tensors_close(tensors);
    return status;
}

enum qkv_status qkv_theirs_match(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    const char *modules = o->place.modules ? o->place.modules : o->place.folder;
    enum qkv_status status = qkv_published_match(o->state, m);
    if (!status) status = qkv_published_generation(o->state, &m->spec, &m->generation);
    if (!status) status = qkv_pooling_read(o->ctx, modules, o->place.folder, &m->spec, true, &m->pooling);
    if (!status) status = qkv_published_pooling(o->state, &m->pooling);
    if (!status) status = qkv_published_origin(o->state, &m->origin);
    if (!status) status = qkv_published_freeze(m);
    if (!status) o->file = qkv_published_file(o->state);
    return status;
}

enum qkv_status qkv_theirs_check(struct qkv_opening *o) {
    return qkv_published_check(o->file.owner, &o->model->spec, o->options.ignore_digest);
}

size_t qkv_theirs_bytes(const struct qkv_opening *o, const struct qkv_weight *weight) {
    return qkv_published_bytes(o->file.owner, weight);
}

enum qkv_status qkv_theirs_take(struct qkv_opening *o) {
    return qkv_published_room(o->file.owner);
}

enum qkv_status qkv_theirs_read(struct qkv_opening *o) {
    return qkv_published_read(o->model, o->file.owner);
}

/* Labels that are not distinct: the classes have numbers instead. */
static void theirs_labels(struct qkv_opening *o) {
    const struct qkv_spec *spec = &o->model->spec;
    char **labels = qkv_published_labels(o->file.owner, spec);
    if (labels && qkv_model_set_labels(o->model, (const char *const *)labels, (size_t)spec->head.classes))
        qkv_forgive(o->ctx);
    for (int i = 0; labels && i < spec->head.classes; i++) free(labels[i]);
    free(labels);
}

/* A tokenizer that cannot be read is not an error: the model then works with ids, and keeps the message. A model of
 * images needs none. */
static enum qkv_status theirs_tokenizer(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    struct qkv_tokenizer *tokenizer;
    enum qkv_status status = qkv_published_tokenizer(o->file.owner, &tokenizer);
    if (!status) status = qkv_model_set_tokenizer(m, tokenizer);
    if (!status || status == QKV_MEMORY) return status;
    if (qkv_spec_has_tokens(&m->spec)) {
        m->origin.tokenizer = qkv_copy_string(o->ctx, qkv_message(o->ctx));
        if (!m->origin.tokenizer) return QKV_MEMORY;
    }
    qkv_forgive(o->ctx);
    return QKV_OK;
}

enum qkv_status qkv_theirs_read_texts(struct qkv_opening *o) {
    enum qkv_status status = qkv_pooling_fill(o->ctx, &o->model->pooling);
    theirs_labels(o);
    if (!status) status = theirs_tokenizer(o);
    if (!status && qkv_gguf_is(o->place.folder)) {
        o->model->origin.gguf = qkv_copy_string(o->ctx, o->place.folder);
        if (!o->model->origin.gguf) status = QKV_MEMORY;
    }
    return status ? status : qkv_texts_source_tokenizer(o);
}

void qkv_theirs_close(struct qkv_opening *o) {
    qkv_published_close(o->state);
    o->state = NULL;
}
