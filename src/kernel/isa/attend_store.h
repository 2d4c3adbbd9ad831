/* attend_store.h: how a row's weights and gradients are stored, in fp32 (attend_gradients.c) and in bf16
 * (attend_bf16_backward.c). */
#ifndef QKV_ISA_ATTEND_STORE_H
#define QKV_ISA_ATTEND_STORE_H

#include "kernel/isa/attend_score.h"

/* delta of the row whose place in it is `at`: dy·y − dlse. dS = P·(dP − delta) is what is left of two numbers that are nearly the same for a row
 * with one large weight, so that dy is the one of which dP is a product: where it
 * `rounds`, to bf16, but for numbers too large for that. */
QKV_INLINE float row_delta(const struct qkv_attend_plan *plan, const bool rounds, struct cells y, struct cells dy,
                           size_t at) {
    const float *dlse = plan->g->dlse;
    const size_t columns = plan->a->Dv;
    vf sum = vf_zero();
    for (size_t c = 0; c < columns; c += W) {
        vf d = load_cells(dy, c, columns - c);
        if (rounds && dy.dtype != QKV_BF16) {
            const vf r = rounded(d), finite = vf_set(FLT_MAX);
            d = vf_select(vf_lt(finite, vf_max(r, vf_sub(vf_zero(), r))), d, r);
        }
        sum = vf_fma(load_cells(y, c, columns - c), d, sum);
    }
    return vf_sum(sum) - (dlse ? dlse[at] : 0.0f);
}

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
