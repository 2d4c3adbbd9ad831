/* vector.c: elementwise kernels and sums over plain vectors. */
#include "kernel/isa/isa.h"

void QKV_K(add)(float *y, const float *a, const float *b, size_t n) {
    QKV_EACH(i, m, n, { vf_store_n(y + i, vf_add(vf_load_n(a + i, m), vf_load_n(b + i, m)), m); });
}

void QKV_K(add_several)(float *y, const float *x, const float *const *others, size_t count, size_t n) {
    size_t i = 0;
    for (; n - i >= W; i += W) {
        vf sum = vf_load(x + i);
        for (size_t k = 0; k < count; k++) sum = vf_add(vf_load(others[k] + i), sum);
        vf_store_away(y + i, sum);
    }
    if (i < n) {
        vf sum = vf_load_n(x + i, n - i);
        for (size_t k = 0; k < count; k++) sum = vf_add(vf_load_n(others[k] + i, n - i), sum);
        vf_store_n(y + i, sum, n - i);
    }
    vf_stores_end();
}

void QKV_K(scale)(float *y, bool accumulate, const float *x, float s, size_t n) {
    vf factor = vf_set(s);
    if (accumulate)
        QKV_EACH(i, m, n, { vf_store_n(y + i, vf_fma(vf_load_n(x + i, m), factor, vf_load_n(y + i, m)), m); });
    else
        QKV_EACH(i, m, n, { vf_store_n(y + i, vf_mul(vf_load_n(x + i, m), factor), m); });
}

void QKV_K(widen)(float *y, const uint16_t *x, size_t n) {
    QKV_EACH(i, m, n, { vf_store_n(y + i, load_bf16(x + i, m), m); });
}

void QKV_K(narrow)(uint16_t *y, const float *x, size_t n) {
    QKV_EACH(i, m, n, { store_bf16(y + i, vf_load_n(x + i, m), m); });
}

/* A square of two floats is exact in double, so only the additions round. */
double QKV_K(sum_squares)(const float *x, size_t n) {
    vd_parts sum = vd_parts_zero();
    QKV_EACH_PART(i, m, part, n, vd_parts_turn(&sum), {
        const vd a = vd_from_float(vf_load_n(x + i, m));
        sum.part[part] = vd_fma(a, a, sum.part[part]);
    });
    return vd_parts_sum(sum);
}

void QKV_K(column_sums)(float *out, const float *x, size_t ldx, size_t rows, size_t C) {
    size_t i = 0;
    for (; C - i >= 4 * W; i += 4 * W) { /* four vectors wide, so that a row reads whole cache lines */
        vf sum[4];
        QKV_UNROLL
        for (size_t j = 0; j < 4; j++) sum[j] = vf_load(out + i + j * W);
        for (size_t row = 0; row < rows; row++) {
            QKV_UNROLL
            for (size_t j = 0; j < 4; j++) sum[j] = vf_add(sum[j], vf_load(x + row * ldx + i + j * W));
        }
        QKV_UNROLL
        for (size_t j = 0; j < 4; j++) vf_store(out + i + j * W, sum[j]);
    }
    for (; i < C; i += W) {
        vf sum = vf_load_n(out + i, C - i);
        for (size_t row = 0; row < rows; row++) sum = vf_add(sum, vf_load_n(x + row * ldx + i, C - i));
        vf_store_n(out + i, sum, C - i);
    }
}

void QKV_K(exp)(float *y, const float *x, size_t n) {
    QKV_EACH(i, m, n, { vf_store_n(y + i, vf_exp(vf_load_n(x + i, m)), m); });
}

/* Twelve independent chains: more than any of these machines needs to keep its units busy. In plain C the compiler must
 * vectorize, which it does for chains of four neighbours. */
#define PEAK_LANES (W == 1 ? 4 : 1)
double QKV_K(fma_peak)(size_t iterations) {
    enum { CHAINS = 12 };
    vf chain[CHAINS][PEAK_LANES], a = vf_set(0.999f), b = vf_set(0.001f);
    float start[CHAINS * PEAK_LANES * W];
    for (int i = 0; i < CHAINS * PEAK_LANES * W; i++) start[i] = (float)i;
    QKV_UNROLL
    for (int i = 0; i < CHAINS; i++) {
        QKV_UNROLL
        for (int j = 0; j < PEAK_LANES; j++) chain[i][j] = vf_load(start + (i * PEAK_LANES + j) * W);
    }
    for (size_t n = 0; n < iterations; n++) {
        QKV_UNROLL
        for (int i = 0; i < CHAINS; i++) {
            QKV_UNROLL
            for (int j = 0; j < PEAK_LANES; j++) chain[i][j] = vf_fma(chain[i][j], a, b);
        }
    }
    QKV_UNROLL
    for (int i = 0; i < CHAINS; i++) {
        QKV_UNROLL
        for (int j = 0; j < PEAK_LANES; j++) vf_store(start + (i * PEAK_LANES + j) * W, chain[i][j]);
    }
    float sum = 0;
    for (int i = 0; i < CHAINS * PEAK_LANES * W; i++) sum += start[i];
    double flops = 2.0 * CHAINS * PEAK_LANES * W * (double)iterations;
    return sum < 0 ? -flops : flops; /* never negative, but the compiler has to compute it */
}

/* Each step reads LINES cache lines, of which each has a sum: the additions keep up with any memory. */
QKV_INLINE double read_streams(const float *x, size_t n, const size_t streams, size_t ahead) {
    enum { LINES = 8, LINE = QKV_CACHE_LINE / sizeof(float) };
    const size_t lines = LINES / streams, each = n / (LINES * LINE) * lines * LINE;
    vf sum[LINES];
    float last[LINES * W];
    QKV_UNROLL
    for (size_t j = 0; j < LINES; j++) sum[j] = vf_set(0);
    for (size_t i = 0; i < each; i += lines * LINE) {
        QKV_UNROLL
        for (size_t j = 0; j < LINES; j++) {
            const float *line = x + j / lines * each + i + j % lines * LINE;
            if (ahead) QKV_PREFETCH((const void *)((uintptr_t)line + ahead));
            QKV_UNROLL
            for (size_t v = 0; v < LINE; v += W) sum[j] = vf_add(sum[j], vf_load(line + v));
        }
    }
    QKV_UNROLL
    for (size_t j = 0; j < LINES; j++) vf_store(last + j * W, sum[j]);
    double total = 0;
    for (size_t j = 0; j < LINES * W; j++) total += (double)last[j];
    for (size_t i = each * streams; i < n; i++) total += (double)x[i];
    return total;
}

double QKV_K(read_all)(const float *x, size_t n, size_t streams, size_t ahead) {
    switch (streams) {
    case 8:
        return read_streams(x, n, 8, ahead);
    case 4:
        return read_streams(x, n, 4, ahead);
    case 2:
        return read_streams(x, n, 2, ahead);
    default:
        return read_streams(x, n, 1, ahead);
    }
}

void QKV_K(clip)(float *x, uint8_t *inside, float limit, size_t n) {
    for (size_t i = 0; inside && i < n; i += 8) {
        unsigned bits = 0;
        for (size_t j = 0; j < 8 && i + j < n; j++) bits |= (unsigned)(fabsf(x[i + j]) <= limit) << j;
        inside[i / 8] = (uint8_t)bits;
    }
    const vf low = vf_set(-limit), high = vf_set(limit);
    QKV_EACH(i, m, n, { vf_store_n(x + i, vf_max(low, vf_min(high, vf_load_n(x + i, m))), m); });
}
