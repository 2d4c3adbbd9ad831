/* attention_formula.h: attention and its gradient by definition, in double precision, with all T×T matrices. It
 * shares nothing with the library: masks are conditions on a pair (i, j), not intervals. */
#ifndef QKV_ATTENTION_FORMULA_H
#define QKV_ATTENTION_FORMULA_H

#include "test.h"

#include <math.h>

struct formula { /* arrays are packed, heads first */
    size_t B, H, Hkv, Tq, Tk, D, Dv;
    double *q, *k, *v, *dy; /* (B,H,Tq,D), (B,Hkv,Tk,D), (B,Hkv,Tk,Dv), (B,H,Tq,Dv) */
    double *dlse;           /* (B,H,Tq) */
    double scale, softcap;
    bool *open;                    /* (B,H,Tq,Tk) */
    double *attention_bias, *keep; /* (B,H,Tq,Tk): ALiBi and bias; what dropout multiplies the weight by */
    double *y, *lse;               /* out: (B,H,Tq,Dv), (B,H,Tq) */
    double *products, *capped, *scores, *weights, *dscores; /* out: (B,H,Tq,Tk) */
    double *dq, *dk, *dv;                                   /* out */
};

static inline double *formula_doubles(size_t n) {
    double *x = calloc(n + 1, sizeof *x);
    if (!x) abort();
    return x;
}

static inline void formula_start(struct formula *f) {
    size_t pairs = f->B * f->H * f->Tq * f->Tk, queries = f->B * f->H * f->Tq, keys = f->B * f->Hkv * f->Tk;
    f->q = formula_doubles(queries * f->D), f->dq = formula_doubles(queries * f->D);
    f->k = formula_doubles(keys * f->D), f->dk = formula_doubles(keys * f->D);
    f->v = formula_doubles(keys * f->Dv), f->dv = formula_doubles(keys * f->Dv);
    f->y = formula_doubles(queries * f->Dv), f->dy = formula_doubles(queries * f->Dv);
    f->lse = formula_doubles(queries), f->dlse = formula_doubles(queries);
    f->open = calloc(pairs + 1, sizeof *f->open);
    double **each[] = {&f->attention_bias, &f->keep, &f->products, &f->capped, &f->scores, &f->weights, &f->dscores};
    for (size_t i = 0; i < TEST_COUNT(each); i++) *each[i] = formula_doubles(pairs);
    for (size_t p = 0; p < pairs; p++) f->open[p] = true, f->keep[p] = 1;
}

static inline void formula_free(struct formula *f) {
    double *each[] = {f->q,  f->k,   f->v,        f->dy,     f->attention_bias, f->keep,    f->y,       f->dq,  f->dk,
                      f->dv, f->lse, f->products, f->capped, f->scores,         f->weights, f->dscores, f->dlse};
    for (size_t i = 0; i < TEST_COUNT(each); i++) free(each[i]);
    free(f->open);
}

static inline size_t formula_pair(const struct formula *f, size_t b, size_t h, size_t i, size_t j) {
    return ((b * f->H + h) * f->Tq + i) * f->Tk + j;
}

/* One row: from products to weights and y. */
static inline void formula_row(struct formula *f, size_t b, size_t h, size_t i) {
    size_t row = (b * f->H + h) * f->Tq + i, kv = b * f->Hkv + h / (f->H / f->Hkv);
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < f->Tk; j++) {
        size_t p = row * f->Tk + j;
        double s = 0;
        for (size_t d = 0; d < f->D; d++) s += f->q[row * f->D + d] * f->k[(kv * f->Tk + j) * f->D + d];
        f->products[p] = s *= f->scale;
        f->capped[p] = s = f->softcap > 0 ? f->softcap * tanh(s / f->softcap) : s;
        f->scores[p] = f->open[p] ? s + f->attention_bias[p] : -INFINITY;
        if (f->scores[p] > top) top = f->scores[p];
    }
    for (size_t j = 0; j < f->Tk; j++)
        sum += f->weights[row * f->Tk + j] = top == -INFINITY ? 0 : exp(f->scores[row * f->Tk + j] - top);
    f->lse[row] = sum > 0 ? top + log(sum) : -INFINITY;
    for (size_t j = 0; j < f->Tk && sum > 0; j++) {
        size_t p = row * f->Tk + j;
        f->weights[p] /= sum;
        if (f->weights[p] == 0) continue;
        for (size_t c = 0; c < f->Dv; c++)
            f->y[row * f->Dv + c] += f->weights[p] * f->keep[p] * f->v[(kv * f->Tk + j) * f->Dv + c];
    }
}

