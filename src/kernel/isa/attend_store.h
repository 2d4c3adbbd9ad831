/* attend_store.h: how a row's weights and gradients are stored, in fp32 (attend_gradients.c) and in bf16
 * (attend_bf16_backward.c). */
#ifndef QKV_ISA_ATTEND_STORE_H
#define QKV_ISA_ATTEND_STORE_H

#include "kernel/isa/attend_score.h"

/* delta of the row with index `at`: dy·y − dlse. dS = P·(dP − delta) is a difference of two nearly equal numbers for a
 * row with one large weight. So delta uses the same dy as the product dP: rounded to bf16 if it `rounds`, except
 * numbers that are too large for bf16. */
QKV_INLINE float row_delta(const struct qkv_attend_plan *plan, const bool rounds, struct cells y, struct cells dy,
                           size_t at) {
    const float *dlse = plan->g->dlse;
    const size_t columns = plan->a->Dv;
    vf_parts sum = vf_parts_zero();
    QKV_EACH_PART(c, n, part, columns, vf_parts_turn(&sum), {
        vf d = load_cells(dy, c, n);
        if (rounds && dy.dtype != QKV_BF16) {
            const vf r = rounded(d), finite = vf_set(FLT_MAX);
            d = vf_select(vf_lt(finite, vf_max(r, vf_sub(vf_zero(), r))), d, r);
        }
        sum.part[part] = vf_fma(load_cells(y, c, n), d, sum.part[part]);
    });
    return vf_parts_sum(sum) - (dlse ? dlse[at] : 0.0f);
}

/* P or dS of a pair: 0 if the score is −inf, which only `apart` scores can be. (0 times a number that is not finite is
 * not 0.) */
QKV_INLINE vf gradient_of(vf gradient, vf score, bool apart) {
    return apart ? vf_select(vf_eq(score, vf_set(-INFINITY)), vf_zero(), gradient) : gradient;
}

/* P and dS of the keys from j on; zeros for masked pairs and outside the span. */
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
