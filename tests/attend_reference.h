/* attend_reference.h: attention and its gradient in double precision, straightforward loops over all pairs; and random
 * cases to run it on. Needs no test framework, so that small static programs can use it too. */
#ifndef QKV_ATTEND_REFERENCE_H
#define QKV_ATTEND_REFERENCE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

/* One case with all its memory. The tensors q, k, v, y, dy, dq, dk, dv are views of float buffers that may have gaps. */
struct attend_case {
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    float *buffer[8]; /* q k v y dy dq dk dv */
    size_t floats[8];
    float *lse, *bias;
    int32_t *lo, *hi, *position;
    char text[256];
};

static inline void *attend_memory(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    if (!block) abort();
    return block;
}

static inline size_t attend_uniform(struct qkv_random *random, size_t low, size_t high) {
    return low + (size_t)qkv_random_below(random, high - low + 1);
}

static inline bool attend_chance(struct qkv_random *random, double p) {
    return qkv_random_uniform(random) < p;
}

static inline float *attend_at(const struct qkv_heads *x, size_t b, size_t i, size_t h) {
    return (float *)x->data + b * x->batch_stride + i * x->row_stride + h * x->head_stride;
}

/* ---- the reference ------------------------------------------------------------------------------------------------- */

static inline double attend_keep(const struct qkv_attend *a, size_t b, size_t h, size_t i, size_t j) {
    if (!(a->dropout > 0)) return 1;
    uint64_t e = ((uint64_t)(b * a->H + h) * a->Tq + i) * a->Tk + j;
    uint32_t counter[2] = {(uint32_t)(e / 2), (uint32_t)(e / 2 >> 32)}, word[2];
    qkv_threefry(a->key, counter, word);
    return (double)word[e % 2] >= floor((double)a->dropout * 4294967296.0) ? 1 / (1 - (double)a->dropout) : 0;
}

/* The score of one pair, and its derivative by the product. */
static inline double attend_score(const struct qkv_attend *a, size_t b, size_t h, size_t i, size_t j, double *slope) {
    const float *q = attend_at(&a->q, b, i, h), *k = attend_at(&a->k, b, j, h / (a->H / a->Hkv));
    double s = 0, c = (double)a->softcap;
    for (size_t d = 0; d < a->D; d++) s += (double)q[d] * (double)k[d];
    s *= (double)a->scale;
    *slope = (double)a->scale;
    if (c > 0) {
        double t = tanh(s / c);
        s = c * t;
        *slope *= 1 - t * t;
    }
    if (a->bias) {
        int64_t at = (int64_t)(h * a->bias_row + a->bias_zero + j) - a->position[b * a->Tq + i];
        s += (double)a->bias[at];
    }
    return s;
}

static inline void attend_interval(const struct qkv_attend *a, size_t b, size_t i, size_t *lo, size_t *hi) {
    int64_t low = a->lo[b * a->Tq + i], high = a->hi[b * a->Tq + i];
    if (low < 0) low = 0;
    if (high > (int64_t)a->Tk) high = (int64_t)a->Tk;
    *lo = low < high ? (size_t)low : 0;
    *hi = low < high ? (size_t)high : 0;
}

/* Weights of one row before dropout; returns its log-sum-exp. */
static inline double attend_row(const struct qkv_attend *a, size_t b, size_t h, size_t i, double *p, double *slope) {
    size_t lo, hi;
    attend_interval(a, b, i, &lo, &hi);
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < a->Tk; j++) p[j] = 0;
    for (size_t j = lo; j < hi; j++) {
        p[j] = attend_score(a, b, h, i, j, &slope[j]);
        if (p[j] > top) top = p[j];
    }
    for (size_t j = lo; j < hi; j++) sum += p[j] = exp(p[j] - top);
    for (size_t j = lo; j < hi; j++) p[j] /= sum;
    return top + log(sum);
}

