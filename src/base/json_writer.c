/* json_writer: JSON written front to back (RFC 8259), declared in base/support.h. A writer that is NULL writes nothing;
 * a key that is NULL is "", and a value that is NULL is null. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"

enum { FLUSH = 1 << 20 };

static void json_writer_pass_on(struct qkv_json *j) {
    if (j->text.size && fwrite(j->text.data, 1, j->text.size, j->file) != j->text.size)
        j->status = qkv_fail_file(j->ctx, "write", j->name ? j->name : "the output", errno);
    j->text.size = 0;
}

static void json_writer_put(struct qkv_json *j, const void *data, size_t n) {
    if (!j || j->status) return;
    j->status = qkv_buffer_append(j->ctx, &j->text, data, n);
    if (!j->status && j->file && j->text.size >= FLUSH) json_writer_pass_on(j);
}

/* Begins the line that qkv_json_line requested; false if there was no request. */
static bool json_writer_break(struct qkv_json *j) {
    static const char spaces[] = "                ";
    if (!j || j->indent == 0) return false;
    json_writer_put(j, "\n", 1);
    for (int left = j->indent - 1, n; left > 0; left -= n) {
        n = left < (int)sizeof spaces - 1 ? left : (int)sizeof spaces - 1;
        json_writer_put(j, spaces, (size_t)n);
    }
    j->indent = 0;
    return true;
}

static void json_writer_value(struct qkv_json *j) {
    if (!j) return;
    bool more = j->more;
    if (more) json_writer_put(j, ",", 1);
    if (!json_writer_break(j) && more && j->style & QKV_JSON_SPACED) json_writer_put(j, " ", 1);
    j->more = true;
}

void qkv_json_line(struct qkv_json *j, int spaces) {
    if (j) j->indent = spaces + 1;
}

void qkv_json_begin(struct qkv_json *j, char bracket) {
    if (!j) return;
    json_writer_value(j);
    json_writer_put(j, &bracket, 1);
    j->more = false;
}

void qkv_json_end(struct qkv_json *j, char bracket) {
    if (!j) return;
    json_writer_break(j);
    json_writer_put(j, &bracket, 1);
    j->more = true;
}

static bool is_separator(const char *text, size_t n) { /* U+2028, U+2029 */
    return n == 3 && (!memcmp(text, "\xE2\x80\xA8", 3) || !memcmp(text, "\xE2\x80\xA9", 3));
}

/* The escape of a character of n bytes (0: an invalid byte); "" if the character is written as it is. */
static void json_writer_escape(char out[8], int style, const char *text, size_t n) {
    unsigned char c = (unsigned char)text[0];
    bool script = style & QKV_JSON_SCRIPT;
    out[0] = 0;
    if (!n)
        memcpy(out, script ? "\\ufffd" : "\xEF\xBF\xBD", script ? 7 : 4);
    else if (script && is_separator(text, n))
        snprintf(out, 8, "\\u%04x", text[2] == '\xA8' ? 0x2028u : 0x2029u);
    else if (c == '"' || c == '\\')
        snprintf(out, 8, "\\%c", c);
    else if (c == '\n' && !(style & QKV_JSON_HEX))
        memcpy(out, "\\n", 3);
    else if (c < 32 || c == 127 || (script && (c == '<' || c == '>' || c == '&')))
        snprintf(out, 8, "\\u%04x", c);
}

static void json_writer_quote(struct qkv_json *j, const char *text, size_t size) {
    char escaped[8];
    size_t plain = 0; /* start of the characters that are not escaped */
    json_writer_put(j, "\"", 1);
    for (size_t i = 0, n; i < size; i += n ? n : 1) {
        n = qkv_utf8_length(text + i, size - i);
        json_writer_escape(escaped, j->style, text + i, n);
        if (!escaped[0]) continue;
        json_writer_put(j, text + plain, i - plain);
        json_writer_put(j, escaped, strlen(escaped));
        plain = i + (n ? n : 1);
    }
    json_writer_put(j, text + plain, size - plain);
    json_writer_put(j, "\"", 1);
}

void qkv_json_string(struct qkv_json *j, const char *text, size_t size) {
    json_writer_value(j);
    if (j && text)
        json_writer_quote(j, text, size);
    else
        json_writer_put(j, "null", 4);
}

void qkv_json_text(struct qkv_json *j, const char *text) {
    qkv_json_string(j, text, text ? strlen(text) : 0);
}

void qkv_json_key(struct qkv_json *j, const char *key) {
    qkv_json_key_bytes(j, key, key ? strlen(key) : 0);
}

