/* quick_gelu: x·σ(1.702·x) (Hendrycks & Gimpel 2016; CLIP). */
#include "kernel/isa/activation.h"
#include "kernel/isa/sigmoid.h"

QKV_INLINE vf quick_gelu(vf x) {
    return sigmoid_gelu(x);
}

QKV_INLINE vf quick_gelu_slope(vf x) {
    return sigmoid_gelu_slope(x);
}

QKV_ACTIVATION(quick_gelu)
