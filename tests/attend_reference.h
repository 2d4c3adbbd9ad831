/* attend_reference.h: attention and its gradient in double precision, as plain loops over all pairs, and random
 * cases for them. It needs no test framework, so small static programs can use it, too. */
#ifndef QKV_ATTEND_REFERENCE_H
#define QKV_ATTEND_REFERENCE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard_page.h"
#include "kernel/kernel.h"

/* The tensors of a case; outputs come last. */
enum attend_tensor {
    ATTEND_Q,
    ATTEND_K,
    ATTEND_V,
    ATTEND_PAST_K,
    ATTEND_PAST_V,
    ATTEND_DY,
    ATTEND_Y,
    ATTEND_DQ,
    ATTEND_DK,
    ATTEND_DV,
    ATTEND_DPAST_K,
    ATTEND_DPAST_V,
    ATTEND_TENSORS
};

/* One case with all its memory. The tensors are views of buffers that may have gaps. */
struct attend_case {
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    void *buffer[ATTEND_TENSORS];
    size_t elements[ATTEND_TENSORS];
    float *lse, *dlse, *bias, *attention_bias, *sinks;
    uint8_t *mask;
    size_t addend_floats;
    int32_t *lo, *hi, *position;
    char text[400];
};

struct attend_extras { /* what a case has beside the plain formula */
    bool mask, attention_bias, past, halves;
    bool bf16; /* tensors are fp32 or bf16 */
};

/* Zeros in front of a page that nobody may touch; freed with guard_page_free. */
static inline void *attend_memory(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) abort();
    return guard_page_new(count * size);
}

static inline size_t attend_uniform(struct qkv_random *random, size_t low, size_t high) {
    return low + (size_t)qkv_random_below(random, high - low + 1);
}

