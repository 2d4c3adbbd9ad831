/* silu: x·σ(x) (Elfwing et al. 2018). */
#include "kernel/isa/activation.h"
#include "kernel/isa/sigmoid.h"

QKV_INLINE vf silu(vf x) {
    return swish(x);
}

QKV_INLINE vf silu_slope(vf x) {
    return swish_slope(x);
}

QKV_ACTIVATION(silu)