/* dP = (dY·Vᵀ)∘M, dS = P∘(dP − Σ P∘dP + dlse), and through the softcap to q and k. */
static inline void formula_row_back(struct formula *f, size_t b, size_t h, size_t i) {
    size_t row = (b * f->H + h) * f->Tq + i, kv = b * f->Hkv + h / (f->H / f->Hkv);
    double mean = 0;
    for (size_t j = 0; j < f->Tk; j++) {
        size_t p = row * f->Tk + j, key = kv * f->Tk + j;
        double dp = 0;
        if (f->weights[p] == 0) continue;
        for (size_t c = 0; c < f->Dv; c++) {
            dp += f->dy[row * f->Dv + c] * f->v[key * f->Dv + c];
            f->dv[key * f->Dv + c] += f->weights[p] * f->keep[p] * f->dy[row * f->Dv + c];
        }
        f->dscores[p] = dp * f->keep[p];
        mean += f->weights[p] * f->dscores[p];
    }
    for (size_t j = 0; j < f->Tk; j++) {
        size_t p = row * f->Tk + j, key = kv * f->Tk + j;
        if (f->weights[p] == 0) continue;
        f->dscores[p] = f->weights[p] * (f->dscores[p] - mean + f->dlse[row]);
        double slope = f->softcap > 0 ? 1 - pow(f->capped[p] / f->softcap, 2) : 1, g = f->dscores[p] * slope * f->scale;
        for (size_t d = 0; d < f->D; d++) {
            f->dq[row * f->D + d] += g * f->k[key * f->D + d];
            f->dk[key * f->D + d] += g * f->q[row * f->D + d];
        }
    }
}

static inline void formula_run(struct formula *f) {
    for (size_t row = 0; row < f->B * f->H * f->Tq; row++) {
        formula_row(f, row / f->Tq / f->H, row / f->Tq % f->H, row % f->Tq);
        formula_row_back(f, row / f->Tq / f->H, row / f->Tq % f->H, row % f->Tq);
    }
}

/* ---- views as plain arrays -------------------------------------------------------------------------------------- */

static inline unsigned char *formula_at(const struct qkv_view *v, size_t element) {
    size_t d = element % v->D, t = element / v->D % v->T, h = element / v->D / v->T % v->H,
           b = element / v->D / v->T / v->H;
    return (unsigned char *)v->data + (b * v->batch + h * v->head + t * v->row + d) * (v->dtype == QKV_F32 ? 4 : 2);
}

/* The number of binary16 with these bits. */
static inline double formula_half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double x = exponent == 0    ? ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                : ldexp(1024 + mantissa, exponent - 25);
    return bits >> 15 ? -x : x;
}

/* The bits of the nearest number of binary16, half away from zero; what is too large becomes the largest. */
static inline uint16_t formula_half_bits(double x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    uint16_t low = 0, high = 0x7bff;
    if (isnan(x)) return 0x7e00;
    while (low < high) { /* the least whose middle to the next one is above |x| */
        uint16_t middle = (uint16_t)((low + high) / 2);
        if ((formula_half(middle) + formula_half((uint16_t)(middle + 1))) / 2 > fabs(x))
            high = middle;
        else
            low = (uint16_t)(middle + 1);
    }
    return sign | low;
}

/* Element e of a view, heads first. */
static inline double formula_get(const struct qkv_view *v, size_t e) {
    const unsigned char *at = formula_at(v, e);
    float x = 0;
    uint32_t bits = 0;
    uint16_t half;
    if (v->dtype == QKV_F32) {
        memcpy(&x, at, 4);
    } else {
        memcpy(&half, at, 2);
        if (v->dtype == QKV_F16) return formula_half(half);
        bits = (uint32_t)half << 16;
        memcpy(&x, &bits, 4);
    }
    return (double)x;
}

/* Stores a number, cut to bf16 or f16 by rounding half away where the view holds such; returns what was stored. */
static inline double formula_set(const struct qkv_view *v, size_t e, double number) {
    unsigned char *at = formula_at(v, e);
    float x = (float)number;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (v->dtype == QKV_F32) {
        memcpy(at, &x, 4);
    } else {
        uint16_t half = (uint16_t)((bits + (isnan(number) ? 0 : 0x8000u)) >> 16);
        if (v->dtype == QKV_F16) half = formula_half_bits(number);
        memcpy(at, &half, 2);
    }
    return formula_get(v, e);
}

static inline size_t formula_elements(const struct qkv_view *v) {
    return v->B * v->H * v->T * v->D;
}

/* The gradients of a backward that reads y as it is stored, in bf16 or f16: Σ P∘dP is dY·y of that y. Call it after
 * formula_run. */
static inline void formula_back_from(struct formula *f, const struct qkv_view *y) {
    const size_t queries = f->B * f->H * f->Tq, keys = f->B * f->Hkv * f->Tk;
    for (size_t e = 0; e < queries * f->Dv; e++) f->dlse[e / f->Dv] -= f->dy[e] * (formula_get(y, e) - f->y[e]);
    memset(f->y, 0, queries * f->Dv * sizeof *f->y);
    memset(f->dq, 0, queries * f->D * sizeof *f->dq);
    memset(f->dk, 0, keys * f->D * sizeof *f->dk);
    memset(f->dv, 0, keys * f->Dv * sizeof *f->dv);
    formula_run(f);
}

/* |view − expected − offset| / |expected|, where |expected| counts as at least floor·√n. */
static inline double formula_error(const struct qkv_view *v, const double *expected, double offset, double floor) {
    double difference = 0, norm = 0;
    size_t n = formula_elements(v);
    for (size_t e = 0; e < n; e++) {
        double d = formula_get(v, e) - offset - expected[e];
        if (isnan(d)) return INFINITY;
        difference += d * d;
        norm += expected[e] * expected[e];
    }
    return sqrt(difference / (norm + floor * floor * (double)n + 1e-30));
}

#endif