static inline bool attend_chance(struct qkv_random *random, double p) {
    return qkv_random_uniform(random) < p;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static inline void *attend_place(const struct qkv_heads *x, size_t b, size_t i, size_t h, size_t d) {
    size_t at = b * x->batch_stride + i * x->row_stride + h * x->head_stride + d;
    return (char *)x->data + at * (x->dtype == QKV_F32 ? sizeof(float) : qkv_type_size(x->dtype));
}

static inline float attend_get(const struct qkv_heads *x, size_t b, size_t i, size_t h, size_t d) {
    const void *at = attend_place(x, b, i, h, d);
    float value;
    if (x->dtype == QKV_F32) return *(const float *)at;
    qkv_to_float(&value, at, x->dtype, 1);
    return value;
}

static inline void attend_set(const struct qkv_heads *x, size_t b, size_t i, size_t h, size_t d, float value) {
    qkv_from_float(attend_place(x, b, i, h, d), &value, x->dtype, 1);
}

static inline struct qkv_heads *attend_tensor(struct attend_case *c, size_t which) {
    struct qkv_attend *a = &c->a;
    struct qkv_attend_gradients *g = &c->g;
    struct qkv_heads *all[] = {&a->q, &a->k,  &a->v,  &a->past_k, &a->past_v,  &g->dy,
                               &a->y, &g->dq, &g->dk, &g->dv,     &g->dpast_k, &g->dpast_v};
    return all[which];
}

struct attend_shape { /* of one tensor: (B,T,heads,channels) */
    size_t T, heads, channels;
};

static inline struct attend_shape attend_shape_of(const struct qkv_attend *a, size_t which) {
    bool queries = which == ATTEND_Q || which == ATTEND_Y || which == ATTEND_DY || which == ATTEND_DQ;
    bool keys = which == ATTEND_K || which == ATTEND_V || which == ATTEND_DK || which == ATTEND_DV;
    bool wide = which == ATTEND_Y || which == ATTEND_DY || which == ATTEND_V || which == ATTEND_DV ||
                which == ATTEND_PAST_V || which == ATTEND_DPAST_V;
    return (struct attend_shape){queries ? a->Tq
                                 : keys  ? a->Tk - a->past
                                         : a->past,
                                 queries ? a->H : a->Hkv, wide ? a->Dv : a->D};
}

/* Key j, or value j, of all keys. */
static inline double attend_key(const struct qkv_attend *a, size_t b, size_t j, size_t n, size_t d) {
    return (double)(j < a->past ? attend_get(&a->past_k, b, j, n, d) : attend_get(&a->k, b, j - a->past, n, d));
}
static inline double attend_value(const struct qkv_attend *a, size_t b, size_t j, size_t n, size_t d) {
    return (double)(j < a->past ? attend_get(&a->past_v, b, j, n, d) : attend_get(&a->v, b, j - a->past, n, d));
}

static inline size_t attend_pair(const struct qkv_pairs *x, size_t b, size_t h, size_t i, size_t j) {
    return b * x->batch_stride + h * x->head_stride + i * x->row_stride + j;
}

static inline int64_t attend_bias_at(const struct qkv_attend *a, size_t b, size_t h, size_t i, size_t j) {
    return (int64_t)(h * a->distance_bias.row + a->distance_bias.zero + j) - a->position[b * a->Tq + i];
}

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static inline double attend_keep(const struct qkv_attend *a, size_t b, size_t h, size_t i, size_t j) {
    if (!(a->dropout > 0)) return 1;
    uint64_t e = ((uint64_t)(b * a->H + h) * a->Tq + i) * a->Tk + j;
    uint32_t counter[2] = {(uint32_t)(e / 2), (uint32_t)(e / 2 >> 32)}, word[2];
    qkv_threefry(a->key, counter, word);
    return (double)word[e % 2] >= floor((double)a->dropout * 4294967296.0) ? 1 / (1 - (double)a->dropout) : 0;
}

static inline bool attend_may(const struct qkv_attend *a, size_t b, size_t h, size_t i, size_t j) {
    size_t row = b * a->Tq + i;
    if ((int64_t)j < a->lo[row] || (int64_t)j >= a->hi[row]) return false;
    if (a->mask && j >= a->Tk - a->mask_strides.missing) return false;
    if (a->attention_bias && j >= a->Tk - a->attention_bias_strides.missing) return false;
    if (a->mask && !a->mask[attend_pair(&a->mask_strides, b, h, i, j)]) return false;
    return !(a->attention_bias && a->attention_bias[attend_pair(&a->attention_bias_strides, b, h, i, j)] == -INFINITY);
}

static inline bool attend_may_any(const struct qkv_attend *a, size_t b, size_t h, size_t i) {
    for (size_t j = 0; j < a->Tk; j++)
        if (attend_may(a, b, h, i, j)) return true;
    return false;
}

/* Returns a pair at a stage before the weights; scores are masked as in the library. `slope`: its derivative by the
 * product; `bound`, if not NULL: the possible error of fp32 arithmetic. */
static inline double attend_stage(const struct qkv_attend *a, enum qkv_attention_stage stage, size_t b, size_t h,
                                  size_t i, size_t j, double *slope, double *bound) {
    double s = 0, c = (double)a->softcap, size = 0, scale = (double)a->scale;
    for (size_t d = 0; d < a->D; d++) {
        double term = (double)attend_get(&a->q, b, i, h, d) * attend_key(a, b, j, h / (a->H / a->Hkv), d);
        s += term;
        size += fabs(term);
    }
    s *= scale;
    *slope = scale;
    if (bound) *bound = (2 * (double)a->D + 8) * 0x1p-24 * fabs(scale) * size;
    if (stage == QKV_ATTENTION_PRODUCTS) return s;
    if (c > 0) {
        double t = tanh(s / c);
        s = c * t;
        *slope *= 1 - t * t;
        if (bound) *bound += 2e-6 * c;
    }
    if (stage == QKV_ATTENTION_CAPPED) return s;
    if (!attend_may(a, b, h, i, j)) return -INFINITY;
    double bias = a->distance_bias.table ? (double)a->distance_bias.table[attend_bias_at(a, b, h, i, j)] : 0;
    double attention_bias =
        a->attention_bias ? (double)a->attention_bias[attend_pair(&a->attention_bias_strides, b, h, i, j)] : 0;
    if (bound) *bound += 0x1p-22 * (fabs(s) + fabs(bias) + fabs(attention_bias));
    return s + bias + attention_bias;
}

/* Weights of one row before dropout; returns its log-sum-exp, in which its sink is. */
static inline double attend_row(const struct qkv_attend *a, size_t b, size_t h, size_t i, double *p, double *slope) {
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < a->Tk; j++) {
        p[j] = -INFINITY;
        if (attend_may(a, b, h, i, j)) p[j] = attend_stage(a, QKV_ATTENTION_SCORES, b, h, i, j, &slope[j], NULL);
        if (p[j] > top) top = p[j];
    }
    const bool sink = a->sinks && top > -INFINITY;
    if (sink && top < (double)a->sinks[h]) top = (double)a->sinks[h];
    for (size_t j = 0; j < a->Tk; j++) sum += p[j] = p[j] == -INFINITY ? 0 : exp(p[j] - top);
    if (sink) sum += exp((double)a->sinks[h] - top);
    for (size_t j = 0; j < a->Tk && sum > 0; j++) p[j] /= sum;
    return top + log(sum);
}

