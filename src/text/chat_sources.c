/* The chat templates in the folder of a model, as transformers saves and finds them. */
#include "text/chat_sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"

#define TEMPLATE_FILE   "chat_template.jinja"
#define TEMPLATE_JSON   "chat_template.json"
#define TEMPLATE_FOLDER "additional_chat_templates"
#define TEMPLATE_KEY    "chat_template"
#define TEMPLATE_END    ".jinja"

enum { TEMPLATE_MAX = 1 << 20, JSON_MAX = 1 << 24 };

enum qkv_status qkv_chat_sources_add(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *name,
                                     const char *place, const char *text, size_t size) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].name, name)) return QKV_OK;
    struct qkv_chat_source *items = qkv_list_room(ctx, list->items, &list->capacity, list->count, 1, sizeof *items);
    if (!items) return QKV_MEMORY;
    list->items = items;
    struct qkv_chat_source *item = &items[list->count++];
    *item = (struct qkv_chat_source){.name = qkv_copy_string(ctx, name),
                                     .place = qkv_copy_string(ctx, place),
                                     .text = qkv_copy_bytes(ctx, text, size),
                                     .size = size};
    return item->name && item->place && item->text ? QKV_OK : QKV_MEMORY;
}

void qkv_chat_sources_free(struct qkv_chat_sources *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].name);
        free(list->items[i].place);
        free(list->items[i].text);
    }
    free(list->items);
    *list = (struct qkv_chat_sources){0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum qkv_status sources_file(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *name,
                                    const char *path) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    if (map.size > TEMPLATE_MAX)
        status =
            qkv_fail(ctx, QKV_FORMAT, "%s has %zu bytes; a chat template has at most %d", path, map.size, TEMPLATE_MAX);
    if (!status) status = qkv_chat_sources_add(ctx, list, name, path, map.size ? (const char *)map.data : "", map.size);
    qkv_unmap_file(&map);
    return status;
}

/* Reads a JSON file of the folder; *root is NULL if it is missing. */
static enum qkv_status sources_json(struct qkv_context *ctx, const char *folder, const char *file, json_t **root) {
    char *path = qkv_join_path(ctx, folder, file);
    struct qkv_map map;
    *root = NULL;
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    if (path && qkv_file_exists(path)) {
        status = qkv_read_file(ctx, path, &map);
        if (!status) {
            const struct qkv_json_text text = {.name = path, .data = map.data, .size = map.size, .max_size = JSON_MAX};
            status = qkv_json_load(ctx, &text, root);
            qkv_unmap_file(&map);
        }
    }
    free(path);
    return status;
}

/* The value of the key: a text, or a list of {"name", "template"}. */
static enum qkv_status sources_value(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *place,
                                     const json_t *value) {
    enum qkv_status status = QKV_OK;
    if (json_is_string(value))
        return qkv_chat_sources_add(ctx, list, "default", place, json_string_value(value), json_string_length(value));
    for (size_t i = 0; i < json_array_size(value) && !status; i++) {
        const json_t *item = json_array_get(value, i), *text = json_object_get(item, "template");
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name || !json_is_string(text))
            return qkv_fail(ctx, QKV_FORMAT, "%s: item %zu has no texts \"name\" and \"template\"", place, i + 1);
        status = qkv_chat_sources_add(ctx, list, name, place, json_string_value(text), json_string_length(text));
    }
    if (value && !json_is_array(value) && !json_is_null(value))
        return qkv_fail(ctx, QKV_FORMAT, "%s is neither a text nor a list of templates", place);
    return status;
}

static enum qkv_status sources_key(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *folder,
                                   const char *file) {
    struct qkv_buffer place = {0};
    json_t *root;
    enum qkv_status status = sources_json(ctx, folder, file, &root);
    if (!status && json_object_get(root, TEMPLATE_KEY))
        status = qkv_buffer_print(ctx, &place, "%s%s%s: " TEMPLATE_KEY, folder, qkv_path_slash(folder), file);
    if (!status && place.data) status = sources_value(ctx, list, place.data, json_object_get(root, TEMPLATE_KEY));
    qkv_buffer_free(&place);
    json_decref(root);
    return status;
}

static enum qkv_status sources_folder(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *folder) {
    char *path = qkv_join_path(ctx, folder, TEMPLATE_FOLDER);
    struct qkv_texts files = {0};
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    if (path && qkv_file_exists(path)) {
        status = qkv_list_files(ctx, &(const char *){path}, 1, &files, NULL);
        if (status == QKV_FILE) { /* the folder is empty */
            qkv_forgive(ctx);
            status = QKV_OK;
        }
    }
    for (size_t i = 0; i < files.count && !status; i++) {
        const char *slash = strrchr(files.items[i], '/'), *name = slash ? slash + 1 : files.items[i];
        const size_t n = strlen(name), end = strlen(TEMPLATE_END);
        if (n <= end || strcmp(name + n - end, TEMPLATE_END) != 0) continue;
        char *short_name = qkv_copy_bytes(ctx, name, n - end);
        status = short_name ? sources_file(ctx, list, short_name, files.items[i]) : QKV_MEMORY;
        free(short_name);
    }
    qkv_texts_free(&files);
    free(path);
    return status;
}

enum qkv_status qkv_chat_sources_read(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *folder) {
    char *path = qkv_join_path(ctx, folder, TEMPLATE_FILE);
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    const bool file = path && qkv_file_exists(path);
    if (file) status = sources_file(ctx, list, "default", path);
    free(path);
    if (!status && !file) status = sources_key(ctx, list, folder, TEMPLATE_JSON);
    if (!status && !file && !list->count) status = sources_key(ctx, list, folder, QKV_ROLES_FILE);
    return status ? status : sources_folder(ctx, list, folder);
}

enum qkv_status qkv_chat_tokens_read(struct qkv_context *ctx, const char *folder, json_t **tokens) {
    static const char *const files[] = {"special_tokens_map.json", QKV_ROLES_FILE};
    *tokens = json_object();
    enum qkv_status status = *tokens ? QKV_OK : qkv_fail_memory(ctx, 0, "special tokens");
    for (size_t i = 0; i < sizeof files / sizeof *files && !status; i++) {
        json_t *root, *value;
        const char *key;
        status = sources_json(ctx, folder, files[i], &root);
        json_object_foreach(root, key, value) {
            json_t *content = json_object_get(value, "content"), *text = content ? content : value;
            const size_t n = strlen(key);
            if (n < 6 || strcmp(key + n - 6, "_token") != 0 || !json_is_string(text)) continue;
            if (json_object_set(*tokens, key, text)) status = qkv_fail_memory(ctx, 0, "special tokens");
        }
        json_decref(root);
    }
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

json_t *qkv_chat_sources_json(const struct qkv_chat_sources *list) {
    json_t *all = json_array();
    bool made = all;
    for (size_t i = 0; i < list->count && made; i++) {
        const struct qkv_chat_source *source = &list->items[i];
        json_t *text = json_stringn(source->text, source->size);
        if (text && list->count == 1 && !strcmp(source->name, "default")) {
            json_decref(all);
            return text;
        }
        made = text && !json_array_append_new(all, json_pack("{s:s, s:o}", "name", source->name, "template", text));
    }
    if (made) return all;
    json_decref(all);
    return NULL;
}
