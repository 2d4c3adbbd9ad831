/* own_texts: the texts of a folder next to its weights: tokenizer.json, and optionally source_tokenizer.json,
 * generation_config.json, modules.json and labels.txt (the names of the classes, one per line). */
#include <stdlib.h>

#include "io/generation.h"
#include "io/labels.h"
#include "io/opening.h"
#include "io/pooling.h"
#include "text/text.h"

enum qkv_status qkv_texts_tokenizer(struct qkv_opening *o, const char *name,
                                    enum qkv_status (*set)(struct qkv_model *, struct qkv_tokenizer *)) {
    bool found = false;
    char *path = qkv_join_path(o->ctx, o->place.folder, name);
    struct qkv_tokenizer *tokenizer;
    enum qkv_status status = path ? qkv_file_find(o->ctx, path, &found) : QKV_MEMORY;
    if (found) {
        status = qkv_tokenizer_load(o->ctx, path, &tokenizer); /* the message names the path */
        if (!status && (status = set(o->model, tokenizer))) qkv_fail_at(o->ctx, "%s", path);
    }
    free(path);
    return status;
}

enum qkv_status qkv_texts_source_tokenizer(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    enum qkv_status status = qkv_texts_tokenizer(o, QKV_SOURCE_FILE, qkv_model_set_source_tokenizer);
    return status || !m->source_tokenizer
               ? status
               : qkv_tokenizer_read_roles(o->ctx, m->source_tokenizer, o->place.folder, QKV_SOURCE_ROLES_FILE);
}

enum qkv_status qkv_own_read_texts(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    const char *folder = o->place.folder;
    char *labels = qkv_join_path(o->ctx, folder, QKV_LABELS_FILE);
    enum qkv_status status = labels ? qkv_texts_tokenizer(o, QKV_TOKENIZER_FILE, qkv_model_set_tokenizer) : QKV_MEMORY;
    if (!status && m->tokenizer) status = qkv_tokenizer_read_roles(o->ctx, m->tokenizer, folder, QKV_ROLES_FILE);
    if (!status) status = qkv_generation_read(o->ctx, folder, &m->spec, NULL, &m->generation);
    if (!status) status = qkv_pooling_fill(o->ctx, &m->pooling);
    if (!status) status = qkv_texts_source_tokenizer(o);
    if (!status) status = qkv_labels_read(m, labels);
    free(labels);
    return status;
}
