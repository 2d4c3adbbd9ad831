/* Numbers in a range, as the digits that they may have. */
#include "constrain/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 40, DOUBLE_DIGITS = 15 };

static uint32_t digits(struct qkv_grammar *g, uint32_t min, uint32_t max) {
    return qkv_node_repeat(g, qkv_node_range(g, '0', '9'), min, max);
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

static bool are_all(const char *text, size_t n, char c) {
    for (size_t i = 0; i < n; i++)
        if (text[i] != c) return false;
    return true;
}

/* Numbers of n digits from low to high. */
static uint32_t same_length(struct qkv_grammar *g, const char *low, const char *high, size_t n) {
    static const char zeros[] = "00000000000000000000", nines[] = "99999999999999999999";
    char from = low[0], to = high[0];
    uint32_t node = QKV_NODE_NEVER;
    if (!n) return QKV_NODE_EMPTY;
    if (are_all(low, n, '0') && are_all(high, n, '9')) return digits(g, (uint32_t)n, (uint32_t)n);
    if (from == to) return qkv_node_cat(g, qkv_node_byte(g, from), same_length(g, low + 1, high + 1, n - 1));
    if (!are_all(low + 1, n - 1, '0')) {
        node = qkv_node_cat(g, qkv_node_byte(g, from), same_length(g, low + 1, nines, n - 1));
        from++;
    }
    if (!are_all(high + 1, n - 1, '9')) {
        node = qkv_node_alt(g, node, qkv_node_cat(g, qkv_node_byte(g, to), same_length(g, zeros, high + 1, n - 1)));
        to--;
    }
    if (from > to) return node;
    const uint32_t middle = qkv_node_range(g, (unsigned char)from, (unsigned char)to);
    return qkv_node_alt(g, node, qkv_node_cat(g, middle, digits(g, (uint32_t)n - 1, (uint32_t)n - 1)));
}

static size_t digit_count(uint64_t x) {
    size_t n = 1;
    while (x >= 10) x /= 10, n++;
    return n;
}

/* Numbers from low to high without a sign. */
static uint32_t naturals(struct qkv_grammar *g, uint64_t low, uint64_t high) {
    uint32_t node = QKV_NODE_NEVER;
    if (low > high) return node;
    for (size_t n = digit_count(low); n <= digit_count(high); n++) {
        char from[24], to[24];
        uint64_t first = n > 1, last = 9;
        for (size_t i = 1; i < n; i++) first *= 10, last = last * 10 + 9;
        if (n == 20) last = UINT64_MAX;
        snprintf(from, sizeof from, "%llu", (unsigned long long)(first > low ? first : low));
        snprintf(to, sizeof to, "%llu", (unsigned long long)(last < high ? last : high));
        node = qkv_node_alt(g, node, same_length(g, from, to, n));
    }
    return node;
}

static uint64_t magnitude(int64_t x) {
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

uint32_t qkv_json_integers(struct qkv_grammar *g, const int64_t *low, const int64_t *high) {
    const uint64_t usual = UINT64_C(999999999999999999); /* QKV_JSON_DIGITS of them */
    uint32_t node = QKV_NODE_NEVER;
    if (!low && !high) return qkv_json_any_integer(g);
    if (low && high && *low > *high) return node;
    if (!high || *high >= 0) {
        const uint64_t from = low && *low > 0 ? (uint64_t)*low : 0, to = high ? (uint64_t)*high : usual;
        node = naturals(g, from, high ? to : from > to ? (uint64_t)INT64_MAX : to);
    }
    if (!low || *low < 0) {
        const uint64_t from = high && *high < 0 ? magnitude(*high) : 1, to = low ? magnitude(*low) : usual;
        const uint32_t negative = naturals(g, from, low ? to : from > to ? (uint64_t)INT64_MAX : to);
        node = qkv_node_alt(g, node, qkv_node_cat(g, qkv_node_byte(g, '-'), negative));
    }
    return node;
}

/* ---- fractions --------------------------------------------------------------------------------------------------- */

/* Bounds of the digits after a point: texts without zeros at their ends; NULL: none. */
struct fraction {
    const char *low, *high;
    bool low_open, high_open;
};

/* Whether no further digit may be written. */
static bool fraction_ends(const struct fraction *f) {
    return (!f->low || (!*f->low && !f->low_open)) && (!f->high || *f->high || !f->high_open);
}

static uint32_t fraction(struct qkv_grammar *g, struct fraction f, uint32_t left);

/* One digit to `left` digits within bounds. */
static uint32_t fraction_some(struct qkv_grammar *g, struct fraction f, uint32_t left) {
    uint32_t node = QKV_NODE_NEVER;
    if (f.low && !*f.low && !f.low_open) f.low = NULL;
    if (!left) return node;
    if (!f.low && !f.high) return digits(g, 1, left);
    if (f.high && !*f.high) return f.low || f.high_open ? node : qkv_node_repeat(g, qkv_node_byte(g, '0'), 1, left);
    const char low = f.low && *f.low ? *f.low : '0', high = f.high ? *f.high : '9';
    for (char d = low; d <= high; d++) {
        struct fraction rest = {0};
        char last = d;
        if (d == low && f.low) rest.low = f.low + (*f.low != 0), rest.low_open = f.low_open;
        if (d == high && f.high) rest.high = f.high + 1, rest.high_open = f.high_open;
        if (!rest.low && !rest.high)
            while (last + 1 < high || (last + 1 == high && !f.high)) last++;
        const uint32_t one = qkv_node_range(g, (unsigned char)d, (unsigned char)last);
        node = qkv_node_alt(g, node, qkv_node_cat(g, one, fraction(g, rest, left - 1)));
        d = last;
    }
    return node;
}

/* At most `left` digits within bounds. */
static uint32_t fraction(struct qkv_grammar *g, struct fraction f, uint32_t left) {
    const uint32_t some = fraction_some(g, f, left);
    return fraction_ends(&f) ? qkv_node_option(g, some) : some;
}

/* Nothing, or a point and digits. */
static uint32_t pointed(struct qkv_grammar *g, struct fraction f, uint32_t left) {
    const uint32_t some = qkv_node_cat(g, qkv_node_byte(g, '.'), fraction_some(g, f, left));
    return fraction_ends(&f) ? qkv_node_option(g, some) : some;
}

/* ---- reals ------------------------------------------------------------------------------------------------------- */

struct decimal {
    uint64_t whole;
    char fraction[DIGITS_MAX + 1]; /* without zeros at its end */
};

/* The digits of a number ≥ 0, as few as tell it apart. False: it has too many. */
static bool decimal_of(double x, struct decimal *d) {
    char shown[QKV_REAL_TEXT], all[DIGITS_MAX + 1] = "", *e;
    size_t count = 0;
    qkv_real_text(shown, x);
    long point = -1, exponent = 0;
    for (e = shown; *e && *e != 'e' && *e != 'E'; e++) {
        if (*e == '.')
            point = (long)count;
        else if (count < DIGITS_MAX)
            all[count++] = *e;
    }
    if (*e) exponent = strtol(e + 1, NULL, 10);
    if (point < 0) point = (long)count;
    point += exponent;
    *d = (struct decimal){0};
    size_t size = 0;
    for (long i = 0; i < point; i++) {
        if (d->whole >= UINT64_C(100000000000000)) return false;
        d->whole = d->whole * 10 + (uint64_t)((size_t)i < count ? all[i] - '0' : 0);
    }
    for (long i = point; i < (long)count; i++) {
        if (size == DIGITS_MAX) return false;
        d->fraction[size++] = i < 0 ? '0' : all[i];
    }
    while (size && d->fraction[size - 1] == '0') d->fraction[--size] = 0;
    return true;
}

/* Numbers without a sign between two bounds; high NULL: none. */
static uint32_t magnitudes(struct qkv_grammar *g, const struct decimal *low, bool low_open, const struct decimal *high,
                           bool high_open) {
    const size_t wholes = digit_count(high ? high->whole : low->whole);
    size_t left = wholes < DOUBLE_DIGITS ? DOUBLE_DIGITS - wholes : 1;
    left = qkv_max(left, strlen(low->fraction));
    if (high) left = qkv_max(left, strlen(high->fraction));
    const struct fraction from = {.low = low->fraction, .low_open = low_open};
    const struct fraction to = {.high = high ? high->fraction : NULL, .high_open = high_open};
    if (high && low->whole > high->whole) return QKV_NODE_NEVER;
    if (high && low->whole == high->whole) {
        struct fraction both = from;
        const int order = strcmp(low->fraction, high->fraction);
        if (order > 0 || (!order && (low_open || high_open))) return QKV_NODE_NEVER;
        both.high = to.high, both.high_open = to.high_open;
        return qkv_node_cat(g, naturals(g, low->whole, low->whole), pointed(g, both, (uint32_t)left));
    }
    uint32_t node = qkv_node_cat(g, naturals(g, low->whole, low->whole), pointed(g, from, (uint32_t)left));
    const uint64_t last = high ? high->whole - 1 : UINT64_C(999999999999999);
    const uint32_t any = pointed(g, (struct fraction){0}, (uint32_t)left);
    node = qkv_node_alt(g, node, qkv_node_cat(g, naturals(g, low->whole + 1, last), any));
    if (!high) return node;
    return qkv_node_alt(g, node,
                        qkv_node_cat(g, naturals(g, high->whole, high->whole), pointed(g, to, (uint32_t)left)));
}

uint32_t qkv_json_reals(struct qkv_grammar *g, struct qkv_bound low, struct qkv_bound high) {
    struct decimal from = {0}, to = {0}, zero = {0};
    uint32_t node = QKV_NODE_NEVER;
    if (!low.given && !high.given) return qkv_json_any_number(g);
    if ((low.given && !decimal_of(fabs(low.value), &from)) || (high.given && !decimal_of(fabs(high.value), &to)))
        return qkv_grammar_fail(g, QKV_FORMAT,
                                "bounds of numbers that are larger than 1e15 or have more than %d digits after the "
                                "point are not supported",
                                DIGITS_MAX);
    if (!high.given || high.value >= 0) {
        const bool above = low.given && low.value >= 0;
        node = magnitudes(g, above ? &from : &zero, above && low.open, high.given ? &to : NULL, high.open);
    }
    if (!low.given || low.value < 0) {
        const bool below = high.given && high.value < 0;
        const uint32_t negative =
            magnitudes(g, below ? &to : &zero, below ? high.open : true, low.given ? &from : NULL, low.open);
        node = qkv_node_alt(g, node, qkv_node_cat(g, qkv_node_byte(g, '-'), negative));
    }
    return node;
}
