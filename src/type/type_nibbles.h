/* type_nibbles.h: numbers of 4 bits, two a byte: byte k has number k in its lower half, number k + `bytes` in the upper
 * one. And integers of 6 bits, as q4_K and q5_K store them. */
#ifndef QKV_TYPE_NIBBLES_H
#define QKV_TYPE_NIBBLES_H

#include "type/type_half.h"

static inline void type_nibbles_store(unsigned char *out, const unsigned char *code, size_t bytes) {
    for (size_t k = 0; k < bytes; k++) out[k] = (unsigned char)((code[k] & 15) | (code[k + bytes] & 15) << 4);
}

/* Codes of 2 · bytes numbers, plus `low`. */
static inline void type_nibbles_load(signed char *code, const unsigned char *in, size_t bytes, int low) {
    for (size_t k = 0; k < bytes; k++) {
        code[k] = (signed char)((in[k] & 15) + low);
        code[k + bytes] = (signed char)((in[k] >> 4) + low);
    }
}

/* Eight scales and eight minimums of 6 bits in 12 bytes, for j < 4: byte j has scale j in its lower 6 bits, byte j + 4
 * has minimum j there; byte j + 8 has the lower 4 bits of scale j + 4 and of minimum j + 4, whose upper 2 bits are the
 * upper bits of the bytes j and j + 4. */
enum { TYPE_SIXES = 12 };

static inline void type_sixes_load(const unsigned char *in, int16_t *scales, int16_t *minimums) {
    for (size_t j = 0; j < 4; j++) {
        scales[j] = in[j] & 63;
        minimums[j] = in[j + 4] & 63;
        scales[j + 4] = (int16_t)((in[j + 8] & 15) | in[j] >> 6 << 4);
        minimums[j + 4] = (int16_t)(in[j + 8] >> 4 | in[j + 4] >> 6 << 4);
    }
}

static inline void type_sixes_store(unsigned char *out, const int *scales, const int *minimums) {
    for (size_t j = 0; j < 4; j++) {
        out[j] = (unsigned char)(scales[j] | scales[j + 4] >> 4 << 6);
        out[j + 4] = (unsigned char)(minimums[j] | minimums[j + 4] >> 4 << 6);
        out[j + 8] = (unsigned char)((scales[j + 4] & 15) | (minimums[j + 4] & 15) << 4);
    }
}

#endif
