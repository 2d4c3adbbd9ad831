/* Regular expressions: what ECMA 262 and PCRE2 have in common and a finite automaton can do. */
#include "constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct qkv_grammar *g;
    const struct qkv_regex *regex;
    const char *text;
    size_t size, at, depth;
};
/* What was read: its node, and how many characters it matches. */
struct piece {
    uint32_t node;
    size_t shortest, longest; /* longest SIZE_MAX: no limit */
};
static const struct piece nothing = {QKV_NODE_EMPTY, 0, 0};

static struct piece read_alternatives(struct reader *r);

/* ---- failing ----------------------------------------------------------------------------------------------------- */

static void refuse(struct reader *r, size_t at, const char *why) {
    qkv_grammar_fail(r->g, QKV_FORMAT, "%s, at byte %zu: %s", r->regex->name, at + 1, why);
    r->at = r->size; /* ends all loops */
}

static int peek(const struct reader *r, size_t ahead) {
    return r->at + ahead < r->size ? (unsigned char)r->text[r->at + ahead] : -1;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static size_t add_lengths(size_t a, size_t b) {
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static size_t times_length(size_t a, uint32_t times) {
    size_t product;
    if (!a || !times) return 0;
    if (times == QKV_CONSTRAIN_MANY || !qkv_multiply(a, times, &product)) return SIZE_MAX;
    return product;
}

static struct piece join_pieces(struct reader *r, struct piece a, struct piece b) {
    return (struct piece){qkv_node_cat(r->g, a.node, b.node), add_lengths(a.shortest, b.shortest),
                          add_lengths(a.longest, b.longest)};
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static void add_range(struct reader *r, struct qkv_ranges *set, uint32_t low, uint32_t high) {
    if (!r->g->status) r->g->status = qkv_ranges_add(r->g->ctx, set, low, high);
}

/* The sets of \d, \w and \s, all of ASCII, and of the capital letters: all other characters. */
static bool add_named(struct reader *r, struct qkv_ranges *set, int letter) {
    struct qkv_ranges own = {0};
    switch (letter | 0x20) {
    case 'd':
        add_range(r, &own, '0', '9');
        break;
    case 'w':
        add_range(r, &own, '0', '9'), add_range(r, &own, 'A', 'Z'), add_range(r, &own, 'a', 'z');
        add_range(r, &own, '_', '_');
        break;
    case 's':
        add_range(r, &own, '\t', '\r'), add_range(r, &own, ' ', ' ');
        break;
    default:
        return false;
    }
    qkv_ranges_settle(&own);
    if (!(letter & 0x20) && !r->g->status) r->g->status = qkv_ranges_negate(r->g->ctx, &own);
    for (size_t i = 0; i < own.count; i++) add_range(r, set, own.items[i].low, own.items[i].high);
    free(own.items);
    return true;
}

static uint32_t read_hex(struct reader *r, size_t digits) {
    uint32_t code = 0;
    const size_t begin = r->at;
    const bool braced = peek(r, 0) == '{';
    size_t n = 0;
    r->at += braced;
    for (; (braced ? n < 7 : n < digits) && peek(r, 0) >= 0; n++) {
        const int c = peek(r, 0);
        const int digit = c >= '0' && c <= '9'                     ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : -1;
        if (digit < 0) break;
        code = code * 16 + (uint32_t)digit;
        r->at++;
    }
    const bool whole = braced ? n && n < 7 && peek(r, 0) == '}' : n == digits;
    r->at += braced;
    if (!whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        refuse(r, begin, "there is no character with this number; write \\xHH, \\uHHHH or \\u{H…}");
        return 0;
    }
    return code;
}

/* The character of an escape, after its backslash; the letters of sets are not for it. */
static uint32_t read_escape(struct reader *r, bool in_class) {
    static const char letters[] = "tnrfv", codes[] = "\t\n\r\f\v";
    const int c = peek(r, 0);
    const size_t at = r->at - 1;
    const char *plain = c > 0 ? strchr(letters, c) : NULL;
    r->at++;
    if (plain) return (uint32_t)codes[plain - letters];
    if (c == 'x') return read_hex(r, 2);
    if (c == 'u') return read_hex(r, 4);
    if (c == 'b' && in_class) return '\b';
    if (c < 0)
        refuse(r, at, "a backslash ends it; write \\\\ for the character");
    else if (c >= '1' && c <= '9')
        refuse(r, at, "back-references are not regular, so they cannot be kept to");
    else if (c == 'b' || c == 'B')
        refuse(r, at, "word boundaries (\\b, \\B) look around, which is not supported; leave them out");
    else if (c == 'p' || c == 'P')
        refuse(r, at, "Unicode properties (\\p, \\P) are not supported; write ranges of characters");
    else if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c >= 0x80)
        refuse(r, at, "this escape is not supported; write the character, or \\x{H…}");
    return c < 0 ? 0 : (uint32_t)c;
}

/* One character of the text. */
static uint32_t read_character(struct reader *r) {
    uint32_t code = 0;
    const int n = qkv_utf8_scan(r->text + r->at, r->size - r->at, &code);
    if (n <= 0) {
        refuse(r, r->at, "this byte is not UTF-8");
        return 0;
    }
    r->at += (size_t)n;
    return code;
}

static struct piece one_of(struct reader *r, struct qkv_ranges *set) {
    struct piece piece = {.shortest = 1, .longest = 1};
    qkv_ranges_settle(set);
    piece.node = qkv_node_characters(r->g, set, r->regex->spelling);
    free(set->items);
    return piece;
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* An end of a range; *named: it was a set, which was added. */
static uint32_t class_end(struct reader *r, struct qkv_ranges *set, bool *named) {
    *named = false;
    if (peek(r, 0) == '[' && (peek(r, 1) == ':' || peek(r, 1) == '.' || peek(r, 1) == '=')) {
        refuse(r, r->at, "named classes ([:alpha:]) are not supported; write ranges of characters");
        return 0;
    }
    if (peek(r, 0) != '\\') return read_character(r);
    r->at++;
    if (peek(r, 0) >= 0 && add_named(r, set, peek(r, 0))) {
        *named = true;
        r->at++;
        return 0;
    }
    return read_escape(r, true);
}

static struct piece read_class(struct reader *r) {
    struct qkv_ranges set = {0};
    const size_t begin = r->at - 1;
    const bool negated = peek(r, 0) == '^';
    r->at += negated;
    if (peek(r, 0) == ']') refuse(r, begin, "an empty class; write \\] for the character");
    while (peek(r, 0) >= 0 && peek(r, 0) != ']' && !r->g->status) {
        bool named;
        const size_t at = r->at;
        const uint32_t low = class_end(r, &set, &named);
        if (peek(r, 0) != '-' || peek(r, 1) == ']' || peek(r, 1) < 0) {
            if (!named) add_range(r, &set, low, low);
            continue;
        }
        r->at++;
        bool named_end;
        const uint32_t high = named ? 0 : class_end(r, &set, &named_end);
        if (named || named_end)
            refuse(r, at, "a set is no end of a range; write \\- for the character");
        else if (high < low)
            refuse(r, at, "the range ends before it begins");
        else
            add_range(r, &set, low, high);
    }
    if (peek(r, 0) != ']') refuse(r, begin, "the class has no end; write ] after it, or \\[ for the character");
    r->at++;
    qkv_ranges_settle(&set);
    if (negated && !r->g->status) r->g->status = qkv_ranges_negate(r->g->ctx, &set);
    return one_of(r, &set);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Reads what a group begins with, after its bracket. */
static void read_group_head(struct reader *r) {
    const size_t at = r->at - 1;
    if (peek(r, 0) == '*') refuse(r, at, "verbs (*…) are not supported");
    if (peek(r, 0) != '?') return;
    const int a = peek(r, 1), b = peek(r, 2);
    const size_t name = a == '<' ? 2 : a == 'P' && b == '<' ? 3 : 0;
    if (a == '=' || a == '!' || (a == '<' && (b == '=' || b == '!'))) {
        refuse(r, at, "look-around is not supported; say what the whole text is");
    } else if (a == ':') {
        r->at += 2;
    } else if (name) {
        r->at += name;
        while (peek(r, 0) >= 0 && peek(r, 0) != '>') r->at++;
        r->at++;
    } else {
        refuse(r, at, "this kind of group is not supported; write ( or (?:");
    }
}

static struct piece read_group(struct reader *r) {
    const size_t begin = r->at - 1;
    read_group_head(r);
    if (++r->depth > QKV_CONSTRAIN_DEPTH) refuse(r, begin, "groups are nested too deeply");
    const struct piece piece = read_alternatives(r);
    r->depth--;
    if (!r->g->status && peek(r, 0) != ')')
        refuse(r, begin, "the group has no end; write ) after it, or \\( for the character");
    r->at++;
    return piece;
}

/* ---- repetitions ------------------------------------------------------------------------------------------------- */

static bool read_count(struct reader *r, uint32_t *count) {
    uint64_t n = 0;
    const size_t begin = r->at;
    for (; peek(r, 0) >= '0' && peek(r, 0) <= '9'; r->at++)
        if (n < UINT32_MAX) n = n * 10 + (uint64_t)(peek(r, 0) - '0');
    if (n >= UINT32_MAX) refuse(r, begin, "this number of repetitions is too large");
    *count = (uint32_t)n;
    return r->at > begin;
}

/* Reads *, +, ?, {m}, {m,} and {m,n}; false: there is none. */
static bool read_repetition(struct reader *r, uint32_t *min, uint32_t *max) {
    const int c = peek(r, 0);
    const size_t at = r->at;
    if (c != '*' && c != '+' && c != '?' && c != '{') return false;
    r->at++;
    *min = c == '+';
    *max = c == '?' ? 1 : QKV_CONSTRAIN_MANY;
    if (c == '{') {
        bool whole = read_count(r, min);
        *max = *min;
        if (whole && peek(r, 0) == ',') {
            r->at++;
            if (!read_count(r, max)) *max = QKV_CONSTRAIN_MANY;
        }
        if (!whole || peek(r, 0) != '}')
            refuse(r, at, "this is no count, as {2} or {2,5}; write \\{ for the character");
        r->at++;
        if (*max < *min) refuse(r, at, "the largest count is below the smallest");
    }
    if (peek(r, 0) == '+') refuse(r, at, "possessive repetitions are not supported");
    if (peek(r, 0) == '?') r->at++; /* lazy or not: the same texts */
    return true;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static struct piece read_atom(struct reader *r) {
    struct qkv_ranges set = {0};
    const int c = peek(r, 0);
    uint32_t code;
    switch (c) {
    case '(':
        r->at++;
        return read_group(r);
    case '[':
        r->at++;
        return read_class(r);
    case '.':
        r->at++;
        add_range(r, &set, 0, '\n' - 1), add_range(r, &set, '\n' + 1, 0x10FFFF);
        return one_of(r, &set);
    case '\\':
        r->at++;
        if (peek(r, 0) >= 0 && add_named(r, &set, peek(r, 0))) {
            r->at++;
            return one_of(r, &set);
        }
        code = read_escape(r, false);
        break;
    case '*':
    case '+':
    case '?':
    case '{':
        refuse(r, r->at, "there is nothing to repeat; write a backslash before the character");
        return nothing;
    case '^':
    case '$':
        refuse(r, r->at, "anchors are supported at the beginning and the end of the whole expression only");
        return nothing;
    default:
        code = read_character(r);
    }
    add_range(r, &set, code, code);
    return one_of(r, &set);
}

static bool sequence_ends(const struct reader *r) {
    const int c = peek(r, 0);
    const int after = peek(r, 1);
    return c < 0 || c == '|' || c == ')' || (c == '$' && !r->depth && (after < 0 || after == '|'));
}

/* Any characters before or after what is searched for. */
static struct piece anything(struct reader *r) {
    struct qkv_ranges set = {0};
    add_range(r, &set, 0, 0x10FFFF);
    const struct piece any = one_of(r, &set);
    return (struct piece){qkv_node_repeat(r->g, any.node, 0, QKV_CONSTRAIN_MANY), 0, SIZE_MAX};
}

static struct piece read_sequence(struct reader *r) {
    struct piece whole = nothing;
    struct qkv_node_list list = {0};
    const bool top = !r->depth, begins = top && peek(r, 0) == '^';
    r->at += begins;
    while (!sequence_ends(r) && !r->g->status) {
        struct piece atom = read_atom(r);
        uint32_t min, max;
        if (read_repetition(r, &min, &max)) {
            atom.node = qkv_node_repeat(r->g, atom.node, min, max);
            atom.shortest = times_length(atom.shortest, min);
            atom.longest = times_length(atom.longest, max);
            if (strchr("*+?{", peek(r, 0)) && peek(r, 0) > 0) refuse(r, r->at, "there is nothing to repeat");
        }
        qkv_node_list_add(r->g, &list, atom.node);
        whole.shortest = add_lengths(whole.shortest, atom.shortest);
        whole.longest = add_lengths(whole.longest, atom.longest);
    }
    whole.node = qkv_node_join(r->g, QKV_NODE_CAT, list.items, list.count);
    free(list.items);
    const bool ends = top && peek(r, 0) == '$';
    r->at += ends;
    if (top && r->regex->searches && !begins) whole = join_pieces(r, anything(r), whole);
    if (top && r->regex->searches && !ends) whole = join_pieces(r, whole, anything(r));
    return whole;
}

static struct piece read_alternatives(struct reader *r) {
    struct piece all = read_sequence(r);
    struct qkv_node_list list = {0};
    qkv_node_list_add(r->g, &list, all.node);
    while (peek(r, 0) == '|' && !r->g->status) {
        r->at++;
        const struct piece next = read_sequence(r);
        all.shortest = qkv_min(all.shortest, next.shortest);
        all.longest = qkv_max(all.longest, next.longest);
        qkv_node_list_add(r->g, &list, next.node);
    }
    all.node = qkv_node_join(r->g, QKV_NODE_ALT, list.items, list.count);
    free(list.items);
    return all;
}

uint32_t qkv_regex_read(struct qkv_grammar *g, struct qkv_regex *regex) {
    struct reader r = {.g = g, .regex = regex, .text = regex->text, .size = regex->size};
    const struct piece all = read_alternatives(&r);
    if (!g->status && r.at < r.size) refuse(&r, r.at, "this ) ends no group; write \\) for the character");
    regex->shortest = all.shortest;
    regex->longest = all.longest;
    return g->status ? QKV_NODE_NEVER : all.node;
}
