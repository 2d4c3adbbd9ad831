/* Values of JSON (RFC 8259) without a schema, and constants. */
#include "constrain/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"

/* What is made once for a grammar. */
enum { SPACE, CHARACTER, STRING, VALUE, OBJECT, LIST, NUMBER, INTEGER };

/* The node or rule that was made, if any. */
static bool had(const struct qkv_grammar *g, int which, uint32_t *node) {
    *node = g->shared[which] - 1;
    return g->shared[which] > 0;
}

static uint32_t share(struct qkv_grammar *g, int which, uint32_t node) {
    g->shared[which] = node + 1;
    return node;
}

static uint32_t text_node(struct qkv_grammar *g, const char *text) {
    return qkv_node_bytes(g, text, strlen(text));
}

static uint32_t cat3(struct qkv_grammar *g, uint32_t a, uint32_t b, uint32_t c) {
    return qkv_node_cat(g, a, qkv_node_cat(g, b, c));
}

static uint32_t any_of(struct qkv_grammar *g, const char *bytes) {
    struct qkv_byte_set set = {{0}};
    for (const unsigned char *at = (const unsigned char *)bytes; *at; at++)
        set.bits[*at / 64] |= UINT64_C(1) << *at % 64;
    return qkv_node_set(g, &set);
}

