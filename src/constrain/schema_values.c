/* Strings, numbers, lists and constants of schemas. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "constrain/schema.h"

uint32_t qkv_schema_count(const json_t *schema, const char *keyword, uint32_t usual) {
    const json_t *value = json_object_get(schema, keyword);
    return value ? (uint32_t)json_number_value(value) : usual;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define DATE                                                                                                           \
    "[12]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|" \
    "2[0-8]))"
#define CLOCK "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define BYTE  "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define ATOM  "[A-Za-z0-9_%+-]{1,20}"
/* Formats, as expressions that match only texts of the format, and not all of them. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", CLOCK},
    {"date-time", DATE "T" CLOCK},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"email", ATOM "(?:\\." ATOM "){0,2}@" LABEL "(?:\\." LABEL "){1,3}"},
    {"hostname", LABEL "(?:\\." LABEL "){0,3}"},
    {"ipv4", BYTE "(?:\\." BYTE "){3}"},
    {"uri",
     "https?://" LABEL "(?:\\." LABEL "){0,3}(?::[1-9]\\d{0,3})?(?:/[A-Za-z0-9._~%-]*)*(?:\\?[A-Za-z0-9._~=&-]*)?"},
};

static const char *format_pattern(struct qkv_schema_reader *r, const char *name, const char *place) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name)) return formats[i].pattern;
    qkv_schema_refuse(
        r, place, "format \"%.40s\" is not supported; date, time, date-time, uuid, email, hostname, ipv4 and uri are",
        name);
    return "";
}

/* The content of a string by an expression; its length must be within bounds by itself. */
static uint32_t string_pattern(struct qkv_schema_reader *r, const json_t *schema, const char *place, uint32_t min,
                               uint32_t max) {
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    char name[QKV_SCHEMA_PLACE];
    if (pattern && format)
        return qkv_schema_refuse(r, place, "pattern beside format is not supported; write one of them");
    qkv_schema_place(name, place, pattern ? "pattern" : "format", -1);
    struct qkv_regex regex = {.name = name, .spelling = QKV_SPELL_JSON, .searches = pattern != NULL};
    regex.text = pattern ? json_string_value(pattern) : format_pattern(r, json_string_value(format), place);
    regex.size = pattern ? json_string_length(pattern) : strlen(regex.text);
    const uint32_t node = qkv_regex_read(r->g, &regex);
    if (regex.shortest < min || (max != QKV_CONSTRAIN_MANY && regex.longest > max))
        return qkv_schema_refuse(
            r, place,
            "minLength or maxLength beside %s is supported only where the texts have these lengths "
            "anyway; write the lengths into a pattern with ^ and $",
            pattern ? "pattern" : "format");
    return node;
}

uint32_t qkv_schema_string(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    const uint32_t min = qkv_schema_count(schema, "minLength", 0);
    const uint32_t max = qkv_schema_count(schema, "maxLength", QKV_CONSTRAIN_MANY);
    const bool shaped = json_object_get(schema, "pattern") || json_object_get(schema, "format");
    if (min > max) return qkv_schema_never(r, "minLength %u is greater than maxLength %u", min, max);
    if (!shaped && !min && max == QKV_CONSTRAIN_MANY) return qkv_json_any_string(g);
    const uint32_t content =
        shaped ? string_pattern(r, schema, place, min, max) : qkv_node_repeat(g, qkv_json_character(g), min, max);
    return qkv_node_cat(g, qkv_node_byte(g, '"'), qkv_node_cat(g, content, qkv_node_byte(g, '"')));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* The stronger of an inclusive and an exclusive bound; sign −1: of the maximum. */
static struct qkv_bound bound_of(const json_t *schema, const char *closed, const char *open, int sign) {
    const json_t *a = json_object_get(schema, closed), *b = json_object_get(schema, open);
    struct qkv_bound bound = {.given = a || b, .value = json_number_value(a ? a : b), .open = !a};
    if (a && b && sign * json_number_value(b) >= sign * json_number_value(a))
        bound = (struct qkv_bound){.given = true, .open = true, .value = json_number_value(b)};
    return bound;
}

/* The least integer that a lower bound allows (sign 1), or the greatest that an upper one does (−1). False: none. */
static bool integer_bound(const json_t *value, bool open, int sign, int64_t *out) {
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        if (open && *out == (sign > 0 ? INT64_MAX : INT64_MIN)) return false;
        *out += open ? sign : 0;
        return true;
    }
    const double x = json_real_value(value), whole = sign > 0 ? ceil(x) : floor(x);
    const double inside = open && whole == x ? whole + sign : whole;
    if (inside >= 9223372036854775808.0) {
        *out = INT64_MAX;
        return sign < 0;
    }
    if (inside < -9223372036854775808.0) {
        *out = INT64_MIN;
        return sign > 0;
    }
    *out = (int64_t)inside;
    return true;
}

