/* dropout.c: dropout (Srivastava et al. 2014) with the mask of mask.h: elements that are not dropped are divided by 1 −
 * p. The mask is written as bits, which backward reads: computing the random numbers is some twenty times the work of
 * reading the bits. */
#include "kernel/isa/isa.h"
#include "kernel/isa/mask.h"

/* Writes the bits of the first n lanes, which are elements i … of a run; i is a multiple of W. */
QKV_INLINE void put_bits(uint8_t *kept, size_t i, vm keep, size_t n) {
    const uint32_t bits = QKV_WHOLE(n) ? vm_bits(keep) : vm_bits(keep) & ((1u << (n < W ? n : W)) - 1);
    if (W < 8) { /* several vectors share a byte */
        kept[i / 8] = (uint8_t)((i % 8 ? kept[i / 8] : 0u) | bits << i % 8);
        return;
    }
    for (size_t b = 0; 8 * b < W && 8 * b < n; b++) kept[i / 8 + b] = (uint8_t)(bits >> 8 * b);
}
QKV_INLINE vm get_bits(const uint8_t *kept, size_t i, size_t n) {
    if (W < 8) return vm_from_bits((uint32_t)kept[i / 8] >> i % 8);
    uint32_t bits = 0;
    for (size_t b = 0; 8 * b < W && 8 * b < n; b++) bits |= (uint32_t)kept[i / 8 + b] << 8 * b;
    return vm_from_bits(bits);
}

/* The first n lanes of x, scaled, where `keep` holds, else 0. */
QKV_INLINE vf dropped(const float *x, vm keep, vf scale, size_t n) {
    return vf_select(keep, vf_mul(vf_load_n(x, n), scale), vf_zero());
}

/* A run of elements; its first element has number `first` in the mask. */
struct drop {
    float *y;
    uint8_t *kept;
    const float *x;
    struct mask_rule rule;
    vf scale;
    uint64_t first;
    size_t n;
};
QKV_INLINE void drop_vector(const struct drop *d, bool keeps, size_t i, vm keep, size_t n) {
    vf_store_n(d->y + i, dropped(d->x + i, keep, d->scale, n), n);
    if (keeps) put_bits(d->kept, i, keep, n);
}

/* Processes whole pairs of vectors from i on, `streams` pairs at a time; returns where the rest begins. */
QKV_INLINE size_t drop_streams(const struct drop *d, bool keeps, const size_t streams, size_t i) {
    const size_t step = streams * 2 * W;
    for (; d->n - i >= step; i += step) {
        vm keep[2 * MASK_STREAMS];
        mask_keep(&d->rule, streams, d->first + i, keep);
        QKV_UNROLL
        for (size_t j = 0; j < 2 * streams; j++) drop_vector(d, keeps, i + j * W, keep[j], W);
    }
    return i;
}

QKV_INLINE void drop_even(const struct drop *d, bool keeps) {
    size_t i = drop_streams(d, keeps, MASK_STREAMS, 0);
    i = drop_streams(d, keeps, 1, i);
    if (i < d->n) {
        const size_t rest = d->n - i;
        vm keep[2];
        mask_keep(&d->rule, 1, d->first + i, keep);
        drop_vector(d, keeps, i, keep[0], rest < W ? rest : W);
        if (rest > W) drop_vector(d, keeps, i + W, keep[1], rest - W);
    }
}

/* `first` is odd: the first element is the second of its pair, so vectors of the mask and of x do not align. Rows of an
 * odd width have this case. */
static void drop_odd(const struct drop *d) {
    enum { PART = 256 };
    float factors[PART];
    for (size_t begin = 0, end; begin < d->n; begin = end) {
        end = d->n - begin < PART ? d->n : begin + PART;
        mask_fill(factors, &d->rule, d->first + begin, end - begin, 1.0f);
        QKV_EACH(i, m, end - begin,
                 { drop_vector(d, d->kept, begin + i, vf_lt(vf_zero(), vf_load_n(factors + i, m)), m); });
    }
}

void QKV_K(dropout)(float *y, uint8_t *kept, const float *x, float p, const uint32_t key[2], uint64_t first, size_t n) {
    const struct drop d = {y, kept, x, mask_rule(key, p), vf_set(mask_scale(p)), first, n};
    if (first % 2)
        drop_odd(&d);
    else if (kept)
        drop_even(&d, true);
    else
        drop_even(&d, false);
}

void QKV_K(dropout_backward)(float *dx, bool accumulate, const float *dy, const uint8_t *kept, float p, size_t n) {
    const vf scale = vf_set(mask_scale(p));
    QKV_EACH(i, m, n, {
        const vf some = dropped(dy + i, get_bits(kept, i, m), scale, m);
        vf_store_n(dx + i, accumulate ? vf_add(vf_load_n(dx + i, m), some) : some, m);
    });
}
