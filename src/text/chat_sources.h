/* chat_sources.h: the sources of a model's chat templates, which its tokenizer has, as in transformers. */
#ifndef QKV_CHAT_SOURCES_H
#define QKV_CHAT_SOURCES_H

#include <jansson.h>

#include "base/base.h"

struct qkv_chat_source {
    char *name;  /* "default", "tool_use" */
    char *place; /* the file, or file and key, for sentences */
    char *text;  /* zero-terminated */
    size_t size;
};
struct qkv_chat_sources { /* {0}: none */
    struct qkv_chat_source *items;
    size_t count, capacity;
};
/* Adds a template, unless there is one of that name. */
enum qkv_status qkv_chat_sources_add(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *name,
                                     const char *place, const char *text, size_t size);
/* Adds the templates of a folder: chat_template.jinja, else chat_template.json, else the key chat_template of
 * tokenizer_config.json; and additional_chat_templates/NAME.jinja. Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
enum qkv_status qkv_chat_sources_read(struct qkv_context *ctx, struct qkv_chat_sources *list, const char *folder);
/* The object with a folder's special tokens: their texts by their names, "bos_token". Fails as above. */
enum qkv_status qkv_chat_tokens_read(struct qkv_context *ctx, const char *folder, json_t **tokens);
/* The value of the key chat_template: a text, or a list of {"name", "template"}; NULL: no memory, or a template is not
 * UTF-8. */
json_t *qkv_chat_sources_json(const struct qkv_chat_sources *list);
void qkv_chat_sources_free(struct qkv_chat_sources *list);

#endif
