/* gelu_tanh: x·σ(2u), u = √(2/π)·(x + 0.044715·x³): the same as ½x(1 + tanh u) (Hendrycks & Gimpel 2016). */
#include "kernel/isa/activation.h"
#include "kernel/isa/sigmoid.h"

/* −2u of gelu_tanh. */
QKV_INLINE vf tanh_argument(vf x) {
    vf cubic = vf_fma(vf_mul(vf_mul(x, x), vf_set(0.044715f)), x, x);
    return vf_mul(vf_set(-1.59576912f), cubic);
}

QKV_INLINE vf gelu_tanh(vf x) {
    return vf_mul(x, sigmoid_of(vf_exp(tanh_argument(x))));
}

/* The sigmoid gets a clamped x: beyond the clamp the derivative is constant in fp32. 1 − σ is computed as e·σ, which is
 * exact if σ is near 1, so e must not overflow. */
QKV_INLINE vf gelu_tanh_slope(vf x) {
    x = clamp(x, 9.0f);
    vf e = vf_exp(tanh_argument(x)), s = sigmoid_of(e);
    vf turn = vf_fma(vf_mul(x, x), vf_set(1.59576912f * 0.134145f), vf_set(1.59576912f)); /* 2u' */
    return vf_fma(vf_mul(vf_mul(x, turn), vf_mul(e, s)), s, s);
}

QKV_ACTIVATION(gelu_tanh)
