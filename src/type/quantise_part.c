/* quantise_part: the nearest codes of a part, and the search of its line. */
#include "type/quantise_part.h"

#include <math.h>

/* Numbers are summed in so many parts: loops of a constant length become vectors. */
enum { LANES = QKV_PART_LANES };

static float part_lanes_sum(const float part[LANES]) {
    float half[LANES / 2];
    for (size_t l = 0; l < LANES / 2; l++) half[l] = part[l] + part[l + LANES / 2];
    return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
}

struct qkv_part qkv_part_of(const struct qkv_quantise_block *b, size_t i) {
    const size_t n = b->quantiser->part;
    struct qkv_part p = {.quantiser = b->quantiser, .x = b->x + i * n, .weight = b->weight + i * n, .n = n};
    float total[LANES] = {0}, product[LANES] = {0};
    for (size_t k = 0; k < n; k += LANES)
        for (size_t l = 0; l < LANES; l++) {
            total[l] += p.weight[k + l];
            product[l] += p.weight[k + l] * p.x[k + l];
        }
    p.total = part_lanes_sum(total);
    p.product = part_lanes_sum(product);
    return p;
}

/* ---- nearest values ---------------------------------------------------------------------------------------------- */

/* Integers in [low, high]; low for NaN. Adding 1.5 · 2^23 rounds numbers of this size, ties to even. */
static inline void part_nearest_integers(float *value, const float *x, struct qkv_line line, float inverse, float low,
                                         float high) {
    for (size_t l = 0; l < LANES; l++) {
        const float v = (x[l] - line.minimum) * inverse, above = v > low ? v : low;
        const float inside = above < high ? above : high;
        value[l] = (inside + 0x1.8p23f) - 0x1.8p23f;
    }
}

/* Of 16 rising values: the first one, and the steps behind whose middle x is. */
static inline void part_nearest_values(float *value, const float *x, float inverse, const struct qkv_values *values) {
    float scaled[LANES], sum[LANES];
    for (size_t l = 0; l < LANES; l++) scaled[l] = x[l] * inverse;
    for (size_t l = 0; l < LANES; l++) sum[l] = values->first;
    for (size_t k = 0; k < 15; k++) {
        const float middle = values->middle[k], step = values->step[k];
        for (size_t l = 0; l < LANES; l++) sum[l] += scaled[l] > middle ? step : 0.0f;
    }
    for (size_t l = 0; l < LANES; l++) value[l] = sum[l];
}

/* Of LANES numbers. */
static inline void part_nearest(float *value, const float *x, struct qkv_line line, float inverse,
                                const struct qkv_quantiser *q) {
    if (q->values)
        part_nearest_values(value, x, inverse, q->values);
    else
        part_nearest_integers(value, x, line, inverse, (float)q->low, (float)q->high);
}

struct qkv_sums qkv_part_sums(const struct qkv_part *p, struct qkv_line line) {
    const float inverse = qkv_line_inverse(line.scale);
    float value[LANES], sum[LANES] = {0}, square[LANES] = {0}, product[LANES] = {0};
    for (size_t i = 0; i < p->n; i += LANES) {
        part_nearest(value, p->x + i, line, inverse, p->quantiser);
        for (size_t l = 0; l < LANES; l++) {
            const float weighted = p->weight[i + l] * value[l];
            sum[l] += weighted;
            square[l] += weighted * value[l];
            product[l] += weighted * p->x[i + l];
        }
    }
    return (struct qkv_sums){part_lanes_sum(sum), part_lanes_sum(square), part_lanes_sum(product)};
}

float qkv_part_error(const struct qkv_part *p, struct qkv_line line) {
    const float inverse = qkv_line_inverse(line.scale);
    float value[LANES], error[LANES] = {0};
    for (size_t i = 0; i < p->n; i += LANES) {
        part_nearest(value, p->x + i, line, inverse, p->quantiser);
        for (size_t l = 0; l < LANES; l++) {
            const float e = p->x[i + l] - (line.scale * value[l] + line.minimum);
            error[l] += p->weight[i + l] * e * e;
        }
    }
    return part_lanes_sum(error);
}

