/* The keywords of schemas (JSON Schema 2020-12, and older names): what their values are, and which say nothing that a
 * text could break. Keywords that no version has are ignored, as the standard says. */
#include <string.h>

#include "constrain/schema.h"

enum value { ANY, COUNT, NUMBER, TEXT, SCHEMA, SCHEMAS, MEMBERS, TEXTS, LIST, FLAG, TYPE, ITEMS };
enum use { KEPT, NOTE, REFUSED };
struct keyword {
    const char *name;
    enum use use;
    enum value value;
    unsigned types; /* that it is about; 0: all */
};
static const struct keyword keywords[] = {
    {"type", KEPT, TYPE, 0},
    {"enum", KEPT, LIST, 0},
    {"const", KEPT, ANY, 0},
    {"$ref", KEPT, TEXT, 0},
    {"allOf", KEPT, SCHEMAS, 0},
    {"anyOf", KEPT, SCHEMAS, 0},
    {"oneOf", KEPT, SCHEMAS, 0},
    {"properties", KEPT, MEMBERS, QKV_TYPE_OBJECT},
    {"required", KEPT, TEXTS, QKV_TYPE_OBJECT},
    {"additionalProperties", KEPT, SCHEMA, QKV_TYPE_OBJECT},
    {"minProperties", KEPT, COUNT, QKV_TYPE_OBJECT},
    {"maxProperties", KEPT, COUNT, QKV_TYPE_OBJECT},
    {"items", KEPT, ITEMS, QKV_TYPE_ARRAY},
    {"prefixItems", KEPT, SCHEMAS, QKV_TYPE_ARRAY},
    {"additionalItems", KEPT, SCHEMA, QKV_TYPE_ARRAY},
    {"minItems", KEPT, COUNT, QKV_TYPE_ARRAY},
    {"maxItems", KEPT, COUNT, QKV_TYPE_ARRAY},
    {"uniqueItems", KEPT, FLAG, QKV_TYPE_ARRAY},
    {"minLength", KEPT, COUNT, QKV_TYPE_STRING},
    {"maxLength", KEPT, COUNT, QKV_TYPE_STRING},
    {"pattern", KEPT, TEXT, QKV_TYPE_STRING},
    {"format", KEPT, TEXT, QKV_TYPE_STRING},
    {"minimum", KEPT, NUMBER, QKV_TYPE_NUMBER},
    {"maximum", KEPT, NUMBER, QKV_TYPE_NUMBER},
    {"exclusiveMinimum", KEPT, NUMBER, QKV_TYPE_NUMBER},
    {"exclusiveMaximum", KEPT, NUMBER, QKV_TYPE_NUMBER},
    {"multipleOf", KEPT, NUMBER, QKV_TYPE_NUMBER},
    {"$defs", NOTE, ANY, 0},
    {"definitions", NOTE, ANY, 0},
    {"$schema", NOTE, ANY, 0},
    {"$id", NOTE, ANY, 0},
    {"$comment", NOTE, ANY, 0},
    {"$anchor", NOTE, ANY, 0},
    {"title", NOTE, ANY, 0},
    {"description", NOTE, ANY, 0},
    {"default", NOTE, ANY, 0},
    {"examples", NOTE, ANY, 0},
    {"deprecated", NOTE, ANY, 0},
    {"readOnly", NOTE, ANY, 0},
    {"writeOnly", NOTE, ANY, 0},
    {"contentEncoding", NOTE, ANY, 0},
    {"contentMediaType", NOTE, ANY, 0},
    {"contentSchema", NOTE, ANY, 0},
    {"not", REFUSED, ANY, 0},
    {"if", REFUSED, ANY, 0},
    {"then", REFUSED, ANY, 0},
    {"else", REFUSED, ANY, 0},
    {"dependentRequired", REFUSED, ANY, QKV_TYPE_OBJECT},
    {"dependentSchemas", REFUSED, ANY, QKV_TYPE_OBJECT},
    {"dependencies", REFUSED, ANY, QKV_TYPE_OBJECT},
    {"patternProperties", REFUSED, ANY, QKV_TYPE_OBJECT},
    {"propertyNames", REFUSED, ANY, QKV_TYPE_OBJECT},
    {"unevaluatedProperties", REFUSED, ANY, QKV_TYPE_OBJECT},
    {"unevaluatedItems", REFUSED, ANY, QKV_TYPE_ARRAY},
    {"contains", REFUSED, ANY, QKV_TYPE_ARRAY},
    {"minContains", REFUSED, ANY, QKV_TYPE_ARRAY},
    {"maxContains", REFUSED, ANY, QKV_TYPE_ARRAY},
    {"$dynamicRef", REFUSED, ANY, 0},
    {"$dynamicAnchor", REFUSED, ANY, 0},
    {"$recursiveRef", REFUSED, ANY, 0},
};
static const char *const type_names[] = {"null", "boolean", "object", "array", "number", "integer", "string"};

