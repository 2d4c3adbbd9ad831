/* attend_store.h: how a row's weights and gradients are stored, in fp32 (attend_gradients.c) and in bf16
 * (attend_bf16_backward.c). */
#ifndef QKV_ISA_ATTEND_STORE_H
#define QKV_ISA_ATTEND_STORE_H

#include "kernel/isa/attend_score.h"

/* What counts of P or dS: 0 where the score may be −inf (`apart`) and is: 0 times what is not finite is no 0. */
QKV_INLINE vf gradient_of(vf gradient, vf score, bool apart) {
    return apart ? vf_select(vf_eq(score, vf_set(-INFINITY)), vf_zero(), gradient) : gradient;
}

/* P and dS of the keys from j on, zeros where the row may not attend: outside the span too. */
QKV_INLINE void store_gradients(float *p, float *ds, vf weight, vf gradient, vf score, bool apart, struct span span,
                                size_t j) {
    weight = gradient_of(weight, score, apart), gradient = gradient_of(gradient, score, apart);
    if (!vector_inside(span, j)) {
        vm inside = lanes_inside(span, j);
        weight = vf_select(inside, weight, vf_zero());
        gradient = vf_select(inside, gradient, vf_zero());
    }
    vf_store(p + j, weight);
    vf_store(ds + j, gradient);
}

#endif
