/* attend_bf16_forward.c: y and log-sum-exp of one block of query rows, walking over packed keys once: the online softmax of
 * attend_forward.c, strip by strip of rows. Sums of weights are kept lane by lane until the end. */
#include "kernel/isa/attend_bf16.h"

struct forward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    bool plain; /* whether scores are just scaled products */
    size_t b, n, key, keys;
    struct stream values;
    struct key_block block;
    char *q;     /* strips of left operands */
    float *o;    /* (rows,ldo) */
    float *l;    /* (rows,W): sums of weights */
    float *s;    /* (STRIP,BLOCK_KEYS): scores */
    uint16_t *p; /* the same of weights */
    char *left;  /* p packed, where it cannot be read in place */
    float *staging;
    size_t ldo;
    float m[QKV_ATTEND_ROWS];
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];
};

static size_t carve_forward(const struct qkv_attend_plan *plan, struct forward *f, float *scratch) {
    const size_t D = plan->a->D, Dv = plan->a->Dv, wide = D > BLOCK_KEYS ? D : BLOCK_KEYS;
    struct carve c = {(char *)scratch, 0};
    f->ldo = padded(Dv, GRANULE);
    f->q = take(&c, plan->block / STRIP * left_bytes(STRIP, D));
    f->o = take(&c, plan->block * f->ldo * sizeof *f->o);
    f->l = take(&c, plan->block * W * sizeof *f->l);
    f->s = take(&c, STRIP * BLOCK_KEYS * sizeof *f->s);
    f->p = take(&c, STRIP * (padded(D, GRANULE) > BLOCK_KEYS ? padded(D, GRANULE) : BLOCK_KEYS) * sizeof *f->p);
    f->left = take(&c, BF16.in_place ? 0 : left_bytes(STRIP, BLOCK_KEYS));
    f->staging = take(&c, BF16.native ? 0 : STRIP * wide * sizeof *f->staging);
    return c.used / sizeof(float);
}

size_t QKV_T(attend_bf16_forward_scratch)(const struct qkv_attend_plan *plan) {
    struct forward f;
    return carve_forward(plan, &f, NULL);
}

/* The rows of the block; those that fill its last strip attend to nothing. Returns how many there are with them. */
static size_t forward_start(struct forward *f, size_t r0, float *scratch) {
    const struct qkv_attend *a = f->a;
    const size_t count = f->plan->rows - r0 < f->plan->block ? f->plan->rows - r0 : f->plan->block;
    const size_t all = padded(count, STRIP), ld = padded(a->D, GRANULE);
    carve_forward(f->plan, f, scratch);
    rows_of(f->plan, f->b, f->n, r0, count, f->rows);
    for (size_t r = count; r < all; r++) f->rows[r] = (struct row){0};
    for (size_t r = 0; r < all; r++) {
        uint16_t *to = f->p + r % STRIP * ld;
        if (r < count)
            QKV_T(attend_bf16_round)(to, cells_at(&a->q, f->rows[r].b, f->rows[r].i, f->rows[r].h), a->D, ld);
        else
            memset(to, 0, ld * sizeof *to);
        if ((r + 1) % STRIP == 0) keep_strip(f->q + r / STRIP * left_bytes(STRIP, a->D), f->p, ld, a->D, f->staging);
        f->m[r] = -INFINITY;
    }
    memset(f->o, 0, all * f->ldo * sizeof *f->o);
    memset(f->l, 0, all * W * sizeof *f->l);
    return all;
}

/* Scores to weights, rounded; their sum, lane by lane, is added to `sum`. `keep`: what dropout multiplies them by, or NULL. */
QKV_INLINE void row_weights(const float *x, uint16_t *p, float m, const float *keep, size_t first, size_t last,
                            float *sum) {
    const vf top = vf_set(m);
    vf even = vf_load(sum), odd = vf_zero();
    for (size_t j = first; j < last; j += 2 * W) {
        vf a = exp_coarse(vf_sub(vf_load(x + j), top)), b = exp_coarse(vf_sub(vf_load(x + j + W), top));
        even = vf_add(even, a), odd = vf_add(odd, b);
        if (keep) a = vf_mul(a, vf_load(keep + j)), b = vf_mul(b, vf_load(keep + j + W));
        store_halves(p + j, a, b);
    }
    vf_store(sum, vf_add(even, odd));
}

static void scale_row(float *x, float s, size_t n) {
    for (size_t c = 0; c < n; c += W) vf_store(x + c, vf_mul(vf_load(x + c), vf_set(s)));
}

