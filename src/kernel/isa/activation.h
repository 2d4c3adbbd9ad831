/* activation.h: an activation's file has its function and its derivative, NAME(x) and NAME_slope(x) on vectors, and the line
 * QKV_ACTIVATION(NAME), which makes the loops of both. */
#ifndef QKV_ISA_ACTIVATION_H
#define QKV_ISA_ACTIVATION_H

#include "kernel/isa/isa.h"

struct qkv_activation {
    void (*forward)(float *y, const float *x, size_t n);
    void (*backward)(float *dx, bool accumulate, const float *dy, const float *x, size_t n);
    void (*gated_forward)(float *y, const float *gate, const float *up, size_t n);
    void (*gated_backward)(float *dgate, float *dup, bool accumulate, const float *dy, const float *gate,
                           const float *up, size_t n);
};

#define QKV_ACTIVATION_DECLARE(name, text, help, activation, gated)                                                    \
    extern const struct qkv_activation QKV_K(activation_##activation);
QKV_FFN_LIST(QKV_ACTIVATION_DECLARE)

QKV_INLINE void activation_put(float *p, bool accumulate, vf a, size_t n) {
    vf_store_n(p, accumulate ? vf_add(vf_load_n(p, n), a) : a, n);
}

#define QKV_ACTIVATION(name)                                                                                           \
    static void name##_forward(float *y, const float *x, size_t n) {                                                   \
        QKV_EACH(i, m, n, { vf_store_n(y + i, name(vf_load_n(x + i, m)), m); });                                       \
    }                                                                                                                  \
    static void name##_backward(float *dx, bool accumulate, const float *dy, const float *x, size_t n) {               \
        QKV_EACH(i, m, n, {                                                                                            \
            vf d = vf_mul(vf_load_n(dy + i, m), name##_slope(vf_load_n(x + i, m)));                                    \
            activation_put(dx + i, accumulate, d, m);                                                                  \
        });                                                                                                            \
    }                                                                                                                  \
    static void name##_gated_forward(float *y, const float *gate, const float *up, size_t n) {                         \
        QKV_EACH(i, m, n, { vf_store_n(y + i, vf_mul(name(vf_load_n(gate + i, m)), vf_load_n(up + i, m)), m); });      \
    }                                                                                                                  \
    static void name##_gated_backward(float *dgate, float *dup, bool accumulate, const float *dy, const float *gate,   \
                                      const float *up, size_t n) {                                                     \
        QKV_EACH(i, m, n, {                                                                                            \
            vf d = vf_load_n(dy + i, m), g = vf_load_n(gate + i, m);                                                   \
            activation_put(dgate + i, accumulate, vf_mul(vf_mul(d, vf_load_n(up + i, m)), name##_slope(g)), m);        \
            activation_put(dup + i, accumulate, vf_mul(d, name(g)), m);                                                \
        });                                                                                                            \
    }                                                                                                                  \
    const struct qkv_activation QKV_K(activation_##name) = {name##_forward, name##_backward, name##_gated_forward,     \
                                                            name##_gated_backward};

#endif
