/* attend_backward.c: the gradients of attention; recomputes the weights from the saved log-sum-exp.
 *
 * FlashAttention-2 (Dao 2023). With P = exp(score − lse), M the dropout mask times 1/(1 − p), delta = Σ dy·y − dlse for
 * each row:
 *
 *   dV = (P∘M)ᵀ·dY    dP = (dY·Vᵀ)∘M    dS = P∘(dP − delta)∘score'    dQ = dS·K    dK = dSᵀ·Q
 *
 * One item owns a run of keys of one kv head, or all runs one after the other. For each block of keys it walks over all
 * query rows, in order, and sums dk and dv in scratch and the run's share of dq in `partial`. P and dS are zero for
 * masked pairs. If a factor of such a zero is not finite, the products skip the masked pairs. */
#include "kernel/isa/attend_backward.h"

static void tile_dq(struct backward *f, size_t r, size_t rows) {
    const struct span all = f->covers[r / TILE];
    float *dq = f->share.dq + (f->r0 + r) * f->ldk;
    const float *ds = f->ds + r * KEYS;
    if (!all.end) return;
    if (f->finite_k || (!dense(f->a) && all_like(f->spans + r, rows, all))) {
        QKV_K(attend_tiles)
        (rows, f->ldk, ADD, dq, f->ldk, NULL, ds + all.begin, KEYS, 1, f->k + all.begin * f->ldk, f->ldk,
         all.end - all.begin);
        return;
    }
    for (size_t i = 0; i < rows; i++) { /* 0·NaN would spread: each row is multiplied by its own keys only */
        const struct row *row = &f->rows[r + i];
        struct span span = f->spans[r + i], run = run_of(f->a, row, f->key, span, span.begin);
        for (; run.end; run = run_of(f->a, row, f->key, span, run.end)) QKV_K(attend_tiles)
        (1, f->ldk, ADD, dq + i * f->ldk, f->ldk, NULL, ds + i * KEYS + run.begin, KEYS, 1, f->k + run.begin * f->ldk,
         f->ldk, run.end - run.begin);
    }
}

/* ---- one block of rows: dK and dV ------------------------------------------------------------------------------ */

/* The same as add_transposed for one row: adds x (keys) times y (ld), for the keys that the row attends to. */
static void add_row_apart(const struct backward *f, size_t r, float *out, size_t ld, const float *x, const float *y) {
    struct span span = f->spans[r], run = run_of(f->a, &f->rows[r], f->key, span, span.begin);
    for (; run.end; run = run_of(f->a, &f->rows[r], f->key, span, run.end))
        for (size_t j = run.begin, step; j < run.end; j += step) {
            step = run.end - j < TILE ? run.end - j : TILE;
            QKV_K(attend_tiles)(step, ld, ADD, out + j * ld, ld, NULL, x + j, 1, KEYS, y, ld, 1);
        }
}

/* out (keys of the block,ld) += xᵀ·y over the rows, for the keys in `all`: x is P or dS, y is dY or Q. */
static void add_transposed(const struct backward *f, struct span all, float *out, size_t ld, const float *x,
                           const float *y, bool finite) {
    if (!finite && (dense(f->a) || !all_like(f->spans, f->count, all))) {
        for (size_t r = 0; r < f->count; r++) add_row_apart(f, r, out, ld, x + r * KEYS, y + r * ld);
        return;
    }
    size_t tiles = (f->count + TILE - 1) / TILE;
    for (size_t j = all.begin, step; j < all.end; j += step) {
        step = all.end - j < TILE ? all.end - j : TILE;
        size_t from = 0, to = tiles;
        while (from < to && (f->covers[from].end <= j || f->covers[from].begin >= j + step)) from++;
        while (to > from && (f->covers[to - 1].end <= j || f->covers[to - 1].begin >= j + step)) to--;
        if (from == to) continue;
        size_t r = from * TILE, end = to * TILE < f->count ? to * TILE : f->count;
        QKV_K(attend_tiles)(step, ld, ADD, out + j * ld, ld, NULL, x + r * KEYS + j, 1, KEYS, y + r * ld, ld, end - r);
    }
}

/* Prefetches the rows [r, r + TILE) of the next block while this block is computed. Packed rows lie one after the
 * other: the processor fetches them ahead. */
static void ask_for_rows(const struct backward *f, size_t r) {
    const struct qkv_attend *a = f->a;
    size_t begin = f->r0 + f->plan->block + r, end = begin + TILE < f->plan->rows ? begin + TILE : f->plan->rows;
    for (size_t next = begin; next < end; next++) {
        size_t h = f->n * f->plan->group + next / a->Tq, i = next % a->Tq;
        if (!f->plan->packed_rows) {
            prefetch_cells(cells_at(&a->q, f->b, i, h), a->D);
            prefetch_cells(cells_at(&f->plan->g->dy, f->b, i, h), a->Dv);
        }
        if (f->share.dq) prefetch_row(f->share.dq + next * f->ldk, f->ldk * sizeof(float));
    }
}

