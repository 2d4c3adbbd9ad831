/* silu: x·σ(x) (Elfwing et al. 2018). */
#include "kernel/isa/activation.h"
#include "kernel/isa/sigmoid.h"

QKV_INLINE vf silu(vf x) {
    return vf_mul(x, sigmoid_of(vf_exp(vf_neg(x))));
}

/* The sigmoid takes a clamped x, past which the derivative is constant in float: its 1 − σ is e·σ, exact where σ is near 1, and
 * e must not overflow. */
QKV_INLINE vf silu_slope(vf x) {
    x = clamp(x, 80.0f);
    vf e = vf_exp(vf_neg(x)), s = sigmoid_of(e);
    return vf_mul(s, vf_fma(x, vf_mul(e, s), vf_set(1.0f)));
}

QKV_ACTIVATION(silu)
