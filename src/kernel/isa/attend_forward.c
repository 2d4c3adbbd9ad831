/* attend_forward.c: y and log-sum-exp of one block of query rows, which walks over the keys once, or over one piece of
 * them; then y from the sums of all pieces.
 *
 * Online softmax (Milakov & Gimelshein 2018; Dao et al. 2022): for every block of keys
 *
 *   S = score(Q·Kᵀ)    m' = max(m, max S)    P = exp(S − m')    l = l·exp(m − m') + Σ P    O = O·exp(m − m') + P·V
 *
 * and at the end y = O / l, lse = m + log l, after the sink is added to l. Blocks of keys begin at multiples of KEYS
 * and pieces (attend_sums.h) at multiples of QKV_ATTEND_PIECE, whatever the interval of a row is. A block in which a
 * row has no key does not change its m, l and O. So a row's bits depend on its own inputs only. */
#include "kernel/isa/attend_groups.h"
#include "kernel/isa/attend_sums.h"

enum { KEYS = 64 }; /* keys of a block */
_Static_assert(QKV_ATTEND_PIECE % KEYS == 0, "a piece is whole blocks of keys");
_Static_assert(QKV_ATTEND_BLOCK % KEYS == 0, "no block of keys crosses a page");

struct forward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    bool plain;        /* scores are scaled products */
    size_t count, key; /* rows of this block, first key of the current block of keys */
    bool finite;       /* whether the packed V is finite */
    float *q;          /* (rows,D) */
    float *k;          /* panels of (D,PANEL) */
    float *v;          /* (KEYS,Dv padded) */
    float *s;          /* (TILE,KEYS) scores, then weights */
    float *staging;    /* keys or values that must be copied before packing */
    struct sums sums;  /* of the current piece, */
    struct sums all;   /* and of all pieces so far */
    struct stream keys, values;
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];
    struct span common; /* the keys, counted from the first of all, that every row has */
    bool whole;         /* every span is the whole block */
};

enum { DIRECT_ROWS = 2 * TILE };              /* maximum of rows that read groups in place */
enum { TILE_LANES = (TILE + W - 1) / W * W }; /* of vectors with a lane for each row of a tile */

static struct sums forward_sums(const struct qkv_attend_plan *plan, float *at) {
    return sums_at(at, plan->block, padded(plan->a->Dv, W), 1);
}

size_t QKV_K(attend_sums_floats)(const struct qkv_attend_plan *plan) {
    return sums_floats(plan->block, padded(plan->a->Dv, W), 1);
}

size_t QKV_K(attend_forward_scratch)(const struct qkv_attend_plan *plan) {
    size_t D = plan->a->D, ldv = padded(plan->a->Dv, W), line = QKV_CACHE_LINE / sizeof(float);
    return padded(plan->block * D, line) + KEYS * D + KEYS * padded(ldv, line) + TILE * KEYS +
           KEYS * (D > plan->a->Dv ? D : plan->a->Dv) +
           (plan->a->Tk > QKV_ATTEND_PIECE ? 2 : 1) * QKV_K(attend_sums_floats)(plan);
}

static void forward_carve(struct forward *f, float *scratch) {
    const struct qkv_attend *a = f->a;
    size_t ldv = padded(a->Dv, W), line = QKV_CACHE_LINE / sizeof(float);
    f->q = scratch;
    f->k = f->q + padded(f->plan->block * a->D, line);
    f->v = f->k + KEYS * a->D;
    f->s = f->v + KEYS * padded(ldv, line);
    f->staging = f->s + TILE * KEYS;
    f->sums = forward_sums(f->plan, f->staging + KEYS * (a->D > a->Dv ? a->D : a->Dv));
    f->all = forward_sums(f->plan, f->sums.o + QKV_K(attend_sums_floats)(f->plan)); /* if there are several pieces */
}

static void row_dropout(const struct forward *f, const struct row *row, float *x, size_t first, size_t last) {
    float keep[KEYS];
    keep_of(f->plan, &f->rule, row, f->key, first, last, 1.0f, keep);
    for (size_t j = first; j < last; j += W) vf_store(x + j, vf_mul(vf_load(x + j), vf_load(keep + j)));
}

