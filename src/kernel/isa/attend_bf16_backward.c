/* attend_bf16_backward.c: the gradients of attention in bf16; formulas and items as in attend_backward.c.
 *
 * A block of rows is multiplied by a block of keys strip by strip: first S and dP, then P and dS. dS is stored by rows,
 * as the left operand of dQ += dS·K; P and dS are stored as words of two rows, as the right operands of dVᵀ += dYᵀ·P
 * and dKᵀ += Qᵀ·dS. So P and dS are never transposed; dK and dV are, once for each block of keys. */
#include "kernel/isa/attend_bf16.h"
#include "kernel/isa/attend_distance.h"
#include "kernel/isa/attend_shares.h"
#include "kernel/isa/attend_store.h"

enum { GUARD = QKV_CACHE_LINE / sizeof(float) }; /* at least a vector */

struct backward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    float keep_scale;
    bool plain; /* scores are scaled products, and there is no dropout, */
    /* or scores also have a distance_bias whose gradient is wanted: ds is the gradient of scores until it is rounded */
    bool apart;
    size_t b, n, key, keys, r0;
    struct stream stream_k;
    struct key_block block;
    struct row_block rows;
    struct span spans[BLOCK_ROWS];
    char *packed;                 /* the packed block of keys */
    float *dk, *dv;               /* (D,BLOCK_KEYS), (Dv,BLOCK_KEYS) */
    float *transposed;            /* (BLOCK_KEYS,channels) */
    float *p, *ds;                /* (STRIP,BLOCK_KEYS); a vector can be read before and after ds */
    float late;                   /* the factor of ds when it is rounded: 1, or the scale if `apart` */
    uint16_t *ds_rows;            /* dS in bf16 */
    uint32_t *p_words, *ds_words; /* panels (rows,BLOCK_KEYS) of the block of rows */
    char *left;
    float *staging;     /* also for packing */
    struct share share; /* of dq, of the current run */
    float *distances;   /* of the table of distances, of the current run; NULL: not wanted */
};

static size_t carve_backward(const struct qkv_attend_plan *plan, struct backward *f, float *scratch) {
    const size_t D = padded(plan->a->D, W), Dv = padded(plan->a->Dv, W), wide = D > Dv ? D : Dv;
    const size_t words = panel_bytes(BLOCK_ROWS, BLOCK_KEYS), sums = BLOCK_KEYS * sizeof(float);
    struct carve keys = {0}, c = {(char *)scratch, 0};
    carve_keys(plan, &keys);
    f->packed = carve_take(&c, keys.used);
    f->dk = carve_take(&c, D * sums);
    f->dv = carve_take(&c, Dv * sums);
    f->transposed = carve_take(&c, wide * sums);
    f->p = carve_take(&c, STRIP * sums);
    f->ds = (float *)carve_take(&c, STRIP * sums + 2 * GUARD * sizeof(float));
    if (f->ds) f->ds += GUARD;
    f->ds_rows = carve_take(&c, STRIP * BLOCK_KEYS * sizeof *f->ds_rows);
    f->p_words = carve_take(&c, words);
    f->ds_words = carve_take(&c, words);
    f->left = carve_take(&c, BF16.in_place ? 0 : left_bytes(STRIP, BLOCK_KEYS));
    f->staging = carve_take(&c, QKV_T(attend_bf16_pack_scratch)(plan) * sizeof *f->staging);
    return c.used / sizeof(float);
}

size_t QKV_T(attend_bf16_backward_scratch)(const struct qkv_attend_plan *plan) {
    struct backward f;
    return carve_backward(plan, &f, NULL);
}

/* ---- one strip of rows: P and dS ------------------------------------------------------------------------------- */

