/* attend_groups.h: keys and values in groups of numbers of 8 bits with a scale (kernel/page_groups.h): products with a
 * few rows that read them where they are stored, and packing for many rows.
 *
 * A number times its scale is exact in fp32, and the chains are those of the same numbers in rows of fp32, so the bits
 * are the same. */
#ifndef QKV_ISA_ATTEND_GROUPS_H
#define QKV_ISA_ATTEND_GROUPS_H

#include "kernel/isa/attend_score.h"

enum { GROUP_KEYS = QKV_GROUP_POSITIONS, GROUP_CHANNELS = QKV_GROUP_CHANNELS };
_Static_assert(GROUP_KEYS % W == 0 && GROUP_CHANNELS % W == 0, "groups are whole vectors");

/* The groups of some keys of a head: those of GROUP_KEYS keys are (blocks). */
struct groups {
    const struct qkv_page_group *first; /* NULL: the keys are in no groups */
    size_t blocks;
};

static inline struct groups groups_of(const struct stream *s, size_t first, size_t count) {
    return (struct groups){stream_groups(s, first, count), s->columns / GROUP_CHANNELS};
}

QKV_INLINE const struct qkv_page_group *groups_at(struct groups x, size_t key, size_t block) {
    return x.first + key / GROUP_KEYS * x.blocks + block;
}

/* The bytes of a number with its part of a scale are GROUP_BYTES / GROUP_CHANNELS. */
enum { GROUP_BYTES = sizeof(struct qkv_page_group) / GROUP_KEYS };

/* ---- a few rows -------------------------------------------------------------------------------------------------
 *
 * The groups `soon`, which are read next, are prefetched meanwhile, at the same pace. */

/* s (R,lds) = q (R,D) times N·W keys from `key` on. */
QKV_INLINE void groups_products(const size_t R, const size_t N, float *s, size_t lds, const float *q, struct groups x,
                                struct groups soon, size_t key) {
    enum { MAX = 8 };
    const size_t D = x.blocks * GROUP_CHANNELS;
    const char *next = (const char *)soon.first + key * soon.blocks * GROUP_BYTES;
    vf sum[TILE][MAX];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < N; v++) sum[r][v] = vf_zero();
    }
    for (size_t b = 0; b < x.blocks; b++) {
        const int8_t *from[MAX];
        vf scale[MAX];
        QKV_UNROLL
        for (size_t v = 0; v < N; v++) {
            const struct qkv_page_group *group = groups_at(x, key + v * W, b);
            from[v] = group->numbers + (key + v * W) % GROUP_KEYS;
            scale[v] = load_f16(group->scales + (key + v * W) % GROUP_KEYS, W);
        }
        for (size_t c = 0; c < GROUP_CHANNELS; c++, next += N * W * GROUP_BYTES / GROUP_CHANNELS) {
            QKV_PREFETCH(next);
            QKV_UNROLL
            for (size_t v = 0; v < N; v++) {
                const vf k = vf_mul(vf_load_signed_bytes(from[v] + c * GROUP_KEYS), scale[v]);
                QKV_UNROLL
                for (size_t r = 0; r < R; r++)
                    sum[r][v] = vf_fma(vf_set(q[r * D + b * GROUP_CHANNELS + c]), k, sum[r][v]);
            }
        }
    }
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < N; v++) vf_store(s + r * lds + v * W, sum[r][v]);
    }
}

/* The scales of a group. */
QKV_INLINE void groups_scales(const struct qkv_page_group *group, float scales[GROUP_KEYS]) {
    QKV_UNROLL
    for (size_t i = 0; i < GROUP_KEYS; i += W) vf_store(scales + i, load_f16(group->scales + i, W));
}

/* o (R,N·W) = o·rescale + p (R,ldp) times the channels c … of block b of the keys `keys`. */
QKV_INLINE void groups_sums(const size_t R, const size_t N, float *o, size_t ldo, const float *rescale, const float *p,
                            size_t ldp, struct groups x, struct groups soon, size_t b, size_t c, struct span keys) {
    enum { MAX = 4 };
    const char *next = (const char *)soon.first + b * (keys.end - keys.begin) * GROUP_BYTES;
    vf sum[TILE][MAX];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < N; v++) sum[r][v] = vf_mul(vf_load(o + r * ldo + v * W), vf_set(rescale[r]));
    }
    for (size_t j = keys.begin; j < keys.end;) {
        const struct qkv_page_group *group = groups_at(x, j, b);
        const size_t end = qkv_min(keys.end, j / GROUP_KEYS * GROUP_KEYS + GROUP_KEYS);
        float scales[GROUP_KEYS];
        groups_scales(group, scales);
        for (; j < end; j++, next += GROUP_BYTES) {
            QKV_PREFETCH(next);
            const vf scale = vf_set(scales[j % GROUP_KEYS]);
            const int8_t *from = group->numbers + j % GROUP_KEYS * GROUP_CHANNELS + c;
            vf number[MAX];
            QKV_UNROLL
            for (size_t v = 0; v < N; v++) number[v] = vf_mul(vf_load_signed_bytes(from + v * W), scale);
            QKV_UNROLL
            for (size_t r = 0; r < R; r++) {
                const vf weight = vf_set(p[r * ldp + j]);
                QKV_UNROLL
                for (size_t v = 0; v < N; v++) sum[r][v] = vf_fma(weight, number[v], sum[r][v]);
            }
        }
    }
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < N; v++) vf_store(o + r * ldo + v * W, sum[r][v]);
    }
}