/* The stronger of both bounds of a side; *given: there is one. False: no integer meets it. */
static bool integer_side(const json_t *schema, const char *closed, const char *open, int sign, int64_t *out,
                         bool *given) {
    const json_t *bounds[] = {json_object_get(schema, closed), json_object_get(schema, open)};
    *given = false;
    for (int i = 0; i < 2; i++) {
        int64_t x;
        if (!bounds[i]) continue;
        if (!integer_bound(bounds[i], i == 1, sign, &x)) return false;
        if (!*given || (sign > 0 ? x > *out : x < *out)) *out = x;
        *given = true;
    }
    return true;
}

uint32_t qkv_schema_integer(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    const json_t *step = json_object_get(schema, "multipleOf");
    int64_t low = 0, high = 0;
    bool has_low, has_high;
    if (step && json_number_value(step) != 1)
        return qkv_schema_refuse(r, place, "\"multipleOf\" is not supported, but for 1 with integers; leave it out");
    if (!integer_side(schema, "minimum", "exclusiveMinimum", 1, &low, &has_low) ||
        !integer_side(schema, "maximum", "exclusiveMaximum", -1, &high, &has_high) ||
        (has_low && has_high && low > high))
        return qkv_schema_never(r, "no integer is within its minimum and maximum");
    return qkv_json_integers(r->g, has_low ? &low : NULL, has_high ? &high : NULL);
}

