/* Writes a spec as JSON: every key that applies, in the table's order; in version 1 where that can express the spec, so
 * that config.json stays as it is. */
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

static void write_real(struct qkv_json *json, double x) {
    char *text = qkv_key_real_text(x);
    if (text)
        qkv_json_raw(json, text);
    else if (!json->status)
        json->status = qkv_fail_memory(json->ctx, 64, "the text of a number");
    free(text);
}

static void write_choice(struct qkv_json *json, const char *text) {
    bool bare = !strcmp(text, "true") || !strcmp(text, "false");
    (bare ? qkv_json_raw : qkv_json_text)(json, text);
}

/* Writes the names of kinds for one period of the pattern. */
static void write_pattern(struct qkv_json *json, const struct qkv_stack_spec *stack) {
    size_t period = qkv_stack_period(stack);
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < period; i++) qkv_json_text(json, qkv_stack_layer(stack, i)->name);
    qkv_json_end(json, ']');
}

static void write_list(struct qkv_json *json, const struct qkv_number_list *list) {
    qkv_json_begin(json, '[');
    for (int i = 0; i < list->count; i++) write_real(json, list->values[i]);
    qkv_json_end(json, ']');
}

static void write_value(struct qkv_json *json, const struct qkv_key *key, const struct qkv_place *place) {
    bool field = key->type != QKV_KEY_CONSTANT && key->type != QKV_KEY_VERSION && key->type != QKV_KEY_PATTERN;
    double x = field ? qkv_key_get(key, place) : 0;
    if (key->type == QKV_KEY_CONSTANT)
        qkv_json_raw(json, key->text);
    else if (key->type == QKV_KEY_VERSION)
        qkv_json_raw(json, place->written->first ? "1" : "2");
    else if (key->type == QKV_KEY_PATTERN)
        write_pattern(json, place->stack);
    else if (key->type == QKV_KEY_LIST)
        write_list(json, qkv_key_list(key, place));
    else if (x == 0 && key->flags & QKV_KEY_NULL)
        qkv_json_text(json, NULL);
    else if (key->type == QKV_KEY_REAL)
        write_real(json, x < 0 && key->flags & QKV_KEY_RATE ? 0 : x);
    else if (key->type == QKV_KEY_FLAG)
        qkv_json_bool(json, x != 0);
    else if (key->type == QKV_KEY_CHOICE)
        write_choice(json, key->choices[(size_t)x].text);
    else
        qkv_json_fixed(json, x, 0);
}

/* Whether an object differs from its default. */
static bool says_more(const struct qkv_key *object, const struct qkv_place *place) {
    const struct qkv_place in = qkv_key_enter(place, object);
    for (const struct qkv_key *key = object->keys; key->name; key++)
        if (qkv_key_applies(key, &in) && qkv_key_get(key, &in) != key->neutral) return true;
    return false;
}

/* Whether a key of cross attention differs from that of self attention. */
static bool differs_from_self(const struct qkv_key *key, const struct qkv_place *place) {
    if (!place->like) return false;
    struct qkv_place self = *place;
    self.object = &place->layer->attention;
    if (key->type == QKV_KEY_OBJECT) return qkv_key_given(key, &self);
    return qkv_key_get(key, place) != qkv_key_default(key, place);
}

/* Whether a key is written: it applies, or it is a stack that is absent, which is written as null. */
static bool spec_print_shown(const struct qkv_key *key, const struct qkv_place *place) {
    bool stack = key->type == QKV_KEY_OBJECT && key->flags & QKV_KEY_NULL && !place->stack;
    if (stack) return true;
    if (place->common) return qkv_key_differs(key, place);
    if (!qkv_key_applies(key, place)) return false;
    if (key->flags & QKV_KEY_OPTIONAL) return qkv_key_given(key, place) || differs_from_self(key, place);
    if (key->flags & QKV_KEY_START && !says_more(key, place)) return false;
    if (key->flags & QKV_KEY_LATER && qkv_key_get(key, place) == key->neutral && !differs_from_self(key, place))
        return false;
    return !(key->flags & QKV_KEY_LATE) || qkv_key_get(key, place) != 0;
}

static void write_object(struct qkv_json *json, const struct qkv_key *keys, const struct qkv_place *place, int depth);

static void write_kinds(struct qkv_json *json, const struct qkv_key *kinds, const struct qkv_place *place, int depth) {
    qkv_json_begin(json, '{');
    for (size_t i = 0; i < (size_t)place->stack->kind_count; i++) {
        struct qkv_place in = qkv_kind_enter(place, kinds, i);
        qkv_json_line(json, 4 * (depth + 1));
        qkv_json_key(json, in.layer->name);
        write_object(json, kinds->keys, &in, depth + 1);
    }
    qkv_json_line(json, 4 * depth);
    qkv_json_end(json, '}');
}

static void write_keys(struct qkv_json *json, const struct qkv_key *keys, const struct qkv_place *place, int depth) {
    for (const struct qkv_key *key = keys; key->name; key++) {
        if (!spec_print_shown(key, place) || (place->written->first && qkv_version1_lacks(key))) continue;
        struct qkv_place in = qkv_key_enter(place, key);
        qkv_json_line(json, 4 * (depth + 1));
        qkv_json_key(json, key->name);
        if (key->type == QKV_KEY_KINDS)
            write_kinds(json, key, place, depth + 1);
        else if (key->type != QKV_KEY_OBJECT)
            write_value(json, key, place);
        else if (!qkv_key_applies(key, place) || !qkv_key_given(key, place))
            qkv_json_text(json, NULL);
        else
            write_object(json, key->keys, &in, depth + 1);
        const bool context = keys == qkv_spec_keys && key->offset == offsetof(struct qkv_spec, context);
        if (context && place->written->first) write_keys(json, qkv_version1_keys, place, depth);
    }
}

static void write_object(struct qkv_json *json, const struct qkv_key *keys, const struct qkv_place *place, int depth) {
    qkv_json_begin(json, '{');
    write_keys(json, keys, place, depth);
    qkv_json_line(json, 4 * depth);
    qkv_json_end(json, '}');
}

enum qkv_status qkv_spec_print(struct qkv_context *ctx, const struct qkv_spec *spec, char **json) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, json);
    struct qkv_json out = {.ctx = ctx, .style = QKV_JSON_SPACED};
    *json = NULL;
    enum qkv_status status = qkv_spec_check_as(ctx, spec, "spec", false);
    if (status) return status;
    struct qkv_written_spec written;
    qkv_spec_write(spec, &written);
    qkv_version1_express(&written);
    struct qkv_place place = qkv_spec_place(&written);
    write_object(&out, qkv_spec_keys, &place, 0);
    qkv_json_line(&out, 0);
    qkv_json_flush(&out);
    if (out.status)
        qkv_json_free(&out);
    else
        *json = out.text.data;
    return out.status;
}