static const struct keyword *keyword_find(const char *name) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcmp(keywords[i].name, name)) return &keywords[i];
    return NULL;
}

bool qkv_schema_asserts(const char *name) {
    const struct keyword *k = keyword_find(name);
    return k && k->use != NOTE;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* The bit of a name; 0: no type has it. */
static unsigned type_bit(const json_t *name) {
    for (unsigned i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (json_is_string(name) && !strcmp(json_string_value(name), type_names[i])) return 1U << i;
    return 0;
}

static unsigned type_bits(const json_t *value) {
    unsigned bits = type_bit(value);
    for (size_t i = 0; i < json_array_size(value); i++) bits |= type_bit(json_array_get(value, i));
    return bits;
}

unsigned qkv_schema_type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return QKV_TYPE_NULL;
    case JSON_OBJECT:
        return QKV_TYPE_OBJECT;
    case JSON_ARRAY:
        return QKV_TYPE_ARRAY;
    case JSON_STRING:
        return QKV_TYPE_STRING;
    case JSON_INTEGER:
        return QKV_TYPE_INTEGER | QKV_TYPE_NUMBER;
    case JSON_REAL: {
        const double x = json_real_value(value);
        return x >= -9e15 && x <= 9e15 && (double)(int64_t)x == x ? QKV_TYPE_INTEGER | QKV_TYPE_NUMBER
                                                                  : QKV_TYPE_NUMBER;
    }
    default:
        return QKV_TYPE_BOOLEAN;
    }
}

unsigned qkv_schema_types(const json_t *schema) {
    const json_t *type = json_object_get(schema, "type");
    const char *name;
    json_t *value;
    unsigned implied = 0;
    if (type) return type_bits(type);
    json_object_foreach((json_t *)(uintptr_t)schema, name, value) {
        const struct keyword *k = keyword_find(name);
        if (k) implied |= k->types;
    }
    return implied ? implied : QKV_TYPE_ALL;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool is_count(const json_t *v) {
    return json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) <= INT32_MAX &&
           json_number_value(v) == (double)(int64_t)json_number_value(v);
}

static bool is_schema(const json_t *v) {
    return json_is_object(v) || json_is_boolean(v);
}

static bool all_are(const json_t *list, bool (*is)(const json_t *)) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is(json_array_get(list, i))) return false;
    return true;
}

static bool is_text(const json_t *v) {
    return json_is_string(v);
}

static bool are_members(const json_t *v) {
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)v, name, member) if (!is_schema(member)) return false;
    return json_is_object(v);
}

static bool is_type(const json_t *v) {
    return type_bit(v) != 0;
}

/* What a value of the kind must be, if it is not. */
static const char *value_wrong(enum value kind, const json_t *v) {
    const bool list = json_is_array(v), some = json_array_size(v) > 0;
    switch (kind) {
    case ANY:
        return NULL;
    case COUNT:
        return is_count(v) ? NULL : "a whole number from 0 to 2147483647";
    case NUMBER:
        return json_is_number(v) ? NULL : "a number";
    case TEXT:
        return json_is_string(v) ? NULL : "a text";
    case SCHEMA:
        return is_schema(v) ? NULL : "a schema";
    case SCHEMAS:
        return some && all_are(v, is_schema) ? NULL : "a list of schemas that is not empty";
    case MEMBERS:
        return are_members(v) ? NULL : "an object of schemas";
    case TEXTS:
        return list && all_are(v, is_text) ? NULL : "a list of texts";
    case LIST:
        return some ? NULL : "a list that is not empty";
    case FLAG:
        return json_is_boolean(v) ? NULL : "true or false";
    case TYPE:
        return is_type(v) || (some && all_are(v, is_type))
                   ? NULL
                   : "null, boolean, object, array, number, integer, string, or a list of these";
    case ITEMS:
        return is_schema(v) || (list && all_are(v, is_schema)) ? NULL : "a schema, or a list of schemas";
    }
    return NULL;
}

bool qkv_schema_check(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, name, value) {
        const struct keyword *k = keyword_find(name);
        const char *wrong = k ? value_wrong(k->value, value) : NULL;
        const size_t items = json_is_object(value) ? json_object_size(value) : json_array_size(value);
        if (k && k->use == KEPT && k->value != ANY && items > QKV_SCHEMA_MEMBERS)
            qkv_schema_refuse(r, place, "%s has %zu items; at most %d are read", name, items, QKV_SCHEMA_MEMBERS);
        else if (k && k->use == REFUSED)
            qkv_schema_refuse(r, place, "\"%s\" is not supported; leave it out, or write what it means in another way",
                              name);
        else if (wrong)
            qkv_schema_refuse(r, place, "%s must be %s", name, wrong);
        if (r->g->status) return false;
    }
    return true;
}
