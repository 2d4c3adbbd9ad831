/* f16_cells.h: reading and writing f16, IEEE 754 binary16: reading is exact, writing rounds to nearest even, with
 * infinity past 65504; a NaN stays a NaN, as in qkv_from_float. Part of the vocabulary of simd.h. */
#ifndef QKV_ISA_F16_CELLS_H
#define QKV_ISA_F16_CELLS_H

#if !defined(QKV_HAS_F16)
/* The steps of base/dtype.c: an addition changes the exponent's bias, twice for infinities and NaN, and a
 * floating-point subtraction normalizes subnormals; in the other direction an addition rounds them. */
QKV_INLINE vf f16_floats(const uint16_t *x) {
    const vi half = vi_load_halves(x), rebias = vi_set((127u - 15u) << 23);
    const vi magnitude = vi_shl(vi_and(half, vi_set(0x7fff)), 13), exponent = vi_and(magnitude, vi_set(0x0f800000));
    const vi normal = vi_add(magnitude, rebias), special = vi_add(normal, rebias);
    const vi tiny = vi_from_bits(vf_sub(vf_from_bits(vi_add(normal, vi_set(1u << 23))), vf_set(0x1p-14f)));
    vi bits = vi_select(vi_eq(exponent, vi_set(0)), tiny, normal);
    bits = vi_select(vi_eq(exponent, vi_set(0x0f800000)), special, bits);
    return vf_from_bits(vi_or(bits, vi_shl(vi_and(half, vi_set(0x8000)), 16)));
}
QKV_INLINE void f16_halves(uint16_t *x, vf v) {
    const vi bits = vi_from_bits(v), magnitude = vi_and(bits, vi_set(0x7fffffff)), upper = vi_shr(magnitude, 13);
    const vi tiny = vi_sub(vi_from_bits(vf_add(vf_from_bits(magnitude), vf_set(0.5f))), vi_set(0x3f000000));
    const vi round = vi_add(vi_and(upper, vi_set(1)), vi_set(0xfff));
    vi half = vi_shr(vi_add(vi_sub(magnitude, vi_set((127u - 15u) << 23)), round), 13);
    half = vi_select(vi_ge(magnitude, vi_set(0x38800000)), half, tiny);
    half = vi_select(vi_ge(magnitude, vi_set(0x47800000)), vi_set(0x7c00), half);
    half = vi_select(vi_ge(magnitude, vi_set(0x7f800001)), vi_or(vi_set(0x7e00), vi_and(upper, vi_set(0x3ff))), half);
    vi_store_halves(x, vi_or(half, vi_and(vi_shr(bits, 16), vi_set(0x8000))));
}
/* f16 in the lower halves of words whose upper ones are 0. */
QKV_INLINE vf f16_of_words(vi words) {
    uint16_t lanes[W];
    vi_store_halves(lanes, words);
    return f16_floats(lanes);
}
#endif

QKV_INLINE vf load_f16(const uint16_t *x, size_t n) {
    uint16_t lanes[W];
    if (n < W) {
        for (size_t i = 0; i < W; i++) lanes[i] = i < n ? x[i] : 0;
        x = lanes;
    }
    return f16_floats(x);
}

QKV_INLINE void store_f16(uint16_t *x, vf v, size_t n) {
    if (n >= W) {
        f16_halves(x, v);
        return;
    }
    uint16_t lanes[W];
    f16_halves(lanes, v);
    for (size_t i = 0; i < n; i++) x[i] = lanes[i];
}

#endif
