/* vector_norm.c: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019); forward processes several rows at a
 * time.
 *   y = xhat·w + b,  xhat = (x − mean)·rstd (RMSNorm: x·rstd, no b)
 *   dx = rstd·(g − mean(g) − xhat·mean(g·xhat)),  g = dy·w (RMSNorm: without mean(g));  dw = Σ dy·xhat;  db = Σ dy
 * The factor of xhat may also be 1 + w (Gemma), or there is none (OLMo): each variant is compiled separately. Sums over
 * a row are double, so they are right at any C; the variance takes a second pass. */
#include "kernel/isa/isa.h"

/* Forward processes ROWS rows at a time, because the sums of one row are chains of instructions that wait for each
 * other. The last rows of a call, and rows of which the caches cannot hold several, are processed one by one. So are
 * all rows in backward: they come from memory, which is prefetched well only row after row. A row's sums have one order
 * in all cases. */
enum { ROWS = W >= LANES ? 4 : W >= LANES / 2 ? 2 : 1, FORWARD_MAX = 8192 };

QKV_INLINE void rows_turn(vd_parts *sum, const size_t R) {
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) vd_parts_turn(&sum[r]);
}

QKV_INLINE void rows_sums(double *sums, const size_t R, const float *x, size_t C) {
    vd_parts sum[ROWS];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sum[r] = vd_parts_zero();
    QKV_EACH_PART(i, m, part, C, rows_turn(sum, R), {
        QKV_UNROLL
        for (size_t r = 0; r < R; r++)
            sum[r].part[part] = vd_add(sum[r].part[part], vd_from_float(vf_load_n(x + r * C + i, m)));
    });
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sums[r] = vd_parts_sum(sum[r]);
}

/* rstd of rows around their means. */
QKV_INLINE void rows_rstd(float *rstd, const size_t R, const float *x, const float *mean, float eps, size_t C) {
    vd_parts sum[ROWS];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sum[r] = vd_parts_zero();
    QKV_EACH_PART(i, m, part, C, rows_turn(sum, R), {
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) {
            const vf a = vf_sub(vf_load_n(x + r * C + i, m), vf_set(mean[r]));
            const vd d = vd_from_float(vf_select(vm_first(m), a, vf_zero()));
            sum[r].part[part] = vd_fma(d, d, sum[r].part[part]);
        }
    });
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) rstd[r] = (float)(1.0 / sqrt(vd_parts_sum(sum[r]) / (double)C + (double)eps));
}

/* The factor of the normalised row. */
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

/* The mean (0 if it is not centered) and rstd of each row. */
QKV_INLINE void rows_measure(bool centered, const struct forward *o, const size_t R, size_t row, float *mean,
                             float *rstd) {
    const float *x = o->x + row * o->C;
    for (size_t r = 0; r < R; r++) mean[r] = 0;
    if (centered) {
        double sums[ROWS];
        rows_sums(sums, R, x, o->C);
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) mean[r] = (float)(sums[r] / (double)o->C);
        if (o->mean) memcpy(o->mean + row, mean, R * sizeof *mean);
    }
    rows_rstd(rstd, R, x, mean, o->eps, o->C);
    if (o->rstd) memcpy(o->rstd + row, rstd, R * sizeof *rstd);
}

/* Functions of their own, which all gains share: they are most of the code. */
static void centered_rows(const struct forward *o, size_t row, float *mean, float *rstd) {
    rows_measure(true, o, ROWS, row, mean, rstd);
}
static void centered_row(const struct forward *o, size_t row, float *mean, float *rstd) {
    rows_measure(true, o, 1, row, mean, rstd);
}
static void plain_rows(const struct forward *o, size_t row, float *mean, float *rstd) {
    rows_measure(false, o, ROWS, row, mean, rstd);
}
static void plain_row(const struct forward *o, size_t row, float *mean, float *rstd) {
    rows_measure(false, o, 1, row, mean, rstd);
}

QKV_INLINE void rows_forward(enum gain gain, bool centered, const struct forward *o, const size_t R, size_t row) {
    const size_t C = o->C;
    const float *x = o->x + row * C;
    float *y = o->y + row * C, mean[ROWS], rstd[ROWS];
    if (centered)
        (R > 1 ? centered_rows : centered_row)(o, row, mean, rstd);
    else
        (R > 1 ? plain_rows : plain_row)(o, row, mean, rstd);
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
    for (; o->C <= FORWARD_MAX && o->rows - row >= ROWS; row += ROWS) rows_forward(gain, centered, o, ROWS, row);
    for (; row < o->rows; row++) rows_forward(gain, centered, o, 1, row);
}

/* The sums over a row that dx needs: of g = dy·gain and of g·xhat. */
struct row_terms {
    double g, gx;
};
QKV_INLINE struct row_terms row_terms(enum gain gain, const float *dy, const float *x, const float *w, vf center,
                                      vf inverse, size_t C) {
    vd_parts g_sum = vd_parts_zero(), gx_sum = vd_parts_zero();
    QKV_EACH_PART(i, m, part, C, (vd_parts_turn(&g_sum), vd_parts_turn(&gx_sum)),
                  { /* lanes past the row have g = 0 */
                    vf g = gained(gain, vf_load_n(dy + i, m), w, i, m);
                    vf xhat = vf_mul(vf_sub(vf_load_n(x + i, m), center), inverse);
                    g_sum.part[part] = vd_add(g_sum.part[part], vd_from_float(g));
                    gx_sum.part[part] = vd_fma(vd_from_float(g), vd_from_float(xhat), gx_sum.part[part]);
                  });
    return (struct row_terms){vd_parts_sum(g_sum), vd_parts_sum(gx_sum)};
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
