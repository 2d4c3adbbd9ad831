/* attend_score.h: from products q·k to scores and weights, one row at a time; and the interval of keys of a row.
 *
 *   score = softcap(scale·q·k) + distance_bias + attention_bias,   softcap(s) = c·tanh(s / c),   weight = exp(score −
 *   log-sum-exp)
 *
 * The score is −inf if the dense mask is 0 or attention_bias is −inf, whatever the other terms are, and its weight is
 * 0. A row's numbers depend on that row only. */
#ifndef QKV_ISA_ATTEND_SCORE_H
#define QKV_ISA_ATTEND_SCORE_H

#include "base/math.h"
#include "kernel/isa/attend_rows.h"
#include "kernel/isa/mask.h"

struct row {   /* one query row of one head */
    size_t at; /* (b·H + h)·Tq + i: its index in lse and delta */
    size_t b, h, i;
    size_t lo, hi;               /* its keys; 0, 0 if there are none */
    int64_t bias;                /* index of key 0 in the table of distances */
    size_t mask, attention_bias; /* index of key 0 in the dense mask and in attention_bias */
};

struct span { /* keys of one block, counted from the block's first */
    size_t begin, end;
};

QKV_INLINE size_t pairs_at(const struct qkv_pairs *x, size_t b, size_t h, size_t i) {
    return b * x->batch_stride + h * x->head_stride + i * x->row_stride;
}

/* Whether single keys of a row's interval may be masked. */
QKV_INLINE bool dense(const struct qkv_attend *a) {
    return a->mask || a->attention_bias;
}

QKV_INLINE struct row row_of(const struct qkv_attend *a, size_t b, size_t h, size_t i) {
    struct row row = {.at = (b * a->H + h) * a->Tq + i, .b = b, .h = h, .i = i};
    size_t place = b * a->Tq + i;
    int32_t lo = a->lo[place], hi = a->hi[place];
    row.lo = lo > 0 ? (size_t)lo : 0;
    row.hi = hi > 0 ? (size_t)hi : 0;
    if (row.hi > a->Tk) row.hi = a->Tk;
    if (a->mask && row.hi > a->Tk - a->mask_strides.missing) row.hi = a->Tk - a->mask_strides.missing;
    if (a->attention_bias && row.hi > a->Tk - a->attention_bias_strides.missing)
        row.hi = a->Tk - a->attention_bias_strides.missing;
    if (row.lo >= row.hi) row.lo = row.hi = 0;
    if (a->distance_bias.table)
        row.bias = (int64_t)(h * a->distance_bias.row + a->distance_bias.zero) - a->position[place];
    if (a->mask) row.mask = pairs_at(&a->mask_strides, b, h, i);
    if (a->attention_bias) row.attention_bias = pairs_at(&a->attention_bias_strides, b, h, i);
    return row;
}

/* The rows [first, first + count) of kv head n. */
static inline void rows_of(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t first, size_t count,
                           struct row *rows) {
    const struct qkv_attend *a = plan->a;
    size_t h = n * plan->group + first / a->Tq, i = first % a->Tq;
    for (size_t r = 0; r < count; r++) {
        rows[r] = row_of(a, b, h, i);
        if (++i == a->Tq) i = 0, h++;
    }
}

QKV_INLINE struct span span_of(const struct row *row, size_t key, size_t keys) {
    size_t lo = row->lo > key ? row->lo - key : 0, hi = row->hi > key ? row->hi - key : 0;
    if (hi > keys) hi = keys;
    return lo < hi ? (struct span){lo, hi} : (struct span){0, 0};
}

/* The spans of some rows; returns the smallest span that covers them all. */
static inline struct span spans_of(const struct row *rows, size_t count, size_t key, size_t keys, struct span *spans) {
    struct span all = {keys, 0};
    for (size_t r = 0; r < count; r++) {
        spans[r] = span_of(&rows[r], key, keys);
        if (spans[r].begin == spans[r].end) continue;
        if (spans[r].begin < all.begin) all.begin = spans[r].begin;
        if (spans[r].end > all.end) all.end = spans[r].end;
    }
    return all.begin < all.end ? all : (struct span){0, 0};
}

QKV_INLINE bool all_like(const struct span *spans, size_t count, struct span all) {
    for (size_t r = 0; r < count; r++)
        if (spans[r].begin != all.begin || spans[r].end != all.end) return false;
    return true;
}

/* The next run of keys that the row attends to, at `from` or later in the span of a block; 0, 0 if there is none. If a
 * factor of a weight of 0 is not finite, products are summed over such runs only. */
