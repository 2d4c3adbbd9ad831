/* Version 1 of config.json. It has one `position` for the whole model and `embed_scale`, where version 2 has
 * embed.position, the position of each attention, and embed.scale. What version 1 says, in a file or in a setting, is
 * converted to version 2 before keys are read; a spec that version 1 can express is written in version 1. */
#include "attention/attention.h"
#include "model/spec_reader.h"
#include "model/spec_tables.h"

#include <string.h>

/* ---- files have the keys of their version ------------------------------------------------------------------------ */

/* Fails if a file of version 2 has a key of version 1. */
static enum qkv_status version1_check_second(const struct qkv_spec_reader *r) {
    static const char *const instead[] = {"embed.position or the attention's position", "embed.scale"};
    for (size_t i = 0; qkv_version1_keys[i].name; i++) {
        const char *name = qkv_version1_keys[i].name;
        if (!qkv_spec_reader_at(r->file, name)) continue;
        return qkv_spec_reader_fail(r, name, "%s is a key of version 1, but version is 2, which has %s instead", name,
                                    instead[i]);
    }
    return QKV_OK;
}

/* Fails if a file of version 1 has a key of version 2. */
static enum qkv_status version1_check_first(const struct qkv_spec_reader *r) {
    static const char *const second[] = {"embed",
                                         "encoder.pattern",
                                         "encoder.kinds",
                                         "encoder.embed",
                                         "encoder.attention.position",
                                         "encoder.cross.position",
                                         "decoder.pattern",
                                         "decoder.kinds",
                                         "decoder.embed",
                                         "decoder.attention.position",
                                         "decoder.cross.position"};
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        if (qkv_spec_reader_at(r->file, second[i]))
            return qkv_spec_reader_fail(r, second[i],
                                        "%s is a key of version 2, but version is 1; write \"version\": 2", second[i]);
    return QKV_OK;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void version1_drop_positions(json_t *stack) {
    const char *name;
    json_t *kind, *kinds = json_object_get(stack, "kinds");
    json_object_del(json_object_get(stack, "attention"), "position");
    json_object_foreach(kinds, name, kind) json_object_del(json_object_get(kind, "attention"), "position");
}

void qkv_version1_make_room(const struct qkv_spec_reader *r, json_t *root) {
    json_t *const embed = json_object_get(root, "embed");
    json_t *const stacks[] = {json_object_get(root, "encoder"), json_object_get(root, "decoder")};
    const bool scale = qkv_spec_reader_setting(r, "embed_scale") < r->setting_count;
    const bool position = qkv_spec_reader_setting(r, "position.kind") < r->setting_count;
    if (json_integer_value(json_object_get(root, "version")) != 2) return;
    if (scale) json_object_del(embed, "scale");
    if (position) json_object_del(embed, "position");
    for (size_t i = 0; i < 2; i++) {
        json_t *own = json_object_get(stacks[i], "embed");
        if (scale) json_object_del(own, "scale");
        if (position) json_object_del(own, "position");
        if (position) version1_drop_positions(stacks[i]);
    }
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */

json_t *qkv_version1_take(json_t *root) {
    json_t *first = json_object();
    for (const struct qkv_key *key = qkv_version1_keys; first && key->name; key++) {
        json_t *value = json_object_get(root, key->name);
        if (!value) continue;
        if (json_object_set(first, key->name, value)) {
            json_decref(first);
            return NULL;
        }
        json_object_del(root, key->name);
    }
    return first;
}

/* Sets a value at a path, whose objects are made, unless settings in the words of version 2 have set it. The reader
 * reports values on the way that are no objects. `value` is taken over. False without memory. */
static bool version1_set(json_t *tree, const char *path, json_t *value) {
    char name[QKV_SPEC_NAME];
    bool done = value != NULL;
    for (size_t n; done && path[n = strcspn(path, ".")]; path += n + 1) {
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        if (json_is_object(tree) && !json_object_get(tree, name))
            done = !json_object_set_new(tree, name, json_object());
        tree = json_object_get(tree, name);
    }
    if (done && json_is_object(tree) && !json_object_get(tree, path)) return !json_object_set_new(tree, path, value);
    json_decref(value);
    return done;
}

/* Gives an attention the position of the whole model, unless settings give it one of another kind. `holder` is a stack,
 * or a kind of layer in a stack whose kinds have `shared` in common. */
static bool version1_set_attention(json_t *holder, const json_t *shared, const struct qkv_place *whole,
                                   const char *kind, const json_t *position) {
    const json_t *own = qkv_spec_reader_at(holder, "attention.position.kind");
    char path[QKV_SPEC_NAME];
    if (!own) own = json_object_get(shared, "kind");
    if (!json_is_object(holder) || (json_is_string(own) && strcmp(json_string_value(own), kind))) return true;
    bool done = version1_set(holder, "attention.position.kind", json_string(kind));
    for (const struct qkv_key *key = qkv_position_keys + 1; key->name && done; key++) {
        json_t *value = json_object_get(position, key->name);
        snprintf(path, sizeof path, "attention.position.%s", key->name);
        if (value && qkv_key_applies(key, whole) && !json_object_get(shared, key->name))
            done = version1_set(holder, path, json_deep_copy(value));
    }
    return done;
}

/* The same for every attention of a stack. */
static bool version1_set_stack(json_t *stack, const struct qkv_place *whole, const char *kind, const json_t *position) {
    const json_t *shared = qkv_spec_reader_at(stack, "attention.position");
    json_t *kinds = json_object_get(stack, "kinds"), *layer;
    const char *name;
    bool done = true;
    if (!json_object_size(kinds)) return version1_set_attention(stack, NULL, whole, kind, position);
    json_object_foreach(kinds, name, layer) done = done && version1_set_attention(layer, shared, whole, kind, position);
    return done;
}

/* Writes what the keys of version 1 say, which were read into written->position, in the words of version 2. */
static bool version1_convert(const struct qkv_spec_reader *r, const struct qkv_place *place, json_t *first,
                             json_t *root) {
    const struct qkv_place whole = qkv_key_enter(place, qkv_version1_keys);
    const char *kind = qkv_position_keys->choices[place->written->position.kind].text;
    const bool inside = qkv_position_in_attention(place->written->position.kind);
    json_t *position = json_object_get(first, "position"), *scale = json_object_get(first, "embed_scale");
    bool done = !scale || version1_set(root, "embed.scale", json_deep_copy(scale));
    if (!r->position) return done;
    done = done && version1_set(root, "embed.position.kind", json_string(inside ? "none" : kind));
    if (!inside) return done;
    return done && version1_set_stack(json_object_get(root, "encoder"), &whole, kind, position) &&
           version1_set_stack(json_object_get(root, "decoder"), &whole, kind, position);
}

enum qkv_status qkv_version1_read(struct qkv_spec_reader *r, const struct qkv_place *place, json_t *root) {
    const json_int_t version = json_integer_value(json_object_get(root, "version"));
    enum qkv_status status = version == 1   ? version1_check_first(r)
                             : version == 2 ? version1_check_second(r)
                                            : QKV_OK; /* the reader refuses other versions */
    json_t *first = status ? NULL : qkv_version1_take(root), *position = json_object_get(first, "position");
    if (status) return status;
    bool done = first != NULL;
    r->position = position || version == 1; /* the default of version 1 is "learned" */
    r->embed_scale = json_object_get(first, "embed_scale");
    if (version == 2 && json_is_object(position)) done = version1_set(position, "kind", json_string("none")) && done;
    if (done && (r->position || r->embed_scale)) status = qkv_spec_reader_keys(r, qkv_version1_keys, place, first);
    if (done && !status) done = version1_convert(r, place, first, root);
    if (done && !status && version == 1) done = !json_object_set_new(root, "version", json_integer(2));
    json_decref(first);
    return done ? status : qkv_fail_memory(r->ctx, 64, "a spec");
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

#define VERSION1_WORD ".abcdefghijklmnopqrstuvwxyz_" /* the characters of a path of keys */
struct version1_name {
    const char *second, *first;
    bool scale; /* of embed_scale; else of position */
};

static const struct version1_name version1_names[] = {{"encoder.attention.position", "position", false},
                                                      {"decoder.attention.position", "position", false},
                                                      {"embed.position.kind", "position.kind", false},
                                                      {"embed.scale", "embed_scale", true}};

/* The name at the beginning of a text that comes from a key of version 1; NULL if there is none. */
static const struct version1_name *version1_name_at(const struct qkv_spec_reader *r, const char *text) {
    char path[QKV_SPEC_PATH];
    for (size_t i = 0; i < sizeof version1_names / sizeof *version1_names; i++) {
        const struct version1_name *name = &version1_names[i];
        const size_t n = strlen(name->second);
        if (strncmp(text, name->second, n) || !(name->scale ? r->embed_scale : r->position)) continue;
        const size_t more = strspn(text + n, VERSION1_WORD);
        if (more && text[n] != '.') continue;
        snprintf(path, sizeof path, "%.*s", (int)(n + more), text);
        if (qkv_spec_reader_setting(r, path) == r->setting_count) return name; /* else the setting has that name */
    }
    return NULL;
}

/* Copies a text with the names of version 1 in it. */
static void version1_rename_in(const struct qkv_spec_reader *r, const char *text, char *out, size_t size) {
    size_t used = 0;
    bool inside = false; /* a word has begun */
    while (*text && used + QKV_SPEC_PATH < size) {
        const struct version1_name *name = inside ? NULL : version1_name_at(r, text);
        inside = name || strchr(VERSION1_WORD, *text);
        if (!name) {
            out[used++] = *text++;
            continue;
        }
        used += (size_t)snprintf(out + used, size - used, "%s", name->first);
        text += strlen(name->second);
    }
    snprintf(out + used, size - used, "%s", text);
}

void qkv_version1_rename(const struct qkv_spec_reader *r) {
    char text[sizeof r->ctx->message], key[QKV_SPEC_PATH + QKV_KEY_PATH];
    const char *about = qkv_message_key(r->ctx);
    if (!r->position && !r->embed_scale) return;
    version1_rename_in(r, about ? about : "", key, sizeof key);
    version1_rename_in(r, qkv_message(r->ctx), text, sizeof text);
    qkv_fail(r->ctx, QKV_SPEC, "%s", text);
    if (about) qkv_fail_key(r->ctx, key);
}

/* ---- specs that version 1 can express ---------------------------------------------------------------------------- */

/* Whether an object has a value that version 1 lacks. */
static bool version1_lacks(const struct qkv_key *keys, const struct qkv_place *place) {
    bool later = false;
    for (const struct qkv_key *key = keys; key->name && !later; key++) {
        if (!qkv_key_applies(key, place)) continue;
        const struct qkv_place in = qkv_key_enter(place, key);
        if (key->flags & QKV_KEY_OPTIONAL)
            later = qkv_key_given(key, place);
        else if (key->type == QKV_KEY_OBJECT)
            later = version1_lacks(key->keys, &in);
        else
            later = key->flags & QKV_KEY_LATER && qkv_key_get(key, place) != key->neutral;
    }
    return later;
}

/* Whether both stacks have one embedding with a position and a scale, as version 1 has it. */
static bool version1_has_embedding(struct qkv_written_spec *w) {
    const struct qkv_place place = qkv_spec_place(w);
    bool plain = true;
    for (const struct qkv_key *key = qkv_spec_keys; key->name && plain; key++) {
        const struct qkv_place in = qkv_key_enter(&place, key);
        if (key->flags & QKV_KEY_COMMON)
            plain = !version1_lacks(key->keys, &in);
        else if (in.stack && in.stack->layers) /* inside a stack, its own keys */
            for (const struct qkv_key *part = key->keys; part->name && plain; part++)
                plain = !(part->flags & QKV_KEY_COMMON && qkv_key_applies(part, &in));
    }
    return plain;
}

/* Whether there is one kind of layer, without a name, and one position, of the embedding or of all attentions, as in
 * version 1. */
static bool version1_has_positions(struct qkv_written_spec *w, const struct qkv_position_spec *attention) {
    const struct qkv_stack_spec *stacks[] = {&w->spec.encoder, &w->spec.decoder};
    for (size_t i = 0; i < 2; i++) {
        if (stacks[i]->layers == 0) continue;
        const struct qkv_layer_spec *kind = &stacks[i]->kinds[0];
        if (stacks[i]->kind_count != 1 || kind->name[0] || !qkv_position_same(&kind->attention.position, attention))
            return false;
    }
    if (!version1_has_embedding(w)) return false;
    enum qkv_position_kind embed = w->embed.position.kind;
    if (embed == QKV_POSITION_NONE) return !qkv_position_in_embedding(attention->kind);
    return attention->kind == QKV_POSITION_NONE && !qkv_position_in_attention(embed);
}

void qkv_version1_express(struct qkv_written_spec *w) {
    const struct qkv_stack_spec *stack = w->spec.decoder.layers ? &w->spec.decoder : &w->spec.encoder;
    const struct qkv_position_spec *attention = &stack->kinds[0].attention.position;
    w->first = version1_has_positions(w, attention);
    w->position = *attention;
    w->embed_scale = stack->embed.scale;
    if (attention->kind == QKV_POSITION_NONE) w->position.kind = stack->embed.position.kind;
}
