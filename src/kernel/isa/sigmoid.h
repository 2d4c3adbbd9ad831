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

#endif
