/* quantise: blocks, their weights, and the integers that their parts' scales become. */
#include "type/quantise_part.h"
#include "type/type_half.h"

#include <float.h>
#include <math.h>

/* Rounds of a search: integers for the best d so far, then the best d for these integers. Integers up to COARSE are far
 * apart, and the nearest values change with them: their neighbours are tried. */
enum { ROUNDS = 3, COARSE = 12 };

/* What a number of the block becomes in f16; and stored at an address. */
static float quantise_half(const struct qkv_quantise_block *b, float x) {
    return type_half_read(type_half_write(x * b->unit)) / b->unit;
}

static float quantise_store(const struct qkv_quantise_block *b, unsigned char *at, float x) {
    type_half_store(at, x * b->unit);
    return type_half_load(at) / b->unit;
}

static size_t quantise_parts(const struct qkv_quantise_block *b, struct qkv_part *parts) {
    const size_t count = b->type->block / b->quantiser->part;
    for (size_t i = 0; i < count; i++) parts[i] = qkv_part_of(b, i);
    return count;
}

void qkv_quantise_part(struct qkv_quantise_block *b, unsigned char *scale, unsigned char *minimum) {
    const struct qkv_part p = qkv_part_of(b, 0);
    struct qkv_sums s;
    struct qkv_line line = qkv_part_search(&p, &s);
    const float exact = line.scale;
    line.scale = quantise_store(b, scale, exact);
    if (minimum) /* the best one for the scale in f16 */
        line.minimum = quantise_store(b, minimum, line.minimum + (exact - line.scale) * s.value / p.total);
    qkv_part_codes(&p, line, b->code);
}

/* The nearest integer in [low, high]; low for NaN. */
static int quantise_integer(float x, int low, int high) {
    return x > (float)low ? x < (float)high ? (int)(x + (x < 0 ? -0.5f : 0.5f)) : high : low;
}

/* ---- parts with scales ------------------------------------------------------------------------------------------- */

struct scales {
    float d, error;
    int scale[QKV_PARTS_MAX];
};

/* The integer of a part whose scale is best for the values that the sums are of. */
static int quantise_scale(const struct qkv_part *p, struct qkv_sums s, float d, int low, int high, float *error) {
    const float scale = s.square > 0 ? s.product / s.square : 0;
    const int middle = quantise_integer(scale * qkv_line_inverse(d), low, high);
    int best = middle;
    *error = qkv_part_error(p, (struct qkv_line){d * (float)middle, 0});
    if (middle > COARSE || middle < -COARSE) return best;
    for (int k = middle - 1; k <= middle + 1; k += 2) {
        if (k < low || k > high) continue;
        const float e = qkv_part_error(p, (struct qkv_line){d * (float)k, 0});
        if (e < *error) *error = e, best = k;
    }
    return best;
}

/* Chooses the integers for a d, from the sums of the parts, which become those of the new scales. Returns a better d
 * for these integers and sums. */
static float quantise_choose_scales(const struct qkv_part *parts, size_t count, struct qkv_sums *sums,
                                    struct scales *chosen, int low, int high) {
    float square = 0, product = 0, error;
    chosen->error = 0;
    for (size_t i = 0; i < count; i++) {
        const int k = quantise_scale(&parts[i], sums[i], chosen->d, low, high, &error);
        chosen->scale[i] = k;
        chosen->error += error;
        sums[i] = qkv_part_sums(&parts[i], (struct qkv_line){chosen->d * (float)k, 0});
        square += (float)k * (float)k * sums[i].square;
        product += (float)k * sums[i].product;
    }
    return square > 0 ? product / square : chosen->d;
}

void qkv_quantise_scales(struct qkv_quantise_block *b, int low, int high, unsigned char *d, int *scales) {
    struct qkv_part parts[QKV_PARTS_MAX];
    struct qkv_sums found[QKV_PARTS_MAX], sums[QKV_PARTS_MAX];
    struct scales best = {.error = INFINITY}, next;
    const size_t count = quantise_parts(b, parts);
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        const float scale = qkv_part_search(&parts[i], &found[i]).scale;
        if (fabsf(scale) > fabsf(largest)) largest = scale;
    }
    for (int first = 0; first < 2; first++) { /* the largest scale is the first integer, or the second one */
        memcpy(sums, found, sizeof sums);
        next.d = quantise_half(b, largest / (float)(low + first));
        for (int round = 0; round < ROUNDS; round++) {
            const float d_next = quantise_choose_scales(parts, count, sums, &next, low, high);
            if (next.error < best.error) best = next;
            next.d = quantise_half(b, d_next);
        }
    }
    best.d = quantise_store(b, d, best.error < INFINITY ? best.d : NAN); /* too large for f16 */
    for (size_t i = 0; i < count; i++) {
        scales[i] = best.scale[i];
        qkv_part_codes(&parts[i], (struct qkv_line){best.d * (float)scales[i], 0}, b->code + i * parts[i].n);
    }
}

