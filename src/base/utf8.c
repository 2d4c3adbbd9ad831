/* utf8: characters as bytes, decoded by utf8proc, which refuses surrogates, overlong forms and codes above U+10FFFF. */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

#include <utf8proc.h>

#include "qkv.h"

/* Whether invalid bytes can become a character when more follow: they do with the lowest or the highest continuation
 * byte. */
static bool utf8_begins(const char *text, size_t size) {
    static const unsigned char fill[] = {0x80, 0xBF};
    size_t length = (size_t)utf8proc_utf8class[(unsigned char)text[0]];
    for (size_t k = 0; k < 2 && size < length; k++) {
        utf8proc_uint8_t bytes[4];
        utf8proc_int32_t code;
        memset(bytes, fill[k], sizeof bytes);
        memcpy(bytes, text, size);
        if (utf8proc_iterate(bytes, (utf8proc_ssize_t)length, &code) > 0) return true;
    }
    return false;
}

int qkv_utf8_scan(const char *text, size_t size, uint32_t *code) {
    utf8proc_int32_t c;
    if (size == 0) return -1;
    if ((unsigned char)text[0] < 0x80) {
        *code = (unsigned char)text[0];
        return 1;
    }
    if (size > 4) size = 4;
    int n = (int)utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &c);
    if (n <= 0) return utf8_begins(text, size) ? -1 : 0;
    *code = (uint32_t)c;
    return n;
}

size_t qkv_utf8_length(const char *text, size_t size) {
    if (!text) return 0;
    uint32_t code;
    int n = qkv_utf8_scan(text, size, &code);
    return n > 0 ? (size_t)n : 0;
}

size_t qkv_utf8_write(uint32_t code, char out[4]) {
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}

size_t qkv_utf8_valid(const char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        uint64_t word;
        if (size - at >= sizeof word) { /* eight ASCII characters at a time */
            memcpy(&word, text + at, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t length = qkv_utf8_length(text + at, size - at);
        if (length == 0) break;
        at += length;
    }
    return at;
}

size_t qkv_utf8_tail(const char *text, size_t size) {
    for (size_t n = 1; n <= 3 && n <= size; n++) {
        unsigned char byte = (unsigned char)text[size - n];
        if (byte < 0x80) return 0;
        if (byte < 0xC0) continue;
        uint32_t code;
        return qkv_utf8_scan(text + size - n, n, &code) < 0 ? n : 0;
    }
    return 0;
}

size_t qkv_utf8_cut(const char *text, size_t n) {
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
    return n;
}
