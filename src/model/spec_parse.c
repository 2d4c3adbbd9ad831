/* Reads a spec from JSON: the settings are put into the tree first, then every key is read by its line in the table, in the
 * table's order, so that defaults see what they depend on. */
#include "model/spec_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { FILE_BYTES = 1 << 20, NAME_BYTES = QKV_SPEC_NAME, RANGE_BYTES = 256, KNOWN_BYTES = 512 };

/* ---- messages --------------------------------------------------------------------------------------------------- */

size_t qkv_spec_reader_setting(const struct qkv_spec_reader *r, const char *path) {
    for (size_t i = r->setting_count; i-- > 0;)
        if (qkv_setting_covers(r->settings[i], path)) return i;
    return r->setting_count;
}

enum qkv_status qkv_spec_reader_fail(const struct qkv_spec_reader *r, const char *path, const char *format, ...) {
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t setting = qkv_spec_reader_setting(r, path);
    if (!r->name && setting == r->setting_count) /* of an object that settings made */
        for (setting = 0; setting + 1 < r->setting_count && strncmp(r->settings[setting], path, strlen(path));)
            setting++;
    if (setting == r->setting_count) return qkv_fail(r->ctx, QKV_SPEC, "%s: %s", r->name, text);
    if (!r->name) return qkv_fail(r->ctx, QKV_SPEC, "setting \"%.200s\": %s", r->settings[setting], text);
    return qkv_fail(r->ctx, QKV_SPEC, "%s, set by %.200s: %s", r->name, r->settings[setting], text);
}

void qkv_spec_reader_cut(char out[NAME_BYTES], const char *text) {
    size_t n = strlen(text);
    bool cut = n >= NAME_BYTES;
    if (cut) n = qkv_utf8_cut(text, NAME_BYTES - 4);
    memcpy(out, text, n);
    memcpy(out + n, cut ? "..." : "", cut ? 4 : 1);
}

void qkv_spec_reader_show(const struct qkv_spec_reader *r, const char *path, const json_t *value,
                          char text[NAME_BYTES]) {
    size_t setting = qkv_spec_reader_setting(r, path), n = strlen(path);
    const char *written = setting < r->setting_count ? r->settings[setting] : NULL;
    if (written && json_is_number(value) && strncmp(written, path, n) == 0 && written[n] == '=') {
        qkv_spec_reader_cut(text, written + n + 1);
        return;
    }
    char *dump = json_is_real(value) ? qkv_key_real_text(json_real_value(value))
                                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    qkv_spec_reader_cut(text, dump ? dump : "?");
    free(dump);
}

enum qkv_status qkv_spec_reader_fail_value(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                           const struct qkv_place *place, const json_t *value) {
    char path[QKV_SPEC_PATH], range[RANGE_BYTES], text[NAME_BYTES];
    qkv_spec_reader_path(r, place, key->name, path);
    qkv_key_range_text(key, range, sizeof range);
    if (!value) return qkv_spec_reader_fail(r, path, "%s is missing; it must be %s", path, range);
    qkv_spec_reader_show(r, path, value, text);
    return qkv_spec_reader_fail(r, path, "%s is %s; it must be %s", path, text, range);
}

/* ---- unknown keys ---------------------------------------------------------------------------------------------- */

/* The path of a key of exactly this name anywhere in the table, the last one found: decoders come last. */
static bool find_elsewhere(const struct qkv_key *keys, const char *prefix, const char *name, char path[QKV_KEY_PATH]) {
    bool found = false;
    for (const struct qkv_key *key = keys; key->name; key++) {
        char inner[QKV_KEY_PATH];
        if (!strcmp(key->name, name) && (found = true)) snprintf(path, QKV_KEY_PATH, "%.30s%s", prefix, name);
        if (key->type != QKV_KEY_OBJECT || !strcmp(key->name, "cross") || key->flags & QKV_KEY_VERSION_2) continue;
        snprintf(inner, sizeof inner, "%.30s%s.", prefix, key->name);
        if (find_elsewhere(key->keys, inner, name, path)) found = true;
    }
    return found;
}

static enum qkv_status fail_unknown(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                    const struct qkv_place *place, const char *name) {
    char known[KNOWN_BYTES] = "", meant[2 * QKV_KEY_PATH] = "", path[QKV_SPEC_PATH], shown[NAME_BYTES];
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
    qkv_spec_reader_cut(shown, name);
    qkv_spec_reader_path(r, place, shown, path);
    return qkv_spec_reader_fail(r, path, "unknown key %s;%s known here: %s", path, meant, known);
}

