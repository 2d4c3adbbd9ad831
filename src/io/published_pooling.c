/* Published folders: modules.json, which says how sentence-transformers makes a vector of a text: the model, a pooling of its hidden
 * states, and perhaps a length of 1. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/published_files.h"

struct pooling_file {
    const struct qkv_published *published;
    char *path; /* of the file that is read */
    json_t *root;
};

static void pooling_close(struct pooling_file *f) {
    json_decref(f->root);
    free(f->path);
    *f = (struct pooling_file){.published = f->published};
}

/* Opens a JSON file of the folder, in one of its folders (NULL or "": itself); none: root is NULL. */
static enum qkv_status pooling_open(struct pooling_file *f, const char *folder, const char *name) {
    struct qkv_context *ctx = f->published->ctx;
    bool found = false;
    if (folder && (strchr(folder, '/') || !strcmp(folder, "..")))
        return qkv_fail(ctx, QKV_FORMAT, "%s: the path \"%.80s\" is no name of a folder in the folder", f->path,
                        folder);
    pooling_close(f);
    char *inner = folder && *folder ? qkv_join_path(ctx, f->published->folder, folder) : NULL;
    f->path = qkv_join_path(ctx, inner ? inner : f->published->folder, name);
    free(inner);
    if (!f->path) return QKV_MEMORY;
    enum qkv_status status = qkv_file_find(ctx, f->path, &found);
    return status || !found ? status : qkv_published_json(ctx, f->path, &f->root);
}

static enum qkv_status refuse(const struct pooling_file *f, const char *key, const char *instead) {
    const json_t *value = json_object_get(f->root, key);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    enum qkv_status status = qkv_fail(f->published->ctx, QKV_SPEC, "%s: %s is %.60s; it can be %s", f->path, key,
                                      text ? text : "missing", instead);
    free(text);
    return status;
}

/* The name of a pooling, as a key of its own or as one of pooling_mode. */
static const struct {
    const char *key, *mode;
    enum qkv_pool pool;
} pools[] = {
    {"pooling_mode_cls_token", "cls", QKV_POOL_FIRST},
    {"pooling_mode_mean_tokens", "mean", QKV_POOL_MEAN},
    {"pooling_mode_max_tokens", "max", QKV_POOL_MAX},
    {"pooling_mode_lasttoken", "lasttoken", QKV_POOL_LAST},
};

/* One of them, and nothing else. */
static enum qkv_status read_pool(const struct pooling_file *f, const struct qkv_spec *spec, enum qkv_pool *pool) {
    const json_t *width = json_object_get(f->root, "word_embedding_dimension"), *value;
    const char *mode = json_string_value(json_object_get(f->root, "pooling_mode")), *key;
    size_t found = 0;
    if (json_is_number(width) && json_integer_value(width) != qkv_spec_width(spec))
        return refuse(f, "word_embedding_dimension", "the width of the model's hidden states");
    json_object_foreach(f->root, key, value) {
        bool known = strncmp(key, "pooling_mode_", 13) != 0 || !json_is_true(value);
        for (size_t i = 0; i < sizeof pools / sizeof *pools && !known; i++)
            if (!strcmp(pools[i].key, key)) known = true, found++, *pool = pools[i].pool;
        if (!known) return refuse(f, key, "false");
    }
    for (size_t i = 0; mode && i < sizeof pools / sizeof *pools; i++)
        if (!strcmp(pools[i].mode, mode)) found++, *pool = pools[i].pool;
    if (found == 1) return QKV_OK;
    if (mode || !found) return refuse(f, "pooling_mode", "\"cls\", \"mean\", \"max\" or \"lasttoken\"");
    return qkv_fail(f->published->ctx, QKV_SPEC, "%s: it has %zu poolings at once; it can be one", f->path, found);
}

/* The last part of "sentence_transformers.models.Pooling". */
static const char *module_kind(const json_t *module) {
    const char *type = json_string_value(json_object_get(module, "type")), *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

static enum qkv_status read_most(struct pooling_file *f, size_t *most) {
    enum qkv_status status = pooling_open(f, NULL, "sentence_bert_config.json");
    if (status || !f->root) return status;
    const json_t *length = json_object_get(f->root, "max_seq_length");
    if (json_is_true(json_object_get(f->root, "do_lower_case"))) return refuse(f, "do_lower_case", "false");
    if (!length || json_is_null(length)) return QKV_OK;
    if (json_integer_value(length) < 1 || json_integer_value(length) > INT32_MAX)
        return refuse(f, "max_seq_length", "a whole number of at least 1, or null");
    *most = (size_t)json_integer_value(length);
    return QKV_OK;
}

enum qkv_status qkv_published_pooling(const struct qkv_published *p, const struct qkv_spec *spec,
                                      struct qkv_model_pooling *pooling) {
    static const char *const kinds[] = {"Transformer", "Pooling", "Normalize"};
    struct pooling_file f = {.published = p};
    char *path = NULL;
    *pooling = (struct qkv_model_pooling){0};
    enum qkv_status status = pooling_open(&f, NULL, "modules.json");
    const size_t count = json_array_size(f.root);
    if (status || !f.root) {
        pooling_close(&f);
        return status;
    }
    for (size_t i = 0; i < count && !status; i++) {
        const json_t *module = json_array_get(f.root, i);
        if (i >= 3 || strcmp(module_kind(module), kinds[i]) != 0)
            status =
                qkv_fail(p->ctx, QKV_SPEC, "%s: module %zu is \"%.80s\"; it can be Transformer, Pooling, Normalize",
                         f.path, i, module_kind(module));
        const char *at = json_string_value(json_object_get(module, "path"));
        if (i == 0 && !status && at && *at)
            status = qkv_fail(p->ctx, QKV_SPEC,
                              "%s: the model is in the folder \"%.80s\"; name that folder, or move its files here",
                              f.path, at);
        if (i == 1 && !status && !(path = qkv_copy_string(p->ctx, at ? at : ""))) status = QKV_MEMORY;
    }
    if (!status && count < 2)
        status = qkv_fail(p->ctx, QKV_SPEC, "%s: it has no module Pooling, so it makes no vectors of texts", f.path);
    pooling->normalize = count == 3;
    if (!status) status = pooling_open(&f, path, "config.json");
    if (!status && !f.root) status = qkv_fail(p->ctx, QKV_FILE, "%s is missing, which modules.json names", f.path);
    if (!status) status = read_pool(&f, spec, &pooling->pool);
    if (!status) status = read_most(&f, &pooling->most);
    pooling->given = !status;
    pooling_close(&f);
    free(path);
    return status;
}
