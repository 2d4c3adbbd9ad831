/* optimize.c: the update rules of the optimizers, elementwise. One pass reads and writes everything, and sets the
 * gradient to zero for the next step. */
#include "kernel/isa/isa.h"

/* Adam (Kingma & Ba 2015) with weight decay coupled (L2) or decoupled (AdamW, Loshchilov & Hutter 2019). */
QKV_INLINE void adam(float *w, float *m, float *v, float *dw, float gscale, float rate, float beta1, float beta2,
                     float eps, float decay, float correction1, float correction2, bool coupled, size_t n) {
    vf factor = vf_set(gscale), step = vf_set(rate), decays = vf_set(decay), epsilon = vf_set(eps);
    vf keep1 = vf_set(beta1), take1 = vf_set(1.0f - beta1), keep2 = vf_set(beta2), take2 = vf_set(1.0f - beta2);
    vf unbias1 = vf_set(1.0f / correction1), unbias2 = vf_set(1.0f / correction2);
    QKV_EACH(i, l, n, {
        vf weight = vf_load_n(w + i, l);
        vf g = vf_mul(factor, vf_load_n(dw + i, l));
        vf_store_n(dw + i, vf_set(0), l);
        if (coupled) g = vf_fma(decays, weight, g);
        vf first = vf_fma(keep1, vf_load_n(m + i, l), vf_mul(take1, g));
        vf second = vf_fma(keep2, vf_load_n(v + i, l), vf_mul(take2, vf_mul(g, g)));
        vf_store_n(m + i, first, l);
        vf_store_n(v + i, second, l);
        vf root = vf_add(vf_sqrt(vf_mul(second, unbias2)), epsilon);
        vf change = vf_div(vf_mul(first, unbias1), root);
        if (!coupled) change = vf_fma(decays, weight, change);
        vf_store_n(w + i, vf_fnma(step, change, weight), l);
    });
}

void QKV_K(adamw)(float *w, float *m, float *v, float *dw, float gscale, float rate, float beta1, float beta2,
                  float eps, float decay, float correction1, float correction2, bool coupled, size_t n) {
    if (coupled)
        adam(w, m, v, dw, gscale, rate, beta1, beta2, eps, decay, correction1, correction2, true, n);
    else
        adam(w, m, v, dw, gscale, rate, beta1, beta2, eps, decay, correction1, correction2, false, n);
}

void QKV_K(sgd)(float *w, float *m, float *dw, float gscale, float rate, float momentum, float decay, size_t n) {
    vf factor = vf_set(gscale), step = vf_set(rate), keep = vf_set(momentum), decays = vf_set(decay);
    QKV_EACH(i, l, n, {
        vf weight = vf_load_n(w + i, l);
        vf g = vf_fma(factor, vf_load_n(dw + i, l), vf_mul(decays, weight));
        vf_store_n(dw + i, vf_set(0), l);
        vf moment = vf_fma(keep, vf_load_n(m + i, l), g);
        vf_store_n(m + i, moment, l);
        vf_store_n(w + i, vf_fnma(step, moment, weight), l);
    });
}

void QKV_K(lion)(float *w, float *m, float *dw, float gscale, float rate, float beta1, float beta2, float decay,
                 size_t n) {
    vf factor = vf_set(gscale), step = vf_set(rate), decays = vf_set(decay), zero = vf_set(0);
    vf keep1 = vf_set(beta1), take1 = vf_set(1.0f - beta1), keep2 = vf_set(beta2), take2 = vf_set(1.0f - beta2);
    vf above = vf_set(1), below = vf_set(-1);
    QKV_EACH(i, l, n, {
        vf weight = vf_load_n(w + i, l), moment = vf_load_n(m + i, l);
        vf g = vf_mul(factor, vf_load_n(dw + i, l));
        vf_store_n(dw + i, zero, l);
        vf direction = vf_fma(keep1, moment, vf_mul(take1, g));
        vf sign = vf_select(vf_lt(zero, direction), above, vf_select(vf_lt(direction, zero), below, zero));
        vf_store_n(m + i, vf_fma(keep2, moment, vf_mul(take2, g)), l);
        vf_store_n(w + i, vf_fnma(step, vf_fma(decays, weight, sign), weight), l);
    });
}

void QKV_K(momentum)(float *m, float *dw, float gscale, float momentum, size_t n) {
    vf factor = vf_set(gscale), keep = vf_set(momentum), take = vf_set(1.0f - momentum);
    QKV_EACH(i, l, n, {
        vf part = vf_mul(take, vf_mul(factor, vf_load_n(dw + i, l)));
        vf moment = vf_fma(keep, vf_load_n(m + i, l), part);
        vf_store_n(m + i, moment, l);
        vf_store_n(dw + i, vf_fma(keep, moment, part), l);
    });
}

void QKV_K(descend)(float *w, float *dw, float gscale, float rate, float decay, size_t n) {
    vf factor = vf_set(gscale), step = vf_set(rate), decays = vf_set(decay);
    QKV_EACH(i, l, n, {
        vf weight = vf_load_n(w + i, l);
        vf change = vf_fma(factor, vf_load_n(dw + i, l), vf_mul(decays, weight));
        vf_store_n(dw + i, vf_set(0), l);
        vf_store_n(w + i, vf_fnma(step, change, weight), l);
    });
}
