/* type_unpack.h: the numbers of a block, for types whose conversion the kernel tables compile again with the
 * instructions of each (kernel/isa/unpack.c). The files of the types describe the blocks. */
#ifndef QKV_TYPE_UNPACK_H
#define QKV_TYPE_UNPACK_H

#include "type/type_nibbles.h"

enum { TYPE_Q4_K_SIXES = 4, TYPE_Q4_K_CODES = TYPE_Q4_K_SIXES + TYPE_SIXES };
enum { TYPE_Q5_K_FIFTH = 4 + TYPE_SIXES, TYPE_Q5_K_CODES = TYPE_Q5_K_FIFTH + 32 };
enum { TYPE_Q6_K_HIGH = 128, TYPE_Q6_K_SCALES = TYPE_Q6_K_HIGH + 64, TYPE_Q6_K_D = TYPE_Q6_K_SCALES + 16 };

static inline void type_q8_0_unpack(float *out, const unsigned char *block) {
    const float d = type_half_load(block);
    for (size_t k = 0; k < 32; k++) out[k] = d * (float)(signed char)block[2 + k];
}

static inline void type_q4_0_unpack(float *out, const unsigned char *block) {
    const float d = type_half_load(block);
    for (size_t k = 0; k < 16; k++) {
        out[k] = d * (float)((block[2 + k] & 15) - 8);
        out[16 + k] = d * (float)((block[2 + k] >> 4) - 8);
    }
}

static inline void type_q4_K_unpack(float *out, const unsigned char *block) {
    const float d = type_half_load(block), dmin = type_half_load(block + 2);
    unsigned scales[8], minimums[8];
    type_sixes_load(block + TYPE_Q4_K_SIXES, scales, minimums);
    for (size_t p = 0; p < 8; p += 2, out += 64) { /* two parts, in the halves of the same bytes */
        const unsigned char *codes = block + TYPE_Q4_K_CODES + p / 2 * 32;
        const float low = d * (float)(int)scales[p], low_min = dmin * (float)(int)minimums[p];
        const float high = d * (float)(int)scales[p + 1], high_min = dmin * (float)(int)minimums[p + 1];
        for (size_t k = 0; k < 32; k++) out[k] = low * (float)(codes[k] & 15) - low_min;
        for (size_t k = 0; k < 32; k++) out[32 + k] = high * (float)(codes[k] >> 4) - high_min;
    }
}

static inline void type_q5_K_unpack(float *out, const unsigned char *block) {
    const float d = type_half_load(block), dmin = type_half_load(block + 2);
    const unsigned char *fifth = block + TYPE_Q5_K_FIFTH;
    unsigned scales[8], minimums[8];
    type_sixes_load(block + 4, scales, minimums);
    for (size_t p = 0; p < 8; p++, out += 32) {
        const unsigned char *codes = block + TYPE_Q5_K_CODES + p / 2 * 32;
        const float scale = d * (float)(int)scales[p], minimum = dmin * (float)(int)minimums[p];
        for (size_t k = 0; k < 32; k++) {
            const int code = (codes[k] >> (p % 2 * 4) & 15) | (fifth[k] >> p & 1) << 4;
            out[k] = scale * (float)code - minimum;
        }
    }
}

static inline void type_q6_K_unpack(float *out, const unsigned char *block) {
    const float d = type_half_load(block + TYPE_Q6_K_D);
    for (size_t p = 0; p < 16; p++, out += 16) {
        const size_t run = p % 8 / 2, from = p % 2 * 16;
        const unsigned char *low = block + p / 8 * 64 + run % 2 * 32 + from;
        const unsigned char *high = block + TYPE_Q6_K_HIGH + p / 8 * 32 + from;
        const float scale = d * (float)(signed char)block[TYPE_Q6_K_SCALES + p];
        for (size_t k = 0; k < 16; k++) {
            const int code = (low[k] >> (run / 2 * 4) & 15) | (high[k] >> (run * 2) & 3) << 4;
            out[k] = scale * (float)(code - 32);
        }
    }
}

/* NAME_to_float of whole blocks. */
#define TYPE_UNPACK_LOOP(name, numbers, size)                                                                          \
    static void name##_to_float(float *out, const void *in, size_t n) {                                                \
        const unsigned char *block = in;                                                                               \
        for (size_t i = 0; i < n; i += (numbers), block += (size)) type_##name##_unpack(out + i, block);               \
    }

#endif