/* y (B,H,Tq,Dv) and, where dy is given, the gradients dq (B,H,Tq,D), dk (B,Hkv,Tk,D), dv (B,Hkv,Tk,Dv), all plain. */
struct attend_answer {
    double *y, *lse, *dq, *dk, *dv;
};

static inline void attend_row_gradient(const struct qkv_attend *a, const struct qkv_heads *dy, size_t b, size_t h,
                                       size_t i, const double *p, const double *slope, struct attend_answer *out) {
    size_t n = h / (a->H / a->Hkv), row = (b * a->H + h) * a->Tq + i, lo, hi;
    attend_interval(a, b, i, &lo, &hi);
    const float *g = attend_at(dy, b, i, h), *q = attend_at(&a->q, b, i, h);
    double delta = 0;
    for (size_t j = lo; j < hi; j++) {
        const float *v = attend_at(&a->v, b, j, n);
        double w = p[j] * attend_keep(a, b, h, i, j);
        for (size_t c = 0; c < a->Dv; c++) delta += w * (double)g[c] * (double)v[c];
    }
    for (size_t j = lo; j < hi; j++) {
        const float *v = attend_at(&a->v, b, j, n), *k = attend_at(&a->k, b, j, n);
        double *dk = out->dk + ((b * a->Hkv + n) * a->Tk + j) * a->D;
        double *dv = out->dv + ((b * a->Hkv + n) * a->Tk + j) * a->Dv;
        double dp = 0, keep = attend_keep(a, b, h, i, j);
        for (size_t c = 0; c < a->Dv; c++) {
            dp += keep * (double)g[c] * (double)v[c];
            dv[c] += p[j] * keep * (double)g[c];
        }
        double ds = p[j] * (dp - delta) * slope[j];
        for (size_t d = 0; d < a->D; d++) {
            out->dq[row * a->D + d] += ds * (double)k[d];
            dk[d] += ds * (double)q[d];
        }
    }
}

static inline void attend_reference(const struct qkv_attend *a, const struct qkv_heads *dy, struct attend_answer *out) {
    size_t queries = a->B * a->H * a->Tq, keys = a->B * a->Hkv * a->Tk;
    out->y = attend_memory(queries * a->Dv, sizeof(double));
    out->lse = attend_memory(queries, sizeof(double));
    out->dq = attend_memory(queries * a->D, sizeof(double));
    out->dk = attend_memory(keys * a->D, sizeof(double));
    out->dv = attend_memory(keys * a->Dv, sizeof(double));
    double *p = attend_memory(a->Tk, sizeof(double)), *slope = attend_memory(a->Tk, sizeof(double));
    for (size_t row = 0; row < queries; row++) {
        size_t i = row % a->Tq, h = row / a->Tq % a->H, b = row / a->Tq / a->H;
        out->lse[row] = attend_row(a, b, h, i, p, slope);
        for (size_t j = 0; j < a->Tk; j++) {
            if (!(p[j] > 0)) continue;
            const float *v = attend_at(&a->v, b, j, h / (a->H / a->Hkv));
            double w = p[j] * attend_keep(a, b, h, i, j);
            for (size_t c = 0; c < a->Dv; c++) out->y[row * a->Dv + c] += w * (double)v[c];
        }
        if (dy) attend_row_gradient(a, dy, b, h, i, p, slope, out);
    }
    free(p), free(slope);
}

static inline void attend_answer_free(struct attend_answer *out) {
    free(out->y), free(out->lse), free(out->dq), free(out->dk), free(out->dv);
}

/* ---- random cases -------------------------------------------------------------------------------------------------- */

