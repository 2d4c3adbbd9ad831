/* Sets of characters, and one character of a set as bytes. */
#include "constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_MAX = 0x10FFFF };

/* ---- sets -------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_ranges_add(struct qkv_context *ctx, struct qkv_ranges *r, uint32_t low, uint32_t high) {
    struct qkv_range *items = qkv_list_room(ctx, r->items, &r->capacity, r->count, 1, sizeof *items);
    if (!items) return QKV_MEMORY;
    r->items = items;
    items[r->count++] = (struct qkv_range){low, high};
    return QKV_OK;
}

static int ranges_order(const void *a, const void *b) {
    const struct qkv_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

void qkv_ranges_settle(struct qkv_ranges *r) {
    size_t n = 0;
    if (!r->count) return;
    qsort(r->items, r->count, sizeof *r->items, ranges_order);
    for (size_t i = 1; i < r->count; i++)
        if (r->items[i].low <= r->items[n].high + 1)
            r->items[n].high = r->items[i].high > r->items[n].high ? r->items[i].high : r->items[n].high;
        else
            r->items[++n] = r->items[i];
    r->count = n + 1;
}

enum qkv_status qkv_ranges_negate(struct qkv_context *ctx, struct qkv_ranges *r) {
    uint32_t from = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct qkv_range had = r->items[i];
        r->items[i] = (struct qkv_range){from, had.low - 1}; /* none where low is `from` */
        from = had.high + 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct qkv_range gap = r->items[i];
        if (gap.high + 1 > gap.low) r->items[n++] = gap;
    }
    r->count = n;
    return from > CODE_MAX ? QKV_OK : qkv_ranges_add(ctx, r, from, CODE_MAX);
}

/* ---- UTF-8 (RFC 3629): a range of characters with the same number of bytes is a few sequences of ranges of bytes ----
 */

static uint32_t tails(struct qkv_grammar *g, int count) {
    uint32_t node = QKV_NODE_EMPTY;
    while (count--) node = qkv_node_cat(g, qkv_node_range(g, 0x80, 0xBF), node);
    return node;
}

/* Sequences of n bytes from low to high, whose bytes after the first one are 0x80 to 0xBF. */
static uint32_t sequences(struct qkv_grammar *g, const unsigned char *low, const unsigned char *high, int n) {
    static const unsigned char first[4] = {0x80, 0x80, 0x80, 0x80}, last[4] = {0xBF, 0xBF, 0xBF, 0xBF};
    unsigned from = low[0], to = high[0];
    uint32_t node = QKV_NODE_NEVER;
    if (n == 1) return qkv_node_range(g, from, to);
    if (from == to) return qkv_node_cat(g, qkv_node_range(g, from, to), sequences(g, low + 1, high + 1, n - 1));
    if (memcmp(low + 1, first, (size_t)n - 1)) {
        node = qkv_node_cat(g, qkv_node_range(g, from, from), sequences(g, low + 1, last, n - 1));
        from++;
    }
    if (memcmp(high + 1, last, (size_t)n - 1)) {
        node = qkv_node_alt(g, node, qkv_node_cat(g, qkv_node_range(g, to, to), sequences(g, first, high + 1, n - 1)));
        to--;
    }
    if (from > to) return node;
    return qkv_node_alt(g, node, qkv_node_cat(g, qkv_node_range(g, from, to), tails(g, n - 1)));
}

/* Characters that are written as they are. */
static uint32_t characters_plain(struct qkv_grammar *g, const struct qkv_ranges *r) {
    static const struct {
        uint32_t low, high;
    } lengths[] = {{0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, CODE_MAX}};
    struct qkv_byte_set ascii = {{0}};
    struct qkv_node_list list = {0};
    for (size_t i = 0; i < r->count; i++) {
        const struct qkv_range x = r->items[i];
        for (uint32_t c = x.low; c < 0x80 && c <= x.high; c++) ascii.bits[c / 64] |= UINT64_C(1) << c % 64;
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            const uint32_t from = x.low > lengths[k].low ? x.low : lengths[k].low;
            const uint32_t to = x.high < lengths[k].high ? x.high : lengths[k].high;
            char low[4], high[4];
            if (from > to) continue;
            const size_t n = qkv_utf8_write(from, low);
            qkv_utf8_write(to, high);
            qkv_node_list_add(g, &list, sequences(g, (unsigned char *)low, (unsigned char *)high, (int)n));
        }
    }
    qkv_node_list_add(g, &list, qkv_node_set(g, &ascii));
    const uint32_t node = qkv_node_join(g, QKV_NODE_ALT, list.items, list.count);
    free(list.items);
    return node;
}

/* ---- JSON strings ------------------------------------------------------------------------------------------------ */

/* How a character is escaped that cannot be written as it is; false: it can. */
static bool characters_escape(uint32_t code, char text[8]) {
    static const char short_codes[] = "\"\\\b\f\n\r\t", short_letters[] = "\"\\bfnrt";
    const char *at = code ? strchr(short_codes, (int)code) : NULL;
    if (code >= 0x80) return false;
    if (at)
        snprintf(text, 8, "\\%c", short_letters[at - short_codes]);
    else
        snprintf(text, 8, "\\u%04x", code & 0x7F);
    return code < 0x20 || at;
}

static uint32_t characters_json(struct qkv_grammar *g, const struct qkv_ranges *r) {
    struct qkv_ranges plain = {0};
    uint32_t node = QKV_NODE_NEVER;
    char text[8];
    for (size_t i = 0; i < r->count && !g->status; i++) {
        uint32_t from = r->items[i].low;
        for (uint32_t c = from; c < 0x80 && c <= r->items[i].high && !g->status; c++) {
            if (!characters_escape(c, text)) continue;
            if (c) node = qkv_node_alt(g, node, qkv_node_bytes(g, text, strlen(text))); /* U+0000 is never written */
            if (c > from) g->status = qkv_ranges_add(g->ctx, &plain, from, c - 1);
            from = c + 1;
        }
        if (from <= r->items[i].high && !g->status) g->status = qkv_ranges_add(g->ctx, &plain, from, r->items[i].high);
    }
    node = qkv_node_alt(g, node, characters_plain(g, &plain));
    free(plain.items);
    return node;
}

uint32_t qkv_node_characters(struct qkv_grammar *g, const struct qkv_ranges *r, enum qkv_spelling spelling) {
    return spelling == QKV_SPELL_JSON ? characters_json(g, r) : characters_plain(g, r);
}
