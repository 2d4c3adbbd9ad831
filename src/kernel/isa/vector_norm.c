/* norm.c: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019), a row at a time.
 *   y = xhat·w + b,  xhat = (x − mean)·rstd (RMSNorm: x·rstd, no b)
 *   dx = rstd·(g − mean(g) − xhat·mean(g·xhat)),  g = dy·w (RMSNorm: without mean(g));  dw = Σ dy·xhat;  db = Σ dy
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

void QKV_K(layernorm_forward)(float *y, float *mean, float *rstd, const float *x, const float *w, const float *b,
                              float eps, size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, x += C, y += C) {
        float center = (float)(row_sum(x, C) / (double)C);
        float inverse = (float)(1.0 / sqrt(row_squares(x, center, C) / (double)C + (double)eps));
        if (mean) mean[row] = center;
        if (rstd) rstd[row] = inverse;
        vf centers = vf_set(center), inverses = vf_set(inverse);
        QKV_EACH(i, m, C, {
            vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), centers), inverses);
            vf shift = b ? vf_load_n(b + i, m) : vf_zero();
            vf_store_n(y + i, vf_fma(xhat, vf_load_n(w + i, m), shift), m);
        });
    }
}

void QKV_K(rmsnorm_forward)(float *y, float *rstd, const float *x, const float *w, float eps, size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, x += C, y += C) {
        float inverse = (float)(1.0 / sqrt(row_squares(x, 0.0f, C) / (double)C + (double)eps));
        if (rstd) rstd[row] = inverse;
        vf inverses = vf_set(inverse);
        QKV_EACH(i, m, C,
                 { vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, m), inverses), vf_load_n(w + i, m)), m); });
    }
}

/* The sums over a row that dx needs: of g = dy·w and of g·xhat. */
struct row_terms {
    double g, gx;
};
QKV_INLINE struct row_terms row_terms(const float *dy, const float *x, const float *w, vf center, vf inverse,
                                      size_t C) {
    vd g_sum = vd_zero(), gx_sum = vd_zero();
    QKV_EACH(i, m, C, { /* lanes past the row have g = 0 */
                        vf g = vf_mul(vf_load_n(dy + i, m), vf_load_n(w + i, m));
                        vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), center), inverse);
                        g_sum = vd_add(g_sum, vd_from_float(g));
                        gx_sum = vd_fma(vd_from_float(g), vd_from_float(xhat), gx_sum);
    });
    return (struct row_terms){vd_sum(g_sum), vd_sum(gx_sum)};
}

/* One row of both norms; RMSNorm is the case center = 0 without the mean of g. */
QKV_INLINE void row_backward(float *dx, bool accumulate, float *dw, float *db, const float *dy, const float *x,
                             const float *w, float mean, float rstd, bool centered, size_t C) {
    vf center = vf_set(mean), inverse = vf_set(rstd);
    if (dx) {
        struct row_terms terms = row_terms(dy, x, w, center, inverse, C);
        vf g_mean = vf_set(centered ? (float)(terms.g / (double)C) : 0.0f);
        vf gx_mean = vf_set((float)(terms.gx / (double)C));
        QKV_EACH(i, m, C, {
            vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), center), inverse);
            vf g = vf_mul(vf_load_n(dy + i, m), vf_load_n(w + i, m));
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

void QKV_K(layernorm_backward)(float *dx, bool accumulate, float *dw, float *db, const float *dy, const float *x,
                               const float *mean, const float *rstd, const float *w, size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, dy += C, x += C) {
        row_backward(dx ? dx + row * C : NULL, accumulate, dw, db, dy, x, w, mean[row], rstd[row], true, C);
    }
}

void QKV_K(rmsnorm_backward)(float *dx, bool accumulate, float *dw, const float *dy, const float *x, const float *rstd,
                             const float *w, size_t rows, size_t C) {
    for (size_t row = 0; row < rows; row++, dy += C, x += C) {
        row_backward(dx ? dx + row * C : NULL, accumulate, dw, NULL, dy, x, w, 0.0f, rstd[row], false, C);
    }
}
