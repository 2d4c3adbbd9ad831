/* Schemas to rules: one rule a schema, so that schemas may contain themselves. */
#include "constrain/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"

uint32_t qkv_schema_refuse(struct qkv_schema_reader *r, const char *place, const char *format, ...) {
    char text[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return qkv_grammar_fail(r->g, QKV_FORMAT, "%s: %s", place, text);
}

uint32_t qkv_schema_never(struct qkv_schema_reader *r, const char *format, ...) {
    char text[256];
    va_list arguments;
    if (r->g->status || r->g->rules[r->rule].why) return QKV_NODE_NEVER;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->g->rules[r->rule].why = qkv_copy_string(r->g->ctx, text);
    if (!r->g->rules[r->rule].why) r->g->status = QKV_MEMORY;
    return QKV_NODE_NEVER;
}

void qkv_schema_place(char out[QKV_SCHEMA_PLACE], const char *place, const char *name, int index) {
    if (index < 0)
        snprintf(out, QKV_SCHEMA_PLACE, "%.*s.%.60s", QKV_SCHEMA_PLACE - 64, place, name);
    else
        snprintf(out, QKV_SCHEMA_PLACE, "%.*s.%.40s[%d]", QKV_SCHEMA_PLACE - 64, place, name, index);
}

/* ---- references -------------------------------------------------------------------------------------------------- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* One name of a pointer (RFC 6901) in a fragment (RFC 3986), up to the next slash. */
static const char *pointer_name(const char *at, char *name, size_t room) {
    size_t n = 0;
    while (*at && *at != '/' && n + 1 < room) {
        if (*at == '%' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
            name[n++] = (char)(hex_digit(at[1]) * 16 + hex_digit(at[2]));
            at += 3;
        } else {
            name[n++] = *at++;
        }
    }
    name[n] = 0;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const bool tilde = name[i] == '~' && (name[i + 1] == '0' || name[i + 1] == '1');
        name[k++] = !tilde ? name[i] : name[i + 1] == '0' ? '~' : '/';
        i += tilde;
    }
    name[k] = 0;
    return at;
}

static const json_t *pointer_step(const json_t *at, const char *name) {
    char *end;
    if (!json_is_array(at)) return json_object_get(at, name);
    const unsigned long index = strtoul(name, &end, 10);
    return *name && !*end ? json_array_get(at, index) : NULL;
}

const json_t *qkv_schema_follow(struct qkv_schema_reader *r, const json_t *reference, const char *place,
                                char target[QKV_SCHEMA_PLACE]) {
    const char *text = json_string_value(reference), *at = text;
    const json_t *found = r->root;
    char name[256], before[QKV_SCHEMA_PLACE];
    snprintf(target, QKV_SCHEMA_PLACE, "$");
    if (*at++ != '#' || (*at && *at != '/')) {
        qkv_schema_refuse(r, place,
                          "$ref \"%.80s\" is not supported; only places of the same schema are, as #/$defs/name", text);
        return NULL;
    }
    while (*at == '/' && found) {
        at = pointer_name(at + 1, name, sizeof name);
        snprintf(before, sizeof before, "%s", target);
        qkv_schema_place(target, before, name, -1);
        found = pointer_step(found, name);
    }
    if (*at || !json_is_object(found))
        if (!json_is_boolean(found) || *at) {
            qkv_schema_refuse(r, place, "$ref \"%.80s\" names no schema", text);
            return NULL;
        }
    return found;
}

/* ---- alternatives ------------------------------------------------------------------------------------------------ */

static bool asserts_anything(const json_t *schema) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, name, value) if (qkv_schema_asserts(name)) return true;
    return false;
}

/* oneOf is anyOf where no value can meet two of its schemas. */
static bool alternatives_apart(struct qkv_schema_reader *r, const json_t *list, const char *place) {
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++) {
            if (qkv_schema_are_apart(r, json_array_get(list, k), json_array_get(list, i), place)) continue;
            qkv_schema_refuse(
                r, place,
                "a value may meet both oneOf[%zu] and oneOf[%zu], which is not supported; write anyOf, or "
                "give the two a member with different constants",
                k, i);
            return false;
        }
    return true;
}

