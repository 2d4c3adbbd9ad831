/* dtype: sizes of element types and their conversion to and from float, element by element, from unaligned memory.
 * f16 is IEEE 754 binary16; bf16 is the upper half of a binary32; f8_e4m3 is OFP8 E4M3 (2023), whose largest number
 * is 448. */
#include <math.h>
#include <string.h>

#include "base/base.h"

size_t qkv_dtype_size(enum qkv_dtype dtype) {
    switch (dtype) {
    case QKV_I8:
    case QKV_U8:
    case QKV_BOOL:
    case QKV_F8_E4M3:
        return 1;
    case QKV_F16:
    case QKV_BF16:
    case QKV_I16:
    case QKV_U16:
        return 2;
    case QKV_F32:
    case QKV_I32:
    case QKV_U32:
        return 4;
    case QKV_F64:
    case QKV_I64:
    case QKV_U64:
        return 8;
    case QKV_DTYPE_COUNT:
        break;
    }
    return 0;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* An integer addition changes the exponent's bias from 15 to 127; infinities and NaN need it twice, and an exact
 * subtraction normalizes subnormals. Selections instead of branches let the compiler vectorize loops. */
static float from_f16(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
    uint32_t normal = magnitude + ((127u - 15u) << 23), special = normal + ((128u - 16u) << 23);
    uint32_t tiny = bits_of(float_of(normal + (1u << 23)) - 0x1p-14f);
    uint32_t bits = exponent == 0x0f800000 ? special : exponent == 0 ? tiny : normal;
    return float_of(bits | (uint32_t)(half & 0x8000) << 16);
}

static uint16_t to_f16(float x) {
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x3ff); /* quiet, with the upper bits of the payload */
        /* 2^16 and more; smaller values that round up to it carry over below */
    } else if (magnitude >= 0x47800000) {
        half = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below 2^-14: adding 2^-1 makes the float unit round at 2^-24 */
        half = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
    } else {
        uint32_t odd = magnitude >> 13 & 1;
        half = (magnitude - ((127u - 15u) << 23) + 0xfff + odd) >> 13;
    }
    return (uint16_t)(sign | half);
}

static float from_bf16(uint16_t half) {
    return float_of((uint32_t)half << 16);
}

static uint16_t to_bf16(float x) {
    uint32_t bits = bits_of(x), odd = bits >> 16 & 1;
    uint32_t rounded = (bits + 0x7fff + odd) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static float from_f8_e4m3(uint8_t byte) {
    const uint32_t magnitude = byte & 0x7f, sign = (uint32_t)(byte & 0x80) << 24;
    const uint32_t normal = (magnitude << 20) + ((127u - 7u) << 23), tiny = bits_of((float)magnitude * 0x1p-9f);
    const uint32_t bits = magnitude == 0x7f ? 0x7fc00000 : magnitude < 8 ? tiny : normal;
    return float_of(bits | sign);
}

/* Values that are too large become NaN. */
static uint8_t to_f8_e4m3(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    uint32_t byte;
    if (magnitude >= 0x43f00000) { /* 480, the number after 448 if there were one */
        byte = 0x7f;
    } else if (magnitude < 0x3c800000) { /* below 2^-6: adding 2^14 makes the float unit round at 2^-9 */
        byte = bits_of(float_of(magnitude) + 0x1p14f) - bits_of(0x1p14f);
    } else {
        const uint32_t odd = magnitude >> 20 & 1;
        byte = (magnitude - ((127u - 7u) << 23) + 0x7ffff + odd) >> 20;
    }
    return (uint8_t)(sign | byte);
}

/* The nearest integer (ties to even) within [low, high]; 0 for NaN. The bounds are compared as floats: every float
 * strictly between them converts safely. */
static int64_t to_signed(float x, int64_t low, int64_t high) {
    if (isnan(x)) return 0;
    float rounded = rintf(x);
    return rounded <= (float)low ? low : rounded >= (float)high ? high : (int64_t)rounded;
}

static uint64_t to_unsigned(float x, uint64_t high) {
    if (isnan(x)) return 0;
    float rounded = rintf(x);
    return rounded <= 0 ? 0 : rounded >= (float)high ? high : (uint64_t)rounded;
}

#define FROM_LOOP(type, expression)                                                                                    \
    do {                                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type v;                                                                                                    \
            memcpy(&v, bytes + i * sizeof v, sizeof v);                                                                \
            out[i] = (expression);                                                                                     \
        }                                                                                                              \
    } while (0)

