/* attend_bf16_forward.c: y and log-sum-exp of one block of query rows, which walks over packed keys once, or over one
 * piece of them; then y from the sums of all pieces. The online softmax is that of attend_forward.c, in strips of rows.
 * Sums of weights are held lane by lane until the end. */
#include "kernel/isa/attend_bf16.h"
#include "kernel/isa/attend_sums.h"

_Static_assert(QKV_ATTEND_PIECE % BLOCK_KEYS == 0, "a piece is whole blocks of keys");
_Static_assert(QKV_ATTEND_BLOCK % BLOCK_KEYS == 0, "no block of keys crosses a page");

struct forward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    bool plain; /* scores are scaled products */
    size_t b, n, key, keys;
    struct stream values;
    struct qkv_pages key_pages;        /* of keys that are read as words */
    const uint32_t *block_k, *block_v; /* the current block of keys, packed, */
    size_t terms;                      /* with room for so many keys; */
    bool clean;                        /* whether its values are finite */
    char *q;                           /* strips of left operands */
    float *s;                          /* (STRIP,BLOCK_KEYS): scores */
    uint16_t *p;                       /* the same of weights */
    char *left;                        /* p packed, if it must be */
    float *staging;
    char *own;        /* a block of keys, if items pack them; or values of a page where some are not finite */
    float *own_work;  /* scratch of packing */
    struct sums sums; /* of the current piece, */
    struct sums all;  /* and of all pieces so far */
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];
};

/* The sum of weights of a row has W parts. */
static struct sums forward_sums(const struct qkv_attend_plan *plan, float *at) {
    return sums_at(at, plan->block, padded(plan->a->Dv, GRANULE), W);
}

size_t QKV_T(attend_bf16_sums_floats)(const struct qkv_attend_plan *plan) {
    return sums_floats(plan->block, padded(plan->a->Dv, GRANULE), W);
}

static size_t carve_forward(const struct qkv_attend_plan *plan, struct forward *f, float *scratch) {
    const size_t D = plan->a->D, wide = D > BLOCK_KEYS ? D : BLOCK_KEYS;
    const size_t sums = QKV_T(attend_bf16_sums_floats)(plan) * sizeof(float);
    struct carve c = {(char *)scratch, 0};
    f->q = carve_take(&c, plan->block / STRIP * left_bytes(STRIP, D));
    float *piece = carve_take(&c, sums), *all = carve_take(&c, plan->a->Tk > QKV_ATTEND_PIECE ? sums : 0);
    if (scratch) f->sums = forward_sums(plan, piece), f->all = forward_sums(plan, all);
    f->s = carve_take(&c, STRIP * BLOCK_KEYS * sizeof *f->s);
    f->p = carve_take(&c, STRIP * (padded(D, GRANULE) > BLOCK_KEYS ? padded(D, GRANULE) : BLOCK_KEYS) * sizeof *f->p);
    f->left = carve_take(&c, BF16.in_place ? 0 : left_bytes(STRIP, BLOCK_KEYS));
    f->staging = carve_take(&c, BF16.native ? 0 : STRIP * wide * sizeof *f->staging);
    const bool own = plan->packs || plan->words[QKV_PAGE_VALUES];
    f->own = carve_take(&c, own ? plan->keys_bytes : 0);
    f->own_work = carve_take(&c, own ? QKV_T(attend_bf16_pack_scratch)(plan) * sizeof(float) : 0);
    return c.used / sizeof(float);
}

size_t QKV_T(attend_bf16_forward_scratch)(const struct qkv_attend_plan *plan) {
    struct forward f;
    return carve_forward(plan, &f, NULL);
}

/* Rows of the strip that begins at r0, if there are `count` in all. */
static size_t forward_height(size_t count, size_t r0) {
    return strip_rows(count - r0 < STRIP ? count - r0 : STRIP);
}

/* The number of rows to multiply for `count` rows. */
static size_t forward_rows(size_t count) {
    const size_t last = count ? (count - 1) / STRIP * STRIP : 0;
    return last + forward_height(count, last);
}

/* Packs the rows. Rows that fill up the last strip attend to nothing. */
static void forward_start(struct forward *f, size_t count) {
    const struct qkv_attend *a = f->a;
    const size_t all = forward_rows(count), ld = padded(a->D, GRANULE);
    for (size_t r = count; r < all; r++) f->rows[r] = (struct row){0};
    for (size_t r0 = 0; r0 < all; r0 += STRIP) {
        const size_t height = forward_height(count, r0);
        char *strip = f->q + r0 / STRIP * left_bytes(STRIP, a->D);
        uint16_t *to = BF16.in_place ? (uint16_t *)(void *)strip : f->p;
        for (size_t r = r0; r < r0 + height; r++) {
            if (r < count)
                round_row(to + (r - r0) * ld, cells_at(&a->q, f->rows[r].b, f->rows[r].i, f->rows[r].h), a->D, ld,
                          vf_zero());
            else
                memset(to + (r - r0) * ld, 0, ld * sizeof *to);
        }
        if (!BF16.in_place) save_strip(strip, f->p, ld, height, a->D, f->staging);
    }
}

