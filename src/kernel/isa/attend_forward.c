/* attend_forward.c: y and log-sum-exp of one block of query rows, walking over the keys once.
 *
 * Online softmax (Milakov & Gimelshein 2018; Dao et al. 2022): for every block of keys
 *
 *   S = score(Q·Kᵀ)    m' = max(m, max S)    P = exp(S − m')    l = l·exp(m − m') + Σ P    O = O·exp(m − m') + P·V
 *
 * and at the end y = O / l, lse = m + log l. Blocks of keys begin at multiples of KEYS whatever the interval of a row is,
 * and a block in which a row has no key leaves its m, l and O as they are: a row's bits depend on its own inputs only. */
#include "kernel/isa/attend_score.h"

enum { KEYS = 64 }; /* keys a block */

struct forward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    bool plain;        /* whether scores are just scaled products */
    size_t count, key; /* rows of this block, first key of the block in work */
    bool finite;       /* whether the packed V is */
    float *q;          /* (rows,D) */
    float *k;          /* panels of (D,PANEL) */
    float *v;          /* (KEYS,Dv padded) */
    float *o;          /* (rows,Dv padded) */
    float *s;          /* (TILE,KEYS) scores, then weights */
    float *staging;    /* keys or values that cannot be packed where they lie */
    struct stream keys, values;
    float m[QKV_ATTEND_ROWS + W], l[QKV_ATTEND_ROWS + W];
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];
};

size_t QKV_K(attend_forward_scratch)(const struct qkv_attend_plan *plan) {
    size_t D = plan->a->D, ldv = padded(plan->a->Dv, W), line = QKV_CACHE_LINE / sizeof(float);
    return padded(plan->block * D, line) + KEYS * D + KEYS * padded(ldv, line) + padded(plan->block * ldv, line) +
           TILE * KEYS + KEYS * (D > plan->a->Dv ? D : plan->a->Dv);
}

static void forward_start(struct forward *f, float *scratch) {
    const struct qkv_attend *a = f->a;
    size_t ldv = padded(a->Dv, W), line = QKV_CACHE_LINE / sizeof(float);
    f->q = scratch;
    f->k = f->q + padded(f->plan->block * a->D, line);
    f->v = f->k + KEYS * a->D;
    f->o = f->v + KEYS * padded(ldv, line);
    f->s = f->o + padded(f->plan->block * ldv, line);
    f->staging = f->s + TILE * KEYS;
    for (size_t r = 0; r < f->count; r++) {
        const struct row *row = &f->rows[r];
        read_cells(f->q + r * a->D, cells_at(&a->q, row->b, row->i, row->h), a->D);
    }
    memset(f->o, 0, f->count * ldv * sizeof(float));
    for (size_t r = 0; r < f->count; r++) f->m[r] = -INFINITY, f->l[r] = 0;
}

/* Scores to weights in place; returns their sum. */
static float row_weights(float *x, float m, size_t first, size_t last) {
    vf sum = vf_zero(), top = vf_set(m);
    for (size_t j = first; j < last; j += W) {
        vf p = exp_down(vf_sub(vf_load(x + j), top));
        vf_store(x + j, p);
        sum = vf_add(sum, p);
    }
    return vf_sum(sum);
}

static void row_dropout(const struct forward *f, const struct row *row, float *x, size_t first, size_t last) {
    float keep[KEYS];
    keep_of(f->a, &f->rule, row, f->key, first, last, 1.0f, keep);
    for (size_t j = first; j < last; j += W) vf_store(x + j, vf_mul(vf_load(x + j), vf_load(keep + j)));
}

/* m and l of a tile's rows, and the weights of its keys [first, last); rescale is what O is to be multiplied by. */
static void tile_softmax(struct forward *f, size_t r0, size_t rows, size_t first, size_t last, float *rescale) {
    float best[TILE + W], *m = f->m + r0;
    for (size_t r = 0; r < rows; r++) {
        float *x = f->s + r * KEYS;
        struct span span = f->spans[r0 + r];
        best[r] = span.end ? row_scores(f->a, f->plain, &f->rows[r0 + r], f->key, span, x, first, last) : -INFINITY;
        if (span.end && !(fabsf(best[r]) <= FLT_MAX)) best[r] = row_repair(span, x);
    }
    for (size_t r = 0; r < rows; r++) {
        float top = m[r] < best[r] ? best[r] : m[r];
        rescale[r] = top == m[r] ? 0.0f : m[r] - top;
        m[r] = top;
    }
    for (size_t r = rows; r < padded(TILE, W); r++) rescale[r] = 0;
    for (size_t r = 0; r < rows; r += W) vf_store(rescale + r, exp_down(vf_load(rescale + r)));
    for (size_t r = 0; r < rows; r++) {
        float *x = f->s + r * KEYS;
        if (best[r] == -INFINITY) {
            for (size_t j = first; j < last; j += W) vf_store(x + j, vf_zero());
            continue;
        }
        f->l[r0 + r] = f->l[r0 + r] * rescale[r] + row_weights(x, m[r], first, last);
        if (f->a->dropout > 0) row_dropout(f, &f->rows[r0 + r], x, first, last);
    }
}

