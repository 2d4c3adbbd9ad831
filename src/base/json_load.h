/* json_load: the only reader of JSON. It reads files, headers and lines that other programs wrote, so the same rules
 * and the same sentences refuse all of them. */
#ifndef QKV_BASE_JSON_LOAD_H
#define QKV_BASE_JSON_LOAD_H

#include <jansson.h>

#include "base/base.h"

struct qkv_json_text {
    const char *name; /* first part of the sentences: a path, "FILE: the header" */
    const char *help; /* their last part: "restore the file"; NULL: nothing is known */
    const void *data; /* may be NULL if size is 0 */
    size_t size, max_size;
};
/* Reads one object or list: *root gets a reference; NULL on failure. Fails with QKV_FORMAT, and the line and column if
 * there are any, for: more than max_size bytes; an empty text; a byte order mark; more than 128 levels of objects and
 * lists; a key that occurs twice in an object; U+0000 in a text; bytes that are not UTF-8; anything after the end. An
 * integer that does not fit in 64 bits is read as a real. Fails with QKV_MEMORY if memory runs out. A NULL context only
 * returns the status. */
enum qkv_status qkv_json_load(struct qkv_context *ctx, const struct qkv_json_text *text, json_t **root);
/* Reads one value of any kind, also a number, from a zero-terminated text; NULL if it is not valid JSON. */
json_t *qkv_json_value(const char *text);
/* Fails with QKV_FORMAT: the value of `key` in the file `name` (NULL: missing) is none of those that `knows` lists. */
enum qkv_status qkv_json_refuse(struct qkv_context *ctx, const char *name, const char *key, const json_t *value,
                                const char *knows);
/* Writes a value, indented, as a file of a folder, and replaces an old file atomically. Takes over the reference; root
 * NULL: there was no memory for the value. Fails with QKV_MEMORY, QKV_FILE. */
enum qkv_status qkv_json_save(struct qkv_context *ctx, const char *folder, const char *name, json_t *root);

#endif
