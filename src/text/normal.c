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

/* ---- long runs of marks -------------------------------------------------------------------------------------------
 * utf8proc sorts the marks on one letter by combining class in quadratic time, but leaves sorted ones alone. Runs too
 * long for any script, which only an attacker writes, are therefore sorted here first: the result is the same. */

#define MARKS_MANY 64

struct mark {
    uint32_t code, place;
    int class;
};
struct marks {
    struct mark *at;
    size_t count, capacity;
};

/* The marks that a character is made of: itself, or two for those Tibetan vowels that are no mark by class but become
 * two; 0 for a character that starts anew. */
static int marks_of(uint32_t code, uint32_t out[2]) {
    out[0] = code == 0x0F73 || code == 0x0F75 || code == 0x0F81 ? 0x0F71 : code;
    out[1] = code == 0x0F73 ? 0x0F72 : code == 0x0F75 ? 0x0F74 : 0x0F80;
    if (out[0] != code) return 2;
    return utf8proc_get_property((utf8proc_int32_t)code)->combining_class != 0;
}

static bool has_many_marks(const char *text, size_t size) {
    size_t run = 0;
    for (size_t at = 0; at < size && run < MARKS_MANY;) {
        uint32_t code = 0, parts[2];
        at += (size_t)qkv_utf8_scan(text + at, size - at, &code);
        run = marks_of(code, parts) ? run + 1 : 0;
    }
    return run >= MARKS_MANY;
}

static int by_class(const void *left, const void *right) {
    const struct mark *a = left, *b = right;
    if (a->class != b->class) return a->class < b->class ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static enum qkv_status add_mark(struct qkv_context *ctx, struct marks *marks, uint32_t code) {
    if (marks->count >= UINT32_MAX)
        return qkv_fail(ctx, QKV_MEMORY, "NFC: a letter has more than %u marks", UINT32_MAX);
    struct mark *at = qkv_list_room(ctx, marks->at, &marks->capacity, marks->count, 1, sizeof *at);
    if (!at) return QKV_MEMORY;
    marks->at = at;
    int class = utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
    marks->at[marks->count] = (struct mark){code, (uint32_t)marks->count, class};
    marks->count++;
    return QKV_OK;
}

static enum qkv_status write_marks(struct qkv_context *ctx, struct marks *marks, struct qkv_buffer *out) {
    enum qkv_status status = QKV_OK;
    if (marks->count > 1) qsort(marks->at, marks->count, sizeof *marks->at, by_class);
    for (size_t i = 0; i < marks->count && !status; i++) {
        char bytes[4];
        status = qkv_buffer_append(ctx, out, bytes, qkv_utf8_write(marks->at[i].code, bytes));
    }
    marks->count = 0;
    return status;
}

static enum qkv_status sort_marks(struct qkv_context *ctx, const char *text, size_t size, struct qkv_buffer *out) {
    struct marks marks = {0};
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < size && !status;) {
        uint32_t code = 0, parts[2];
        size_t n = (size_t)qkv_utf8_scan(text + at, size - at, &code);
        int count = marks_of(code, parts);
        if (count == 0) {
            status = write_marks(ctx, &marks, out);
            if (!status) status = qkv_buffer_append(ctx, out, text + at, n);
        }
        for (int i = 0; i < count && !status; i++) status = add_mark(ctx, &marks, parts[i]);
        at += n;
    }
    if (!status) status = write_marks(ctx, &marks, out);
    free(marks.at);
    return status;
}

/* ---- stretches --------------------------------------------------------------------------------------------------- */

static enum qkv_status normal_compose(struct qkv_context *ctx, const char *text, size_t size, struct qkv_buffer *out) {
    if (size > PTRDIFF_MAX / 8) return qkv_fail(ctx, QKV_MEMORY, "NFC: %zu bytes without an ASCII character", size);
    utf8proc_uint8_t *normal = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &normal,
                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n < 0) return qkv_fail(ctx, QKV_MEMORY, "NFC: %s", utf8proc_errmsg(n));
    enum qkv_status status = qkv_buffer_append(ctx, out, normal, (size_t)n);
    free(normal);
    return status;
}

static enum qkv_status normalize_valid(struct qkv_context *ctx, const char *text, size_t size, struct qkv_buffer *out) {
    if (!may_change(text, size)) return qkv_buffer_append(ctx, out, text, size);
    if (!has_many_marks(text, size)) return normal_compose(ctx, text, size, out);
    struct qkv_buffer sorted = {0};
    enum qkv_status status = sort_marks(ctx, text, size, &sorted);
    if (!status) status = normal_compose(ctx, sorted.data, sorted.size, out);
    qkv_buffer_free(&sorted);
    return status;
}

static enum qkv_status add_step(struct qkv_context *ctx, struct qkv_steps *steps, struct qkv_step step) {
    struct qkv_step *at = qkv_list_room(ctx, steps->at, &steps->capacity, steps->count, 1, sizeof *at);
    if (!at) return QKV_MEMORY;
    steps->at = at;
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
