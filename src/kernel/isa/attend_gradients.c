/* attend_gradients.c: one block of rows with one block of keys in backward: the weights from the saved log-sum-exp, and
 * the gradients of the scores (formulas in attend_backward.c). */
#include "kernel/isa/attend_backward.h"
#include "kernel/isa/attend_store.h"

/* Sets the pointers of `f`, if it is not NULL, to scratch; returns the floats of scratch. */
static size_t carve(const struct qkv_attend_plan *plan, struct backward *f, float *scratch) {
    size_t line = QKV_CACHE_LINE / sizeof(float), rows = plan->block, used = 0;
    size_t ldk = padded(plan->a->D, W), ldv = padded(plan->a->Dv, W);
    size_t wide = plan->a->D > plan->a->Dv ? plan->a->D : plan->a->Dv;
    struct backward none;
    if (!f) f = &none;
    const struct {
        float **at;
        size_t floats;
    } pieces[] = {{&f->kt, KEYS * plan->a->D},
                  {&f->vt, KEYS * plan->a->Dv},
                  {&f->k, KEYS * ldk},
                  {&f->dk, KEYS * ldk},
                  {&f->dv, KEYS * ldv},
                  {&f->own_q, plan->packed_rows ? 0 : rows * ldk},
                  {&f->own_dy, plan->packed_rows ? 0 : rows * ldv},
                  {&f->p, rows * KEYS},
                  {&f->ds, rows * KEYS},
                  {&f->staging, KEYS * wide},
                  {&f->sum, plan->g->dattention_bias ? rows * KEYS : 0}};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (scratch) *pieces[i].at = scratch + used;
        used += padded(pieces[i].floats, line);
    }
    return used;
}

size_t QKV_K(attend_backward_scratch)(const struct qkv_attend_plan *plan) {
    return carve(plan, NULL, NULL);
}

