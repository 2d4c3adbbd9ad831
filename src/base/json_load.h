/* json_load: the one reader of JSON. Files, headers and lines that somebody else wrote are read by it, so that all of them are
 * refused by the same rules and in the same words. */
#ifndef QKV_BASE_JSON_LOAD_H
#define QKV_BASE_JSON_LOAD_H

#include <jansson.h>

#include "base/base.h"

struct qkv_json_text {
    const char *name; /* begins the sentences: a path, "FILE: the header" */
    const char *help; /* ends them: "restore the file"; NULL: nothing more is known */
    const void *data; /* may be NULL where size is 0 */
    size_t size, max_size;
};
/* Reads one object or list: *root gets a reference, NULL on failure. Refused (QKV_FORMAT, line and column are named
 * where there are any): more than max_size bytes, nothing at all, a byte order mark, more than 128 objects or lists in
 * each other, keys that come twice in an object, U+0000 in a text, bytes that are not UTF-8, anything behind the end.
 * An integer that 64 bits do not hold is read as a real. QKV_MEMORY where memory ran out. Without a context only the
 * status. */
enum qkv_status qkv_json_load(struct qkv_context *ctx, const struct qkv_json_text *text, json_t **root);
/* One value of any kind, a number as well, from a zero-terminated text; NULL where it is none. */
json_t *qkv_json_value(const char *text);
/* Fails with QKV_FORMAT: the value of `key` in the file `name` (NULL: it has none) is not among what `knows` names. */
enum qkv_status qkv_json_refuse(struct qkv_context *ctx, const char *name, const char *key, const json_t *value,
                                const char *knows);
/* Writes a value as a file of a folder, indented, and replaces an old one atomically. It takes the reference; NULL: there was no
 * memory for the value. Fails with QKV_MEMORY, QKV_FILE. */
enum qkv_status qkv_json_save(struct qkv_context *ctx, const char *folder, const char *name, json_t *root);

#endif
