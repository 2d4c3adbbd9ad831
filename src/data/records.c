#include "data/records.h"

#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 18) /* bytes that are read at a time, about */

bool qkv_records_are_json(const char *path) {
    static const char *const endings[] = {".jsonl", ".ndjson"};
    const size_t size = qkv_unpack_name(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (size > n && memcmp(path + size - n, endings[i], n) == 0) return true;
    }
    return false;
}

enum qkv_status qkv_record_fail(struct qkv_context *ctx, const char *path, uint64_t line, const char *format, ...) {
    char sentence[sizeof ctx->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return qkv_fail(ctx, QKV_FORMAT, "%s:%llu: %s", path, (unsigned long long)line, sentence);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_records_more(struct qkv_records *r, bool *end) {
    size_t got;
    if (r->begin) memmove(r->held, r->held + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    if (r->end > QKV_RECORD_MAX)
        return qkv_record_fail(
            r->ctx, r->path, r->line + 1,
            "there are more than %d MiB without a place to cut them; give texts in lines of less than "
            "this",
            QKV_RECORD_MAX >> 20);
    char *held = qkv_list_room(r->ctx, r->held, &r->capacity, r->end, PIECE, 1);
    if (!held) return QKV_MEMORY;
    r->held = held;
    r->bytes.line = r->line + 1;
    enum qkv_status status = qkv_unpack_read(&r->bytes, r->held + r->end, PIECE, &got);
    if (status) return status;
    r->end += got;
    *end = got == 0;
    return QKV_OK;
}

enum qkv_status qkv_records_open(struct qkv_context *ctx, const char *path, struct qkv_records *r) {
    *r = (struct qkv_records){.ctx = ctx, .path = path};
    enum qkv_status status = qkv_unpack_open(ctx, path, &r->bytes);
    bool end = false;
    while (!status && !end && r->end < 4) status = qkv_records_more(r, &end);
    const char *encoding = status || !r->end ? NULL : qkv_byte_order_mark(r->held, r->end);
    if (encoding && strcmp(encoding, "UTF-8") == 0)
        r->begin = r->position = 3;
    else if (encoding)
        status = qkv_byte_order_mark_refuse(ctx, path, r->held, r->end);
    if (status) qkv_records_close(r);
    return status;
}

void qkv_records_close(struct qkv_records *r) {
    qkv_unpack_close(&r->bytes);
    free(r->held);
    r->held = NULL;
    r->begin = r->end = r->capacity = 0;
}

enum qkv_status qkv_records_skip(struct qkv_records *r, uint64_t line, uint64_t position) {
    const uint64_t held = r->position + (r->end - r->begin);
    enum qkv_status status = QKV_OK;
    if (position < held) {
        r->begin += (size_t)(position - r->position);
    } else {
        r->begin = r->end = 0;
        status = qkv_unpack_skip(&r->bytes, position);
    }
    r->line = line;
    r->position = position;
    return status;
}

/* The next line, which may be blank: its size with its end. */
static enum qkv_status records_line(struct qkv_records *r, size_t *size, bool *end) {
    size_t looked = 0;
    *end = false;
    for (;;) {
        const size_t held = r->end - r->begin;
        const char *stop = held > looked ? memchr(r->held + r->begin + looked, '\n', held - looked) : NULL;
        *size = stop ? (size_t)(stop - (r->held + r->begin)) + 1 : held;
        if (stop || *end) return QKV_OK;
        looked = held;
        enum qkv_status status = qkv_records_more(r, end);
        if (status) return status;
    }
}

static bool record_is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!memchr(" \t\r", text[i], 3)) return false;
    return true;
}

enum qkv_status qkv_records_next(struct qkv_records *r, struct qkv_record *record, bool *end) {
    for (;;) {
        size_t size, n;
        enum qkv_status status = records_line(r, &size, end);
        if (status) return status;
        *end = size == 0;
        if (*end) return QKV_OK;
        const char *text = r->held + r->begin;
        n = size - (text[size - 1] == '\n');
        if (n && text[n - 1] == '\r') n--;
        r->begin += size;
        r->position += size;
        r->line++;
        *record = (struct qkv_record){text, n, r->line};
        if (!record_is_blank(text, n)) return QKV_OK;
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_record_parse(struct qkv_context *ctx, const char *path, const struct qkv_record *record,
                                 json_t **object) {
    char name[512];
    snprintf(name, sizeof name, "%s:%llu: the line", path, (unsigned long long)record->line);
    const struct qkv_json_text text = {
        .name = name, .data = record->text, .size = record->size, .max_size = QKV_RECORD_MAX + PIECE};
    enum qkv_status status = qkv_json_load(ctx, &text, object);
    if (status || json_is_object(*object)) return status;
    json_decref(*object);
    *object = NULL;
    return qkv_record_fail(ctx, path, record->line, "the line is a list; write an object");
}

static const char *record_type(const json_t *value) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a text", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",    [JSON_FALSE] = "false",   [JSON_NULL] = "null"};
    return names[json_typeof(value)];
}

enum qkv_status qkv_record_text(struct qkv_context *ctx, const char *path, uint64_t line, const json_t *object,
                                const char *key, const char *option, const char **text, size_t *size) {
    const json_t *value = json_object_get(object, key);
    char keys[160] = "", help[64] = "";
    size_t n = 0;
    const char *name;
    json_t *other;
    if (json_is_string(value)) {
        *text = json_string_value(value);
        *size = json_string_length(value);
        return QKV_OK;
    }
    if (value) return qkv_record_fail(ctx, path, line, "%.80s is %s; it has to be a text", key, record_type(value));
    json_object_foreach((json_t *)(uintptr_t)object, name, other) {
        if (n < sizeof keys) n += (size_t)snprintf(keys + n, sizeof keys - n, "%s%.40s", n ? ", " : "; it has ", name);
    }
    if (option) snprintf(help, sizeof help, "; name the key of the text with %s", option);
    return qkv_record_fail(ctx, path, line, "the object has no key %.80s%s%s", key, keys, help);
}