void QKV_K(attend_delta)(const struct qkv_attend_plan *plan, size_t begin, size_t end) {
    const struct qkv_attend *a = plan->a;
    size_t i = a->Tq ? begin % a->Tq : 0, h = a->Tq ? begin / a->Tq % a->H : 0, b = a->Tq ? begin / a->Tq / a->H : 0;
    for (size_t at = begin; at < end; at++) {
        const struct cells y = cells_at(&a->y, b, i, h), dy = cells_at(&plan->g->dy, b, i, h);
        if (i + SOON < a->Tq) {
            prefetch_cells(cells_at(&a->y, b, i + SOON, h), a->Dv);
            prefetch_cells(cells_at(&plan->g->dy, b, i + SOON, h), a->Dv);
        }
        plan->delta[at] = row_delta(plan, plan->rounds_dy, y, dy, at);
        if (++i < a->Tq) continue;
        i = 0;
        if (++h == a->H) h = 0, b++;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

void QKV_K(attend_backward_start)(struct backward *f, const struct qkv_attend_plan *plan, float *scratch) {
    const struct qkv_attend *a = plan->a;
    f->plan = plan, f->a = a;
    f->rule = mask_rule(a->key, a->dropout), f->keep_scale = mask_scale(a->dropout);
    f->ldk = padded(a->D, W), f->ldv = padded(a->Dv, W);
    f->plain = plain_scores(a) && !(a->dropout > 0);
    f->of_score = false, f->wants_k = plan->partial != NULL, f->distances = NULL;
    carve(plan, f, scratch);
}

void QKV_K(attend_backward_keys)(struct backward *f, size_t b, size_t n, size_t block) {
    f->b = b, f->n = n, f->key = block * KEYS;
    f->keys = f->a->Tk - f->key < KEYS ? f->a->Tk - f->key : KEYS;
    f->stream_k = keys_of(f->plan, b, n), f->stream_v = values_of(f->plan, b, n);
    f->packed = false;
}

static void pack_block_of_keys(struct backward *f) {
    const struct qkv_attend *a = f->a;
    const struct soon soon = soon_of(&f->stream_v, f->key, f->keys), none = {0};
    struct block k = block_of(&f->stream_k, f->key, f->keys, f->staging);
    pack_panels(f->kt, k, 0, f->keys, a->D, soon);
    if (f->wants_k) f->finite_k = pack_rows(f->k, f->ldk, k, f->keys, a->D, none);
    struct block v = block_of(&f->stream_v, f->key, f->keys, f->staging);
    pack_panels(f->vt, v, 0, f->keys, a->Dv, none);
}

/* A packed block of rows: q (rows,D padded), dy (rows,Dv padded), and whether all numbers of each are finite. */
struct row_pack {
    float *q, *dy;
    bool *finite;
};

static struct row_pack row_pack_at(const struct qkv_attend_plan *plan, size_t pair, size_t block) {
    const size_t at = qkv_attend_room(plan, pair) * plan->blocks + block;
    float *q = (float *)(void *)(plan->packed_rows + at * plan->rows_bytes);
    float *dy = q + plan->block * padded(plan->a->D, W);
    return (struct row_pack){q, dy, (bool *)(dy + plan->block * padded(plan->a->Dv, W))};
}

size_t QKV_K(attend_rows_bytes)(const struct qkv_attend_plan *plan) {
    const size_t floats = plan->block * (padded(plan->a->D, W) + padded(plan->a->Dv, W));
    return padded(floats * sizeof(float) + 2 * sizeof(bool), QKV_CACHE_LINE);
}

static void pack_rows_of(const struct qkv_attend_plan *plan, const struct row *rows, size_t count,
                         const struct row_pack *to) {
    const struct qkv_attend *a = plan->a;
    const size_t ldk = padded(a->D, W), ldv = padded(a->Dv, W);
    vf check_q = vf_zero(), check_dy = vf_zero();
    for (size_t r = 0; r < count; r++) {
        const struct row *row = &rows[r];
        pack_row(to->q + r * ldk, cells_at(&a->q, row->b, row->i, row->h), a->D, &check_q);
        pack_row(to->dy + r * ldv, cells_at(&plan->g->dy, row->b, row->i, row->h), a->Dv, &check_dy);
    }
    to->finite[0] = all_finite(check_q), to->finite[1] = all_finite(check_dy);
}

void QKV_K(attend_pack_rows)(const struct qkv_attend_plan *plan, size_t item) {
    const size_t Hkv = plan->a->Hkv, pair = item / plan->blocks, block = item % plan->blocks, r0 = block * plan->block;
    const struct row_pack to = row_pack_at(plan, pair, block);
    struct row rows[QKV_ATTEND_ROWS];
    const size_t count = qkv_min(plan->rows - r0, plan->block);
    rows_of(plan, pair / Hkv, pair % Hkv, r0, count, rows);
    pack_rows_of(plan, rows, count, &to);
}

/* The rows of the block: those that are packed for all blocks of keys, or packed now. */
static void place_rows(struct backward *f) {
    bool finite[2];
    struct row_pack pack = {f->own_q, f->own_dy, finite};
    if (f->plan->packed_rows)
        pack = row_pack_at(f->plan, f->b * f->a->Hkv + f->n, f->r0 / f->plan->block);
    else
        pack_rows_of(f->plan, f->rows, f->count, &pack);
    f->q = pack.q, f->dy = pack.dy, f->finite_q = pack.finite[0], f->finite_dy = pack.finite[1];
}

struct span QKV_K(attend_backward_rows)(struct backward *f, size_t r0, size_t count) {
    f->r0 = r0, f->count = count;
    rows_of(f->plan, f->b, f->n, r0, count, f->rows);
    for (size_t r = 0; r < count; r++)
        if (f->a->lse[f->rows[r].at] == -INFINITY) f->rows[r].lo = f->rows[r].hi = 0;
    struct span all = spans_of(f->rows, count, f->key, f->keys, f->spans);
    if (!all.end) return all;
    for (size_t r = 0; r < count; r += TILE)
        f->covers[r / TILE] = spans_of(f->rows + r, count - r < TILE ? count - r : TILE, f->key, f->keys, f->spans + r);
    if (!f->packed) pack_block_of_keys(f);
    f->packed = true;
    place_rows(f);
    return all;
}

/* ---- one tile of rows: P and dS -------------------------------------------------------------------------------- */

/* Turns products q·k in p and dy·v in ds into weights and gradients of the products (or scores); zeros for masked
 * pairs. `plain`: scores are scaled products, and there is no dropout. */
QKV_INLINE void row_gradients(const struct backward *f, const bool plain, const struct row *row, struct span span,
                              float *p, float *ds, size_t first, size_t last) {
    const struct qkv_attend *a = f->a;
    const vf lse = vf_set(a->lse[row->at]), delta = vf_set(f->plan->delta[row->at]),
             norm = vf_set(f->plan->norm[row->at]);
    float keep[KEYS];
    const bool drop = !plain && a->dropout > 0, product = plain || !f->of_score, apart = !plain && dense(a);
    float *distances = plain ? NULL : distances_row(f->distances, row, f->key);
    if (drop) keep_of(f->plan, &f->rule, row, f->key, first, last, f->keep_scale, keep);
    for (size_t j = first; j < last; j += W) {
        vf slope = vf_set(a->scale), s = vf_load(p + j), dp = vf_load(ds + j);
        s = plain ? vf_mul(s, slope) : score(a, row, f->key, j, span, s, &slope);
        vf w = vf_mul(weight(s, lse), norm), kept = w;
        if (drop) {
            kept = vf_mul(w, vf_load(keep + j));
            dp = vf_mul(dp, vf_load(keep + j));
        }
        vf d = vf_mul(w, vf_sub(dp, delta));
        if (distances) distances_put(distances, gradient_of(d, s, apart), span, j);
        if (product) d = vf_mul(d, slope);
        store_gradients(p, ds, kept, d, s, apart, span, j);
    }
}

static void zero_outside(float *x, size_t first, size_t last, size_t keys) {
    for (size_t j = 0; j < first; j += W) vf_store(x + j, vf_zero());
    for (size_t j = last; j < keys; j += W) vf_store(x + j, vf_zero());
}

void QKV_K(attend_tile_gradients)(struct backward *f, size_t r, size_t rows) {
    const struct span all = f->covers[r / TILE];
    float *p = f->p + r * KEYS, *ds = f->ds + r * KEYS;
    if (!all.end) {
        memset(p, 0, rows * KEYS * sizeof(float));
        memset(ds, 0, rows * KEYS * sizeof(float));
        return;
    }
    size_t first = all.begin / W * W, last = padded(all.end, W), D = f->a->D, Dv = f->a->Dv;
    for (size_t j = all.begin / PANEL * PANEL; j < last; j += PANEL) {
        size_t columns = last - j < PANEL ? last - j : PANEL;
        QKV_K(attend_tiles)
        (rows, columns, FRESH, p + j, KEYS, NULL, f->q + r * f->ldk, f->ldk, 1, f->kt + j * D, PANEL, D);
        QKV_K(attend_tiles)
        (rows, columns, FRESH, ds + j, KEYS, NULL, f->dy + r * f->ldv, f->ldv, 1, f->vt + j * Dv, PANEL, Dv);
    }
    for (size_t i = 0; i < rows; i++) {
        if (f->plain)
            row_gradients(f, true, &f->rows[r + i], f->spans[r + i], p + i * KEYS, ds + i * KEYS, first, last);
        else
            row_gradients(f, false, &f->rows[r + i], f->spans[r + i], p + i * KEYS, ds + i * KEYS, first, last);
        zero_outside(p + i * KEYS, first, last, f->keys);
        zero_outside(ds + i * KEYS, first, last, f->keys);
    }
}
