/* attend_distance.h: the gradient of the table of distances, dT[h][j − i + zero] = Σ dS(h,i,j), where dS is the gradient of the score.
 *
 * The keys of a row lie side by side in the table, so a row's dS is added to a part of it as it stands. Each run of keys adds its
 * rows block by block, in order: the first to what is asked for, the others to sums of their own, which are added to it in order
 * (`distances` in struct qkv_attend_plan). So bits are the same whether runs fold or not. */
#ifndef QKV_ISA_ATTEND_DISTANCE_H
#define QKV_ISA_ATTEND_DISTANCE_H

#include "kernel/isa/attend_score.h"

/* The sums (H,row) of a batch row that run `chunk` adds to; NULL: not wanted. */
static inline float *distances_at(const struct qkv_attend_plan *plan, size_t b, size_t chunk) {
    const struct qkv_attend *a = plan->a;
    const size_t floats = a->H * a->distance_bias.row;
    if (!plan->g->ddistance_bias) return NULL;
    if (!chunk) return plan->g->ddistance_bias + b * floats;
    return plan->distances + (b * plan->distance_shares + (plan->folds ? 0 : chunk - 1)) * floats;
}

/* What the heads of a kv head have in them. */
static inline size_t distances_floats(const struct qkv_attend_plan *plan) {
    return plan->group * plan->a->distance_bias.row;
}

/* Run `chunk` of kv head n begins. */
static inline float *distances_begin(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t chunk) {
    float *sums = distances_at(plan, b, chunk);
    const size_t floats = distances_floats(plan);
    if (sums && chunk) memset(sums + n * floats, 0, floats * sizeof *sums);
    return sums;
}

static inline void distances_add(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t chunk) {
    const size_t floats = distances_floats(plan);
    float *to = distances_at(plan, b, 0) + n * floats;
    const float *from = distances_at(plan, b, chunk) + n * floats;
    for (size_t i = 0; i < floats; i += W)
        store_row(to + i, vf_add(load_row(to + i, floats - i), load_row(from + i, floats - i)), floats - i);
}

/* The run has ended. */
static inline void distances_end(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t chunk) {
    if (plan->g->ddistance_bias && plan->folds && chunk) distances_add(plan, b, n, chunk);
}

/* Where key `key` of a row is in the sums; NULL: they are not wanted. */
QKV_INLINE float *distances_row(float *sums, const struct row *row, size_t key) {
    return sums ? sums + (row->bias + (int64_t)key) : NULL;
}

/* to[j…] += dS of the keys of a block from j on, where they are in the span. */
QKV_INLINE void distances_put(float *to, vf ds, struct span span, size_t j) {
    if (vector_inside(span, j)) {
        vf_store(to + j, vf_add(vf_load(to + j), ds));
        return;
    }
    float lanes[W];
    vf_store(lanes, ds);
    for (size_t i = 0; i < W; i++)
        if (j + i >= span.begin && j + i < span.end) to[j + i] += lanes[i];
}

#endif
