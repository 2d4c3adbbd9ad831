/* quantise_part.h: parts of blocks, whose numbers share a line: x ≈ scale · value + minimum. */
#ifndef QKV_TYPE_QUANTISE_PART_H
#define QKV_TYPE_QUANTISE_PART_H

#include "type/quantise.h"

struct qkv_line {
    float scale, minimum; /* 0 if the type has no minimums */
};

struct qkv_part {
    const struct qkv_quantiser *quantiser;
    const float *x, *weight;
    size_t n;
    float total, product; /* sums of the weights, and of the weights times x */
};

/* Sums of a part with the values that are nearest for a line: of the weights times values, times their squares, and
 * times their products with x. */
struct qkv_sums {
    float value, square, product;
};

struct qkv_part qkv_part_of(const struct qkv_quantise_block *b, size_t i);
struct qkv_sums qkv_part_sums(const struct qkv_part *p, struct qkv_line line);
/* The weighted square error of the nearest values. */
float qkv_part_error(const struct qkv_part *p, struct qkv_line line);
/* The line that reaches the extremes; and the best one that the search finds, with its sums. */
struct qkv_line qkv_part_first(const struct qkv_part *p);
struct qkv_line qkv_part_search(const struct qkv_part *p, struct qkv_sums *sums);
void qkv_part_codes(const struct qkv_part *p, struct qkv_line line, unsigned char *code);

/* 1 / scale, or 0. */
static inline float qkv_line_inverse(float scale) {
    return scale > 0x1p-120f || scale < -0x1p-120f ? 1 / scale : 0;
}

#endif