/* m, l and the weights of one row for the keys [first, last) of the block; O and l follow m. */
static void row_softmax(struct forward *f, size_t r, float *x, uint16_t *p, size_t first, size_t last) {
    const struct span span = f->spans[r];
    float best = -INFINITY;
    if (span.end) best = row_scores(f->a, f->plain, &f->rows[r], f->key, span, x, first, last);
    if (span.end && !(fabsf(best) <= FLT_MAX)) best = row_repair(span, x);
    if (best == -INFINITY) {
        memset(p + first, 0, (last - first) * sizeof *p);
        return;
    }
    if (f->m[r] < best) {
        if (f->m[r] > -INFINITY) {
            const float rescale = vf_first(exp_down(vf_set(f->m[r] - best)));
            scale_row(f->o + r * f->ldo, rescale, f->ldo);
            scale_row(f->l + r * W, rescale, W);
        }
        f->m[r] = best;
    }
    if (f->a->dropout > 0) {
        float keep[BLOCK_KEYS];
        keep_of(f->a, &f->rule, &f->rows[r], f->key, first, last, 1.0f, keep);
        row_weights(x, p, f->m[r], keep, first, last, f->l + r * W);
    } else {
        row_weights(x, p, f->m[r], NULL, first, last, f->l + r * W);
    }
}

/* What the values that were packed as zeros add to O, to the rows that attend to them. */
static void add_values_apart(struct forward *f, size_t r0) {
    for (size_t j = 0; j < f->keys; j++) {
        const struct cells v = stream_at(&f->values, f->key + j);
        if (fits(v, f->a->Dv)) continue;
        for (size_t r = 0; r < STRIP; r++) {
            float p;
            const uint32_t bits = (uint32_t)f->p[r * BLOCK_KEYS + j] << 16;
            if (!attends(f->a, &f->rows[r0 + r], f->key, j)) continue;
            memcpy(&p, &bits, sizeof p);
            add_apart(f->o + (r0 + r) * f->ldo, 1, p, v, f->a->Dv);
        }
    }
}

/* One strip of rows against the block of keys. */
static void forward_strip(struct forward *f, size_t r0) {
    const size_t D = f->a->D;
    const struct span cover = cover_of(f->spans + r0, STRIP);
    if (!cover.end) return;
    const size_t first = cover.begin, last = cover.end, end = last < f->keys ? last : f->keys;
    struct left q = kept_strip(f->q + r0 / STRIP * left_bytes(STRIP, D), D);
    product(&q, STRIP, D, f->block.k + first * pairs_of(D), last - first, f->s + first, BLOCK_KEYS, false);
    for (size_t r = 0; r < STRIP; r++)
        row_softmax(f, r0 + r, f->s + r * BLOCK_KEYS, f->p + r * BLOCK_KEYS, first, last);
    struct left p = strip_of(f->p + first, BLOCK_KEYS, end - first, f->left, f->staging);
    add_product(&p, first, end - first, f->block.v, f->keys, f->a->Dv, f->o + r0 * f->ldo, f->ldo);
    if (!*f->block.finite_v) add_values_apart(f, r0);
}

/* y = O / l, with dropout's scale; adding 0 makes every zero a positive one, however it came about. */
static void forward_finish(const struct forward *f, size_t count) {
    const struct qkv_attend *a = f->a;
    for (size_t r = 0; r < count; r++) {
        const struct row *row = &f->rows[r];
        const bool empty = f->m[r] == -INFINITY;
        const float l = vf_sum(vf_load(f->l + r * W));
        const vf s = vf_set(empty ? 0.0f : mask_scale(a->dropout) / l);
        struct cells y = cells_at(&a->y, row->b, row->i, row->h);
        for (size_t c = 0; c < a->Dv; c += W)
            store_cells(y, c, vf_add(vf_mul(vf_load(f->o + r * f->ldo + c), s), vf_zero()), a->Dv - c);
        if (a->lse) a->lse[row->at] = empty ? -INFINITY : f->m[r] + logf(l);
    }
}

void QKV_T(attend_bf16_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const size_t pair = item / plan->blocks, r0 = (plan->blocks - 1 - item % plan->blocks) * plan->block;
    struct forward f;
    f.plan = plan, f.a = a, f.b = pair / a->Hkv, f.n = pair % a->Hkv;
    f.plain = plain_scores(a);
    f.rule = mask_rule(a->key, a->dropout);
    f.values = values_of(a, f.b, f.n);
    const size_t all = forward_start(&f, r0, scratch);
    for (size_t block = 0; block < plan->key_blocks; block++) {
        f.key = block * BLOCK_KEYS;
        f.keys = a->Tk - f.key < BLOCK_KEYS ? a->Tk - f.key : BLOCK_KEYS;
        if (!spans_of(f.rows, all, f.key, f.keys, f.spans).end) continue;
        struct carve c = {plan->packed_keys + (pair * plan->key_blocks + block) * plan->keys_bytes, 0};
        f.block = carve_keys(plan, &c);
        for (size_t r = 0; r < all; r += STRIP) forward_strip(&f, r);
    }
    forward_finish(&f, plan->rows - r0 < plan->block ? plan->rows - r0 : plan->block);
}
