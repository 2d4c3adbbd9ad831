/* type_unpack.h: blocks as integers, for types whose blocks the kernel tables read with the instructions of each
 * (kernel/isa/unpack.c, codes.c). The files of the types describe the blocks. And any such block as fp32. */
#ifndef QKV_TYPE_UNPACK_H
#define QKV_TYPE_UNPACK_H

#include "type/type_nibbles.h"

enum { TYPE_Q4_K_SIXES = 4, TYPE_Q4_K_CODES = TYPE_Q4_K_SIXES + TYPE_SIXES };
enum { TYPE_Q5_K_FIFTH = 4 + TYPE_SIXES, TYPE_Q5_K_CODES = TYPE_Q5_K_FIFTH + 32 };
enum { TYPE_Q6_K_HIGH = 128, TYPE_Q6_K_SCALES = TYPE_Q6_K_HIGH + 64, TYPE_Q6_K_D = TYPE_Q6_K_SCALES + 16 };

static inline void type_q8_0_read(struct qkv_codes *out, const unsigned char *block) {
    type_codes_one(out, block);
    memcpy(out->code, block + 2, 32);
}

static inline void type_q4_0_read(struct qkv_codes *out, const unsigned char *block) {
    type_codes_one(out, block);
    type_nibbles_load(out->code, block + 2, 16, -8);
}

/* d, dmin, and the scales and minimums of q4_K and q5_K. */
static inline void type_sixes_read(struct qkv_codes *out, const unsigned char *block) {
    memcpy(&out->scale, block, sizeof out->scale);
    memcpy(&out->minimum, block + 2, sizeof out->minimum);
    type_sixes_load(block + TYPE_Q4_K_SIXES, out->scales, out->minimums);
}

static inline void type_q4_K_read(struct qkv_codes *out, const unsigned char *block) {
    type_sixes_read(out, block);
    for (size_t p = 0; p < 8; p += 2) /* two parts, in the halves of the same bytes */
        type_nibbles_load(out->code + p * 32, block + TYPE_Q4_K_CODES + p / 2 * 32, 32, 0);
}

static inline void type_q5_K_read(struct qkv_codes *out, const unsigned char *block) {
    const unsigned char *fifth = block + TYPE_Q5_K_FIFTH;
    type_sixes_read(out, block);
    for (size_t p = 0; p < 8; p += 2) {
        signed char *code = out->code + p * 32;
        type_nibbles_load(code, block + TYPE_Q5_K_CODES + p / 2 * 32, 32, 0);
        for (size_t k = 0; k < 32; k++) {
            code[k] = (signed char)(code[k] | (fifth[k] >> p & 1) << 4);
            code[k + 32] = (signed char)(code[k + 32] | (fifth[k] >> (p + 1) & 1) << 4);
        }
    }
}

static inline void type_q6_K_read(struct qkv_codes *out, const unsigned char *block) {
    memcpy(&out->scale, block + TYPE_Q6_K_D, sizeof out->scale);
    for (size_t p = 0; p < 16; p++) out->scales[p] = (signed char)block[TYPE_Q6_K_SCALES + p];
    for (size_t run = 0; run < 8; run++) { /* of 32 numbers */
        const unsigned char *low = block + run / 4 * 64 + run % 2 * 32;
        const unsigned char *high = block + TYPE_Q6_K_HIGH + run / 4 * 32;
        for (size_t k = 0; k < 32; k++) {
            const int code = (low[k] >> (run % 4 / 2 * 4) & 15) | (high[k] >> (run % 4 * 2) & 3) << 4;
            out->code[run * 32 + k] = (signed char)(code - 32);
        }
    }
}

/* The numbers of a block; the arguments are those of its type. */
static inline void type_codes_floats(float *out, const struct qkv_codes *codes, size_t numbers, size_t part,
                                     bool minimum) {
    const float d = type_half_read(codes->scale), dmin = minimum ? type_half_read(codes->minimum) : 0;
    for (size_t p = 0; p * part < numbers; p++) {
        const float scale = d * (float)codes->scales[p], less = minimum ? dmin * (float)codes->minimums[p] : 0;
        for (size_t k = p * part; k < (p + 1) * part; k++)
            out[k] = minimum ? scale * (float)codes->code[k] - less : scale * (float)codes->code[k];
    }
}

/* NAME_to_float of whole blocks. */
#define TYPE_UNPACK_LOOP(name, numbers, size, part, minimum)                                                           \
    static void name##_to_float(float *out, const void *in, size_t n) {                                                \
        const unsigned char *block = in;                                                                               \
        for (size_t i = 0; i < n; i += (numbers), block += (size)) {                                                   \
            struct qkv_codes codes;                                                                                    \
            type_##name##_read(&codes, block);                                                                         \
            type_codes_floats(out + i, &codes, (numbers), (part), (minimum));                                          \
        }                                                                                                              \
    }

#endif