uint32_t qkv_json_space(struct qkv_grammar *g) {
    uint32_t node;
    if (had(g, SPACE, &node)) return node;
    const uint32_t blank = qkv_node_byte(g, ' ');
    const uint32_t line = qkv_node_cat(g, qkv_node_byte(g, '\n'), qkv_node_repeat(g, blank, 0, QKV_JSON_INDENT));
    return share(g, SPACE, qkv_node_option(g, qkv_node_alt(g, blank, line)));
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

#define HEX "0123456789abcdefABCDEF"

/* \uHHHH of a character: neither half of a pair alone, nor U+0000, which many readers refuse. */
static uint32_t escape_number(struct qkv_grammar *g) {
    const uint32_t u = text_node(g, "\\u"), hex = any_of(g, HEX), zero = qkv_node_byte(g, '0');
    const uint32_t more = any_of(g, "123456789abcdefABCDEF"), d = any_of(g, "dD");
    const uint32_t hex2 = qkv_node_cat(g, hex, hex), hex3 = qkv_node_cat(g, hex, hex2);
    uint32_t number = qkv_node_cat(g, any_of(g, "123456789abcefABCEF"), hex3);
    number = qkv_node_alt(g, number, cat3(g, d, any_of(g, "01234567"), hex2));
    number = qkv_node_alt(g, number, cat3(g, zero, more, hex2));
    number = qkv_node_alt(g, number, cat3(g, text_node(g, "00"), more, hex));
    number = qkv_node_alt(g, number, cat3(g, text_node(g, "000"), more, QKV_NODE_EMPTY));
    const uint32_t first = cat3(g, d, any_of(g, "89abAB"), hex2), second = cat3(g, d, any_of(g, "cdefCDEF"), hex2);
    const uint32_t pair = cat3(g, first, u, second);
    return qkv_node_cat(g, u, qkv_node_alt(g, number, pair));
}

/* A character that is written as it is. */
static uint32_t plain_character(struct qkv_grammar *g, struct qkv_ranges *left_out) {
    struct qkv_ranges set = {0};
    for (size_t i = 0; i < left_out->count && !g->status; i++)
        g->status = qkv_ranges_add(g->ctx, &set, left_out->items[i].low, left_out->items[i].high);
    if (!g->status) g->status = qkv_ranges_add(g->ctx, &set, 0, 0x1F);
    if (!g->status) g->status = qkv_ranges_add(g->ctx, &set, '"', '"');
    if (!g->status) g->status = qkv_ranges_add(g->ctx, &set, '\\', '\\');
    qkv_ranges_settle(&set);
    if (!g->status) g->status = qkv_ranges_negate(g->ctx, &set);
    const uint32_t node = qkv_node_characters(g, &set, QKV_SPELL_TEXT);
    free(set.items);
    return node;
}

uint32_t qkv_json_character(struct qkv_grammar *g) {
    uint32_t node;
    if (had(g, CHARACTER, &node)) return node;
    const uint32_t simple = qkv_node_cat(g, qkv_node_byte(g, '\\'), any_of(g, "\"\\/bfnrt"));
    const uint32_t escaped = qkv_node_alt(g, simple, escape_number(g));
    return share(g, CHARACTER, qkv_node_alt(g, plain_character(g, &(struct qkv_ranges){0}), escaped));
}

static uint32_t quoted(struct qkv_grammar *g, uint32_t content) {
    return cat3(g, qkv_node_byte(g, '"'), content, qkv_node_byte(g, '"'));
}

uint32_t qkv_json_any_string(struct qkv_grammar *g) {
    uint32_t rule;
    if (!had(g, STRING, &rule)) {
        rule = share(g, STRING, qkv_grammar_rule(g, "a string"));
        const uint32_t body = quoted(g, qkv_node_repeat(g, qkv_json_character(g), 0, QKV_CONSTRAIN_MANY));
        if (!g->status) g->rules[rule].node = body;
    }
    return qkv_node_rule(g, rule);
}

/* ---- other strings ----------------------------------------------------------------------------------------------- */

enum { NAME_MAX_BYTES = 512 };
struct names {
    const char *const *items;
    size_t count;
};

static int names_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What may follow `size` bytes that all of the sorted names share, up to the end of the string. Characters that no name
 * has there begin any rest. */
static uint32_t other_rest(struct qkv_grammar *g, struct names names, size_t size, uint32_t any) {
    struct qkv_ranges taken = {0};
    struct qkv_node_list list = {0};
    for (size_t i = 0, next; i < names.count && !g->status; i = next) {
        const char *at = names.items[i] + size;
        uint32_t code;
        next = i + 1;
        if (!*at) continue;
        const int n = qkv_utf8_scan(at, strlen(at), &code);
        if (n <= 0) continue;
        while (next < names.count && !strncmp(names.items[next] + size, at, (size_t)n)) next++;
        g->status = qkv_ranges_add(g->ctx, &taken, code, code);
        if (code < 0x20 || code == '"' || code == '\\') continue; /* it is written as an escape, which is not used */
        const uint32_t rest = other_rest(g, (struct names){names.items + i, next - i}, size + (size_t)n, any);
        qkv_node_list_add(g, &list, qkv_node_cat(g, qkv_node_bytes(g, at, (size_t)n), rest));
    }
    qkv_ranges_settle(&taken);
    qkv_node_list_add(g, &list, qkv_node_cat(g, plain_character(g, &taken), any));
    if (names.items[0][size]) qkv_node_list_add(g, &list, QKV_NODE_EMPTY);
    const uint32_t node = qkv_node_join(g, QKV_NODE_ALT, list.items, list.count);
    free(taken.items);
    free(list.items);
    return node;
}

uint32_t qkv_json_other_string(struct qkv_grammar *g, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) > NAME_MAX_BYTES)
            return qkv_grammar_fail(g, QKV_FORMAT, "the name \"%.40s…\" is too long for an object with additional ones",
                                    names[i]);
    const uint32_t plain = plain_character(g, &(struct qkv_ranges){0});
    const uint32_t rest = qkv_grammar_rule(g, "a name"), rest_body = qkv_node_repeat(g, plain, 0, QKV_CONSTRAIN_MANY);
    if (g->status) return QKV_NODE_NEVER;
    g->rules[rest].node = rest_body;
    const uint32_t any = qkv_node_rule(g, rest);
    const char **sorted = qkv_allocate(g->ctx, count + 1, sizeof *sorted);
    uint32_t node = any;
    if (!sorted) g->status = QKV_MEMORY;
    for (size_t i = 0; i < count && sorted; i++) sorted[i] = names[i];
    if (sorted) qsort(sorted, count, sizeof *sorted, names_order);
    if (count && !g->status) node = other_rest(g, (struct names){sorted, count}, 0, any);
    free(sorted);
    return quoted(g, node);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

uint32_t qkv_json_any_integer(struct qkv_grammar *g) {
    uint32_t node;
    if (had(g, INTEGER, &node)) return node;
    const uint32_t digit = qkv_node_range(g, '0', '9');
    const uint32_t large =
        qkv_node_cat(g, qkv_node_range(g, '1', '9'), qkv_node_repeat(g, digit, 0, QKV_JSON_DIGITS - 1));
    const uint32_t whole = qkv_node_alt(g, qkv_node_byte(g, '0'), large);
    return share(g, INTEGER, qkv_node_cat(g, qkv_node_option(g, qkv_node_byte(g, '-')), whole));
}

uint32_t qkv_json_any_number(struct qkv_grammar *g) {
    uint32_t node;
    if (had(g, NUMBER, &node)) return node;
    const uint32_t digit = qkv_node_range(g, '0', '9');
    const uint32_t fraction = qkv_node_cat(g, qkv_node_byte(g, '.'), qkv_node_repeat(g, digit, 1, QKV_JSON_FRACTION));
    const uint32_t exponent =
        cat3(g, any_of(g, "eE"), qkv_node_option(g, any_of(g, "+-")), qkv_node_repeat(g, digit, 1, 2));
    return share(g, NUMBER,
                 cat3(g, qkv_json_any_integer(g), qkv_node_option(g, fraction), qkv_node_option(g, exponent)));
}

