/* mask.h: the dropout mask, shared by the dropout kernel and attention.
 *
 * Element e of the mask that `key` names is word e % 2 of Threefry-2x32-20 (Salmon et al. 2011, "Parallel random numbers:
 * as easy as 1, 2, 3") on the counter {low, high half of e / 2}; it is kept when the word >= p·2^32. A pure function of
 * (key, e): the same whatever range it is asked for in, in every ISA. */
#ifndef QKV_ISA_MASK_H
#define QKV_ISA_MASK_H

#include "kernel/isa/simd.h"

struct mask_rule {
    vi key[3];
    vi threshold;
};

QKV_INLINE struct mask_rule mask_rule(const uint32_t key[2], float p) {
    double limit = (double)p * 4294967296.0;
    uint32_t threshold = limit < 4294967295.0 ? (uint32_t)limit : UINT32_MAX;
    return (struct mask_rule){{vi_set(key[0]), vi_set(key[1]), vi_set(0x1bd11bdau ^ key[0] ^ key[1])},
                              vi_set(threshold)};
}
/* What a kept element is multiplied by: 1/(1 − p); 0 when everything is dropped. */
QKV_INLINE float mask_scale(float p) {
    return p < 1.0f ? 1.0f / (1.0f - p) : 0.0f;
}

/* One of Threefry's rounds, and four of them with the key injection that follows. */
#define QKV_ROUND(bits) (x = vi_add(x, y), y = vi_xor(vi_rotl(y, bits), x))
#define QKV_ROUNDS(a, b, c, d, i)                                                                                      \
    do {                                                                                                               \
        QKV_ROUND(a), QKV_ROUND(b), QKV_ROUND(c), QKV_ROUND(d);                                                        \
        x = vi_add(x, r->key[(i) % 3]);                                                                                \
        y = vi_add(vi_add(y, r->key[((i) + 1) % 3]), vi_set(i));                                                       \
    } while (0)

/* The words of the counters low + step, with the carry into high, those of a counter side by side. */
QKV_INLINE void mask_words(const struct mask_rule *r, vi low, vi high, vi step, vi *first, vi *second) {
    vi x = vi_add(low, step);
    vi y = vi_select(vi_ge(x, low), high, vi_add(high, vi_set(1)));
    x = vi_add(x, r->key[0]);
    y = vi_add(y, r->key[1]);
    QKV_ROUNDS(13, 15, 26, 6, 1);
    QKV_ROUNDS(17, 29, 16, 24, 2);
    QKV_ROUNDS(13, 15, 26, 6, 3);
    QKV_ROUNDS(17, 29, 16, 24, 4);
    QKV_ROUNDS(13, 15, 26, 6, 5);
    vi_zip(&x, &y);
    *first = x;
    *second = y;
}
/* Whether elements e … e + W − 1 and e + W … e + 2W − 1 are kept; e is even. */
QKV_INLINE void mask_keep(const struct mask_rule *r, uint64_t e, vm *first, vm *second) {
    vi a, b;
    const uint64_t counter = e / 2;
    mask_words(r, vi_set((uint32_t)counter), vi_set((uint32_t)(counter >> 32)), vi_iota(), &a, &b);
    *first = vi_ge(a, r->threshold);
    *second = vi_ge(b, r->threshold);
}

/* out[i], other[i] = kept if element e + i, and at + i, is kept, else 0, for i < W: both from one vector of counters. e and at are even, W is
 * more than 1. */
QKV_INLINE void mask_both(float *out, float *other, const struct mask_rule *r, uint64_t e, uint64_t at, float kept) {
    const vf scale = vf_set(kept), zero = vf_zero();
    const vm half = vm_first(W / 2);
    vi a, b;
    e /= 2, at /= 2;
    mask_words(r, vi_select(half, vi_set((uint32_t)e), vi_set((uint32_t)at)),
               vi_select(half, vi_set((uint32_t)(e >> 32)), vi_set((uint32_t)(at >> 32))),
               vi_and(vi_iota(), vi_set(W / 2 - 1)), &a, &b);
    vf_store(out, vf_select(vi_ge(a, r->threshold), scale, zero));
    vf_store(other, vf_select(vi_ge(b, r->threshold), scale, zero));
}

/* out[i] = kept if element e + i is kept, else 0, for i < n; any e. Writes n floats only. */
static inline void mask_fill(float *out, const struct mask_rule *r, uint64_t e, size_t n, float kept) {
    vf scale = vf_set(kept), zero = vf_zero();
    vm a, b;
    if (n && e % 2) { /* the pair's first element lies before the range */
        float pair[2 * W];
        mask_keep(r, e - 1, &a, &b);
        vf_store(pair, vf_select(a, scale, zero));
        vf_store(pair + W, vf_select(b, scale, zero));
        *out++ = pair[1];
        e++, n--;
    }
    size_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
        mask_keep(r, e + i, &a, &b);
        vf_store(out + i, vf_select(a, scale, zero));
        vf_store(out + i + W, vf_select(b, scale, zero));
    }
    if (i < n) {
        mask_keep(r, e + i, &a, &b);
        vf_store_n(out + i, vf_select(a, scale, zero), n - i);
        if (n - i > W) vf_store_n(out + i + W, vf_select(b, scale, zero), n - i - W);
    }
}

#undef QKV_ROUND
#undef QKV_ROUNDS
#endif
