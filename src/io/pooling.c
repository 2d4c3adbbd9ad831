/* modules.json: how sentence-transformers makes a vector of a text: the model, a pooling of its hidden states, dense
 * layers, and maybe a normalisation to length 1. */
#include "io/pooling.h"

#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "text/text.h"

/* Poolings, each by its own key and by its name in pooling_mode. */
static const struct {
    const char *key, *mode;
    enum qkv_pool pool;
} pools[] = {
    {"pooling_mode_cls_token", "cls", QKV_POOL_FIRST},
    {"pooling_mode_mean_tokens", "mean", QKV_POOL_MEAN},
    {"pooling_mode_max_tokens", "max", QKV_POOL_MAX},
    {"pooling_mode_lasttoken", "lasttoken", QKV_POOL_LAST},
};

/* Reads the pooling: exactly one. */
static enum qkv_status read_pool(const struct qkv_pooling_file *f, const struct qkv_spec *spec,
                                 struct qkv_model_pooling *pooling) {
    const json_t *prompt = json_object_get(f->root, "include_prompt");
    const json_t *width = json_object_get(f->root, "word_embedding_dimension"), *value;
    const char *mode = json_string_value(json_object_get(f->root, "pooling_mode")), *key;
    size_t found = 0;
    if (prompt && !json_is_boolean(prompt)) return qkv_pooling_refuse(f, "include_prompt", "true or false");
    pooling->without_prompt = json_is_false(prompt);
    if (json_is_number(width) && json_integer_value(width) != qkv_spec_width(spec))
        return qkv_pooling_refuse(f, "word_embedding_dimension", "the width of the model's hidden states");
    json_object_foreach(f->root, key, value) {
        bool known = strncmp(key, "pooling_mode_", 13) != 0 || !json_is_true(value);
        for (size_t i = 0; i < sizeof pools / sizeof *pools && !known; i++)
            if (!strcmp(pools[i].key, key)) known = true, found++, pooling->pool = pools[i].pool;
        if (!known) return qkv_pooling_refuse(f, key, "false");
    }
    for (size_t i = 0; mode && i < sizeof pools / sizeof *pools; i++)
        if (!strcmp(pools[i].mode, mode)) found++, pooling->pool = pools[i].pool;
    if (found == 1) return QKV_OK;
    if (mode || !found) return qkv_pooling_refuse(f, "pooling_mode", "\"cls\", \"mean\", \"max\" or \"lasttoken\"");
    return qkv_fail(f->ctx, QKV_SPEC, "%s: it has %zu poolings at once; one is possible", f->path, found);
}

/* The last part of a name like "sentence_transformers.models.Pooling". */
static const char *module_kind(const json_t *module) {
    const char *type = json_string_value(json_object_get(module, "type")), *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

static enum qkv_status read_max_length(struct qkv_pooling_file *f, const char *model, size_t *max) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; qkv_sentence_files[i] && !status && (!i || !f->root); i++)
        status = qkv_pooling_open(f, model, NULL, qkv_sentence_files[i]);
    if (status || !f->root) return status;
    const json_t *length = json_object_get(f->root, "max_seq_length"),
                 *lower = json_object_get(f->root, "do_lower_case");
    if (lower && !json_is_boolean(lower) && !json_is_null(lower))
        return qkv_pooling_refuse(f, "do_lower_case", "true or false");
    if (!length || json_is_null(length)) return QKV_OK;
    if (json_integer_value(length) < 1 || json_integer_value(length) > INT32_MAX)
        return qkv_pooling_refuse(f, "max_seq_length", "a whole number of at least 1, or null");
    *max = (size_t)json_integer_value(length);
    return QKV_OK;
}

static enum qkv_status modules_refuse(const struct qkv_pooling_file *f, size_t i, const json_t *module) {
    return qkv_fail(
        f->ctx, QKV_SPEC,
        "%s: module %zu is \"%.80s\"; modules can be Transformer, Pooling, then at most %d Dense and Normalize",
        f->path, i, module_kind(module), QKV_DENSE_MAX);
}

