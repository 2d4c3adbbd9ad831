/* Patterns in Oniguruma's syntax, character by character, and the message about constructs that are not translated. */
#include <stdarg.h>
#include <string.h>

#include "text/onig.h"

enum qkv_status qkv_onig_refuse(struct onig *o, size_t from, const char *why, ...) {
    char reason[160];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(reason, sizeof reason, why, arguments);
    va_end(arguments);
    size_t size = o->at > from ? o->at - from : 0;
    if (size > 40) size = 40 - qkv_utf8_tail(o->source + from, 40);
    return qkv_fail(o->ctx, QKV_FORMAT, "the pattern \"%.200s\" has at byte %zu \"%.*s\", %s; it is not translated",
                    o->source, from, (int)size, o->source + from, reason);
}

uint32_t qkv_onig_next(struct onig *o) {
    uint32_t code = 0;
    int n = qkv_utf8_scan(o->source + o->at, o->size - o->at, &code);
    o->at += n > 0 ? (size_t)n : 1;
    return code;
}

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Reads at most `max` hexadecimal digits. Returns their number. */
static size_t onig_hex(struct onig *o, size_t max, uint32_t *code) {
    size_t n = 0;
    for (*code = 0; n < max && o->at < o->size && hex_digit(o->source[o->at]) >= 0; n++)
        *code = *code * 16 + (uint32_t)hex_digit(o->source[o->at++]);
    return n;
}

static enum qkv_status onig_hex_code(struct onig *o, size_t from, char kind, uint32_t *code) {
    bool braces = kind == 'x' && o->source[o->at] == '{', good;
    if (braces) {
        o->at++;
        good = onig_hex(o, 7, code) > 0 && o->source[o->at] == '}';
        if (o->at < o->size) qkv_onig_next(o);
    } else if (kind == 'u') {
        good = onig_hex(o, 4, code) == 4;
    } else {
        good = onig_hex(o, 2, code) > 0 && *code < 0x80;
    }
    good = good && *code > 0 && *code <= 0x10FFFF && !(*code >= 0xD800 && *code < 0xE000);
    return good ? QKV_OK : qkv_onig_refuse(o, from, "which names no character");
}

enum qkv_status qkv_onig_code(struct onig *o, size_t from, uint32_t *code, bool *found) {
    static const char names[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1B";
    char c = o->at < o->size ? o->source[o->at] : 0;
    const char *name = c ? strchr(names, c) : NULL;
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    *found = c && (!letter || name || c == 'x' || c == 'u');
    if (!*found) return QKV_OK;
    if (!letter) {
        *code = qkv_onig_next(o);
        return QKV_OK;
    }
    o->at++;
    if (!name) return onig_hex_code(o, from, c, code);
    *code = (unsigned char)codes[name - names];
    return QKV_OK;
}
