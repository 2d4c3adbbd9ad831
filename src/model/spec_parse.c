/* Reads a spec from JSON: the settings are put into the tree first, then every key is read by its line in the table, in the
 * table's order, so that defaults see what they depend on. */
#include "model/spec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "base/utf8.h"

enum { FILE_BYTES = 1 << 20, NAME_BYTES = 64, RANGE_BYTES = 256, KNOWN_BYTES = 512, SETTING_PARTS = 8 };

struct reader {
    struct qkv_context *ctx;
    const char *name; /* of what the settings change, for messages; NULL: of nothing yet */
    const char *const *settings;
    size_t setting_count;
    bool *idle;         /* [setting_count]: which settings have no effect; NULL: that is a failure */
    const json_t *file; /* the tree as it was before the settings */
};

static enum qkv_status read_keys(const struct reader *r, const struct qkv_key *keys, const struct qkv_place *place,
                                 const json_t *tree);

/* ---- messages --------------------------------------------------------------------------------------------------- */

/* Whether a setting is of the key at `path`, or of an object that holds it. */
static bool setting_covers(const char *setting, const char *path) {
    size_t n = strcspn(setting, "=");
    return !strncmp(setting, path, n) && (path[n] == 0 || path[n] == '.' || path[n] == '=');
}

/* The setting that a key or a part of its path was set by: its number, or setting_count. */
static size_t find_setting(const struct reader *r, const char *path) {
    for (size_t i = r->setting_count; i-- > 0;)
        if (setting_covers(r->settings[i], path)) return i;
    return r->setting_count;
}

static enum qkv_status spec_parse_fail(const struct reader *r, const char *path, const char *format, ...)
    QKV_PRINTF(3, 4);
static enum qkv_status spec_parse_fail(const struct reader *r, const char *path, const char *format, ...) {
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t setting = find_setting(r, path);
    if (setting == r->setting_count) return qkv_fail(r->ctx, QKV_SPEC, "%s: %s", r->name, text);
    if (!r->name) return qkv_fail(r->ctx, QKV_SPEC, "setting \"%.200s\": %s", r->settings[setting], text);
    return qkv_fail(r->ctx, QKV_SPEC, "%s, set by %.200s: %s", r->name, r->settings[setting], text);
}

/* Copies a text, cut between characters where it is long. */
static void copy_name(char out[NAME_BYTES], const char *text) {
    size_t n = strlen(text);
    bool cut = n >= NAME_BYTES;
    if (cut) n = qkv_utf8_cut(text, NAME_BYTES - 4);
    memcpy(out, text, n);
    memcpy(out + n, cut ? "..." : "", cut ? 4 : 1);
}

/* A value as it stands in the file; the number of a setting as it was written. */
static void value_text(const struct reader *r, const char *path, const json_t *value, char text[NAME_BYTES]) {
    size_t setting = find_setting(r, path), n = strlen(path);
    const char *written = setting < r->setting_count ? r->settings[setting] : NULL;
    if (written && json_is_number(value) && strncmp(written, path, n) == 0 && written[n] == '=') {
        copy_name(text, written + n + 1);
        return;
    }
    char *dump = json_is_real(value) ? qkv_key_real_text(json_real_value(value))
                                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    copy_name(text, dump ? dump : "?");
    free(dump);
}

static enum qkv_status fail_value(const struct reader *r, const struct qkv_key *key, const struct qkv_place *place,
                                  const json_t *value) {
    char path[2 * QKV_KEY_PATH], range[RANGE_BYTES], text[NAME_BYTES];
    snprintf(path, sizeof path, "%s%s", place->path, key->name);
    qkv_key_range_text(key, range, sizeof range);
    if (!value) return spec_parse_fail(r, path, "%s is missing; it must be %s", path, range);
    value_text(r, path, value, text);
    return spec_parse_fail(r, path, "%s is %s; it must be %s", path, text, range);
}

/* ---- unknown keys ---------------------------------------------------------------------------------------------- */

