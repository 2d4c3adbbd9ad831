/* What reading a spec is made of: sentences about keys and where they are written, names that are no keys, values of
 * each type. */
#include "model/spec_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { NAME_BYTES = QKV_SPEC_NAME, RANGE_BYTES = 256, KNOWN_BYTES = 512 };

/* ---- messages --------------------------------------------------------------------------------------------------- */

/* Whether a setting is of the key at `path`, or of an object that holds it. */
bool qkv_setting_covers(const char *setting, const char *path) {
    size_t n = strcspn(setting, "=");
    return !strncmp(setting, path, n) && (path[n] == 0 || path[n] == '.' || path[n] == '=');
}

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
    if (setting == r->setting_count)
        qkv_fail(r->ctx, QKV_SPEC, "%s: %s", r->name, text);
    else if (!r->name)
        qkv_fail(r->ctx, QKV_SPEC, "setting \"%.200s\": %s", r->settings[setting], text);
    else
        qkv_fail(r->ctx, QKV_SPEC, "%s, set by %.200s: %s", r->name, r->settings[setting], text);
    qkv_spec_fail_key(r->ctx, path);
    return QKV_SPEC;
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

static const char *choice_at(const void *list, size_t i) {
    return ((const struct qkv_spec_choice *)list)[i].text;
}

/* The value of a key that is closest to what was written; NULL if none is close. */
static const char *closest_choice(const struct qkv_key *key, const json_t *value) {
    size_t count = 0;
    if (key->type != QKV_KEY_CHOICE || !json_is_string(value)) return NULL;
    while (key->choices[count].text) count++;
    const char *closest = qkv_closest_name(json_string_value(value), choice_at, key->choices, count);
    return closest && *closest ? closest : NULL;
}

enum qkv_status qkv_spec_reader_fail_value(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                           const struct qkv_place *place, const json_t *value) {
    char path[QKV_SPEC_PATH], range[RANGE_BYTES], text[NAME_BYTES];
    qkv_spec_reader_path(r, place, key->name, path);
    qkv_key_range_text(key, range, sizeof range);
    if (!value) return qkv_spec_reader_fail(r, path, "%s is missing; it must be %s", path, range);
    qkv_spec_reader_show(r, path, value, text);
    const char *closest = closest_choice(key, value);
    return qkv_spec_reader_fail(r, path, "%s is %s; it must be %s%s%s%s", path, text, range,
                                closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
}

/* ---- unknown keys ---------------------------------------------------------------------------------------------- */

/* A key to search for. If `object` is true, its value has keys of its own, so only objects are meant. If `first` is
 * true, the words are those of version 1. */
struct meant {
    const char *name;
    bool object, first;
};

/* The path of a key of exactly this name anywhere in the table, the last one found. */
static bool find_elsewhere(const struct qkv_key *keys, const struct meant *m, const char *prefix,
                           char path[QKV_KEY_PATH]) {
    bool found = false;
    for (const struct qkv_key *key = keys; key->name; key++) {
        char inner[QKV_KEY_PATH];
        if (m->first && qkv_version1_lacks(key)) continue;
        const bool suits = !strcmp(key->name, m->name) && (!m->object || key->type == QKV_KEY_OBJECT);
        if (suits && (found = true)) snprintf(path, QKV_KEY_PATH, "%.60s%s", prefix, m->name);
        if (key->type != QKV_KEY_OBJECT || !strcmp(key->name, "cross")) continue;
        snprintf(inner, sizeof inner, "%.60s%s.", prefix, key->name);
        if (find_elsewhere(key->keys, m, inner, path)) found = true;
    }
    return found;
}

/* The same in the decoder, or if that has none, anywhere: in the words of the file, or of settings, which are those of
 * version 1 where both versions have words for it. */
static bool find_meant(const struct qkv_spec_reader *r, const char *path, const char *name, const json_t *value,
                       char found[QKV_KEY_PATH]) {
    const bool set = qkv_spec_reader_setting(r, path) < r->setting_count;
    const bool second = json_integer_value(json_object_get(r->file, "version")) == 2;
    const struct meant m = {.name = name, .object = json_is_object(value), .first = set || !second};
    const struct qkv_key *decoder = qkv_spec_keys;
    while (strcmp(decoder->name, "decoder")) decoder++;
    return find_elsewhere(decoder->keys, &m, "decoder.", found) ||
           (m.first && find_elsewhere(qkv_version1_keys, &m, "", found)) ||
           find_elsewhere(qkv_spec_keys, &m, "", found);
}

static enum qkv_status fail_unknown(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                    const struct qkv_place *place, const char *name, const json_t *value) {
    char known[KNOWN_BYTES] = "", meant[2 * QKV_KEY_PATH] = "", path[QKV_SPEC_PATH], shown[NAME_BYTES];
    size_t used = 0, best = NAME_BYTES;
    for (const struct qkv_key *key = keys; used < sizeof known; key++) {
        if (!key->name && keys == qkv_spec_keys) key = keys = qkv_version1_keys;
        if (!key->name) break;
        int n = snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", key->name);
        used += n > 0 ? (size_t)n : 0;
        size_t distance = qkv_name_distance(name, key->name);
        if (distance >= best || distance > strlen(name) / 2 + 1) continue;
        best = distance;
        snprintf(meant, sizeof meant, " did you mean %s?", key->name);
    }
    char elsewhere[QKV_KEY_PATH];
    qkv_spec_reader_cut(shown, name);
    qkv_spec_reader_path(r, place, shown, path);
    bool exact = find_meant(r, path, name, value, elsewhere);
    if (exact && (best > 2 || strchr(elsewhere, '.'))) snprintf(meant, sizeof meant, " did you mean %s?", elsewhere);
    return qkv_spec_reader_fail(r, path, "unknown key %s;%s known here: %s", path, meant, known);
}

enum qkv_status qkv_spec_reader_check_names(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                            const struct qkv_place *place, const json_t *tree) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)tree, name, value) {
        const struct qkv_key *key = keys;
        while (key->name && strcmp(key->name, name)) key++;
        if (!key->name) return fail_unknown(r, keys, place, name, value);
    }
    return QKV_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool convert_choice(const struct qkv_key *key, const json_t *value, double *x) {
    const char *text = json_is_string(value) ? json_string_value(value) : NULL;
    for (size_t i = 0; key->choices[i].text; i++) {
        const char *choice = key->choices[i].text;
        bool truth = !strcmp(choice, "true"), lie = !strcmp(choice, "false");
        bool same = truth || lie ? (json_is_true(value) && truth) || (json_is_false(value) && lie)
                                 : text && !strcmp(text, choice);
        if (!same || !*choice) continue;
        *x = (double)i;
        return true;
    }
    return false;
}

