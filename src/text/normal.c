/* Normalization form C (Unicode Standard Annex 15) of a text that need not be UTF-8, by utf8proc.
 *
 * The text is taken in stretches: some ASCII, then what is not ASCII. No character composes with an ASCII character
 * after it, so each stretch is normalized alone, and before every ASCII character source and result are in step. */
#include "text/text.h"

#include <stdlib.h>
#include <utf8proc.h>

/* Characters below U+0300 are their own NFC and none of them composes with its like: most text is done at a glance. */
static bool may_change(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] >= 0xCC) return true;
    }
    return false;
}

static enum qkv_status normalize_valid(struct qkv_context *ctx, const char *text, size_t size, struct qkv_buffer *out) {
    if (!may_change(text, size)) return qkv_buffer_append(ctx, out, text, size);
    if (size > PTRDIFF_MAX / 8) return qkv_fail(ctx, QKV_MEMORY, "NFC: %zu bytes without an ASCII character", size);
    utf8proc_uint8_t *normal = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &normal,
                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n < 0) return qkv_fail(ctx, QKV_MEMORY, "NFC: %s", utf8proc_errmsg(n));
    enum qkv_status status = qkv_buffer_append(ctx, out, normal, (size_t)n);
    free(normal);
    return status;
}

static enum qkv_status add_step(struct qkv_context *ctx, struct qkv_steps *steps, struct qkv_step step) {
    if (steps->count == steps->capacity) {
        size_t capacity = steps->capacity ? steps->capacity * 2 : 16;
        struct qkv_step *at = qkv_reallocate(ctx, steps->at, capacity, sizeof *at);
        if (!at) return QKV_MEMORY;
        steps->at = at;
        steps->capacity = capacity;
    }
    steps->at[steps->count++] = step;
    return QKV_OK;
}

/* One stretch: its characters outside ASCII together with the ASCII character before them, which may take an accent. */
static enum qkv_status normalize_stretch(struct qkv_context *ctx, const char *text, size_t size, size_t ascii,
                                         struct qkv_buffer *out) {
    size_t at = ascii > 0 ? ascii - 1 : 0;
    enum qkv_status status = qkv_buffer_append(ctx, out, text, at);
    while (!status && at < size) {
        size_t valid = qkv_utf8_valid(text + at, size - at);
        if (valid > 0) {
            status = normalize_valid(ctx, text + at, valid, out);
        } else { /* a byte that is no character */
            status = qkv_buffer_append(ctx, out, text + at, valid = 1);
        }
        at += valid;
    }
    return status;
}

enum qkv_status qkv_normalize(struct qkv_context *ctx, const char *text, size_t size, struct qkv_buffer *out,
                              struct qkv_steps *steps) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; !status && at < size;) {
        size_t end = at;
        while (end < size && (unsigned char)text[end] < 0x80) end++;
        size_t ascii = end - at;
        while (end < size && (unsigned char)text[end] >= 0x80) end++;
        if (steps) status = add_step(ctx, steps, (struct qkv_step){.source = at, .normal = out->size, .ascii = ascii});
        if (!status) status = normalize_stretch(ctx, text + at, end - at, ascii, out);
        at = end;
    }
    return status;
}
