/* Reads the kinds of layers of a stack and the pattern that says which layer is of which kind.
 *
 * A kind is read as one object: what stands beside the kinds, with what the kind itself says in its place. */
#include "model/spec_reader.h"

#include <stdlib.h>
#include <string.h>

/* ---- names and the pattern --------------------------------------------------------------------------------------- */

enum qkv_status qkv_spec_reader_check_kinds(const struct qkv_spec_reader *r, const struct qkv_key *kinds,
                                            const struct qkv_place *place, const json_t *value) {
    const char *name;
    json_t *kind;
    char path[QKV_SPEC_PATH], shown[QKV_SPEC_NAME];
    enum qkv_status status = QKV_OK;
    qkv_spec_reader_path(r, place, kinds->name, path);
    if (!json_is_object(value)) return qkv_spec_reader_fail_value(r, kinds, place, value);
    if (json_object_size(value) < 1 || json_object_size(value) > QKV_KINDS_MAX)
        return qkv_spec_reader_fail(r, path, "%s has %zu kinds of layers; it must have 1 to %d", path,
                                    json_object_size(value), QKV_KINDS_MAX);
    json_object_foreach((json_t *)(uintptr_t)value, name, kind) {
        struct qkv_place in = *place;
        in.object = in.layer;
        qkv_spec_reader_cut(shown, name);
        if (!qkv_kind_name_valid(name))
            return qkv_spec_reader_fail(r, path,
                                        "%s has a kind called \"%s\"; a name must be 1 to %d letters, digits, _ or -",
                                        path, shown, QKV_KIND_NAME - 1);
        snprintf(in.path, sizeof in.path, "%.*s%s.%.*s.", QKV_KEY_PATH / 2, place->path, kinds->name, QKV_KIND_NAME,
                 name);
        if (!json_is_object(kind))
            return qkv_spec_reader_fail(r, path, "%s.%s is no object; a kind is one, {\"attention\": {...}}", path,
                                        name);
        status = qkv_spec_reader_check_values(r, kinds->keys, &in, kind);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_spec_reader_check_pattern(const struct qkv_spec_reader *r, const struct qkv_key *pattern,
                                              const struct qkv_place *place, const json_t *value) {
    bool names = json_is_array(value) && json_array_size(value) > 0;
    for (size_t i = 0; names && i < json_array_size(value); i++) names = json_is_string(json_array_get(value, i));
    return names ? QKV_OK : qkv_spec_reader_fail_value(r, pattern, place, value);
}

/* The names of all kinds, for messages. */
static void list_kinds(const json_t *kinds, char *text, size_t size) {
    const char *name;
    json_t *kind;
    size_t used = 0;
    json_object_foreach((json_t *)(uintptr_t)kinds, name, kind) {
        int n = snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
}

/* The number of the kind called `name`, which is the next one where it is new. */
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

/* Every kind has a layer. */
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
            return qkv_spec_reader_fail(r, path, "%s has \"%s\", but no kind of %skinds is called so; known: %s", path,
                                        shown, place->path, known);
        s->kind_of[i] = kind_number(s, name);
    }
    return check_used(r, place, kinds, path);
}

/* ---- kinds -------------------------------------------------------------------------------------------------------- */

/* Puts what `over` says into the place of what `tree` says, deep. False without memory. */
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

/* What a kind says, and what stands beside the kinds; NULL without memory. */
static json_t *kinds_whole(const struct qkv_key *parts, const json_t *stack, const json_t *kind) {
    json_t *whole = json_object();
    bool done = whole != NULL;
    for (const struct qkv_key *part = parts; part->name && done; part++) {
        const json_t *shared = json_object_get(stack, part->name);
        if (shared) done = !json_object_set_new(whole, part->name, json_deep_copy(shared));
    }
    if (done && kinds_merge(whole, kind)) return whole;
    json_decref(whole);
    return NULL;
}

/* A setting of what kinds have in common has no effect where every kind has its own, or none a use for it. */
static enum qkv_status check_shared(const struct qkv_spec_reader *r, const struct qkv_key *parts,
                                    const struct qkv_place *place) {
    char path[QKV_SPEC_PATH];
    for (const struct qkv_key *part = parts; part->name; part++) {
        size_t n = (size_t)snprintf(path, sizeof path, "%s%s", place->path, part->name);
        for (size_t i = 0; i < r->setting_count; i++) {
            const char *setting = r->settings[i];
            bool here = !strncmp(setting, path, n) && (setting[n] == '.' || setting[n] == '=');
            if (!here || r->shared[i]) continue;
            if (!r->idle)
                return qkv_fail(
                    r->ctx, QKV_SPEC,
                    "%s: setting \"%.200s\" has no effect, as every kind of %skinds has its own or none has a "
                    "use for it; set it in a kind, %skinds.%s.%.*s",
                    r->name, setting, place->path, place->path, place->stack->kinds[0].name,
                    (int)strcspn(setting + strlen(place->path), "="), setting + strlen(place->path));
            r->idle[i] = true;
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_spec_reader_kinds(const struct qkv_spec_reader *r, const struct qkv_key *kinds,
                                      const struct qkv_place *place, const json_t *stack) {
    const struct qkv_stack_spec *s = place->stack;
    enum qkv_status status = QKV_OK;
    if (!s->kinds[0].name[0]) return QKV_OK;
    for (size_t i = 0; i < (size_t)s->kind_count && !status; i++) {
        struct qkv_place in = qkv_kind_enter(place, kinds, i);
        const json_t *kind = json_object_get(json_object_get(stack, kinds->name), s->kinds[i].name);
        json_t *whole = kinds_whole(kinds->keys, stack, kind);
        if (!whole) return qkv_fail_memory(r->ctx, 64, "a spec");
        status = qkv_spec_reader_keys(r, kinds->keys, &in, whole);
        json_decref(whole);
    }
    return status ? status : check_shared(r, kinds->keys, place);
}
