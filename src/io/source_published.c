/* A published folder: config.json of a family, weights in one safetensors file or in several with an index. */
#include <stdlib.h>

#include "io/opening.h"
#include "io/pooling.h"
#include "io/published.h"
#include "text/text.h"

static enum qkv_status published_find(struct qkv_opening *o, bool *mine) {
    struct qkv_published *published = NULL;
    enum qkv_status status =
        o->place.named ? QKV_OK : qkv_published_open(o->ctx, o->place.folder, true, &published, o->spec);
    o->state = published;
    *mine = published != NULL;
    return status;
}

static enum qkv_status published_match(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    const char *modules = o->place.modules ? o->place.modules : o->place.folder;
    enum qkv_status status = qkv_published_match(o->state, m);
    if (!status) status = qkv_published_generation(o->state, &m->spec, &m->generation);
    if (!status) status = qkv_pooling_read(o->ctx, modules, o->place.folder, &m->spec, true, &m->pooling);
    if (!status) status = qkv_published_origin(o->state, &m->origin);
    if (!status) status = qkv_published_freeze(m);
    if (!status) o->file = qkv_published_file(o->state);
    return status;
}

static enum qkv_status published_check(struct qkv_opening *o) {
    return qkv_published_check(o->file.owner, &o->model->spec, o->options.ignore_digest);
}

static size_t published_bytes(const struct qkv_opening *o, const struct qkv_weight *weight) {
    return qkv_published_bytes(o->file.owner, weight);
}

static enum qkv_status published_take(struct qkv_opening *o) {
    return qkv_published_room(o->file.owner);
}

static enum qkv_status published_read(struct qkv_opening *o) {
    return qkv_published_read(o->model, o->file.owner);
}

/* Labels that are not distinct: the classes have numbers instead. */
static void published_set_labels(struct qkv_opening *o) {
    const struct qkv_spec *spec = &o->model->spec;
    char **labels = qkv_published_labels(o->file.owner, spec);
    if (labels && qkv_model_set_labels(o->model, (const char *const *)labels, (size_t)spec->head.classes))
        qkv_forgive(o->ctx);
    for (int i = 0; labels && i < spec->head.classes; i++) free(labels[i]);
    free(labels);
}

/* A tokenizer that cannot be read is not an error: the model then works with ids, and keeps the message. A model of
 * images needs none. */
static enum qkv_status published_tokenizer(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    struct qkv_tokenizer *tokenizer;
    enum qkv_status status = qkv_tokenizer_open(o->ctx, o->place.folder, &tokenizer);
    if (!status) status = qkv_model_set_tokenizer(m, tokenizer);
    if (!status || status == QKV_MEMORY) return status;
    if (qkv_spec_has_tokens(&m->spec)) {
        m->origin.tokenizer = qkv_copy_string(o->ctx, qkv_message(o->ctx));
        if (!m->origin.tokenizer) return QKV_MEMORY;
    }
    qkv_forgive(o->ctx);
    return QKV_OK;
}

static enum qkv_status published_read_texts(struct qkv_opening *o) {
    enum qkv_status status = qkv_pooling_fill(o->ctx, &o->model->pooling);
    published_set_labels(o);
    if (!status) status = published_tokenizer(o);
    return status ? status : qkv_texts_source_tokenizer(o);
}

static void published_close(struct qkv_opening *o) {
    qkv_published_close(o->state);
    o->state = NULL;
}

const struct qkv_source qkv_source_published = {.name = "published",
                                                .help = "a folder of Hugging Face transformers",
                                                .find = published_find,
                                                .match = published_match,
                                                .check = published_check,
                                                .bytes = published_bytes,
                                                .take = published_take,
                                                .read = published_read,
                                                .read_texts = published_read_texts,
                                                .close = published_close};
