/* attend_backward.c: the gradients of attention, recomputing the weights from the saved log-sum-exp.
 *
 * FlashAttention-2 (Dao 2023). With P = exp(score − lse), M the dropout mask times 1/(1 − p), delta = Σ dy·y by row:
 *
 *   dV = (P∘M)ᵀ·dY    dP = (dY·Vᵀ)∘M    dS = P∘(dP − delta)∘score'    dQ = dS·K    dK = dSᵀ·Q
 *
 * One item owns a chunk of keys of one kv head: for each block of its keys it walks over all query rows, in order, summing
 * dk and dv in scratch and its share of dq in `partial`. Zeros in P and dS stand for masked pairs; where a factor of such
 * a zero is not finite, the products keep to the pairs that are not masked. */
#include "kernel/isa/attend_score.h"

enum { KEYS = BACKWARD_KEYS };

struct backward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    float keep_scale;
    size_t ldk, ldv;                    /* D and Dv padded */
    size_t b, n, key, keys;             /* the block of keys in work */
    size_t r0, count;                   /* the block of rows in work */
    bool finite_k, finite_q, finite_dy; /* whether the packed ones are */
    float *kt, *vt;                     /* panels of (D,PANEL), (Dv,PANEL) */
    float *k;                           /* (KEYS,D padded) */
    float *dk, *dv;                     /* (KEYS,D padded), (KEYS,Dv padded) */
    float *q, *dy;                      /* (rows,D padded), (rows,Dv padded) */
    float *p, *ds;                      /* (rows,KEYS) */
    float *dq;                          /* this chunk's share of dq: all rows of the kv head; or NULL */
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];         /* of each row, and */
    struct span covers[QKV_ATTEND_ROWS / TILE]; /* of each tile of rows */
};

/* Hands out scratch when `f` is given; returns how much there is. */
static size_t carve(const struct qkv_attend_plan *plan, struct backward *f, float *scratch) {
    size_t line = QKV_CACHE_LINE / sizeof(float), rows = plan->block, used = 0;
    size_t ldk = padded(plan->a->D, W), ldv = padded(plan->a->Dv, W);
    struct backward none;
    if (!f) f = &none;
    const struct {
        float **at;
        size_t floats;
    } pieces[] = {{&f->kt, KEYS * plan->a->D}, {&f->vt, KEYS * plan->a->Dv}, {&f->k, KEYS * ldk},
                  {&f->dk, KEYS * ldk},        {&f->dv, KEYS * ldv},         {&f->q, rows * ldk},
                  {&f->dy, rows * ldv},        {&f->p, rows * KEYS},         {&f->ds, rows * KEYS}};
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
    for (size_t at = begin; at < end; at++) {
        size_t i = at % a->Tq, h = at / a->Tq % a->H, b = at / a->Tq / a->H;
        const float *y = heads_at(&a->y, b, i, h), *dy = heads_at(&plan->g->dy, b, i, h);
        vf sum = vf_zero();
        for (size_t c = 0; c < a->Dv; c += W)
            sum = vf_fma(load_row(y + c, a->Dv - c), load_row(dy + c, a->Dv - c), sum);
        plan->delta[at] = vf_sum(sum);
    }
}

/* ---- one tile of rows: P and dS ------------------------------------------------------------------------------------ */

