/* attend_store.h: how a row's weights and gradients are stored, in fp32 (attend_gradients.c) and in bf16
 * (attend_bf16_backward.c). */
#ifndef QKV_ISA_ATTEND_STORE_H
#define QKV_ISA_ATTEND_STORE_H

#include "kernel/isa/attend_score.h"

/* P and dS of the keys from j on, zeros where the row may not attend: outside the span and, where `apart` says that some scores
 * may be −inf, there too, as 0 times what is not finite is no 0. */
QKV_INLINE void store_gradients(float *p, float *ds, vf weight, vf gradient, vf score, bool apart, struct span span,
                                size_t j) {
    if (apart) {
        vm never = vf_eq(score, vf_set(-INFINITY));
        weight = vf_select(never, vf_zero(), weight);
        gradient = vf_select(never, vf_zero(), gradient);
    }
    if (!vector_inside(span, j)) {
        vm inside = lanes_inside(span, j);
        weight = vf_select(inside, weight, vf_zero());
        gradient = vf_select(inside, gradient, vf_zero());
    }
    vf_store(p + j, weight);
    vf_store(ds + j, gradient);
}

#endif
