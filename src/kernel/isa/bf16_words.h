/* bf16_words.h: words of two terms, the even one in the lower half, from operands of any layout, fp32 or bf16. A line
 * is a row of A or a column of B. */
#ifndef QKV_ISA_BF16_WORDS_H
#define QKV_ISA_BF16_WORDS_H

#include "kernel/isa/simd.h"

struct lines { /* element (line, k) */
    const void *data;
    enum qkv_dtype dtype;
    size_t line_stride, k_stride;
};

/* Up to W consecutive elements from `at` on, the first n of which exist. */
QKV_INLINE vf read_line(const struct lines *x, size_t at, size_t n) {
    if (x->dtype == QKV_BF16) return load_bf16((const uint16_t *)x->data + at, n);
    const float *from = (const float *)x->data + at;
    return n >= W ? vf_load(from) : vf_load_n(from, n);
}

/* The bits of up to W consecutive elements of bf16, the first n of which exist. */
QKV_INLINE vi read_halves(const uint16_t *x, size_t n) {
    return n < W ? vi_load_halves_n(x, n) : vi_load_halves(x);
}

/* W words of two consecutive bf16; n halves exist. */
QKV_INLINE vi read_words(const uint16_t *x, size_t n) {
    return n < 2 * W ? vi_load_words_n(x, n) : vi_load_words(x);
}

/* W words of one line that is contiguous along k: terms k … k + 2W, those before K. */
QKV_INLINE vi words_along(const struct lines *x, size_t line, size_t k, size_t K) {
    const size_t at = line * x->line_stride + k, left = K > k ? K - k : 0;
    if (x->dtype == QKV_BF16) return read_words((const uint16_t *)x->data + (left ? at : 0), left);
    return rounded_words(left ? read_line(x, at, left) : vf_zero(),
                         left > W ? read_line(x, at + W, left - W) : vf_zero());
}

/* The words of one pair of terms, k and k + 1, of `count` consecutive lines. */
QKV_INLINE vi words_across(const struct lines *x, size_t line, size_t count, size_t k, size_t K) {
    if (x->dtype == QKV_BF16) {
        const uint16_t *halves = (const uint16_t *)x->data + line;
        vi low = k < K ? read_halves(halves + k * x->k_stride, count) : vi_set(0);
        vi high = k + 1 < K ? read_halves(halves + (k + 1) * x->k_stride, count) : vi_set(0);
        return vi_or(low, vi_shl(high, 16));
    }
    vf even = k < K ? read_line(x, line + k * x->k_stride, count) : vf_zero();
    vf odd = k + 1 < K ? read_line(x, line + (k + 1) * x->k_stride, count) : vf_zero();
    return words_of(even, odd);
}

QKV_INLINE void transpose_words(vi r[W]) {
    vf t[W];
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) t[i] = vf_from_bits(r[i]);
    vf_transpose(t);
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) r[i] = vi_from_bits(t[i]);
}

#endif
