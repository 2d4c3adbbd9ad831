/* The difference between a spec and what a family can express, as settings. The family's model can make up for some of
 * them with weights that change no number: biases of zeros where there are none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family/family.h"
#include "model/spec.h"

struct near {
    const struct qkv_spec *ours;
    struct qkv_layer_spec *room; /* for a third spec */
    struct qkv_family_settings *settings;
    size_t added;
    bool full; /* there were more settings than the list holds */
};

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static bool path_is_in(const char *path, const char *object) {
    const size_t n = strlen(object);
    return !strncmp(path, object, n) && (path[n] == 0 || path[n] == '.');
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* A value as the command's option for settings takes it. */
static void value_text(const json_t *value, char *text, size_t size) {
    char *made = json_is_real(value)     ? qkv_key_real_text(json_real_value(value))
                 : json_is_string(value) ? NULL
                                         : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, size, "%s", json_is_string(value) ? json_string_value(value) : made ? made : "");
    free(made);
}

/* Where there is one stack, or both have the same value, the setting of a stack's embedding becomes one at the top. */
static void settings_merge(const struct near *n, struct qkv_family_setting *one) {
    struct qkv_family_settings *s = n->settings;
    if (strncmp(one->path, "encoder.embed.", 14) && strncmp(one->path, "decoder.embed.", 14)) return;
    struct qkv_family_setting other = *one;
    memcpy(other.path, one->path[0] == 'd' ? "en" : "de", 2);
    bool both = !n->ours->encoder.layers || !n->ours->decoder.layers;
    for (size_t i = 0; i < s->count && !both; i++)
        if ((both = !strcmp(s->list[i].path, other.path) && !strcmp(s->list[i].value, other.value)))
            s->list[i] = s->list[--s->count];
    if (both) memmove(one->path, one->path + 8, strlen(one->path + 8) + 1);
}

static void settings_add(struct near *n, const char *path, const json_t *was, const json_t *value, bool exact) {
    struct qkv_family_settings *s = n->settings;
    struct qkv_family_setting one = {.exact = exact};
    snprintf(one.path, sizeof one.path, "%s", path);
    value_text(value, one.value, sizeof one.value);
    if (was && !json_is_object(was)) value_text(was, one.was, sizeof one.was);
    if (!was || json_is_null(was)) snprintf(one.was, sizeof one.was, "none");
    settings_merge(n, &one);
    for (size_t i = 0; i < s->count;) {
        const bool replaced = path_is_in(s->list[i].path, one.path) || path_is_in(one.path, s->list[i].path);
        if (replaced && !strcmp(s->list[i].path, one.path)) snprintf(one.was, sizeof one.was, "%s", s->list[i].was);
        if (replaced && !s->list[i].exact) one.exact = false;
        if (replaced)
            s->list[i] = s->list[--s->count];
        else
            i++;
    }
    n->full = n->full || s->count == QKV_FAMILY_SETTINGS;
    if (!n->full) s->list[s->count++] = one;
    n->added++;
}

/* ---- settings that change no number ------------------------------------------------------------------------------ */

/* The letters of the projections that have a bias. */
static const char *bias_letters(const json_t *value) {
    if (json_is_boolean(value)) return json_is_true(value) ? "qkvo" : "";
    return json_is_string(value) ? json_string_value(value) : "?";
}

/* Whether weights of zeros or copies make the two values equal. */
static bool is_exact(const char *path, const json_t *ours, const json_t *theirs) {
    const char *a = json_string_value(ours), *b = json_string_value(theirs);
    if (ends_with(path, "attention.bias") || ends_with(path, "cross.bias")) {
        const char *have = bias_letters(ours), *want = bias_letters(theirs);
        return strspn(have, want) == strlen(have);
    }
    if (ends_with(path, ".bias")) return json_is_false(ours) && json_is_true(theirs);
    if (ends_with(path, "embed.types")) return json_integer_value(ours) == 0 && json_integer_value(theirs) > 0;
    if (ends_with(path, "embed.position.kind"))
        return a && b && !strcmp(b, "learned") && (!strcmp(a, "sinusoidal") || !strcmp(a, "none"));
    if (!strcmp(path, "tie") && a && b)
        return (!strcmp(a, "head") && !strcmp(b, "none")) || (!strcmp(a, "all") && !strcmp(b, "stacks"));
    return false;
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* Whether two values are the same text, flag, list or number in fp32. */
static bool same_value(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return x == y || fabs(x - y) <= 1e-7 * fabs(x);
    }
    return a && b && json_equal(a, b);
}

static void compare(struct near *n, const char *path, const json_t *ours, const json_t *theirs) {
    char inner[192];
    const char *key;
    json_t *value;
    if (json_is_object(theirs)) {
        json_object_foreach((json_t *)(uintptr_t)theirs, key, value) {
            snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", key);
            compare(n, inner, json_is_object(ours) ? json_object_get(ours, key) : NULL, value);
        }
        return;
    }
    if (json_is_object(ours) ? json_is_null(theirs) : !ours && json_is_null(theirs)) {
        if (json_is_object(ours)) settings_add(n, path, ours, theirs, false);
        return;
    }
    if (!same_value(ours, theirs)) settings_add(n, path, ours, theirs, is_exact(path, ours, theirs));
}

/* The JSON of a stack; `room`, for a kind of each stack, is overwritten. The scale of scores is written even where it
 * is the default of the head's width; the final norm is that of the last kind of layer. */