/* y (B,H,Tq,Dv) and, where dy is given, the gradients dq (B,H,Tq,D), dk (B,Hkv,Tk,D), dv (B,Hkv,Tk,Dv) of all keys, and
 * dattention_bias (addend_floats), ddistance_bias (B,H,row), dsinks (B,H), all plain. */
struct attend_answer {
    double *y, *lse, *dq, *dk, *dv, *dattention_bias, *ddistance_bias, *dsinks;
};

/* Σ dy·y of a row minus the gradient of its lse. Backward reads y as it is stored, so y may be rounded. */
static inline double attend_delta(const struct attend_case *c, size_t b, size_t h, size_t i, const double *y) {
    double delta = 0;
    for (size_t d = 0; d < c->a.Dv; d++)
        delta += (double)attend_get(&c->g.dy, b, i, h, d) *
                 (c->a.y.dtype == QKV_F32 ? y[d] : (double)attend_get(&c->a.y, b, i, h, d));
    if (c->g.dlse) delta -= (double)c->g.dlse[(b * c->a.H + h) * c->a.Tq + i];
    return delta;
}

static inline void attend_row_gradient(const struct attend_case *c, size_t b, size_t h, size_t i, const double *p,
                                       const double *slope, struct attend_answer *out) {
    const struct qkv_attend *a = &c->a;
    size_t n = h / (a->H / a->Hkv), row = (b * a->H + h) * a->Tq + i;
    double delta = attend_delta(c, b, h, i, out->y + row * a->Dv);
    if (a->sinks && out->lse[row] > -INFINITY)
        out->dsinks[b * a->H + h] -= exp((double)a->sinks[h] - out->lse[row]) * delta;
    for (size_t j = 0; j < a->Tk; j++) {
        if (!attend_may(a, b, h, i, j)) continue;
        double *dk = out->dk + ((b * a->Hkv + n) * a->Tk + j) * a->D;
        double *dv = out->dv + ((b * a->Hkv + n) * a->Tk + j) * a->Dv;
        double dp = 0, keep = attend_keep(a, b, h, i, j);
        for (size_t d = 0; d < a->Dv; d++) {
            double g = (double)attend_get(&c->g.dy, b, i, h, d);
            dp += keep * g * attend_value(a, b, j, n, d);
            dv[d] += p[j] * keep * g;
        }
        double ds = p[j] * (dp - delta);
        if (a->distance_bias.table)
            out->ddistance_bias[b * a->H * a->distance_bias.row + (size_t)attend_bias_at(a, b, h, i, j)] += ds;
        if (c->g.dattention_bias) out->dattention_bias[attend_pair(&a->attention_bias_strides, b, h, i, j)] += ds;
        for (size_t d = 0; d < a->D; d++) {
            out->dq[row * a->D + d] += ds * slope[j] * attend_key(a, b, j, n, d);
            dk[d] += ds * slope[j] * (double)attend_get(&a->q, b, i, h, d);
        }
    }
}

static inline void attend_reference(const struct attend_case *c, bool backward, struct attend_answer *out) {
    const struct qkv_attend *a = &c->a;
    size_t queries = a->B * a->H * a->Tq, keys = a->B * a->Hkv * a->Tk;
    out->y = attend_memory(queries * a->Dv, sizeof(double));
    out->lse = attend_memory(queries, sizeof(double));
    out->dq = attend_memory(queries * a->D, sizeof(double));
    out->dk = attend_memory(keys * a->D, sizeof(double));
    out->dv = attend_memory(keys * a->Dv, sizeof(double));
    out->dattention_bias = attend_memory(c->addend_floats, sizeof(double));
    out->ddistance_bias = attend_memory(a->B * a->H * a->distance_bias.row, sizeof(double));
    out->dsinks = attend_memory(a->B * a->H, sizeof(double));
    double *p = attend_memory(a->Tk, sizeof(double)), *slope = attend_memory(a->Tk, sizeof(double));
    for (size_t row = 0; row < queries; row++) {
        size_t i = row % a->Tq, h = row / a->Tq % a->H, b = row / a->Tq / a->H;
        out->lse[row] = attend_row(a, b, h, i, p, slope);
        for (size_t j = 0; j < a->Tk; j++) {
            if (!(p[j] > 0)) continue;
            double w = p[j] * attend_keep(a, b, h, i, j);
            for (size_t d = 0; d < a->Dv; d++)
                out->y[row * a->Dv + d] += w * attend_value(a, b, j, h / (a->H / a->Hkv), d);
        }
        if (backward) attend_row_gradient(c, b, h, i, p, slope, out);
    }
    guard_page_free(p), guard_page_free(slope);
}

