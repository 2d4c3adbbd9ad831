/* Settings, "decoder.attention.kv_heads=2": put into the tree of a spec, or checked alone. */
#include "model/spec_reader.h"

#include <stdlib.h>
#include <string.h>

enum { SETTING_PARTS = 8 };

static enum qkv_status fail_setting(const struct qkv_spec_reader *r, const char *setting, const char *why) {
    return qkv_fail(r->ctx, QKV_ARGUMENT, "setting \"%.200s\" %s; write KEY=VALUE, like decoder.attention.kv_heads=2",
                    setting, why);
}

/* The object `name` in `at`, made where it is missing or null; NULL without memory, or where it is not an object. */
static json_t *step_into(json_t *at, const char *name) {
    json_t *next = json_object_get(at, name);
    if (next && !json_is_null(next)) return json_is_object(next) ? next : NULL;
    if (json_object_set_new(at, name, json_object())) return NULL;
    return json_object_get(at, name);
}

static enum qkv_status apply_path(const struct qkv_spec_reader *r, json_t *root, const char *setting, char *path,
                                  json_t *value) {
    json_t *at = root;
    char *name = path;
    for (int depth = 0; at; depth++) {
        char *dot = strchr(name, '.');
        if (!*name || *name == '.' || depth == SETTING_PARTS) {
            json_decref(value);
            return fail_setting(r, setting, "names no key");
        }
        if (!dot) break;
        *dot = 0;
        at = step_into(at, name);
        if (at) name = dot + 1;
    }
    if (!at) {
        json_decref(value);
        return qkv_fail(r->ctx, QKV_SPEC, "%s: cannot set \"%.200s\": %.64s is not an object", r->name, setting, name);
    }
    if (json_object_set_new(at, name, value)) return fail_setting(r, setting, "is not UTF-8, or memory ran out");
    return QKV_OK;
}

/* Applies a setting. Its value is JSON, else a text, so that "kind=rope" needs no quotes. */
static enum qkv_status apply_setting(const struct qkv_spec_reader *r, json_t *root, const char *setting) {
    const char *equal = strchr(setting, '=');
    if (!equal) return fail_setting(r, setting, "has no =");
    json_t *value = qkv_json_value(equal + 1);
    if (!value) value = json_string(equal + 1);
    if (!value) return fail_setting(r, setting, "is not UTF-8, or memory ran out");
    char *path = qkv_copy_bytes(r->ctx, setting, (size_t)(equal - setting));
    if (!path) {
        json_decref(value);
        return QKV_MEMORY;
    }
    enum qkv_status status = apply_path(r, root, setting, path, value);
    free(path);
    return status;
}

enum qkv_status qkv_spec_reader_settings(const struct qkv_spec_reader *r, json_t *root) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->setting_count && !status; i++) {
        size_t later = r->setting_count - 1;
        while (later > i && !qkv_setting_covers(r->settings[later], r->settings[i])) later--;
        bool replaced = later > i && strchr(r->settings[i], '=') && strchr(r->settings[later], '=');
        if (replaced && r->idle)
            r->idle[i] = true;
        else if (replaced)
            status = qkv_fail(r->ctx, QKV_ARGUMENT,
                              "setting \"%.200s\" has no effect, as \"%.200s\" comes after it; leave one of them out",
                              r->settings[i], r->settings[later]);
        if (!status) status = apply_setting(r, root, r->settings[i]);
    }
    return status;
}

/* Checks names, types and ranges in an object of kinds and in a pattern, for any spec. */
static enum qkv_status settings_check_kinds(const struct qkv_spec_reader *r, const struct qkv_key *kinds,
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
            return qkv_spec_reader_fail(r, path, "%s.%s is not an object; a kind is one, {\"attention\": {...}}", path,
                                        name);
        status = qkv_spec_reader_check_values(r, kinds->keys, &in, kind);
        if (status) return status;
    }
    return QKV_OK;
}

static enum qkv_status settings_check_pattern(const struct qkv_spec_reader *r, const struct qkv_key *pattern,
                                              const struct qkv_place *place, const json_t *value) {
    bool names = json_is_array(value) && json_array_size(value) > 0;
    for (size_t i = 0; names && i < json_array_size(value); i++) names = json_is_string(json_array_get(value, i));
    return names ? QKV_OK : qkv_spec_reader_fail_value(r, pattern, place, value);
}

enum qkv_status qkv_spec_reader_check_values(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                             const struct qkv_place *place, const json_t *tree) {
    enum qkv_status status = qkv_spec_reader_check_names(r, keys, place, tree);
    double x;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = json_object_get(tree, key->name);
        struct qkv_place in = qkv_key_enter(place, key);
        if (!value) continue;
        if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION)
            status = qkv_spec_reader_constant(r, key, value);
        else if (key->type == QKV_KEY_KINDS)
            status = settings_check_kinds(r, key, place, value);
        else if (key->type == QKV_KEY_PATTERN)
            status = settings_check_pattern(r, key, place, value);
        else if (key->type == QKV_KEY_OBJECT && json_is_object(value))
            status = qkv_spec_reader_check_values(r, key->keys, &in, value);
        else if (key->type == QKV_KEY_OBJECT ? !(json_is_null(value) && key->flags & (QKV_KEY_NULL | QKV_KEY_OPTIONAL))
                                             : !qkv_spec_reader_convert(key, value, &x))
            status = qkv_spec_reader_fail_value(r, key, place, value);
    }
    return status;
}