void qkv_part_codes(const struct qkv_part *p, struct qkv_line line, unsigned char *code) {
    const struct qkv_quantiser *q = p->quantiser;
    const float inverse = qkv_line_inverse(line.scale);
    float value[LANES];
    for (size_t i = 0; i < p->n; i++) {
        if (i % LANES == 0) part_nearest(value, p->x + i, line, inverse, q);
        int found = (int)value[i % LANES] - q->low;
        if (q->values) {
            const float scaled = p->x[i] * inverse;
            for (found = 0; found < 15 && scaled > q->values->middle[found];) found++;
        }
        code[i] = (unsigned char)found;
    }
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct extremes {
    float low, high, largest; /* low: at most 0 if minimums are; largest: of largest magnitude, with its sign */
};

static struct extremes part_extremes(const struct qkv_part *p) {
    struct extremes e = {p->x[0], p->x[0], 0};
    for (size_t i = 1; i < p->n; i++) {
        if (p->x[i] < e.low) e.low = p->x[i];
        if (p->x[i] > e.high) e.high = p->x[i];
    }
    e.largest = -e.low > e.high ? e.low : e.high;
    if (p->quantiser->minimum == QKV_MINIMUM_NEGATIVE && e.low > 0) e.low = 0;
    return e;
}

/* The line that puts the extreme `reach` codes behind the last one of that side; with minimums, both of them. */
static struct qkv_line part_reaching(const struct qkv_part *p, const struct extremes *e, bool upper, float reach) {
    const struct qkv_quantiser *q = p->quantiser;
    if (q->minimum) return (struct qkv_line){(e->high - e->low) / ((float)q->high + reach), e->low};
    return (struct qkv_line){e->largest / (upper ? (float)q->high + reach : (float)q->low - reach), 0};
}

struct qkv_line qkv_part_first(const struct qkv_part *p) {
    const struct extremes e = part_extremes(p);
    return part_reaching(p, &e, false, 0);
}

/* The best line for the values that the sums are of, by weighted least squares; `gain`: the weighted squares of x that
 * it explains. */
static struct qkv_line part_fit(const struct qkv_part *p, struct qkv_sums s, float *gain) {
    struct qkv_line line = {s.square > 0 ? s.product / s.square : 0, 0};
    if (p->quantiser->minimum) {
        const float spread = p->total * s.square - s.value * s.value;
        struct qkv_line best = {0, p->total > 0 ? p->product / p->total : 0};
        if (spread > 0) {
            best.scale = (p->total * s.product - p->product * s.value) / spread;
            best.minimum = (s.square * p->product - s.value * s.product) / spread;
        }
        if (p->quantiser->minimum == QKV_MINIMUM_ANY || best.minimum <= 0) line = best;
    }
    *gain = line.scale * s.product + line.minimum * p->product;
    return line;
}

struct qkv_line qkv_part_search(const struct qkv_part *p, struct qkv_sums *sums) {
    const struct qkv_quantiser *q = p->quantiser;
    const struct extremes e = part_extremes(p);
    struct qkv_line best = {0, 0};
    float most = 0, gain;
    *sums = (struct qkv_sums){0, 0, 0};
    for (size_t side = 0; side < (q->minimum ? 1u : 2u); side++)
        for (size_t i = 0; i < q->steps; i++) {
            const float reach = q->reach * (2 * (float)i / (float)(q->steps - 1) - 1);
            const struct qkv_sums s = qkv_part_sums(p, part_reaching(p, &e, side, reach));
            const struct qkv_line line = part_fit(p, s, &gain);
            if (gain > most) most = gain, best = line, *sums = s;
        }
    for (size_t i = 0; i < q->steps; i++) { /* other values are the nearest ones for the new line */
        const struct qkv_sums s = qkv_part_sums(p, best);
        const struct qkv_line line = part_fit(p, s, &gain);
        if (!(gain > most)) break;
        most = gain, best = line, *sums = s;
    }
    return best;
}
