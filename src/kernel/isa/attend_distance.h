/* attend_distance.h: the gradient of the table of distances, dT[h][j − i + zero] = Σ dS(h,i,j), where dS is the
 * gradient of the score.
 *
 * The keys of a row are adjacent in the table, so a row of dS is added to a part of the table. Each run of keys adds
 * its rows block by block, in order: the first run to the result, each other run to sums of its own, which are added to
 * the result in order (`distances` in struct qkv_attend_plan). So the bits are the same whether runs fold or not. */
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

/* Floats of the sums of the heads of a kv head. */
static inline size_t distances_floats(const struct qkv_attend_plan *plan) {
    return plan->group * plan->a->distance_bias.row;
}

/* Begins run `chunk` of kv head n. */
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

/* Ends the run. */
static inline void distances_end(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t chunk) {
    if (plan->g->ddistance_bias && plan->folds && chunk) distances_add(plan, b, n, chunk);
}

/* The place of a row's key `key` in the sums; NULL: they are not wanted. */
QKV_INLINE float *distances_row(float *sums, const struct row *row, size_t key) {
    return sums ? sums + (row->bias + (int64_t)key) : NULL;
}

/* to[j…] += dS of the keys of a block from j on, for those in the span. */
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

/* ---- a strip of rows in bf16 ----------------------------------------------------------------------------------- */

/* Whether each row is one position after the row before, so that all elements of a distance are on a diagonal of the
 * strip; *bias becomes that of row 0. */
static inline bool strip_steps(const struct row *rows, const struct span *spans, size_t count, int64_t *bias) {
    bool known = false;
    for (size_t r = 0; r < count; r++) {
        const int64_t at = rows[r].bias + (int64_t)r;
        if (!spans[r].end) continue;
        if (known && at != *bias) return false;
        *bias = at, known = true;
    }
    return known;
}

/* `at` if that is a row of `count`, else the nearest row. */
QKV_INLINE size_t strip_row(int64_t at, size_t count) {
    return at < 0 ? 0 : at > (int64_t)count ? count : (size_t)at;
}

/* sum += the diagonals o … o + W − 1 of ds (count,ld), whose columns [first, last) are filled; row after row. */
QKV_INLINE vf strip_diagonals(vf sum, const float *ds, size_t ld, size_t count, struct span columns, int64_t o) {
    const int64_t first = (int64_t)columns.begin - o, last = (int64_t)columns.end - o;
    const size_t some = strip_row(first - (int64_t)W + 1, count), end = strip_row(last, count);
    size_t whole = strip_row(first, count), after = strip_row(last - (int64_t)W + 1, count), r = some;
    if (after < whole) whole = after = end;
    for (; r < whole; r++) {
        vm below = vm_first(strip_row(last - (int64_t)r, W)), before = vm_first(strip_row(first - (int64_t)r, W));
        vf x = vf_load(ds + ((int64_t)(r * ld + r) + o));
        sum = vf_add(sum, vf_select(vm_and(below, vm_not(before)), x, vf_zero()));
    }
    for (; r < after; r++) sum = vf_add(sum, vf_load(ds + ((int64_t)(r * ld + r) + o)));
    for (; r < end; r++) {
        vf x = vf_load(ds + ((int64_t)(r * ld + r) + o));
        sum = vf_add(sum, vf_select(vm_first(strip_row(last - (int64_t)r, W)), x, vf_zero()));
    }
    return sum;
}

/* sums += ds (count,ld) of the rows of a strip, which is filled in its columns [first, last), with zeros outside of the
 * rows' spans; a vector can be read before and after ds. Each distance adds its rows in order, with either loop. */
static inline void strip_distances(float *sums, const struct row *rows, const struct span *spans, size_t count,
                                   size_t key, const float *ds, size_t ld, struct span columns) {
    int64_t bias = 0, begin = INT64_MAX, end = INT64_MIN;
    const bool steps = strip_steps(rows, spans, count, &bias);
    for (size_t r = 0; r < count; r++) {
        const struct span span = spans[r];
        if (!span.end) continue;
        const int64_t low = (int64_t)span.begin - (int64_t)r, high = (int64_t)span.end - (int64_t)r;
        if (low < begin) begin = low;
        if (high > end) end = high;
        if (steps) continue;
        float *to = distances_row(sums, &rows[r], key);
        for (size_t j = columns.begin; j < columns.end; j += W) distances_put(to, vf_load(ds + r * ld + j), span, j);
    }
    if (!steps) return;
    float *to = sums + (bias + (int64_t)key);
    for (int64_t o = begin; o < end; o += W) {
        const size_t left = (size_t)(end - o);
        store_row(to + o, strip_diagonals(load_row(to + o, left), ds, ld, count, columns, o), left);
    }
}

#endif
