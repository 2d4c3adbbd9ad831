/* Kinds of layers in JSON: the pattern, which gives each layer its kind, and the object of a kind: the keys next to
 * `kinds`, overridden by the kind's own. */
#include "model/spec_reader.h"

#include <stdlib.h>
#include <string.h>

/* ---- names and the pattern --------------------------------------------------------------------------------------- */

/* Lists the names of all kinds, for messages. */
static void list_kinds(const json_t *kinds, char *text, size_t size) {
    const char *name;
    json_t *kind;
    size_t used = 0;
    json_object_foreach((json_t *)(uintptr_t)kinds, name, kind) {
        int n = snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
}

/* The number of the kind of that name; a new name gets the next number. */
static uint8_t kind_number(struct qkv_stack_spec *s, const char *name) {
    int i = 0;
    while (i < s->kind_count && strcmp(s->kinds[i].name, name)) i++;
    if (i == s->kind_count) snprintf(s->kinds[s->kind_count++].name, QKV_KIND_NAME, "%s", name);
    return (uint8_t)i;
}

static bool kind_known(const struct qkv_stack_spec *s, const char *name) {
    for (int i = 0; i < s->kind_count; i++)
        if (!strcmp(s->kinds[i].name, name)) return true;
    return false;
}

/* Fails if a kind has no layer. */
static enum qkv_status check_used(const struct qkv_spec_reader *r, const struct qkv_place *place, const json_t *kinds,
                                  const char *path) {
    const char *name;
    json_t *kind;
    json_object_foreach((json_t *)(uintptr_t)kinds, name, kind) {
        if (kind_known(place->stack, name)) continue;
        return qkv_spec_reader_fail(r, path, "%s has no layer of the kind \"%s\" of %skinds; use it, or leave it out",
                                    path, name, place->path);
    }
    return QKV_OK;
}

enum qkv_status qkv_spec_reader_pattern(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                        const struct qkv_place *place, const json_t *tree) {
    struct qkv_stack_spec *s = place->stack;
    const struct qkv_key *pattern_key = keys, *kinds_key = keys;
    while (pattern_key->type != QKV_KEY_PATTERN) pattern_key++;
    while (kinds_key->type != QKV_KEY_KINDS) kinds_key++;
    const json_t *pattern = json_object_get(tree, pattern_key->name), *kinds = json_object_get(tree, kinds_key->name);
    char path[QKV_SPEC_PATH], known[QKV_KINDS_MAX * (QKV_KIND_NAME + 2)] = "", shown[QKV_SPEC_NAME];
    s->kind_count = 1;
    if (!pattern && !kinds) return QKV_OK;
    if (!kinds) return qkv_spec_reader_fail_value(r, kinds_key, place, NULL);
    if (!pattern) return qkv_spec_reader_fail_value(r, pattern_key, place, NULL);
    enum qkv_status status = qkv_spec_reader_check_values(r, keys, place, tree);
    if (status) return status;
    qkv_spec_reader_path(r, place, pattern_key->name, path);
    list_kinds(kinds, known, sizeof known);
    size_t period = json_array_size(pattern);
    if ((size_t)s->layers % period)
        return qkv_spec_reader_fail(
            r, path,
            "%s has %zu name%s, but %slayers is %d; it must have as many, or a number that divides "
            "them (it is repeated then)",
            path, period, period == 1 ? "" : "s", place->path, s->layers);
    s->kind_count = 0;
    for (size_t i = 0; i < (size_t)s->layers; i++) {
        const char *name = json_string_value(json_array_get(pattern, i % period));
        qkv_spec_reader_cut(shown, name);
        if (!json_object_get(kinds, name))
            return qkv_spec_reader_fail(r, path, "%s has \"%s\", which is not a kind of %skinds; they are: %s", path,
                                        shown, place->path, known);
        s->kind_of[i] = kind_number(s, name);
    }
    return check_used(r, place, kinds, path);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* Overrides keys of `tree` by those of `over`, recursively. Returns false without memory. */
static bool kinds_merge(json_t *tree, const json_t *over) {
    const char *name;
    json_t *value;
    bool done = true;
    json_object_foreach((json_t *)(uintptr_t)over, name, value) {
        json_t *under = json_object_get(tree, name);
        if (json_is_object(under) && json_is_object(value))
            done = kinds_merge(under, value) && done;
        else
            done = !json_object_set_new(tree, name, json_deep_copy(value)) && done;
    }
    return done;
}

json_t *qkv_spec_reader_over(const json_t *common, const json_t *own) {
    json_t *whole = common ? json_deep_copy(common) : json_object();
    if (whole && kinds_merge(whole, own)) return whole;
    json_decref(whole);
    return NULL;
}

json_t *qkv_spec_reader_kind(const struct qkv_key *kinds, const json_t *stack, const char *name) {
    const json_t *kind = json_object_get(json_object_get(stack, kinds->name), name);
    json_t *whole = json_object();
    bool done = whole != NULL;
    for (const struct qkv_key *part = kinds->keys; part->name && done; part++) {
        const json_t *shared = json_object_get(stack, part->name);
        if (shared) done = !json_object_set_new(whole, part->name, json_deep_copy(shared));
    }
    if (done && kinds_merge(whole, kind)) return whole;
    json_decref(whole);
    return NULL;
}

/* The name of a kind that overrides a common key, else of the first kind. */
static const char *kinds_with_own(const struct qkv_spec_reader *r, const struct qkv_place *place, const char *key) {
    char path[QKV_SPEC_PATH];
    for (int i = 0; i < place->stack->kind_count; i++) {
        const char *name = place->stack->kinds[i].name;
        const int n = snprintf(path, sizeof path, "%skinds.%s.%s", place->path, name, key);
        if (n > 0 && (size_t)n < sizeof path && qkv_spec_reader_at(r->tree, path)) return name;
    }
    return place->stack->kinds[0].name;
}

enum qkv_status qkv_spec_reader_check_shared(const struct qkv_spec_reader *r, const struct qkv_key *parts,
                                             const struct qkv_place *place) {
    char path[QKV_SPEC_PATH];
    for (const struct qkv_key *part = parts; part->name; part++) {
        size_t n = (size_t)snprintf(path, sizeof path, "%s%s", place->path, part->name);
        for (size_t i = 0; i < r->setting_count; i++) {
            const char *setting = r->settings[i];
            bool here = !strncmp(setting, path, n) && (setting[n] == '.' || setting[n] == '=');
            if (!here || r->shared[i]) continue;
            char key[QKV_SPEC_NAME];
            const char *own = setting + strlen(place->path);
            snprintf(key, sizeof key, "%.*s", (int)strcspn(own, "="), own);
            if (!r->idle)
                return qkv_fail(
                    r->ctx, QKV_SPEC,
                    "%s: setting \"%.200s\" has no effect, as every kind of %skinds has its own or none has a "
                    "use for it; set it in a kind, %skinds.%s.%s",
                    r->name, setting, place->path, place->path, kinds_with_own(r, place, key), key);
            r->idle[i] = true;
        }
    }
    return QKV_OK;
}