void qkv_to_float(float *out, const void *in, enum qkv_dtype dtype, size_t n) {
    const unsigned char *bytes = in;
    switch (dtype) {
    case QKV_F32:
        if (n) memcpy(out, in, n * sizeof *out);
        return;
    case QKV_F16:
        FROM_LOOP(uint16_t, from_f16(v));
        return;
    case QKV_BF16:
        FROM_LOOP(uint16_t, from_bf16(v));
        return;
    case QKV_F64:
        FROM_LOOP(double, (float)v);
        return;
    case QKV_I8:
        FROM_LOOP(int8_t, (float)v);
        return;
    case QKV_U8:
        FROM_LOOP(uint8_t, (float)v);
        return;
    case QKV_I16:
        FROM_LOOP(int16_t, (float)v);
        return;
    case QKV_U16:
        FROM_LOOP(uint16_t, (float)v);
        return;
    case QKV_I32:
        FROM_LOOP(int32_t, (float)v);
        return;
    case QKV_U32:
        FROM_LOOP(uint32_t, (float)v);
        return;
    case QKV_I64:
        FROM_LOOP(int64_t, (float)v);
        return;
    case QKV_U64:
        FROM_LOOP(uint64_t, (float)v);
        return;
    case QKV_BOOL:
        FROM_LOOP(uint8_t, v ? 1.0f : 0.0f);
        return;
    case QKV_F8_E4M3:
        FROM_LOOP(uint8_t, from_f8_e4m3(v));
        return;
    case QKV_DTYPE_COUNT:
        break;
    }
    if (n) memset(out, 0, n * sizeof *out);
}

#define TO_LOOP(type, expression)                                                                                      \
    do {                                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            float x = in[i];                                                                                           \
            type v = (type)(expression);                                                                               \
            memcpy(bytes + i * sizeof v, &v, sizeof v);                                                                \
        }                                                                                                              \
    } while (0)

void qkv_from_float(void *out, const float *in, enum qkv_dtype dtype, size_t n) {
    unsigned char *bytes = out;
    switch (dtype) {
    case QKV_F32:
        if (n) memcpy(out, in, n * sizeof *in);
        return;
    case QKV_F16:
        TO_LOOP(uint16_t, to_f16(x));
        return;
    case QKV_BF16:
        TO_LOOP(uint16_t, to_bf16(x));
        return;
    case QKV_F64:
        TO_LOOP(double, x);
        return;
    case QKV_I8:
        TO_LOOP(int8_t, to_signed(x, INT8_MIN, INT8_MAX));
        return;
    case QKV_U8:
        TO_LOOP(uint8_t, to_unsigned(x, UINT8_MAX));
        return;
    case QKV_I16:
        TO_LOOP(int16_t, to_signed(x, INT16_MIN, INT16_MAX));
        return;
    case QKV_U16:
        TO_LOOP(uint16_t, to_unsigned(x, UINT16_MAX));
        return;
    case QKV_I32:
        TO_LOOP(int32_t, to_signed(x, INT32_MIN, INT32_MAX));
        return;
    case QKV_U32:
        TO_LOOP(uint32_t, to_unsigned(x, UINT32_MAX));
        return;
    case QKV_I64:
        TO_LOOP(int64_t, to_signed(x, INT64_MIN, INT64_MAX));
        return;
    case QKV_U64:
        TO_LOOP(uint64_t, to_unsigned(x, UINT64_MAX));
        return;
    case QKV_BOOL:
        TO_LOOP(uint8_t, x != 0); /* NaN is not 0 */
        return;
    case QKV_F8_E4M3:
        TO_LOOP(uint8_t, to_f8_e4m3(x));
        return;
    case QKV_DTYPE_COUNT:
        break;
    }
}

/* ---- arrays ---------------------------------------------------------------------------------------------------- */

size_t qkv_array_elements(const struct qkv_array *array) {
    if (!array) return 0;
    size_t elements = 1;
    for (int i = 0; i < array->rank; i++) qkv_multiply(elements, array->shape[i], &elements);
    return elements;
}

void qkv_array_floats(const struct qkv_array *array, float *out) {
    if (!array || !out) return;
    qkv_to_float(out, array->data, array->dtype, qkv_array_elements(array));
}
