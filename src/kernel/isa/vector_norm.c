/* norm.c: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019), a row at a time.
 *   y = xhat·w + b,  xhat = (x − mean)·rstd (RMSNorm: x·rstd, no b)
 *   dx = rstd·(g − mean(g) − xhat·mean(g·xhat)),  g = dy·w (RMSNorm: without mean(g));  dw = Σ dy·xhat;  db = Σ dy
 * What multiplies xhat may also be 1 + w (Gemma), or nothing (OLMo): each way is compiled for itself.
 * Sums over a row are kept in double, so they are right at any C; the variance takes a second pass. */
#include "kernel/isa/isa.h"

QKV_INLINE double row_sum(const float *x, size_t n) {
    vd sum = vd_zero();
    QKV_EACH(i, m, n, { sum = vd_add(sum, vd_from_float(vf_load_n(x + i, m))); });
    return vd_sum(sum);
}

QKV_INLINE double row_squares(const float *x, float mean, size_t n) {
    vd sum = vd_zero();
    vf means = vf_set(mean);
    QKV_EACH(i, m, n, {
        vd d = vd_from_float(vf_select(vm_first(m), vf_sub(vf_load_n(x + i, m), means), vf_zero()));
        sum = vd_fma(d, d, sum);
    });
    return vd_sum(sum);
}

/* What multiplies the normalised row. */
enum gain { GAIN_NONE, GAIN_WEIGHT, GAIN_PLUS_ONE };

/* a·gain of the columns from i on. */
QKV_INLINE vf gained(enum gain gain, vf a, const float *w, size_t i, size_t m) {
    if (gain == GAIN_NONE) return a;
    vf weight = vf_load_n(w + i, m);
    return vf_mul(a, gain == GAIN_WEIGHT ? weight : vf_add(vf_set(1.0f), weight));
}

QKV_INLINE void layernorm_rows(enum gain gain, float *y, float *mean, float *rstd, const float *x, const float *w,
                               const float *b, float eps, size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, x += C, y += C) {
        float center = (float)(row_sum(x, C) / (double)C);
        float inverse = (float)(1.0 / sqrt(row_squares(x, center, C) / (double)C + (double)eps));
        if (mean) mean[row] = center;
        if (rstd) rstd[row] = inverse;
        vf centers = vf_set(center), inverses = vf_set(inverse);
        QKV_EACH(i, m, C, {
            vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), centers), inverses);
            vf shift = b ? vf_load_n(b + i, m) : vf_zero();
            vf sum = gain == GAIN_WEIGHT ? vf_fma(xhat, vf_load_n(w + i, m), shift)
                                         : vf_add(gained(gain, xhat, w, i, m), shift);
            vf_store_n(y + i, sum, m);
        });
    }
}

QKV_INLINE void rmsnorm_rows(enum gain gain, float *y, float *rstd, const float *x, const float *w, float eps,
                             size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, x += C, y += C) {
        float inverse = (float)(1.0 / sqrt(row_squares(x, 0.0f, C) / (double)C + (double)eps));
        if (rstd) rstd[row] = inverse;
        vf inverses = vf_set(inverse);
        QKV_EACH(i, m, C, { vf_store_n(y + i, gained(gain, vf_mul(vf_load_n(x + i, m), inverses), w, i, m), m); });
    }
}

/* The sums over a row that dx needs: of g = dy·gain and of g·xhat. */
struct row_terms {
    double g, gx;
};
QKV_INLINE struct row_terms row_terms(enum gain gain, const float *dy, const float *x, const float *w, vf center,
                                      vf inverse, size_t C) {
    vd g_sum = vd_zero(), gx_sum = vd_zero();
    QKV_EACH(i, m, C, { /* lanes past the row have g = 0 */
                        vf g = gained(gain, vf_load_n(dy + i, m), w, i, m);
                        vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), center), inverse);
                        g_sum = vd_add(g_sum, vd_from_float(g));
                        gx_sum = vd_fma(vd_from_float(g), vd_from_float(xhat), gx_sum);
    });
    return (struct row_terms){vd_sum(g_sum), vd_sum(gx_sum)};
}

