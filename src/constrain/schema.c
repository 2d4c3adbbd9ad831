/* Schemas to rules: one rule a schema, so that schemas may contain themselves. */
#include "constrain/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"

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