static uint32_t schema_alternatives(struct qkv_schema_reader *r, const json_t *schema, const char *place,
                                    const char *keyword) {
    const json_t *list = json_object_get(schema, keyword);
    const json_t *others = qkv_schema_without(r, schema, keyword);
    struct qkv_node_list nodes = {0};
    if (!others) return QKV_NODE_NEVER;
    if (!strcmp(keyword, "oneOf") && !alternatives_apart(r, list, place)) return QKV_NODE_NEVER;
    const bool plain = !asserts_anything(others);
    for (size_t i = 0; i < json_array_size(list) && !r->g->status; i++) {
        char inner[QKV_SCHEMA_PLACE];
        qkv_schema_place(inner, place, keyword, (int)i);
        const json_t *one = json_array_get(list, i);
        if (!plain) one = qkv_schema_merge(r, others, one, inner);
        if (one) qkv_node_list_add(r->g, &nodes, qkv_schema_node(r, one, inner));
    }
    const uint32_t node = qkv_node_join(r->g, QKV_NODE_ALT, nodes.items, nodes.count);
    free(nodes.items);
    return node;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static uint32_t schema_types(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    const unsigned types = qkv_schema_types(schema);
    uint32_t node = QKV_NODE_NEVER;
    if (types == QKV_TYPE_ALL && !json_object_get(schema, "type")) return qkv_json_any(g);
    if (types & QKV_TYPE_OBJECT) node = qkv_schema_object(r, schema, place);
    if (types & QKV_TYPE_ARRAY) node = qkv_node_alt(g, node, qkv_schema_array(r, schema, place));
    if (types & QKV_TYPE_STRING) node = qkv_node_alt(g, node, qkv_schema_string(r, schema, place));
    if (types & QKV_TYPE_NUMBER)
        node = qkv_node_alt(g, node, qkv_schema_number(r, schema, place));
    else if (types & QKV_TYPE_INTEGER)
        node = qkv_node_alt(g, node, qkv_schema_integer(r, schema, place));
    if (types & QKV_TYPE_BOOLEAN)
        node = qkv_node_alt(g, node, qkv_node_alt(g, qkv_node_bytes(g, "true", 4), qkv_node_bytes(g, "false", 5)));
    if (types & QKV_TYPE_NULL) node = qkv_node_alt(g, node, qkv_node_bytes(g, "null", 4));
    return types ? node : qkv_schema_never(r, "no type is left");
}

static uint32_t schema_body(struct qkv_schema_reader *r, const json_t *schema, const char *place);

/* $ref beside others, and allOf: all of them as one schema. */
static uint32_t schema_merged(struct qkv_schema_reader *r, const json_t *schema, const char *place,
                              const char *keyword) {
    const json_t *value = json_object_get(schema, keyword), *all = qkv_schema_without(r, schema, keyword);
    if (++r->rounds > QKV_SCHEMA_ROUNDS)
        return qkv_schema_refuse(r, place, "%s leads back to itself, or has too many schemas in each other", keyword);
    if (json_is_string(value)) {
        char target[QKV_SCHEMA_PLACE];
        const json_t *named = qkv_schema_follow(r, value, place, target);
        if (named && all) all = qkv_schema_merge(r, all, named, place);
        return named && all ? schema_body(r, all, place) : QKV_NODE_NEVER;
    }
    for (size_t i = 0; i < json_array_size(value) && all; i++)
        all = qkv_schema_merge(r, all, json_array_get(value, i), place);
    return all ? schema_body(r, all, place) : QKV_NODE_NEVER;
}

static uint32_t schema_body(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    const json_t *reference = json_object_get(schema, "$ref");
    char target[QKV_SCHEMA_PLACE];
    if (json_is_true(schema)) return qkv_json_any(r->g);
    if (json_is_false(schema)) return qkv_schema_never(r, "the schema is false");
    if (!json_is_object(schema)) return qkv_schema_refuse(r, place, "a schema is an object, true or false");
    if (!qkv_schema_check(r, schema, place)) return QKV_NODE_NEVER;
    if (reference) {
        const json_t *others = qkv_schema_without(r, schema, "$ref");
        if (!others) return QKV_NODE_NEVER;
        if (asserts_anything(others)) return schema_merged(r, schema, place, "$ref");
        const json_t *named = qkv_schema_follow(r, reference, place, target);
        return named ? qkv_schema_node(r, named, target) : QKV_NODE_NEVER;
    }
    if (json_object_get(schema, "allOf")) return schema_merged(r, schema, place, "allOf");
    if (json_object_get(schema, "anyOf")) return schema_alternatives(r, schema, place, "anyOf");
    if (json_object_get(schema, "oneOf")) return schema_alternatives(r, schema, place, "oneOf");
    if (json_object_get(schema, "const") || json_object_get(schema, "enum"))
        return qkv_schema_constants(r, schema, place);
    return schema_types(r, schema, place);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* A schema of two others is known by its text: it is made again where a schema contains itself. */
static struct qkv_string *schema_known(struct qkv_schema_reader *r, const json_t *schema) {
    struct qkv_grammar *g = r->g;
    struct qkv_string *entry = NULL;
    if (!qkv_strings_find(&r->both, (const char *)&schema, sizeof schema))
        return qkv_strings_add(g->ctx, &r->known, (const char *)&schema, sizeof schema);
    char *text = json_dumps(schema, JSON_COMPACT);
    if (text) entry = qkv_strings_add(g->ctx, &r->known, text, strlen(text));
    free(text);
    return entry;
}

uint32_t qkv_schema_node(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    if (g->status) return QKV_NODE_NEVER;
    struct qkv_string *entry = schema_known(r, schema);
    if (!entry) {
        g->status = QKV_MEMORY;
        return QKV_NODE_NEVER;
    }
    if (entry->value) return qkv_node_rule(g, (uint32_t)entry->value - 1);
    if (g->rule_count >= QKV_SCHEMA_RULES)
        return qkv_schema_refuse(r, place, "the schema has more than %d parts; make it simpler", QKV_SCHEMA_RULES);
    const uint32_t rule = qkv_grammar_rule(g, place);
    struct qkv_schema_todo *todo =
        g->status ? NULL : qkv_list_room(g->ctx, r->todo, &r->todo_capacity, r->todo_count, 1, sizeof *todo);
    if (!todo) {
        if (!g->status) g->status = QKV_MEMORY;
        return QKV_NODE_NEVER;
    }
    r->todo = todo;
    todo[r->todo_count++] = (struct qkv_schema_todo){schema, rule};
    entry->value = (int64_t)rule + 1;
    return qkv_node_rule(g, rule);
}

static void schema_write(struct qkv_schema_reader *r) {
    struct qkv_grammar *g = r->g;
    g->root = qkv_schema_node(r, r->root, "$");
    while (r->todo_count && !g->status) {
        const struct qkv_schema_todo todo = r->todo[--r->todo_count];
        char place[QKV_SCHEMA_PLACE];
        snprintf(place, sizeof place, "%s", g->rules[todo.rule].place);
        r->rule = todo.rule;
        r->rounds = 0;
        const uint32_t body = schema_body(r, todo.schema, place);
        if (!g->status) g->rules[todo.rule].node = body;
    }
}

void qkv_schema_read(struct qkv_grammar *g, const char *text, size_t size, bool open) {
    const struct qkv_json_text source = {
        .name = "the schema", .data = text, .size = size, .max_size = QKV_CONSTRAIN_TEXT};
    struct qkv_schema_reader r = {.g = g, .open = open, .made = json_array()};
    json_t *root = NULL;
    if (!r.made) g->status = QKV_MEMORY;
    const bool is_true = size == 4 && !memcmp(text, "true", 4), is_false = size == 5 && !memcmp(text, "false", 5);
    if (is_true || is_false)
        root = is_true ? json_true() : json_false();
    else if (!g->status)
        g->status = qkv_json_load(g->ctx, &source, &root);
    r.root = root;
    if (!g->status) schema_write(&r);
    qkv_strings_free(&r.known);
    qkv_strings_free(&r.both);
    free(r.todo);
    json_decref(r.made);
    json_decref(root);
}
