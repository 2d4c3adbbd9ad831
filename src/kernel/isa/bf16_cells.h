/* bf16_cells.h: reading and writing bf16, the upper half of a binary32 (Kalamkar et al. 2019): reading appends zeros,
 * writing rounds to nearest even; a NaN stays a NaN, as in qkv_from_float. Part of the vocabulary of simd.h. */
#ifndef QKV_ISA_BF16_CELLS_H
#define QKV_ISA_BF16_CELLS_H

QKV_INLINE vf load_bf16(const uint16_t *x, size_t n) {
    return vf_from_bits(vi_shl(n < W ? vi_load_halves_n(x, n) : vi_load_halves(x), 16));
}

/* The bits of v rounded to bf16, in the lower half of each lane. */
QKV_INLINE vi bf16_bits(vf v) {
    vi bits = vi_from_bits(v), upper = vi_shr(bits, 16), odd = vi_and(upper, vi_set(1));
    vi rounded = vi_shr(vi_add(vi_add(bits, vi_set(0x7fff)), odd), 16);
    return vi_select(vf_eq(v, v), rounded, vi_or(upper, vi_set(0x40)));
}

QKV_INLINE vf rounded(vf v) {
    return vf_from_bits(vi_shl(bf16_bits(v), 16));
}

QKV_INLINE void store_bf16(uint16_t *x, vf v, size_t n) {
    if (n >= W)
        vi_store_halves(x, bf16_bits(v));
    else
        vi_store_halves_n(x, bf16_bits(v), n);
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

/* ---- for products of bf16 --------------------------------------------------------------------------------------
 * Tables with instructions for such products round with the instruction that comes with them. It reads subnormal
 * numbers as 0, as the products do. */

#if !defined(QKV_HAS_BF16_ROUND)
/* 2W numbers, rounded, in order: W words. */
QKV_INLINE vi rounded_words(vf a, vf b) {
    vf_unzip(&a, &b);
    return bf16_words(a, b);
}
/* Words of two rows: `even` in the lower halves. */
QKV_INLINE vi words_of(vf even, vf odd) {
    return bf16_words(even, odd);
}
/* The 2W numbers of rounded_words, in memory. */
QKV_INLINE void store_halves(uint16_t *out, vf a, vf b) {
    vi_store_halves(out, bf16_bits(a));
    vi_store_halves(out + W, bf16_bits(b));
}
#else
QKV_INLINE void store_halves(uint16_t *out, vf a, vf b) {
    vi_store((uint32_t *)(void *)out, rounded_words(a, b));
}
#endif

#if !defined(QKV_HAS_BF16_DOT)
/* sum += the two products of a word; the even one first if they are not added at once. */
QKV_INLINE vf dot_words(vf sum, vi a, vi b) {
    return vf_fma(bf16_odd(a), bf16_odd(b), vf_fma(bf16_even(a), bf16_even(b), sum));
}
#endif

#endif
