/* type_form.h: numbers as products of integers read them: a scale in fp32, and codes of 8 bits. x = scale · code; the
 * scale is the largest magnitude over 127, and codes are rounded to the nearest integer, ties to even. Behind the scale
 * there are sums of codes, which products with other offsets than 0 and with minimums need: for each 16 codes, the sum
 * of those in the first two places of each four and of those in the other two; then the sum of each 16. */
#ifndef QKV_TYPE_FORM_H
#define QKV_TYPE_FORM_H

#include "type/type_loops.h"

#include <math.h>

/* Places in a block of n numbers, and its bytes. */
enum { TYPE_FORM_PAIRS = 4 };
#define TYPE_FORM_SUMS(n)  (TYPE_FORM_PAIRS + (n) / 4)
#define TYPE_FORM_CODES(n) (TYPE_FORM_SUMS(n) + (n) / 8)
#define TYPE_FORM_BYTES(n) (TYPE_FORM_CODES(n) + (n))

/* A block with a number that is not finite has the scale NaN. One whose numbers are all subnormal, or near it, is 0. */
static inline void type_form_block(unsigned char *out, const float *x, const size_t numbers) {
    uint32_t largest = 0;
    for (size_t k = 0; k < numbers; k++) {
        const uint32_t magnitude = type_bits(x[k]) & 0x7fffffff;
        largest = largest < magnitude ? magnitude : largest;
    }
    const bool finite = largest < 0x7f800000, some = finite && type_float(largest) >= 0x1p-118f;
    const float scale = !finite ? (float)NAN : some ? type_float(largest) / 127 : 0;
    const float inverse = some ? 127 / type_float(largest) : 0;
    signed char code[QKV_TYPE_BLOCK_MAX] = {0};
    int16_t pairs[QKV_TYPE_BLOCK_MAX / 8], sums[QKV_TYPE_BLOCK_MAX / 16];
    for (size_t k = 0; some && k < numbers; k++) /* the sum's unit is 1 */
        code[k] = (signed char)(int32_t)(type_bits(x[k] * inverse + 0x1.8p23f) - 0x4b400000u);
    for (size_t part = 0; part < numbers / 16; part++) {
        const signed char *c = code + part * 16;
        const int first = c[0] + c[1] + c[4] + c[5] + c[8] + c[9] + c[12] + c[13];
        const int second = c[2] + c[3] + c[6] + c[7] + c[10] + c[11] + c[14] + c[15];
        pairs[2 * part] = (int16_t)first;
        pairs[2 * part + 1] = (int16_t)second;
        sums[part] = (int16_t)(first + second);
    }
    memcpy(out, &scale, sizeof scale);
    memcpy(out + TYPE_FORM_PAIRS, pairs, numbers / 4);
    memcpy(out + TYPE_FORM_SUMS(numbers), sums, numbers / 8);
    memcpy(out + TYPE_FORM_CODES(numbers), code, numbers);
}

/* NAME_from_float and NAME_to_float of whole blocks. */
#define TYPE_FORM_FROM(name, numbers)                                                                                  \
    static void name##_from_float(void *out, const float *in, size_t n) {                                              \
        unsigned char *block = out;                                                                                    \
        for (size_t i = 0; i < n; i += (numbers), block += TYPE_FORM_BYTES(numbers))                                   \
            type_form_block(block, in + i, (numbers));                                                                 \
    }
#define TYPE_FORM_TO(name, numbers)                                                                                    \
    static void name##_to_float(float *out, const void *in, size_t n) {                                                \
        const unsigned char *block = in;                                                                               \
        for (size_t i = 0; i < n; i += (numbers), block += TYPE_FORM_BYTES(numbers)) {                                 \
            float scale;                                                                                               \
            memcpy(&scale, block, sizeof scale);                                                                       \
            for (size_t k = 0; k < (numbers); k++)                                                                     \
                out[i + k] = scale * (float)(signed char)block[TYPE_FORM_CODES(numbers) + k];                          \
        }                                                                                                              \
    }

#endif
