/* vector_activation.c: the activations of feed-forward layers, one file activation_NAME.c each; gated: act(gate)·up
 * (Shazeer 2020, "GLU variants improve transformer"). */
#include "kernel/isa/activation.h"

#define ACTIVATION_ENTRY(name, text, help, activation, gated) [QKV_FFN_##name] = &QKV_K(activation_##activation),
static const struct qkv_activation *const activations[] = {QKV_FFN_LIST(ACTIVATION_ENTRY)};

void QKV_K(activation_forward)(enum qkv_ffn_kind kind, float *y, const float *x, size_t n) {
    activations[kind]->forward(y, x, n);
}

void QKV_K(activation_backward)(enum qkv_ffn_kind kind, float *dx, bool accumulate, const float *dy, const float *x,
                                size_t n) {
    activations[kind]->backward(dx, accumulate, dy, x, n);
}

void QKV_K(activation_forward_slope)(enum qkv_ffn_kind kind, float *y, float *x, size_t n) {
    activations[kind]->forward_slope(y, x, n);
}

void QKV_K(activation_backward_slope)(float *dx, bool accumulate, const float *dy, const float *slope, size_t n) {
    QKV_EACH(i, m, n, {
        activation_ask(dy + i);
        activation_ask(slope + i);
        activation_put(dx + i, accumulate, vf_mul(vf_load_n(dy + i, m), vf_load_n(slope + i, m)), m);
    });
}

void QKV_K(gated_forward)(enum qkv_ffn_kind kind, float limit, float *y, const float *gate, const float *up, size_t n) {
    activations[kind]->gated_forward(limit, y, gate, up, n);
}

void QKV_K(gated_backward)(enum qkv_ffn_kind kind, float limit, float *dgate, float *dup, bool accumulate,
                           const float *dy, const float *gate, const float *up, size_t n) {
    activations[kind]->gated_backward(limit, dgate, dup, accumulate, dy, gate, up, n);
}