/* The same if scores are scaled products plus distance_bias, as `score` computes them; ds is the gradient of scores. */
QKV_INLINE void row_distances(const struct backward *f, const struct row *row, struct span span, float *p, float *ds,
                              size_t first, size_t last) {
    const struct qkv_attend *a = f->a;
    const vf lse = vf_set(a->lse[row->at]), delta = vf_set(f->plan->delta[row->at]), scale = vf_set(a->scale);
    const int64_t at = row->bias + (int64_t)f->key;
    for (size_t j = first; j < last; j += W) {
        const vf bias = lanes_of(a->distance_bias.table, at + (int64_t)j, j, span);
        const vf s = vf_add(vf_mul(vf_load(p + j), scale), bias);
        const vf w = exp_coarse(vf_min(vf_zero(), vf_sub(s, lse)));
        store_gradients(p, ds, w, vf_mul(w, vf_sub(vf_load(ds + j), delta)), s, false, span, j);
    }
}

/* Turns products q·k in p and dy·v in ds into weights and gradients of the products; zeros for masked pairs. */
QKV_INLINE void row_gradients(const struct backward *f, const bool plain, const struct row *row, struct span span,
                              float *p, float *ds, size_t first, size_t last) {
    const struct qkv_attend *a = f->a;
    const vf lse = vf_set(a->lse[row->at]), delta = vf_set(f->plan->delta[row->at]);
    float keep[BLOCK_KEYS];
    const bool drop = !plain && a->dropout > 0, apart = !plain && dense(a);
    float *distances = plain ? NULL : distances_row(f->distances, row, f->key);
    if (drop) keep_of(f->plan, &f->rule, row, f->key, first, last, f->keep_scale, keep);
    for (size_t j = first; j < last; j += W) {
        vf slope = vf_set(a->scale), s = vf_load(p + j), dp = vf_load(ds + j);
        s = plain ? vf_mul(s, slope) : score(a, row, f->key, j, span, s, &slope);
        vf w = exp_coarse(vf_min(vf_zero(), vf_sub(s, lse))), kept = w;
        if (drop) {
            kept = vf_mul(w, vf_load(keep + j));
            dp = vf_mul(dp, vf_load(keep + j));
        }
        vf d = vf_mul(w, vf_sub(dp, delta));
        if (distances) distances_put(distances, gradient_of(d, s, apart), span, j);
        store_gradients(p, ds, kept, vf_mul(d, slope), s, apart, span, j);
    }
}

static void strip_gradients(struct backward *f, size_t r0, size_t rows, size_t wanted, size_t first, size_t last) {
    const size_t D = f->a->D, Dv = f->a->Dv, columns = padded((last < f->keys ? last : f->keys) - first, W);
    struct left q = saved_strip(f->rows.q + r0 / STRIP * left_bytes(STRIP, D), D);
    struct left dy = saved_strip(f->rows.dy + r0 / STRIP * left_bytes(STRIP, Dv), Dv);
    q.wanted = dy.wanted = wanted;
    strip_product(&q, rows, D, f->block.k + first * pairs_of(D), columns, f->p + first, BLOCK_KEYS, false);
    strip_product(&dy, rows, Dv, f->block.v + first * pairs_of(Dv), columns, f->ds + first, BLOCK_KEYS, false);
    for (size_t r = 0; r < rows; r++) {
        float *p = f->p + r * BLOCK_KEYS, *ds = f->ds + r * BLOCK_KEYS;
        const struct span span = f->spans[r0 + r];
        if (!span.end) {
            memset(p + first, 0, (last - first) * sizeof *p);
            memset(ds + first, 0, (last - first) * sizeof *ds);
        } else if (f->apart) {
            row_distances(f, &f->rows.rows[r0 + r], span, p, ds, first, last);
        } else if (f->plain) {
            row_gradients(f, true, &f->rows.rows[r0 + r], span, p, ds, first, last);
        } else {
            row_gradients(f, false, &f->rows.rows[r0 + r], span, p, ds, first, last);
        }
    }
    if (f->apart)
        strip_distances(f->distances, &f->rows.rows[r0], f->spans + r0, rows, f->key, f->ds, BLOCK_KEYS,
                        (struct span){first, last});
}

