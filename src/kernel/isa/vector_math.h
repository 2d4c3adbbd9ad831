/* vector_math.h: exp, tanh, erf and the row reductions, built from the primitives of simd.h, the same in every ISA.
 * Polynomials are minimax fits (Lawson's iteration on Chebyshev nodes) computed for these intervals. */
#ifndef QKV_VECTOR_MATH_H
#define QKV_VECTOR_MATH_H

QKV_INLINE vf vf_zero(void) {
    return vf_set(0.0f);
}
QKV_INLINE vf vf_abs(vf a) {
    return vf_from_bits(vi_and(vi_from_bits(a), vi_set(0x7fffffffu)));
}
QKV_INLINE vf vf_neg(vf a) {
    return vf_from_bits(vi_xor(vi_from_bits(a), vi_set(0x80000000u)));
}
/* |a| with the sign of b. */
QKV_INLINE vf vf_copysign(vf a, vf b) {
    vi sign = vi_set(0x80000000u);
    return vf_from_bits(vi_or(vi_and(vi_from_bits(a), vi_set(0x7fffffffu)), vi_and(vi_from_bits(b), sign)));
}

#if !defined(QKV_HAS_SCALE_POWER)
/* p·2^n, rounded once, for p near 1 and shifted = n + 1.5·2^23. 2^n has two factors, so that subnormal results and n =
 * 128 are right. */
QKV_INLINE vf vf_scale_power(vf p, vf shifted) {
    vi n = vi_sub(vi_from_bits(shifted), vi_from_bits(vf_set(12582912.0f)));
    vi half = vi_sar(n, 1), one = vi_set(127);
    vf first = vf_from_bits(vi_shl(vi_add(half, one), 23));
    vf second = vf_from_bits(vi_shl(vi_add(vi_sub(n, half), one), 23));
    return vf_mul(vf_mul(p, first), second);
}
#endif

/* exp(x) = 2^n·exp(r), n = round(x/ln 2), |r| <= ln 2/2. ln 2 is split so that n times its first part is exact, also
 * without a fused multiply-add.
 * Relative error <= 2e-7 if the result is normal; exp(0) = 1 and exp(x < -104) = 0 exactly; NaN stays NaN. */
QKV_INLINE vf vf_exp(vf x) {
    x = vf_min(vf_set(89.0f), vf_max(vf_set(-105.0f), x));
    vf magic = vf_set(12582912.0f); /* 1.5·2^23: adding it rounds to an integer, which is then in the low bits */
    vf shifted = vf_fma(x, vf_set(1.44269504f), magic), t = vf_sub(shifted, magic);
    vf r = vf_fnma(t, vf_set(0.693359375f), x);
    r = vf_fma(t, vf_set(2.12194440e-4f), r);
    vf p = vf_fma(r, vf_set(1.38146023e-3f), vf_set(8.36871564e-3f));
    p = vf_fma(p, r, vf_set(4.16683890e-2f));
    p = vf_fma(p, r, vf_set(1.66665211e-1f));
    p = vf_fma(p, r, vf_set(4.99999940e-1f));
    p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set(1.0f));
    return vf_scale_power(p, shifted);
}

/* tanh(x) = x + x³·P(x²) for |x| < 0.625, else ±(1 − 2/(exp(2|x|) + 1)). */
QKV_INLINE vf vf_tanh(vf x) {
    vf s = vf_mul(x, x), one = vf_set(1.0f);
    vf p = vf_fma(s, vf_set(-5.70498407e-3f), vf_set(2.06390843e-2f));
    p = vf_fma(p, s, vf_set(-5.37397154e-2f));
    p = vf_fma(p, s, vf_set(1.33314416e-1f));
    p = vf_fma(p, s, vf_set(-3.33332807e-1f));
    vf near = vf_fma(vf_mul(p, s), x, x);
    vf a = vf_abs(x);
    vf e = vf_exp(vf_add(a, a));
    vf far = vf_sub(one, vf_div(vf_set(2.0f), vf_add(e, one)));
    return vf_select(vf_lt(a, vf_set(0.625f)), near, vf_copysign(far, x));
}

/* erf(x)/x − 1 as a polynomial in s = x², for |x| < 0.9. */
QKV_INLINE vf vf_erf_near(vf s) {
    vf p = vf_fma(s, vf_set(-6.09036069e-4f), vf_set(5.01196319e-3f));
    p = vf_fma(p, s, vf_set(-2.67789084e-2f));
    p = vf_fma(p, s, vf_set(1.12821408e-1f));
    p = vf_fma(p, s, vf_set(-3.76125246e-1f));
    return vf_fma(p, s, vf_set(1.28379151e-1f));
}
/* erfc(t) = exp(−t·Q(t)) for t >= 0.9; relative error small up to t = 4, and it falls to 0 beyond. */
QKV_INLINE vf vf_erfc_far(vf t) {
    vf q = vf_fma(t, vf_set(1.0432832e-5f), vf_set(-3.14855402e-4f));
    q = vf_fma(q, t, vf_set(3.61033141e-3f));
    q = vf_fma(q, t, vf_set(-2.36945447e-2f));
    q = vf_fma(q, t, vf_set(1.06159026e-1f));
    q = vf_fma(q, t, vf_set(6.35198048e-1f));
    q = vf_fma(q, t, vf_set(1.12863707f));
    return vf_exp(vf_neg(vf_mul(q, t)));
}
QKV_INLINE vf vf_erf(vf x) {
    vf t = vf_abs(x);
    vf near = vf_fma(vf_erf_near(vf_mul(x, x)), x, x);
    vf far = vf_copysign(vf_sub(vf_set(1.0f), vf_erfc_far(t)), x);
    return vf_select(vf_lt(t, vf_set(0.9f)), near, far);
}

#endif