/* ---- parts with scales and minimums ------------------------------------------------------------------------------ */

struct lines {
    float d, dmin, error;
    int scale[QKV_PARTS_MAX], minimum[QKV_PARTS_MAX];
};

/* The minimum that is best for the values that the sums are of, with a scale. */
static int quantise_minimum(const struct qkv_part *p, struct qkv_sums s, float scale, float dmin, int high) {
    return quantise_integer(p->total > 0 ? (scale * s.value - p->product) / p->total * qkv_line_inverse(dmin) : 0, 0,
                            high);
}

/* As quantise_scale: the scale, and the best minimum with it. */
static void quantise_line(const struct qkv_part *p, struct qkv_sums s, struct lines *all, size_t i, int high) {
    const float spread = p->total * s.square - s.value * s.value;
    const float scale = spread > 0 ? (p->total * s.product - p->product * s.value) / spread : 0;
    const int middle = quantise_integer(scale * qkv_line_inverse(all->d), 0, high);
    const bool fine = middle > COARSE;
    float least = INFINITY;
    all->scale[i] = middle, all->minimum[i] = 0;
    for (int k = middle - 1; k <= middle + 1; k++) {
        if (k < 0 || k > high) continue;
        const float d = all->d * (float)k;
        int m = quantise_minimum(p, s, d, all->dmin, high);
        float offset = all->dmin * (float)m, error;
        if (fine) {
            error = d * d * s.square - 2 * d * s.product - 2 * d * offset * s.value + 2 * offset * p->product +
                    offset * offset * p->total;
        } else {
            const struct qkv_sums now = qkv_part_sums(p, (struct qkv_line){d, -offset});
            m = quantise_minimum(p, now, d, all->dmin, high);
            offset = all->dmin * (float)m;
            error = qkv_part_error(p, (struct qkv_line){d, -offset});
        }
        if (error < least) least = error, all->scale[i] = k, all->minimum[i] = m;
    }
    const struct qkv_line line = {all->d * (float)all->scale[i], -all->dmin * (float)all->minimum[i]};
    all->error += fine ? qkv_part_error(p, line) : least;
}

/* As quantise_choose_scales: sets `next` to a better d and dmin, in f16. */
static void quantise_choose_lines(const struct qkv_quantise_block *b, const struct qkv_part *parts, size_t count,
                                  struct qkv_sums *sums, struct lines *chosen, int high, struct lines *next) {
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0; /* x = d · a − dmin · b */
    chosen->error = 0;
    for (size_t i = 0; i < count; i++) {
        quantise_line(&parts[i], sums[i], chosen, i, high);
        const float k = (float)chosen->scale[i], m = (float)chosen->minimum[i];
        const struct qkv_line line = {chosen->d * k, -chosen->dmin * m};
        sums[i] = qkv_part_sums(&parts[i], line);
        aa += k * k * sums[i].square, ab += k * m * sums[i].value, bb += m * m * parts[i].total;
        xa += k * sums[i].product, xb += m * parts[i].product;
    }
    const float spread = aa * bb - ab * ab;
    *next = *chosen;
    if (spread > 1e-6f * aa * bb) {
        next->d = (xa * bb - xb * ab) / spread;
        next->dmin = (xa * ab - xb * aa) / spread;
    } else if (aa > 0) {
        next->d = (xa + chosen->dmin * ab) / aa;
    }
    next->d = quantise_half(b, next->d);
    next->dmin = quantise_half(b, next->dmin > 0 ? next->dmin : 0);
}

