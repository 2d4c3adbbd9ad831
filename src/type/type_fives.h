/* type_fives.h: 32 numbers of 5 bits, as q5_0 and q5_1 store them: the fifth bits, number k as bit k of a word, and
 * behind this word the lower bits as type_nibbles.h has them. */
#ifndef QKV_TYPE_FIVES_H
#define QKV_TYPE_FIVES_H

#include "type/type_nibbles.h"

enum { TYPE_FIVES = 20, TYPE_FIVES_LOW = 4 };

/* Codes of 32 numbers, plus `low`. */
static inline void type_fives_load(signed char *code, const unsigned char *in, int low) {
    const unsigned char *lower = in + TYPE_FIVES_LOW;
    uint32_t high;
    memcpy(&high, in, sizeof high);
    for (size_t k = 0; k < 16; k++) {
        code[k] = (signed char)((int)((lower[k] & 15u) | (high >> k & 1) << 4) + low);
        code[k + 16] = (signed char)((int)(lower[k] >> 4u | (high >> (k + 16) & 1) << 4) + low);
    }
}

static inline void type_fives_store(unsigned char *out, const unsigned char *code) {
    uint32_t high = 0;
    for (size_t k = 0; k < 32; k++) high |= (uint32_t)(code[k] >> 4) << k;
    memcpy(out, &high, sizeof high);
    type_nibbles_store(out + TYPE_FIVES_LOW, code, 16);
}

#endif