/* A buffer of N(0,1) for (B,T,heads,channels), in one of several layouts; gaps hold NaN. */
static inline struct qkv_heads attend_view(struct attend_case *c, struct qkv_random *random, size_t which, size_t B,
                                           size_t T, size_t heads, size_t channels, size_t layout, bool fill) {
    size_t gap = layout == 2 ? attend_uniform(random, 1, 5) : 0, wide = channels + gap;
    struct qkv_heads x = {0};
    c->floats[which] = B * T * heads * wide + (layout == 3 ? B * T * 7 : 0);
    x.data = c->buffer[which] = attend_memory(c->floats[which], sizeof(float));
    x.row_stride = layout == 1 ? wide : heads * wide + (layout == 3 ? 7 : 0);
    x.head_stride = layout == 1 ? T * wide : wide;
    x.batch_stride = T * heads * wide + (layout == 3 ? T * 7 : 0);
    for (size_t i = 0; i < c->floats[which]; i++) c->buffer[which][i] = NAN;
    for (size_t r = 0; r < B * T * heads; r++)
        for (size_t d = 0; d < channels; d++)
            attend_at(&x, r / heads / T, r / heads % T, r % heads)[d] = fill ? (float)qkv_random_normal(random) : 7.0f;
    return x;
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
    a->bias_zero = a->Tk + 1; /* positions lie in (−Tq, Tk) and keys in [0, Tk) */
    a->bias_row = a->Tk + a->Tq + a->bias_zero + 1;
    a->bias = c->bias = attend_memory(a->H * a->bias_row, sizeof(float));
    for (size_t i = 0; i < a->H * a->bias_row; i++) c->bias[i] = (float)qkv_random_normal(random);
    a->position = c->position;
}

/* Shapes are filled in; makes everything else. */
static inline void attend_case_fill(struct attend_case *c, struct qkv_random *random, size_t kind) {
    struct qkv_attend *a = &c->a;
    size_t layout[8];
    for (size_t i = 0; i < 8; i++) layout[i] = attend_uniform(random, 0, 3);
    c->position = attend_memory(a->B * a->Tq, sizeof(int32_t));
    a->lo = c->lo = attend_memory(a->B * a->Tq, sizeof(int32_t));
    a->hi = c->hi = attend_memory(a->B * a->Tq, sizeof(int32_t));
    a->lse = c->lse = attend_memory(a->B * a->H * a->Tq, sizeof(float));
    attend_intervals(c, random, kind);
    a->q = attend_view(c, random, 0, a->B, a->Tq, a->H, a->D, layout[0], true);
    a->k = attend_view(c, random, 1, a->B, a->Tk, a->Hkv, a->D, layout[1], true);
    a->v = attend_view(c, random, 2, a->B, a->Tk, a->Hkv, a->Dv, layout[2], true);
    a->y = attend_view(c, random, 3, a->B, a->Tq, a->H, a->Dv, layout[3], false);
    c->g.dy = attend_view(c, random, 4, a->B, a->Tq, a->H, a->Dv, layout[4], true);
    c->g.dq = attend_view(c, random, 5, a->B, a->Tq, a->H, a->D, layout[5], false);
    c->g.dk = attend_view(c, random, 6, a->B, a->Tk, a->Hkv, a->D, layout[6], false);
    c->g.dv = attend_view(c, random, 7, a->B, a->Tk, a->Hkv, a->Dv, layout[7], false);
    snprintf(c->text, sizeof c->text,
             "B %zu H %zu Hkv %zu Tq %zu Tk %zu D %zu Dv %zu mask %zu scale %g softcap %g bias %d dropout %g add %d",
             a->B, a->H, a->Hkv, a->Tq, a->Tk, a->D, a->Dv, kind, (double)a->scale, (double)a->softcap, a->bias != NULL,
             (double)a->dropout, c->g.accumulate);
}

static inline void attend_case_random(struct attend_case *c, struct qkv_random *random) {
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
    bool bias = attend_chance(random, 0.3);
    attend_case_fill(c, random, attend_uniform(random, 0, 4));
    if (bias) attend_case_bias(c, random);
    if (bias) strcat(c->text, " with bias");
}

static inline void attend_case_free(struct attend_case *c) {
    for (size_t i = 0; i < 8; i++) free(c->buffer[i]);
    free(c->lse), free(c->bias), free(c->lo), free(c->hi), free(c->position);
}

#endif