void qkv_json_key_bytes(struct qkv_json *j, const char *key, size_t size) {
    if (!j) return;
    json_writer_value(j);
    json_writer_quote(j, key ? key : "", key ? size : 0);
    json_writer_put(j, ": ", j->style & QKV_JSON_SPACED ? 2 : 1);
    j->more = false;
}

/* Writes a number as printf printed it, with a point for the comma of some locales. */
static void json_writer_number(struct qkv_json *j, double x, char *text) {
    char *point = text + strspn(text, "-+0123456789");
    if (*point && *point != 'e') *point = '.';
    qkv_json_raw(j, isfinite(x) ? text : "null");
}

void qkv_json_number(struct qkv_json *j, double x, int digits) {
    char text[48];
    snprintf(text, sizeof text, "%.*g", digits, x);
    json_writer_number(j, x, text);
}

void qkv_json_fixed(struct qkv_json *j, double x, int decimals) {
    char text[400]; /* the largest number has 309 digits before the point */
    snprintf(text, sizeof text, "%.*f", decimals, x);
    json_writer_number(j, x, text);
}

void qkv_json_real(struct qkv_json *j, double x) {
    char text[QKV_REAL_TEXT];
    qkv_json_raw(j, isfinite(x) ? qkv_real_text(text, x) : "null");
}

void qkv_json_integer(struct qkv_json *j, int64_t x) {
    char text[32];
    json_writer_value(j);
    json_writer_put(j, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)x));
}

void qkv_json_count(struct qkv_json *j, uint64_t x) {
    char text[32];
    json_writer_value(j);
    json_writer_put(j, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)x));
}

void qkv_json_bool(struct qkv_json *j, bool x) {
    qkv_json_raw(j, x ? "true" : "false");
}

void qkv_json_raw(struct qkv_json *j, const char *value) {
    if (!value) value = "null";
    json_writer_value(j);
    json_writer_put(j, value, strlen(value));
}

void qkv_json_base64(struct qkv_json *j, const unsigned char *data, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char piece[1024];
    size_t used = 0;
    if (size && !data) {
        qkv_json_raw(j, NULL);
        return;
    }
    json_writer_value(j);
    json_writer_put(j, "\"", 1);
    for (size_t i = 0; i < size; i += 3) {
        unsigned a = data[i], b = i + 1 < size ? data[i + 1] : 0, c = i + 2 < size ? data[i + 2] : 0;
        piece[used++] = digits[a >> 2];
        piece[used++] = digits[(a & 3) << 4 | b >> 4];
        piece[used++] = i + 1 < size ? digits[(b & 15) << 2 | c >> 6] : '=';
        piece[used++] = i + 2 < size ? digits[c & 63] : '=';
        if (used == sizeof piece) {
            json_writer_put(j, piece, used);
            used = 0;
        }
    }
    json_writer_put(j, piece, used);
    json_writer_put(j, "\"", 1);
}

void qkv_json_put_text(struct qkv_json *j, const char *key, const char *text) {
    qkv_json_key(j, key);
    qkv_json_text(j, text);
}

void qkv_json_put_number(struct qkv_json *j, const char *key, double x, int digits) {
    qkv_json_key(j, key);
    qkv_json_number(j, x, digits);
}

void qkv_json_put_integer(struct qkv_json *j, const char *key, int64_t x) {
    qkv_json_key(j, key);
    qkv_json_integer(j, x);
}

void qkv_json_put_fixed(struct qkv_json *j, const char *key, double x, int decimals) {
    qkv_json_key(j, key);
    qkv_json_fixed(j, x, decimals);
}

void qkv_json_put_real(struct qkv_json *j, const char *key, double x) {
    qkv_json_key(j, key);
    qkv_json_real(j, x);
}

void qkv_json_put_count(struct qkv_json *j, const char *key, uint64_t x) {
    qkv_json_key(j, key);
    qkv_json_count(j, x);
}

void qkv_json_put_bool(struct qkv_json *j, const char *key, bool x) {
    qkv_json_key(j, key);
    qkv_json_bool(j, x);
}

void qkv_json_put_raw(struct qkv_json *j, const char *key, const char *value) {
    qkv_json_key(j, key);
    qkv_json_raw(j, value);
}

void qkv_json_flush(struct qkv_json *j) {
    if (!j) return;
    json_writer_break(j);
    if (j->file && !j->status) json_writer_pass_on(j);
}

void qkv_json_free(struct qkv_json *j) {
    if (j) qkv_buffer_free(&j->text);
}
