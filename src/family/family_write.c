/* From a spec to config.json: applies a table in reverse. family_choose.c reads the result again. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"
#include "model/spec.h"

struct writing {
    struct qkv_context *ctx;
    const struct qkv_family *family;
    const struct qkv_spec *spec;
    json_t *config;
};

/* The value at a path of the spec; a path of all stacks means the first stack. */
static json_t *write_value(const struct writing *w, const char *under, const char *path, int kind) {
    char whole[224];
    if (*path == '*')
        snprintf(whole, sizeof whole, "%.*s%s", (int)strcspn(w->family->stacks, " "), w->family->stacks, path + 1);
    else
        snprintf(whole, sizeof whole, "%s%s", under, path);
    json_t *value = qkv_family_of_spec(w->spec, whole, kind);
    return value ? value : json_null();
}

/* How many constants of a list differ from the spec. */
static size_t list_misses(const struct writing *w, const char *under, const char *list, int kind) {
    struct qkv_family_piece piece;
    size_t misses = 0;
    while (qkv_family_next(&list, &piece)) {
        if (*piece.value == '$') continue;
        json_t *have = write_value(w, under, piece.key, kind), *want = qkv_family_constant(piece.value);
        misses += qkv_family_same(have, want) ? 0 : 1;
        json_decref(have);
        json_decref(want);
    }
    return misses;
}

static bool list_fits(const struct writing *w, const char *under, const char *list, int kind) {
    return list_misses(w, under, list, kind) == 0;
}

/* Sets the keys of config.json that a list reads. */
static void list_bind(const struct writing *w, const char *under, const char *list, int kind) {
    struct qkv_family_piece piece;
    char key[96];
    while (qkv_family_next(&list, &piece)) {
        if (*piece.value != '$') continue;
        const size_t n = strcspn(piece.value, ":");
        snprintf(key, sizeof key, "%.*s", (int)n - 1, piece.value + 1);
        if (qkv_family_get(w->config, key)) continue;
        json_t *have = write_value(w, under, piece.key, kind);
        json_t *value = qkv_family_back(w->spec, piece.value + n + (piece.value[n] == ':'), have);
        json_decref(have);
        if (value) qkv_family_put(w->config, key, value);
    }
}

/* Whether config.json can have the values of a list together with the values that it has already. */
static bool values_fit(const struct writing *w, const char *key, const char *when) {
    struct qkv_family_piece piece;
    if (key) {
        json_t *value = qkv_family_constant(when), *have = qkv_family_get(w->config, key);
        const bool fits = !have || qkv_family_same(have, value);
        json_decref(value);
        return fits;
    }
    while (qkv_family_next(&when, &piece)) {
        char one[sizeof piece.key + sizeof piece.value + 1];
        snprintf(one, sizeof one, "%s=%s", piece.key, piece.value);
        if (qkv_family_get(w->config, piece.key) && !qkv_family_holds(w->config, one)) return false;
    }
    return true;
}

static void values_bind(const struct writing *w, const char *key, const char *when) {
    struct qkv_family_piece piece;
    if (key && !qkv_family_get(w->config, key)) qkv_family_put(w->config, key, qkv_family_constant(when));
    while (!key && qkv_family_next(&when, &piece))
        if (*piece.value != '!' && !qkv_family_get(w->config, piece.key))
            qkv_family_put(w->config, piece.key, qkv_family_constant(piece.value));
}

/* Whether the spec has the first constant of a list, as the kind of a head. */
static bool first_fits(const struct writing *w, const char *list) {
    struct qkv_family_piece piece;
    char one[sizeof piece.key + sizeof piece.value + 1];
    if (!qkv_family_next(&list, &piece)) return false;
    snprintf(one, sizeof one, "%s=%s", piece.key, piece.value);
    return list_fits(w, "", one, 0);
}

/* Writes the rule that matches the spec. If no class matches, it writes one of the same kind: reading it back then
 * shows the differences. */
