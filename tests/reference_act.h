/* reference_act.h: the activations in doubles, by their formulas. */
#ifndef QKV_REFERENCE_ACT_H
#define QKV_REFERENCE_ACT_H

#include <math.h>

#include <qkv.h>

static inline double reference_act(enum qkv_ffn_kind kind, double x) {
    const double a = sqrt(2 / acos(-1.0));
    switch (kind) {
    case QKV_FFN_RELU:
        return x > 0 ? x : 0;
    case QKV_FFN_GELU:
    case QKV_FFN_GEGLU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case QKV_FFN_GELU_TANH:
        return 0.5 * x * (1 + tanh(a * (x + 0.044715 * x * x * x)));
    case QKV_FFN_SILU:
    case QKV_FFN_SWIGLU:
        return x / (1 + exp(-x));
    default: /* no formula here */
        return NAN;
    }
}

#endif
