/* texts: a growing list that owns its texts, and patterns of texts. */
#include <stdlib.h>

#include "base/base.h"

/* On a mismatch the latest star matches one more character. Earlier stars need not be tried again. */
bool qkv_text_matches(const char *text, const char *pattern) {
    const char *star = NULL, *taken = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            taken = text;
        } else if (*pattern == '?' || (*pattern && *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

enum qkv_status qkv_texts_print(struct qkv_context *ctx, struct qkv_texts *list, const char *format,
                                va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0) return qkv_fail(ctx, QKV_ARGUMENT, "a text cannot be written: it is too long, or no text");
    char **grown = qkv_list_room(ctx, list->items, &list->capacity, list->count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    list->items = grown;
    grown[list->count] = qkv_allocate(ctx, (size_t)n + 1, 1);
    if (!grown[list->count]) return QKV_MEMORY;
    vsnprintf(grown[list->count++], (size_t)n + 1, format, arguments);
    return QKV_OK;
}

enum qkv_status qkv_texts_add(struct qkv_context *ctx, struct qkv_texts *list, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    enum qkv_status status = qkv_texts_print(ctx, list, format, arguments);
    va_end(arguments);
    return status;
}

void qkv_texts_free(struct qkv_texts *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
    *list = (struct qkv_texts){0};
}