/* Products q·k in p and dy·v in ds become weights and gradients of the products; zeros outside the span. */
static void row_gradients(const struct backward *f, const struct row *row, struct span span, float *p, float *ds,
                          size_t first, size_t last) {
    const struct qkv_attend *a = f->a;
    const vf lse = vf_set(a->lse[row->at]), delta = vf_set(f->plan->delta[row->at]);
    float keep[KEYS];
    bool drop = a->dropout > 0, plain = plain_scores(a);
    if (drop) keep_of(a, &f->rule, row, f->key, first, last, f->keep_scale, keep);
    for (size_t j = first; j < last; j += W) {
        vf slope = vf_set(a->scale), s = vf_load(p + j), dp = vf_load(ds + j);
        s = plain ? vf_mul(s, slope) : score(a, row, f->key, j, span, s, &slope);
        vf w = weight(s, lse), kept = w;
        if (drop) {
            kept = vf_mul(w, vf_load(keep + j));
            dp = vf_mul(dp, vf_load(keep + j));
        }
        vf d = vf_mul(vf_mul(w, vf_sub(dp, delta)), slope);
        if (!vector_inside(span, j)) {
            vm inside = lanes_inside(span, j);
            kept = vf_select(inside, kept, vf_zero());
            d = vf_select(inside, d, vf_zero());
        }
        vf_store(p + j, kept);
        vf_store(ds + j, d);
    }
}

static void zero_outside(float *x, size_t first, size_t last, size_t keys) {
    for (size_t j = 0; j < first; j += W) vf_store(x + j, vf_zero());
    for (size_t j = last; j < keys; j += W) vf_store(x + j, vf_zero());
}

static void tile_gradients(struct backward *f, size_t r, size_t rows, struct span all) {
    float *p = f->p + r * KEYS, *ds = f->ds + r * KEYS;
    size_t first = all.begin / W * W, last = padded(all.end, W), D = f->a->D, Dv = f->a->Dv;
    for (size_t j = all.begin / PANEL * PANEL; j < last; j += PANEL) {
        size_t columns = last - j < PANEL ? last - j : PANEL;
        QKV_K(attend_tiles)
        (rows, columns, FRESH, p + j, KEYS, NULL, f->q + r * f->ldk, f->ldk, 1, f->kt + j * D, PANEL, D);
        QKV_K(attend_tiles)
        (rows, columns, FRESH, ds + j, KEYS, NULL, f->dy + r * f->ldv, f->ldv, 1, f->vt + j * Dv, PANEL, Dv);
    }
    for (size_t i = 0; i < rows; i++) {
        row_gradients(f, &f->rows[r + i], f->spans[r + i], p + i * KEYS, ds + i * KEYS, first, last);
        zero_outside(p + i * KEYS, first, last, f->keys);
        zero_outside(ds + i * KEYS, first, last, f->keys);
    }
}

static void tile_dq(struct backward *f, size_t r, size_t rows, struct span all) {
    float *dq = f->dq + (f->r0 + r) * f->ldk;
    const float *ds = f->ds + r * KEYS;
    if (f->finite_k || all_like(f->spans + r, rows, all)) {
        QKV_K(attend_tiles)
        (rows, f->ldk, ADD, dq, f->ldk, NULL, ds + all.begin, KEYS, 1, f->k + all.begin * f->ldk, f->ldk,
         all.end - all.begin);
        return;
    }
    for (size_t i = 0; i < rows; i++) { /* 0·NaN: keep each row to its own keys */
        struct span span = f->spans[r + i];
        QKV_K(attend_tiles)
        (1, f->ldk, ADD, dq + i * f->ldk, f->ldk, NULL, ds + i * KEYS + span.begin, KEYS, 1, f->k + span.begin * f->ldk,
         f->ldk, span.end - span.begin);
    }
}

/* ---- one block of rows: dK and dV ---------------------------------------------------------------------------------- */

