/* type_fours.h: the 16 values that the codes of iq4_nl and iq4_xs mean: closer together where weights are many. */
#ifndef QKV_TYPE_FOURS_H
#define QKV_TYPE_FOURS_H

#include "type/quantise.h"

static const signed char type_fours[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* 32 numbers. */
static inline void type_fours_load(signed char *code, const unsigned char *in) {
    for (size_t k = 0; k < 16; k++) {
        code[k] = type_fours[in[k] & 15];
        code[k + 16] = type_fours[in[k] >> 4];
    }
}

static const struct qkv_values type_fours_values = {
    .first = -127,
    .step = {23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24},
    .middle = {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79, 101}};

#endif
