/* attend_shares.h: the sums of dq of the runs of keys of a kv head (`partial` in struct qkv_attend_plan), and the walk
 * of an item over its runs: one run with a share of its own; or all runs, folded in order into the first share. */
#ifndef QKV_ISA_ATTEND_SHARES_H
#define QKV_ISA_ATTEND_SHARES_H

#include "kernel/isa/attend_tile.h"

struct share {
    float *dq;              /* (partial_rows,partial_columns); NULL: not wanted */
    unsigned char *touched; /* (blocks): whether rows of the block were added to; others are undefined */
};

static inline struct share share_at(const struct qkv_attend_plan *plan, size_t pair, size_t at) {
    const size_t part = qkv_attend_room(plan, pair) * plan->shares + at;
    if (!plan->partial) return (struct share){0};
    return (struct share){plan->partial + part * plan->partial_rows * plan->partial_columns,
                          plan->touched + part * plan->blocks};
}

/* The number of shares that are defined once all items are done. */
static inline size_t shares_used(const struct qkv_attend_plan *plan) {
    return plan->folds && plan->chunks ? 1 : plan->chunks;
}

/* Begins run `chunk` of the item of kv head `pair`: returns its share, with all blocks untouched. */
static inline struct share share_begin(const struct qkv_attend_plan *plan, size_t pair, size_t chunk) {
    const struct share share = share_at(plan, pair, plan->folds ? chunk > 0 : chunk);
    if (share.dq) memset(share.touched, 0, plan->blocks);
    return share;
}

/* Called before `count` rows from r0 on are added to; clears their block the first time. */
static inline void share_touch(const struct qkv_attend_plan *plan, const struct share *share, size_t r0, size_t count) {
    unsigned char *touched = &share->touched[r0 / plan->block];
    if (*touched) return;
    *touched = 1;
    memset(share->dq + r0 * plan->partial_columns, 0, count * plan->partial_columns * sizeof *share->dq);
}

/* Ends the run: if runs fold, its share is added to the first. */
static inline void share_end(const struct qkv_attend_plan *plan, size_t pair, size_t chunk, const struct share *share) {
    const struct share all = share_at(plan, pair, 0);
    if (!plan->folds || !chunk || !share->dq) return;
    for (size_t block = 0; block < plan->blocks; block++) {
        const size_t r0 = block * plan->block, left = plan->rows - r0, count = left < plan->block ? left : plan->block;
        float *to = all.dq + r0 * plan->partial_columns;
        const float *from = share->dq + r0 * plan->partial_columns;
        if (!share->touched[block]) continue;
        share_touch(plan, &all, r0, count);
        for (size_t i = 0; i < count * plan->partial_columns; i += W)
            vf_store(to + i, vf_add(vf_load(to + i), vf_load(from + i)));
    }
}

/* The runs of an item, [begin, end), of the kv head `pair`. */
struct runs {
    size_t pair, begin, end;
};

static inline struct runs runs_of(const struct qkv_attend_plan *plan, size_t item) {
    const size_t pairs = plan->a->B * plan->a->Hkv, chunk = item / pairs;
    return (struct runs){item % pairs, chunk, plan->folds ? plan->chunks : chunk + 1};
}

#endif
