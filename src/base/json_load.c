/* json_load: JSON by jansson, with its errors in our words: jansson's name constants of its interface, which no user
 * knows. */
#include "base/json_load.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 128 };

/* The cause of an error. Most texts of jansson are plain and quote the file; the others are replaced. */
static const char *json_load_cause(const json_error_t *error) {
    switch (json_error_code(error)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a text holds the character U+0000";
    case json_error_invalid_utf8:
        return "there is a byte that is not UTF-8";
    case json_error_premature_end_of_input:
        return "the text ends too early";
    default:
        return error->text;
    }
}

static enum qkv_status json_load_fail(struct qkv_context *ctx, const struct qkv_json_text *text, const char *wrong) {
    return qkv_fail(ctx, QKV_FORMAT, "%s %s%s%s", text->name, wrong, text->help ? "; " : "",
                    text->help ? text->help : "");
}

/* Whether objects and lists are nested deeper than MAX_DEPTH; no useful file is. jansson reads, copies and prints them
 * by recursion, with up to 300 bytes of the stack for each level, and its own limit is 2,048. */
static bool json_load_is_deep(const char *text, size_t size) {
    size_t depth = 0;
    bool quoted = false;
    for (size_t at = 0; at < size; at++) {
        const char c = text[at];
        if (quoted) {
            if (c == '\\') at++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH) return true;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return false;
}

/* ---- integers of any size -------------------------------------------------------------------------------------- */

/* Whether a number is an integer that does not fit in 64 bits. */
static bool json_load_is_large(const char *number, size_t size) {
    const size_t sign = size && *number == '-';
    const char *limit = sign ? "9223372036854775808" : "9223372036854775807";
    for (size_t i = sign; i < size; i++)
        if (number[i] < '0' || number[i] > '9') return false;
    return size - sign > 19 || (size - sign == 19 && memcmp(number + sign, limit, 19) > 0);
}

/* Reads a copy of the text in which such integers are reals: Python programs write 1e30 as an integer
 * (model_max_length). */
static json_t *json_load_large(struct qkv_context *ctx, const struct qkv_json_text *text, json_error_t *error) {
    static const char signs[] = "+-.0123456789Ee";
    const char *s = text->data;
    struct qkv_buffer copy = {0};
    json_t *root = NULL;
    bool quoted = false;
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, n; at < text->size && !status; at += n) {
        n = 1;
        if (quoted) {
            if (s[at] == '\\' && at + 1 < text->size) n = 2;
            quoted = s[at] != '"';
        } else if (s[at] == '"') {
            quoted = true;
        } else {
            while (s[at] && strchr(signs, s[at]) && at + n < text->size && s[at + n] && strchr(signs, s[at + n])) n++;
        }
        status = qkv_buffer_append(ctx, &copy, s + at, n);
        if (!status && !quoted && json_load_is_large(s + at, n)) status = qkv_buffer_append(ctx, &copy, "e0", 2);
    }
    if (!status) root = json_loadb(copy.data, copy.size, JSON_REJECT_DUPLICATES, error);
    qkv_buffer_free(&copy);
    return root;
}

enum qkv_status qkv_json_load(struct qkv_context *ctx, const struct qkv_json_text *text, json_t **root) {
    char wrong[JSON_ERROR_TEXT_LENGTH + 128];
    json_error_t error;
    *root = NULL;
    if (text->size == 0) return json_load_fail(ctx, text, "is empty");
    enum qkv_status status = qkv_byte_order_mark_refuse(ctx, text->name, text->data, text->size);
    if (status) return status;
    if (text->size > text->max_size) {
        snprintf(wrong, sizeof wrong, "is too large: it has %zu bytes, and at most %zu are read", text->size,
                 text->max_size);
        return json_load_fail(ctx, text, wrong);
    }
    if (json_load_is_deep(text->data, text->size)) {
        snprintf(wrong, sizeof wrong,
                 "is not read: objects and lists are nested too deeply, more than %d in each other", MAX_DEPTH);
        return json_load_fail(ctx, text, wrong);
    }
    *root = json_loadb(text->data, text->size, JSON_REJECT_DUPLICATES, &error);
    if (!*root && json_error_code(&error) == json_error_numeric_overflow) *root = json_load_large(ctx, text, &error);
    if (*root) return QKV_OK;
    if (json_error_code(&error) == json_error_out_of_memory) return qkv_fail_memory(ctx, text->size, text->name);
    snprintf(wrong, sizeof wrong, "is not valid JSON: line %d, column %d: %s", error.line, error.column,
             json_load_cause(&error));
    return json_load_fail(ctx, text, wrong);
}

json_t *qkv_json_value(const char *text) {
    return json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
}

enum qkv_status qkv_json_refuse(struct qkv_context *ctx, const char *name, const char *key, const json_t *value,
                                const char *knows) {
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    enum qkv_status status =
        qkv_fail(ctx, QKV_FORMAT, "%s: %s is %.80s; this reader knows %s", name, key, text ? text : "missing", knows);
    free(text);
    return status;
}

enum qkv_status qkv_json_save(struct qkv_context *ctx, const char *folder, const char *name, json_t *root) {
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL, *path = qkv_join_path(ctx, folder, name);
    enum qkv_status status =
        text && path ? qkv_write_file(ctx, path, text, strlen(text)) : qkv_fail_memory(ctx, 0, name);
    json_decref(root);
    free(text);
    free(path);
    return status;
}
