/* Bytes and characters: the byte alphabet of byte-level vocabularies (Radford et al. 2019, "Language models are
 * unsupervised multitask learners": bytes_to_unicode), and strict UTF-8 (RFC 3629; The Unicode Standard, table 3-7). */
#include "text/text.h"

#include <string.h>

uint32_t qkv_byte_symbol(unsigned char byte) {
    if (byte <= 32) return 256U + byte;
    if (byte >= 127 && byte <= 160) return 256U + 33U + (byte - 127U);
    if (byte == 173) return 256U + 33U + 34U;
    return byte;
}

int qkv_symbol_byte(uint32_t code) {
    if (code < 256) return qkv_byte_symbol((unsigned char)code) == code ? (int)code : -1;
    if (code <= 256 + 32) return (int)code - 256;
    if (code <= 256 + 33 + 33) return (int)code - 256 - 33 + 127;
    return code == 256 + 33 + 34 ? 173 : -1;
}

int qkv_utf8_scan(const char *text, size_t size, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)text;
    if (size == 0) return -1;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    int length = s[0] >= 0xC2 && s[0] < 0xE0   ? 2
                 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                               : 0;
    if (length == 0) return 0;
    /* The second byte rules out overlong forms, surrogates and what lies past U+10FFFF. */
    unsigned low = s[0] == 0xE0 ? 0xA0U : s[0] == 0xF0 ? 0x90U : 0x80U;
    unsigned high = s[0] == 0xED ? 0x9FU : s[0] == 0xF4 ? 0x8FU : 0xBFU;
    uint32_t value = s[0] & (0xFFU >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= size) return -1;
        if (s[i] < low || s[i] > high) return 0;
        value = value << 6 | (s[i] & 0x3FU);
        low = 0x80;
        high = 0xBF;
    }
    *code = value;
    return length;
}

size_t qkv_utf8_write(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80U | (code & 0x3FU));
    out[0] = (char)((0xF00U >> length & 0xFFU) | code);
    return length;
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
        uint32_t code;
        int length = qkv_utf8_scan(text + at, size - at, &code);
        if (length <= 0) break;
        at += (size_t)length;
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
