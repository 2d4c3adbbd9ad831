/* Strings of templates: the escapes of Python's literals. */
#include "base/utf8.h"
#include "chat/chat_nodes.h"

#include <string.h>

/* Reads `digits` digits of a base at s; false: there are fewer. */
static bool unescape_digits(const char *s, size_t size, size_t digits, uint32_t *code) {
    *code = 0;
    if (size < digits) return false;
    for (size_t i = 0; i < digits; i++) {
        const char c = s[i];
        const int digit = c >= '0' && c <= '9'                 ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : -1;
        if (digit < 0) return false;
        *code = *code * 16 + (uint32_t)digit;
    }
    return true;
}

/* Reads the escape behind a backslash at s, `size` > 0 bytes: writes its bytes to `out`, and returns how many bytes it
 * has; 0: it is wrong. */
static size_t unescape_one(const char *s, size_t size, char out[4], size_t *written) {
    static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    uint32_t code = 0;
    size_t n = 0;
    const char *letter = *s ? strchr(letters, *s) : NULL;
    *written = 1;
    if (*s == '\n') {
        *written = 0;
        return 1;
    }
    if (letter) {
        *out = values[letter - letters];
        return 1;
    }
    if (*s >= '0' && *s <= '7') {
        for (; n < 3 && n < size && s[n] >= '0' && s[n] <= '7'; n++) code = code * 8 + (uint32_t)(s[n] - '0');
    } else if (*s == 'x' || *s == 'u' || *s == 'U') {
        const size_t digits = *s == 'x' ? 2 : *s == 'u' ? 4 : 8;
        if (!unescape_digits(s + 1, size - 1, digits, &code)) return 0;
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
        n = 1 + digits;
    } else if (*s == 'N') {
        return 0;
    } else { /* the backslash stays */
        out[0] = '\\';
        return SIZE_MAX;
    }
    *written = qkv_utf8_write(code, out);
    return n;
}

enum qkv_status qkv_chat_unescape(struct chat_pool *pool, const char *name, int line, const char *text, size_t size,
                                  struct chat_value *out) {
    *out = qkv_chat_text(text, size);
    if (!size || !memchr(text, '\\', size)) return QKV_OK;
    char *copy = qkv_chat_take(pool, size, 1); /* no escape is shorter than its bytes */
    size_t n = 0;
    if (!copy) return QKV_MEMORY;
    for (size_t at = 0; at < size;) {
        char bytes[4];
        size_t written;
        if (text[at] != '\\' || at + 1 == size) {
            copy[n++] = text[at++];
            continue;
        }
        const size_t read = unescape_one(text + at + 1, size - at - 1, bytes, &written);
        if (!read) return qkv_fail(pool->ctx, QKV_FORMAT, "%s, line %d: a string has a wrong escape", name, line);
        memcpy(copy + n, bytes, written);
        n += written;
        at += 1 + (read == SIZE_MAX ? 0 : read);
    }
    *out = qkv_chat_text(copy, n);
    return QKV_OK;
}