static void write_choice(const struct writing *w, const struct qkv_family_choice *choice) {
    const bool classes = choice->key && !strcmp(choice->key, "class");
    for (int near = 0; near <= classes; near++)
        for (const struct qkv_family_rule *rule = choice->rules; rule->when; rule++) {
            const bool fits = near ? first_fits(w, rule->then) : list_fits(w, "", rule->then, 0);
            if (!fits || !values_fit(w, choice->key, rule->when)) continue;
            list_bind(w, "", rule->then, 0);
            values_bind(w, choice->key, rule->when);
            return;
        }
}

/* Writes the kinds of layers. A layer that is of no kind of the family is written as the nearest one: reading it back
 * then shows the differences. */
static void write_layers(const struct writing *w) {
    const bool last = w->spec->decoder.layers > 0;
    const struct qkv_stack_spec *stack = last ? &w->spec->decoder : &w->spec->encoder;
    const char *under = last ? "decoder." : "encoder.";
    const struct qkv_family_kind *kinds = w->family->layers->kinds;
    const struct qkv_family_layers *layers = w->family->layers;
    json_t *list = json_array(), *names = json_array();
    for (int i = 0; i < stack->layers; i++) {
        const int kind = stack->kind_of[i];
        int k = 0;
        for (int other = 1; kinds[other].value; other++)
            if (list_misses(w, under, kinds[other].then, kind) < list_misses(w, under, kinds[k].then, kind)) k = other;
        list_bind(w, under, kinds[k].then, kind);
        json_array_append_new(list, qkv_family_constant(kinds[k].value));
        json_array_append_new(names, json_string(kinds[k].name));
    }
    if (layers->list) qkv_family_put(w->config, layers->list, json_incref(list));
    if (layers->write) layers->write(w->config, layers->list ? names : list);
    json_decref(list);
    json_decref(names);
}

/* ---- the whole config.json --------------------------------------------------------------------------------------- */

json_t *qkv_family_keys(struct qkv_context *ctx, const struct qkv_family *family, const char *class,
                        const struct qkv_spec *spec) {
    const struct writing writing = {.ctx = ctx, .family = family, .spec = spec, .config = json_object()};
    const struct writing *w = &writing;
    char type[64];
    snprintf(type, sizeof type, "%.*s", (int)strcspn(family->type, ","), family->type);
    json_object_set_new(w->config, "model_type", json_string(type));
    if (class) json_object_set_new(w->config, "class", json_string(class));
    list_bind(w, "", family->spec, 0);
    for (const struct qkv_family_choice *c = family->choices; c && (!c->key || *c->key); c++) write_choice(w, c);
    if (family->layers) write_layers(w);
    values_bind(w, NULL, family->needs);
    size_t n;
    const char *architecture =
        qkv_family_architecture(family, json_string_value(json_object_get(w->config, "class")), &n);
    json_object_set_new(w->config, "architectures", json_pack("[o]", json_stringn(architecture, n)));
    return w->config;
}

/* Whether a null is the default and can be left out: classes without the key fail on it. */
static bool write_default_null(const struct qkv_family *family, const char *key, const json_t *value) {
    struct qkv_family_piece piece;
    const char *list = family->defaults;
    while (json_is_null(value) && qkv_family_next(&list, &piece))
        if (!strcmp(piece.key, key)) return !strcmp(piece.value, "null");
    return false;
}

/* Keys that exist only inside this room, or that another file writes. */
static bool write_own_key(const char *key) {
    return *key == '@' || !strcmp(key, "architecture") || !strcmp(key, "class") || !strcmp(key, "dtype") ||
           !strcmp(key, "transformers_version");
}

char *qkv_family_text(struct qkv_context *ctx, const struct qkv_family_config *config, const char *dtype) {
    json_t *keys = json_deep_copy(config->keys), *copy = keys ? json_object() : NULL;
    const char *key;
    json_t *value;
    if (keys) qkv_family_write_rotations(config->family, keys);
    json_object_foreach(keys, key, value) {
        if (!write_own_key(key) && !write_default_null(config->family, key, value)) json_object_set(copy, key, value);
    }
    if (copy) json_object_set_new(copy, "torch_dtype", json_string(dtype));
    char *text = copy ? json_dumps(copy, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(keys);
    json_decref(copy);
    if (!text) qkv_fail_memory(ctx, 0, "config.json");
    return text;
}
