/* The vocabulary and the merges of a tokenizer.json have hundreds of thousands of texts: as JSON values, each would be
 * a few blocks of memory, which takes longer than everything else that a tokenizer needs. So files in the usual form
 * are scanned: these two parts go into tables, and qkv_json_load gets the file without them. Any other file, valid or
 * not, is read by qkv_json_load as a whole, which has the messages. */
#include "text/vocab_json.h"

#include <stdlib.h>
#include <string.h>

struct vocab_scan {
    struct qkv_context *ctx;
    struct qkv_vocab_json *out;
    const char *at, *end;
    char *room; /* where the next text with escapes is written: in out->unescaped, or in a key's buffer */
    enum qkv_status status;
};
struct vocab_part { /* bytes of the file */
    const char *begin, *end;
};
struct vocab_text {
    const char *text;
    size_t size;
};

/* ---- plain JSON -------------------------------------------------------------------------------------------------- */

static char scan_next(struct vocab_scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) s->at++;
    return s->at < s->end ? *s->at : 0;
}

static bool scan_take(struct vocab_scan *s, char c) {
    if (scan_next(s) != c) return false;
    s->at++;
    return true;
}

static int scan_hex(const char *s) {
    int code = 0;
    for (int i = 0; i < 4; i++) {
        const char c = s[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* \uXXXX, or two of them for one character. */
static bool scan_unicode(struct vocab_scan *s) {
    int code = s->end - s->at >= 5 ? scan_hex(s->at + 1) : -1;
    if (code <= 0) return false;
    s->at += 5;
    if (code >= 0xD800 && code < 0xE000) {
        const int low = s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' ? scan_hex(s->at + 2) : -1;
        if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return false;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        s->at += 6;
    }
    s->room += qkv_utf8_write((uint32_t)code, s->room);
    return true;
}

static bool scan_escape(struct vocab_scan *s) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    s->at++;
    if (s->at == s->end) return false;
    if (*s->at == 'u') return scan_unicode(s);
    const char *which = *s->at ? strchr(from, *s->at) : NULL;
    if (!which) return false;
    *s->room++ = to[which - from];
    s->at++;
    return true;
}

/* Reads a text. One with escapes is written to `room`; it is never longer than in the file. */
static bool scan_text(struct vocab_scan *s, struct vocab_text *text) {
    if (!scan_take(s, '"')) return false;
    const char *begin = s->at, *plain = begin;
    char *written = s->room;
    while (s->at < s->end && *s->at != '"') {
        if ((unsigned char)*s->at < 0x20) return false;
        if (*s->at != '\\') {
            s->at++;
            continue;
        }
        if (!s->room) return false;
        memcpy(s->room, plain, (size_t)(s->at - plain));
        s->room += s->at - plain;
        if (!scan_escape(s)) return false;
        plain = s->at;
    }
    if (s->at == s->end) return false;
    *text = (struct vocab_text){begin, (size_t)(s->at - begin)};
    if (plain != begin) {
        memcpy(s->room, plain, (size_t)(s->at - plain));
        s->room += s->at - plain;
        *text = (struct vocab_text){written, (size_t)(s->room - written)};
    }
    s->at++;
    return text->size <= UINT32_MAX;
}

static bool scan_id(struct vocab_scan *s, int64_t *id) {
    const bool zero = scan_next(s) == '0';
    const char *begin = s->at;
    for (*id = 0; s->at < s->end && *s->at >= '0' && *s->at <= '9' && s->at - begin < 18; s->at++)
        *id = *id * 10 + (*s->at - '0');
    const ptrdiff_t digits = s->at - begin;
    return (zero ? digits == 1 : digits > 0) && (scan_next(s) == ',' || scan_next(s) == '}');
}

/* Skips any value; what is inside is checked elsewhere. */
static bool scan_pass(struct vocab_scan *s) {
    size_t depth = 0;
    struct vocab_text text;
    char *room = s->room;
    do {
        const char c = scan_next(s);
        if (c == '"') {
            s->room = room;
            if (!scan_text(s, &text)) return false;
            continue;
        }
        if (!c) return false;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') {
            if (!depth) return false;
            depth--;
        }
        if (depth || c == '}' || c == ']') {
            s->at++;
            continue;
        }
        while (s->at < s->end && !memchr(",}] \n\r\t", *s->at, 8)) s->at++; /* a number, true, false or null */
    } while (depth);
    s->room = room;
    return true;
}

/* ---- finding model.vocab and model.merges ------------------------------------------------------------------------ */

/* Finds the values of some members of an object. Returns false if one occurs twice. */
static bool scan_members(struct vocab_scan *s, const char *const *names, struct vocab_part *parts, size_t count) {
    struct vocab_text key;
    if (!scan_take(s, '{')) return false;
    do {
        const char *room = s->room;
        if (!scan_text(s, &key) || room != s->room || !scan_take(s, ':')) return false;
        scan_next(s);
        const char *begin = s->at;
        if (!scan_pass(s)) return false;
        for (size_t i = 0; i < count; i++) {
            if (strlen(names[i]) != key.size || memcmp(names[i], key.text, key.size) != 0) continue;
            if (parts[i].begin) return false;
            parts[i] = (struct vocab_part){begin, s->at};
        }
    } while (scan_take(s, ','));
    return scan_take(s, '}');
}

static bool scan_find(struct vocab_scan *s, struct vocab_part parts[2]) {
    static const char *const model[] = {"model"}, *const names[] = {"vocab", "merges"};
    struct vocab_part part = {0};
    if (!scan_members(s, model, &part, 1) || !part.begin) return false;
    s->at = part.begin;
    s->end = part.end;
    if (!scan_members(s, names, parts, 2)) return false;
    return parts[0].begin && *parts[0].begin == '{' && (!parts[1].begin || *parts[1].begin == '[');
}

/* ---- reading them ------------------------------------------------------------------------------------------------ */

static bool scan_fail(struct vocab_scan *s, enum qkv_status status) {
    s->status = status;
    return false;
}

static bool scan_vocab(struct vocab_scan *s) {
    char *room = s->room;
    if (!scan_take(s, '{')) return false;
    do {
        struct vocab_text key;
        int64_t id;
        s->room = room;
        if (!scan_text(s, &key) || !scan_take(s, ':') || !scan_id(s, &id)) return false;
        struct qkv_string *entry = qkv_strings_add(s->ctx, &s->out->keys, key.text, key.size);
        if (!entry) return scan_fail(s, QKV_MEMORY);
        entry->value = id; /* a repeated key has its last id */
    } while (scan_take(s, ','));
    return scan_take(s, '}');
}

static struct qkv_vocab_merge merge_of(struct vocab_text left, struct vocab_text right) {
    return (struct qkv_vocab_merge){left.text, right.text, (uint32_t)left.size, (uint32_t)right.size};
}

/* Cuts "a b", which must have one space. */
static struct qkv_vocab_merge merge_cut(struct vocab_text text) {
    const char *space = memchr(text.text, ' ', text.size), *end = text.text + text.size;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1))) return (struct qkv_vocab_merge){0};
    return merge_of((struct vocab_text){text.text, (size_t)(space - text.text)},
                    (struct vocab_text){space + 1, (size_t)(end - space - 1)});
}

