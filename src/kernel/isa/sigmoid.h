/* sigmoid.h: σ for activations. */
#ifndef QKV_ISA_SIGMOID_H
#define QKV_ISA_SIGMOID_H

#include "kernel/isa/isa.h"

/* σ(t) = 1/(1 + e) from e = exp(−t). */
QKV_INLINE vf sigmoid_of(vf e) {
    return vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), e));
}
QKV_INLINE vf clamp(vf x, float size) { /* NaN stays */
    return vf_min(vf_set(size), vf_max(vf_set(-size), x));
}
/* z·σ(z), and its derivative. The sigmoid of the derivative gets a clamped z: beyond the clamp the derivative is
 * constant in fp32. 1 − σ is computed as e·σ, which is exact if σ is near 1, so e must not overflow. */
QKV_INLINE vf swish(vf z) {
    return vf_mul(z, sigmoid_of(vf_exp(vf_neg(z))));
}
QKV_INLINE vf swish_slope(vf z) {
    z = clamp(z, 80.0f);
    vf e = vf_exp(vf_neg(z)), s = sigmoid_of(e);
    return vf_mul(s, vf_fma(z, vf_mul(e, s), vf_set(1.0f)));
}
/* x·σ(1.702·x), a GELU by a sigmoid (Hendrycks & Gimpel 2016). */
QKV_INLINE vf sigmoid_gelu(vf x) {
    return vf_mul(x, sigmoid_of(vf_exp(vf_mul(vf_set(-1.702f), x))));
}
QKV_INLINE vf sigmoid_gelu_slope(vf x) {
    return swish_slope(vf_mul(vf_set(1.702f), x));
}

#endif
