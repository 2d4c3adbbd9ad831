/* dropout.c: dropout (Srivastava et al. 2014) with the mask of mask.h: kept elements are divided by 1 − p. */
#include "kernel/isa/isa.h"
#include "kernel/isa/mask.h"

/* The first n lanes of y from x where `keep` holds. */
QKV_INLINE void drop(float *y, bool accumulate, const float *x, vm keep, vf kept, size_t n) {
    vf scaled = vf_select(keep, vf_mul(vf_load_n(x, n), kept), vf_zero());
    vf_store_n(y, accumulate ? vf_add(vf_load_n(y, n), scaled) : scaled, n);
}

/* The element at an odd place alone: its pair begins before the range. */
static void drop_odd(float *y, bool accumulate, const float *x, const struct mask_rule *rule, uint64_t e, vf kept) {
    float factor;
    mask_fill(&factor, rule, e, 1, 1.0f);
    drop(y, accumulate, x, vf_lt(vf_zero(), vf_set(factor)), kept, 1);
}

QKV_INLINE void drop_all(float *y, bool accumulate, const float *x, const struct mask_rule *rule, vf kept,
                         uint64_t first, size_t n) {
    vm a, b;
    size_t i = 0;
    if (n && first % 2) {
        drop_odd(y, accumulate, x, rule, first, kept);
        i = 1;
    }
    for (; n - i >= 2 * W; i += 2 * W) {
        mask_keep(rule, first + i, &a, &b);
        drop(y + i, accumulate, x + i, a, kept, W);
        drop(y + i + W, accumulate, x + i + W, b, kept, W);
    }
    if (i < n) {
        mask_keep(rule, first + i, &a, &b);
        drop(y + i, accumulate, x + i, a, kept, n - i);
        if (n - i > W) drop(y + i + W, accumulate, x + i + W, b, kept, n - i - W);
    }
}

void QKV_K(dropout)(float *y, bool accumulate, const float *x, float p, const uint32_t key[2], uint64_t first,
                    size_t n) {
    const struct mask_rule rule = mask_rule(key, p);
    vf kept = vf_set(mask_scale(p));
    if (accumulate)
        drop_all(y, true, x, &rule, kept, first, n);
    else
        drop_all(y, false, x, &rule, kept, first, n);
}
