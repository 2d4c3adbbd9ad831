/* chat_templates.h: chat templates in GGUF files. */
#ifndef QKV_CHAT_TEMPLATES_IO_H
#define QKV_CHAT_TEMPLATES_IO_H

#include "io/gguf.h"
#include "text/chat_sources.h"

#define QKV_GGUF_CHAT "tokenizer.chat_template" /* the key of the default template; others: with ".NAME" */

/* Adds the templates of a file's keys whose values are texts. Fails with QKV_MEMORY. */
enum qkv_status qkv_gguf_chat_sources(const struct qkv_gguf *g, struct qkv_chat_sources *list);

#endif
