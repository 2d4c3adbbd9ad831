/* norm.c: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019), some rows at a time.
 *   y = xhat·w + b,  xhat = (x − mean)·rstd (RMSNorm: x·rstd, no b)
 *   dx = rstd·(g − mean(g) − xhat·mean(g·xhat)),  g = dy·w (RMSNorm: without mean(g));  dw = Σ dy·xhat;  db = Σ dy
 * What multiplies xhat may also be 1 + w (Gemma), or nothing (OLMo): each way is compiled for itself.
 * Sums over a row are kept in double, so they are right at any C; the variance takes a second pass. */
#include "kernel/isa/isa.h"

/* So many rows go side by side, as the sums of one are chains of instructions that wait for each other; the last ones of a call, and
 * rows too long for the caches to hold several, go alone. A row's sums have one order everywhere. */
enum { ROWS = 4, FORWARD_MOST = 8192, BACKWARD_MOST = 1024 };

QKV_INLINE void rows_sums(double *sums, const size_t R, const float *x, size_t C) {
    vd sum[ROWS];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sum[r] = vd_zero();
    QKV_EACH(i, m, C, {
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) sum[r] = vd_add(sum[r], vd_from_float(vf_load_n(x + r * C + i, m)));
    });
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sums[r] = vd_sum(sum[r]);
}

/* rstd of rows around their means. */
QKV_INLINE void rows_rstd(float *rstd, const size_t R, const float *x, const float *mean, float eps, size_t C) {
    vd sum[ROWS];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sum[r] = vd_zero();
    QKV_EACH(i, m, C, {
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) {
            const vf a = vf_sub(vf_load_n(x + r * C + i, m), vf_set(mean[r]));
            const vd d = vd_from_float(vf_select(vm_first(m), a, vf_zero()));
            sum[r] = vd_fma(d, d, sum[r]);
        }
    });
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) rstd[r] = (float)(1.0 / sqrt(vd_sum(sum[r]) / (double)C + (double)eps));
}

/* What multiplies the normalised row. */
enum gain { GAIN_NONE, GAIN_WEIGHT, GAIN_PLUS_ONE };

/* a·gain of the columns from i on. */
QKV_INLINE vf gained(enum gain gain, vf a, const float *w, size_t i, size_t m) {
    if (gain == GAIN_NONE) return a;
    vf weight = vf_load_n(w + i, m);
    return vf_mul(a, gain == GAIN_WEIGHT ? weight : vf_add(vf_set(1.0f), weight));
}

/* All of a forward call. */
struct forward {
    float *y, *mean, *rstd;
    const float *x, *w, *b;
    float eps;
    size_t rows, C;
};

QKV_INLINE void rows_forward(enum gain gain, bool centered, const struct forward *o, const size_t R, size_t row) {
    const size_t C = o->C;
    const float *x = o->x + row * C;
    float *y = o->y + row * C, mean[ROWS] = {0}, rstd[ROWS];
    if (centered) {
        double sums[ROWS];
        rows_sums(sums, R, x, C);
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) mean[r] = (float)(sums[r] / (double)C);
        if (o->mean) memcpy(o->mean + row, mean, R * sizeof *mean);
    }
    rows_rstd(rstd, R, x, mean, o->eps, C);
    if (o->rstd) memcpy(o->rstd + row, rstd, R * sizeof *rstd);
    QKV_EACH(i, m, C, {
        const vf shift = centered && o->b ? vf_load_n(o->b + i, m) : vf_zero();
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) {
            vf a = vf_load_n(x + r * C + i, m);
            if (centered) a = vf_sub(a, vf_set(mean[r]));
            a = vf_mul(a, vf_set(rstd[r]));
            if (!centered)
                a = gained(gain, a, o->w, i, m);
            else if (gain == GAIN_WEIGHT)
                a = vf_fma(a, vf_load_n(o->w + i, m), shift);
            else
                a = vf_add(gained(gain, a, o->w, i, m), shift);
            vf_store_n(y + r * C + i, a, m);
        }
    });
}

QKV_INLINE void forward_all(enum gain gain, bool centered, const struct forward *o) {
    size_t row = 0;
    for (; o->C <= FORWARD_MOST && o->rows - row >= ROWS; row += ROWS) rows_forward(gain, centered, o, ROWS, row);
    for (; row < o->rows; row++) rows_forward(gain, centered, o, 1, row);
}

/* All of a backward call. */
struct backward {
    float *dx;
    bool accumulate;
    float *dw, *db;
    const float *dy, *x, *mean, *rstd, *w;
    size_t rows, C;
};

