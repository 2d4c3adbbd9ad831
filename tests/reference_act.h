/* reference_act.h: the activations and their derivatives by formula, in doubles. */
#ifndef QKV_REFERENCE_ACT_H
#define QKV_REFERENCE_ACT_H

#include <math.h>
#include <string.h>

#include <qkv.h>

/* By the name of its file, activation_NAME.c; of one without a formula here NAN. */
static inline double reference_function(const char *name, double x) {
    const double a = sqrt(2 / acos(-1.0));
    if (!strcmp(name, "relu")) return x > 0 ? x : 0;
    if (!strcmp(name, "relu2")) return x > 0 ? x * x : 0;
    if (!strcmp(name, "gelu")) return 0.5 * x * erfc(-x / sqrt(2));
    if (!strcmp(name, "gelu_tanh")) return 0.5 * x * (1 + tanh(a * (x + 0.044715 * x * x * x)));
    if (!strcmp(name, "silu")) return x / (1 + exp(-x));
    if (!strcmp(name, "tangent")) return tanh(x);
    if (!strcmp(name, "quick_gelu") || !strcmp(name, "swiglu_clamped")) return x / (1 + exp(-1.702 * x));
    return NAN;
}

/* σ(z)·(1 − σ(z)), where e^−z would be infinite too. */
static inline double reference_bell(double z) {
    return 1 / (2 + exp(z) + exp(-z));
}

static inline double reference_derivative(const char *name, double x) {
    const double a = sqrt(2 / acos(-1.0)), t = tanh(a * (x + 0.044715 * x * x * x));
    if (!strcmp(name, "relu")) return x > 0;
    if (!strcmp(name, "relu2")) return x > 0 ? 2 * x : 0;
    if (!strcmp(name, "gelu")) return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1.0));
    if (!strcmp(name, "gelu_tanh"))
        return 0.5 * (1 + t) + (t * t == 1 ? 0 : 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x));
    if (!strcmp(name, "silu")) return 1 / (1 + exp(-x)) + x * reference_bell(x);
    if (!strcmp(name, "tangent")) return 4 * reference_bell(2 * x);
    if (!strcmp(name, "quick_gelu") || !strcmp(name, "swiglu_clamped"))
        return 1 / (1 + exp(-1.702 * x)) + 1.702 * x * reference_bell(1.702 * x);
    return NAN;
}

/* The activation of a kind, and its name. */
static inline const char *reference_name(enum qkv_ffn_kind kind) {
    static const char *const names[] = {
#define REFERENCE_NAME(name, text, help, activation, gated) #activation,
        QKV_FFN_LIST(REFERENCE_NAME)};
    return names[kind];
}
static inline double reference_act(enum qkv_ffn_kind kind, double x) {
    return reference_function(reference_name(kind), x);
}
static inline double reference_slope(enum qkv_ffn_kind kind, double x) {
    return reference_derivative(reference_name(kind), x);
}

/* The output of a gated kind and its derivatives by gate and up: act(gate)·up, except for the kind that clamps. */
static inline double reference_gate(enum qkv_ffn_kind kind, double limit, double gate, double up, double slopes[2]) {
    const bool clamped = kind == QKV_FFN_SWIGLU_CLAMPED;
    const double g = clamped && gate > limit ? limit : gate;
    const double u = !clamped ? up : 1 + (fabs(up) > limit ? copysign(limit, up) : up), act = reference_act(kind, g);
    if (slopes) {
        slopes[0] = g < gate ? 0 : u * reference_slope(kind, g);
        slopes[1] = clamped && fabs(up) > limit ? 0 : act;
    }
    return act * u;
}

#endif