/* ---- objects and lists ------------------------------------------------------------------------------------------- */

/* begin (item (, item)*)? end, with white space after all but the end and commas. */
static uint32_t any_items(struct qkv_grammar *g, const char *begin, uint32_t item, const char *end) {
    const uint32_t space = qkv_json_space(g);
    const uint32_t more = cat3(g, qkv_node_byte(g, ','), space, item);
    const uint32_t items = cat3(g, item, qkv_node_repeat(g, more, 0, QKV_CONSTRAIN_MANY), space);
    return qkv_node_cat(g, text_node(g, begin), cat3(g, space, qkv_node_option(g, items), text_node(g, end)));
}

/* Makes the three rules, which call each other. */
static void any_rules(struct qkv_grammar *g) {
    if (g->shared[VALUE]) return;
    const uint32_t value = share(g, VALUE, qkv_grammar_rule(g, "any value"));
    const uint32_t object = share(g, OBJECT, qkv_grammar_rule(g, "an object"));
    const uint32_t list = share(g, LIST, qkv_grammar_rule(g, "a list"));
    if (g->status) return;
    const uint32_t any = qkv_node_rule(g, value);
    const uint32_t colon = qkv_node_cat(g, qkv_node_byte(g, ':'), qkv_json_space(g));
    const uint32_t member = cat3(g, qkv_json_any_string(g), colon, any);
    const uint32_t object_body = any_items(g, "{", member, "}"), list_body = any_items(g, "[", any, "]");
    const uint32_t kinds[] = {qkv_node_rule(g, object), qkv_node_rule(g, list), qkv_json_any_string(g),
                              qkv_json_any_number(g),   text_node(g, "true"),   text_node(g, "false"),
                              text_node(g, "null")};
    const uint32_t body = qkv_node_join(g, QKV_NODE_ALT, kinds, sizeof kinds / sizeof *kinds);
    if (g->status) return;
    g->rules[value].node = body;
    g->rules[object] = (struct qkv_rule){.node = object_body, .nests = true, .place = g->rules[object].place};
    g->rules[list] = (struct qkv_rule){.node = list_body, .nests = true, .place = g->rules[list].place};
}

static uint32_t any_rule(struct qkv_grammar *g, int which) {
    uint32_t rule;
    any_rules(g);
    return had(g, which, &rule) ? qkv_node_rule(g, rule) : QKV_NODE_NEVER;
}

uint32_t qkv_json_any(struct qkv_grammar *g) {
    return any_rule(g, VALUE);
}

uint32_t qkv_json_any_object(struct qkv_grammar *g) {
    return any_rule(g, OBJECT);
}

uint32_t qkv_json_any_list(struct qkv_grammar *g) {
    return any_rule(g, LIST);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static void constant_write(struct qkv_json *out, const json_t *value) {
    const char *key;
    json_t *item;
    size_t i;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        qkv_json_begin(out, '{');
        json_object_foreach((json_t *)(uintptr_t)value, key, item) {
            qkv_json_key(out, key);
            constant_write(out, item);
        }
        qkv_json_end(out, '}');
        return;
    case JSON_ARRAY:
        qkv_json_begin(out, '[');
        json_array_foreach(value, i, item) constant_write(out, item);
        qkv_json_end(out, ']');
        return;
    case JSON_STRING:
        qkv_json_string(out, json_string_value(value), json_string_length(value));
        return;
    case JSON_INTEGER:
        qkv_json_integer(out, json_integer_value(value));
        return;
    case JSON_REAL:
        qkv_json_real(out, json_real_value(value));
        return;
    default:
        qkv_json_raw(out, json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
    }
}

char *qkv_json_constant_text(struct qkv_grammar *g, const json_t *value, size_t *size) {
    struct qkv_json out = {.ctx = g->ctx, .style = QKV_JSON_SPACED};
    constant_write(&out, value);
    if (out.status && !g->status) g->status = out.status;
    if (!out.status) *size = out.text.size;
    if (!out.status) return out.text.data;
    qkv_json_free(&out);
    return NULL;
}

uint32_t qkv_json_constant(struct qkv_grammar *g, const json_t *value) {
    size_t size = 0;
    char *text = qkv_json_constant_text(g, value, &size);
    const uint32_t node = text ? qkv_node_bytes(g, text, size) : QKV_NODE_NEVER;
    free(text);
    return node;
}
