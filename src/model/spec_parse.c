/* Reads a spec from JSON: settings are put into the tree first, then every key is read by its line in the table, in the
 * table's order, so that the keys that a default depends on are read before it. */
#include "model/spec_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20, NAME_BYTES = QKV_SPEC_NAME };

static enum qkv_status read_keys(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                 const struct qkv_place *place, const json_t *tree);

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

/* Fails if a file has a key of the other version; settings may use both. */
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
    if (!value && qkv_key_applies(key, place)) qkv_key_inherit(key, place);
    if (given && !qkv_key_applies(key, place)) return read_idle_object(r, key, place);
    if (value && qkv_key_applies(key, place)) note_shared(r, key, place);
    if (!value && place->like && qkv_key_applies(key, place)) take_over(key, place);
    if (!given) return QKV_OK;
    qkv_key_give(key, place, true);
    return read_keys(r, key->keys, &in, value);
}

static enum qkv_status read_object(const struct qkv_spec_reader *r, const struct qkv_key *key,
                                   const struct qkv_place *place, const json_t *value) {
    struct qkv_place in = qkv_key_enter(place, key);
    bool stack = in.stack && !place->stack;
    if (key->flags & QKV_KEY_OPTIONAL) return read_optional(r, key, place, value);
    if (!value || json_is_null(value)) {
        if (stack || (place->layer && !qkv_key_applies(key, place))) return QKV_OK;
        if (value && !(key->flags & QKV_KEY_NULL)) return qkv_spec_reader_fail_value(r, key, place, value);
        return read_keys(r, key->keys, &in, NULL);
    }
    if (!json_is_object(value)) return qkv_spec_reader_fail_value(r, key, place, value);
    if (place->layer && !qkv_key_applies(key, place)) {
        char path[QKV_SPEC_PATH];
        qkv_spec_reader_path(r, place, key->name, path);
        return qkv_spec_reader_fail(r, path, "%s is given, but only %s has one; leave it out", path, key->owner);
    }
    return read_keys(r, key->keys, &in, value);
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
        status = kind ? read_keys(r, kinds->keys, &in, kind) : qkv_fail_memory(r->ctx, 64, "a spec");
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
        status = whole ? read_keys(r, part->keys, &at, whole) : qkv_fail_memory(r->ctx, 64, "a spec");
        json_decref(whole);
        own = json_object_get(json_object_get(r->file, stack->name), part->name);
        stacks[count++] = (struct reader_of_common){at, own, stack->name};
    }
    if (!status) status = check_read(r, key->name, key->keys, json_object_get(r->file, key->name), stacks, count);
    return !status && count == 2 ? check_common(r, key) : status;
}

static enum qkv_status read_keys(const struct qkv_spec_reader *r, const struct qkv_key *keys,
                                 const struct qkv_place *place, const json_t *tree) {
    enum qkv_status status = tree ? qkv_spec_reader_check_names(r, keys, place, tree) : QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        const json_t *value = tree ? json_object_get(tree, key->name) : NULL;
        bool shared =
            key->flags & QKV_KEY_OF_LAYER && place->object == (void *)place->stack && place->stack->kinds[0].name[0];
        status = check_version(r, key, place);
        for (const struct qkv_key *later = key; key->type == QKV_KEY_PATTERN && later->name && !status; later++)
            status = check_version(r, later, place);
        if (status || shared) continue; /* keys that are common to kinds are read with each kind */
        if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION)
            status = qkv_spec_reader_constant(r, key, place, value);
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

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static enum qkv_status load_tree(const struct qkv_spec_reader *r, const char *json, size_t size, json_t **root) {
    const struct qkv_json_text text = {.name = r->name, .data = json, .size = size, .max_size = FILE_BYTES};
    enum qkv_status status = qkv_json_load(r->ctx, &text, root);
    if (status) return status;
    if (!json_is_object(*root))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s is not a spec: it must be a JSON object, {\"format\": \"qkv\", ...}",
                        r->name);
    return QKV_OK;
}