/* The path of a key of exactly this name anywhere in the table, the last one found: decoders come last. */
static bool find_elsewhere(const struct qkv_key *keys, const char *prefix, const char *name, char path[QKV_KEY_PATH]) {
    bool found = false;
    for (const struct qkv_key *key = keys; key->name; key++) {
        char inner[QKV_KEY_PATH];
        if (!strcmp(key->name, name) && (found = true)) snprintf(path, QKV_KEY_PATH, "%.30s%s", prefix, name);
        if (key->type != QKV_KEY_OBJECT || !strcmp(key->name, "cross")) continue;
        snprintf(inner, sizeof inner, "%.30s%s.", prefix, key->name);
        if (find_elsewhere(key->keys, inner, name, path)) found = true;
    }
    return found;
}

static enum qkv_status fail_unknown(const struct reader *r, const struct qkv_key *keys, const struct qkv_place *place,
                                    const char *name) {
    char known[KNOWN_BYTES] = "", meant[2 * QKV_KEY_PATH] = "", path[QKV_KEY_PATH + NAME_BYTES], shown[NAME_BYTES];
    size_t used = 0, best = NAME_BYTES;
    for (const struct qkv_key *key = keys; key->name && used < sizeof known; key++) {
        int n = snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", key->name);
        used += n > 0 ? (size_t)n : 0;
        size_t distance = qkv_name_distance(name, key->name);
        if (distance >= best || distance > strlen(name) / 2 + 1) continue;
        best = distance;
        snprintf(meant, sizeof meant, " did you mean %s?", key->name);
    }
    char elsewhere[QKV_KEY_PATH];
    bool exact = find_elsewhere(qkv_spec_keys, "", name, elsewhere);
    if (exact && (best > 2 || strchr(elsewhere, '.'))) snprintf(meant, sizeof meant, " did you mean %s?", elsewhere);
    copy_name(shown, name);
    snprintf(path, sizeof path, "%s%s", place->path, shown);
    return spec_parse_fail(r, path, "unknown key %s;%s known here: %s", path, meant, known);
}

static enum qkv_status check_names(const struct reader *r, const struct qkv_key *keys, const struct qkv_place *place,
                                   const json_t *tree) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)tree, name, value) {
        const struct qkv_key *key = keys;
        while (key->name && strcmp(key->name, name)) key++;
        if (!key->name) return fail_unknown(r, keys, place, name);
    }
    return QKV_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

static bool convert_choice(const struct qkv_key *key, const json_t *value, double *x) {
    const char *text = json_is_string(value) ? json_string_value(value) : NULL;
    for (size_t i = 0; key->choices[i]; i++) {
        const char *choice = key->choices[i];
        bool truth = !strcmp(choice, "true"), lie = !strcmp(choice, "false");
        bool same = truth || lie ? (json_is_true(value) && truth) || (json_is_false(value) && lie)
                                 : text && !strcmp(text, choice);
        if (!same) continue;
        *x = (double)i;
        return true;
    }
    return false;
}

/* The value as a number; false when it is of another type or out of range. */
static bool spec_parse_convert(const struct qkv_key *key, const json_t *value, double *x) {
    switch (key->type) {
    case QKV_KEY_WHOLE:
        *x = (double)json_integer_value(value);
        return json_is_integer(value) && qkv_key_in_range(key, *x);
    case QKV_KEY_REAL:
        *x = json_number_value(value);
        if (json_is_null(value)) return (key->flags & QKV_KEY_NULL) != 0;
        return json_is_number(value) && qkv_key_in_range(key, *x);
    case QKV_KEY_FLAG:
        *x = json_is_true(value);
        return json_is_boolean(value);
    case QKV_KEY_CHOICE:
        return convert_choice(key, value, x);
    default:
        return false;
    }
}

/* Whether the file, before the settings, has a value at a path. */
static bool is_in_file(const struct reader *r, const char *path) {
    const json_t *at = r->file;
    char name[2 * QKV_KEY_PATH];
    while (at && *path) {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        at = json_object_get(at, name);
        path += n + (path[n] == '.');
    }
    return at != NULL;
}

/* A key that means nothing in this spec: in a file its default may stand, and any value of one that is dropped. To set it is
 * a mistake whatever the value, unless the default takes the place of what the file has. */