uint32_t qkv_schema_number(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    const struct qkv_bound low = bound_of(schema, "minimum", "exclusiveMinimum", 1);
    const struct qkv_bound high = bound_of(schema, "maximum", "exclusiveMaximum", -1);
    if (json_object_get(schema, "multipleOf"))
        return qkv_schema_refuse(r, place, "\"multipleOf\" is not supported, but for 1 with integers; leave it out");
    if (low.given && high.given && (low.value > high.value || (low.value == high.value && (low.open || high.open))))
        return qkv_schema_never(r, "no number is within its minimum and maximum");
    return qkv_json_reals(r->g, low, high);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* An item after a comma. */
static uint32_t array_next(struct qkv_grammar *g, uint32_t item) {
    const uint32_t comma = qkv_node_byte(g, ',');
    return qkv_node_cat(g, comma, qkv_node_cat(g, qkv_json_space(g), item));
}

struct array {
    const json_t *prefix, *rest; /* rest NULL: any items */
    size_t prefix_count;
    uint32_t min, max;
};

/* The items after the first `at`, which there are. */
static uint32_t array_tail(struct qkv_schema_reader *r, const struct array *a, size_t at, const char *place,
                           uint32_t rest) {
    struct qkv_grammar *g = r->g;
    uint32_t node = QKV_NODE_EMPTY;
    const uint32_t from = (uint32_t)qkv_max(at, a->prefix_count);
    if (a->max > from) {
        const uint32_t max = a->max == QKV_CONSTRAIN_MANY ? a->max : a->max - from;
        node = qkv_node_repeat(g, array_next(g, rest), a->min > from ? a->min - from : 0, max);
    }
    for (size_t i = qkv_min(a->prefix_count, a->max); i-- > at;) {
        char inner[QKV_SCHEMA_PLACE];
        qkv_schema_place(inner, place, "prefixItems", (int)i);
        const uint32_t item = qkv_schema_node(r, json_array_get(a->prefix, i), inner);
        node = qkv_node_cat(g, array_next(g, item), node);
        if (i >= a->min) node = qkv_node_option(g, node);
    }
    return node;
}

static struct array array_read(struct qkv_schema_reader *r, const json_t *schema) {
    struct array a = {.prefix = json_object_get(schema, "prefixItems"), .rest = json_object_get(schema, "items")};
    a.min = qkv_schema_count(schema, "minItems", 0);
    a.max = qkv_schema_count(schema, "maxItems", QKV_CONSTRAIN_MANY);
    if (json_is_array(a.rest)) { /* as older versions have it */
        a.prefix = a.rest;
        a.rest = json_object_get(schema, "additionalItems");
    }
    a.prefix_count = json_array_size(a.prefix);
    const bool closed = json_is_false(a.rest) || (!a.rest && a.prefix_count && !r->open);
    if (closed && a.max > a.prefix_count) a.max = (uint32_t)a.prefix_count;
    return a;
}

uint32_t qkv_schema_array(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    const struct array a = array_read(r, schema);
    const uint32_t space = qkv_json_space(g), open = qkv_node_cat(g, qkv_node_byte(g, '['), space);
    char inner[QKV_SCHEMA_PLACE];
    if (json_is_true(json_object_get(schema, "uniqueItems")) && a.max > 1)
        return qkv_schema_refuse(r, place,
                                 "\"uniqueItems\" is not supported for lists of more than one item; leave it out");
    if (a.prefix_count > QKV_SCHEMA_PREFIX)
        return qkv_schema_refuse(r, place, "a list has more than %d schemas of its own items; use items",
                                 QKV_SCHEMA_PREFIX);
    if (a.min > a.max) return qkv_schema_never(r, "a list has at least %u and at most %u items", a.min, a.max);
    qkv_schema_place(inner, place, "items", -1);
    const bool has_rest = a.max > a.prefix_count;
    const uint32_t rest = !has_rest ? QKV_NODE_NEVER : a.rest ? qkv_schema_node(r, a.rest, inner) : qkv_json_any(g);
    uint32_t items = QKV_NODE_NEVER;
    if (a.max) {
        qkv_schema_place(inner, place, "prefixItems", 0);
        const uint32_t first = a.prefix_count ? qkv_schema_node(r, json_array_get(a.prefix, 0), inner) : rest;
        items = qkv_node_cat(g, first, array_tail(r, &a, 1, place, rest));
        items = qkv_node_cat(g, items, space);
    }
    if (!a.min) items = qkv_node_option(g, items);
    return qkv_node_cat(g, open, qkv_node_cat(g, items, qkv_node_byte(g, ']')));
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

/* Whether a constant is within the other keywords for its type; *unsure: one of them is not looked at. */
static bool constant_fits(const json_t *schema, const json_t *value, const char **unsure) {
    static const struct {
        const char *keyword;
        unsigned types;
    } unseen[] = {
        {"pattern", QKV_TYPE_STRING},      {"format", QKV_TYPE_STRING},     {"multipleOf", QKV_TYPE_NUMBER},
        {"properties", QKV_TYPE_OBJECT},   {"required", QKV_TYPE_OBJECT},   {"additionalProperties", QKV_TYPE_OBJECT},
        {"items", QKV_TYPE_ARRAY},         {"prefixItems", QKV_TYPE_ARRAY}, {"minItems", QKV_TYPE_ARRAY},
        {"maxItems", QKV_TYPE_ARRAY},      {"uniqueItems", QKV_TYPE_ARRAY}, {"minProperties", QKV_TYPE_OBJECT},
        {"maxProperties", QKV_TYPE_OBJECT}};
    const unsigned type = qkv_schema_type_of(value);
    const double x = json_number_value(value);
    const struct qkv_bound low = bound_of(schema, "minimum", "exclusiveMinimum", 1);
    const struct qkv_bound high = bound_of(schema, "maximum", "exclusiveMaximum", -1);
    if (json_object_get(schema, "type") && !(qkv_schema_types(schema) & type)) return false;
    if (type & QKV_TYPE_NUMBER && low.given && (low.open ? x <= low.value : x < low.value)) return false;
    if (type & QKV_TYPE_NUMBER && high.given && (high.open ? x >= high.value : x > high.value)) return false;
    if (type & QKV_TYPE_STRING) {
        size_t length = 0;
        for (const char *at = json_string_value(value); *at; at++) length += (*at & 0xC0) != 0x80;
        if (length < qkv_schema_count(schema, "minLength", 0)) return false;
        if (length > qkv_schema_count(schema, "maxLength", QKV_CONSTRAIN_MANY)) return false;
    }
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++)
        if (unseen[i].types & type && json_object_get(schema, unseen[i].keyword)) *unsure = unseen[i].keyword;
    return true;
}

uint32_t qkv_schema_constants(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    const json_t *constant = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    struct qkv_grammar *g = r->g;
    const char *unsure = NULL;
    const size_t count = list ? json_array_size(list) : 1;
    struct qkv_grammar_text *texts = qkv_allocate(g->ctx, count, sizeof *texts);
    size_t n = 0;
    if (!texts) g->status = QKV_MEMORY;
    for (size_t i = 0; i < count && !g->status && !unsure; i++) {
        const json_t *value = list ? json_array_get(list, i) : constant;
        if (constant && !json_equal(value, constant)) continue;
        if (!constant_fits(schema, value, &unsure)) continue;
        texts[n].data = qkv_json_constant_text(g, value, &texts[n].size);
        n += texts[n].data != NULL;
    }
    const uint32_t node = g->status ? QKV_NODE_NEVER : qkv_node_texts(g, texts, n);
    for (size_t i = 0; i < n; i++) free((char *)(uintptr_t)texts[i].data);
    free(texts);
    if (unsure)
        return qkv_schema_refuse(r, place, "\"%s\" beside %s is not supported; leave it out", unsure,
                                 constant ? "const" : "enum");
    return n ? node : qkv_schema_never(r, "none of its constants has its type and is within its bounds");
}