static bool merge_put(struct qkv_context *ctx, struct qkv_vocab_json *out, struct qkv_vocab_merge merge) {
    if (out->merge_count == out->merge_capacity) {
        struct qkv_vocab_merge *merges =
            qkv_list_room(ctx, out->merges, &out->merge_capacity, out->merge_count, 1, sizeof *merges);
        if (!merges) return false;
        out->merges = merges;
    }
    out->merges[out->merge_count++] = merge;
    return true;
}

static bool scan_merges(struct vocab_scan *s) {
    if (!scan_take(s, '[')) return false;
    if (scan_next(s) == ']') return true;
    do {
        struct vocab_text a, b;
        struct qkv_vocab_merge merge;
        if (scan_next(s) == '"') {
            if (!scan_text(s, &a)) return false;
            merge = merge_cut(a);
        } else {
            if (!scan_take(s, '[') || !scan_text(s, &a) || !scan_take(s, ',') || !scan_text(s, &b) ||
                !scan_take(s, ']'))
                return false;
            merge = merge_of(a, b);
        }
        if (!merge_put(s->ctx, s->out, merge)) return scan_fail(s, QKV_MEMORY);
    } while (scan_take(s, ','));
    return scan_take(s, ']');
}

/* The file without the two parts. */
static bool scan_rest(struct vocab_scan *s, const struct qkv_json_text *text, const struct vocab_part parts[2]) {
    const char *at = text->data, *end = at + text->size;
    const bool merges_first = parts[1].begin && parts[1].begin < parts[0].begin;
    struct qkv_buffer rest = {0};
    enum qkv_status status = QKV_OK;
    for (size_t k = 0; k < 2 && !status; k++) {
        const struct vocab_part *part = &parts[merges_first ? 1 - k : k];
        if (!part->begin) continue;
        status = qkv_buffer_append(s->ctx, &rest, at, (size_t)(part->begin - at));
        if (!status) status = qkv_buffer_append(s->ctx, &rest, *part->begin == '{' ? "{}" : "[]", 2);
        at = part->end;
    }
    if (!status) status = qkv_buffer_append(s->ctx, &rest, at, (size_t)(end - at));
    if (!status) {
        const struct qkv_json_text shorter = {
            .name = text->name, .data = rest.data, .size = rest.size, .max_size = text->max_size};
        status = qkv_json_load(s->ctx, &shorter, &s->out->root);
    }
    qkv_buffer_free(&rest);
    if (status == QKV_MEMORY) return scan_fail(s, status);
    return !status;
}

