/* relu: max(x, 0); NaN stays NaN. */
#include "kernel/isa/activation.h"

QKV_INLINE vf relu(vf x) {
    return vf_max(vf_zero(), x);
}

QKV_INLINE vf relu_slope(vf x) {
    return vf_select(vf_le(x, vf_zero()), vf_zero(), vf_set(1.0f));
}

QKV_ACTIVATION(relu)
