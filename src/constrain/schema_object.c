/* Objects of schemas: their members are written in the order of `properties`; those that may be left out are optional.
 * After them come required members that `properties` does not name, and then additional ones, if there may be any. */
#include <stdlib.h>
#include <string.h>

#include "constrain/schema.h"

struct member {
    const char *name;
    uint32_t node; /* "name": value */
    bool required;
};
struct object {
    struct qkv_schema_reader *r;
    const json_t *schema;
    const char *place;
    struct member *members;
    size_t count;
    const json_t *additional; /* NULL: nothing is said */
    bool open;                /* there may be others */
    bool unmet;               /* one is required that there may not be */
};

static bool object_requires(const json_t *schema, const char *name) {
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!strcmp(json_string_value(json_array_get(required, i)), name)) return true;
    return false;
}

/* A value after a name. */
static uint32_t object_pair(struct qkv_grammar *g, uint32_t name, uint32_t value) {
    const uint32_t colon = qkv_node_cat(g, qkv_node_byte(g, ':'), qkv_json_space(g));
    return qkv_node_cat(g, name, qkv_node_cat(g, colon, value));
}

static uint32_t object_name(struct qkv_grammar *g, const char *name) {
    json_t *text = json_string(name);
    const uint32_t node = text ? qkv_json_constant(g, text) : QKV_NODE_NEVER;
    if (!text && !g->status) g->status = qkv_fail_memory(g->ctx, 0, "a schema");
    json_decref(text);
    return node;
}

/* The value of a member that `properties` does not name. */
static uint32_t object_additional(const struct object *o) {
    char inner[QKV_SCHEMA_PLACE];
    qkv_schema_place(inner, o->place, "additionalProperties", -1);
    return o->additional ? qkv_schema_node(o->r, o->additional, inner) : qkv_json_any(o->r->g);
}

static void object_add(struct object *o, const char *name, uint32_t value, bool required) {
    struct qkv_grammar *g = o->r->g;
    o->members[o->count++] = (struct member){name, object_pair(g, object_name(g, name), value), required};
}

/* Lists the members: those of `properties`, then others that are required. */
static void object_list(struct object *o) {
    struct qkv_schema_reader *r = o->r;
    const json_t *properties = json_object_get(o->schema, "properties");
    const json_t *required = json_object_get(o->schema, "required");
    const char *name;
    json_t *member;
    if (!qkv_schema_spend(r, o->place, json_object_size(properties), json_array_size(required))) return;
    o->members =
        qkv_allocate(r->g->ctx, json_object_size(properties) + json_array_size(required) + 1, sizeof *o->members);
    if (!o->members) {
        r->g->status = QKV_MEMORY;
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)properties, name, member) {
        char inner[QKV_SCHEMA_PLACE], list[QKV_SCHEMA_PLACE];
        qkv_schema_place(list, o->place, "properties", -1);
        qkv_schema_place(inner, list, name, -1);
        object_add(o, name, qkv_schema_node(r, member, inner), object_requires(o->schema, name));
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        name = json_string_value(json_array_get(required, i));
        size_t k = 0;
        while (k < o->count && strcmp(o->members[k].name, name) != 0) k++;
        if (k < o->count) continue;
        if (json_is_false(o->additional)) {
            qkv_schema_never(
                r, "it requires \"%.40s\", which properties does not name, and additionalProperties is false", name);
            o->unmet = true;
            return;
        }
        object_add(o, name, object_additional(o), true);
    }
}

/* Additional members, each after a comma; *first: the first one, without its comma, and the others. */
static uint32_t object_others(const struct object *o, uint32_t *first) {
    struct qkv_grammar *g = o->r->g;
    const char **names = qkv_allocate(g->ctx, o->count + 1, sizeof *names);
    *first = QKV_NODE_NEVER;
    if (!o->open || !names) {
        if (!names) g->status = QKV_MEMORY;
        free(names);
        return QKV_NODE_EMPTY;
    }
    for (size_t i = 0; i < o->count; i++) names[i] = o->members[i].name;
    const uint32_t pair = object_pair(g, qkv_json_other_string(g, names, o->count), object_additional(o));
    const uint32_t next = qkv_node_cat(g, qkv_node_byte(g, ','), qkv_node_cat(g, qkv_json_space(g), pair));
    const uint32_t more = qkv_node_repeat(g, next, 0, QKV_CONSTRAIN_MANY);
    free(names);
    *first = qkv_node_cat(g, pair, more);
    return more;
}

/* The members from the last one to the first: `first` is for texts that have none so far, `after` for others. What
 * follows a member is a rule, so that it is written once. */
static uint32_t object_members(const struct object *o) {
    struct qkv_grammar *g = o->r->g;
    uint32_t first, after = object_others(o, &first);
    for (size_t i = o->count; i-- > 0 && !g->status;) {
        const struct member *m = &o->members[i];
        const uint32_t rule = qkv_grammar_rule(g, o->place);
        if (g->status) break;
        g->rules[rule].node = after;
        const uint32_t rest = qkv_node_rule(g, rule), whole = qkv_node_cat(g, m->node, rest);
        const uint32_t next = qkv_node_cat(g, qkv_node_byte(g, ','), qkv_node_cat(g, qkv_json_space(g), whole));
        after = m->required ? next : qkv_node_alt(g, next, rest);
        first = m->required ? whole : qkv_node_alt(g, whole, first);
    }
    return first;
}

/* Numbers of members are kept to where nothing else is possible. */
static bool object_check(const struct object *o) {
    const json_t *min = json_object_get(o->schema, "minProperties"), *max = json_object_get(o->schema, "maxProperties");
    size_t required = 0;
    for (size_t i = 0; i < o->count; i++) required += o->members[i].required;
    if (min && json_number_value(min) > (double)required)
        qkv_schema_refuse(o->r, o->place, "\"minProperties\" is not supported beyond the required ones; require more");
    if (max && (o->open || json_number_value(max) < (double)o->count))
        qkv_schema_refuse(o->r, o->place,
                          "\"maxProperties\" is not supported below the number of properties, or with "
                          "additional ones; leave it out");
    return !o->r->g->status;
}

uint32_t qkv_schema_object(struct qkv_schema_reader *r, const json_t *schema, const char *place) {
    struct qkv_grammar *g = r->g;
    struct object o = {.r = r, .schema = schema, .place = place};
    const uint32_t space = qkv_json_space(g);
    bool required = false;
    o.additional = json_object_get(schema, "additionalProperties");
    object_list(&o);
    o.open = o.additional ? !json_is_false(o.additional) : r->open || !json_object_get(schema, "properties");
    uint32_t content = QKV_NODE_NEVER;
    if (!g->status && !o.unmet && object_check(&o)) content = object_members(&o);
    for (size_t i = 0; i < o.count; i++) required |= o.members[i].required;
    free(o.members);
    if (o.unmet) return QKV_NODE_NEVER;
    content = qkv_node_cat(g, content, space);
    if (!required) content = qkv_node_option(g, content);
    content = qkv_node_cat(g, space, qkv_node_cat(g, content, qkv_node_byte(g, '}')));
    return qkv_node_cat(g, qkv_node_byte(g, '{'), content);
}