static enum qkv_status read_idle(const struct reader *r, const struct qkv_key *key, const struct qkv_place *place,
                                 const json_t *value, bool differs) {
    char path[2 * QKV_KEY_PATH], text[NAME_BYTES];
    snprintf(path, sizeof path, "%s%s", place->path, key->name);
    size_t setting = find_setting(r, path);
    if (setting < r->setting_count && r->idle) {
        r->idle[setting] = true;
        return QKV_OK;
    }
    if (setting == r->setting_count && (!differs || key->flags & QKV_KEY_IDLE)) return QKV_OK;
    if (!differs && !(key->flags & QKV_KEY_IDLE) && is_in_file(r, path)) return QKV_OK;
    value_text(r, path, value, text);
    return spec_parse_fail(r, path, "%s is %s, but only %s has one; leave it out", path, text, key->owner);
}

static enum qkv_status read_scalar(const struct reader *r, const struct qkv_key *key, const struct qkv_place *place,
                                   const json_t *value) {
    bool applies = qkv_key_applies(key, place);
    double x, fallback = qkv_key_default(key, place);
    if (!value) {
        if (applies && key->flags & QKV_KEY_REQUIRED && !place->like) return fail_value(r, key, place, NULL);
        qkv_key_set(key, place, fallback);
        return QKV_OK;
    }
    if (!spec_parse_convert(key, value, &x)) return fail_value(r, key, place, value);
    enum qkv_status status = applies ? QKV_OK : read_idle(r, key, place, value, x != fallback);
    qkv_key_set(key, place, applies ? x : fallback);
    return status;
}

/* format and version say that the rest means what is written here. */
static enum qkv_status read_constant(const struct reader *r, const struct qkv_key *key, const json_t *value) {
    char text[NAME_BYTES] = "missing";
    if (value) value_text(r, key->name, value, text);
    if (!strcmp(text, key->text)) return QKV_OK;
    return spec_parse_fail(r, key->name, "%s is %s; a spec that this program reads has \"%s\": %s", key->name, text,
                           key->name, key->text);
}

static enum qkv_status read_object(const struct reader *r, const struct qkv_key *key, const struct qkv_place *place,
                                   const json_t *value) {
    struct qkv_place in = qkv_key_enter(place, key);
    bool stack = in.stack && !place->stack;
    if (!value || json_is_null(value)) {
        bool absent = stack || (in.like && !qkv_key_applies(key, place));
        if (absent) return QKV_OK;
        if (value && !(key->flags & QKV_KEY_NULL)) return fail_value(r, key, place, value);
        return read_keys(r, key->keys, &in, NULL);
    }
    if (!json_is_object(value)) return fail_value(r, key, place, value);
    if (in.like && !qkv_key_applies(key, place)) {
        char path[2 * QKV_KEY_PATH];
        snprintf(path, sizeof path, "%s%s", place->path, key->name);
        return spec_parse_fail(r, path, "%s is given, but only %s has one; leave it out", path, key->owner);
    }
    return read_keys(r, key->keys, &in, value);
}

static enum qkv_status read_keys(const struct reader *r, const struct qkv_key *keys, const struct qkv_place *place,
                                 const json_t *tree) {
    enum qkv_status status = tree ? check_names(r, keys, place, tree) : QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = tree ? json_object_get(tree, key->name) : NULL;
        if (key->type == QKV_KEY_CONSTANT)
            status = read_constant(r, key, value);
        else if (key->type == QKV_KEY_OBJECT)
            status = read_object(r, key, place, value);
        else
            status = read_scalar(r, key, place, value);
    }
    return status;
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

static enum qkv_status fail_setting(const struct reader *r, const char *setting, const char *why) {
    return qkv_fail(r->ctx, QKV_ARGUMENT, "setting \"%.200s\" %s; write KEY=VALUE, like decoder.attention.kv_heads=2",
                    setting, why);
}

/* The object called `name` in `at`, made where it is missing or null; NULL without memory, or when it is no object. */
static json_t *step_into(json_t *at, const char *name) {
    json_t *next = json_object_get(at, name);
    if (next && !json_is_null(next)) return json_is_object(next) ? next : NULL;
    if (json_object_set_new(at, name, json_object())) return NULL;
    return json_object_get(at, name);
}