/* One row of all norms; RMSNorm is the case center = 0 without the mean of g. */
QKV_INLINE void row_backward(enum gain gain, float *dx, bool accumulate, float *dw, float *db, const float *dy,
                             const float *x, const float *w, float mean, float rstd, bool centered, size_t C) {
    vf center = vf_set(mean), inverse = vf_set(rstd);
    if (dx) {
        struct row_terms terms = row_terms(gain, dy, x, w, center, inverse, C);
        vf g_mean = vf_set(centered ? (float)(terms.g / (double)C) : 0.0f);
        vf gx_mean = vf_set((float)(terms.gx / (double)C));
        QKV_EACH(i, m, C, {
            vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), center), inverse);
            vf g = gained(gain, vf_load_n(dy + i, m), w, i, m);
            if (centered) g = vf_sub(g, g_mean);
            g = vf_mul(inverse, vf_fnma(xhat, gx_mean, g));
            vf_store_n(dx + i, accumulate ? vf_add(vf_load_n(dx + i, m), g) : g, m);
        });
    }
    if (dw)
        QKV_EACH(i, m, C, {
            vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), center), inverse);
            vf_store_n(dw + i, vf_fma(vf_load_n(dy + i, m), xhat, vf_load_n(dw + i, m)), m);
        });
    if (db) QKV_EACH(i, m, C, { vf_store_n(db + i, vf_add(vf_load_n(db + i, m), vf_load_n(dy + i, m)), m); });
}

QKV_INLINE void rows_backward(enum gain gain, bool centered, float *dx, bool accumulate, float *dw, float *db,
                              const float *dy, const float *x, const float *mean, const float *rstd, const float *w,
                              size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, dy += C, x += C) {
        float *out = dx ? dx + row * C : NULL;
        row_backward(gain, out, accumulate, dw, db, dy, x, w, centered ? mean[row] : 0.0f, rstd[row], centered, C);
    }
}

static enum gain gain_of(enum qkv_norm_kind kind, const float *w) {
    if (!w) return GAIN_NONE;
    return qkv_norm_plus_one(kind) ? GAIN_PLUS_ONE : GAIN_WEIGHT;
}

void QKV_K(norm_forward)(enum qkv_norm_kind kind, float *y, float *mean, float *rstd, const float *x, const float *w,
                         const float *b, float eps, size_t rows, size_t C) {
    const bool centered = qkv_norm_centered(kind);
    switch (gain_of(kind, w)) {
#define FORWARD(gain)                                                                                                  \
    case gain:                                                                                                         \
        if (centered)                                                                                                  \
            layernorm_rows(gain, y, mean, rstd, x, w, b, eps, rows, C);                                                \
        else                                                                                                           \
            rmsnorm_rows(gain, y, rstd, x, w, eps, rows, C);                                                           \
        return;
        FORWARD(GAIN_NONE)
        FORWARD(GAIN_WEIGHT)
        FORWARD(GAIN_PLUS_ONE)
    }
}

void QKV_K(norm_backward)(enum qkv_norm_kind kind, float *dx, bool accumulate, float *dw, float *db, const float *dy,
                          const float *x, const float *mean, const float *rstd, const float *w, size_t rows, size_t C) {
    const bool centered = qkv_norm_centered(kind);
    switch (gain_of(kind, w)) {
#define BACKWARD(gain)                                                                                                 \
    case gain:                                                                                                         \
        if (centered)                                                                                                  \
            rows_backward(gain, true, dx, accumulate, dw, db, dy, x, mean, rstd, w, rows, C);                          \
        else                                                                                                           \
            rows_backward(gain, false, dx, accumulate, dw, NULL, dy, x, NULL, rstd, w, rows, C);                       \
        return;
        BACKWARD(GAIN_NONE)
        BACKWARD(GAIN_WEIGHT)
        BACKWARD(GAIN_PLUS_ONE)
    }
}
