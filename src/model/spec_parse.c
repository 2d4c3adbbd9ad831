/* Reads the keys of a spec from JSON: every key by its line in the table, in the table's order, so that the keys that a
 * default depends on are read before it. */
#include "model/spec_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = QKV_SPEC_NAME };

/* A key that does not apply in this spec. A file may have its default, or any value of a key with QKV_KEY_IDLE. A
 * setting of it is an error whatever the value, unless it resets the file's value to the default. */
static enum qkv_status read_idle(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                 const struct qkv_place *place, const json_t *value, bool differs) {
    char path[QKV_SPEC_PATH], text[NAME_BYTES];
    bool shared = qkv_spec_reader_path(r, place, key->name, path); /* the key may apply in another kind */
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

/* Notes that a setting of a key that is common to kinds has an effect in this kind. */
static void note_shared(const struct qkv_spec_reader *r, const struct qkv_key *key, const struct qkv_place *place) {
    char path[QKV_SPEC_PATH];
    if (!r->setting_count) return;
    qkv_spec_reader_path(r, place, key->name, path);
    size_t setting = qkv_spec_reader_setting(r, path);
    if (setting < r->setting_count) r->shared[setting] = true;
}

/* Reads numbers that are in their range; NULL: an empty list. */
static void read_list(const struct qkv_key *key, const struct qkv_place *place, const json_t *value) {
    struct qkv_number_list list = {.count = (int)json_array_size(value)};
    for (int i = 0; i < list.count; i++) list.values[i] = json_number_value(json_array_get(value, (size_t)i));
    memcpy((char *)place->object + key->offset, &list, sizeof list);
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
    if (key->type == QKV_KEY_LIST)
        read_list(key, place, applies ? value : NULL);
    else
        qkv_key_set(key, place, applies ? x : fallback);
    return status;
}

/* An object that does not apply is an error, except in settings for several specs. */
static enum qkv_status read_idle_object(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                        const struct qkv_place *place) {
    char path[QKV_SPEC_PATH];
    const bool shared = qkv_spec_reader_path(r, place, key->name, path);
    const size_t n = strlen(path);
    bool told = shared || (key->flags & QKV_KEY_IDLE && qkv_spec_reader_setting(r, path) == r->setting_count);
    for (size_t i = 0; i < r->setting_count; i++) {
        const char *setting = r->settings[i];
        if (strncmp(setting, path, n) || (setting[n] != '.' && setting[n] != '=')) continue;
        if (!r->idle) told = shared;
        if (!r->idle) continue;
        r->idle[i] = true;
        told = told || !qkv_spec_reader_at(r->file, path) || json_is_null(qkv_spec_reader_at(r->file, path));
    }
    return told ? QKV_OK
                : qkv_spec_reader_fail(r, path, "%s is given, but only %s has one; leave it out", path, key->owner);
}

/* Copies an object that cross attention does not have from the self attention. */
static void take_over(const struct qkv_key *object, const struct qkv_place *cross) {
    struct qkv_place self = *cross;
    self.object = &cross->layer->attention;
    qkv_key_give(object, cross, qkv_key_given(object, &self));
    const struct qkv_place from = qkv_key_enter(&self, object), to = qkv_key_enter(cross, object);
    for (const struct qkv_key *key = object->keys; key->name && qkv_key_given(object, &self); key++)
        qkv_key_set(key, &to, qkv_key_get(key, &from));
}

/* Whether only settings make an object that is common to kinds, and it lacks a required key: the settings are then
 * meant for the kinds that have that key. */
static bool settings_of_others(const struct qkv_spec_reader *r, const struct qkv_key *key,
                               const struct qkv_place *place, const json_t *value) {
    char path[QKV_SPEC_PATH];
    bool missing = false;
    for (const struct qkv_key *inner = key->keys; inner->name; inner++)
        missing = missing || (inner->flags & QKV_KEY_REQUIRED && !json_object_get(value, inner->name));
    return missing && qkv_spec_reader_path(r, place, key->name, path) &&
           !json_is_object(qkv_spec_reader_at(r->file, path));
}

static enum qkv_status read_optional(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                     const struct qkv_place *place, const json_t *value) {
    const struct qkv_place in = qkv_key_enter(place, key);
    const bool given = json_is_object(value);
    if (given && settings_of_others(r, key, place, value)) return read_optional(r, key, place, NULL);
    if (value && !given && !json_is_null(value)) return qkv_spec_reader_fail_value(r, key, place, value);
    qkv_key_give(key, place, false);
    if (given && !qkv_key_applies(key, place)) return read_idle_object(r, key, place);
    if (value && qkv_key_applies(key, place)) note_shared(r, key, place);
    if (!value && place->like && qkv_key_applies(key, place)) take_over(key, place);
    if (!given) return QKV_OK;
    qkv_key_give(key, place, true);
    return qkv_spec_reader_keys(r, key->keys, &in, value);
}

static enum qkv_status read_object(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                   const struct qkv_place *place, const json_t *value) {
    struct qkv_place in = qkv_key_enter(place, key);
    bool stack = in.stack && !place->stack;
    if (key->flags & QKV_KEY_OPTIONAL) return read_optional(r, key, place, value);
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

/* Reads each kind as one object, and notes whether settings of common keys had an effect. */
static enum qkv_status read_kinds(const struct qkv_spec_reader *r, const struct qkv_key *kinds,
                                  const struct qkv_place *place, const json_t *stack) {
    const struct qkv_stack_spec *s = place->stack;
    enum qkv_status status = QKV_OK;
    if (!s->kinds[0].name[0]) return QKV_OK;
    for (size_t i = 0; i < (size_t)s->kind_count && !status; i++) {
        struct qkv_place in = qkv_kind_enter(place, kinds, i);
        json_t *kind = qkv_spec_reader_kind(kinds, stack, s->kinds[i].name);
        status = kind ? qkv_spec_reader_keys(r, kinds->keys, &in, kind) : qkv_fail_memory(r->ctx, 64, "a spec");
        json_decref(kind);
    }
    return status ? status : qkv_spec_reader_check_shared(r, kinds->keys, place);
}

/* Fails if a setting of a key that is common to both stacks has no effect in either. */
static enum qkv_status check_common(const struct qkv_spec_reader *r, const struct qkv_key *key) {
    const size_t n = strlen(key->name);
    for (size_t i = 0; i < r->setting_count; i++) {
        const char *setting = r->settings[i];
        const bool here = !strncmp(setting, key->name, n) && (setting[n] == '.' || setting[n] == '=');
        if (!here || r->shared[i]) continue;
        if (!r->idle)
            return qkv_fail(
                r->ctx, QKV_SPEC,
                "%s: setting \"%.200s\" has no effect, as each stack has its own or neither has a use for it; "
                "leave it out, or set it in a stack, decoder.%.*s",
                r->name, setting, (int)strcspn(setting, "="), setting);
        r->idle[i] = true;
    }
    return QKV_OK;
}

/* A stack that inherits a common object, and its own object, which overrides that. */
struct reader_of_common {
    struct qkv_place place;
    const json_t *own;
    const char *stack;
};

static bool has_own(const struct reader_of_common *s, const char *name) {
    return s->own && (!json_is_object(s->own) || json_object_get(s->own, name));
}

/* Whether a value differs from the default, in every stack that does not override it. */
static bool says_something(const struct qkv_key *key, const struct reader_of_common *stacks, size_t count,
                           const json_t *value) {
    double x;
    bool differs = qkv_spec_reader_convert(key, value, &x);
    for (size_t i = 0; i < count && differs; i++)
        differs = has_own(&stacks[i], key->name) || x != qkv_key_default(key, &stacks[i].place);
    return differs;
}

static enum qkv_status fail_overridden(const struct qkv_spec_reader *r, const char *key, const json_t *value,
                                       const struct reader_of_common *stacks, size_t count) {
    char text[NAME_BYTES];
    qkv_spec_reader_show(r, key, value, text);
    if (count == 1)
        return qkv_fail(r->ctx, QKV_SPEC,
                        "%s: %s is %s, but no stack reads it, as %s.%s is given; leave one of the two out", r->name,
                        key, text, stacks[0].stack, key);
    return qkv_fail(r->ctx, QKV_SPEC,
                    "%s: %s is %s, but no stack reads it, as %s.%s and %s.%s are given; leave one of the three out",
                    r->name, key, text, stacks[0].stack, key, stacks[1].stack, key);
}

/* Fails if a file has a common key that no stack reads: it does not apply, or every stack overrides it. */
static enum qkv_status check_read(const struct qkv_spec_reader *r, const char *path, const struct qkv_key *keys,
                                  const json_t *common, const struct reader_of_common *stacks, size_t count) {
    char at[QKV_SPEC_PATH], text[NAME_BYTES];
    enum qkv_status status = QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = json_object_get(common, key->name);
        struct reader_of_common in[2];
        bool own = true, closed = true, used = false;
        if (!value) continue;
        snprintf(at, sizeof at, "%s.%s", path, key->name);
        for (size_t i = 0; i < count; i++) {
            const json_t *said =
                json_is_object(stacks[i].own) ? json_object_get(stacks[i].own, key->name) : stacks[i].own;
            in[i] = (struct reader_of_common){qkv_key_enter(&stacks[i].place, key), said, stacks[i].stack};
            own = own && said;
            closed = closed && said && !json_is_object(said);
            used = used || (!said && qkv_key_applies(key, &stacks[i].place));
        }
        if (json_is_object(value) ? closed : own)
            status = fail_overridden(r, at, value, stacks, count);
        else if (json_is_object(value))
            status = check_read(r, at, key->keys, value, in, count);
        else if (!used && key->owner && !(key->flags & QKV_KEY_IDLE) && says_something(key, stacks, count, value)) {
            qkv_spec_reader_show(r, at, value, text);
            status = qkv_spec_reader_fail(r, at, "%s is %s, but only %s has one; leave it out", at, text, key->owner);
        }
    }
    return status;
}

/* Reads an object of every stack: its own keys, over those that are common to the stacks. */
static enum qkv_status read_common(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                   const struct qkv_place *place, const json_t *tree) {
    const json_t *common = json_object_get(tree, key->name);
    struct reader_of_common stacks[2];
    size_t count = 0;
    enum qkv_status status = QKV_OK;
    if (common && !json_is_object(common)) return qkv_spec_reader_fail_value(r, key, place, common);
    for (const struct qkv_key *stack = qkv_spec_keys; stack->name && !status; stack++) {
        const struct qkv_place in = qkv_key_enter(place, stack);
        if (!in.stack || stack->flags & QKV_KEY_COMMON || in.stack->layers == 0) continue;
        const struct qkv_key *part = stack->keys;
        while (!(part->flags & QKV_KEY_COMMON)) part++;
        const struct qkv_place at = qkv_key_enter(&in, part);
        const json_t *own = json_object_get(json_object_get(tree, stack->name), part->name);
        if (own && !json_is_object(own)) return qkv_spec_reader_fail_value(r, part, &in, own);
        json_t *whole = qkv_spec_reader_over(common, own);
        status = whole ? qkv_spec_reader_keys(r, part->keys, &at, whole) : qkv_fail_memory(r->ctx, 64, "a spec");
        json_decref(whole);
        own = json_object_get(json_object_get(r->file, stack->name), part->name);
        stacks[count++] = (struct reader_of_common){at, own, stack->name};
    }
    if (!status) status = check_read(r, key->name, key->keys, json_object_get(r->file, key->name), stacks, count);
    return !status && count == 2 ? check_common(r, key) : status;
}

enum qkv_status qkv_spec_reader_keys(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                     const struct qkv_place *place, const json_t *tree) {
    enum qkv_status status = tree ? qkv_spec_reader_check_names(r, keys, place, tree) : QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = tree ? json_object_get(tree, key->name) : NULL;
        bool shared =
            key->flags & QKV_KEY_OF_LAYER && place->object == (void *)place->stack && place->stack->kinds[0].name[0];
        if (shared) continue; /* keys that are common to kinds are read with each kind */
        if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION)
            status = qkv_spec_reader_constant(r, key, value);
        else if (key->flags & QKV_KEY_COMMON) /* an object inside a stack is read with the common one */
            status = place->stack ? QKV_OK : read_common(r, key, place, tree);
        else if (key->type == QKV_KEY_OBJECT)
            status = read_object(r, key, place, value);
        else if (key->type == QKV_KEY_PATTERN)
            status = qkv_spec_reader_pattern(r, keys, place, tree);
        else if (key->type == QKV_KEY_KINDS)
            status = read_kinds(r, key, place, tree);
        else
            status = read_scalar(r, key, place, value);
    }
    return status;
}