void qkv_quantise_lines(struct qkv_quantise_block *b, int high, unsigned char *d, unsigned char *dmin, int *scales,
                        int *minimums) {
    struct qkv_part parts[QKV_PARTS_MAX];
    struct qkv_sums found[QKV_PARTS_MAX], sums[QKV_PARTS_MAX];
    const size_t count = quantise_parts(b, parts);
    float scale = 0, least = INFINITY, minimum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct qkv_line line = qkv_part_search(&parts[i], &found[i]);
        if (line.scale > scale) scale = line.scale;
        if (line.scale < least) least = line.scale;
        if (-line.minimum > minimum) minimum = -line.minimum;
    }
    struct lines best = {.error = INFINITY}, chosen, next;
    /* If scales differ much, some are small integers: several d are tried. */
    const int starts = 5 * least < scale ? 4 : 1;
    for (int start = 0; start < starts; start++) {
        memcpy(sums, found, sizeof sums);
        chosen.d = quantise_half(b, scale / (float)(high - start * high / 16));
        chosen.dmin = quantise_half(b, minimum / (float)high);
        for (int round = 0; round < ROUNDS; round++, chosen = next) {
            quantise_choose_lines(b, parts, count, sums, &chosen, high, &next);
            if (chosen.error < best.error) best = chosen;
        }
    }
    best.d = quantise_store(b, d, best.error < INFINITY ? best.d : NAN);
    best.dmin = quantise_store(b, dmin, best.dmin);
    for (size_t i = 0; i < count; i++) {
        scales[i] = best.scale[i], minimums[i] = best.minimum[i];
        const struct qkv_line line = {best.d * (float)scales[i], -best.dmin * (float)minimums[i]};
        qkv_part_codes(&parts[i], line, b->code + i * parts[i].n);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Copies the numbers, in units of a power of two; false if one of them is not finite. */
static bool quantise_begin(struct qkv_quantise_block *b, const float *in) {
    const size_t n = b->type->block;
    float largest = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        largest = fabsf(in[i]) > largest ? fabsf(in[i]) : largest;
        finite = finite && isfinite(in[i]);
    }
    const uint32_t exponent = type_bits(largest) >> 23, low = 27, high = 227; /* 2^-100 … 2^100 */
    b->unit = type_float((exponent < low ? low : exponent > high ? high : exponent) << 23);
    for (size_t i = 0; i < n && finite; i++) b->x[i] = in[i] / b->unit;
    return finite;
}

/* The weights of the square errors without importance; see quantise.h. */
static void quantise_own_weights(struct qkv_quantise_block *b) {
    struct qkv_part parts[QKV_PARTS_MAX];
    struct qkv_line first[QKV_PARTS_MAX];
    const size_t n = b->type->block, count = n / b->quantiser->part;
    float plain = 0, weighted = 0, squares = 0;
    for (size_t i = 0; i < n; i++) b->weight[i] = 1;
    quantise_parts(b, parts);
    for (size_t i = 0; i < count; i++) {
        first[i] = qkv_part_first(&parts[i]);
        plain += qkv_part_error(&parts[i], first[i]);
    }
    for (size_t i = 0; i < n; i++) squares += b->weight[i] = b->x[i] * b->x[i];
    for (size_t i = 0; i < count; i++) weighted += qkv_part_error(&parts[i], first[i]);
    const float mean = plain > 0 ? sqrtf(weighted / plain * squares / (float)n) : 1;
    for (size_t i = 0; i < n; i++) b->weight[i] += b->quantiser->emphasis * mean;
}

/* Importance over its largest number, and a little more, so that numbers without importance are not forgotten; times
 * the root of the weights without it. */
static void quantise_weights(struct qkv_quantise_block *b, const float *importance) {
    const size_t n = b->type->block;
    float share[QKV_TYPE_BLOCK_MAX], largest = 0;
    for (size_t i = 0; i < n; i++) {
        share[i] = !(importance[i] > 0) ? 0 : importance[i] < FLT_MAX ? importance[i] : FLT_MAX;
        if (share[i] > largest) largest = share[i];
    }
    quantise_own_weights(b);
    for (size_t i = 0; i < n; i++)
        b->weight[i] = sqrtf(b->weight[i]) * ((largest > 0 ? share[i] / largest : 0) + 0x1p-20f);
}

void qkv_quantise(const struct qkv_type *type, void *out, const float *in, size_t n, const float *importance) {
    struct qkv_quantise_block b = {.type = type, .quantiser = type->quantiser};
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += type->block, block += type->bytes) {
        memset(block, 0, type->bytes);
        if (!quantise_begin(&b, in + i)) {
            type_half_store(block + b.quantiser->scale, NAN);
            continue;
        }
        if (importance)
            quantise_weights(&b, importance + i);
        else
            quantise_own_weights(&b);
        b.quantiser->write(block, &b);
    }
}