/* The largest product of each row of a tile, of all keys of the block, in the lane of the row; −inf in other lanes. */
static void tile_largest(const struct forward *f, size_t rows, vf best[TILE_LANES]) {
    for (size_t r = 0; r < TILE_LANES; r++) {
        const float *x = f->s + r * KEYS;
        best[r] = vf_set(-INFINITY);
        if (r >= rows) continue;
        vf even = best[r], odd = best[r];
        QKV_UNROLL_LOOP
        for (size_t j = 0; j < KEYS; j += 2 * W)
            even = vf_max(vf_load(x + j), even), odd = vf_max(vf_load(x + j + W), odd);
        best[r] = vf_max(even, odd);
    }
    for (size_t r = 0; r < TILE_LANES; r += W) best[r] = vf_largest_each(best + r);
}

/* tile_softmax where every row has all keys of the block, and a score is a product times a scale above 0: then the
 * largest product gives the largest score. Does nothing and returns false if that is not finite. */
static bool tile_softmax_whole(const struct forward *f, size_t r0, size_t rows, float *rescale) {
    const vf scale = vf_set(f->a->scale);
    float best[TILE_LANES], *m = f->sums.m + r0, *l = f->sums.l + r0;
    vf lanes[TILE_LANES];
    tile_largest(f, rows, lanes);
    for (size_t r = 0; r < TILE_LANES; r += W) vf_store(best + r, vf_mul(lanes[r], scale));
    for (size_t r = 0; r < rows; r++)
        if (!(fabsf(best[r]) <= FLT_MAX)) return false;
    for (size_t r = 0; r < rows; r += W) { /* lanes behind the rows keep their m and l */
        const vf old = vf_load(m + r), top = vf_max(vf_load(best + r), old);
        vf_store(rescale + r, exp_down(vf_select(vf_eq(top, old), vf_zero(), vf_sub(old, top))));
        vf_store(m + r, top);
    }
    for (size_t r = 0; r < TILE_LANES; r++) lanes[r] = vf_zero();
    for (size_t r = 0; r < rows; r++) {
        float *x = f->s + r * KEYS;
        const vf top = vf_set(m[r]);
        vf_parts sum = vf_parts_zero();
        for (size_t j = 0; j < KEYS; j += LANES) {
            QKV_UNROLL_LOOP
            for (size_t part = 0; part < PARTS; part++) {
                const vf p = exp_down(vf_sub(vf_mul(vf_load(x + j + part * W), scale), top));
                vf_store(x + j + part * W, p);
                sum.part[part] = vf_add(sum.part[part], p);
            }
        }
        lanes[r] = vf_parts_folded(sum);
    }
    for (size_t r = 0; r < rows; r += W)
        vf_store(l + r, vf_add(vf_mul(vf_load(l + r), vf_load(rescale + r)), vf_sum_each(lanes + r)));
    return true;
}

/* m and l of a tile's rows, and the weights of its keys [first, last); rescale is the factor of O. */
static void tile_softmax(struct forward *f, size_t r0, size_t rows, size_t first, size_t last, float *rescale) {
    const struct span all = {first, last};
    if (f->plain && f->a->scale > 0 && f->a->dropout == 0 && last - first == KEYS &&
        all_like(f->spans + r0, rows, all) && tile_softmax_whole(f, r0, rows, rescale))
        return;
    float best[TILE + W], *m = f->sums.m + r0, *l = f->sums.l + r0;
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
        l[r] = l[r] * rescale[r] + row_exp(x, m[r], first, last);
        if (f->a->dropout > 0) row_dropout(f, &f->rows[r0 + r], x, first, last);
    }
}

/* O of a tile's rows if 0·NaN would spread: each row is multiplied by its own keys only. */
static void add_rows_apart(const struct forward *f, size_t r0, size_t rows, const float *rescale) {
    const size_t ldv = padded(f->a->Dv, W);
    for (size_t r = 0; r < rows; r++) {
        const struct row *row = &f->rows[r0 + r];
        struct span span = f->spans[r0 + r], run = run_of(f->a, row, f->key, span, span.begin);
        for (enum tile_start how = RESCALE; run.end; how = ADD) {
            QKV_K(attend_tiles)
            (1, ldv, how, f->sums.o + (r0 + r) * ldv, ldv, rescale + r, f->s + r * KEYS + run.begin, KEYS, 1,
             f->v + run.begin * ldv, ldv, run.end - run.begin);
            run = run_of(f->a, row, f->key, span, run.end);
        }
    }
}

