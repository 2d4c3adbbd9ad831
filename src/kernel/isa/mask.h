/* mask.h: the dropout mask, shared by the dropout kernel and attention.
 *
 * Element e of the mask of `key` is word e % 2 of Threefry-2x32-20 (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3") on the counter {low, high half of e / 2}; the element is dropped if the word < p·2^32. This is a
 * pure function of (key, e): the same for every range and every ISA. */
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
/* The factor of elements that are not dropped: 1/(1 − p); 0 if all are dropped. */
QKV_INLINE float mask_scale(float p) {
    return p < 1.0f ? 1.0f / (1.0f - p) : 0.0f;
}

/* One of Threefry's rounds of each stream, and four of them with the key injection that follows. */
#define QKV_ROUND(bits)                                                                                                \
    do {                                                                                                               \
        QKV_UNROLL                                                                                                     \
        for (size_t s = 0; s < streams; s++) {                                                                         \
            x[s] = vi_add(x[s], y[s]);                                                                                 \
            y[s] = vi_xor(vi_rotl(y[s], bits), x[s]);                                                                  \
        }                                                                                                              \
    } while (0)
#define QKV_ROUNDS(a, b, c, d, i)                                                                                      \
    do {                                                                                                               \
        QKV_ROUND(a);                                                                                                  \
        QKV_ROUND(b);                                                                                                  \
        QKV_ROUND(c);                                                                                                  \
        QKV_ROUND(d);                                                                                                  \
        QKV_UNROLL                                                                                                     \
        for (size_t s = 0; s < streams; s++) {                                                                         \
            x[s] = vi_add(x[s], r->key[(i) % 3]);                                                                      \
            y[s] = vi_add(y[s], vi_add(r->key[((i) + 1) % 3], vi_set(i)));                                             \
        }                                                                                                              \
    } while (0)

/* Streams of long runs, whose stores take time too; and streams of rows of one vector each. */
enum { MASK_STREAMS = 4, MASK_ROW_STREAMS = 5 };
/* The words of the counters low + step, with the carry into high; the two words of a counter are adjacent: the first W
 * in x, the others in y. The words of one vector are one chain of instructions, so several streams hide each other's
 * latency. On entry low is in x and high in y. */
QKV_INLINE void mask_words(const struct mask_rule *r, const size_t streams, vi step, vi *x, vi *y) {
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        const vi low = x[s], high = y[s];
        x[s] = vi_add(low, step);
        y[s] = vi_select(vi_ge(x[s], low), high, vi_add(high, vi_set(1)));
        x[s] = vi_add(x[s], r->key[0]);
        y[s] = vi_add(y[s], r->key[1]);
    }
    QKV_ROUNDS(13, 15, 26, 6, 1);
    QKV_ROUNDS(17, 29, 16, 24, 2);
    QKV_ROUNDS(13, 15, 26, 6, 3);
    QKV_ROUNDS(17, 29, 16, 24, 4);
    QKV_ROUNDS(13, 15, 26, 6, 5);
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) vi_zip(&x[s], &y[s]);
}
/* Whether the elements from e on are kept (not dropped), W in each of 2·streams vectors of lanes; e is even. */
QKV_INLINE void mask_keep(const struct mask_rule *r, const size_t streams, uint64_t e, vm *keep) {
    vi x[MASK_STREAMS], y[MASK_STREAMS];
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        const uint64_t counter = e / 2 + s * W;
        x[s] = vi_set((uint32_t)counter);
        y[s] = vi_set((uint32_t)(counter >> 32));
    }
    mask_words(r, streams, vi_iota(), x, y);
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        keep[2 * s] = vi_ge(x[s], r->threshold);
        keep[2 * s + 1] = vi_ge(y[s], r->threshold);
    }
}