/* The means over rows that dx needs: of g = dy·gain and of g·xhat. */
QKV_INLINE void rows_terms(enum gain gain, bool centered, const struct backward *o, const size_t R, size_t row,
                           const vf *center, const vf *inverse, vf *g_mean, vf *gx_mean) {
    const size_t C = o->C;
    const float *dy = o->dy + row * C, *x = o->x + row * C;
    vd g_sum[ROWS], gx_sum[ROWS];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) g_sum[r] = gx_sum[r] = vd_zero();
    QKV_EACH(i, m, C, { /* lanes past the row have g = 0 */
                        QKV_UNROLL
                        for (size_t r = 0; r < R; r++) {
                            const vf xhat = vf_mul(vf_sub(vf_load_n(x + r * C + i, m), center[r]), inverse[r]);
                            const vd g = vd_from_float(gained(gain, vf_load_n(dy + r * C + i, m), o->w, i, m));
                            if (centered) g_sum[r] = vd_add(g_sum[r], g);
                            gx_sum[r] = vd_fma(g, vd_from_float(xhat), gx_sum[r]);
                        }
    });
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        g_mean[r] = centered ? vf_set((float)(vd_sum(g_sum[r]) / (double)C)) : vf_zero();
        gx_mean[r] = vf_set((float)(vd_sum(gx_sum[r]) / (double)C));
    }
}

/* RMSNorm is the case center = 0 without the mean of g. */
QKV_INLINE void rows_backward(enum gain gain, bool centered, const struct backward *o, const size_t R, size_t row) {
    const size_t C = o->C;
    const float *dy = o->dy + row * C, *x = o->x + row * C;
    float *dx = o->dx ? o->dx + row * C : NULL;
    vf center[ROWS], inverse[ROWS], g_mean[ROWS], gx_mean[ROWS];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        center[r] = centered ? vf_set(o->mean[row + r]) : vf_zero();
        inverse[r] = vf_set(o->rstd[row + r]);
        g_mean[r] = gx_mean[r] = vf_zero();
    }
    if (dx) rows_terms(gain, centered, o, R, row, center, inverse, g_mean, gx_mean);
    QKV_EACH(i, m, C, {
        vf dw = o->dw ? vf_load_n(o->dw + i, m) : vf_zero();
        vf db = o->db ? vf_load_n(o->db + i, m) : vf_zero();
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) {
            const vf d = vf_load_n(dy + r * C + i, m);
            const vf xhat = vf_mul(vf_sub(vf_load_n(x + r * C + i, m), center[r]), inverse[r]);
            dw = vf_fma(d, xhat, dw);
            db = vf_add(db, d);
            if (!dx) continue;
            vf g = gained(gain, d, o->w, i, m);
            if (centered) g = vf_sub(g, g_mean[r]);
            g = vf_mul(inverse[r], vf_fnma(xhat, gx_mean[r], g));
            vf_store_n(dx + r * C + i, o->accumulate ? vf_add(vf_load_n(dx + r * C + i, m), g) : g, m);
        }
        if (o->dw) vf_store_n(o->dw + i, dw, m);
        if (o->db) vf_store_n(o->db + i, db, m);
    });
}

QKV_INLINE void backward_all(enum gain gain, bool centered, const struct backward *o) {
    size_t row = 0;
    for (; o->C <= BACKWARD_MOST && o->rows - row >= ROWS; row += ROWS) rows_backward(gain, centered, o, ROWS, row);
    for (; row < o->rows; row++) rows_backward(gain, centered, o, 1, row);
}

static enum gain gain_of(enum qkv_norm_kind kind, const float *w) {
    if (!w) return GAIN_NONE;
    return qkv_norm_plus_one(kind) ? GAIN_PLUS_ONE : GAIN_WEIGHT;
}

void QKV_K(norm_forward)(enum qkv_norm_kind kind, float *y, float *mean, float *rstd, const float *x, const float *w,
                         const float *b, float eps, size_t rows, size_t C) {
    const struct forward o = {y, mean, rstd, x, w, b, eps, rows, C};
    const bool centered = qkv_norm_centered(kind);
    switch (gain_of(kind, w)) {
#define FORWARD(gain)                                                                                                  \
    case gain:                                                                                                         \
        if (centered)                                                                                                  \
            forward_all(gain, true, &o);                                                                               \
        else                                                                                                           \
            forward_all(gain, false, &o);                                                                              \
        return;
        FORWARD(GAIN_NONE)
        FORWARD(GAIN_WEIGHT)
        FORWARD(GAIN_PLUS_ONE)
    }
}

void QKV_K(norm_backward)(enum qkv_norm_kind kind, float *dx, bool accumulate, float *dw, float *db, const float *dy,
                          const float *x, const float *mean, const float *rstd, const float *w, size_t rows, size_t C) {
    const bool centered = qkv_norm_centered(kind);
    const struct backward o = {dx, accumulate, dw, centered ? db : NULL, dy, x, mean, rstd, w, rows, C};
    switch (gain_of(kind, w)) {
#define BACKWARD(gain)                                                                                                 \
    case gain:                                                                                                         \
        if (centered)                                                                                                  \
            backward_all(gain, true, &o);                                                                              \
        else                                                                                                           \
            backward_all(gain, false, &o);                                                                             \
        return;
        BACKWARD(GAIN_NONE)
        BACKWARD(GAIN_WEIGHT)
        BACKWARD(GAIN_PLUS_ONE)
    }
}