/* out (keys of the block,ld) += xᵀ·y over the rows, for the keys in `all`: x is P or dS, y is dY or Q. */
static void add_transposed(const struct backward *f, struct span all, float *out, size_t ld, const float *x,
                           const float *y, bool finite) {
    if (!finite && !all_like(f->spans, f->count, all)) { /* keep each row to its own keys */
        for (size_t r = 0; r < f->count; r++)
            for (size_t j = f->spans[r].begin, step; j < f->spans[r].end; j += step) {
                step = f->spans[r].end - j < TILE ? f->spans[r].end - j : TILE;
                QKV_K(attend_tiles)
                (step, ld, ADD, out + j * ld, ld, NULL, x + r * KEYS + j, 1, KEYS, y + r * ld, ld, 1);
            }
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

/* Marks the share of dq of a block of rows as used, zeroed the first time. */
static void touch(struct backward *f, size_t chunk) {
    const struct qkv_attend_plan *plan = f->plan;
    size_t part = (f->b * f->a->Hkv + f->n) * plan->chunks + chunk;
    unsigned char *touched = &plan->touched[part * plan->blocks + f->r0 / plan->block];
    f->dq = plan->partial + part * plan->rows * f->ldk;
    if (*touched) return;
    *touched = 1;
    memset(f->dq + f->r0 * f->ldk, 0, f->count * f->ldk * sizeof(float));
}

static void pack_block_of_rows(struct backward *f) {
    const struct qkv_attend *a = f->a;
    vf check_q = vf_zero(), check_dy = vf_zero();
    for (size_t r = 0; r < f->count; r++) {
        const struct row *row = &f->rows[r];
        pack_row(f->q + r * f->ldk, heads_at(&a->q, row->b, row->i, row->h), a->D, &check_q);
        pack_row(f->dy + r * f->ldv, heads_at(&f->plan->g->dy, row->b, row->i, row->h), a->Dv, &check_dy);
    }
    f->finite_q = all_finite(check_q), f->finite_dy = all_finite(check_dy);
}

static void pack_block_of_keys(struct backward *f) {
    const struct qkv_attend *a = f->a;
    const float *k = heads_at(&a->k, f->b, f->key, f->n), *v = heads_at(&a->v, f->b, f->key, f->n);
    const struct soon soon = {v, a->v.row_stride, f->keys, a->Dv}, none = {0};
    pack_panels(f->kt, k, a->k.row_stride, 0, f->keys, a->D, soon);
    pack_panels(f->vt, v, a->v.row_stride, 0, f->keys, a->Dv, none);
    f->finite_k = pack_rows(f->k, f->ldk, k, a->k.row_stride, f->keys, a->D, none);
}

/* Asks for the rows [r, r + TILE) of the next block, while this one is worked on. */
static void ask_for_rows(const struct backward *f, size_t r) {
    const struct qkv_attend *a = f->a;
    size_t begin = f->r0 + f->plan->block + r, end = begin + TILE < f->plan->rows ? begin + TILE : f->plan->rows;
    for (size_t next = begin; next < end; next++) {
        size_t h = f->n * f->plan->group + next / a->Tq, i = next % a->Tq;
        prefetch_row(heads_at(&a->q, f->b, i, h), a->D);
        prefetch_row(heads_at(&f->plan->g->dy, f->b, i, h), a->Dv);
        if (f->plan->partial) prefetch_row(f->dq + next * f->ldk, f->ldk);
    }
}

/* The rows r0… against the block of keys; packs the keys when they are met for the first time. */
static void block_gradients(struct backward *f, size_t chunk, bool *packed) {
    const struct qkv_attend_plan *plan = f->plan;
    f->count = plan->rows - f->r0 < plan->block ? plan->rows - f->r0 : plan->block;
    rows_of(plan, f->b, f->n, f->r0, f->count, f->rows);
    for (size_t r = 0; r < f->count; r++)
        if (f->a->lse[f->rows[r].at] == -INFINITY) f->rows[r].lo = f->rows[r].hi = 0;
    struct span all = spans_of(f->rows, f->count, f->key, f->keys, f->spans);
    if (!all.end) return;
    if (!*packed) pack_block_of_keys(f);
    *packed = true;
    pack_block_of_rows(f);
    if (plan->partial) touch(f, chunk);
    for (size_t r = 0; r < f->count; r += TILE) {
        size_t rows = f->count - r < TILE ? f->count - r : TILE;
        struct span cover = spans_of(f->rows + r, rows, f->key, f->keys, f->spans + r);
        f->covers[r / TILE] = cover;
        ask_for_rows(f, r);
        if (cover.end) {
            tile_gradients(f, r, rows, cover);
            if (plan->partial) tile_dq(f, r, rows, cover);
        } else {
            memset(f->p + r * KEYS, 0, rows * KEYS * sizeof(float));
            memset(f->ds + r * KEYS, 0, rows * KEYS * sizeof(float));
        }
    }
    if (plan->g->dv.data) add_transposed(f, all, f->dv, f->ldv, f->p, f->dy, f->finite_dy);
    if (plan->g->dk.data) add_transposed(f, all, f->dk, f->ldk, f->ds, f->q, f->finite_q);
}

/* ---- items --------------------------------------------------------------------------------------------------------- */

/* x (+)= sum, one row. */
static void put(float *x, bool accumulate, const float *sum, size_t columns) {
    for (size_t c = 0; c < columns; c += W) {
        vf v = vf_load(sum + c);
        if (accumulate) v = vf_add(load_row(x + c, columns - c), v);
        store_row(x + c, v, columns - c);
    }
}

static void put_heads(const struct backward *f, const struct qkv_heads *x, const float *sum, size_t ld,
                      size_t columns) {
    if (!x->data) return;
    for (size_t j = 0; j < f->keys; j++) {
        float *to = (float *)x->data + f->b * x->batch_stride + (f->key + j) * x->row_stride + f->n * x->head_stride;
        put(to, f->plan->g->accumulate, sum + j * ld, columns);
    }
}

void QKV_K(attend_backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    struct backward f;
    f.plan = plan, f.a = a;
    f.rule = mask_rule(a->key, a->dropout), f.keep_scale = mask_scale(a->dropout);
    f.ldk = padded(a->D, W), f.ldv = padded(a->Dv, W);
    carve(plan, &f, scratch);
    size_t chunk = item / (a->B * a->Hkv);
    f.n = item % a->Hkv, f.b = item / a->Hkv % a->B;
    if (plan->partial)
        memset(plan->touched + ((f.b * a->Hkv + f.n) * plan->chunks + chunk) * plan->blocks, 0, plan->blocks);
    size_t end = (chunk + 1) * plan->chunk < plan->key_blocks ? (chunk + 1) * plan->chunk : plan->key_blocks;
    for (size_t block = chunk * plan->chunk; block < end; block++) {
        bool packed = false;
        f.key = block * KEYS;
        f.keys = a->Tk - f.key < KEYS ? a->Tk - f.key : KEYS;
        memset(f.dk, 0, f.keys * f.ldk * sizeof(float));
        memset(f.dv, 0, f.keys * f.ldv * sizeof(float));
        for (f.r0 = 0; f.r0 < plan->rows; f.r0 += plan->block) block_gradients(&f, chunk, &packed);
        put_heads(&f, &plan->g->dk, f.dk, f.ldk, a->D);
        put_heads(&f, &plan->g->dv, f.dv, f.ldv, a->Dv);
    }
}

void QKV_K(attend_gather)(const struct qkv_attend_plan *plan, size_t item) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_heads *dq = &plan->g->dq;
    size_t ld = padded(a->D, W), block = item % plan->blocks, pair = item / plan->blocks;
    size_t r0 = block * plan->block, count = plan->rows - r0 < plan->block ? plan->rows - r0 : plan->block;
    for (size_t r = r0; r < r0 + count; r++) {
        size_t i = r % a->Tq, h = pair % a->Hkv * plan->group + r / a->Tq, b = pair / a->Hkv;
        float *to = (float *)dq->data + b * dq->batch_stride + i * dq->row_stride + h * dq->head_stride;
        for (size_t c = 0; c < a->D; c += W) {
            vf sum = vf_zero();
            for (size_t part = pair * plan->chunks; part < (pair + 1) * plan->chunks; part++)
                if (plan->touched[part * plan->blocks + block])
                    sum = vf_add(sum, vf_load(plan->partial + (part * plan->rows + r) * ld + c));
            if (plan->g->accumulate) sum = vf_add(load_row(to + c, a->D - c), sum);
            store_row(to + c, sum, a->D - c);
        }
    }
}
