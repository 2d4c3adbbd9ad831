/* Templates as one JSON text, with which another process makes the same templates. */
#include "chat/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"

enum qkv_status qkv_chat_template_pack(struct qkv_context *ctx, const struct qkv_chat_template *t,
                                       struct qkv_buffer *out) {
    json_t *list = json_array(), *root = json_pack("{s:s, s:O}", "name", t->name, "tokens", t->tokens);
    bool made = list && root;
    for (size_t i = 0; i < t->count && made; i++) {
        const struct chat_template *item = &t->items[i];
        const char *file = item->program ? item->program->name : t->name;
        json_t *source = json_stringn(item->source, item->size);
        made = source && !json_array_append_new(
                             list, json_pack("{s:s, s:s, s:o}", "name", item->name, "file", file, "source", source));
    }
    made = made && !json_object_set(root, "templates", list);
    char *text = made ? json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    enum qkv_status status = text ? qkv_buffer_append(ctx, out, text, strlen(text))
                                  : qkv_fail(ctx, QKV_FORMAT, "%s: a chat template is not UTF-8", t->name);
    free(text);
    json_decref(list);
    json_decref(root);
    return status;
}

enum qkv_status qkv_chat_template_unpack(struct qkv_context *ctx, const char *text, size_t size,
                                         struct qkv_chat_template **out) {
    const struct qkv_json_text json = {
        .name = "packed chat templates", .data = text, .size = size, .max_size = SIZE_MAX};
    json_t *root;
    *out = NULL;
    enum qkv_status status = qkv_json_load(ctx, &json, &root);
    if (status) return status;
    const json_t *list = json_object_get(root, "templates");
    const char *name = json_string_value(json_object_get(root, "name"));
    status = name ? qkv_chat_template_create(ctx, name, out) : qkv_fail(ctx, QKV_FORMAT, "%s have no name", json.name);
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *item = json_array_get(list, i), *source = json_object_get(item, "source");
        const char *own = json_string_value(json_object_get(item, "name"));
        const char *file = json_string_value(json_object_get(item, "file"));
        status =
            own && file && json_is_string(source)
                ? qkv_chat_template_add(ctx, *out, own, file, json_string_value(source), json_string_length(source))
                : qkv_fail(ctx, QKV_FORMAT, "%s: item %zu has no name, file or source", json.name, i + 1);
    }
    if (!status && json_object_update((*out)->tokens, json_object_get(root, "tokens")))
        status = qkv_fail_memory(ctx, size, "special tokens");
    json_decref(root);
    if (!status) return QKV_OK;
    qkv_chat_template_free(*out);
    *out = NULL;
    return status;
}

uint64_t qkv_chat_template_hash(const struct qkv_chat_template *t) {
    uint64_t hash = QKV_HASH_START;
    char *tokens = json_dumps(t->tokens, JSON_COMPACT | JSON_SORT_KEYS);
    if (tokens) hash = qkv_hash(hash, tokens, strlen(tokens) + 1);
    free(tokens);
    for (size_t i = 0; i < t->count; i++) {
        hash = qkv_hash(hash, t->items[i].name, strlen(t->items[i].name) + 1);
        hash = qkv_hash(hash, t->items[i].source, t->items[i].size + 1);
    }
    return hash;
}
