/* One schema of two, keyword by keyword. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "constrain/schema.h"

enum { FOLLOWED = 64 };

/* ---- schemas of the reader --------------------------------------------------------------------------------------- */

static json_t *schema_own(struct qkv_schema_reader *r, json_t *made) {
    if (made && !json_array_append_new(r->made, made)) return made;
    if (!r->g->status) r->g->status = qkv_fail_memory(r->g->ctx, 0, "a schema");
    return NULL;
}

json_t *qkv_schema_without(struct qkv_schema_reader *r, const json_t *schema, const char *keyword) {
    json_t *copy = json_copy((json_t *)(uintptr_t)schema);
    if (copy) json_object_del(copy, keyword);
    return schema_own(r, copy);
}

json_t *qkv_schema_both(struct qkv_schema_reader *r, const json_t *a, const json_t *b) {
    json_t *made = schema_own(r, json_pack("{s:[O,O]}", "allOf", a, b));
    if (made && !qkv_strings_add(r->g->ctx, &r->both, (const char *)&made, sizeof made)) {
        r->g->status = QKV_MEMORY;
        return NULL;
    }
    return made;
}

/* ---- keywords of both -------------------------------------------------------------------------------------------- */

static void merge_refuse(struct qkv_schema_reader *r, const char *place, const char *keyword) {
    qkv_schema_refuse(r, place, "two different \"%s\" hold for the same value, which is not supported; write one",
                      keyword);
}

static json_t *as_list(const json_t *value) {
    return json_is_array(value) ? json_copy((json_t *)(uintptr_t)value) : json_pack("[O]", value);
}

/* The items that both lists have. */
static json_t *merge_common(const json_t *a, const json_t *b) {
    json_t *out = json_array(), *x = as_list(a), *y = as_list(b);
    for (size_t i = 0; i < json_array_size(x); i++)
        for (size_t k = 0; k < json_array_size(y); k++)
            if (json_equal(json_array_get(x, i), json_array_get(y, k))) {
                json_array_append(out, json_array_get(x, i));
                break;
            }
    json_decref(x);
    json_decref(y);
    return out;
}

static json_t *merge_types(const json_t *a, const json_t *b) {
    json_t *x = json_pack("{s:O}", "type", a), *y = json_pack("{s:O}", "type", b), *out = json_array();
    static const char *const names[] = {"null", "boolean", "object", "array", "number", "integer", "string"};
    unsigned p = qkv_schema_types(x), q = qkv_schema_types(y);
    if (p & QKV_TYPE_NUMBER) p |= QKV_TYPE_INTEGER;
    if (q & QKV_TYPE_NUMBER) q |= QKV_TYPE_INTEGER;
    for (unsigned i = 0; i < 7; i++)
        if (p & q & 1U << i) json_array_append_new(out, json_string(names[i]));
    json_decref(x);
    json_decref(y);
    return out;
}

static json_t *merge_required(const json_t *a, const json_t *b) {
    json_t *out = json_copy((json_t *)(uintptr_t)a);
    for (size_t k = 0; k < json_array_size(b); k++) {
        size_t i = 0;
        while (i < json_array_size(out) && !json_equal(json_array_get(out, i), json_array_get(b, k))) i++;
        if (i == json_array_size(out)) json_array_append(out, json_array_get(b, k));
    }
    return out;
}

/* Adds the members that only `from` has; the other schema says what additional ones must be. */
static bool merge_members(struct qkv_schema_reader *r, json_t *out, const json_t *from, const json_t *not_in,
                          const json_t *other) {
    const json_t *additional = json_object_get(other, "additionalProperties");
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)from, name, member) {
        if (json_object_get(not_in, name)) continue;
        const bool both = additional && !json_is_true(additional);
        const json_t *value = both ? qkv_schema_both(r, additional, member) : member;
        if (!value || json_object_set(out, name, (json_t *)(uintptr_t)value)) return false;
    }
    return true;
}