/* Vectors of keys, or of channels, whose sums are computed together: as many as fill the registers and the latency of
 * a multiply-add. */
#define GROUPS_VECTORS(R)         ((R) <= 2 ? 4 : 2)
#define GROUPS_CHANNEL_VECTORS(R) ((R) <= 3 && GROUP_CHANNELS >= 4 * W ? 4 : 2)

QKV_INLINE void groups_score_rows(const size_t R, float *s, size_t lds, const float *q, struct groups x,
                                  struct groups soon, struct span keys) {
    const size_t N = GROUPS_VECTORS(R);
    size_t j = keys.begin / W * W;
    while (j < keys.end && (j % (N * W) || j + N * W > padded(keys.end, W))) {
        groups_products(R, 1, s + j, lds, q, x, soon, j);
        j += W;
    }
    for (; j + N * W <= padded(keys.end, W); j += N * W) groups_products(R, N, s + j, lds, q, x, soon, j);
    for (; j < keys.end; j += W) groups_products(R, 1, s + j, lds, q, x, soon, j);
}

QKV_INLINE void groups_add_rows(const size_t R, float *o, size_t ldo, const float *rescale, const float *p, size_t ldp,
                                struct groups x, struct groups soon, struct span keys) {
    const size_t N = GROUPS_CHANNEL_VECTORS(R);
    for (size_t b = 0; b < x.blocks; b++)
        for (size_t c = 0; c < GROUP_CHANNELS; c += N * W)
            groups_sums(R, N, o + b * GROUP_CHANNELS + c, ldo, rescale, p, ldp, x, soon, b, c, keys);
}

/* s (rows,lds) = q (rows,D) times the keys, in whole vectors; key j is column j. */
static __attribute__((noinline)) void groups_score(size_t rows, float *s, size_t lds, const float *q, struct groups x,
                                                   struct groups soon, struct span keys) {
    if (!soon.first) soon = x;
    switch (rows) {
#define GROUPS_SCORE(R)                                                                                                \
    case R:                                                                                                            \
        groups_score_rows(R, s, lds, q, x, soon, keys);                                                                \
        break;
        TILE_ROWS(GROUPS_SCORE)
    }
}

/* o (rows,Dv) = o·rescale + p (rows,ldp) times the values. */
static __attribute__((noinline)) void groups_add(size_t rows, float *o, size_t ldo, const float *rescale,
                                                 const float *p, size_t ldp, struct groups x, struct groups soon,
                                                 struct span keys) {
    if (!soon.first) soon = x;
    switch (rows) {
#define GROUPS_ADD(R)                                                                                                  \
    case R:                                                                                                            \
        groups_add_rows(R, o, ldo, rescale, p, ldp, x, soon, keys);                                                    \
        break;
        TILE_ROWS(GROUPS_ADD)
    }
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Panels (D,PANEL) of the keys, as pack_panels: key j is column j; columns outside the keys become zeros. */
static __attribute__((noinline)) void groups_pack_panels(float *out, struct groups x, struct span keys) {
    const size_t D = x.blocks * GROUP_CHANNELS;
    for (size_t j = keys.begin / PANEL * PANEL; j < padded(keys.end, PANEL); j += W) {
        float *to = out + j / PANEL * PANEL * D + j % PANEL;
        if (j >= keys.end || j + W <= keys.begin) {
            for (size_t d = 0; d < D; d++) vf_store(to + d * PANEL, vf_zero());
            continue;
        }
        for (size_t b = 0; b < x.blocks; b++) {
            const struct qkv_page_group *group = groups_at(x, j, b);
            const vf scale = load_f16(group->scales + j % GROUP_KEYS, W);
            for (size_t c = 0; c < GROUP_CHANNELS; c++, to += PANEL) {
                vf k = vf_mul(vf_load_signed_bytes(group->numbers + c * GROUP_KEYS + j % GROUP_KEYS), scale);
                if (!vector_inside(keys, j)) k = vf_select(lanes_inside(keys, j), k, vf_zero());
                vf_store(to, k);
            }
        }
    }
}

/* out (…,ld): the values, value j in row j. False if one is not finite. */
static __attribute__((noinline)) bool groups_pack_rows(float *out, size_t ld, struct groups x, struct span keys) {
    vf check = vf_zero();
    for (size_t j = keys.begin, end; j < keys.end; j = end) {
        end = qkv_min(keys.end, j / GROUP_KEYS * GROUP_KEYS + GROUP_KEYS);
        for (size_t b = 0; b < x.blocks; b++) {
            const struct qkv_page_group *group = groups_at(x, j, b);
            float scales[GROUP_KEYS];
            groups_scales(group, scales);
            for (size_t i = j; i < end; i++) {
                const int8_t *from = group->numbers + i % GROUP_KEYS * GROUP_CHANNELS;
                const vf scale = vf_set(scales[i % GROUP_KEYS]);
                float *to = out + i * ld + b * GROUP_CHANNELS;
                QKV_UNROLL
                for (size_t c = 0; c < GROUP_CHANNELS; c += W)
                    vf_store(to + c, vf_mul(vf_load_signed_bytes(from + c), scale));
                check = vf_fma(scale, vf_zero(), check);
            }
        }
    }
    return all_finite(check);
}

#endif
