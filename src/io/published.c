/* Published folders: config.json, and the files of the weights. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/gguf.h"
#include "io/io.h"
#include "io/published_files.h"
#include "io/safetensors.h"

#define CONFIG_MOST (64u << 20)

enum qkv_status qkv_published_json(struct qkv_context *ctx, const char *path, json_t **root) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    status = qkv_json_load(
        ctx, &(struct qkv_json_text){.name = path, .data = map.data, .size = map.size, .max_size = CONFIG_MOST}, root);
    qkv_unmap_file(&map);
    return status;
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

static enum qkv_status file_add(struct qkv_published *p, const char *name) {
    for (size_t i = 0; i < p->count; i++)
        if (!strcmp(p->files[i].name, name)) return QKV_OK;
    struct qkv_published_part *part = qkv_published_part(p, name, false);
    if (!part) return QKV_MEMORY;
    bool found;
    enum qkv_status status = qkv_file_find(p->ctx, part->path, &found);
    if (!status && !found)
        status = qkv_fail(p->ctx, QKV_FILE, "%s is missing; " QKV_INDEX_FILE " says that it has weights", part->path);
    return status ? status : qkv_tensors_open(p->ctx, part->path, &part->tensors);
}

/* Whether the name is that of a file in the folder itself. */
static bool is_plain_name(const char *name) {
    return name && *name && !strchr(name, '/') && strcmp(name, "..") && strcmp(name, ".");
}

/* The index's total of bytes only warns if it is wrong: each of its tensors is checked. */
static enum qkv_status check_total(struct qkv_published *p, const char *path, const json_t *root) {
    const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
    char text[640];
    size_t bytes = 0;
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < qkv_tensors_count(p->files[i].tensors); k++)
            bytes += qkv_tensors_at(p->files[i].tensors, k)->bytes;
    if (!json_is_integer(total) || (json_integer_value(total) >= 0 && (uintmax_t)json_integer_value(total) == bytes))
        return QKV_OK;
    snprintf(text, sizeof text, "%.400s: total_size is %lld, but the tensors of its files have %zu bytes", path,
             (long long)json_integer_value(total), bytes);
    p->warning = qkv_copy_string(p->ctx, text);
    return p->warning ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status open_shards(struct qkv_published *p, const char *path) {
    json_t *root = NULL, *value;
    const char *name;
    enum qkv_status status = qkv_published_json(p->ctx, path, &root);
    if (status) return status;
    json_t *map = json_object_get(root, "weight_map");
    if (!json_object_size(map))
        status =
            qkv_fail(p->ctx, QKV_FORMAT, "%s: weight_map is not an object that names the file of each tensor", path);
    json_object_foreach(map, name, value) {
        const char *file = json_string_value(value);
        if (!status && !is_plain_name(file))
            status = qkv_fail(p->ctx, QKV_FORMAT, "%s: the file of %.*s does not name a file in the folder", path,
                              qkv_shown_length(name), name);
        if (!status) status = file_add(p, file);
    }
    json_object_foreach(map, name, value) {
        for (size_t i = 0; i < p->count && !status; i++)
            if (!strcmp(p->files[i].name, json_string_value(value)) && !qkv_tensors_find(p->files[i].tensors, name))
                status = qkv_fail(p->ctx, QKV_FORMAT, "%s has no tensor %.*s, but " QKV_INDEX_FILE " names it there",
                                  p->files[i].path, qkv_shown_length(name), name);
    }
    if (!status) status = check_total(p, path, root);
    json_decref(root);
    return status;
}

/* The model's class in transformers, which determines the head; where config.json names none, a class without a
 * head. */
static const char *class_name(const json_t *config) {
    const char *name = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    const size_t n = name ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") : 0;
    return n && n < 80 && !name[n] ? name : "AutoModel";
}