static json_t *merge_properties(struct qkv_schema_reader *r, const json_t *a, const json_t *b) {
    const json_t *x = json_object_get(a, "properties"), *y = json_object_get(b, "properties");
    json_t *out = json_object();
    const char *name;
    json_t *member;
    bool fine = out && merge_members(r, out, x, y, b);
    json_object_foreach((json_t *)(uintptr_t)x, name, member) {
        const json_t *second = json_object_get(y, name);
        const json_t *both = second && fine ? qkv_schema_both(r, member, second) : NULL;
        if (second) fine = both && !json_object_set(out, name, (json_t *)(uintptr_t)both);
    }
    if (fine && merge_members(r, out, y, x, a)) return out;
    json_decref(out);
    return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum rule { SAME, LARGER, SMALLER, COMMON, UNION, TYPES, BOTH, JOIN };
static const struct {
    const char *keyword;
    enum rule rule;
} rules[] = {
    {"type", TYPES},
    {"required", UNION},
    {"enum", COMMON},
    {"minimum", LARGER},
    {"exclusiveMinimum", LARGER},
    {"minLength", LARGER},
    {"minItems", LARGER},
    {"minProperties", LARGER},
    {"maximum", SMALLER},
    {"exclusiveMaximum", SMALLER},
    {"maxLength", SMALLER},
    {"maxItems", SMALLER},
    {"maxProperties", SMALLER},
    {"items", BOTH},
    {"additionalProperties", BOTH},
    {"allOf", JOIN},
};

static json_t *merge_value(struct qkv_schema_reader *r, const char *keyword, const json_t *a, const json_t *b,
                           const char *place) {
    size_t i = 0;
    while (i < sizeof rules / sizeof *rules && strcmp(rules[i].keyword, keyword) != 0) i++;
    const bool first_larger = json_number_value(a) > json_number_value(b);
    json_t *joined;
    if (!qkv_schema_spend(r, place, json_array_size(a), json_array_size(b))) return NULL;
    if (json_equal(a, b)) return json_incref((json_t *)(uintptr_t)a);
    switch (i < sizeof rules / sizeof *rules ? rules[i].rule : SAME) {
    case LARGER:
        return json_incref((json_t *)(uintptr_t)(first_larger ? a : b));
    case SMALLER:
        return json_incref((json_t *)(uintptr_t)(first_larger ? b : a));
    case COMMON:
        return merge_common(a, b);
    case UNION:
        return merge_required(a, b);
    case TYPES:
        return merge_types(a, b);
    case BOTH:
        if (json_is_array(a) || json_is_array(b)) break;
        return json_incref(qkv_schema_both(r, a, b));
    case JOIN:
        joined = json_copy((json_t *)(uintptr_t)a);
        json_array_extend(joined, (json_t *)(uintptr_t)b);
        return joined;
    case SAME:
        break;
    }
    merge_refuse(r, place, keyword);
    return NULL;
}

/* const is enum of one. */
static const json_t *merge_prepare(struct qkv_schema_reader *r, const json_t *schema) {
    const json_t *constant = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    if (!constant) return schema;
    json_t *copy = qkv_schema_without(r, schema, "const");
    json_t *values = json_pack("[O]", constant);
    if (list && values) {
        json_t *common = merge_common(list, values);
        json_decref(values);
        values = common;
    }
    if (copy) json_object_set_new(copy, "enum", values);
    return copy;
}

/* Follows a schema that is only a reference, and merges one that is more. */
static const json_t *merge_follow(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    char target[QKV_SCHEMA_PLACE];
    for (size_t i = 0; json_object_get(schema, "$ref"); i++) {
        const json_t *reference = json_object_get(schema, "$ref");
        if (!json_is_string(reference) || i == FOLLOWED) {
            qkv_schema_refuse(r, place, "$ref must be a text, and not lead back to itself");
            return NULL;
        }
        const json_t *others = qkv_schema_without(r, schema, "$ref");
        const json_t *named = qkv_schema_follow(r, reference, place, target);
        if (!others || !named) return NULL;
        schema = json_object_size(others) ? qkv_schema_merge(r, others, named, place) : named;
        if (!schema) return NULL;
    }
    return schema;
}

const json_t *qkv_schema_merge(struct qkv_schema_reader *r, const json_t *a, const json_t *b, const char *place) {
    const char *name;
    json_t *value;
    if (++r->merges > QKV_SCHEMA_MERGES) {
        qkv_schema_refuse(r, place, "the schema leads back to itself, or has too many schemas to be merged");
        return NULL;
    }
    b = merge_follow(r, b, place);
    if (!b || r->g->status) return NULL;
    if (json_is_false(a) || json_is_true(b)) return a;
    if (json_is_false(b) || json_is_true(a)) return b;
    if (!qkv_schema_check(r, b, place) || !qkv_schema_check(r, a, place)) return NULL;
    a = merge_prepare(r, a);
    b = merge_prepare(r, b);
    json_t *out = a && b ? schema_own(r, json_copy((json_t *)(uintptr_t)a)) : NULL;
    if (!out) return NULL;
    json_object_foreach((json_t *)(uintptr_t)b, name, value) {
        const json_t *had = json_object_get(a, name);
        if (!strcmp(name, "properties") || !qkv_schema_asserts(name)) continue;
        json_t *merged = had ? merge_value(r, name, had, value, place) : json_incref(value);
        if (!merged || json_object_set_new(out, name, merged)) return NULL;
    }
    if (!json_object_get(a, "properties") && !json_object_get(b, "properties")) return out;
    const size_t sizes[] = {json_object_size(json_object_get(a, "properties")),
                            json_object_size(json_object_get(b, "properties"))};
    if (!qkv_schema_spend(r, place, sizes[0] + sizes[1], 0)) return NULL;
    json_t *members = merge_properties(r, a, b);
    if (members && !json_object_set_new(out, "properties", members)) return out;
    if (!r->g->status) r->g->status = qkv_fail_memory(r->g->ctx, 0, "a schema");
    return NULL;
}

/* ---- schemas that no value meets both of ------------------------------------------------------------------------- */

/* The constants that a schema lists; NULL: none. The caller gives the reference back. */
static json_t *apart_constants(const json_t *schema) {
    const json_t *constant = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    return constant ? json_pack("[O]", constant) : json_incref((json_t *)(uintptr_t)list);
}

static bool apart_constant(const json_t *a, const json_t *b) {
    json_t *x = apart_constants(a), *y = apart_constants(b), *common = x && y ? merge_common(x, y) : NULL;
    const bool apart = common && !json_array_size(common);
    json_decref(x);
    json_decref(y);
    json_decref(common);
    return apart;
}

static unsigned apart_types(const json_t *schema) {
    json_t *constants = apart_constants(schema);
    unsigned types = 0;
    if (json_object_get(schema, "type") || !constants)
        types = json_object_get(schema, "type") ? qkv_schema_types(schema) : QKV_TYPE_ALL;
    for (size_t i = 0; i < json_array_size(constants) && !types; i++)
        types |= qkv_schema_type_of(json_array_get(constants, i));
    json_decref(constants);
    if (types & QKV_TYPE_NUMBER) types |= QKV_TYPE_INTEGER;
    return types;
}

static bool apart_requires(const json_t *schema, const char *name) {
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!strcmp(json_string_value(json_array_get(required, i)), name)) return true;
    return false;
}

