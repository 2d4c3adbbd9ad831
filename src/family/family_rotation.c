/* How positions are rotated: rope_parameters (transformers 5) and rope_scaling become the keys of tables: the base, the
 * rotated part of a head, and rope_scaling without these two; where a family has rotations of their own for layers with
 * a window, also theirs. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

static json_t *rotation_object(const json_t *config, const char *key) {
    json_t *value = json_object_get(config, key);
    return json_object_size(value) ? value : NULL;
}

static bool rotation_type(const char *name) {
    static const char *const types[] = {"default", "linear", "dynamic", "ntk", "yarn", "llama3", "longrope", "su"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], name)) return true;
    return false;
}

/* Fails unless a rotation is an object of known keys and of a known type. */
static enum qkv_status check_rotation(const struct qkv_family_reading *r, const char *path, const json_t *rotation) {
    const char *key;
    char text[96];
    const json_t *value;
    if (!rotation || json_is_null(rotation)) return QKV_OK;
    if (!json_is_object(rotation)) return qkv_family_refuse(r, path, "null or an object");
    json_object_foreach((json_t *)(uintptr_t)rotation, key, value) {
        snprintf(text, sizeof text, "%s.%.40s", path, key);
        const bool type = !strcmp(key, "rope_type") || !strcmp(key, "type");
        const char *name = type ? json_string_value(value) : NULL;
        if (type && !json_is_null(value) && (!name || !rotation_type(name)))
            return qkv_family_refuse(r, text, "default, linear, dynamic, yarn, llama3, longrope");
        const bool known = type || qkv_family_scaling_has(key) || !strcmp(key, "rope_theta") ||
                           !strcmp(key, "partial_rotary_factor") || !strcmp(key, "finetuned") ||
                           qkv_family_patterns_have(r->family->rotation_keys, key) ||
                           qkv_family_patterns_have(r->family->idle, text);
        if (!known && !json_is_null(value)) return qkv_family_refuse(r, text, "rotations without this key");
        const bool part =
            !strcmp(key, "partial_rotary_factor") && !json_is_null(value) && json_number_value(value) != 1;
        if (part && !qkv_family_reads(r->family, key)) return qkv_family_refuse(r, text, "1");
    }
    return QKV_OK;
}

/* Copies the base and the part of a rotation to `config`. Returns its scaling; NULL: none. */
static json_t *take_rotation(json_t *config, json_t *rotation, const char *theta) {
    static const char part[] = "partial_rotary_factor";
    const char *type = json_string_value(json_object_get(rotation, "rope_type"));
    json_t *value = json_object_get(rotation, "rope_theta");
    if (!type) type = json_string_value(json_object_get(rotation, "type"));
    if (json_is_number(value)) json_object_set(config, theta, value);
    value = json_object_get(rotation, part);
    if (json_is_number(value)) json_object_set(config, part, value);
    return !type || !strcmp(type, "default") ? NULL : rotation;
}

static void put_scaling(json_t *config, const char *key, const json_t *scaling) {
    json_t *copy = scaling ? json_deep_copy(scaling) : json_null();
    json_object_del(copy, "rope_theta");
    json_object_del(copy, "partial_rotary_factor");
    json_object_set_new(config, key, copy);
}

/* Copies the family's own keys of a rotation to `config`. */
static void take_own(const struct qkv_family_reading *r, json_t *rotation) {
    const char *key;
    json_t *value;
    json_object_foreach(rotation, key, value) {
        if (qkv_family_patterns_have(r->family->rotation_keys, key) && !json_object_get(r->config, key))
            json_object_set(r->config, key, value);
    }
}

/* One rotation for all layers: rope_scaling, or else rope_parameters. */
static enum qkv_status spell_one(const struct qkv_family_reading *r) {
    json_t *old = rotation_object(r->config, "rope_scaling"), *rotation = rotation_object(r->config, "rope_parameters");
    enum qkv_status status = check_rotation(r, "rope_scaling", json_object_get(r->config, "rope_scaling"));
    if (!status && !old) status = check_rotation(r, "rope_parameters", json_object_get(r->config, "rope_parameters"));
    if (status) return status;
    take_own(r, old ? old : rotation);
    if (old || rotation)
        put_scaling(r->config, "rope_scaling", take_rotation(r->config, old ? old : rotation, "rope_theta"));
    else
        json_object_del(r->config, "rope_scaling");
    return QKV_OK;
}

/* The rotation of one type of layer: its rope_parameters, overridden by the rope_scaling of older files where that
 * applies to the type. */
