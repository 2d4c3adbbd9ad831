/* swiglu_clamped: quick_gelu(g)·(u + 1) with g = min(gate, limit) and u = up within ±limit, as in gpt-oss. The
 * derivative beyond a limit is 0, at the limit that of inside. Without a gate it is quick_gelu. NaN stays NaN. */
#include "kernel/isa/activation.h"
#include "kernel/isa/sigmoid.h"

QKV_INLINE vf swiglu_clamped(vf x) {
    return sigmoid_gelu(x);
}

QKV_INLINE vf swiglu_clamped_slope(vf x) {
    return sigmoid_gelu_slope(x);
}

QKV_INLINE vf swiglu_clamped_gate(vf gate, vf up, float limit) {
    vf g = sigmoid_gelu(vf_min(vf_set(limit), gate));
    return vf_fma(g, clamp(up, limit), g);
}

QKV_INLINE struct gate_slopes swiglu_clamped_gate_slopes(vf d, vf gate, vf up, float limit) {
    vf g = vf_min(vf_set(limit), gate), u = clamp(up, limit);
    vf by_gate = vf_mul(vf_mul(d, vf_add(u, vf_set(1.0f))), sigmoid_gelu_slope(g));
    vf by_up = vf_mul(d, sigmoid_gelu(g));
    return (struct gate_slopes){vf_select(vf_lt(vf_set(limit), gate), vf_zero(), by_gate),
                                vf_select(vf_lt(vf_set(limit), vf_abs(up)), vf_zero(), by_up)};
}

QKV_PLAIN(swiglu_clamped)
QKV_GATE(swiglu_clamped, swiglu_clamped_gate, swiglu_clamped_gate_slopes)
