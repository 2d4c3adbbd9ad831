/* relu2: max(x, 0)² (So et al. 2021, "Primer"); NaN stays NaN. */
#include "kernel/isa/activation.h"

QKV_INLINE vf relu2(vf x) {
    vf r = vf_max(vf_zero(), x);
    return vf_mul(r, r);
}

QKV_INLINE vf relu2_slope(vf x) {
    return vf_mul(vf_set(2.0f), vf_max(vf_zero(), x));
}

QKV_ACTIVATION(relu2)
