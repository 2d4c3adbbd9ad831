/* qkv/support.h: small things that programs beside the library need as well; a part of qkv.h, which includes it. Experimental.
 *
 * JSON written front to back, characters of UTF-8, a clock, and the name that was probably meant. */
#ifndef QKV_PUBLIC_SUPPORT_H
#define QKV_PUBLIC_SUPPORT_H

#include <stdio.h>

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- JSON (RFC 8259) ------------------------------------------------------------------------------------------------- */

/* How JSON is laid out and escaped: a sum of these, 0 for none. */
enum qkv_json_style {
    QKV_JSON_SPACED = 1, /* a space behind ':' and ',' */
    /* Safe inside a <script> element of a page: '<', '>', '&', U+2028 and U+2029 are escaped (HTML, "restrictions for contents of
     * script elements"), and U+FFFD is written as an escape. */
    QKV_JSON_SCRIPT = 2,
    QKV_JSON_HEX = 4 /* a line feed is \u000a, like the other control characters, in place of \n */
};
/* A growing text: `size` bytes and a zero behind them once anything was written. */
struct qkv_buffer {
    char *data;
    size_t size, capacity;
};
/* A writer. Begin with {0} and set what is needed of the first group; commas come by themselves. The first failure stays in
 * `status`, with the sentence in the context, and makes the rest do nothing, so a writer is checked once: QKV_MEMORY, or QKV_FILE
 * where `file` could not be written. It serves the thread of its context. End it with qkv_json_free. */
struct qkv_json {
    struct qkv_context *ctx; /* for the sentence; NULL: it is lost */
    int style;               /* a sum of enum qkv_json_style */
    FILE *file;       /* gets the text whenever there is much of it, and at qkv_json_flush; NULL: all stays in `text` */
    const char *name; /* of the file, for the sentence; NULL: "the output" */

    struct qkv_buffer text; /* what was written and is not in the file */
    enum qkv_status status;
    bool more;  /* a value stands before the place where the next one comes */
    int indent; /* 0, or 1 more than the spaces of a line that begins with what comes next */
};
QKV_API void qkv_json_begin(struct qkv_json *json, char bracket); /* '{' or '[' */
QKV_API void qkv_json_end(struct qkv_json *json, char bracket);   /* '}' or ']' */
/* A key, zero-terminated, or of `size` bytes; its value comes next. */
QKV_API void qkv_json_key(struct qkv_json *json, const char *key);
QKV_API void qkv_json_key_bytes(struct qkv_json *json, const char *key, size_t size);
/* What comes next, a value, a key, a closing bracket or nothing, stands on a new line behind so many spaces. */
QKV_API void qkv_json_line(struct qkv_json *json, int spaces);
/* A string of `size` bytes, or zero-terminated. Bytes that are no UTF-8 become U+FFFD. NULL becomes null. */
QKV_API void qkv_json_string(struct qkv_json *json, const char *text, size_t size);
QKV_API void qkv_json_text(struct qkv_json *json, const char *text);
/* A number with at most `digits` significant digits, or with exactly `decimals` behind the point, or with as few as read back
 * as x; null where it is not finite. A point in every locale. */
QKV_API void qkv_json_number(struct qkv_json *json, double x, int digits);
QKV_API void qkv_json_fixed(struct qkv_json *json, double x, int decimals);
QKV_API void qkv_json_real(struct qkv_json *json, double x);
QKV_API void qkv_json_integer(struct qkv_json *json, int64_t x);
QKV_API void qkv_json_count(struct qkv_json *json, uint64_t x);
QKV_API void qkv_json_bool(struct qkv_json *json, bool x);
/* Bytes as base64 (RFC 4648) in a string. */
QKV_API void qkv_json_base64(struct qkv_json *json, const unsigned char *data, size_t size);
/* A value that is JSON already. */
QKV_API void qkv_json_raw(struct qkv_json *json, const char *value);
/* A key and its value. */
QKV_API void qkv_json_put_text(struct qkv_json *json, const char *key, const char *text);
QKV_API void qkv_json_put_number(struct qkv_json *json, const char *key, double x, int digits);
QKV_API void qkv_json_put_fixed(struct qkv_json *json, const char *key, double x, int decimals);
QKV_API void qkv_json_put_real(struct qkv_json *json, const char *key, double x);
QKV_API void qkv_json_put_integer(struct qkv_json *json, const char *key, int64_t x);
QKV_API void qkv_json_put_count(struct qkv_json *json, const char *key, uint64_t x);
QKV_API void qkv_json_put_bool(struct qkv_json *json, const char *key, bool x);
QKV_API void qkv_json_put_raw(struct qkv_json *json, const char *key, const char *value);
/* Ends a line that qkv_json_line began, passes the text on where there is a file, and leaves the status in json->status. */
QKV_API void qkv_json_flush(struct qkv_json *json);
/* Frees the text; the file stays open. */
QKV_API void qkv_json_free(struct qkv_json *json);

/* ---- UTF-8 (RFC 3629) -------------------------------------------------------------------------------------------------- */

/* The bytes of the character at the front of `size` > 0 bytes; 0 if there is none. Any thread. */
QKV_API size_t qkv_utf8_length(const char *text, size_t size);

/* ---- clock --------------------------------------------------------------------------------------------------------------- */

/* Seconds of a clock that never goes back, from a start that means nothing. Any thread. */
QKV_API double qkv_clock(void);

/* ---- names --------------------------------------------------------------------------------------------------------------- */

/* Of `count` names, name_at(list, i), the one most like `word` by optimal string alignment, where '-' and '_' are one character
 * and an abbreviation is close; NULL if none is near. Any thread. */
QKV_API const char *qkv_closest_name(const char *word, const char *(*name_at)(const void *list, size_t i),
                                     const void *list, size_t count);

#ifdef __cplusplus
}
#endif

#endif
