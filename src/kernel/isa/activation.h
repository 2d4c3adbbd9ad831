/* activation.h: for the files of activations. An activation's file has its function and its derivative, NAME(x) and
 * NAME_slope(x) on vectors, and the line QKV_ACTIVATION(NAME), which defines the loops of both and of act(gate)·up. If
 * the gate has another formula, the file has QKV_PLAIN(NAME), and QKV_GATE(NAME, NAME_gate, NAME_gate_slopes) with
 * functions like the ones below. */
#ifndef QKV_ISA_ACTIVATION_H
#define QKV_ISA_ACTIVATION_H

#include "kernel/isa/isa.h"

struct qkv_activation {
    void (*forward)(float *y, const float *x, size_t n);
    void (*backward)(float *dx, bool accumulate, const float *dy, const float *x, size_t n);
    void (*forward_slope)(float *y, float *x, size_t n);
    void (*gated_forward)(float limit, float *y, const float *gate, const float *up, size_t n);
    void (*gated_backward)(float limit, float *dgate, float *dup, bool accumulate, const float *dy, const float *gate,
                           const float *up, size_t n);
};

#define QKV_ACTIVATION_DECLARE(name, text, help, activation, gated)                                                    \
    extern const struct qkv_activation QKV_K(activation_##activation);
QKV_FFN_LIST(QKV_ACTIVATION_DECLARE)

QKV_INLINE void activation_put(float *p, bool accumulate, vf a, size_t n) {
    vf_store_n(p, accumulate ? vf_add(vf_load_n(p, n), a) : a, n);
}

/* Prefetches x some vectors ahead; that may be past the end. */
QKV_INLINE void activation_ask(const float *x) {
    enum { AHEAD = 1024 };
    QKV_PREFETCH((const void *)((uintptr_t)x + AHEAD));
}

/* The derivatives of a gate's result by gate and by up, times d. */
struct gate_slopes {
    vf gate, up;
};

#define QKV_PLAIN(name)                                                                                                \
    static void name##_forward(float *y, const float *x, size_t n) {                                                   \
        QKV_EACH(i, m, n, { vf_store_n(y + i, name(vf_load_n(x + i, m)), m); });                                       \
    }                                                                                                                  \
    static void name##_backward(float *dx, bool accumulate, const float *dy, const float *x, size_t n) {               \
        QKV_EACH(i, m, n, {                                                                                            \
            activation_ask(dy + i);                                                                                    \
            activation_ask(x + i);                                                                                     \
            vf d = vf_mul(vf_load_n(dy + i, m), name##_slope(vf_load_n(x + i, m)));                                    \
            activation_put(dx + i, accumulate, d, m);                                                                  \
        });                                                                                                            \
    }                                                                                                                  \
    static void name##_forward_slope(float *y, float *x, size_t n) {                                                   \
        QKV_EACH(i, m, n, {                                                                                            \
            vf a = vf_load_n(x + i, m);                                                                                \
            vf_store_n(y + i, name(a), m);                                                                             \
            vf_store_n(x + i, name##_slope(a), m);                                                                     \
        });                                                                                                            \
    }

#define QKV_GATE(name, value, slopes)                                                                                  \
    static void name##_gated_forward(float limit, float *y, const float *gate, const float *up, size_t n) {            \
        (void)limit;                                                                                                   \
        QKV_EACH(i, m, n, { vf_store_n(y + i, value(vf_load_n(gate + i, m), vf_load_n(up + i, m), limit), m); });      \
    }                                                                                                                  \
    static void name##_gated_backward(float limit, float *dgate, float *dup, bool accumulate, const float *dy,         \
                                      const float *gate, const float *up, size_t n) {                                  \
        (void)limit;                                                                                                   \
        QKV_EACH(i, m, n, {                                                                                            \
            struct gate_slopes s = slopes(vf_load_n(dy + i, m), vf_load_n(gate + i, m), vf_load_n(up + i, m), limit);  \
            activation_put(dgate + i, accumulate, s.gate, m);                                                          \
            activation_put(dup + i, accumulate, s.up, m);                                                              \
        });                                                                                                            \
    }                                                                                                                  \
    const struct qkv_activation QKV_K(activation_##name) = {name##_forward, name##_backward, name##_forward_slope,     \
                                                            name##_gated_forward, name##_gated_backward};

#define QKV_ACTIVATION(name)                                                                                           \
    QKV_INLINE vf name##_gate(vf gate, vf up, float limit) {                                                           \
        (void)limit;                                                                                                   \
        return vf_mul(name(gate), up);                                                                                 \
    }                                                                                                                  \
    QKV_INLINE struct gate_slopes name##_gate_slopes(vf d, vf gate, vf up, float limit) {                              \
        (void)limit;                                                                                                   \
        return (struct gate_slopes){vf_mul(vf_mul(d, up), name##_slope(gate)), vf_mul(d, name(gate))};                 \
    }                                                                                                                  \
    QKV_PLAIN(name)                                                                                                    \
    QKV_GATE(name, name##_gate, name##_gate_slopes)

#endif