static json_t *stack_tree(struct qkv_layer_spec room[2], const struct qkv_spec *spec, const char *name,
                          const struct qkv_stack_spec *stack, int kind) {
    static const uint8_t first[QKV_LAYERS_MAX];
    struct qkv_spec alone = *spec;
    struct qkv_stack_spec *stacks[] = {&alone.encoder, &alone.decoder};
    for (size_t i = 0; i < 2; i++) {
        if (!stacks[i]->kinds) continue;
        room[i] = stacks[i]->kinds[kind < stacks[i]->kind_count ? kind : 0];
        room[i].name[0] = 0;
        stacks[i]->kinds = &room[i];
        stacks[i]->kind_count = 1;
        stacks[i]->kind_of = (uint8_t *)(uintptr_t)first;
    }
    json_t *tree = qkv_family_of_spec(&alone, name, 0);
    json_t *attention = json_object_get(tree, "attention"), *scale = json_object_get(attention, "scale");
    const double width = json_number_value(json_object_get(attention, "head_dim"));
    if (scale && json_number_value(scale) == 0 && width > 0 && !json_is_object(json_object_get(attention, "latent")))
        json_object_set_new(attention, "scale", json_real(1 / sqrt(width)));
    if (kind != stack->kind_of[stack->layers - 1]) json_object_del(json_object_get(tree, "norm"), "final");
    return tree;
}

/* Compares one kind of layer: first what a stack has outside its layers. Kinds have paths of their own if there are
 * several. */
static void compare_kind(struct near *n, const char *name, const struct qkv_stack_spec *ours, json_t *a, json_t *b,
                         int kind) {
    static const char *const layer[] = {"attention", "cross", "norm", "ffn"};
    char path[96];
    snprintf(path, sizeof path, "%s", name);
    if (ours->kind_count > 1) snprintf(path, sizeof path, "%s.kinds.%s", name, ours->kinds[kind].name);
    json_t *mine = json_object(), *theirs = json_object();
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
        if (json_object_get(a, layer[i])) json_object_set(mine, layer[i], json_object_get(a, layer[i]));
        if (json_object_get(b, layer[i])) json_object_set(theirs, layer[i], json_object_get(b, layer[i]));
        json_object_del(a, layer[i]);
        json_object_del(b, layer[i]);
    }
    compare(n, name, a, b);
    compare(n, path, mine, theirs);
    json_decref(mine);
    json_decref(theirs);
}

/* Compares two stacks layer by layer, as names of kinds are arbitrary. */
static bool compare_stack(struct near *n, const char *name, const struct qkv_stack_spec *ours,
                          const struct qkv_spec *theirs, const struct qkv_stack_spec *other) {
    int of[QKV_KINDS_MAX];
    for (size_t k = 0; k < QKV_KINDS_MAX; k++) of[k] = -1;
    if (ours->layers != other->layers) return false;
    for (int i = 0; i < ours->layers; i++) {
        const int kind = ours->kind_of[i], k = other->kind_of[i];
        if (of[kind] == k) continue;
        if (of[kind] >= 0) return false; /* one kind of ours would be two kinds of theirs */
        of[kind] = k;
        json_t *a = stack_tree(n->room, n->ours, name, ours, kind);
        json_t *b = stack_tree(n->room, theirs, name, other, k);
        if (kind != ours->kind_of[ours->layers - 1]) json_object_del(json_object_get(b, "norm"), "final");
        compare_kind(n, name, ours, a, b, kind);
        json_decref(a);
        json_decref(b);
    }
    return true;
}

bool qkv_family_differences(const struct qkv_spec *ours, const struct qkv_spec *theirs, struct qkv_layer_spec room[2],
                            struct qkv_family_settings *settings, size_t *count) {
    struct near n = {.ours = ours, .room = room, .settings = settings};
    for (const struct qkv_key *key = qkv_spec_keys; key->name; key++) {
        if (key->flags & (QKV_KEY_COMMON | QKV_KEY_START)) continue;
        if (!strcmp(key->name, "encoder") || !strcmp(key->name, "decoder")) continue;
        json_t *a = qkv_family_of_spec(ours, key->name, 0), *b = qkv_family_of_spec(theirs, key->name, 0);
        if (a || b) compare(&n, key->name, a, b);
        json_decref(a);
        json_decref(b);
    }
    const bool can = compare_stack(&n, "encoder", &ours->encoder, theirs, &theirs->encoder) &&
                     compare_stack(&n, "decoder", &ours->decoder, theirs, &theirs->decoder);
    *count = n.added;
    return can && !n.full;
}

enum qkv_status qkv_family_apply(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_family_settings *settings, struct qkv_spec *out) {
    struct qkv_family_setting text;
    char lines[QKV_FAMILY_SETTINGS][sizeof text.path + sizeof text.value + 1];
    const char *list[QKV_FAMILY_SETTINGS];
    char *json = NULL;
    for (size_t i = 0; i < settings->count; i++) {
        snprintf(lines[i], sizeof lines[i], "%s=%s", settings->list[i].path, settings->list[i].value);
        list[i] = lines[i];
    }
    enum qkv_status status = qkv_spec_print(ctx, spec, &json);
    if (!status) status = qkv_spec_parse(ctx, out, "settings", json, strlen(json), list, settings->count);
    qkv_free(json);
    return status;
}