static inline void attend_answer_free(struct attend_answer *out) {
    guard_page_free(out->y), guard_page_free(out->lse), guard_page_free(out->dq), guard_page_free(out->dk),
        guard_page_free(out->dv), guard_page_free(out->dattention_bias), guard_page_free(out->ddistance_bias),
        guard_page_free(out->dsinks);
}

/* ---- random cases ----------------------------------------------------------------------------------------------- */

/* A buffer of N(0,1) for (B,T,heads,channels), in one of several layouts; gaps hold NaN, and outputs 7. */
static inline void attend_view(struct attend_case *c, struct qkv_random *random, size_t which, enum qkv_dtype dtype,
                               size_t layout) {
    struct attend_shape s = attend_shape_of(&c->a, which);
    size_t gap = layout == 2 ? attend_uniform(random, 1, 5) : 0, wide = s.channels + gap, B = c->a.B;
    struct qkv_heads x = {.dtype = dtype};
    float nothing = NAN;
    c->elements[which] = B * s.T * s.heads * wide + (layout == 3 ? B * s.T * 7 : 0);
    x.data = c->buffer[which] = attend_memory(c->elements[which], qkv_type_size(dtype));
    x.row_stride = layout == 1 ? wide : s.heads * wide + (layout == 3 ? 7 : 0);
    x.head_stride = layout == 1 ? s.T * wide : wide;
    x.batch_stride = s.T * s.heads * wide + (layout == 3 ? s.T * 7 : 0);
    for (size_t i = 0; i < c->elements[which]; i++)
        qkv_from_float((char *)x.data + i * qkv_type_size(dtype), &nothing, dtype, 1);
    for (size_t r = 0; r < B * s.T * s.heads; r++)
        for (size_t d = 0; d < s.channels; d++)
            attend_set(&x, r / s.heads / s.T, r / s.heads % s.T, r % s.heads, d,
                       which < ATTEND_Y ? (float)qkv_random_normal(random) : 7.0f);
    *attend_tensor(c, which) = x;
}

/* Intervals: 0 full, 1 causal, 2 window, 3 padding, 4 anything (empty and out of range too). */
static inline void attend_intervals(struct attend_case *c, struct qkv_random *random, size_t kind) {
    struct qkv_attend *a = &c->a;
    size_t window = attend_uniform(random, 1, 20);
    for (size_t b = 0; b < a->B; b++) {
        int32_t length = (int32_t)attend_uniform(random, 0, a->Tk), offset = (int32_t)a->Tk - (int32_t)a->Tq;
        for (size_t i = 0; i < a->Tq; i++) {
            size_t at = b * a->Tq + i;
            int32_t self = (int32_t)i + offset;
            c->position[at] = self;
            c->lo[at] = kind == 2 ? self - (int32_t)window + 1 : 0;
            c->hi[at] = kind == 0 ? (int32_t)a->Tk : kind == 3 ? length : self + 1;
            if (kind == 2 && b % 2) c->hi[at] = self + (int32_t)window;
            if (kind != 4) continue;
            c->lo[at] = (int32_t)attend_uniform(random, 0, a->Tk + 10) - 5;
            c->hi[at] = c->lo[at] + (int32_t)attend_uniform(random, 0, a->Tk / 2 + 10) - 5;
            if (attend_chance(random, 0.02)) c->lo[at] = INT32_MIN;
            if (attend_chance(random, 0.02)) c->hi[at] = INT32_MAX;
        }
    }
}

static inline void attend_case_bias(struct attend_case *c, struct qkv_random *random) {
    struct qkv_attend *a = &c->a;
    a->distance_bias.zero = a->Tk + 1; /* positions lie in (−Tq, Tk) and keys in [0, Tk) */
    a->distance_bias.row = a->Tk + a->Tq + a->distance_bias.zero + 1;
    a->distance_bias.table = c->bias = attend_memory(a->H * a->distance_bias.row, sizeof(float));
    for (size_t i = 0; i < a->H * a->distance_bias.row; i++) c->bias[i] = (float)qkv_random_normal(random);
    a->position = c->position;
    c->g.ddistance_bias = attend_memory(a->B * a->H * a->distance_bias.row, sizeof(float));
    for (size_t i = 0; i < a->B * a->H * a->distance_bias.row; i++) c->g.ddistance_bias[i] = 7;
}

