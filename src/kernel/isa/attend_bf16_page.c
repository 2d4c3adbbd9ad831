/* attend_bf16_page.c: keys, or values, of one kv head on a page, packed for the products: keys in panels, channels by
 * positions; values in panels, positions by channels. Numbers are stored as they are. Values that are not finite are
 * marked on their page, and the products then read the page another way. */
#include "kernel/isa/attend_bf16.h"

/* Room of the panels, in positions. */
static size_t page_room(size_t positions) {
    return padded(positions, GRANULE);
}

size_t QKV_T(attend_bf16_page_bytes)(enum qkv_page_side side, size_t columns, size_t positions) {
    const size_t room = page_room(positions);
    struct carve c = {0};
    carve_take(&c, side == QKV_PAGE_KEYS ? panel_bytes(columns, room) : panel_bytes(room, columns));
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
static void put_value(uint32_t *v, size_t room, size_t Dv, size_t j, const uint16_t *row) {
    const uint32_t kept = j % 2 ? 0x0000ffffu : 0xffff0000u;
    const unsigned shift = j % 2 ? 16 : 0;
    for (size_t n = 0; n < Dv; n += BF16.nr) {
        uint32_t *to = v + word_at(room, j / 2, n);
        const size_t count = Dv - n < BF16.nr ? Dv - n : BF16.nr;
        for (size_t c = 0; c < count; c++) to[c] = (to[c] & kept) | (uint32_t)row[n + c] << shift;
    }
}

/* Panels that begin with new keys are packed at once. There is nothing after the new ones. */
static void put_keys(const struct qkv_attend_bf16_page *page, size_t first, size_t count, struct halves x) {
    uint32_t *k = page->words;
    size_t j = 0;
    for (; j < count && (first + j) % BF16.nr; j++) put_key(k, page->columns, first + j, x.rows + j * x.ld);
    if (j < count)
        BF16.pack_b(k + (first + j) * pairs_of(page->columns),
                    (struct qkv_operand){x.rows + j * x.ld, QKV_BF16, 1, x.ld}, page->columns, count - j);
}

/* The same for steps that begin with new values. */
static void put_values(const struct qkv_attend_bf16_page *page, size_t first, size_t count, struct halves x) {
    const size_t room = page_room(page->positions);
    uint32_t *v = page->words;
    size_t j = 0;
    for (; j < count && (first + j) % BF16.step; j++) put_value(v, room, page->columns, first + j, x.rows + j * x.ld);
    if (j < count)
        BF16.pack_b_at(v, pairs_of(room), (first + j) / 2, (struct qkv_operand){x.rows + j * x.ld, QKV_BF16, x.ld, 1},
                       count - j, page->columns, BF16.step);
    if (!first) *page->spoilt = 0;
    if (!halves_finite(x, count, page->columns)) *page->spoilt = 1;
}

void QKV_T(attend_bf16_page_put)(const struct qkv_attend_bf16_page *page, size_t first, size_t count,
                                 const uint16_t *rows, size_t stride) {
    const struct halves x = {rows, stride};
    if (page->side == QKV_PAGE_KEYS)
        put_keys(page, first, count, x);
    else
        put_values(page, first, count, x);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static uint32_t page_number(const struct qkv_attend_bf16_page *page, size_t j, size_t c) {
    const uint32_t *words = page->words;
    if (page->side == QKV_PAGE_KEYS) return words[word_at(page->columns, c / 2, j)] >> (c % 2 ? 16 : 0) & 0xffff;
    return words[word_at(page_room(page->positions), j / 2, c)] >> (j % 2 ? 16 : 0) & 0xffff;
}

void QKV_T(attend_bf16_page_read)(const struct qkv_attend_bf16_page *page, size_t first, size_t count, size_t columns,
                                  float *out) {
    for (size_t j = 0; j < count; j++)
        for (size_t c = 0; c < columns; c++) {
            const uint32_t bits = page_number(page, first + j, c) << 16;
            memcpy(out + j * columns + c, &bits, sizeof bits);
        }
}

struct qkv_page_words QKV_T(attend_bf16_page_words)(const struct qkv_attend_bf16_page *page) {
    return (struct qkv_page_words){.words = page->words,
                                   .terms = page_room(page->positions),
                                   .finite = page->side == QKV_PAGE_KEYS || !*page->spoilt};
}
