/* attend_bf16_page.c: keys and values of one kv head on a page, packed for the products: K in panels, channels by keys,
 * then V in panels, keys by channels. Values are stored as they are; a page with values that are not finite has a flag,
 * and the reader clears them. */
#include "kernel/isa/attend_bf16.h"

struct page_block { /* the keys of one head on a page */
    uint32_t *k, *v;
    size_t keys; /* room of the panels, in keys */
};

static struct page_block carve_page(size_t D, size_t Dv, size_t positions, struct carve *c) {
    struct page_block x = {.keys = padded(positions, GRANULE)};
    x.k = carve_take(c, panel_bytes(D, x.keys));
    x.v = carve_take(c, panel_bytes(x.keys, Dv));
    return x;
}

size_t QKV_T(attend_bf16_page_bytes)(size_t D, size_t Dv, size_t positions) {
    struct carve c = {0};
    carve_page(D, Dv, positions, &c);
    return c.used;
}

/* The word that holds terms 2·pair and 2·pair + 1 of a column. */
static size_t word_at(size_t terms, size_t pair, size_t column) {
    const size_t nr = BF16.nr;
    return column / nr * nr * pairs_of(terms) + pair * nr + column % nr;
}

static void put_key(uint32_t *k, size_t D, size_t j, const uint16_t *row) {
    uint32_t *to = k + word_at(D, 0, j);
    for (size_t p = 0; p < pairs_of(D); p++) {
        const uint32_t even = 2 * p < D ? row[2 * p] : 0, odd = 2 * p + 1 < D ? row[2 * p + 1] : 0;
        to[p * BF16.nr] = even | odd << 16;
    }
}

/* Whole words already exist, because the words of a step of terms are written together. */
static void put_value(uint32_t *v, size_t keys, size_t Dv, size_t j, const uint16_t *row) {
    const uint32_t kept = j % 2 ? 0x0000ffffu : 0xffff0000u;
    const unsigned shift = j % 2 ? 16 : 0;
    for (size_t n = 0; n < Dv; n += BF16.nr) {
        uint32_t *to = v + word_at(keys, j / 2, n);
        const size_t count = Dv - n < BF16.nr ? Dv - n : BF16.nr;
        for (size_t c = 0; c < count; c++) to[c] = (to[c] & kept) | (uint32_t)row[n + c] << shift;
    }
}

/* Panels that begin with new keys, and steps that begin with new values, are packed at once. There is nothing after the
 * new ones. */
static void put_rows(const struct qkv_attend_put *put, const struct page_block *x) {
    const size_t ld = put->row_stride, first = put->first, count = put->count;
    size_t j = 0;
    for (; j < count && (first + j) % BF16.nr; j++) put_key(x->k, put->D, first + j, put->k + j * ld);
    if (j < count)
        BF16.pack_b(x->k + (first + j) * pairs_of(put->D), (struct qkv_operand){put->k + j * ld, QKV_BF16, 1, ld},
                    put->D, count - j);
    for (j = 0; j < count && (first + j) % BF16.step; j++)
        put_value(x->v, x->keys, put->Dv, first + j, put->v + j * ld);
    if (j < count)
        BF16.pack_b_at(x->v, pairs_of(x->keys), (first + j) / 2, (struct qkv_operand){put->v + j * ld, QKV_BF16, ld, 1},
                       count - j, put->Dv, BF16.step);
}

void QKV_T(attend_bf16_put)(const struct qkv_attend_put *put) {
    struct carve c = {put->page, 0};
    const struct page_block x = carve_page(put->D, put->Dv, put->positions, &c);
    put_rows(put, &x);
    if (!put->first) *put->spoilt = 0;
    if (!halves_finite((struct halves){put->v, put->row_stride}, put->count, put->Dv)) *put->spoilt = 1;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

size_t QKV_T(attend_bf16_page_scratch)(const struct qkv_attend_plan *plan) {
    const struct qkv_attend *a = plan->a;
    struct carve c = {0};
    carve_take(&c, panel_bytes(BLOCK_KEYS, a->Dv));
    carve_take(&c, BLOCK_KEYS * padded(a->Dv, GRANULE) * sizeof(uint16_t));
    return c.used;
}

/* The values as rows again, and packed without those that are not finite. */
static void page_clean(const struct qkv_attend *a, const struct page_block *x, size_t count, char *scratch,
                       struct page_keys *out) {
    const size_t ld = padded(a->Dv, GRANULE);
    struct carve c = {scratch, 0};
    out->v = carve_take(&c, panel_bytes(BLOCK_KEYS, a->Dv));
    uint16_t *rows = carve_take(&c, BLOCK_KEYS * ld * sizeof *rows);
    memset(out->v, 0, panel_bytes(count, a->Dv));
    for (size_t j = 0; j < count; j++) {
        for (size_t n = 0; n < a->Dv; n++)
            rows[j * ld + n] = (uint16_t)(x->v[word_at(x->keys, j / 2, n)] >> (j % 2 ? 16 : 0));
        if (!halves_finite((struct halves){rows + j * ld, ld}, 1, a->Dv)) continue;
        for (size_t n = 0; n < a->Dv; n++)
            out->v[word_at(count, j / 2, n)] |= (uint32_t)rows[j * ld + n] << (j % 2 ? 16 : 0);
    }
    out->terms = count;
    out->rows = (struct qkv_heads){.data = rows, .row_stride = ld, .dtype = QKV_BF16};
}

struct page_keys QKV_T(attend_bf16_page)(const struct qkv_attend *a, size_t b, size_t n, size_t key, size_t count,
                                         char *scratch) {
    const struct qkv_page_table *pages = &a->pages;
    const size_t page = (size_t)pages->lists[b][key / pages->positions], at = page * a->Hkv + n;
    const uint8_t *spoilt = (const uint8_t *)a->past_k.data + pages->count * a->Hkv * a->page_bytes;
    struct carve c = {(char *)a->past_k.data + at * a->page_bytes, 0};
    const struct page_block x = carve_page(a->D, a->Dv, pages->positions, &c);
    struct page_keys out = {.k = x.k, .v = x.v, .terms = x.keys, .clean = !spoilt[at]};
    if (!out.clean) page_clean(a, &x, count, scratch, &out);
    return out;
}
