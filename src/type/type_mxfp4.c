/* mxfp4: OCP Microscaling Formats 1.0 (2023): 32 numbers of 4 bits (E2M1) and an exponent of two (E8M0), 17 bytes: the
 * exponent, then bytes that hold the numbers k and k + 16 in their lower and upper halves, as GGUF files do. An
 * exponent of 255 is NaN. */
#include "type/type.h"

#include <math.h>
#include <string.h>

enum { NUMBERS = 32, BYTES = 1 + NUMBERS / 2, BIAS = 127, NOT_A_NUMBER = 255 };

static const float mxfp4_values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* 2^(exponent - BIAS): E8M0 and floats have the same bias. */
static float mxfp4_scale(unsigned exponent) {
    const uint32_t bits = exponent ? (uint32_t)exponent << 23 : UINT32_C(1) << 22;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return exponent == NOT_A_NUMBER ? NAN : scale;
}

/* The exponent of finite x > 0 with the bias; 0 if x is subnormal. */
static int mxfp4_exponent(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 23);
}

static void mxfp4_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float scale = mxfp4_scale(block[0]);
        for (size_t k = 0; k < NUMBERS / 2; k++) {
            out[i + k] = mxfp4_values[block[1 + k] & 15] * scale;
            out[i + k + NUMBERS / 2] = mxfp4_values[block[1 + k] >> 4] * scale;
        }
    }
}

/* The nearest of the eight magnitudes, ties to the one whose last bit is 0. */
static unsigned mxfp4_nearest(float x) {
    static const float middles[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    const float magnitude = fabsf(x);
    unsigned number = 0;
    while (number < 7 && (magnitude > middles[number] || (magnitude == middles[number] && number % 2))) number++;
    return number | (signbit(x) ? 8 : 0);
}

/* The exponent is that of the block's largest magnitude, less 2, the exponent of 4, as section 6.3 of the standard
 * says. */
static void mxfp4_from_float(void *out, const float *in, size_t n) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        float largest = 0;
        bool finite = true;
        for (size_t k = 0; k < NUMBERS; k++) {
            if (fabsf(in[i + k]) > largest) largest = fabsf(in[i + k]);
            finite = finite && isfinite(in[i + k]);
        }
        const int exponent = largest > 0 && finite ? mxfp4_exponent(largest) - 2 : 0;
        block[0] = (unsigned char)(!finite ? NOT_A_NUMBER : exponent < 0 ? 0 : exponent);
        for (size_t k = 0; k < NUMBERS / 2 && finite; k++) {
            const float scale = mxfp4_scale(block[0]);
            block[1 + k] =
                (unsigned char)(mxfp4_nearest(in[i + k] / scale) | mxfp4_nearest(in[i + k + NUMBERS / 2] / scale) << 4);
        }
        for (size_t k = 0; k < NUMBERS / 2 && !finite; k++) block[1 + k] = 0;
    }
}

const struct qkv_type qkv_type_mxfp4 = {.name = "mxfp4",
                                        .help = "4.25 bits: blocks of 32 numbers of 4 bits with an exponent",
                                        .safetensors = NULL,
                                        .gguf = 39,
                                        .kind = QKV_CLASS_BLOCKS,
                                        .block = NUMBERS,
                                        .bytes = BYTES,
                                        .weights = true,
                                        .to_float = mxfp4_to_float,
                                        .from_float = mxfp4_from_float};