/* Drops a vocabulary that no stack or head needs, which is known after all keys are read. */
static enum qkv_status drop_vocabulary(const struct qkv_spec_reader *r, struct qkv_spec *spec) {
    const size_t setting = qkv_spec_reader_setting(r, "vocab");
    if (qkv_spec_has_tokens(spec)) return QKV_OK;
    if (setting < r->setting_count && r->idle) r->idle[setting] = true;
    if (setting < r->setting_count && !r->idle)
        return qkv_spec_reader_fail(
            r, "vocab", "vocab is %d, but the model neither reads nor writes tokens; leave it out", spec->vocab);
    spec->vocab = spec->source_vocab = 0;
    return QKV_OK;
}

/* Kinds without self attention have no position, even if the common keys have one. */
static void drop_positions(struct qkv_stack_spec *decoder) {
    const struct qkv_position_spec none = {
        .kind = QKV_POSITION_NONE, .theta = 10000, .fraction = 1, .max = 8, .buckets = 32, .max_distance = 128};
    for (int i = 0; i < decoder->kind_count; i++)
        if (decoder->kinds[i].cross_only) decoder->kinds[i].attention.position = none;
}

enum qkv_status qkv_spec_parse_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *json,
                                   size_t size, const struct qkv_settings *settings) {
    struct qkv_spec_reader r = {.ctx = ctx,
                                .name = name ? name : "spec",
                                .settings = settings->items,
                                .setting_count = settings->count,
                                .idle = settings->idle};
    struct qkv_written_spec *written = qkv_allocate(ctx, 2, sizeof *written), *canonical = written + 1;
    json_t *root = NULL;
    memset(spec, 0, sizeof *spec);
    if (!written) return QKV_MEMORY;
    written->reading = true;
    for (size_t i = 0; r.idle && i < r.setting_count; i++) r.idle[i] = false;
    enum qkv_status status = load_tree(&r, json, size, &root);
    json_t *file = !status && r.setting_count ? json_deep_copy(root) : NULL;
    if (!status && r.setting_count && !file) status = qkv_fail_memory(ctx, size, "a spec");
    r.shared = !status ? qkv_allocate(ctx, r.setting_count + 1, sizeof *r.shared) : NULL;
    if (!status && !r.shared) status = QKV_MEMORY;
    r.file = file ? file : root;
    r.tree = root;
    if (!status) status = qkv_spec_reader_settings(&r, root);
    struct qkv_place place = qkv_spec_place(written);
    written->position_given =
        json_object_get(root, "position") || json_integer_value(json_object_get(root, "version")) != 2;
    written->pair =
        json_is_object(json_object_get(root, "encoder")) && json_is_object(json_object_get(root, "decoder"));
    written->embed_scale_given = json_object_get(root, "embed_scale");
    if (!status) status = read_keys(&r, qkv_spec_keys, &place, root);
    if (!status) status = drop_vocabulary(&r, &written->spec);
    if (!status) drop_positions(&written->spec.decoder);
    json_decref(root);
    json_decref(file);
    free(r.shared);
    qkv_spec_write(&written->spec, canonical);
    if (written->version == 2) canonical->version = 2;
    if (!status) status = qkv_spec_check_written(ctx, canonical, r.name, false);
    if (!status) *spec = written->spec;
    free(written);
    return status;
}

enum qkv_status qkv_spec_parse(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *json,
                               size_t size, const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, name);
    QKV_NEED_ALL(ctx, size, json);
    QKV_NEED_ALL(ctx, setting_count, settings);
    return qkv_spec_parse_all(ctx, spec, name, json, size,
                              &(struct qkv_settings){.items = settings, .count = setting_count});
}

enum qkv_status qkv_spec_read_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                  const struct qkv_settings *settings) {
    struct qkv_map map;
    memset(spec, 0, sizeof *spec);
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (!status && map.size > FILE_BYTES)
        status = qkv_fail(ctx, QKV_FORMAT, "%s is not a spec: it has %zu bytes, a config.json has at most %d", path,
                          map.size, FILE_BYTES);
    if (!status) status = qkv_spec_parse_all(ctx, spec, path, (const char *)map.data, map.size, settings);
    qkv_unmap_file(&map);
    return status;
}

enum qkv_status qkv_spec_read(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                              const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, path);
    QKV_NEED_ALL(ctx, setting_count, settings);
    return qkv_spec_read_all(ctx, spec, path, &(struct qkv_settings){.items = settings, .count = setting_count});
}