/* Fails if the folder's weights are pickle files only. */
static enum qkv_status refuse_pickle(struct qkv_published *p, const json_t *config) {
    static const char *const names[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    enum qkv_status status = QKV_OK;
    bool found = false;
    for (size_t i = 0; i < 2 && !status && !found; i++) {
        char *path = qkv_join_path(p->ctx, p->folder, names[i]);
        status = path ? qkv_file_find(p->ctx, path, &found) : QKV_MEMORY;
        if (found)
            status =
                qkv_fail(p->ctx, QKV_FILE,
                         "%s is a pickle, which can run any code when it is read; where it is trusted, transformers "
                         "makes model.safetensors of it: %s.from_pretrained(DIR).save_pretrained(NEW)",
                         path, class_name(config));
        free(path);
    }
    return status;
}

/* Opens the files that exist; that there are none is not an error here. */
static enum qkv_status open_files(struct qkv_published *p) {
    char *one = qkv_join_path(p->ctx, p->folder, QKV_WEIGHTS_FILE);
    char *index = qkv_join_path(p->ctx, p->folder, QKV_INDEX_FILE);
    bool found = false;
    enum qkv_status status = one && index ? qkv_file_find(p->ctx, one, &found) : QKV_MEMORY;
    if (found) status = file_add(p, QKV_WEIGHTS_FILE);
    if (!status && !found) {
        status = qkv_file_find(p->ctx, index, &found);
        if (found) status = open_shards(p, index);
    }
    free(one);
    free(index);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool has_tensor(const void *published, const char *name) {
    size_t file;
    return qkv_published_exactly(published, name, &file) != NULL;
}

void qkv_published_close(struct qkv_published *p) {
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) {
        qkv_tensors_close(p->files[i].tensors);
        free(p->files[i].name);
        free(p->files[i].path);
    }
    qkv_arena_free(&p->repacked);
    for (size_t i = 0; i < p->entry_count; i++) {
        free((char *)(uintptr_t)p->entries[i].array.name);
        free(p->entries[i].rows);
    }
    free(p->files);
    free(p->entries);
    free(p->folder);
    free(p->warning);
    qkv_family_config_free(&p->config);
    json_decref(p->keys);
    qkv_gguf_free(p->gguf);
    free(p);
}

static enum qkv_status open_folder(struct qkv_published *p, const char *config, const json_t *root, bool weights,
                                   struct qkv_spec *spec) {
    enum qkv_status status = open_files(p);
    if (!status && !p->count) status = refuse_pickle(p, root);
    if (!status && !p->count && weights)
        status = qkv_fail(p->ctx, QKV_FILE, "%s has neither model.safetensors nor " QKV_INDEX_FILE, p->folder);
    if (!status) status = qkv_family_read(p->ctx, config, root, has_tensor, p, &p->config, spec);
    return status;
}

/* Opens a folder whose config.json is that of a published model. */
static enum qkv_status open_config(struct qkv_published *p, bool weights, bool *mine, struct qkv_spec *spec) {
    json_t *root = NULL;
    char *config = qkv_join_path(p->ctx, p->folder, QKV_CONFIG_FILE);
    enum qkv_status status = config ? qkv_published_json(p->ctx, config, &root) : QKV_MEMORY;
    *mine = !status && qkv_family_is_config(root);
    if (*mine)
        status = open_folder(p, config, root, weights, spec);
    else if (status != QKV_MEMORY)
        qkv_forgive(p->ctx);
    json_decref(root);
    free(config);
    return *mine || status == QKV_MEMORY ? status : QKV_OK;
}

enum qkv_status qkv_published_open(struct qkv_context *ctx, const char *folder, bool weights,
                                   struct qkv_published **out, struct qkv_spec *spec) {
    bool mine = qkv_gguf_is(folder);
    struct qkv_published *p = qkv_allocate(ctx, 1, sizeof *p);
    *out = NULL;
    if (p) *p = (struct qkv_published){.ctx = ctx, .folder = qkv_copy_string(ctx, folder), .asker = QKV_CONFIG_FILE};
    enum qkv_status status = !p || !p->folder ? QKV_MEMORY
                             : mine           ? qkv_published_open_gguf(p, spec)
                                              : open_config(p, weights, &mine, spec);
    if (status || !mine || p->own)
        qkv_published_close(p);
    else
        *out = p;
    return status;
}
