/* From a spec to config.json: a table is gone through the other way round, and what comes of it is read again: only a config.json that
 * gives the very spec is one. */
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

/* A path of the spec, of the first stack where it is one of all. */
static json_t *write_value(const struct writing *w, const char *under, const char *path, int kind) {
    char whole[224];
    if (*path == '*')
        snprintf(whole, sizeof whole, "%.*s%s", (int)strcspn(w->family->stacks, " "), w->family->stacks, path + 1);
    else
        snprintf(whole, sizeof whole, "%s%s", under, path);
    json_t *value = qkv_family_of_spec(w->spec, whole, kind);
    return value ? value : json_null();
}

/* Whether the spec has the constants of a list. */
static bool list_fits(const struct writing *w, const char *under, const char *list, int kind) {
    struct qkv_family_piece piece;
    bool fits = true;
    while (fits && qkv_family_next(&list, &piece)) {
        if (*piece.value == '$') continue;
        json_t *have = write_value(w, under, piece.key, kind), *want = qkv_family_constant(piece.value);
        fits = qkv_family_same(have, want);
        json_decref(have);
        json_decref(want);
    }
    return fits;
}

/* Gives config.json the keys that a list takes values of. */
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

/* Whether config.json can have the values of a list beside those that it has. */
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

/* The rule that fits; of architectures, where none does, one of the same kind, so that what is told of it is what it has otherwise. */
static void write_choice(const struct writing *w, const struct qkv_family_choice *choice) {
    const bool architecture = choice->key && !strcmp(choice->key, "architecture");
    for (int near = 0; near <= architecture; near++)
        for (const struct qkv_family_rule *rule = choice->rules; rule->when; rule++) {
            const bool fits = near ? first_fits(w, rule->then) : list_fits(w, "", rule->then, 0);
            if (!fits || !values_fit(w, choice->key, rule->when)) continue;
            list_bind(w, "", rule->then, 0);
            values_bind(w, choice->key, rule->when);
            return;
        }
}

static void write_layers(const struct writing *w) {
    const bool last = w->spec->decoder.layers > 0;
    const struct qkv_stack_spec *stack = last ? &w->spec->decoder : &w->spec->encoder;
    const char *under = last ? "decoder." : "encoder.";
    const struct qkv_family_kind *kinds = w->family->layers->kinds;
    json_t *list = json_array();
    for (int i = 0; i < stack->layers; i++) {
        const int kind = stack->kind_of[i];
        int k = 0;
        while (kinds[k].value && !list_fits(w, under, kinds[k].then, kind)) k++;
        if (!kinds[k].value) continue; /* it is another family's */
        list_bind(w, under, kinds[k].then, kind);
        json_array_append_new(list, qkv_family_constant(kinds[k].value));
    }
    if (w->family->layers->list) {
        qkv_family_put(w->config, w->family->layers->list, list);
        return;
    }
    w->family->layers->write(w->config, list);
    json_decref(list);
}

/* ---- whether it is the same -------------------------------------------------------------------------------------------- */

/* What trains a model and what it starts from are no part of it there. */
static void spec_strip(struct qkv_spec *spec) {
    struct qkv_stack_spec *stacks[] = {&spec->encoder, &spec->decoder};
    spec->dropout = 0;
    spec->init = (struct qkv_init_spec){0};
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < stacks[i]->kind_count; k++) {
            struct qkv_experts_spec *experts = &stacks[i]->kinds[k].ffn.experts;
            stacks[i]->kinds[k].ffn.dropout = 0;
            experts->balance_loss = experts->z_loss = 0;
            if (experts->given) experts->correction_rate = 0.001;
        }
}

/* The first key that differs: its path is written to `path`; false: none does. */
static bool first_difference(const json_t *a, const json_t *b, char *path, size_t size) {
    const size_t n = strlen(path);
    const char *key;
    const json_t *value;
    if (!json_is_object(a) || !json_is_object(b)) return !qkv_family_same(a, b);
    json_object_foreach((json_t *)(uintptr_t)a, key, value) {
        snprintf(path + n, size - n, "%s%s", n ? "." : "", key);
        if (first_difference(value, json_object_get(b, key), path, size)) return true;
        path[n] = 0;
    }
    json_object_foreach((json_t *)(uintptr_t)b, key, value) {
        snprintf(path + n, size - n, "%s%s", n ? "." : "", key);
        if (!json_object_get(a, key)) return true;
        path[n] = 0;
    }
    return false;
}

