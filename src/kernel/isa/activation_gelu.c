/* gelu: x·Φ(x), Φ the normal distribution function; derivative Φ + x·φ (Hendrycks & Gimpel 2016). */
#include "kernel/isa/activation.h"

/* Φ(x) = erfc(−x/√2)/2: no cancellation for x far below 0. */
QKV_INLINE vf normal_cdf(vf x) {
    vf t = vf_mul(x, vf_set(0.707106781f)), half = vf_set(0.5f), size = vf_abs(t);
    vf near = vf_fma(vf_fma(vf_erf_near(vf_mul(t, t)), t, t), half, half);
    vf tail = vf_mul(half, vf_erfc_far(size));
    vf far = vf_select(vf_lt(x, vf_zero()), tail, vf_sub(vf_set(1.0f), tail));
    return vf_select(vf_lt(size, vf_set(0.9f)), near, far);
}

QKV_INLINE vf gelu(vf x) {
    return vf_mul(x, normal_cdf(x));
}

QKV_INLINE vf gelu_slope(vf x) {
    vf e = vf_exp(vf_mul(vf_mul(x, x), vf_set(-0.5f)));
    return vf_fma(vf_mul(x, e), vf_set(0.398942280f), normal_cdf(x));
}

QKV_ACTIVATION(gelu)
