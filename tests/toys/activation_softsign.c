/* A toy: softsign, x / (1 + |x|). */
#include "kernel/isa/activation.h"

QKV_INLINE vf softsign_scale(vf x) {
    return vf_div(vf_set(1.0f), vf_add(vf_set(1.0f), vf_abs(x)));
}

QKV_INLINE vf softsign(vf x) {
    return vf_mul(x, softsign_scale(x));
}

QKV_INLINE vf softsign_slope(vf x) {
    vf s = softsign_scale(x);
    return vf_mul(s, s);
}

QKV_ACTIVATION(softsign)