/* Turns scores into weights, rounded; adds them, lane by lane, to `sum`. `keep`: the factors of dropout, or NULL. */
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

/* m, l and the weights of one row for the keys [first, last) of the block; O and l are scaled if m changes. */
static void row_softmax(struct forward *f, size_t r, float *x, uint16_t *p, size_t first, size_t last) {
    const struct span span = f->spans[r];
    float best = -INFINITY, *m = f->sums.m + r, *o = f->sums.o + r * f->sums.ldo, *l = f->sums.l + r * W;
    if (span.end) best = row_scores(f->a, f->plain, &f->rows[r], f->key, span, x, first, last);
    if (span.end && !(fabsf(best) <= FLT_MAX)) best = row_repair(span, x);
    if (best == -INFINITY) {
        memset(p + first, 0, (last - first) * sizeof *p);
        return;
    }
    if (*m < best) {
        if (*m > -INFINITY) {
            const float rescale = vf_first(exp_down(vf_set(*m - best)));
            scale_row(o, rescale, f->sums.ldo);
            scale_row(l, rescale, W);
        }
        *m = best;
    }
    if (f->a->dropout > 0) {
        float keep[BLOCK_KEYS];
        keep_of(f->plan, &f->rule, &f->rows[r], f->key, first, last, 1.0f, keep);
        row_weights(x, p, *m, keep, first, last, l);
    } else {
        row_weights(x, p, *m, NULL, first, last, l);
    }
}

/* Adds the contribution of values that were packed as zeros to O, for the rows that attend to them. */
static void add_values_apart(struct forward *f, size_t r0, size_t rows) {
    float row[CHANNELS];
    for (size_t j = 0; j < f->keys; j++) {
        const struct cells v = stream_row(&f->values, f->key + j, row);
        if (fits(v, f->a->Dv)) continue;
        for (size_t r = 0; r < rows; r++) {
            float p;
            const uint32_t bits = (uint32_t)f->p[r * BLOCK_KEYS + j] << 16;
            if (!attends(f->a, &f->rows[r0 + r], f->key, j)) continue;
            memcpy(&p, &bits, sizeof p);
            add_apart(f->sums.o + (r0 + r) * f->sums.ldo, 1, p, v, f->a->Dv);
        }
    }
}

/* A strip of `rows` rows, of which `wanted` exist, with the block of keys. */
static void forward_strip(struct forward *f, size_t r0, size_t rows, size_t wanted) {
    const size_t D = f->a->D;
    const struct span cover = cover_of(f->spans + r0, rows);
    if (!cover.end) return;
    const size_t first = cover.begin, last = cover.end, end = last < f->keys ? last : f->keys;
    struct left q = saved_strip(f->q + r0 / STRIP * left_bytes(STRIP, D), D);
    q.wanted = wanted;
    strip_product(&q, rows, D, f->block_k + first * pairs_of(D), padded(end - first, W), f->s + first, BLOCK_KEYS,
                  false);
    for (size_t r = 0; r < rows; r++) row_softmax(f, r0 + r, f->s + r * BLOCK_KEYS, f->p + r * BLOCK_KEYS, first, last);
    struct left p = strip_of(f->p + first, BLOCK_KEYS, rows, end - first, f->left, f->staging);
    p.wanted = wanted;
    add_product(&p, rows, first, end - first, f->block_v, f->terms, f->a->Dv, f->sums.o + r0 * f->sums.ldo,
                f->sums.ldo);
    if (!f->clean) add_values_apart(f, r0, rows);
}

/* y = O / l, with dropout's scale. Adding 0 turns every negative zero into a positive one. */
static void forward_finish(const struct qkv_attend *a, const struct row *rows, size_t count, const struct sums *sums) {
    for (size_t r = 0; r < count; r++) {
        const struct row *row = &rows[r];
        float lse;
        const vf s = vf_set(row_finish(a, row->h, sums->m[r], vf_sum(vf_load(sums->l + r * W)), &lse));
        struct cells y = cells_at(&a->y, row->b, row->i, row->h);
        for (size_t c = 0; c < a->Dv; c += W)
            store_cells(y, c, vf_add(vf_mul(vf_load(sums->o + r * sums->ldo + c), s), vf_zero()), a->Dv - c);
        if (a->lse) a->lse[row->at] = lse;
    }
}

static void forward_use_values(struct forward *f, const struct key_block *block) {
    f->block_v = block->v, f->terms = f->keys, f->clean = *block->finite_v;
}