static inline void attend_case_sinks(struct attend_case *c, struct qkv_random *random) {
    struct qkv_attend *a = &c->a;
    a->sinks = c->sinks = attend_memory(a->H, sizeof(float));
    c->g.dsinks = attend_memory(a->B * a->H, sizeof(float));
    for (size_t h = 0; h < a->H; h++) c->sinks[h] = (float)(3 * qkv_random_normal(random));
    for (size_t i = 0; i < a->B * a->H; i++) c->g.dsinks[i] = 7;
}

/* Strides for each pair, some of them 0, of all keys or of the first ones. Rows begin at multiples of *run; *count
 * is the number of elements. */
static inline struct qkv_pairs attend_pairs(const struct qkv_attend *a, struct qkv_random *random, size_t *run,
                                            size_t *count) {
    struct qkv_pairs x = {.missing = attend_chance(random, 0.2) ? attend_uniform(random, 0, a->Tk) : 0};
    const size_t step = a->Tk - x.missing + attend_uniform(random, 0, 3);
    *count = *run = step;
    if (attend_chance(random, 0.6)) x.row_stride = step, *count *= a->Tq;
    if (attend_chance(random, 0.5)) x.head_stride = *count, *count *= a->H;
    if (attend_chance(random, 0.5)) x.batch_stride = *count, *count *= a->B;
    return x;
}

/* For each run of Tk: whether it is masked as a whole; for each key: whether it is masked for all queries; else
 * random. */
static inline bool attend_masked(struct qkv_random *random, const uint8_t *keys, bool row, size_t j, double density) {
    return row || keys[j] || !attend_chance(random, density);
}

static inline void attend_case_dense(struct attend_case *c, struct qkv_random *random, struct attend_extras extras) {
    struct qkv_attend *a = &c->a;
    const double densities[] = {0.05, 0.5, 0.9, 1}, density = densities[attend_uniform(random, 0, 3)];
    const double lost = attend_chance(random, 0.5) ? 0.3 : 0;
    uint8_t *keys = attend_memory(a->Tk, 1);
    size_t run, count;
    bool row = false, masks = attend_chance(random, 0.6);
    for (size_t j = 0; j < a->Tk; j++) keys[j] = attend_chance(random, lost);
    if (extras.mask) {
        a->mask_strides = attend_pairs(a, random, &run, &count);
        a->mask = c->mask = attend_memory(count, 1);
        for (size_t e = 0; e < count; e++) {
            if (e % run == 0) row = attend_chance(random, 0.1);
            if (e % run >= a->Tk - a->mask_strides.missing || !attend_masked(random, keys, row, e % run, density))
                c->mask[e] = (uint8_t)attend_uniform(random, 1, 255);
        }
    }
    if (extras.attention_bias) {
        a->attention_bias_strides = attend_pairs(a, random, &run, &c->addend_floats);
        a->attention_bias = c->attention_bias = attend_memory(c->addend_floats, sizeof(float));
        c->g.dattention_bias = attend_memory(c->addend_floats, sizeof(float));
        for (size_t e = 0; e < c->addend_floats; e++) {
            if (e % run == 0) row = masks && attend_chance(random, 0.1);
            bool gap = e % run >= a->Tk - a->attention_bias_strides.missing;
            bool never = !gap && masks && attend_masked(random, keys, row, e % run, density);
            c->attention_bias[e] = gap ? NAN : never ? -INFINITY : (float)qkv_random_normal(random);
            c->g.dattention_bias[e] = gap ? NAN : 7;
        }
    }
    guard_page_free(keys);
}

static inline void attend_case_dlse(struct attend_case *c, struct qkv_random *random) {
    if (!attend_chance(random, 0.3)) return;
    c->g.dlse = c->dlse = attend_memory(c->a.B * c->a.H * c->a.Tq, sizeof(float));
    for (size_t row = 0; row < c->a.B * c->a.H * c->a.Tq; row++) c->dlse[row] = (float)qkv_random_normal(random);
}

