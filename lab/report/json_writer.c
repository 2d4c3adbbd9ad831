/* json: JSON written front to back, safe to stand inside a <script> element of a page (json.org; HTML, "restrictions for
 * contents of script elements"). */
#include <math.h>
#include <string.h>

#include "lab/report/report_room.h"

enum { FLUSH = 1 << 20 };

static void json_writer_put(struct qkv_json *j, const void *data, size_t n) {
    if (j->status) return;
    j->status = qkv_buffer_append(j->ctx, &j->text, data, n);
    if (j->status || !j->file || j->text.size < FLUSH) return;
    j->status = qkv_replace_write(j->file, j->text.data, j->text.size);
    j->text.size = 0;
}

static void json_writer_value(struct qkv_json *j) {
    if (j->more) json_writer_put(j, ",", 1);
    j->more = true;
}

void qkv_json_begin(struct qkv_json *j, char bracket) {
    json_writer_value(j);
    json_writer_put(j, &bracket, 1);
    j->more = false;
}

void qkv_json_end(struct qkv_json *j, char bracket) {
    json_writer_put(j, &bracket, 1);
    j->more = true;
}

size_t qkv_utf8_length(const char *text, size_t size) {
    const unsigned char *c = (const unsigned char *)text;
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
    if (n > size) return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xC0) != 0x80) return 0;
    bool wrong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF0 && c[1] < 0x90) ||
                 (c[0] == 0xF4 && c[1] > 0x8F);
    return wrong ? 0 : n;
}

static bool is_separator(const char *text, size_t n) { /* U+2028, U+2029 */
    return n == 3 && (!memcmp(text, "\xE2\x80\xA8", 3) || !memcmp(text, "\xE2\x80\xA9", 3));
}

/* The escape of a character of n bytes, "" where it stands for itself. */
static void json_writer_escape(char out[8], const char *text, size_t n) {
    unsigned char c = (unsigned char)text[0];
    out[0] = 0;
    if (!n)
        memcpy(out, "\\ufffd", 7);
    else if (is_separator(text, n))
        snprintf(out, 8, "\\u%04x", text[2] == '\xA8' ? 0x2028u : 0x2029u);
    else if (c == '"' || c == '\\')
        snprintf(out, 8, "\\%c", c);
    else if (c == '\n')
        memcpy(out, "\\n", 3);
    else if (c < 32 || c == 127 || c == '<' || c == '>' || c == '&')
        snprintf(out, 8, "\\u%04x", c);
}

static void json_writer_quote(struct qkv_json *j, const char *text, size_t size) {
    char escaped[8];
    json_writer_put(j, "\"", 1);
    for (size_t i = 0, n; i < size; i += n ? n : 1) {
        n = qkv_utf8_length(text + i, size - i);
        json_writer_escape(escaped, text + i, n);
        if (escaped[0])
            json_writer_put(j, escaped, strlen(escaped));
        else
            json_writer_put(j, text + i, n);
    }
    json_writer_put(j, "\"", 1);
}

void qkv_json_string(struct qkv_json *j, const char *text, size_t size) {
    json_writer_value(j);
    if (text)
        json_writer_quote(j, text, size);
    else
        json_writer_put(j, "null", 4);
}

void qkv_json_text(struct qkv_json *j, const char *text) {
    qkv_json_string(j, text, text ? strlen(text) : 0);
}

void qkv_json_key(struct qkv_json *j, const char *key) {
    json_writer_value(j);
    json_writer_quote(j, key, strlen(key));
    json_writer_put(j, ":", 1);
    j->more = false;
}

void qkv_json_number(struct qkv_json *j, double x, int digits) {
    char text[48];
    json_writer_value(j);
    if (!isfinite(x)) {
        json_writer_put(j, "null", 4);
        return;
    }
    snprintf(text, sizeof text, "%.*g", digits, x);
    char *point = text + strspn(text, "-+0123456789"); /* a comma in some locales */
    if (*point && *point != 'e') *point = '.';
    json_writer_put(j, text, strlen(text));
}

void qkv_json_integer(struct qkv_json *j, int64_t x) {
    char text[32];
    json_writer_value(j);
    json_writer_put(j, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)x));
}

void qkv_json_bool(struct qkv_json *j, bool x) {
    json_writer_value(j);
    json_writer_put(j, x ? "true" : "false", x ? 4 : 5);
}

void qkv_json_base64(struct qkv_json *j, const unsigned char *data, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char piece[1024];
    size_t used = 0;
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