/* How many numbers there are, all in the range. */
static bool convert_list(const struct qkv_key *key, const json_t *value, double *x) {
    const size_t count = json_array_size(value);
    bool fine = json_is_array(value) && count >= 1 && count <= QKV_LIST_MAX;
    for (size_t i = 0; i < count && fine; i++) {
        const json_t *number = json_array_get(value, i);
        fine = json_is_number(number) && qkv_key_in_range(key, json_number_value(number));
    }
    *x = (double)count;
    return fine;
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
        if (!json_is_number(value) || (*x < 0 && key->flags & QKV_KEY_RATE)) return false;
        if (*x == 0 && key->flags & QKV_KEY_RATE) *x = -1;
        return qkv_key_in_range(key, *x);
    case QKV_KEY_LIST:
        return convert_list(key, value, x);
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
    const char *inner = strchr(place->path, '.'); /* what a stack has of its own, or both have in common */
    if (inner && !strncmp(inner, ".embed.", 7) && !qkv_spec_reader_at(r->tree, path)) {
        const char *common = strchr(path, '.') + 1; /* after the name of the stack */
        if (!qkv_spec_reader_at(r->tree, common)) return false;
        memmove(path, common, strlen(common) + 1);
        return qkv_spec_topology(place->spec) == QKV_ENCODER_DECODER;
    }
    if (!kinds || qkv_spec_reader_at(r->tree, path)) return false;
    char shared[QKV_SPEC_PATH];
    const char *part = strchr(kinds + strlen(".kinds."), '.');
    snprintf(shared, sizeof shared, "%.*s%s%.*s", (int)(kinds - place->path), place->path, part, QKV_KEY_PATH / 2,
             name);
    if (!qkv_spec_reader_at(r->tree, shared)) return false;
    memcpy(path, shared, sizeof shared);
    return true;
}

/* format and version say that the rest means what is written here. */
enum qkv_status qkv_spec_reader_constant(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                         const json_t *value) {
    char text[NAME_BYTES] = "missing";
    double x;
    bool version = key->type == QKV_KEY_VERSION;
    if (value) qkv_spec_reader_show(r, key->name, value, text);
    if (version ? value && qkv_spec_reader_convert(key, value, &x) : !strcmp(text, key->text)) return QKV_OK;
    return qkv_spec_reader_fail(r, key->name, "%s is %s; a spec that this program reads has \"%s\": %s", key->name,
                                text, key->name, key->text);
}