/* The values of the current block where their page stores them, or, if some are not finite, packed without these. */
static void forward_page_values(struct forward *f, size_t page) {
    const struct qkv_page_words x = f->values.stored.type->words(&f->values.stored, page, f->n);
    f->block_v = x.words, f->terms = x.terms, f->clean = true;
    if (x.finite) return;
    struct carve c = {f->own, 0};
    const struct key_block own = carve_keys(f->plan, &c);
    QKV_T(attend_bf16_pack_values)(f->plan, f->b, f->n, f->key / BLOCK_KEYS, &own, f->own_work);
    forward_use_values(f, &own);
}

/* The current block of keys, packed: in its page, before the items, or here. */
static void forward_block(struct forward *f) {
    const struct qkv_attend_plan *plan = f->plan;
    const struct qkv_page_table *pages = &f->a->pages;
    const size_t pair = f->b * f->a->Hkv + f->n, block = f->key / BLOCK_KEYS;
    const bool *words = plan->words;
    if (!words[QKV_PAGE_KEYS] || !words[QKV_PAGE_VALUES]) {
        char *at = plan->packs ? f->own : plan->packed_keys + (pair * plan->key_blocks + block) * plan->keys_bytes;
        struct carve c = {at, 0};
        const struct key_block packed = carve_keys(plan, &c);
        if (plan->packs) QKV_T(attend_bf16_pack_block)(plan, f->b, f->n, block, &packed, f->own_work);
        f->block_k = packed.k;
        if (!words[QKV_PAGE_VALUES]) forward_use_values(f, &packed);
    }
    if (!words[QKV_PAGE_KEYS] && !words[QKV_PAGE_VALUES]) return;
    const size_t page = (size_t)pages->lists[f->b][f->key / pages->positions];
    if (words[QKV_PAGE_KEYS]) f->block_k = pages->k->words(&f->key_pages, page, f->n).words;
    if (words[QKV_PAGE_VALUES]) forward_page_values(f, page);
}

/* f->sums of the keys [begin, end), which are of one piece, for `count` rows. */
static void forward_walk(struct forward *f, size_t begin, size_t end, size_t count) {
    const size_t all = forward_rows(count);
    sums_clear(&f->sums, all);
    for (f->key = begin / BLOCK_KEYS * BLOCK_KEYS; f->key < end; f->key += BLOCK_KEYS) {
        f->keys = f->a->Tk - f->key < BLOCK_KEYS ? f->a->Tk - f->key : BLOCK_KEYS;
        if (!spans_of(f->rows, all, f->key, f->keys, f->spans).end) continue;
        forward_block(f);
        for (size_t r = 0; r < all; r += STRIP)
            forward_strip(f, r, forward_height(count, r), qkv_min(count - r, STRIP));
    }
}

/* The sums of the keys [begin, end), one piece after the other. */
static const struct sums *forward_pieces(struct forward *f, size_t begin, size_t end, size_t count) {
    if (begin / QKV_ATTEND_PIECE == (end ? end - 1 : 0) / QKV_ATTEND_PIECE) {
        forward_walk(f, begin, end, count);
        return &f->sums;
    }
    const size_t all = forward_rows(count);
    sums_clear(&f->all, all);
    for (size_t next; begin < end; begin = next) {
        next = (begin / QKV_ATTEND_PIECE + 1) * QKV_ATTEND_PIECE;
        if (next > end) next = end;
        forward_walk(f, begin, next, count);
        sums_merge(&f->all, &f->sums, all);
    }
    return &f->all;
}

void QKV_T(attend_bf16_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const size_t unit = item / plan->pieces, pair = unit / plan->blocks;
    struct forward f;
    f.plan = plan, f.a = a, f.b = pair / a->Hkv, f.n = pair % a->Hkv;
    f.plain = plain_scores(a);
    f.rule = mask_rule(a->key, a->dropout);
    f.values = values_of(plan, f.b, f.n);
    if (plan->words[QKV_PAGE_KEYS]) f.key_pages = qkv_attend_pages(plan, QKV_PAGE_KEYS);
    carve_forward(plan, &f, scratch);
    const size_t count = unit_rows(plan, unit, f.rows);
    forward_start(&f, count);
    struct span keys = rows_span(f.rows, count);
    if (!plan->sums) {
        forward_finish(a, f.rows, count, forward_pieces(&f, keys.begin, keys.end, count));
        return;
    }
    keys = piece_span(keys, item % plan->pieces);
    f.sums = forward_sums(plan, plan->sums + item * plan->sums_floats);
    forward_walk(&f, keys.begin, keys.end, count);
}

void QKV_T(attend_bf16_combine)(const struct qkv_attend_plan *plan, size_t unit) {
    struct row rows[QKV_ATTEND_ROWS];
    const size_t count = unit_rows(plan, unit, rows);
    const struct sums all = unit_sums(plan, unit, count, padded(plan->a->Dv, GRANULE), W);
    forward_finish(plan->a, rows, count, &all);
}
