/* bf16_cells.h: reading and writing bf16, the upper half of a binary32 (Kalamkar et al. 2019): reading appends zeros, writing
 * rounds to nearest even and keeps NaN a NaN, as qkv_from_float does. Part of the vocabulary of simd.h. */
#ifndef QKV_ISA_BF16_CELLS_H
#define QKV_ISA_BF16_CELLS_H

QKV_INLINE vf load_bf16(const uint16_t *x, size_t n) {
    uint16_t lanes[W];
    if (n < W) {
        for (size_t i = 0; i < W; i++) lanes[i] = i < n ? x[i] : 0;
        x = lanes;
    }
    return vf_from_bits(vi_shl(vi_load_halves(x), 16));
}

/* The bits of v rounded to bf16, in the lower half of each lane. */
QKV_INLINE vi bf16_bits(vf v) {
    vi bits = vi_from_bits(v), upper = vi_shr(bits, 16), odd = vi_and(upper, vi_set(1));
    vi rounded = vi_shr(vi_add(vi_add(bits, vi_set(0x7fff)), odd), 16);
    return vi_select(vf_eq(v, v), rounded, vi_or(upper, vi_set(0x40)));
}

QKV_INLINE void store_bf16(uint16_t *x, vf v, size_t n) {
    if (n >= W) {
        vi_store_halves(x, bf16_bits(v));
        return;
    }
    uint16_t lanes[W];
    vi_store_halves(lanes, bf16_bits(v));
    for (size_t i = 0; i < n; i++) x[i] = lanes[i];
}

/* Pairs of numbers as words of two bf16: `even` in the lower half, `odd` in the upper. */
QKV_INLINE vi bf16_words(vf even, vf odd) {
    return vi_or(bf16_bits(even), vi_shl(bf16_bits(odd), 16));
}
QKV_INLINE vf bf16_even(vi words) {
    return vf_from_bits(vi_shl(words, 16));
}
QKV_INLINE vf bf16_odd(vi words) {
    return vf_from_bits(vi_and(words, vi_set(0xffff0000u)));
}

#endif