/* One tile of rows with the packed block of keys. */
static void forward_tile(struct forward *f, size_t r0, size_t rows) {
    const size_t D = f->a->D, ldv = padded(f->a->Dv, W);
    const struct span *spans = f->spans + r0;
    float rescale[TILE + W], *o = f->sums.o + r0 * ldv;
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

/* The keys, or the values, of the block where their pages have them in groups. */
static struct groups forward_groups(const struct forward *f, const struct stream *s, struct span all) {
    return groups_of(s, f->key, all.end);
}

/* Packs the keys `all` of the block. Prefetches V while K is packed, and the next block's K while V is packed. It is
 * not inlined: gcc would then no longer inline row_scores, and decoding would take 5 % longer. */
static __attribute__((noinline)) void pack_block(struct forward *f, struct span all, size_t last) {
    const struct qkv_attend *a = f->a;
    size_t ldv = padded(a->Dv, W), first = f->key + all.begin, count = all.end - all.begin, next = f->key + KEYS;
    struct soon soon_v = soon_of(&f->values, first, count), soon_k = {0};
    if (next < last) soon_k = soon_of(&f->keys, next, last - next < KEYS ? last - next : KEYS);
    const struct groups k = forward_groups(f, &f->keys, all), v = forward_groups(f, &f->values, all);
    if (k.first)
        groups_pack_panels(f->k, k, all);
    else
        pack_panels(f->k, block_of(&f->keys, first, count, f->staging), all.begin, all.end, a->D, soon_v);
    if (v.first) {
        f->finite = groups_pack_rows(f->v, ldv, v, all);
        return;
    }
    const struct block rows = block_of(&f->values, first, count, f->staging);
    f->finite = pack_rows(f->v + all.begin * ldv, ldv, rows, count, a->Dv, soon_k);
}

/* ---- few rows ---------------------------------------------------------------------------------------------------
 *
 * The time of a tile of rows alone, as in decoding, is that of reading its keys and values. They are read where they
 * are: squares of W keys and W channels are transposed in registers, and values are multiplied as they lie. The chains
 * are those of packed panels, so the bits are the same. */

/* What is read next, and prefetched meanwhile: rows i of each while row i of the keys is multiplied. */
struct ahead {
    struct soon values, keys;
};

/* Prefetches the rows for square t of `count`. */
QKV_INLINE void ahead_ask(const struct ahead *ahead, size_t row, size_t t, size_t count) {
    for (size_t i = W * t / count; i < W * (t + 1) / count; i++) {
        ask_for(&ahead->values, row + i);
        ask_for(&ahead->keys, row + i);
    }
}

/* s (rows,KEYS) += q (rows,D) times W keys from channel d on; the keys [begin, end) of them exist, of which k is the
 * first, `stride` apart. */
static __attribute__((noinline)) void direct_rest(size_t rows, float *s, const float *q, size_t D, size_t d,
                                                  const float *k, size_t stride, size_t begin, size_t end) {
    vf column[W];
    for (; d < D; d += W) {
        for (size_t i = 0; i < W; i++)
            column[i] = i >= begin && i < end ? vf_load_n(k + (i - begin) * stride + d, D - d) : vf_zero();
        vf_transpose(column);
        for (size_t r = 0; r < rows; r++) {
            vf sum = vf_load(s + r * KEYS);
            for (size_t i = 0; i < W && d + i < D; i++) sum = vf_fma(vf_set(q[r * D + d + i]), column[i], sum);
            vf_store(s + r * KEYS, sum);
        }
    }
}

/* s (R,KEYS) = q (R,D) times W keys, `stride` apart, in the channels of whole squares. */
QKV_INLINE void direct_squares(const size_t R, float *s, const float *q, size_t D, const float *k, size_t stride,
                               const struct ahead *ahead, size_t row) {
    vf sum[TILE], column[W];
    const size_t squares = (D + W - 1) / W;
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) sum[r] = vf_zero();
    size_t d = 0;
    for (size_t t = 0; d + W <= D; d += W, t++) {
        ahead_ask(ahead, row, t, squares);
        vf_load_transposed(column, k + d, stride);
        QKV_UNROLL
        for (size_t i = 0; i < W; i++) {
            QKV_UNROLL
            for (size_t r = 0; r < R; r++) sum[r] = vf_fma(vf_set(q[r * D + d + i]), column[i], sum[r]);
        }
    }
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) vf_store(s + r * KEYS, sum[r]);
}

