/* Sentences about a file that was written, for its user. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/gguf_export.h"

enum qkv_status qkv_gguf_note(struct qkv_context *ctx, struct qkv_gguf_notes *notes, const char *format, ...) {
    char text[1024];
    va_list list;
    char **texts = qkv_list_room(ctx, notes->texts, &notes->capacity, notes->count, 1, sizeof *texts);
    if (!texts) return QKV_MEMORY;
    notes->texts = texts;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    texts[notes->count] = qkv_copy_string(ctx, text);
    if (!texts[notes->count]) return QKV_MEMORY;
    notes->count++;
    return QKV_OK;
}

enum { NAMES_SHOWN = 3 };

enum qkv_status qkv_gguf_names_add(struct qkv_context *ctx, struct qkv_gguf_names *names, const char *format, ...) {
    char text[512];
    va_list list;
    if (names->count++ >= NAMES_SHOWN) return QKV_OK;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return qkv_buffer_print(ctx, &names->text, "%s%s", names->count > 1 ? ", " : "", text);
}

enum qkv_status qkv_gguf_names_end(struct qkv_context *ctx, struct qkv_gguf_names *names) {
    if (names->count <= NAMES_SHOWN) return QKV_OK;
    return qkv_buffer_print(ctx, &names->text, ", and %zu more", names->count - NAMES_SHOWN);
}

const char *qkv_gguf_note_at(const struct qkv_gguf_notes *notes, size_t i) {
    if (!notes) return NULL;
    return i < notes->count ? notes->texts[i] : NULL;
}

const char *qkv_gguf_notes_architecture(const struct qkv_gguf_notes *notes) {
    return notes ? notes->architecture : NULL;
}

const char *qkv_gguf_notes_format(const struct qkv_gguf_notes *notes) {
    return notes ? notes->format : NULL;
}

void qkv_gguf_notes_free(struct qkv_gguf_notes *notes) {
    if (!notes) return;
    for (size_t i = 0; i < notes->count; i++) free(notes->texts[i]);
    free(notes->texts);
    free(notes);
}