static enum qkv_status spell_type(const struct qkv_family_reading *r, const char *type, const char *theta,
                                  const char *scaling, json_t *old) {
    json_t *own = json_object_get(rotation_object(r->config, "rope_parameters"), type);
    char path[64];
    snprintf(path, sizeof path, "rope_parameters.%s", type);
    enum qkv_status status = check_rotation(r, path, own);
    if (!status && json_is_false(json_object_get(own, "truncate")))
        status = qkv_family_refuse(r, path, "truncate true: in this family truncate has no effect");
    if (status) return status;
    json_t *both = json_is_object(own) ? json_deep_copy(own) : json_object();
    if (old) json_object_update(both, old);
    put_scaling(r->config, scaling, take_rotation(r->config, both, theta));
    json_decref(both);
    return QKV_OK;
}

/* A rotation per type of layer. */
static enum qkv_status spell_types(const struct qkv_family_reading *r) {
    const json_t *types = json_object_get(r->config, "rope_parameters");
    const char *key;
    json_t *value, *old = rotation_object(r->config, "rope_scaling");
    if (json_object_get(r->config, QKV_FAMILY_FULL_SCALING) || json_object_get(r->config, QKV_FAMILY_LOCAL_SCALING))
        return QKV_OK; /* our own table has written the keys of each type already */
    enum qkv_status status = check_rotation(r, "rope_scaling", json_object_get(r->config, "rope_scaling"));
    if (status) return status;
    if (types && !json_is_null(types) && !json_is_object(types))
        return qkv_family_refuse(r, "rope_parameters", "null or an object");
    json_object_foreach((json_t *)(uintptr_t)types, key, value) {
        if (strcmp(key, "full_attention") && strcmp(key, "sliding_attention"))
            return qkv_family_refuse(r, "rope_parameters", "{\"full_attention\": {...}, \"sliding_attention\": {...}}");
    }
    status = spell_type(r, "full_attention", r->family->rotations[0], QKV_FAMILY_FULL_SCALING, old);
    if (!status)
        status = spell_type(r, "sliding_attention", r->family->rotations[1], QKV_FAMILY_LOCAL_SCALING,
                            r->family->scaling_of_all ? old : NULL);
    json_object_del(r->config, "rope_scaling");
    return status;
}

enum qkv_status qkv_family_spell_rotations(const struct qkv_family_reading *r) {
    const bool types = r->family->rotations[0] != NULL;
    if (!types && !qkv_family_reads(r->family, "rope_scaling")) return QKV_OK;
    const enum qkv_status status = types ? spell_types(r) : spell_one(r);
    if (!status) json_object_del(r->config, "rope_parameters");
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_type(json_t *out, const json_t *config, const char *type, const char *theta, const char *scaling) {
    json_t *value = json_object_get(config, scaling),
           *own = json_is_object(value) ? json_deep_copy(value) : json_object();
    if (!json_is_object(value)) json_object_set_new(own, "rope_type", json_string("default"));
    json_object_set(own, "rope_theta", json_object_get(config, theta));
    json_object_set_new(out, type, own);
}

/* Moves the family's own keys of a rotation to rope_scaling. */
static void write_own(const struct qkv_family *family, json_t *config) {
    json_t *scaling = json_object_get(config, "rope_scaling"), *value;
    const char *key;
    void *next;
    if (!json_is_object(scaling)) return;
    json_object_foreach_safe(config, next, key, value) {
        if (!qkv_family_patterns_have(family->rotation_keys, key)) continue;
        json_object_set(scaling, key, value);
        json_object_del(config, key);
    }
}

void qkv_family_write_rotations(const struct qkv_family *family, json_t *config) {
    write_own(family, config);
    if (!family->rotations[0]) return;
    if (*family->rotations[1] == '@' || json_is_object(json_object_get(config, QKV_FAMILY_FULL_SCALING)) ||
        json_is_object(json_object_get(config, QKV_FAMILY_LOCAL_SCALING))) {
        json_t *types = json_object();
        write_type(types, config, "full_attention", family->rotations[0], QKV_FAMILY_FULL_SCALING);
        write_type(types, config, "sliding_attention", family->rotations[1], QKV_FAMILY_LOCAL_SCALING);
        json_object_set_new(config, "rope_parameters", types);
        for (size_t i = 0; i < 2; i++) json_object_del(config, family->rotations[i]);
    }
    json_object_del(config, QKV_FAMILY_FULL_SCALING);
    json_object_del(config, QKV_FAMILY_LOCAL_SCALING);
}