/* The products of the keys `all` of a block, whose first is k. */
QKV_INLINE void direct_products(const struct forward *f, const size_t R, struct span all, struct block k,
                                const struct ahead *ahead) {
    const size_t D = f->a->D;
    for (size_t j = all.begin / W * W; j < all.end; j += W) {
        const size_t begin = j < all.begin ? all.begin - j : 0, end = all.end - j < W ? all.end - j : W;
        const size_t row = j + begin - all.begin;
        const bool whole = begin == 0 && end == W;
        if (whole) {
            direct_squares(R, f->s + j, f->q, D, k.x + row * k.stride, k.stride, ahead, row);
        } else {
            for (size_t r = 0; r < R; r++) vf_store(f->s + r * KEYS + j, vf_zero());
        }
        if (!whole || D % W)
            direct_rest(R, f->s + j, f->q, D, whole ? D / W * W : 0, k.x + row * k.stride, k.stride, begin, end);
    }
}

/* Keys, or values, of a block where they are stored: rows of fp32, or groups. */
struct direct {
    struct block rows;
    struct groups groups;
};

static struct direct direct_find(const struct forward *f, const struct stream *s, struct span all) {
    return (struct direct){block_in_place(s, f->key + all.begin, all.end - all.begin), forward_groups(f, s, all)};
}

/* Whether the block's keys `all` can be read in place: its rows have the same keys, and are one tile. Groups are read
 * in place by a few tiles, which takes less time than packing them. */
static bool direct_fits(const struct forward *f, struct span all, struct direct *k, struct direct *v) {
    const struct qkv_attend *a = f->a;
    if (f->count > DIRECT_ROWS || a->Dv % W || dense(a) || !all_like(f->spans, f->count, all)) return false;
    *k = direct_find(f, &f->keys, all), *v = direct_find(f, &f->values, all);
    if (f->count > TILE) return k->groups.first && v->groups.first;
    return (k->rows.x || k->groups.first) && (v->rows.x || v->groups.first);
}

/* The products of the rows with the keys `all`, which are rows of fp32. */
static void direct_rows(struct forward *f, struct span all, struct block k, const struct ahead *ahead) {
    switch (f->count) {
#define DIRECT_CASE(R)                                                                                                 \
    case R:                                                                                                            \
        direct_products(f, R, all, k, ahead);                                                                          \
        break;
        TILE_ROWS(DIRECT_CASE)
    }
}

/* A tile of rows with the keys `all`. */
static void direct_tile(struct forward *f, size_t r0, size_t rows, struct span all, const struct direct *k,
                        const struct direct *v, const struct ahead *ahead, struct groups soon) {
    const size_t ldv = f->a->Dv;
    float rescale[TILE + W], *o = f->sums.o + r0 * ldv;
    if (k->groups.first)
        groups_score(rows, f->s, KEYS, f->q + r0 * f->a->D, k->groups, v->groups, all);
    else
        direct_rows(f, all, k->rows, ahead);
    tile_softmax(f, r0, rows, all.begin / W * W, padded(all.end, W), rescale);
    if (v->groups.first)
        groups_add(rows, o, ldv, rescale, f->s, KEYS, v->groups, soon, all);
    else
        QKV_K(attend_tiles)
    (rows, ldv, RESCALE, o, ldv, rescale, f->s + all.begin, KEYS, 1, v->rows.x, v->rows.stride, all.end - all.begin);
}

static __attribute__((noinline)) void direct_block(struct forward *f, struct span all, const struct direct *k,
                                                   const struct direct *v, size_t last) {
    const size_t next = f->key + KEYS;
    struct ahead ahead = {.values = {v->rows, v->rows.x ? all.end - all.begin : 0, f->a->Dv}};
    struct groups soon = {0};
    if (next < last) {
        ahead.keys = soon_of(&f->keys, next, qkv_min(last - next, KEYS));
        soon = groups_of(&f->keys, next, qkv_min(last - next, KEYS));
    }
    for (size_t r = 0; r < f->count; r += TILE) direct_tile(f, r, qkv_min(f->count - r, TILE), all, k, v, &ahead, soon);
}