/* A sentence about what a family has otherwise. */
static void tell_difference(const struct writing *w, const struct qkv_spec *again, char *text, size_t size) {
    char path[200] = "", *ours = NULL, *theirs = NULL;
    if (qkv_spec_print(w->ctx, w->spec, &ours) || qkv_spec_print(w->ctx, again, &theirs)) {
        qkv_free(ours);
        return;
    }
    json_t *a = json_loads(ours, 0, NULL), *b = json_loads(theirs, 0, NULL);
    if (first_difference(a, b, path, sizeof path)) {
        char *x = json_dumps(qkv_family_get(a, path), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        char *y = json_dumps(qkv_family_get(b, path), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        snprintf(text, size, "%s is %.60s, which would become %.60s", path, x ? x : "not given", y ? y : "not given");
        free(x);
        free(y);
    }
    json_decref(a);
    json_decref(b);
    qkv_free(ours);
    qkv_free(theirs);
}

/* Whether the config.json gives the spec; else `why` says what it does not give. */
static bool gives_spec(const struct writing *w, char *why, size_t size) {
    struct qkv_family_config config;
    struct qkv_spec again;
    char a[QKV_DIGEST_TEXT], b[QKV_DIGEST_TEXT];
    *why = 0;
    if (qkv_family_read(w->ctx, "config.json", w->config, NULL, NULL, &config, &again)) {
        snprintf(why, size, "%s", qkv_message(w->ctx));
        qkv_forgive(w->ctx);
        return false;
    }
    qkv_family_config_free(&config);
    spec_strip(&again);
    const bool same = !qkv_spec_digest(w->ctx, w->spec, a) && !qkv_spec_digest(w->ctx, &again, b) && strcmp(a, b) == 0;
    if (!same) tell_difference(w, &again, why, size);
    return same;
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

static bool has_stack(const struct qkv_family *family, const char *stack) {
    return strstr(family->stacks, stack) != NULL;
}

static bool write_family(struct writing *w, char *why, size_t size) {
    char type[64];
    snprintf(type, sizeof type, "%.*s", (int)strcspn(w->family->type, ","), w->family->type);
    json_object_set_new(w->config, "model_type", json_string(type));
    list_bind(w, "", w->family->spec, 0);
    for (const struct qkv_family_choice *c = w->family->choices; c && (!c->key || *c->key); c++) write_choice(w, c);
    if (w->family->layers) write_layers(w);
    values_bind(w, NULL, w->family->needs);
    const json_t *architecture = json_object_get(w->config, "architecture");
    json_t *list = json_array();
    snprintf(type, sizeof type, "%.*s", (int)strcspn(w->family->architectures, ","), w->family->architectures);
    json_array_append_new(list, json_string(architecture ? json_string_value(architecture) : type));
    json_object_set_new(w->config, "architectures", list);
    return gives_spec(w, why, size);
}

/* How much of what every model of a family has is otherwise. */
static size_t write_distance(const struct writing *w) {
    size_t others = 0;
    struct qkv_family_piece piece;
    const char *list = w->family->spec;
    while (qkv_family_next(&list, &piece)) {
        char one[sizeof piece.key + sizeof piece.value + 1];
        snprintf(one, sizeof one, "%s=%s", piece.key, piece.value);
        others += list_fits(w, "", one, 0) ? 0 : 1;
    }
    return others;
}

static enum qkv_status unknown_type(struct qkv_context *ctx, const char *type) {
    const struct qkv_family *nearest = qkv_families[0];
    for (size_t i = 1; qkv_families[i]; i++)
        if (qkv_name_distance(type, qkv_families[i]->type) < qkv_name_distance(type, nearest->type))
            nearest = qkv_families[i];
    return qkv_fail(ctx, QKV_ARGUMENT, "there is no family of models \"%.40s\"; the nearest known one is %s", type,
                    nearest->type);
}

enum qkv_status qkv_family_write(struct qkv_context *ctx, const char *type, const struct qkv_spec *whole,
                                 struct qkv_family_config *config) {
    struct qkv_spec stripped = *whole, *spec = &stripped;
    spec_strip(spec);
    char why[400], best_why[400] = "it has other stacks";
    const struct qkv_family *best = NULL;
    size_t best_distance = 0;
    for (size_t i = 0; qkv_families[i]; i++) {
        const struct qkv_family *family = qkv_families[i];
        if (type && strncmp(type, family->type, strcspn(family->type, ","))) continue;
        if (type && type[strcspn(family->type, ",")]) continue;
        struct writing w = {.ctx = ctx, .family = family, .spec = spec, .config = json_object()};
        const bool stacks = has_stack(family, "encoder") == (spec->encoder.layers > 0) &&
                            has_stack(family, "decoder") == (spec->decoder.layers > 0);
        if (stacks && write_family(&w, why, sizeof why)) {
            *config = (struct qkv_family_config){.family = family, .keys = w.config};
            return QKV_OK;
        }
        if (stacks && (!best || write_distance(&w) < best_distance)) {
            best = family;
            best_distance = write_distance(&w);
            snprintf(best_why, sizeof best_why, "%s", why);
        }
        json_decref(w.config);
        if (!best && type) best = family;
    }
    if (!best && type) return unknown_type(ctx, type);
    if (!best) return qkv_fail(ctx, QKV_SPEC, "no published family has such stacks");
    if (type) return qkv_fail(ctx, QKV_SPEC, "models of type %s do not have all of this model: %s", type, best_why);
    return qkv_fail(ctx, QKV_SPEC, "no published family has all of this model; in the nearest, %s, %s", best->type,
                    best_why);
}

/* Null that is nothing but the default needs not be said, and classes without the key take it amiss. */
static bool write_default_null(const struct qkv_family *family, const char *key, const json_t *value) {
    struct qkv_family_piece piece;
    const char *list = family->defaults;
    while (json_is_null(value) && qkv_family_next(&list, &piece))
        if (!strcmp(piece.key, key)) return !strcmp(piece.value, "null");
    return false;
}

/* Keys that are this room's, or of another file. */
static bool write_own_key(const char *key) {
    return *key == '@' || !strcmp(key, "architecture") || !strcmp(key, "dtype") || !strcmp(key, "transformers_version");
}

char *qkv_family_text(struct qkv_context *ctx, const struct qkv_family_config *config, const char *dtype) {
    json_t *keys = json_deep_copy(config->keys), *copy = keys ? json_object() : NULL;
    const char *key;
    json_t *value;
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