enum qkv_status qkv_spec_reader_check_names(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                            const struct qkv_place *place, const json_t *tree) {
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
        if (!same || !*choice) continue;
        *x = (double)i;
        return true;
    }
    return false;
}

bool qkv_spec_reader_convert(const struct qkv_key *key, const json_t *value, double *x) {
    switch (key->type) {
    case QKV_KEY_VERSION:
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

const json_t *qkv_spec_reader_at(const json_t *tree, const char *path) {
    char name[QKV_SPEC_PATH];
    while (tree && *path) {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        tree = json_object_get(tree, name);
        path += n + (path[n] == '.');
    }
    return tree;
}

bool qkv_spec_reader_path(const struct qkv_spec_reader *r, const struct qkv_place *place, const char *name,
                          char path[QKV_SPEC_PATH]) {
    const char *kinds = strstr(place->path, ".kinds.");
    snprintf(path, QKV_SPEC_PATH, "%s%.*s", place->path, QKV_KEY_PATH / 2, name);
    if (!kinds || qkv_spec_reader_at(r->tree, path)) return false;
    char shared[QKV_SPEC_PATH];
    const char *part = strchr(kinds + strlen(".kinds."), '.');
    snprintf(shared, sizeof shared, "%.*s%s%.*s", (int)(kinds - place->path), place->path, part, QKV_KEY_PATH / 2,
             name);
    if (!qkv_spec_reader_at(r->tree, shared)) return false;
    memcpy(path, shared, sizeof shared);
    return true;
}

/* A key that means nothing in this spec: in a file its default may stand, and any value of one that is dropped. To set it is
 * a mistake whatever the value, unless the default takes the place of what the file has. */
static enum qkv_status read_idle(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                 const struct qkv_place *place, const json_t *value, bool differs) {
    char path[QKV_SPEC_PATH], text[NAME_BYTES];
    bool shared = qkv_spec_reader_path(r, place, key->name, path); /* another kind may have a use for it */
    size_t setting = qkv_spec_reader_setting(r, path);
    if (shared) return QKV_OK;
    if (setting < r->setting_count && r->idle) {
        r->idle[setting] = true;
        return QKV_OK;
    }
    if (setting == r->setting_count && (!differs || key->flags & QKV_KEY_IDLE)) return QKV_OK;
    if (!differs && !(key->flags & QKV_KEY_IDLE) && qkv_spec_reader_at(r->file, path)) return QKV_OK;
    qkv_spec_reader_show(r, path, value, text);
    return qkv_spec_reader_fail(r, path, "%s is %s, but only %s has one; leave it out", path, text, key->owner);
}

/* A setting of what kinds have in common has an effect in this one. */
static void note_shared(const struct qkv_spec_reader *r, const struct qkv_key *key, const struct qkv_place *place) {
    char path[QKV_SPEC_PATH];
    if (!r->setting_count || !qkv_spec_reader_path(r, place, key->name, path)) return;
    size_t setting = qkv_spec_reader_setting(r, path);
    if (setting < r->setting_count) r->shared[setting] = true;
}

static enum qkv_status read_scalar(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                   const struct qkv_place *place, const json_t *value) {
    bool applies = qkv_key_applies(key, place);
    double x, fallback = qkv_key_default(key, place);
    if (!value) {
        if (applies && key->flags & QKV_KEY_REQUIRED && !place->like)
            return qkv_spec_reader_fail_value(r, key, place, NULL);
        qkv_key_set(key, place, fallback);
        return QKV_OK;
    }
    if (!qkv_spec_reader_convert(key, value, &x)) return qkv_spec_reader_fail_value(r, key, place, value);
    if (applies) note_shared(r, key, place);
    enum qkv_status status = applies ? QKV_OK : read_idle(r, key, place, value, x != fallback);
    qkv_key_set(key, place, applies ? x : fallback);
    return status;
}

/* format and version say that the rest means what is written here. */
enum qkv_status qkv_spec_reader_constant(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                         const struct qkv_place *place, const json_t *value) {
    char text[NAME_BYTES] = "missing";
    double x;
    bool version = key->type == QKV_KEY_VERSION;
    if (value) qkv_spec_reader_show(r, key->name, value, text);
    if (version && value && qkv_spec_reader_convert(key, value, &x)) {
        qkv_key_set(key, place, x);
        return QKV_OK;
    }
    if (!version && !strcmp(text, key->text)) return QKV_OK;
    return qkv_spec_reader_fail(r, key->name, "%s is %s; a spec that this program reads has \"%s\": %s", key->name,
                                text, key->name, key->text);
}

/* Files have the keys of their version; settings may be written in either. */
static enum qkv_status check_version(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                     const struct qkv_place *place) {
    int version = place->written->version;
    char path[QKV_SPEC_PATH];
    qkv_spec_reader_path(r, place, key->name, path);
    bool other = key->flags & (version == 1 ? QKV_KEY_VERSION_2 : QKV_KEY_VERSION_1);
    if (!other || !qkv_spec_reader_at(r->file, path)) return QKV_OK;
    if (version == 1)
        return qkv_spec_reader_fail(r, path, "%s is a key of version 2, but version is 1; write \"version\": 2", path);
    return qkv_spec_reader_fail(r, path, "%s is a key of version 1, but version is 2, which has %s instead", path,
                                key->instead);
}

static enum qkv_status read_object(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                   const struct qkv_place *place, const json_t *value) {
    struct qkv_place in = qkv_key_enter(place, key);
    bool stack = in.stack && !place->stack;
    if (!value || json_is_null(value)) {
        if (stack || (place->layer && !qkv_key_applies(key, place))) return QKV_OK;
        if (value && !(key->flags & QKV_KEY_NULL)) return qkv_spec_reader_fail_value(r, key, place, value);
        return qkv_spec_reader_keys(r, key->keys, &in, NULL);
    }
    if (!json_is_object(value)) return qkv_spec_reader_fail_value(r, key, place, value);
    if (place->layer && !qkv_key_applies(key, place)) {
        char path[QKV_SPEC_PATH];
        qkv_spec_reader_path(r, place, key->name, path);
        return qkv_spec_reader_fail(r, path, "%s is given, but only %s has one; leave it out", path, key->owner);
    }
    return qkv_spec_reader_keys(r, key->keys, &in, value);
}

enum qkv_status qkv_spec_reader_keys(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                     const struct qkv_place *place, const json_t *tree) {
    enum qkv_status status = tree ? qkv_spec_reader_check_names(r, keys, place, tree) : QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = tree ? json_object_get(tree, key->name) : NULL;
        bool shared =
            key->type == QKV_KEY_OBJECT && place->object == (void *)place->stack && place->stack->kinds[0].name[0];
        status = check_version(r, key, place);
        for (const struct qkv_key *later = key; key->type == QKV_KEY_PATTERN && later->name && !status; later++)
            status = check_version(r, later, place);
        if (status || shared) continue; /* what kinds have in common is read with each of them */
        if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION)
            status = qkv_spec_reader_constant(r, key, place, value);
        else if (key->type == QKV_KEY_OBJECT)
            status = read_object(r, key, place, value);
        else if (key->type == QKV_KEY_PATTERN)
            status = qkv_spec_reader_pattern(r, keys, place, tree);
        else if (key->type == QKV_KEY_KINDS)
            status = qkv_spec_reader_kinds(r, key, place, tree);
        else
            status = read_scalar(r, key, place, value);
    }
    return status;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static enum qkv_status load_tree(const struct qkv_spec_reader *r, const char *json, size_t size, json_t **root) {
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
    struct qkv_spec_reader r = {.ctx = ctx,
                                .name = name ? name : "spec",
                                .settings = settings->items,
                                .setting_count = settings->count,
                                .idle = settings->idle};
    struct qkv_written_spec written = {.reading = true}, canonical;
    json_t *root = NULL;
    memset(spec, 0, sizeof *spec);
    for (size_t i = 0; r.idle && i < r.setting_count; i++) r.idle[i] = false;
    enum qkv_status status = load_tree(&r, json, size, &root);
    json_t *file = !status && r.setting_count ? json_deep_copy(root) : NULL;
    if (!status && r.setting_count && !file) status = qkv_fail_memory(ctx, size, "a spec");
    r.shared = !status ? qkv_allocate(ctx, r.setting_count + 1, sizeof *r.shared) : NULL;
    if (!status && !r.shared) status = QKV_MEMORY;
    r.file = file ? file : root;
    r.tree = root;
    if (!status) status = qkv_spec_reader_settings(&r, root);
    struct qkv_place place = qkv_spec_place(&written);
    written.position_given =
        json_object_get(root, "position") || json_integer_value(json_object_get(root, "version")) != 2;
    if (!status) status = qkv_spec_reader_keys(&r, qkv_spec_keys, &place, root);
    json_decref(root);
    json_decref(file);
    free(r.shared);
    qkv_spec_write(&written.spec, &canonical);
    if (written.version == 2) canonical.version = 2;
    if (!status) status = qkv_spec_check_written(ctx, &canonical, r.name, false);
    if (!status) *spec = written.spec;
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