/* Reads the modules after the pooling. A last Normalize is the vector's; an earlier one belongs to its dense layer. */
static enum qkv_status read_behind(const struct qkv_pooling_file *f, const char *folder, const struct qkv_spec *spec,
                                   struct qkv_model_pooling *pooling) {
    const size_t count = json_array_size(f->root);
    size_t width = (size_t)qkv_spec_width(spec);
    enum qkv_status status = QKV_OK;
    pooling->dense = qkv_allocate(f->ctx, QKV_DENSE_MAX, sizeof *pooling->dense);
    if (!pooling->dense) return QKV_MEMORY;
    for (size_t i = 2; i < count && !status; i++) {
        const json_t *module = json_array_get(f->root, i);
        const bool dense = !strcmp(module_kind(module), "Dense");
        if (!dense && strcmp(module_kind(module), "Normalize") != 0) return modules_refuse(f, i, module);
        if (!dense) {
            pooling->normalize = true;
            continue;
        }
        if (pooling->dense_count == QKV_DENSE_MAX) return modules_refuse(f, i, module);
        struct qkv_model_dense *d = &pooling->dense[pooling->dense_count++];
        *d = (struct qkv_model_dense){.in = width, .normalize = pooling->normalize};
        pooling->normalize = false;
        status = qkv_dense_read(f->ctx, folder, json_string_value(json_object_get(module, "path")), d);
        width = d->out;
    }
    return status;
}

/* Reads the modules: the model, its pooling, whose folder goes to *path (heap), and those after it. */
static enum qkv_status read_modules(const struct qkv_pooling_file *f, const char *folder, const struct qkv_spec *spec,
                                    char **path, struct qkv_model_pooling *pooling) {
    static const char *const kinds[] = {"Transformer", "Pooling"};
    const size_t count = json_array_size(f->root);
    for (size_t i = 0; i < 2 && i < count; i++) {
        const json_t *module = json_array_get(f->root, i);
        if (strcmp(module_kind(module), kinds[i]) != 0) return modules_refuse(f, i, module);
    }
    if (count < 2)
        return qkv_fail(f->ctx, QKV_SPEC, "%s: it has no module Pooling, so it makes no vectors of texts", f->path);
    const char *at = json_string_value(json_object_get(json_array_get(f->root, 1), "path"));
    *path = qkv_copy_string(f->ctx, at ? at : "");
    return *path ? read_behind(f, folder, spec, pooling) : QKV_MEMORY;
}

enum qkv_status qkv_pooling_fill(struct qkv_context *ctx, struct qkv_model_pooling *pooling) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < pooling->dense_count && !status; i++) status = qkv_dense_fill(ctx, &pooling->dense[i]);
    return status;
}

enum qkv_status qkv_pooling_read(struct qkv_context *ctx, const char *folder, const char *model,
                                 const struct qkv_spec *spec, bool planned, struct qkv_model_pooling *pooling) {
    struct qkv_pooling_file f = {.ctx = ctx};
    char *path = NULL;
    *pooling = (struct qkv_model_pooling){0};
    enum qkv_status status = qkv_pooling_open(&f, folder, NULL, QKV_MODULES_FILE);
    if (status || !f.root) {
        qkv_pooling_close(&f);
        return status;
    }
    status = read_modules(&f, folder, spec, &path, pooling);
    if (!status) status = qkv_pooling_open(&f, folder, path, QKV_CONFIG_FILE);
    if (!status && !f.root) status = qkv_fail(ctx, QKV_FILE, "%s is missing, which modules.json names", f.path);
    if (!status) status = read_pool(&f, spec, pooling);
    if (!status) status = read_max_length(&f, model, &pooling->most);
    if (!status) status = qkv_prompts_read(ctx, folder, pooling);
    if (!status && !planned) status = qkv_pooling_fill(ctx, pooling);
    qkv_pooling_close(&f);
    free(path);
    if (status) qkv_model_pooling_free(pooling);
    pooling->given = !status;
    return status;
}