static enum qkv_status apply_path(const struct reader *r, json_t *root, const char *setting, char *path,
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

/* The value is JSON, or else a text: "kind=rope" needs no quotes. */
static enum qkv_status apply_setting(const struct reader *r, json_t *root, const char *setting) {
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

/* A setting that a later one replaces has no effect. */
static enum qkv_status apply_settings(const struct reader *r, json_t *root) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->setting_count && !status; i++) {
        size_t later = r->setting_count - 1;
        while (later > i && !setting_covers(r->settings[later], r->settings[i])) later--;
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

/* The names, types and ranges of what a tree sets, whatever the spec. */
static enum qkv_status check_values(const struct reader *r, const struct qkv_key *keys, const struct qkv_place *place,
                                    const json_t *tree) {
    enum qkv_status status = check_names(r, keys, place, tree);
    double x;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = json_object_get(tree, key->name);
        struct qkv_place in = qkv_key_enter(place, key);
        if (!value) continue;
        if (key->type == QKV_KEY_CONSTANT)
            status = read_constant(r, key, value);
        else if (key->type == QKV_KEY_OBJECT && json_is_object(value))
            status = check_values(r, key->keys, &in, value);
        else if (key->type == QKV_KEY_OBJECT ? !(json_is_null(value) && key->flags & QKV_KEY_NULL)
                                             : !spec_parse_convert(key, value, &x))
            status = fail_value(r, key, place, value);
    }
    return status;
}

enum qkv_status qkv_spec_check_settings(struct qkv_context *ctx, const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    struct reader r = {.ctx = ctx, .settings = settings, .setting_count = setting_count};
    struct qkv_spec nothing = {0};
    struct qkv_place place = qkv_spec_place(&nothing);
    json_t *root = json_object();
    if (!root) return qkv_fail_memory(ctx, 64, "settings");
    enum qkv_status status = apply_settings(&r, root);
    if (!status) status = check_values(&r, qkv_spec_keys, &place, root);
    json_decref(root);
    return status;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static enum qkv_status load_tree(const struct reader *r, const char *json, size_t size, json_t **root) {
    const struct qkv_json_text text = {.name = r->name, .data = json, .size = size, .max_size = FILE_BYTES};
    enum qkv_status status = qkv_json_load(r->ctx, &text, root);
    if (status) return status;
    if (!json_is_object(*root))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s is not a spec: it must be a JSON object, {\"format\": \"qkv\", ...}",
                        r->name);
    return QKV_OK;
}

enum qkv_status qkv_spec_parse_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *json,
                                   size_t size, const struct qkv_settings *settings) {
    struct reader r = {.ctx = ctx,
                       .name = name ? name : "spec",
                       .settings = settings->items,
                       .setting_count = settings->count,
                       .idle = settings->idle};
    json_t *root = NULL;
    memset(spec, 0, sizeof *spec);
    for (size_t i = 0; r.idle && i < r.setting_count; i++) r.idle[i] = false;
    enum qkv_status status = load_tree(&r, json, size, &root);
    json_t *file = !status && r.setting_count ? json_deep_copy(root) : NULL;
    if (!status && r.setting_count && !file) status = qkv_fail_memory(ctx, size, "a spec");
    r.file = file;
    if (!status) status = apply_settings(&r, root);
    struct qkv_place place = qkv_spec_place(spec);
    if (!status) status = read_keys(&r, qkv_spec_keys, &place, root);
    json_decref(root);
    json_decref(file);
    if (!status) status = qkv_spec_check_as(ctx, spec, r.name, false);
    if (status) memset(spec, 0, sizeof *spec);
    return status;
}

enum qkv_status qkv_spec_parse(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *json,
                               size_t size, const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    return qkv_spec_parse_all(ctx, spec, name, json, size,
                              &(struct qkv_settings){.items = settings, .count = setting_count});
}

enum qkv_status qkv_spec_read_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                  const struct qkv_settings *settings) {
    struct qkv_file file;
    struct qkv_map map = {0};
    memset(spec, 0, sizeof *spec);
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    size_t size = file.size;
    qkv_file_close(&file);
    if (size > FILE_BYTES)
        return qkv_fail(ctx, QKV_FORMAT, "%s is not a spec: it has %zu bytes, a config.json has at most %d", path, size,
                        FILE_BYTES);
    status = qkv_read_file(ctx, path, &map);
    if (!status) status = qkv_spec_parse_all(ctx, spec, path, (const char *)map.data, map.size, settings);
    qkv_unmap_file(&map);
    return status;
}

enum qkv_status qkv_spec_read(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                              const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    return qkv_spec_read_all(ctx, spec, path, &(struct qkv_settings){.items = settings, .count = setting_count});
}