/* ---- blocks of rows --------------------------------------------------------------------------------------------- */

/* y = O / l, with dropout's scale. Adding 0 turns every negative zero into a positive one. */
static void forward_finish(const struct qkv_attend *a, const struct row *rows, size_t count, const struct sums *sums) {
    for (size_t r = 0; r < count; r++) {
        const struct row *row = &rows[r];
        float lse;
        const vf s = vf_set(row_finish(a, row->h, sums->m[r], sums->l[r], &lse));
        struct cells y = cells_at(&a->y, row->b, row->i, row->h);
        for (size_t c = 0; c < a->Dv; c += W)
            store_cells(y, c, vf_add(vf_mul(vf_load(sums->o + r * sums->ldo + c), s), vf_zero()), a->Dv - c);
        if (a->lse) a->lse[row->at] = lse;
    }
}

/* The spans of the current block of keys; returns the smallest one that covers them all. */
static struct span block_spans(struct forward *f) {
    const struct span block = {0, KEYS};
    if (f->key < f->common.begin || f->key + KEYS > f->common.end) {
        f->whole = false;
        return spans_of(f->rows, f->count, f->key, KEYS, f->spans);
    }
    for (size_t r = 0; r < f->count && !f->whole; r++) f->spans[r] = block;
    f->whole = true;
    return block;
}

/* f->sums of the keys [begin, end), which are of one piece; keys before `last` are read afterwards. */
static void forward_walk(struct forward *f, size_t begin, size_t end, size_t last) {
    sums_clear(&f->sums, f->count);
    for (f->key = begin / KEYS * KEYS; f->key < end; f->key += KEYS) {
        struct span all = block_spans(f);
        if (!all.end) continue;
        struct direct k, v;
        if (direct_fits(f, all, &k, &v)) {
            direct_block(f, all, &k, &v, last);
            continue;
        }
        pack_block(f, all, last);
        for (size_t r = 0; r < f->count; r += TILE) forward_tile(f, r, f->count - r < TILE ? f->count - r : TILE);
    }
}

/* The sums of the keys [begin, end), one piece after the other. */
static const struct sums *forward_pieces(struct forward *f, size_t begin, size_t end) {
    if (begin / QKV_ATTEND_PIECE == (end ? end - 1 : 0) / QKV_ATTEND_PIECE) {
        forward_walk(f, begin, end, end);
        return &f->sums;
    }
    sums_clear(&f->all, f->count);
    for (size_t next; begin < end; begin = next) {
        next = (begin / QKV_ATTEND_PIECE + 1) * QKV_ATTEND_PIECE;
        if (next > end) next = end;
        forward_walk(f, begin, next, end);
        sums_merge(&f->all, &f->sums, f->count);
    }
    return &f->all;
}

void QKV_K(attend_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const size_t unit = item / plan->pieces, b = unit / plan->blocks / a->Hkv, n = unit / plan->blocks % a->Hkv;
    struct forward f;
    f.plan = plan, f.a = a;
    f.plain = plain_scores(a);
    f.rule = mask_rule(a->key, a->dropout);
    f.keys = keys_of(plan, b, n), f.values = values_of(plan, b, n);
    f.count = unit_rows(plan, unit, f.rows);
    f.common = rows_common(f.rows, f.count), f.whole = false;
    forward_carve(&f, scratch);
    for (size_t r = 0; r < f.count; r++)
        read_cells(f.q + r * a->D, cells_at(&a->q, f.rows[r].b, f.rows[r].i, f.rows[r].h), a->D);
    struct span keys = rows_span(f.rows, f.count);
    if (!plan->sums) {
        forward_finish(a, f.rows, f.count, forward_pieces(&f, keys.begin, keys.end));
        return;
    }
    keys = piece_span(keys, item % plan->pieces);
    f.sums = forward_sums(plan, plan->sums + item * plan->sums_floats);
    forward_walk(&f, keys.begin, keys.end, keys.end);
}

void QKV_K(attend_combine)(const struct qkv_attend_plan *plan, size_t unit) {
    struct row rows[QKV_ATTEND_ROWS];
    const size_t count = unit_rows(plan, unit, rows);
    const struct sums all = unit_sums(plan, unit, count, padded(plan->a->Dv, W), 1);
    forward_finish(plan->a, rows, count, &all);
}