/* As mask_fill, for whole pairs of vectors, `streams` pairs at a time; returns how many elements those are. */
QKV_INLINE size_t mask_fill_streams(float *out, const struct mask_rule *r, const size_t streams, uint64_t e, size_t n,
                                    vf scale) {
    const size_t step = streams * 2 * W;
    size_t i = 0;
    for (; n - i >= step; i += step) {
        vm keep[2 * MASK_STREAMS];
        mask_keep(r, streams, e + i, keep);
        QKV_UNROLL
        for (size_t j = 0; j < 2 * streams; j++) vf_store(out + i + j * W, vf_select(keep[j], scale, vf_zero()));
    }
    return i;
}

/* out[j·ld + i] = kept if element at[j] + i is kept, else 0, for 2·streams rows j of W elements: two rows have one
 * vector of counters. All at[j] are even, W is more than 1. */
QKV_INLINE void mask_rows(float *out, size_t ld, const struct mask_rule *r, const size_t streams, const uint64_t *at,
                          float kept) {
    const vf scale = vf_set(kept), zero = vf_zero();
    const vm half = vm_first(W / 2);
    vi x[MASK_ROW_STREAMS], y[MASK_ROW_STREAMS];
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        const uint64_t a = at[2 * s] / 2, b = at[2 * s + 1] / 2;
        x[s] = vi_select(half, vi_set((uint32_t)a), vi_set((uint32_t)b));
        y[s] = vi_select(half, vi_set((uint32_t)(a >> 32)), vi_set((uint32_t)(b >> 32)));
    }
    mask_words(r, streams, vi_and(vi_iota(), vi_set(W / 2 - 1)), x, y);
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        vf_store(out + 2 * s * ld, vf_select(vi_ge(x[s], r->threshold), scale, zero));
        vf_store(out + (2 * s + 1) * ld, vf_select(vi_ge(y[s], r->threshold), scale, zero));
    }
}

/* The same for `streams` rows of any at[j], each with counters of its own. */
QKV_INLINE void mask_rows_apart(float *out, size_t ld, const struct mask_rule *r, const size_t streams,
                                const uint64_t *at, float kept) {
    const vf scale = vf_set(kept), zero = vf_zero();
    vi x[MASK_ROW_STREAMS], y[MASK_ROW_STREAMS];
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        x[s] = vi_set((uint32_t)(at[s] / 2));
        y[s] = vi_set((uint32_t)(at[s] / 2 >> 32));
    }
    mask_words(r, streams, vi_iota(), x, y);
    QKV_UNROLL
    for (size_t s = 0; s < streams; s++) {
        float pairs[2 * W];
        vf_store(pairs, vf_select(vi_ge(x[s], r->threshold), scale, zero));
        vf_store(pairs + W, vf_select(vi_ge(y[s], r->threshold), scale, zero));
        vf_store(out + s * ld, vf_load(pairs + at[s] % 2));
    }
}

/* out[i] = kept if element e + i is kept, else 0, for i < n; any e. Writes n floats only. */
static inline void mask_fill(float *out, const struct mask_rule *r, uint64_t e, size_t n, float kept) {
    vf scale = vf_set(kept), zero = vf_zero();
    vm keep[2];
    if (n && e % 2) { /* the range begins with the second element of a pair */
        const size_t here = n < 2 * W - 1 ? n : 2 * W - 1;
        float pairs[2 * W];
        mask_fill_streams(pairs, r, 1, e - 1, 2 * W, scale);
        memcpy(out, pairs + 1, here * sizeof *out);
        out += here, e += here, n -= here;
    }
    size_t i = mask_fill_streams(out, r, MASK_STREAMS, e, n, scale);
    i += mask_fill_streams(out + i, r, 1, e + i, n - i, scale);
    if (i < n) {
        mask_keep(r, 1, e + i, keep);
        vf_store_n(out + i, vf_select(keep[0], scale, zero), n - i);
        if (n - i > W) vf_store_n(out + i + W, vf_select(keep[1], scale, zero), n - i - W);
    }
}

#undef QKV_ROUND
#undef QKV_ROUNDS
#endif