static inline struct span run_of(const struct qkv_attend *a, const struct row *row, size_t key, struct span span,
                                 size_t from) {
    const uint8_t *mask = a->mask ? a->mask + row->mask + key : NULL;
    const float *attention_bias = a->attention_bias ? a->attention_bias + row->attention_bias + key : NULL;
    while (from < span.end && ((mask && !mask[from]) || (attention_bias && attention_bias[from] == -INFINITY))) from++;
    size_t end = from;
    while (end < span.end && !(mask && !mask[end]) && !(attention_bias && attention_bias[end] == -INFINITY)) end++;
    return from < end ? (struct span){from, end} : (struct span){0, 0};
}

QKV_INLINE bool vector_inside(struct span span, size_t j) {
    return j >= span.begin && j + W <= span.end;
}

QKV_INLINE vm lanes_inside(struct span span, size_t j) {
    vm below = vm_first(span.end > j ? span.end - j : 0), before = vm_first(span.begin > j ? span.begin - j : 0);
    return vm_and(below, vm_not(before));
}

/* exp(x) for x <= 0: 2^n·exp(r) with |r| <= ln 2/2 and a minimax polynomial; relative error < 2e-7. exp(0) is 1
 * exactly; below −86.5 the result is 0, also for −inf; NaN stays NaN. */
QKV_INLINE vf exp_down(vf x) {
    vf magic = vf_set(12582912.0f); /* 1.5·2^23: adding it rounds to an integer, which is then in the low bits */
    vf t = vf_fma(x, vf_set(1.44269504f), magic);
    vi n = vi_shl(vi_from_bits(t), 23);
    t = vf_sub(t, magic);
    vf r = vf_fnma(t, vf_set(0.693359375f), x);
    r = vf_fma(t, vf_set(2.12194440e-4f), r);
    vf p = vf_fma(r, vf_set(8.31252491729884e-3f), vf_set(4.189010911359094e-2f));
    p = vf_fma(p, r, vf_set(1.6667114465596594e-1f));
    p = vf_fma(p, r, vf_set(4.999923179014683e-1f));
    p = vf_fma(p, r, vf_set(1.0f));
    p = vf_fma(p, r, vf_set(1.0f));
    vf y = vf_from_bits(vi_add(vi_from_bits(p), n));
    return vf_select(vf_lt(x, vf_set(-86.5f)), vf_zero(), y);
}

/* Lanes j… of the array x, in which key j has the index at + j; only lanes inside `span` are read. */
static inline vf lanes_of(const float *x, int64_t at, size_t j, struct span span) {
    if (vector_inside(span, j)) return vf_load(x + at);
    float lanes[W];
    for (size_t i = 0; i < W; i++) lanes[i] = j + i >= span.begin && j + i < span.end ? x[at + (int64_t)i] : 0.0f;
    return vf_load(lanes);
}

static inline vm mask_of(const uint8_t *mask, size_t at, size_t j, struct span span) {
    if (vector_inside(span, j)) return vm_load_bytes(mask + at);
    uint8_t lanes[W];
    for (size_t i = 0; i < W; i++) lanes[i] = j + i >= span.begin && j + i < span.end ? mask[at + i] : 0;
    return vm_load_bytes(lanes);
}

/* Products, scaled and capped. `slope`, if not NULL, becomes the derivative of that, and of the score, by the
 * product. */
QKV_INLINE vf capped(const struct qkv_attend *a, vf x, vf *slope) {
    x = vf_mul(x, vf_set(a->scale));
    if (slope) *slope = vf_set(a->scale);
    if (a->softcap > 0) {
        vf t = vf_tanh(vf_mul(x, vf_set(1 / a->softcap)));
        x = vf_mul(t, vf_set(a->softcap));
        if (slope) *slope = vf_mul(vf_fnma(t, t, vf_set(1.0f)), *slope);
    }
    return x;
}

/* Turns products of the keys j… of a block that starts at `key` into scores. */
QKV_INLINE vf score(const struct qkv_attend *a, const struct row *row, size_t key, size_t j, struct span span, vf x,
                    vf *slope) {
    const vf never = vf_set(-INFINITY);
    x = capped(a, x, slope);
    if (a->distance_bias.table)
        x = vf_add(x, lanes_of(a->distance_bias.table, row->bias + (int64_t)(key + j), j, span));
    if (a->attention_bias) {
        vf attention_bias = lanes_of(a->attention_bias, (int64_t)(row->attention_bias + key + j), j, span);
        x = vf_select(vf_eq(attention_bias, never), never, vf_add(x, attention_bias));
    }
    if (a->mask) x = vf_select(mask_of(a->mask, row->mask + key + j, j, span), x, never);
    return x;
}

QKV_INLINE bool plain_scores(const struct qkv_attend *a) {
    return a->softcap == 0 && !a->distance_bias.table && !dense(a);
}

/* Whether scores are scaled products plus distance_bias. */
QKV_INLINE bool distances_alone(const struct qkv_attend *a) {
    return a->softcap == 0 && a->distance_bias.table && !dense(a);
}

