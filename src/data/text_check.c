/* What a text looks like besides text: JSON in lines, a byte order mark, Windows line ends, bytes that are no UTF-8.
 * None of it keeps it from being learnt, so it becomes notes: one for each kind, which names the first file and
 * counts the others. */
#include <string.h>

#include "base/json_load.h"
#include "text/text.h"
#include "data/data.h"

enum { JSON_LINES = 5 };

/* ---- lines of JSON ---------------------------------------------------------------------------------------------- */

/* The key of the longest text of an object, "" where it has none or one that a shell would not take as it is. */
static void check_key(json_t *object, char *key, size_t size) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    const char *name;
    json_t *value;
    size_t longest = 0;
    key[0] = 0;
    json_object_foreach(object, name, value) {
        size_t n = json_string_length(value);
        if (n <= longest || strlen(name) >= size || strspn(name, plain) != strlen(name)) continue;
        longest = n;
        memcpy(key, name, strlen(name) + 1);
    }
}

static size_t check_blanks(const char *text, size_t size) {
    size_t n = 0;
    while (n < size && memchr(" \t\r", text[n], 3)) n++;
    return n;
}

/* How many of the first lines that are whole are JSON objects; 0 where one of them is something else. */
static size_t check_json(const char *text, size_t size, bool end, char *key, size_t key_size) {
    size_t count = 0;
    while (size > 0 && count < JSON_LINES) {
        const char *stop = memchr(text, '\n', size);
        size_t n = stop ? (size_t)(stop - text) : size, blanks = check_blanks(text, n);
        if (!stop && !end) break;
        if (blanks < n) {
            json_t *line = NULL;
            const struct qkv_json_text object_text = {.name = "a line", .data = text, .size = n, .max_size = n};
            bool object = text[blanks] == '{' && !qkv_json_load(NULL, &object_text, &line);
            if (object && count == 0) check_key(line, key, key_size);
            json_decref(line);
            if (!object) return 0;
            count++;
        }
        text += stop ? n + 1 : n;
        size -= stop ? n + 1 : n;
    }
    return count;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

/* Whether Windows-1252, which is Latin-1 with signs where that has controls, gives the byte a meaning. */
static bool check_known(unsigned char byte) {
    return byte != 0x81 && byte != 0x8d && byte != 0x8f && byte != 0x90 && byte != 0x9d;
}

/* Pieces end between characters, so no character is cut in two. */
static void check_utf8(struct qkv_text_check *c, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) c->high += (unsigned char)text[i] >= 0x80;
    for (size_t at = qkv_utf8_valid(text, size); at < size; at += qkv_utf8_valid(text + at, size - at)) {
        unsigned char byte = (unsigned char)text[at];
        if (c->invalid++ == 0) c->first_invalid = c->bytes + at;
        c->controls += byte < 0xa0;
        c->unknown += !check_known(byte);
        at++;
    }
}

static void check_lines(struct qkv_text_check *c, const char *text, size_t size) {
    const char *at = text, *stop;
    for (; (stop = memchr(at, '\n', size - (size_t)(at - text))); at = stop + 1) {
        c->lines++;
        c->crlf += stop > text ? stop[-1] == '\r' : c->after_return;
    }
    if (size) c->after_return = text[size - 1] == '\r';
}

void qkv_text_check_piece(struct qkv_text_check *c, const char *text, size_t size, bool end, bool binary) {
    if (c->bytes == 0) {
        c->mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
        c->json_lines = check_json(text + 3 * c->mark, size - 3 * c->mark, end, c->json_key, sizeof c->json_key);
    }
    if (!binary) check_utf8(c, text, size);
    check_lines(c, text, size);
    c->bytes += size;
}

/* ---- notes ------------------------------------------------------------------------------------------------------ */

