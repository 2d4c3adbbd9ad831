/* Places of keys in a spec, and the fields that keys stand for. */
#include "model/spec_tables.h"

#include <string.h>

/* ---- places, fields ---------------------------------------------------------------------------------------------- */

struct qkv_place qkv_spec_place(struct qkv_written_spec *written) {
    return (struct qkv_place){.written = written, .spec = &written->spec, .object = written};
}

static struct qkv_stack_spec *place_last_stack(const struct qkv_place *place) {
    return place->spec->decoder.layers ? &place->spec->decoder : &place->spec->encoder;
}

/* The field of a key. The keys of a layer beside the other keys of a stack are those of the first kind. */
static void *place_field(const struct qkv_key *key, const struct qkv_place *place) {
    const bool first = key->flags & QKV_KEY_OF_LAYER && place->object == (void *)place->stack;
    return (char *)(first ? (void *)place->layer : place->object) + key->offset;
}

/* The same place in the object that is common to the stacks. */
static struct qkv_place place_common(const struct qkv_place *place) {
    struct qkv_place common = *place;
    common.object = (void *)(uintptr_t)place->common;
    common.common = NULL;
    common.embed = &place->written->embed;
    common.stack = place_last_stack(place);
    return common;
}

struct qkv_place qkv_key_enter(const struct qkv_place *place, const struct qkv_key *key) {
    struct qkv_place in = *place;
    in.object = place_field(key, place);
    if (place->common) {
        const struct qkv_place common = place_common(place);
        in.common = qkv_key_given(key, &common) ? (const char *)place->common + key->offset : NULL;
    }
    if (key->keys == qkv_stack_keys) in.stack = in.object;
    if (key->keys == qkv_stack_keys) in.layer = in.stack->kinds;
    if (key->flags & QKV_KEY_COMMON) { /* at the top, the last stack's */
        in.object = place->stack ? (void *)&place->stack->embed : (void *)&place->written->embed;
        in.common = place->stack ? &place->written->embed : NULL;
        in.stack = place->stack ? place->stack : place_last_stack(place);
        in.embed = in.object;
    }
    bool cross = in.layer && in.object == (void *)&in.layer->cross;
    in.like = cross ? &in.layer->attention : NULL;
    snprintf(in.path, sizeof in.path, "%.*s%s.", QKV_KEY_PATH / 2, place->path, key->name);
    return in;
}

struct qkv_place qkv_kind_enter(const struct qkv_place *place, const struct qkv_key *kinds, size_t i) {
    struct qkv_place in = *place;
    in.layer = &in.stack->kinds[i];
    in.object = in.layer;
    snprintf(in.path, sizeof in.path, "%.*s%s.%.*s.", QKV_KEY_PATH / 2, place->path, kinds->name, QKV_KIND_NAME,
             in.layer->name);
    return in;
}

bool qkv_key_given(const struct qkv_key *key, const struct qkv_place *place) {
    bool given = true;
    if (key->flags & QKV_KEY_OPTIONAL) memcpy(&given, place_field(key, place), sizeof given);
    return given;
}

void qkv_key_give(const struct qkv_key *key, const struct qkv_place *place, bool given) {
    memcpy(place_field(key, place), &given, sizeof given);
}

/* Whether a stack overrides any key of the common object. */
static bool place_says_its_own(const struct qkv_place *place, const struct qkv_key *key) {
    const struct qkv_place in = qkv_key_enter(place, key);
    const struct qkv_key *inner = key->keys;
    while (inner->name && !qkv_key_differs(inner, &in)) inner++;
    return inner->name != NULL;
}

bool qkv_key_applies(const struct qkv_key *key, const struct qkv_place *place) {
    if (key->flags & QKV_KEY_COMMON && place->stack) return place_says_its_own(place, key);
    return !key->applies || key->applies(place);
}

bool qkv_key_differs(const struct qkv_key *key, const struct qkv_place *place) {
    const struct qkv_place other = place_common(place);
    if (!qkv_key_applies(key, place)) return false;
    const bool there = qkv_key_applies(key, &other);
    if (key->type == QKV_KEY_OBJECT) {
        const bool given = qkv_key_given(key, place), given_there = there && qkv_key_given(key, &other);
        return given && given_there ? place_says_its_own(place, key) : given != given_there;
    }
    const double x = qkv_key_get(key, place);
    if (there) return x != qkv_key_get(key, &other);
    return !(key->flags & QKV_KEY_LATER) || x != key->neutral;
}

const struct qkv_number_list *qkv_key_list(const struct qkv_key *key, const struct qkv_place *place) {
    return place_field(key, place);
}

double qkv_key_get(const struct qkv_key *key, const struct qkv_place *place) {
    const void *field = place_field(key, place);
    int whole;
    double real;
    bool flag;
    switch (key->type) {
    case QKV_KEY_REAL:
        memcpy(&real, field, sizeof real);
        return real;
    case QKV_KEY_FLAG:
        memcpy(&flag, field, sizeof flag);
        return flag;
    default:
        memcpy(&whole, field, sizeof whole);
        return whole;
    }
}

void qkv_key_set(const struct qkv_key *key, const struct qkv_place *place, double value) {
    void *field = place_field(key, place);
    int whole = key->type == QKV_KEY_REAL ? 0 : (int)value;
    bool flag = value != 0;
    switch (key->type) {
    case QKV_KEY_REAL:
        memcpy(field, &value, sizeof value);
        break;
    case QKV_KEY_FLAG:
        memcpy(field, &flag, sizeof flag);
        break;
    default:
        memcpy(field, &whole, sizeof whole);
    }
}

double qkv_key_default(const struct qkv_key *key, const struct qkv_place *place) {
    const struct qkv_attention_spec *cross = place->object;
    if (!place->like) return key->rule ? key->rule(place) : key->value;
    if (key->flags & QKV_KEY_MASK) return 0;
    if (key->flags & QKV_KEY_OF_HEADS && cross->heads != place->like->heads) return key->rule(place);
    struct qkv_place self = *place;
    self.object = &place->layer->attention;
    return qkv_key_get(key, &self);
}
