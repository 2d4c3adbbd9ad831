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

/* Whole pairs of vectors while there are enough of them for so many streams of words; returns how many elements those are. */
QKV_INLINE size_t drop_streams(float *y, bool accumulate, const float *x, const struct mask_rule *rule,
                               const size_t streams, vf kept, uint64_t first, size_t n) {
    const size_t step = streams * 2 * W;
    size_t i = 0;
    for (; n - i >= step; i += step) {
        vm keep[2 * MASK_STREAMS];
        mask_keep(rule, streams, first + i, keep);
        QKV_UNROLL
        for (size_t j = 0; j < 2 * streams; j++) drop(y + i + j * W, accumulate, x + i + j * W, keep[j], kept, W);
    }
    return i;
}

QKV_INLINE void drop_all(float *y, bool accumulate, const float *x, const struct mask_rule *rule, vf kept,
                         uint64_t first, size_t n) {
    size_t i = 0;
    if (n && first % 2) {
        drop_odd(y, accumulate, x, rule, first, kept);
        i = 1;
    }
    i += drop_streams(y + i, accumulate, x + i, rule, MASK_STREAMS, kept, first + i, n - i);
    i += drop_streams(y + i, accumulate, x + i, rule, 1, kept, first + i, n - i);
    if (i < n) {
        vm keep[2];
        mask_keep(rule, 1, first + i, keep);
        drop(y + i, accumulate, x + i, keep[0], kept, n - i);
        if (n - i > W) drop(y + i + W, accumulate, x + i + W, keep[1], kept, n - i - W);
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
