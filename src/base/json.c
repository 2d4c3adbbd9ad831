/* Sentences about texts that are no JSON. jansson's own name its options (JSON_ALLOW_NUL) and print a byte order mark, which
 * nobody sees. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

static const char *byte_order_mark(const void *json, size_t size) {
    if (size >= 3 && memcmp(json, "\xef\xbb\xbf", 3) == 0)
        return "it begins with a byte order mark (BOM); remove that: sed -i '1s/^\\xEF\\xBB\\xBF//'";
    if (size >= 2 && (memcmp(json, "\xff\xfe", 2) == 0 || memcmp(json, "\xfe\xff", 2) == 0))
        return "it begins with a byte order mark (BOM) of UTF-16; convert it: iconv -f UTF-16 -t UTF-8";
    return NULL;
}

const char *qkv_json_fault(const json_error_t *error, const void *json, size_t size, char text[QKV_JSON_FAULT]) {
    const char *mark = byte_order_mark(json, size), *why = error->text;
    if (mark) {
        snprintf(text, QKV_JSON_FAULT, "%s", mark);
        return text;
    }
    switch (json_error_code(error)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        why = "a text holds the character U+0000";
        break;
    default:
        break;
    }
    snprintf(text, QKV_JSON_FAULT, "line %d, column %d: %s", error->line, error->column, why);
    return text;
}
