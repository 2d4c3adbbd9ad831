/* The chat templates among the keys of a GGUF file. */
#include <string.h>

#include "io/chat_templates.h"

enum qkv_status qkv_gguf_chat_sources(const struct qkv_gguf *g, struct qkv_chat_sources *list) {
    const size_t n = strlen(QKV_GGUF_CHAT);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < g->count && !status; i++) {
        const struct qkv_gguf_value *value = &g->values[i];
        struct qkv_buffer place = {0};
        const char *text;
        size_t size, at = 0;
        if (strncmp(value->key, QKV_GGUF_CHAT, n) != 0 || (value->key[n] && value->key[n] != '.')) continue;
        if (value->array || !qkv_gguf_text(g, value, &at, &text, &size)) continue; /* another program's */
        status = qkv_buffer_print(g->ctx, &place, "%s: %s", g->path, value->key);
        if (!status)
            status = qkv_chat_sources_add(g->ctx, list, value->key[n] ? value->key + n + 1 : "default", place.data,
                                          text, size);
        qkv_buffer_free(&place);
    }
    return status;
}
