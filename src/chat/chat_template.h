/* chat_template.h: the templates of a model. */
#ifndef QKV_CHAT_TEMPLATES_H
#define QKV_CHAT_TEMPLATES_H

#include "chat/chat_nodes.h"

struct chat_template {
    char *name, *source;
    size_t size;
    struct chat_program *program; /* NULL: the template has a fault */
    char *problem;                /* its sentence, for who uses the template */
};
struct qkv_chat_template {
    char *name; /* of the model, for sentences */
    struct chat_template *items;
    size_t count, capacity;
    json_t *tokens; /* special tokens: texts by their names */
};
/* Templates without any yet. */
enum qkv_status qkv_chat_template_create(struct qkv_context *ctx, const char *name, struct qkv_chat_template **out);
/* Adds a template. `file` is for sentences. A fault of the template is no failure: who uses it gets the sentence. A
 * name that exists already is left out. */
enum qkv_status qkv_chat_template_add(struct qkv_context *ctx, struct qkv_chat_template *t, const char *name,
                                      const char *file, const char *source, size_t size);
/* Appends all templates and special tokens as JSON, and makes the same ones of such a text: for another process
 * (chat_pack.c). pack: QKV_MEMORY, QKV_FORMAT. unpack: QKV_MEMORY, QKV_FORMAT; *out is the caller's. */
enum qkv_status qkv_chat_template_pack(struct qkv_context *ctx, const struct qkv_chat_template *t,
                                       struct qkv_buffer *out);
enum qkv_status qkv_chat_template_unpack(struct qkv_context *ctx, const char *text, size_t size,
                                         struct qkv_chat_template **out);
/* The hash of all sources and special tokens, wherever they were read. */
uint64_t qkv_chat_template_hash(const struct qkv_chat_template *t);

#endif
