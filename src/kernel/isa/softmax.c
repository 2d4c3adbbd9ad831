/* softmax.c: log Σ exp(x) of a row, and softmax from it. */
#include "base/math.h"
#include "kernel/isa/isa.h"

/* The largest element is subtracted first, so nothing overflows. A row of −inf gives −inf. Rows with NaN or +inf are
 * not shifted, so these stay in the result. */
float QKV_K(log_sum_exp)(const float *x, size_t n) {
    vf largest = vf_set(-INFINITY), lowest = vf_set(-INFINITY);
    QKV_EACH(i, m, n, { largest = vf_max(vf_select(vm_first(m), vf_load_n(x + i, m), lowest), largest); });
    float shift = vf_largest(largest);
    if (!(shift > -INFINITY && shift < INFINITY)) shift = 0.0f;
    vf shifts = vf_set(shift);
    vd_parts sum = vd_parts_zero();
    QKV_EACH_PART(i, m, part, n, vd_parts_turn(&sum), {
        vf e = vf_exp(vf_sub(vf_load_n(x + i, m), shifts));
        sum.part[part] = vd_add(sum.part[part], vd_from_float(vf_select(vm_first(m), e, vf_zero())));
    });
    return (float)(shift + qkv_log(vd_parts_sum(sum)));
}

void QKV_K(softmax_scaled)(float *y, const float *x, float lse, float s, float less, size_t n) {
    const vf shift = vf_set(lse), factor = vf_set(s), minus = vf_set(less);
    QKV_EACH(i, m, n, {
        const vf e = vf_mul(factor, vf_exp(vf_sub(vf_load_n(x + i, m), shift)));
        vf_store_n(y + i, vf_sub(e, minus), m);
    });
}