/* The rows r0… with the block of keys. */
static void block_gradients(struct backward *f, size_t r0) {
    const struct qkv_attend_plan *plan = f->plan;
    size_t count = plan->rows - r0 < plan->block ? plan->rows - r0 : plan->block;
    struct span all = QKV_K(attend_backward_rows)(f, r0, count);
    if (!all.end) return;
    if (f->share.dq) share_touch(plan, &f->share, r0, count);
    for (size_t r = 0; r < count; r += TILE) {
        size_t rows = count - r < TILE ? count - r : TILE;
        ask_for_rows(f, r);
        QKV_K(attend_tile_gradients)(f, r, rows);
        if (f->share.dq) tile_dq(f, r, rows);
    }
    if (f->wants_dv) add_transposed(f, all, f->dv, f->ldv, f->p, f->dy, f->finite_dy);
    if (f->wants_dk) add_transposed(f, all, f->dk, f->ldk, f->ds, f->q, f->finite_q);
}

/* ---- items ----------------------------------------------------------------------------------------------------- */

/* Whether a gradient of the current keys is wanted; `past` is for keys of the past, `now` for the others. */
static bool wants(const struct backward *f, const struct qkv_heads *past, const struct qkv_heads *now) {
    return (past->data && f->key < f->a->past) || (now->data && f->key + f->keys > f->a->past);
}

static void put_keys(const struct backward *f, const struct stream *to, const float *sum, size_t ld) {
    for (size_t j = 0; j < f->keys; j++) {
        const struct qkv_heads *x = f->key + j < to->turn ? to->past : to->now;
        if (x->data) put_cells(stream_at(to, f->key + j), f->plan->g->accumulate, sum + j * ld, to->columns);
    }
}

/* The keys of run `chunk` with all rows. */
static void run_gradients(struct backward *f, size_t b, size_t n, size_t chunk) {
    const struct qkv_attend_plan *plan = f->plan;
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    const struct stream dk = stream_without_pages(&g->dpast_k, &g->dk, a->past, b, n, a->D);
    const struct stream dv = stream_without_pages(&g->dpast_v, &g->dv, a->past, b, n, a->Dv);
    size_t end = (chunk + 1) * plan->chunk < plan->key_blocks ? (chunk + 1) * plan->chunk : plan->key_blocks;
    for (size_t block = chunk * plan->chunk; block < end; block++) {
        QKV_K(attend_backward_keys)(f, b, n, block);
        f->wants_dk = wants(f, &g->dpast_k, &g->dk), f->wants_dv = wants(f, &g->dpast_v, &g->dv);
        if (!f->share.dq && !f->wants_dk && !f->wants_dv && !f->distances) continue;
        memset(f->dk, 0, f->keys * f->ldk * sizeof(float));
        memset(f->dv, 0, f->keys * f->ldv * sizeof(float));
        for (size_t r0 = 0; r0 < plan->rows; r0 += plan->block) block_gradients(f, r0);
        put_keys(f, &dk, f->dk, f->ldk);
        put_keys(f, &dv, f->dv, f->ldv);
    }
}

void QKV_K(attend_backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct runs runs = runs_of(plan, item);
    const size_t Hkv = plan->a->Hkv;
    struct backward f;
    QKV_K(attend_backward_start)(&f, plan, scratch);
    for (size_t chunk = runs.begin; chunk < runs.end; chunk++) {
        const size_t b = runs.pair / Hkv, n = runs.pair % Hkv;
        f.share = share_begin(plan, runs.pair, chunk), f.distances = distances_begin(plan, b, n, chunk);
        run_gradients(&f, b, n, chunk);
        share_end(plan, runs.pair, chunk, &f.share), distances_end(plan, b, n, chunk);
    }
}

void QKV_K(attend_gather)(const struct qkv_attend_plan *plan, size_t item) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_heads *dq = &plan->g->dq;
    const size_t ld = plan->partial_columns, block = item % plan->blocks, pair = item / plan->blocks;
    size_t r0 = block * plan->block, count = plan->rows - r0 < plan->block ? plan->rows - r0 : plan->block;
    for (size_t r = r0; r < r0 + count; r++) {
        size_t i = r % a->Tq, h = pair % a->Hkv * plan->group + r / a->Tq, b = pair / a->Hkv;
        struct cells to = cells_at(dq, b, i, h);
        if (i + SOON < a->Tq) prefetch_cells(cells_at(dq, b, i + SOON, h), a->D);
        for (size_t c = 0; c < a->D; c += W) {
            vf sum = vf_zero();
            for (size_t at = 0; at < shares_used(plan); at++) {
                const struct share share = share_at(plan, pair, at);
                if (share.touched[block]) sum = vf_add(sum, vf_load(share.dq + r * ld + c));
            }
            if (plan->g->accumulate) sum = vf_add(load_cells(to, c, a->D - c), sum);
            store_cells(to, c, sum, a->D - c);
        }
    }
}
