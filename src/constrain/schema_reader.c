/* What all parts of the reader of schemas use: refusals, places, references, and the rule of each schema. */
#include <stdlib.h>
#include <string.h>

#include "constrain/schema.h"

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

bool qkv_schema_spend(struct qkv_schema_reader *r, const char *place, size_t a, size_t b) {
    size_t more;
    if (qkv_multiply(a + 1, b + 1, &more) && more <= QKV_SCHEMA_WORK && r->work <= QKV_SCHEMA_WORK - more) {
        r->work += more;
        return true;
    }
    qkv_schema_refuse(r, place, "the schemas that hold together here are too large; make them smaller");
    return false;
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

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* A schema of two others is known by its text: it is made again where a schema contains itself. */
static struct qkv_string *schema_known(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    struct qkv_string *entry = NULL;
    if (!qkv_strings_find(&r->both, (const char *)&schema, sizeof schema))
        return qkv_strings_add(g->ctx, &r->known, (const char *)&schema, sizeof schema);
    char *text = json_dumps(schema, JSON_COMPACT);
    if (text && !qkv_schema_spend(r, place, strlen(text), 0)) {
        free(text);
        return NULL;
    }
    if (text) entry = qkv_strings_add(g->ctx, &r->known, text, strlen(text));
    free(text);
    return entry;
}

uint32_t qkv_schema_node(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    if (g->status) return QKV_NODE_NEVER;
    struct qkv_string *entry = schema_known(r, schema, place);
    if (!entry) {
        if (!g->status) g->status = QKV_MEMORY;
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
