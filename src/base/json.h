/* json.h: what is wrong with a text that is no JSON, in words of ours. */
#ifndef QKV_BASE_JSON_H
#define QKV_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#define QKV_JSON_FAULT 320 /* bytes of a fault */
/* Why the size > 0 bytes, or none, that jansson refused with `error` are no JSON: "line 2, column 5: ...", or the byte order
 * mark in front of them. Writes into `text` and returns it. */
const char *qkv_json_fault(const json_error_t *error, const void *json, size_t size, char text[QKV_JSON_FAULT]);

#endif