/* Shapes are filled in; makes everything else. */
static inline void attend_case_fill(struct attend_case *c, struct qkv_random *random, size_t kind,
                                    struct attend_extras extras) {
    struct qkv_attend *a = &c->a;
    a->past = extras.past ? attend_uniform(random, 0, a->Tk) : 0;
    c->position = attend_memory(a->B * a->Tq, sizeof(int32_t));
    a->lo = c->lo = attend_memory(a->B * a->Tq, sizeof(int32_t));
    a->hi = c->hi = attend_memory(a->B * a->Tq, sizeof(int32_t));
    a->lse = c->lse = attend_memory(a->B * a->H * a->Tq, sizeof(float));
    attend_intervals(c, random, kind);
    for (size_t i = 0; i < ATTEND_TENSORS; i++) {
        static const enum qkv_dtype dtypes[] = {QKV_F32, QKV_F32, QKV_BF16, QKV_F16};
        const size_t dtype = extras.halves ? attend_uniform(random, 0, 3)
                             : extras.bf16 ? attend_uniform(random, 1, 2)
                                           : 0;
        attend_view(c, random, i, dtypes[dtype], attend_uniform(random, 0, 3));
    }
    attend_case_dlse(c, random);
    attend_case_dense(c, random, extras);
    int at =
        snprintf(c->text, sizeof c->text,
                 "B %zu H %zu Hkv %zu Tq %zu Tk %zu past %zu D %zu Dv %zu kind %zu scale %g softcap %g dropout %g "
                 "add %d mask %d attention_bias %d dlse %d dtypes ",
                 a->B, a->H, a->Hkv, a->Tq, a->Tk, a->past, a->D, a->Dv, kind, (double)a->scale, (double)a->softcap,
                 (double)a->dropout, c->g.accumulate, extras.mask, extras.attention_bias, c->dlse != NULL);
    for (size_t i = 0; i < ATTEND_TENSORS; i++) c->text[at + (int)i] = "fhb"[attend_tensor(c, i)->dtype];
}

static inline void attend_case_random(struct attend_case *c, struct qkv_random *random, bool halves) {
    memset(c, 0, sizeof *c);
    struct qkv_attend *a = &c->a;
    static const size_t common[] = {1, 4, 8, 16, 24, 32, 64, 80};
    bool large = attend_chance(random, 0.1);
    a->B = attend_uniform(random, 1, 3);
    a->Hkv = attend_uniform(random, 1, 3);
    a->H = a->Hkv * attend_uniform(random, 1, 4);
    a->Tq = attend_uniform(random, attend_chance(random, 0.05) ? 0 : 1, large ? 150 : 20);
    a->Tk = attend_uniform(random, attend_chance(random, 0.05) ? 0 : 1, large ? 300 : 40);
    if (attend_chance(random, 0.3)) a->Tk = a->Tq;
    a->D = attend_chance(random, 0.5) ? common[attend_uniform(random, 0, 7)] : attend_uniform(random, 1, 40);
    a->Dv = attend_chance(random, 0.5) ? a->D : attend_uniform(random, 1, 40);
    a->scale = (float)(1 / sqrt((double)a->D));
    if (attend_chance(random, 0.1)) a->scale *= -3;
    if (attend_chance(random, 0.3)) a->softcap = (float)(0.5 + 2 * qkv_random_uniform(random));
    if (attend_chance(random, 0.3)) a->dropout = (float)(0.6 * qkv_random_uniform(random));
    a->key[0] = (uint32_t)qkv_random_bits(random), a->key[1] = (uint32_t)qkv_random_bits(random);
    c->g.accumulate = attend_chance(random, 0.3);
    const bool sinks = attend_chance(random, 0.3);
    bool bias = attend_chance(random, 0.3);
    struct attend_extras extras = {attend_chance(random, 0.4), attend_chance(random, 0.4), attend_chance(random, 0.4),
                                   halves && attend_chance(random, 0.4), false};
    attend_case_fill(c, random, attend_uniform(random, 0, 4), extras);
    if (bias) attend_case_bias(c, random);
    if (bias) strcat(c->text, " with bias");
    if (sinks) attend_case_sinks(c, random);
    if (sinks) strcat(c->text, " with sinks");
}

static inline void attend_case_free(struct attend_case *c) {
    for (size_t i = 0; i < ATTEND_TENSORS; i++) guard_page_free(c->buffer[i]);
    guard_page_free(c->lse), guard_page_free(c->dlse), guard_page_free(c->bias), guard_page_free(c->lo),
        guard_page_free(c->hi), guard_page_free(c->position);
    guard_page_free(c->mask), guard_page_free(c->attention_bias), guard_page_free(c->g.dattention_bias);
    guard_page_free(c->sinks), guard_page_free(c->g.ddistance_bias), guard_page_free(c->g.dsinks);
}

#endif
