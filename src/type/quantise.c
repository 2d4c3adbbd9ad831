/* quantise: the search of scales, and the blocks that it is for. */
#include "type/quantise.h"

#include "type/type_half.h"

#include <math.h>

/* Numbers are rounded so many at a time, which compilers make vectors of. */
enum { LANES = 8 };

/* x ≈ scale · value + minimum, of the nearest codes. */
struct line {
    float scale, minimum;
};

struct part { /* n numbers that share a line */
    const float *x, *weight;
    size_t n;
    const struct qkv_grid *grid;
    bool minimum; /* lines may have one */
};

static struct part part_of(const struct qkv_quantise_block *b, size_t p) {
    const size_t n = b->quantiser->part;
    return (struct part){b->x + p * n, b->weight + p * n, n, &b->quantiser->grid, b->quantiser->minimum};
}

static float inverse_of(float scale) {
    return fabsf(scale) > 0x1p-120f ? 1 / scale : 0;
}

/* ---- nearest codes ----------------------------------------------------------------------------------------------- */

/* The nearest integers in [low, high]; low for NaN. Adding 1.5 · 2^23 rounds numbers of this size, ties to even. */
static inline void nearest_integers(float *value, const float *x, float minimum, float inverse, float low, float high) {
    for (size_t l = 0; l < LANES; l++) {
        const float v = (x[l] - minimum) * inverse, above = v > low ? v : low, inside = above < high ? above : high;
        value[l] = (inside + 12582912.0f) - 12582912.0f;
    }
}

/* The nearest of 16 rising values: the first one, and the steps that lie below. */
static inline void nearest_values(float *value, const float *x, float inverse, const struct qkv_grid *grid) {
    float scaled[LANES], sum[LANES];
    for (size_t l = 0; l < LANES; l++) scaled[l] = x[l] * inverse, sum[l] = (float)grid->low;
    for (size_t k = 0; k < 15; k++) {
        const float middle = 0.5f * (float)(grid->values[k] + grid->values[k + 1]);
        const float step = (float)(grid->values[k + 1] - grid->values[k]);
        for (size_t l = 0; l < LANES; l++) sum[l] += scaled[l] > middle ? step : 0.0f;
    }
    for (size_t l = 0; l < LANES; l++) value[l] = sum[l];
}

/* The values of the codes nearest to LANES numbers. */
static inline void nearest(float *value, const float *x, struct line line, float inverse, const struct qkv_grid *grid) {
    if (grid->values)
        nearest_values(value, x, inverse, grid);
    else
        nearest_integers(value, x, line.minimum, inverse, (float)grid->low, (float)grid->high);
}

static void part_codes(const struct part *p, struct line line, unsigned char *code) {
    const float inverse = inverse_of(line.scale);
    float value[LANES];
    for (size_t i = 0; i < p->n; i++) {
        if (i % LANES == 0) nearest(value, p->x + i, line, inverse, p->grid);
        const int v = (int)value[i % LANES];
        unsigned found = 0;
        while (p->grid->values && p->grid->values[found] != v) found++;
        code[i] = (unsigned char)(p->grid->values ? (int)found : v - p->grid->low);
    }
}

/* ---- the line of a part ------------------------------------------------------------------------------------------ */

struct extremes {
    float low, high, largest; /* the number of largest magnitude, with its sign */
};

static struct extremes part_extremes(const struct part *p) {
    struct extremes e = {p->x[0], p->x[0], 0};
    for (size_t i = 0; i < p->n; i++) {
        if (p->x[i] < e.low) e.low = p->x[i];
        if (p->x[i] > e.high) e.high = p->x[i];
    }
    e.largest = -e.low > e.high ? e.low : e.high;
    return e;
}

