/* attend_few.h: what attention over few keys shares between fp32 (attend_few.c) and bf16 (attend_bf16_few.c). */
#ifndef QKV_ISA_ATTEND_FEW_H
#define QKV_ISA_ATTEND_FEW_H

#include "kernel/isa/attend_score.h"

enum { KEYS = QKV_ATTEND_FEW, ROWS = QKV_ATTEND_FEW_ROWS };

struct few_head { /* one head of a call */
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    size_t b, h, at; /* index of its row 0 in lse and delta, */
    uint64_t mask;   /* and in the mask of dropout */
    struct mask_rule rule;
};

static inline struct few_head few_head_of(const struct qkv_attend_plan *plan, size_t pair) {
    const struct qkv_attend *a = plan->a;
    struct few_head f = {.plan = plan, .a = a, .b = pair / a->Hkv, .h = pair % a->Hkv};
    f.at = (f.b * a->H + f.h) * a->Tq;
    f.mask = ((uint64_t)(plan->mask_b + f.b) * a->H + f.h) * plan->mask_Tq * plan->mask_Tk;
    if (a->dropout > 0) f.rule = mask_rule(a->key, a->dropout);
    return f;
}

/* Whether the keys fit in one vector: then kernels know at compile time how many vectors there are. */
static inline bool few_fits_vector(const struct qkv_attend *a) {
    return a->Tk > 0 && a->Tk <= W;
}

/* Prefetches the rows of the next head; after the last head, those of the first head of the next sequence. Prefetches
 * rows that are read and rows that are written, because a store waits for its cache line. A head prefetches one array
 * at a time, with work in between: a core stalls if more lines are requested than can be in flight. */
static inline void few_ask(const struct few_head *f, const struct qkv_heads *x, size_t rows, size_t columns) {
    if (!x->data) return;
    const bool next = f->h + 1 < f->a->H;
    const size_t size = x->dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t), step = x->row_stride * size;
    const uintptr_t at = (uintptr_t)x->data + f->b * x->batch_stride * size + (next ? 0 : rows * step) +
                         (next ? f->h + 1 : 0) * x->head_stride * size;
    const size_t bytes = columns * size;
    for (uintptr_t row = at, end = at + rows * step; row != end; row += step) {
        QKV_PREFETCH((const void *)row);
        if (bytes <= QKV_CACHE_LINE) continue;
        QKV_PREFETCH((const void *)(row + QKV_CACHE_LINE));
        for (size_t c = 2 * QKV_CACHE_LINE; c < bytes; c += QKV_CACHE_LINE) QKV_PREFETCH((const void *)(row + c));
    }
}

/* Rows of a tile, at most `max_rows`, so that no tile has only one or two rows: short tiles wait for their sums. */
static inline size_t few_tile(size_t count, size_t max_rows) {
    if (count <= max_rows) return count ? count : 1;
    const size_t tiles = (count + max_rows - 1) / max_rows;
    return (count + tiles - 1) / tiles;
}

struct few_reach { /* the keys that each of some rows attends to, and the smallest span that covers them all */
    struct span spans[ROWS], all;
    bool alike;
};

/* The reach of `count` rows from `first` on; if `seen`, rows that forward found without keys have none. */
static inline void few_reach(const struct few_head *f, size_t first, size_t count, bool seen, struct few_reach *out) {
    const struct qkv_attend *a = f->a;
    const int32_t *lo = a->lo + f->b * a->Tq + first, *hi = a->hi + f->b * a->Tq + first;
    struct span all = {a->Tk, 0};
    out->alike = true;
    for (size_t i = 0; i < count; i++) {
        struct span span = {lo[i] > 0 ? (size_t)lo[i] : 0, hi[i] > 0 ? qkv_min((size_t)hi[i], a->Tk) : 0};
        if (span.begin >= span.end || (seen && a->lse[f->at + first + i] == -INFINITY)) span = (struct span){0, 0};
        out->spans[i] = span;
        out->alike = out->alike && span.begin == out->spans[0].begin && span.end == out->spans[0].end;
        if (!span.end) continue;
        all.begin = qkv_min(all.begin, span.begin);
        if (span.end > all.end) all.end = span.end;
    }
    out->all = all.begin < all.end ? all : (struct span){0, 0};
}

/* Turns a row's products x (ld) into scores: scaled, and −inf if masked. Returns the largest. */
QKV_INLINE float few_scores(const struct qkv_attend *a, struct span span, float *x, const size_t ld) {
    vf top = vf_set(-INFINITY);
    for (size_t j = 0; j < ld; j += W) {
        vf s = vf_mul(vf_load(x + j), vf_set(a->scale));
        if (!vector_inside(span, j)) s = vf_select(lanes_inside(span, j), s, vf_set(-INFINITY));
        vf_store(x + j, s);
        top = vf_max(s, top);
    }
    const float best = vf_largest(top);
    return fabsf(best) <= FLT_MAX ? best : row_repair(span, x);
}

/* few_keep for `streams` rows at once, so that they hide each other's latency; or for twice as many, if two rows share
 * the random numbers of a vector. There is room for one more row after an odd number of rows. */
QKV_INLINE void few_keep_rows(const struct few_head *f, size_t first, size_t count, const bool share,
                              const size_t streams, float kept, float *keep, size_t ld) {
    uint64_t at[2 * MASK_ROW_STREAMS];
    for (size_t i = 0; i < (share ? 2 : 1) * streams; i++)
        at[i] = f->mask + (first + (i < count ? i : count - 1)) * f->plan->mask_Tk;
    if (share)
        mask_rows(keep, ld, &f->rule, streams, at, kept);
    else
        mask_rows_apart(keep, ld, &f->rule, streams, at, kept);
}

#define FEW_KEEP_CASE(streams)                                                                                         \
    case streams:                                                                                                      \
        few_keep_rows(f, first + r, here, share, streams, kept, keep + r * ld, ld);                                    \
        break;

QKV_INLINE void few_keep_all(const struct few_head *f, size_t first, size_t count, const bool share, float kept,
                             float *keep, size_t ld) {
    const size_t max_rows = share ? 2 * MASK_ROW_STREAMS : MASK_ROW_STREAMS;
    for (size_t r = 0, here; r < count; r += here) {
        here = qkv_min(count - r, max_rows);
        switch (share ? (here + 1) / 2 : here) {
            FEW_KEEP_CASE(1)
            FEW_KEEP_CASE(2)
            FEW_KEEP_CASE(3)
            FEW_KEEP_CASE(4)
            FEW_KEEP_CASE(5)
        }
    }
}

/* keep (count,ld), with room for one more row if count is odd: the factors of dropout for the weights of the rows from
 * `first` on. If keys fill a vector, two rows share two vectors of random numbers, if the numbers of each begin with a
 * pair. */
static inline void few_keep(const struct few_head *f, size_t first, size_t count, size_t columns, float kept,
                            float *keep, size_t ld) {
    const uint64_t Tk = f->plan->mask_Tk;
    if (W == 1 || columns != W) {
        for (size_t r = 0; r < count; r++)
            mask_fill(keep + r * ld, &f->rule, f->mask + (first + r) * Tk, columns, kept);
    } else if (Tk % 2 == 0) {
        few_keep_all(f, first, count, true, kept, keep, ld);
    } else {
        few_keep_all(f, first, count, false, kept, keep, ld);
    }
}

#endif
