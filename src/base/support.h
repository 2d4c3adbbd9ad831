/* support: small tools of the library that the lab and the command need as well. It is the only header of src/ that the
 * command includes, and is not installed.
 *
 * A writer of JSON, characters of UTF-8, a clock, and the closest of several names. */
#ifndef QKV_SUPPORT_H
#define QKV_SUPPORT_H

#include <stdio.h>

#include "qkv/context.h"

/* ---- JSON (RFC 8259) --------------------------------------------------------------------------------------------- */

/* The layout and escapes of JSON: a sum of these, 0 for none. */
enum qkv_json_style {
    QKV_JSON_SPACED = 1, /* writes a space after ':' and ',' */
    /* Makes the text safe inside a <script> element of a page: '<', '>', '&', U+2028 and U+2029 are escaped (HTML,
     * "restrictions for contents of script elements"), and U+FFFD is written as an escape. */
    QKV_JSON_SCRIPT = 2,
    QKV_JSON_HEX = 4 /* writes a line feed as \u000a, like the other control characters, instead of \n */
};
/* A text that grows: `size` bytes, followed by a zero after the first write. */
struct qkv_buffer {
    char *data;
    size_t size, capacity;
};
/* A JSON writer. Begin with {0} and set the fields of the first group that are needed. The writer writes commas itself.
 * The first failure sets `status` and the sentence of the context, and all later calls do nothing, so check the status
 * once at the end: QKV_MEMORY, or QKV_FILE if `file` could not be written. A writer serves the thread of its context.
 * End it with qkv_json_free. */
struct qkv_json {
    struct qkv_context *ctx; /* gets the sentence of a failure; NULL: no sentence */
    int style;               /* a sum of enum qkv_json_style */
    FILE *file; /* gets the text when there is much of it, and at qkv_json_flush; NULL: all text stays in `text` */
    const char *name; /* name of the file for the sentence; NULL: "the output" */

    struct qkv_buffer text; /* text that was written and is not yet in the file */
    enum qkv_status status;
    bool more;  /* true: a value precedes the next one at the same level */
    int indent; /* 0, or 1 plus the number of spaces of the line that the next value begins */
};
void qkv_json_begin(struct qkv_json *json, char bracket); /* '{' or '[' */
void qkv_json_end(struct qkv_json *json, char bracket);   /* '}' or ']' */
/* Writes a key, zero-terminated or of `size` bytes; write its value next. */
void qkv_json_key(struct qkv_json *json, const char *key);
void qkv_json_key_bytes(struct qkv_json *json, const char *key, size_t size);
/* Puts the next item (a value, a key, a closing bracket or nothing) on a new line after `spaces` spaces. */
void qkv_json_line(struct qkv_json *json, int spaces);
/* Writes a string of `size` bytes, or a zero-terminated one. Bytes that are not UTF-8 become U+FFFD; NULL becomes
 * null. */
void qkv_json_string(struct qkv_json *json, const char *text, size_t size);
void qkv_json_text(struct qkv_json *json, const char *text);
/* qkv_json_number writes a number with at most `digits` significant digits, qkv_json_fixed with exactly `decimals`
 * digits after the point, qkv_json_real with the fewest digits that read back as x; a number that is not finite becomes
 * null, and the decimal point is a point in every locale. qkv_json_integer and qkv_json_count write integers,
 * qkv_json_bool true or false. */
void qkv_json_number(struct qkv_json *json, double x, int digits);
void qkv_json_fixed(struct qkv_json *json, double x, int decimals);
void qkv_json_real(struct qkv_json *json, double x);
void qkv_json_integer(struct qkv_json *json, int64_t x);
void qkv_json_count(struct qkv_json *json, uint64_t x);
void qkv_json_bool(struct qkv_json *json, bool x);
/* Writes bytes as base64 (RFC 4648) in a string. */
void qkv_json_base64(struct qkv_json *json, const unsigned char *data, size_t size);
/* Writes a value that is JSON already. */
void qkv_json_raw(struct qkv_json *json, const char *value);
/* Write a key and its value. */
void qkv_json_put_text(struct qkv_json *json, const char *key, const char *text);
void qkv_json_put_number(struct qkv_json *json, const char *key, double x, int digits);
void qkv_json_put_fixed(struct qkv_json *json, const char *key, double x, int decimals);
void qkv_json_put_real(struct qkv_json *json, const char *key, double x);
void qkv_json_put_integer(struct qkv_json *json, const char *key, int64_t x);
void qkv_json_put_count(struct qkv_json *json, const char *key, uint64_t x);
void qkv_json_put_bool(struct qkv_json *json, const char *key, bool x);
void qkv_json_put_raw(struct qkv_json *json, const char *key, const char *value);
/* Ends a line that qkv_json_line began, writes the text to the file if there is one, and sets json->status. */
void qkv_json_flush(struct qkv_json *json);
/* Frees the text; the file stays open. */
void qkv_json_free(struct qkv_json *json);

/* ---- UTF-8 (RFC 3629) -------------------------------------------------------------------------------------------- */

/* The number of bytes of the character at the beginning of `size` > 0 bytes; 0 if these are not UTF-8. Any thread. */
size_t qkv_utf8_length(const char *text, size_t size);

/* ---- clock ------------------------------------------------------------------------------------------------------- */

/* Seconds of a clock that never goes back; its start has no meaning. Any thread. */
double qkv_clock(void);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The name, of name_at(list, 0) to name_at(list, count − 1), that is closest to `word` by optimal string alignment,
 * where '-' and '_' are equal and an abbreviation is close; NULL if none is close. Any thread. */
const char *qkv_closest_name(const char *word, const char *(*name_at)(const void *list, size_t i), const void *list,
                             size_t count);

#endif
