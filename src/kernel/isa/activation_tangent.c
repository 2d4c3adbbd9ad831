/* tangent: tanh(x), whose derivative is 1 − tanh²(x). */
#include "kernel/isa/activation.h"

QKV_INLINE vf tangent(vf x) {
    return vf_tanh(x);
}

/* (1 − |t|)·(1 + |t|) with 1 − |t| = 2e/(1 + e), e = exp(−2|x|): no cancellation if t is near 1. */
QKV_INLINE vf tangent_slope(vf x) {
    vf e = vf_exp(vf_mul(vf_set(-2.0f), vf_abs(x))), s = vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), e));
    return vf_mul(vf_mul(vf_set(4.0f), e), vf_mul(s, s));
}

QKV_ACTIVATION(tangent)
