/* attend_sums.h: the sums of query rows over some keys, and how two of them are merged.
 *
 *   m = max score    l = Σ exp(score − m)    O = Σ exp(score − m)·v
 *
 * Keys are summed in pieces of QKV_ATTEND_PIECE that begin at multiples of it, each starting from zero, and the sums of
 * pieces are merged in ascending order. So the bits are the same whether one item walks over all pieces or each piece
 * is an item. A piece in which a row has no score changes nothing; the first piece that has one is copied. */
#ifndef QKV_ISA_ATTEND_SUMS_H
#define QKV_ISA_ATTEND_SUMS_H

#include "kernel/isa/attend_score.h"

/* The smallest span of keys that covers all keys of some rows. */
static inline struct span rows_span(const struct row *rows, size_t count) {
    struct span keys = {SIZE_MAX, 0};
    for (size_t r = 0; r < count; r++) {
        if (rows[r].lo == rows[r].hi) continue;
        if (rows[r].lo < keys.begin) keys.begin = rows[r].lo;
        if (rows[r].hi > keys.end) keys.end = rows[r].hi;
    }
    return keys.end ? keys : (struct span){0, 0};
}

/* The keys that all of the rows have; begins behind its end if there are none. */
static inline struct span rows_common(const struct row *rows, size_t count) {
    struct span keys = {0, SIZE_MAX};
    for (size_t r = 0; r < count; r++) {
        if (rows[r].lo > keys.begin) keys.begin = rows[r].lo;
        if (rows[r].hi < keys.end) keys.end = rows[r].hi;
    }
    return keys;
}

/* The part of them in a piece; 0, 0 if it is empty. */
static inline struct span piece_span(struct span keys, size_t piece) {
    const size_t begin = piece * QKV_ATTEND_PIECE, end = begin + QKV_ATTEND_PIECE;
    if (keys.begin < begin) keys.begin = begin;
    if (keys.end > end) keys.end = end;
    return keys.begin < keys.end ? keys : (struct span){0, 0};
}

struct sums {
    float *o, *l, *m; /* (rows,ldo), (rows,ldl), (rows) */
    size_t ldo, ldl;  /* l has ldl parts */
};

/* Floats of l, or of m; a vector that begins at the last row fits. */
static inline size_t sums_line(size_t rows, size_t ld) {
    return padded(rows * ld + W, QKV_CACHE_LINE / sizeof(float));
}

static inline size_t sums_floats(size_t rows, size_t ldo, size_t ldl) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    return padded(rows * ldo, line) + sums_line(rows, ldl) + sums_line(rows, 1);
}

static inline struct sums sums_at(float *at, size_t rows, size_t ldo, size_t ldl) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    float *l = at + padded(rows * ldo, line);
    return (struct sums){at, l, l + sums_line(rows, ldl), ldo, ldl};
}

static inline void sums_clear(const struct sums *s, size_t rows) {
    memset(s->o, 0, rows * s->ldo * sizeof *s->o);
    memset(s->l, 0, rows * s->ldl * sizeof *s->l);
    for (size_t r = 0; r < rows; r++) s->m[r] = -INFINITY;
}

/* Merges row r of `from` into `to`; both have scores. */
static inline void sums_merge_row(const struct sums *to, const struct sums *from, size_t r) {
    const float top = to->m[r] < from->m[r] ? from->m[r] : to->m[r];
    const vf old = exp_down(vf_set(to->m[r] - top)), new = exp_down(vf_set(from->m[r] - top));
    const float old_l = vf_first(old), new_l = vf_first(new);
    float *o = to->o + r * to->ldo, *l = to->l + r * to->ldl;
    for (size_t c = 0; c < to->ldo; c += W)
        vf_store(o + c, vf_fma(vf_load(from->o + r * from->ldo + c), new, vf_mul(vf_load(o + c), old)));
    for (size_t c = 0; c < to->ldl; c++) l[c] = l[c] * old_l + from->l[r * from->ldl + c] * new_l;
    to->m[r] = top;
}

/* Merges `from`, whose keys come after those of `to`, into `to`. */
static inline void sums_merge(const struct sums *to, const struct sums *from, size_t rows) {
    for (size_t r = 0; r < rows; r++) {
        if (from->m[r] == -INFINITY) continue;
        if (to->m[r] > -INFINITY) {
            sums_merge_row(to, from, r);
            continue;
        }
        memcpy(to->o + r * to->ldo, from->o + r * from->ldo, to->ldo * sizeof *to->o);
        memcpy(to->l + r * to->ldl, from->l + r * from->ldl, to->ldl * sizeof *to->l);
        to->m[r] = from->m[r];
    }
}

/* The rows of a block; `unit` counts (B,Hkv,blocks). Later rows come first, because under a causal mask they have more
 * keys. */
static inline size_t unit_rows(const struct qkv_attend_plan *plan, size_t unit, struct row *rows) {
    const size_t pair = unit / plan->blocks, r0 = (plan->blocks - 1 - unit % plan->blocks) * plan->block;
    const size_t count = plan->rows - r0 < plan->block ? plan->rows - r0 : plan->block;
    rows_of(plan, pair / plan->a->Hkv, pair % plan->a->Hkv, r0, count, rows);
    return count;
}

/* Merges the sums of a block's pieces, in order, into the sums of the first. */
static inline struct sums unit_sums(const struct qkv_attend_plan *plan, size_t unit, size_t count, size_t ldo,
                                    size_t ldl) {
    float *at = plan->sums + unit * plan->pieces * plan->sums_floats;
    const struct sums all = sums_at(at, plan->block, ldo, ldl);
    for (size_t piece = 1; piece < plan->pieces; piece++) {
        const struct sums next = sums_at(at + piece * plan->sums_floats, plan->block, ldo, ldl);
        sums_merge(&all, &next, count);
    }
    return all;
}

#endif