enum qkv_status qkv_pooling_model(struct qkv_context *ctx, const char *folder, char **model) {
    struct qkv_pooling_file f = {.ctx = ctx};
    bool found = false;
    *model = NULL;
    enum qkv_status status = qkv_pooling_open(&f, folder, NULL, QKV_MODULES_FILE);
    const json_t *first = json_array_get(f.root, 0);
    const char *path = json_string_value(json_object_get(first, "path"));
    if (!status && path && *path && !strcmp(module_kind(first), "Transformer")) {
        char *copy = qkv_copy_string(ctx, path), *inner = NULL;
        status = copy ? QKV_OK : QKV_MEMORY;
        if (!status && !strchr(copy, '/')) inner = qkv_join_path(ctx, folder, copy);
        if (!status) status = qkv_pooling_open(&f, folder, copy, QKV_CONFIG_FILE);
        if (!status) status = qkv_file_find(ctx, f.path, &found);
        if (!status && !found) status = qkv_fail(ctx, QKV_FILE, "%s is missing, which modules.json names", f.path);
        if (status) free(inner);
        if (!status) *model = inner;
        free(copy);
    }
    qkv_pooling_close(&f);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *pooling_module(int number, const char *path, const char *kind) {
    char name[24], type[64];
    snprintf(name, sizeof name, "%d", number);
    snprintf(type, sizeof type, "sentence_transformers.models.%s", kind);
    return json_pack("{s:i, s:s, s:s, s:s}", "idx", number, "name", name, "path", path, "type", type);
}

/* A module Normalize, which has no files. */
static json_t *pooling_length(int number) {
    char path[32];
    snprintf(path, sizeof path, "%d_Normalize", number);
    return pooling_module(number, path, "Normalize");
}

static json_t *pooling_modules(const struct qkv_model_pooling *pooling) {
    json_t *modules = json_array();
    json_array_append_new(modules, pooling_module(0, "", "Transformer"));
    json_array_append_new(modules, pooling_module(1, QKV_POOLING_FOLDER, "Pooling"));
    int at = 2;
    for (size_t i = 0; i < pooling->dense_count; i++) {
        if (pooling->dense[i].normalize) json_array_append_new(modules, pooling_length(at++));
        json_array_append_new(modules, pooling_module(at++, qkv_dense_folders[i], "Dense"));
    }
    if (pooling->normalize) json_array_append_new(modules, pooling_length(at));
    return modules;
}

/* The keys of all versions of sentence-transformers. */
static json_t *pooling_kind(const struct qkv_model_pooling *pooling, const struct qkv_spec *spec) {
    json_t *root = json_pack("{s:i}", "word_embedding_dimension", qkv_spec_width(spec));
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        json_object_set_new(root, pools[i].key, json_boolean(pools[i].pool == pooling->pool));
    json_object_set_new(root, "include_prompt", json_boolean(!pooling->without_prompt));
    return root;
}

enum qkv_status qkv_pooling_write(struct qkv_context *ctx, const struct qkv_model_pooling *pooling,
                                  const struct qkv_spec *spec, const char *folder) {
    if (!pooling->given) return QKV_OK;
    json_t *max = pooling->most ? json_integer((json_int_t)pooling->most) : json_null();
    char *inner = qkv_join_path(ctx, folder, QKV_POOLING_FOLDER);
    enum qkv_status status = inner ? qkv_make_folder(ctx, inner) : QKV_MEMORY;
    if (!status) status = qkv_json_save(ctx, inner, QKV_CONFIG_FILE, pooling_kind(pooling, spec));
    if (!status)
        status = qkv_json_save(ctx, folder, QKV_SENTENCES_FILE,
                               json_pack("{s:O, s:b}", "max_seq_length", max, "do_lower_case", 0));
    for (size_t i = 0; i < pooling->dense_count && !status; i++)
        status = qkv_dense_write(ctx, folder, qkv_dense_folders[i], &pooling->dense[i]);
    if (!status) status = qkv_prompts_write(ctx, folder, pooling);
    if (!status) status = qkv_json_save(ctx, folder, QKV_MODULES_FILE, pooling_modules(pooling));
    json_decref(max);
    free(inner);
    return status;
}