/* O of a tile's rows where 0·NaN would spread: each row keeps to the keys that it may attend to. */
static void add_rows_apart(const struct forward *f, size_t r0, size_t rows, const float *rescale) {
    const size_t ldv = padded(f->a->Dv, W);
    for (size_t r = 0; r < rows; r++) {
        const struct row *row = &f->rows[r0 + r];
        struct span span = f->spans[r0 + r], run = run_of(f->a, row, f->key, span, span.begin);
        for (enum tile_start how = RESCALE; run.end; how = ADD) {
            QKV_K(attend_tiles)
            (1, ldv, how, f->o + (r0 + r) * ldv, ldv, rescale + r, f->s + r * KEYS + run.begin, KEYS, 1,
             f->v + run.begin * ldv, ldv, run.end - run.begin);
            run = run_of(f->a, row, f->key, span, run.end);
        }
    }
}

/* One tile of rows against the packed block of keys. */
static void forward_tile(struct forward *f, size_t r0, size_t rows) {
    const size_t D = f->a->D, ldv = padded(f->a->Dv, W);
    const struct span *spans = f->spans + r0;
    float rescale[TILE + W], *o = f->o + r0 * ldv;
    struct span all = {KEYS, 0};
    for (size_t r = 0; r < rows; r++) {
        if (!spans[r].end) continue;
        if (spans[r].begin < all.begin) all.begin = spans[r].begin;
        if (spans[r].end > all.end) all.end = spans[r].end;
    }
    if (!all.end) return;
    size_t first = all.begin / W * W, last = padded(all.end, W);
    for (size_t j = all.begin / PANEL * PANEL; j < last; j += PANEL) QKV_K(attend_tiles)
    (rows, last - j < PANEL ? last - j : PANEL, FRESH, f->s + j, KEYS, NULL, f->q + r0 * D, D, 1, f->k + j * D, PANEL,
     D);
    tile_softmax(f, r0, rows, first, last, rescale);
    if (f->finite || (!dense(f->a) && all_like(spans, rows, all))) QKV_K(attend_tiles)
    (rows, ldv, RESCALE, o, ldv, rescale, f->s + all.begin, KEYS, 1, f->v + all.begin * ldv, ldv, all.end - all.begin);
    else add_rows_apart(f, r0, rows, rescale);
}

/* y = O / l, with dropout's scale; adding 0 makes every zero a positive one, however it came about. */
static void forward_finish(const struct forward *f) {
    const struct qkv_attend *a = f->a;
    size_t ldv = padded(a->Dv, W);
    for (size_t r = 0; r < f->count; r++) {
        const struct row *row = &f->rows[r];
        bool empty = f->m[r] == -INFINITY;
        vf s = vf_set(empty ? 0.0f : mask_scale(a->dropout) / f->l[r]);
        struct cells y = cells_at(&a->y, row->b, row->i, row->h);
        for (size_t c = 0; c < a->Dv; c += W)
            store_cells(y, c, vf_add(vf_mul(vf_load(f->o + r * ldv + c), s), vf_zero()), a->Dv - c);
        if (a->lse) a->lse[row->at] = empty ? -INFINITY : f->m[r] + logf(f->l[r]);
    }
}

/* The keys `all` of the block; V is asked for while K is packed, and the next block's K while V is. */
static void pack_block(struct forward *f, struct span all, size_t last) {
    const struct qkv_attend *a = f->a;
    size_t ldv = padded(a->Dv, W), first = f->key + all.begin, count = all.end - all.begin, next = f->key + KEYS;
    struct soon soon_v = soon_of(&f->values, first, count), soon_k = {0};
    if (next < last) soon_k = soon_of(&f->keys, next, last - next < KEYS ? last - next : KEYS);
    pack_panels(f->k, block_of(&f->keys, first, count, f->staging), all.begin, all.end, a->D, soon_v);
    struct block v = block_of(&f->values, first, count, f->staging);
    f->finite = pack_rows(f->v + all.begin * ldv, ldv, v, count, a->Dv, soon_k);
}

void QKV_K(attend_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    size_t n = item / plan->blocks % a->Hkv, b = item / plan->blocks / a->Hkv;
    size_t r0 = (plan->blocks - 1 - item % plan->blocks) * plan->block;
    struct forward f;
    f.plan = plan, f.a = a;
    f.plain = plain_scores(a);
    f.rule = mask_rule(a->key, a->dropout);
    f.keys = keys_of(a, b, n), f.values = values_of(a, b, n);
    f.count = plan->rows - r0 < plan->block ? plan->rows - r0 : plan->block;
    rows_of(plan, b, n, r0, f.count, f.rows);
    forward_start(&f, scratch);
    size_t first = a->Tk, last = 0;
    for (size_t r = 0; r < f.count; r++) {
        if (f.rows[r].lo == f.rows[r].hi) continue;
        if (f.rows[r].lo < first) first = f.rows[r].lo;
        if (f.rows[r].hi > last) last = f.rows[r].hi;
    }
    for (f.key = first / KEYS * KEYS; f.key < last; f.key += KEYS) {
        struct span all = spans_of(f.rows, f.count, f.key, KEYS, f.spans);
        if (!all.end) continue;
        pack_block(&f, all, last);
        for (size_t r = 0; r < f.count; r += TILE) forward_tile(&f, r, f.count - r < TILE ? f.count - r : TILE);
    }
    forward_finish(&f);
}
