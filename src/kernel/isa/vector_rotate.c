/* vector_rotate.c: rotary position embedding (Su et al. 2021, "RoFormer") of one row.
 *   (a, b) → (a·cos − b·sin, b·cos + a·sin), the pair being channels i and i + pairs, or 2i and 2i + 1. */
#include "kernel/isa/isa.h"

/* 2n floats as W pairs: the first and the second of each; n <= W. */
QKV_INLINE void load_pairs(const float *p, size_t n, vf *first, vf *second) {
    *first = vf_load_n(p, 2 * n < W ? 2 * n : W);
    *second = 2 * n > W ? vf_load_n(p + W, 2 * n - W) : vf_zero();
    vf_unzip(first, second);
}
QKV_INLINE void store_pairs(float *p, size_t n, vf first, vf second) {
    vf_zip(&first, &second);
    vf_store_n(p, first, 2 * n < W ? 2 * n : W);
    if (2 * n > W) vf_store_n(p + W, second, 2 * n - W);
}

QKV_INLINE void rotate_pairs(float *x, size_t heads, size_t D, size_t pairs, bool interleaved, const float *cos_sin,
                             float sign) {
    vf signs = vf_set(sign);
    QKV_EACH(i, m, pairs, {
        vf c, s, a, b;
        load_pairs(cos_sin + 2 * i, m, &c, &s);
        s = vf_mul(s, signs);
        for (size_t h = 0; h < heads; h++) {
            float *first = x + h * D + (interleaved ? 2 * i : i), *second = first + pairs;
            if (interleaved) {
                load_pairs(first, m, &a, &b);
            } else {
                a = vf_load_n(first, m);
                b = vf_load_n(second, m);
            }
            vf rotated = vf_fnma(b, s, vf_mul(a, c));
            b = vf_fma(a, s, vf_mul(b, c));
            if (interleaved) {
                store_pairs(first, m, rotated, b);
            } else {
                vf_store_n(first, rotated, m);
                vf_store_n(second, b, m);
            }
        }
    });
}

void QKV_K(rotate)(float *x, size_t heads, size_t D, size_t pairs, bool interleaved, const float *cos_sin,
                   bool inverse) {
    if (interleaved)
        rotate_pairs(x, heads, D, pairs, true, cos_sin, inverse ? -1.0f : 1.0f);
    else
        rotate_pairs(x, heads, D, pairs, false, cos_sin, inverse ? -1.0f : 1.0f);
}
