/* type_half.h: numbers of IEEE 754 binary16 as fp32, and back; the scales of blocks among them. */
#ifndef QKV_TYPE_HALF_H
#define QKV_TYPE_HALF_H

#include "type/type_loops.h"

/* The exponent's bias changes from 15 to 127 by an integer addition; infinities and NaN need it twice, and a
 * subtraction that is exact makes subnormal numbers right. Selections instead of branches, so that loops become
 * vectors. */
static inline float type_half_read(uint16_t half) {
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
    const uint32_t normal = magnitude + ((127u - 15u) << 23), special = normal + ((128u - 16u) << 23);
    const uint32_t tiny = type_bits(type_float(normal + (1u << 23)) - 0x1p-14f);
    const uint32_t bits = exponent == 0x0f800000 ? special : exponent == 0 ? tiny : normal;
    return type_float(bits | (uint32_t)(half & 0x8000) << 16);
}

static inline uint16_t type_half_write(float x) {
    const uint32_t bits = type_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x3ff); /* quiet, with what fits of the payload */
    } else if (magnitude >= 0x47800000) {          /* 2^16 and more; what rounds up to it carries over below */
        half = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below 2^-14: adding 2^-1 makes the float unit round at 2^-24 */
        half = type_bits(type_float(magnitude) + 0.5f) - 0x3f000000;
    } else {
        const uint32_t odd = magnitude >> 13 & 1;
        half = (magnitude - ((127u - 15u) << 23) + 0xfff + odd) >> 13;
    }
    return (uint16_t)(sign | half);
}

/* The same of two bytes in a block: little endian, at any address. */
static inline float type_half_load(const unsigned char *at) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return type_half_read(half);
}

/* The scale of a block that is one part. */
static inline void type_codes_one(struct qkv_codes *out, const unsigned char *scale) {
    memcpy(&out->scale, scale, sizeof out->scale);
    out->scales[0] = 1;
}

/* The number that such a block adds to all of its numbers: the minimum's negative. */
static inline void type_codes_add(struct qkv_codes *out, const unsigned char *added) {
    memcpy(&out->minimum, added, sizeof out->minimum);
    out->minimum ^= 0x8000;
    out->minimums[0] = 1;
}

static inline void type_half_store(unsigned char *at, float x) {
    const uint16_t half = type_half_write(x);
    memcpy(at, &half, sizeof half);
}

#endif
