/* activation.c: the activations of feed-forward layers and their derivatives.
 *   relu       max(x, 0)
 *   gelu       x·Φ(x), Φ the normal distribution function; derivative Φ + x·φ (Hendrycks & Gimpel 2016)
 *   gelu_tanh  x·σ(2u), u = √(2/π)·(x + 0.044715·x³): the same as ½x(1 + tanh u)
 *   silu       x·σ(x) (Elfwing et al. 2018); gated: act(gate)·up (Shazeer 2020, "GLU variants improve transformer") */
#include "kernel/isa/isa.h"

/* Φ(x) = erfc(−x/√2)/2, without cancellation for x far below 0. */
QKV_INLINE vf normal_cdf(vf x) {
    vf t = vf_mul(x, vf_set(0.707106781f)), half = vf_set(0.5f), size = vf_abs(t);
    vf near = vf_fma(vf_fma(vf_erf_near(vf_mul(t, t)), t, t), half, half);
    vf tail = vf_mul(half, vf_erfc_far(size));
    vf far = vf_select(vf_lt(x, vf_zero()), tail, vf_sub(vf_set(1.0f), tail));
    return vf_select(vf_lt(size, vf_set(0.9f)), near, far);
}

/* σ(t) = 1/(1 + e) from e = exp(−t). */
QKV_INLINE vf sigmoid_of(vf e) {
    return vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), e));
}
QKV_INLINE vf clamp(vf x, float size) { /* NaN stays */
    return vf_min(vf_set(size), vf_max(vf_set(-size), x));
}
/* −2u of gelu_tanh. */
QKV_INLINE vf tanh_argument(vf x) {
    vf cubic = vf_fma(vf_mul(vf_mul(x, x), vf_set(0.044715f)), x, x);
    return vf_mul(vf_set(-1.59576912f), cubic);
}

QKV_INLINE vf act(enum qkv_activation_kind kind, vf x) {
    switch (kind) {
    case QKV_ACT_GELU:
        return vf_mul(x, normal_cdf(x));
    case QKV_ACT_GELU_TANH:
        return vf_mul(x, sigmoid_of(vf_exp(tanh_argument(x))));
    case QKV_ACT_SILU:
        return vf_mul(x, sigmoid_of(vf_exp(vf_neg(x))));
    case QKV_ACT_RELU:
        break;
    }
    return vf_max(vf_zero(), x);
}

/* act'(x). The sigmoids take a clamped x, past which the derivative is constant in float: their 1 − σ is e·σ, exact
 * where σ is near 1, and e must not overflow. */
QKV_INLINE vf act_slope(enum qkv_activation_kind kind, vf x) {
    vf one = vf_set(1.0f), e, s;
    switch (kind) {
    case QKV_ACT_GELU:
        e = vf_exp(vf_mul(vf_mul(x, x), vf_set(-0.5f)));
        return vf_fma(vf_mul(x, e), vf_set(0.398942280f), normal_cdf(x));
    case QKV_ACT_GELU_TANH:
        x = clamp(x, 9.0f);
        e = vf_exp(tanh_argument(x));
        s = sigmoid_of(e);
        vf turn = vf_fma(vf_mul(x, x), vf_set(1.59576912f * 0.134145f), vf_set(1.59576912f)); /* 2u' */
        return vf_fma(vf_mul(vf_mul(x, turn), vf_mul(e, s)), s, s);
    case QKV_ACT_SILU:
        x = clamp(x, 80.0f);
        e = vf_exp(vf_neg(x));
        s = sigmoid_of(e);
        return vf_mul(s, vf_fma(x, vf_mul(e, s), one));
    case QKV_ACT_RELU:
        break;
    }
    return vf_select(vf_le(x, vf_zero()), vf_zero(), one);
}

/* Expands `call(kind)` with each kind as a constant, so that the loops hold no test. */
#define EACH_KIND(call)                                                                                                \
    switch (kind) {                                                                                                    \
    case QKV_ACT_RELU:                                                                                                 \
        call(QKV_ACT_RELU);                                                                                            \
        break;                                                                                                         \
    case QKV_ACT_GELU:                                                                                                 \
        call(QKV_ACT_GELU);                                                                                            \
        break;                                                                                                         \
    case QKV_ACT_GELU_TANH:                                                                                            \
        call(QKV_ACT_GELU_TANH);                                                                                       \
        break;                                                                                                         \
    case QKV_ACT_SILU:                                                                                                 \
        call(QKV_ACT_SILU);                                                                                            \
        break;                                                                                                         \
    }

QKV_INLINE void put(float *p, bool accumulate, vf a, size_t n) {
    vf_store_n(p, accumulate ? vf_add(vf_load_n(p, n), a) : a, n);
}

void QKV_K(activation_forward)(enum qkv_activation_kind kind, float *y, const float *x, size_t n) {
#define FORWARD(k) QKV_EACH(i, m, n, { vf_store_n(y + i, act(k, vf_load_n(x + i, m)), m); })
    EACH_KIND(FORWARD)
}

void QKV_K(activation_backward)(enum qkv_activation_kind kind, float *dx, bool accumulate, const float *dy,
                                const float *x, size_t n) {
#define BACKWARD(k)                                                                                                    \
    QKV_EACH(i, m, n, { put(dx + i, accumulate, vf_mul(vf_load_n(dy + i, m), act_slope(k, vf_load_n(x + i, m))), m); })
    EACH_KIND(BACKWARD)
}

void QKV_K(gated_forward)(enum qkv_activation_kind kind, float *y, const float *gate, const float *up, size_t n) {
#define GATED(k)                                                                                                       \
    QKV_EACH(i, m, n, { vf_store_n(y + i, vf_mul(act(k, vf_load_n(gate + i, m)), vf_load_n(up + i, m)), m); })
    EACH_KIND(GATED)
}

void QKV_K(gated_backward)(enum qkv_activation_kind kind, float *dgate, float *dup, bool accumulate, const float *dy,
                           const float *gate, const float *up, size_t n) {
#define GATED_BACKWARD(k)                                                                                              \
    QKV_EACH(i, m, n, {                                                                                                \
        vf d = vf_load_n(dy + i, m), g = vf_load_n(gate + i, m);                                                       \
        put(dgate + i, accumulate, vf_mul(vf_mul(d, vf_load_n(up + i, m)), act_slope(k, g)), m);                       \
        put(dup + i, accumulate, vf_mul(d, act(k, g)), m);                                                             \
    })
    EACH_KIND(GATED_BACKWARD)
}
