/* json_load: JSON by jansson, its errors in our words: its own name constants of its interface, which no user has. */
#include "base/json_load.h"

#include <stdlib.h>
#include <string.h>

/* What is wrong at a place. Most texts of jansson are plain and quote the file; the others are replaced. */
static const char *json_load_cause(const json_error_t *error) {
    switch (json_error_code(error)) {
    case json_error_stack_overflow:
        return "objects and lists are nested too deeply";
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
    *root = json_loadb(text->data, text->size, JSON_REJECT_DUPLICATES, &error);
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