/* Rounds two rows of dS, of `keys` keys in panels of nr, to bf16; and writes words of them and of P. */
QKV_INLINE void round_rows(const bool late, const struct backward *f, const float *p, const float *ds,
                           uint16_t *ds_rows, uint32_t *p_words, uint32_t *ds_words, size_t first, size_t last,
                           size_t panel) {
    const vf factor = vf_set(f->late);
    const size_t nr = BF16.nr;
    for (size_t n = first; n < last; n += nr) {
        uint32_t *p_out = p_words + n * panel, *ds_out = ds_words + n * panel;
        for (size_t j = 0; j < nr; j += 2 * W) {
            const float *p0 = p + n + j, *p1 = p0 + BLOCK_KEYS, *ds0 = ds + n + j, *ds1 = ds0 + BLOCK_KEYS;
            vf a = vf_load(ds0), b = vf_load(ds0 + W), c = vf_load(ds1), d = vf_load(ds1 + W);
            if (late) a = vf_mul(a, factor), b = vf_mul(b, factor), c = vf_mul(c, factor), d = vf_mul(d, factor);
            store_halves(ds_rows + n + j, a, b);
            store_halves(ds_rows + BLOCK_KEYS + n + j, c, d);
            vi_store(ds_out + j, words_of(a, c));
            vi_store(ds_out + j + W, words_of(b, d));
            vi_store(p_out + j, words_of(vf_load(p0), vf_load(p1)));
            vi_store(p_out + j + W, words_of(vf_load(p0 + W), vf_load(p1 + W)));
        }
    }
}

/* Clears the words of rows that attend to none of the keys [first, last). */
static void clear_words(struct backward *f, size_t r0, size_t rows, size_t first, size_t last) {
    const size_t nr = BF16.nr, pairs = pairs_of(f->rows.count), bytes = rows / 2 * nr * sizeof(uint32_t);
    for (size_t n = first; n < last; n += nr) {
        memset(f->p_words + n * pairs + r0 / 2 * nr, 0, bytes);
        memset(f->ds_words + n * pairs + r0 / 2 * nr, 0, bytes);
    }
}

static bool usable(const struct backward *f, size_t r, const struct qkv_heads *x, size_t columns) {
    const struct row *row = &f->rows.rows[r];
    return fits(cells_at(x, row->b, row->i, row->h), columns);
}

/* Adds the contribution of rows of K, Q and dY that were packed as zeros, for the pairs that attend. */
static void add_strip_apart(struct backward *f, size_t r0, size_t rows) {
    const struct qkv_attend *a = f->a;
    const struct qkv_heads *dy = &f->plan->g->dy;
    const size_t ldq = f->plan->partial_columns;
    for (size_t r = 0; r < rows; r++) {
        const struct row *row = &f->rows.rows[r0 + r];
        const float *p = f->p + r * BLOCK_KEYS, *ds = f->ds + r * BLOCK_KEYS;
        if (!f->spans[r0 + r].end) continue;
        const bool bad_q = !*f->rows.finite_q && !usable(f, r0 + r, &a->q, a->D);
        const bool bad_dy = !*f->rows.finite_dy && !usable(f, r0 + r, dy, a->Dv);
        for (size_t j = f->spans[r0 + r].begin; j < f->spans[r0 + r].end; j++) {
            if ((!bad_q && !bad_dy && *f->block.finite_k) || !attends(a, row, f->key, j)) continue;
            const struct cells k = stream_at(&f->stream_k, f->key + j);
            if (bad_q) add_apart(f->dk + j, BLOCK_KEYS, ds[j] * f->late, cells_at(&a->q, row->b, row->i, row->h), a->D);
            if (bad_dy) add_apart(f->dv + j, BLOCK_KEYS, p[j], cells_at(dy, row->b, row->i, row->h), a->Dv);
            if (f->share.dq && !*f->block.finite_k && !fits(k, a->D))
                add_apart(f->share.dq + (f->r0 + r0 + r) * ldq, 1, ds[j] * f->late, k, a->D);
        }
    }
}