/* Returns whether the file could be scanned. */
static bool scan_file(struct vocab_scan *s, const struct qkv_json_text *text) {
    struct vocab_part parts[2] = {0};
    const char *data = text->data;
    if (!text->size || text->size > text->max_size || qkv_utf8_valid(data, text->size) != text->size) return false;
    if (memchr(data, '\\', text->size)) {
        s->out->unescaped = s->room = qkv_reallocate(s->ctx, NULL, text->size, 1);
        if (!s->room) return scan_fail(s, QKV_MEMORY);
    }
    s->at = data;
    s->end = data + text->size;
    if (!scan_find(s, parts)) return false;
    s->at = parts[0].begin;
    s->end = parts[0].end;
    if (!scan_vocab(s) || s->at != s->end) return false;
    s->room = s->out->unescaped;
    s->at = parts[1].begin;
    s->end = parts[1].end;
    if (s->at && !scan_merges(s)) return false;
    return scan_rest(s, text, parts);
}

/* ---- any file ---------------------------------------------------------------------------------------------------- */

static enum qkv_status vocab_of_json(struct qkv_context *ctx, struct qkv_vocab_json *out) {
    const json_t *model = json_object_get(out->root, "model");
    json_t *vocab = json_object_get(model, "vocab"), *value;
    const json_t *merges = json_object_get(model, "merges");
    const char *key;
    json_object_foreach(vocab, key, value) {
        struct qkv_string *entry = qkv_strings_add(ctx, &out->keys, key, strlen(key));
        if (!entry) return QKV_MEMORY;
        entry->value = json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
    }
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *entry = json_array_get(merges, i), *a = json_array_get(entry, 0), *b = json_array_get(entry, 1);
        struct qkv_vocab_merge merge = {0};
        if (json_is_string(entry))
            merge = merge_cut((struct vocab_text){json_string_value(entry), json_string_length(entry)});
        else if (json_is_string(a) && json_is_string(b) && json_array_size(entry) == 2)
            merge = merge_of((struct vocab_text){json_string_value(a), json_string_length(a)},
                             (struct vocab_text){json_string_value(b), json_string_length(b)});
        if (!merge_put(ctx, out, merge)) return QKV_MEMORY;
    }
    return QKV_OK;
}

enum qkv_status qkv_vocab_json_load(struct qkv_context *ctx, const struct qkv_json_text *text,
                                    struct qkv_vocab_json *out) {
    *out = (struct qkv_vocab_json){0};
    struct vocab_scan s = {.ctx = ctx, .out = out};
    enum qkv_status status = QKV_OK;
    if (!scan_file(&s, text)) {
        qkv_vocab_json_free(out);
        if (s.status) return s.status;
        qkv_forgive(ctx);
        status = qkv_json_load(ctx, text, &out->root);
        if (!status) status = vocab_of_json(ctx, out);
    }
    out->has_vocab = json_is_object(json_object_get(json_object_get(out->root, "model"), "vocab"));
    if (status) qkv_vocab_json_free(out);
    return status;
}

void qkv_vocab_json_free(struct qkv_vocab_json *vocab) {
    json_decref(vocab->root);
    qkv_strings_free(&vocab->keys);
    free(vocab->merges);
    free(vocab->unescaped);
    *vocab = (struct qkv_vocab_json){0};
}