bool qkv_schema_are_apart(struct qkv_schema_reader *r, const json_t *a, const json_t *b, const char *place) {
    const char *name;
    json_t *member;
    a = merge_follow(r, a, place);
    b = merge_follow(r, b, place);
    if (!a || !b || r->g->status) return true; /* refused already */
    if (json_is_false(a) || json_is_false(b)) return true;
    if (json_is_true(a) || json_is_true(b)) return false;
    if (!qkv_schema_check(r, a, place) || !qkv_schema_check(r, b, place)) return true;
    if (!qkv_schema_spend(r, place, json_array_size(json_object_get(a, "enum")),
                          json_array_size(json_object_get(b, "enum"))))
        return true;
    if (!(apart_types(a) & apart_types(b)) || apart_constant(a, b)) return true;
    const json_t *others = json_object_get(b, "properties");
    const size_t members = json_object_size(json_object_get(a, "properties"));
    const size_t needed =
        json_array_size(json_object_get(a, "required")) + json_array_size(json_object_get(b, "required"));
    if (!qkv_schema_spend(r, place, members, needed)) return true;
    json_object_foreach(json_object_get(a, "properties"), name, member) {
        const json_t *other = json_object_get(others, name);
        if (!other || !apart_requires(a, name) || !apart_requires(b, name)) continue;
        if (json_is_object(member) && json_is_object(other) && apart_constant(member, other)) return true;
    }
    return false;
}