/* The line that reaches the extremes. */
static struct line part_first(const struct part *p) {
    const struct extremes e = part_extremes(p);
    if (!p->minimum) return (struct line){e.largest / (float)p->grid->low, 0};
    const float low = e.low < 0 ? e.low : 0;
    return (struct line){(e.high - low) / (float)p->grid->high, low};
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Stores a number of the block in f16; returns what it is then. */
static float block_half(const struct qkv_quantise_block *b, unsigned char *at, float x) {
    type_half_store(at, x * b->unit);
    return type_half_load(at) / b->unit;
}

void qkv_quantise_part(struct qkv_quantise_block *b, unsigned char *scale, unsigned char *minimum) {
    const struct part p = part_of(b, 0);
    struct line line = part_first(&p);
    line.scale = block_half(b, scale, line.scale);
    if (minimum) line.minimum = block_half(b, minimum, line.minimum);
    part_codes(&p, line, b->code);
}

/* The nearest integer in [low, high]. */
static int clamped(float x, int low, int high) {
    return x > (float)low ? x < (float)high ? (int)(x + (x < 0 ? -0.5f : 0.5f)) : high : low;
}

void qkv_quantise_scales(struct qkv_quantise_block *b, int low, int high, unsigned char *d_at, int *scales) {
    const size_t parts = b->quantiser->type->block / b->quantiser->part;
    float scale[QKV_PARTS_MAX], largest = 0;
    for (size_t i = 0; i < parts; i++) {
        const struct part p = part_of(b, i);
        scale[i] = part_first(&p).scale;
        if (fabsf(scale[i]) > fabsf(largest)) largest = scale[i];
    }
    const float d = block_half(b, d_at, largest / (float)low), inverse = inverse_of(d);
    for (size_t i = 0; i < parts; i++) {
        const struct part p = part_of(b, i);
        scales[i] = clamped(scale[i] * inverse, low, high);
        part_codes(&p, (struct line){d * (float)scales[i], 0}, b->code + i * p.n);
    }
}

void qkv_quantise_lines(struct qkv_quantise_block *b, int high, unsigned char *d_at, unsigned char *dmin_at,
                        int *scales, int *minimums) {
    const size_t parts = b->quantiser->type->block / b->quantiser->part;
    struct line lines[QKV_PARTS_MAX];
    float scale = 0, minimum = 0;
    for (size_t i = 0; i < parts; i++) {
        const struct part p = part_of(b, i);
        lines[i] = part_first(&p);
        if (lines[i].scale > scale) scale = lines[i].scale;
        if (-lines[i].minimum > minimum) minimum = -lines[i].minimum;
    }
    const float d = block_half(b, d_at, scale / (float)high), dmin = block_half(b, dmin_at, minimum / (float)high);
    for (size_t i = 0; i < parts; i++) {
        const struct part p = part_of(b, i);
        scales[i] = clamped(lines[i].scale * inverse_of(d), 0, high);
        minimums[i] = clamped(-lines[i].minimum * inverse_of(dmin), 0, high);
        part_codes(&p, (struct line){d * (float)scales[i], -dmin * (float)minimums[i]}, b->code + i * p.n);
    }
}

/* 2^exponent of a normal number. */
static float power_of_two(int exponent) {
    return type_float((uint32_t)(exponent + 127) << 23);
}

/* Copies the numbers, in units of a power of two; false if one of them is not finite. */
static bool block_begin(struct qkv_quantise_block *b, const float *in) {
    const size_t n = b->quantiser->type->block;
    float largest = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        largest = fabsf(in[i]) > largest ? fabsf(in[i]) : largest;
        finite = finite && isfinite(in[i]);
    }
    const int exponent = (int)(type_bits(largest) >> 23) - 127;
    b->unit = power_of_two(exponent < -100 ? -100 : exponent > 100 ? 100 : exponent);
    for (size_t i = 0; i < n && finite; i++) b->x[i] = in[i] / b->unit;
    return finite;
}

/* The weights of the square errors; see quantise.h. */
static void block_weights(struct qkv_quantise_block *b, const float *importance) {
    const size_t n = b->quantiser->type->block;
    float largest = 0;
    for (size_t i = 0; i < n && importance; i++) largest = importance[i] > largest ? importance[i] : largest;
    for (size_t i = 0; i < n; i++) b->weight[i] = !(largest > 0) ? 1 : importance[i] > 0 ? importance[i] / largest : 0;
}

void qkv_quantise(const struct qkv_quantiser *quantiser, void *out, const float *in, size_t n,
                  const float *importance) {
    const struct qkv_type *type = quantiser->type;
    struct qkv_quantise_block b = {.quantiser = quantiser};
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += type->block, block += type->bytes) {
        memset(block, 0, type->bytes);
        if (!block_begin(&b, in + i)) {
            type_half_store(block + quantiser->scale, NAN);
            continue;
        }
        block_weights(&b, importance ? importance + i : NULL);
        quantiser->write(block, &b);
    }
}