/* Turns the products of a row of the block into scores, −inf for masked pairs; returns the largest. */
static inline float row_scores(const struct qkv_attend *a, bool plain, const struct row *row, size_t key,
                               struct span span, float *x, size_t first, size_t last) {
    vf top = vf_set(-INFINITY), scale = vf_set(a->scale);
    if (plain && span.begin <= first && last <= span.end) {
        for (size_t j = first; j < last; j += W) {
            vf s = vf_mul(vf_load(x + j), scale);
            vf_store(x + j, s);
            top = vf_max(s, top);
        }
        return vf_largest(top);
    }
    if (distances_alone(a) && span.begin <= first && last <= span.end) {
        const float *bias = a->distance_bias.table + (row->bias + (int64_t)key);
        for (size_t j = first; j < last; j += W) {
            vf s = vf_add(vf_mul(vf_load(x + j), scale), vf_load(bias + j));
            vf_store(x + j, s);
            top = vf_max(s, top);
        }
        return vf_largest(top);
    }
    for (size_t j = first; j < last; j += W) {
        vf s = vf_load(x + j);
        s = plain ? vf_mul(s, scale) : score(a, row, key, j, span, s, NULL);
        if (!vector_inside(span, j)) s = vf_select(lanes_inside(span, j), s, vf_set(-INFINITY));
        vf_store(x + j, s);
        top = vf_max(s, top);
    }
    return vf_largest(top);
}

/* Repairs scores beyond the range of floats: +inf becomes the largest number, so that such keys share the weight; NaN
 * stays and makes the row NaN. Called for rows whose largest score is not finite. */
static inline float row_repair(struct span span, float *x) {
    float top = -INFINITY;
    bool nan = false;
    for (size_t j = span.begin; j < span.end; j++) {
        if (x[j] > FLT_MAX) x[j] = FLT_MAX;
        if (x[j] > top) top = x[j];
        if (isnan(x[j])) nan = true;
    }
    return top > -INFINITY || !nan ? top : 0.0f;
}

/* The number of a row's first key in the mask of dropout. */
static inline uint64_t keep_at(const struct qkv_attend_plan *plan, const struct row *row) {
    return (((uint64_t)(plan->mask_b + row->b) * plan->a->H + row->h) * plan->mask_Tq + row->i) * plan->mask_Tk;
}

/* The factors of dropout for the weights of the keys [first, last) of a block: `kept`, or 0 if dropped. */
static inline void keep_of(const struct qkv_attend_plan *plan, const struct mask_rule *rule, const struct row *row,
                           size_t key, size_t first, size_t last, float kept, float *keep) {
    mask_fill(keep + first, rule, keep_at(plan, row) + key + first, last - first, kept);
}

/* Turns scores of the keys [first, last) into weights in place; m is the largest score. Returns their sum. */
static inline float row_exp(float *x, float m, size_t first, size_t last) {
    const vf top = vf_set(m);
    vf_parts sum = vf_parts_zero();
    x += first;
    QKV_EACH_PART(j, n, part, last - first, vf_parts_turn(&sum), {
        (void)n;
        const vf p = exp_down(vf_sub(vf_load(x + j), top));
        vf_store(x + j, p);
        sum.part[part] = vf_add(sum.part[part], p);
    });
    return vf_parts_sum(sum);
}

/* Whether a log-sum-exp has too few digits for the logarithm of the sum: then weights need a sum of their own. */
static inline bool coarse(float lse) {
    return fabsf(lse) > 64 && lse > -INFINITY;
}

/* The weight of a score, given the row's log-sum-exp: at most 1, so that rounding of large numbers stays small. */
QKV_INLINE vf weight(vf x, vf lse) {
    return exp_down(vf_min(vf_zero(), vf_sub(x, lse)));
}

/* The weight of the sink of head h; 0 without one. */
static inline float sink_weight(const struct qkv_attend *a, size_t h, float lse) {
    return a->sinks ? vf_first(weight(vf_set(a->sinks[h]), vf_set(lse))) : 0.0f;
}

/* Finishes a row with the largest score m and l = Σ exp(score − m). Returns the factor of Σ exp(score − m)·v, with
 * dropout's scale, and sets the log-sum-exp. The sink is added here, once, whatever pieces the row's keys were in. A
 * row without keys has no sink. */
static inline float row_finish(const struct qkv_attend *a, size_t h, float m, float l, float *lse) {
    if (m == -INFINITY) {
        *lse = -INFINITY;
        return 0.0f;
    }
    float top = m, factor = 1.0f;
    if (a->sinks) {
        const float sink = a->sinks[h];
        top = m < sink ? sink : m;
        factor = vf_first(exp_down(vf_set(m - top)));
        l = l * factor + vf_first(exp_down(vf_set(sink - top)));
    }
    *lse = top + (float)qkv_log((double)l);
    return mask_scale(a->dropout) * factor / l;
}

#endif