/* P and dS of one strip of the block of rows, and its dQ. `left` rows remain from r0 on; their words cover the keys in
 * `all`. */
static void backward_strip(struct backward *f, size_t r0, size_t left, struct span all) {
    const size_t nr = BF16.nr, pairs = pairs_of(f->rows.count), rows = gradient_rows(left),
                 wanted = left < STRIP ? left : STRIP;
    const struct span cover = cover_of(f->spans + r0, rows);
    if (!cover.end) {
        clear_words(f, r0, STRIP, all.begin, all.end);
        return;
    }
    if (rows < STRIP) clear_words(f, r0 + rows, STRIP - rows, all.begin, all.end);
    const size_t first = cover.begin, last = cover.end, end = last < f->keys ? last : f->keys;
    clear_words(f, r0, rows, all.begin, first);
    clear_words(f, r0, rows, last, all.end);
    strip_gradients(f, r0, rows, wanted, first, last);
    for (size_t r = 0; r < rows; r += 2) {
        const float *p = f->p + r * BLOCK_KEYS, *ds = f->ds + r * BLOCK_KEYS;
        uint16_t *ds_rows = f->ds_rows + r * BLOCK_KEYS;
        uint32_t *p_words = f->p_words + (r0 + r) / 2 * nr, *ds_words = f->ds_words + (r0 + r) / 2 * nr;
        if (f->apart)
            round_rows(true, f, p, ds, ds_rows, p_words, ds_words, first, last, pairs);
        else
            round_rows(false, f, p, ds, ds_rows, p_words, ds_words, first, last, pairs);
    }
    if (f->share.dq) {
        const size_t ldq = f->plan->partial_columns;
        float *dq = f->share.dq + (f->r0 + r0) * ldq;
        struct left ds = strip_of(f->ds_rows + first, BLOCK_KEYS, rows, end - first, f->left, f->staging);
        ds.wanted = wanted;
        add_product(&ds, rows, first, end - first, f->block.k_rows, f->keys, ldq, dq, ldq);
    }
    if (!*f->block.finite_k || !*f->rows.finite_q || !*f->rows.finite_dy) add_strip_apart(f, r0, rows);
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

/* A block of rows with the block of keys. */
static void block_gradients(struct backward *f, size_t rows) {
    const struct qkv_attend_plan *plan = f->plan;
    const size_t D = f->a->D, Dv = f->a->Dv;
    const size_t pair = f->b * f->a->Hkv + f->n;
    f->rows = row_block_at(plan, pair, rows);
    if (f->rows.keys->begin >= f->key + f->keys || f->rows.keys->end <= f->key) return;
    if (!*f->rows.packed) QKV_T(attend_bf16_pack_placed)(plan, pair * plan->blocks + rows, &f->rows, f->staging);
    const size_t count = f->rows.count, pairs = pairs_of(count), left = plan->rows - rows * BLOCK_ROWS;
    f->r0 = rows * BLOCK_ROWS;
    if (!spans_of(f->rows.rows, count, f->key, f->keys, f->spans).end) return;
    if (f->share.dq) share_touch(plan, &f->share, f->r0, f->rows.count);
    const struct span all = cover_of(f->spans, count);
    for (size_t r = 0; r < count; r += STRIP) backward_strip(f, r, left - r, all);
    const struct left q = {.packed = f->rows.transposed_q}, dy = {.packed = f->rows.transposed_dy};
    const size_t first = all.begin, columns = padded(qkv_min(all.end, f->keys) - first, W);
    const size_t terms = BF16.in_place ? qkv_min(left, count) : count; /* tiles always have all rows */
    product(&dy, Dv, terms, f->p_words + first * pairs, columns, f->dv + first, BLOCK_KEYS, true);
    product(&q, D, terms, f->ds_words + first * pairs, columns, f->dk + first, BLOCK_KEYS, true);
}

/* Clears the sums of `columns` channels. */
static void clear_keys(const struct backward *f, float *sum, size_t columns) {
    const size_t keys = padded(f->keys, GRANULE);
    for (size_t c = 0; c < padded(columns, W); c++) memset(sum + c * BLOCK_KEYS, 0, keys * sizeof *sum);
}

/* Adds the sums of the block of keys, transposed, to the gradient. */
static void put_keys(const struct backward *f, const struct stream *to, const float *sum) {
    const size_t ld = padded(to->columns, W);
    for (size_t c = 0; c < ld; c += W) {
        for (size_t j = 0; j < f->keys; j += W) {
            vf r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = vf_load(sum + (c + i) * BLOCK_KEYS + j);
            vf_transpose(r);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vf_store(f->transposed + (j + i) * ld + c, r[i]);
        }
    }
    for (size_t j = 0; j < f->keys; j++) {
        const struct qkv_heads *x = f->key + j < to->turn ? to->past : to->now;
        if (x->data) put_cells(stream_at(to, f->key + j), f->plan->g->accumulate, f->transposed + j * ld, to->columns);
    }
}

/* The keys of run `chunk` with all rows. */
static void run_gradients(struct backward *f, size_t chunk) {
    const struct qkv_attend_plan *plan = f->plan;
    const struct qkv_attend *a = f->a;
    const struct qkv_attend_gradients *g = plan->g;
    const struct stream dk = stream_without_pages(&g->dpast_k, &g->dk, a->past, f->b, f->n, a->D);
    const struct stream dv = stream_without_pages(&g->dpast_v, &g->dv, a->past, f->b, f->n, a->Dv);
    size_t end = (chunk + 1) * plan->chunk < plan->key_blocks ? (chunk + 1) * plan->chunk : plan->key_blocks;
    for (size_t block = chunk * plan->chunk; block < end; block++) {
        struct carve c = {f->packed, 0};
        f->block = carve_keys(plan, &c);
        f->key = block * BLOCK_KEYS;
        f->keys = a->Tk - f->key < BLOCK_KEYS ? a->Tk - f->key : BLOCK_KEYS;
        QKV_T(attend_bf16_pack_block)(plan, f->b, f->n, block, &f->block, f->staging);
        clear_keys(f, f->dk, a->D);
        clear_keys(f, f->dv, a->Dv);
        for (size_t rows = 0; rows < plan->blocks; rows++) block_gradients(f, rows);
        put_keys(f, &dk, f->dk);
        put_keys(f, &dv, f->dv);
    }
}

void QKV_T(attend_bf16_backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const struct runs runs = runs_of(plan, item);
    const size_t n = runs.pair % a->Hkv, b = runs.pair / a->Hkv;
    struct backward f = {.plan = plan, .a = a, .b = b, .n = n, .stream_k = keys_of(plan, b, n)};
    f.rule = mask_rule(a->key, a->dropout), f.keep_scale = mask_scale(a->dropout);
    f.plain = plain_scores(a) && !(a->dropout > 0);
    f.apart = plan->g->ddistance_bias && distances_alone(a) && !(a->dropout > 0);
    f.late = f.apart ? a->scale : 1.0f;
    carve_backward(plan, &f, scratch);
    for (size_t chunk = runs.begin; chunk < runs.end; chunk++) {
        f.share = share_begin(plan, runs.pair, chunk), f.distances = distances_begin(plan, b, n, chunk);
        run_gradients(&f, chunk);
        share_end(plan, runs.pair, chunk, &f.share), distances_end(plan, b, n, chunk);
    }
}