void qkv_text_check_end(struct qkv_text_findings *findings, const struct qkv_text_check *check, const char *path) {
    const bool found[QKV_TEXT_FINDINGS] = {check->json_lines > 0, check->mark, check->crlf > 0, check->invalid > 0};
    for (size_t k = 0; k < QKV_TEXT_FINDINGS; k++) {
        struct qkv_text_finding *f = &findings->kind[k];
        if (found[k] && f->path) f->others++;
        if (found[k] && !f->path) *f = (struct qkv_text_finding){.path = path, .check = *check};
    }
}

static enum qkv_status note_json(struct qkv_context *ctx, struct qkv_texts *notes, const char *where,
                                 const struct qkv_text_finding *f) {
    const char *key = f->check.json_key[0] ? f->check.json_key : "KEY";
    return qkv_texts_add(
        ctx, notes,
        "%s looks like JSONL: its first %zu line%s JSON objects, and all of it is learnt as it "
        "stands, keys and braces included; to learn the texts alone, name it with .jsonl at the end, or take "
        "them out first: jq -r .%s",
        where, f->check.json_lines, f->check.json_lines == 1 ? " is" : "s are", key);
}

static enum qkv_status note_mark(struct qkv_context *ctx, struct qkv_texts *notes, const char *where,
                                 const struct qkv_text_finding *f) {
    (void)f;
    return qkv_texts_add(ctx, notes,
                         "%s begins with a byte order mark (BOM), which is learnt as part of the text; to remove it: "
                         "sed -i '1s/^\\xEF\\xBB\\xBF//'",
                         where);
}

static enum qkv_status note_crlf(struct qkv_context *ctx, struct qkv_texts *notes, const char *where,
                                 const struct qkv_text_finding *f) {
    return qkv_texts_add(ctx, notes,
                         "%s has Windows line ends (CR LF: %llu of %llu lines), which the model learns to write; to "
                         "make them plain: sed -i 's/\\r$//'",
                         where, (unsigned long long)f->check.crlf, (unsigned long long)f->check.lines);
}

static enum qkv_status note_encoding(struct qkv_context *ctx, struct qkv_texts *notes, const char *where,
                                     const struct qkv_text_finding *f) {
    const struct qkv_text_check *c = &f->check;
    const char *name = c->controls ? "WINDOWS-1252" : "ISO-8859-1";
    char way_out[160];
    if (c->unknown || c->high - c->invalid > c->invalid)
        snprintf(way_out, sizeof way_out, "it is damaged or mixes encodings; they are learnt as bare bytes");
    else
        snprintf(way_out, sizeof way_out, "it reads as %s; to convert it: iconv -f %s -t UTF-8",
                 c->controls ? "Windows-1252" : "Latin-1", name);
    return qkv_texts_add(ctx, notes, "%s is not UTF-8: %llu byte%s part of no character, the first at offset %llu; %s",
                         where, (unsigned long long)c->invalid, c->invalid == 1 ? " is" : "s are",
                         (unsigned long long)c->first_invalid, way_out);
}

enum qkv_status qkv_text_findings_note(struct qkv_context *ctx, const struct qkv_text_findings *findings,
                                       struct qkv_texts *notes) {
    static enum qkv_status (*const note[QKV_TEXT_FINDINGS])(struct qkv_context *, struct qkv_texts *, const char *,
                                                            const struct qkv_text_finding *) = {
        note_json, note_mark, note_crlf, note_encoding};
    enum qkv_status status = QKV_OK;
    for (size_t k = 0; k < QKV_TEXT_FINDINGS && !status; k++) {
        const struct qkv_text_finding *f = &findings->kind[k];
        struct qkv_buffer where = {0};
        if (!f->path) continue;
        status = qkv_buffer_print(ctx, &where, "%s", f->path);
        if (!status && f->others)
            status = qkv_buffer_print(ctx, &where, " (and %zu other file%s)", f->others, f->others == 1 ? "" : "s");
        if (!status) status = note[k](ctx, notes, where.data, f);
        qkv_buffer_free(&where);
    }
    return status;
}
