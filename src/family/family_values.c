/* Values of config.json as values of a spec, and the reverse. */
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "family/family_tables.h"
#include "model/spec.h"

/* ---- values of a spec -------------------------------------------------------------------------------------------- */

static const struct qkv_key *key_named(const struct qkv_key *keys, const char *name, size_t n) {
    const struct qkv_key *key = keys;
    while (key->name && (strlen(key->name) != n || strncmp(key->name, name, n))) key++;
    return key->name ? key : NULL;
}

static json_t *key_json(const struct qkv_key *key, const struct qkv_place *place) {
    const double x = qkv_key_get(key, place);
    switch (key->type) {
    case QKV_KEY_WHOLE:
        return json_integer((json_int_t)x);
    case QKV_KEY_REAL:
        return json_real(x);
    case QKV_KEY_FLAG:
        return json_boolean(x != 0);
    case QKV_KEY_CHOICE: /* biases of attention may be "true" and "false", which JSON has as flags */
        if (!strcmp(key->choices[(size_t)x].text, "true") || !strcmp(key->choices[(size_t)x].text, "false"))
            return json_boolean(key->choices[(size_t)x].text[0] == 't');
        return json_string(key->choices[(size_t)x].text);
    case QKV_KEY_LIST: {
        const struct qkv_number_list *list = qkv_key_list(key, place);
        json_t *numbers = json_array();
        for (int i = 0; i < list->count; i++) json_array_append_new(numbers, json_real(list->values[i]));
        return numbers;
    }
    default:
        return NULL;
    }
}

/* An object with all keys that apply; null where it is absent. */
static json_t *object_json(const struct qkv_key *key, const struct qkv_place *place) {
    if (!qkv_key_given(key, place)) return json_null();
    const struct qkv_place in = qkv_key_enter(place, key);
    json_t *object = json_object();
    for (const struct qkv_key *inner = key->keys; inner->name; inner++) {
        if (inner->type == QKV_KEY_CONSTANT || !qkv_key_applies(inner, &in)) continue;
        json_t *value = inner->type == QKV_KEY_OBJECT ? object_json(inner, &in) : key_json(inner, &in);
        if (value) json_object_set_new(object, inner->name, value);
    }
    return object;
}

/* The value at a path from this place. */
static json_t *value_at(struct qkv_place place, const char *path) {
    const struct qkv_key *keys = qkv_spec_keys;
    for (const char *at = path; *at;) {
        const size_t n = strcspn(at, ".");
        const struct qkv_key *key = key_named(keys, at, n);
        if (!key) return NULL;
        at += n + (at[n] == '.');
        if (!*at) return key->type == QKV_KEY_OBJECT ? object_json(key, &place) : key_json(key, &place);
        if (key->type != QKV_KEY_OBJECT || !qkv_key_given(key, &place)) return NULL;
        place = qkv_key_enter(&place, key);
        keys = key->keys;
    }
    return NULL;
}

json_t *qkv_family_of_spec(const struct qkv_spec *spec, const char *path, int kind) {
    static const struct qkv_layer_spec no_kind;
    struct qkv_written_spec written = {.spec = *spec};
    struct qkv_stack_spec *stacks[] = {&written.spec.encoder, &written.spec.decoder};
    for (size_t i = 0; i < 2; i++) /* paths read the first kind: the list begins with the wanted kind */
        if (!stacks[i]->kinds)
            stacks[i]->kinds = (struct qkv_layer_spec *)(uintptr_t)&no_kind;
        else if (kind < stacks[i]->kind_count)
            stacks[i]->kinds += kind;
    return value_at(qkv_spec_place(&written), path);
}

/* ---- transforms: from config.json to a spec ---------------------------------------------------------------------- */

static double config_number(const json_t *config, const char *key) {
    return json_number_value(qkv_family_get(config, key));
}

/* A whole number; a file's number may be of any size. */
static json_t *there_whole(double x) {
    return json_integer((json_int_t)qkv_fmax(qkv_fmin(x, 1e15), -1e15));
}

static json_t *there_rsqrt(const json_t *config, const json_t *x) {
    (void)config;
    return json_real(1 / sqrt(json_number_value(x)));
}

static json_t *there_sqrt(const json_t *config, const json_t *x) {
    (void)config;
    return json_real(sqrt(json_number_value(x)));
}

static json_t *there_reciprocal(const json_t *config, const json_t *x) {
    (void)config;
    return json_real(1 / json_number_value(x));
}

/* null in config.json is 0 in a spec: none. */
static json_t *there_zero(const json_t *config, const json_t *x) {
    (void)config;
    return json_is_null(x) ? json_integer(0) : json_incref((json_t *)(uintptr_t)x);
}

/* null in config.json is false in a spec. */
static json_t *there_flag(const json_t *config, const json_t *x) {
    (void)config;
    return json_is_null(x) ? json_false() : json_incref((json_t *)(uintptr_t)x);
}

/* null in config.json is 0 in a spec: the default. */
static json_t *there_rule(const json_t *config, const json_t *x) {
    (void)config;
    return json_incref((json_t *)(uintptr_t)x);
}

/* The rotated channels of a head, from the fraction of them. */
static json_t *there_rotary(const json_t *config, const json_t *x) {
    if (json_is_null(x)) return json_real(1);
    if (json_is_number(json_object_get(config, "head_dim")))
        return json_real(json_number_value(x) / config_number(config, "head_dim"));
    return json_real(json_number_value(x) * config_number(config, "n_head") / config_number(config, "n_embd"));
}

/* The rows of shards are quarters of a matrix. */
static json_t *there_quarters(const json_t *config, const json_t *x) {
    (void)config;
    return json_integer_value(x) % 4 ? NULL : json_incref((json_t *)(uintptr_t)x);
}

static json_t *there_expansion(const json_t *config, const json_t *x) {
    return there_whole(json_number_value(x) * config_number(config, "d_model"));
}

/* Positions begin after that of the padding token. */
static json_t *there_next(const json_t *config, const json_t *x) {
    (void)config;
    return json_is_integer(x) ? there_whole(json_number_value(x) + 1) : NULL;
}

static json_t *there_behind_pad(const json_t *config, const json_t *x) {
    return there_whole(json_number_value(x) - config_number(config, "pad_token_id") - 1);
}

/* The height or the width of an image, [HEIGHT, WIDTH] or one number for both. */
static const json_t *side_of(const json_t *x, size_t i) {
    return json_array_size(x) == 2 ? json_array_get(x, i) : x;
}

/* The side of an image; it must be a multiple of patch_size. */
static json_t *image_side(const json_t *config, const json_t *side) {
    const json_t *patch = side_of(qkv_family_get(config, "patch_size"), 0);
    const bool cut = json_is_integer(side) && json_is_integer(patch) && json_integer_value(patch) > 0 &&
                     json_integer_value(side) % json_integer_value(patch);
    return cut ? NULL : json_incref((json_t *)(uintptr_t)side);
}

static json_t *there_down(const json_t *config, const json_t *x) {
    return image_side(config, side_of(x, 0));
}

static json_t *there_across(const json_t *config, const json_t *x) {
    return image_side(config, side_of(x, 1));
}

/* The side of a patch, which is a square. */
static json_t *there_side(const json_t *config, const json_t *x) {
    const json_t *down = side_of(x, 0);
    (void)config;
    return json_incref((json_t *)(uintptr_t)(qkv_family_same(down, side_of(x, 1)) ? down : x));
}

/* The positions of an image: its patches and a class token. */
static json_t *there_patches(const json_t *config, const json_t *x) {
    const double patch = json_number_value(side_of(qkv_family_get(config, "patch_size"), 0));
    const double down = json_number_value(side_of(x, 0)), across = json_number_value(side_of(x, 1));
    return there_whole(patch > 0 ? qkv_floor(down / patch) * qkv_floor(across / patch) + 1 : 1);
}

/* A window of that many positions to both sides: the positions in all. */
static json_t *there_sides(const json_t *config, const json_t *x) {
    (void)config;
    return there_whole(qkv_floor(json_number_value(x) / 2) + 1);
}

/* A window of half as many positions, at least one, unless sliding_window says how many. */
static json_t *there_half(const json_t *config, const json_t *x) {
    const json_t *whole = qkv_family_get(config, "sliding_window");
    const double half = json_is_integer(whole) ? json_number_value(whole) : qkv_floor(json_number_value(x) / 2);
    return half < 1 ? NULL : there_whole(half);
}

/* A window of Gemma 3, which is to both sides where attention is bidirectional. */
static json_t *there_reach(const json_t *config, const json_t *x) {
    if (json_is_true(qkv_family_get(config, "use_bidirectional_attention"))) return there_sides(config, x);
    return json_incref((json_t *)(uintptr_t)x);
}

static json_t *there_count(const json_t *config, const json_t *x) {
    (void)config;
    return json_integer((json_int_t)json_object_size(x));
}

/* Whether embeddings are scaled: √d_model or 1. */
static json_t *there_scaled(const json_t *config, const json_t *x) {
    const char *width = json_object_get(config, "d_model") ? "d_model" : "hidden_size";
    return json_real(json_is_true(x) ? sqrt(config_number(config, width)) : 1);
}

/* Whether a word is that of a rule of qkv_family_activations, which has config.json's word, 'gelu_new', and after "="
 * the spec's, 'gelu_tanh'. */
static bool word_is(const char *quoted, const char *word) {
    const size_t n = strlen(word);
    return quoted[0] == '\'' && !strncmp(quoted + 1, word, n) && !strcmp(quoted + 1 + n, "'");
}

static json_t *there_activation(const json_t *config, const json_t *x) {
    const char *word = json_string_value(x);
    (void)config;
    for (const struct qkv_family_rule *rule = qkv_family_activations; word && rule->when; rule++)
        if (word_is(rule->when, word)) return qkv_family_constant(strchr(rule->then, '=') + 1);
    return NULL;
}

/* All channels of a head of latent attention, from those that are not rotated. */
static json_t *there_with_turned(const json_t *config, const json_t *x) {
    return there_whole(json_number_value(x) + config_number(config, "qk_rope_head_dim"));
}

/* The width of the shared expert, from the number of experts that all rows go through. */
static json_t *there_shared(const json_t *config, const json_t *x) {
    return there_whole(json_number_value(x) * config_number(config, "moe_intermediate_size"));
}

/* Keys of scalings: config.json's name, the spec's, and the kinds of scaling that have the key; others ignore it. */
static const struct {
    const char *theirs, *ours, *kinds;
} scaling_keys[] = {
    {"factor", "factor", "linear dynamic ntk yarn llama3 longrope"},
    {"original_max_position_embeddings", "original_context", "yarn llama3 longrope"},
    {"beta_fast", "beta_fast", "yarn"},
    {"beta_slow", "beta_slow", "yarn"},
    {"truncate", "truncate", "yarn"},
    {"mscale", "mscale", "yarn"},
    {"mscale_all_dim", "mscale_all_dim", "yarn"},
    {"low_freq_factor", "low_freq", "llama3"},
    {"high_freq_factor", "high_freq", "llama3"},
    {"attention_factor", "attention_factor", "yarn longrope"},
    {"short_factor", "short", "longrope"},
    {"long_factor", "long", "longrope"},
};
enum { SCALING_KEYS = sizeof scaling_keys / sizeof *scaling_keys };

bool qkv_family_scaling_has(const char *key) {
    for (size_t i = 0; i < SCALING_KEYS; i++)
        if (!strcmp(scaling_keys[i].theirs, key)) return true;
    return false;
}

const char *qkv_family_scaling_key(const char *ours) {
    for (size_t i = 0; i < SCALING_KEYS; i++)
        if (!strcmp(scaling_keys[i].ours, ours)) return scaling_keys[i].theirs;
    return strcmp(ours, "kind") ? NULL : "rope_type";
}

/* The scaling. The length of training is the key of config.json where there is one, else that of the scaling, else the
 * context. */
static json_t *there_scaling(const json_t *config, const json_t *x) {
    if (!json_is_object(x)) return json_null();
    const json_t *type = json_object_get(x, "rope_type");
    if (!type || json_is_null(type)) type = json_object_get(x, "type");
    const char *kind = json_string_value(type) ? json_string_value(type) : "";
    if (!strcmp(kind, "default")) return json_null();
    if (!strcmp(kind, "su") || json_object_get(x, "long_factor")) kind = "longrope";
    json_t *out = json_object(), *whole = qkv_family_get(config, "original_max_position_embeddings");
    json_t *context = qkv_family_get(config, "max_position_embeddings");
    json_object_set_new(out, "kind", json_string(kind));
    for (size_t i = 0; i < SCALING_KEYS; i++) {
        json_t *value = json_object_get(x, scaling_keys[i].theirs);
        if (!value || json_is_null(value) || !strstr(scaling_keys[i].kinds, kind)) continue;
        json_object_set(out, scaling_keys[i].ours, value);
    }
    const bool trained = !strcmp(kind, "yarn") || !strcmp(kind, "llama3") || !strcmp(kind, "longrope");
    if (trained && json_is_number(whole)) json_object_set(out, "original_context", whole);
    if ((trained || !strcmp(kind, "dynamic")) && json_is_number(context) && !json_object_get(out, "original_context"))
        json_object_set(out, "original_context", context);
    return out;
}

/* Hunyuan's scaling of the base, which it calls dynamic: theta·alpha^(d/(d − 2)). */
static json_t *there_scaling_alpha(const json_t *config, const json_t *x) {
    json_t *alpha = json_object_get(x, "alpha"), *out = there_scaling(config, x);
    const char *kind = json_string_value(json_object_get(out, "kind"));
    if (!json_is_number(alpha) || json_number_value(alpha) == 0 || !kind || strcmp(kind, "dynamic") != 0) return out;
    json_decref(out);
    return json_pack("{s:s, s:O}", "kind", "ntk", "factor", alpha);
}

/* PhiMoE's factor of cosines and sines, which it has for short and for long texts; one factor for both is read. */
static json_t *there_scaling_mscale(const json_t *config, const json_t *x) {
    json_t *factor = json_object_get(x, "short_mscale"), *out = there_scaling(config, x);
    if (!json_is_object(out)) return out;
    if (json_is_number(factor) && qkv_family_same(factor, json_object_get(x, "long_mscale")) &&
        !json_object_set(out, "attention_factor", factor))
        return out;
    json_decref(out);
    return NULL;
}

static json_t *there_twice(const json_t *config, const json_t *x) {
    (void)config;
    return json_real(2 * json_number_value(x));
}

/* ---- transforms: from a spec to config.json ---------------------------------------------------------------------- */

/* A number; one that differs from a whole number by rounding only is whole. */
static json_t *back_number(double x) {
    const double whole = qkv_rint(x);
    return fabs(x - whole) <= 1e-9 * fabs(x) ? json_integer((json_int_t)whole) : json_real(x);
}

/* The scale of scores; 0 means the default of the head's width. */
static json_t *back_rsqrt(const struct qkv_spec *spec, const json_t *x) {
    const double y = json_number_value(x);
    if (y > 0) return back_number(1 / (y * y));
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    return json_integer(stack->kinds[0].attention.head_dim);
}

static json_t *back_sqrt(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return back_number(json_number_value(x) * json_number_value(x));
}

static json_t *back_reciprocal(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return back_number(1 / json_number_value(x));
}

static json_t *back_zero(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_number_value(x) == 0 ? json_null() : json_incref((json_t *)(uintptr_t)x);
}

static json_t *back_flag(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_incref((json_t *)(uintptr_t)x);
}

/* Classes with types look up one per token, so they need at least one. */
static json_t *back_types(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_integer((json_int_t)qkv_fmax(json_number_value(x), 1));
}

static json_t *back_rotary(const struct qkv_spec *spec, const json_t *x) {
    return back_number(json_number_value(x) * spec->decoder.kinds[0].attention.head_dim);
}

static json_t *back_expansion(const struct qkv_spec *spec, const json_t *x) {
    return back_number(json_number_value(x) / spec->d_model);
}

static json_t *back_next(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_integer((json_int_t)json_number_value(x) - 1);
}

static json_t *back_behind_pad(const struct qkv_spec *spec, const json_t *x) {
    return json_integer((json_int_t)json_number_value(x) + spec->encoder.embed.position.offset);
}

/* One number if both sides are equal. */
static json_t *back_down(const struct qkv_spec *spec, const json_t *x) {
    const int width = spec->encoder.embed.input.width;
    if (json_number_value(x) == width) return json_incref((json_t *)(uintptr_t)x);
    return json_pack("[O,i]", x, width);
}

static json_t *back_across(const struct qkv_spec *spec, const json_t *x) {
    (void)spec, (void)x;
    return NULL; /* written with the height */
}

static json_t *back_side(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_incref((json_t *)(uintptr_t)x);
}

/* Positions follow from the size of the image, so nothing is written. */
static json_t *back_patches(const struct qkv_spec *spec, const json_t *x) {
    (void)spec, (void)x;
    return NULL;
}

static json_t *back_sides(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_integer(2 * ((json_int_t)json_number_value(x) - 1));
}

static json_t *back_half(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_integer(2 * (json_int_t)json_number_value(x));
}

static json_t *back_reach(const struct qkv_spec *spec, const json_t *x) {
    if (!spec->decoder.kinds[0].attention.causal) return back_sides(spec, x);
    return json_incref((json_t *)(uintptr_t)x);
}

static json_t *back_count(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    json_t *labels = json_object();
    for (json_int_t i = 0; i < (json_int_t)json_number_value(x); i++) {
        char key[24], label[32];
        snprintf(key, sizeof key, "%lld", (long long)i);
        snprintf(label, sizeof label, "LABEL_%lld", (long long)i);
        json_object_set_new(labels, key, json_string(label));
    }
    return labels;
}

static json_t *back_with_turned(const struct qkv_spec *spec, const json_t *x) {
    return json_integer((json_int_t)json_number_value(x) - spec->decoder.kinds[0].attention.latent.rope_dim);
}

static json_t *back_shared(const struct qkv_spec *spec, const json_t *x) {
    const struct qkv_stack_spec *stack = &spec->decoder;
    int k = 0;
    while (k + 1 < stack->kind_count && !stack->kinds[k].ffn.experts.given) k++;
    return back_number(json_number_value(x) / stack->kinds[k].ffn.d_ff);
}

static json_t *back_activation(const struct qkv_spec *spec, const json_t *x) {
    const char *word = json_string_value(x);
    (void)spec;
    for (const struct qkv_family_rule *rule = qkv_family_activations; word && rule->when; rule++)
        if (word_is(strchr(rule->then, '=') + 1, word)) return qkv_family_constant(rule->when);
    return NULL;
}

static json_t *back_scaled(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_boolean(json_number_value(x) != 1);
}

static json_t *back_scaling(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    if (!json_is_object(x)) return json_null();
    json_t *out = json_object();
    json_object_set(out, "rope_type", json_object_get(x, "kind"));
    for (size_t i = 0; i < SCALING_KEYS; i++) {
        json_t *value = json_object_get(x, scaling_keys[i].ours);
        const bool own = (!strcmp(scaling_keys[i].ours, "attention_factor") ||
                          !strcmp(scaling_keys[i].ours, "factor") || !strncmp(scaling_keys[i].ours, "mscale", 6)) &&
                         json_number_value(value) == 0; /* the default of the kind */
        if (value && !own) json_object_set(out, scaling_keys[i].theirs, value);
    }
    return out;
}

static json_t *back_scaling_alpha(const struct qkv_spec *spec, const json_t *x) {
    const char *kind = json_string_value(json_object_get(x, "kind"));
    if (!kind || strcmp(kind, "ntk") != 0) return back_scaling(spec, x);
    return json_pack("{s:s, s:f, s:O}", "rope_type", "dynamic", "factor", 1.0, "alpha", json_object_get(x, "factor"));
}

static json_t *back_scaling_mscale(const struct qkv_spec *spec, const json_t *x) {
    json_t *out = back_scaling(spec, x), *factor = json_object_get(x, "attention_factor");
    if (!json_is_object(out)) return out;
    json_object_set(out, "short_mscale", factor);
    json_object_set(out, "long_mscale", factor);
    json_object_del(out, "attention_factor");
    return out;
}

static json_t *back_twice(const struct qkv_spec *spec, const json_t *x) {
    (void)spec;
    return json_real(json_number_value(x) / 2);
}

/* null where config.json without the key would mean a scaling. */
static json_t *back_scaling_said(const struct qkv_spec *spec, const json_t *x) {
    return json_is_object(x) ? back_scaling(spec, x) : json_pack("{s:s}", "rope_type", "default");
}

/* The meaning of "$KEY:NAME"; `there` returns NULL for a value that `refused` describes. */
static const struct {
    const char *name;
    json_t *(*there)(const json_t *config, const json_t *value);
    json_t *(*back)(const struct qkv_spec *spec, const json_t *value);
    const char *refused;
} transforms[] = {
    {"rsqrt", there_rsqrt, back_rsqrt, "is out of range"},
    {"sqrt", there_sqrt, back_sqrt, "is out of range"},
    {"reciprocal", there_reciprocal, back_reciprocal, "is out of range"},
    {"activation", there_activation, back_activation, "is not an activation that can be read"},
    {"zero", there_zero, back_zero, "is out of range"},
    {"rule", there_rule, back_zero, "is out of range"},
    {"flag", there_flag, back_flag, "is not true or false"},
    {"rotary", there_rotary, back_rotary, "is out of range"},
    {"types", there_rule, back_types, "is out of range"},
    {"expansion", there_expansion, back_expansion, "is out of range"},
    {"quarters", there_quarters, back_side, "is not a multiple of 4"},
    {"next", there_next, back_next, "is not a whole number"},
    {"behind_pad", there_behind_pad, back_behind_pad, "is out of range"},
    {"down", there_down, back_down, "is not a multiple of patch_size"},
    {"across", there_across, back_across, "is not a multiple of patch_size"},
    {"side", there_side, back_side, "is out of range"},
    {"sides", there_sides, back_sides, "is out of range"},
    {"half", there_half, back_half, "is out of range"},
    {"reach", there_reach, back_reach, "is out of range"},
    {"patches", there_patches, back_patches, "is out of range"},
    {"count", there_count, back_count, "is out of range"},
    {"scaled", there_scaled, back_scaled, "is out of range"},
    {"scaling", there_scaling, back_scaling, "is out of range"},
    {"scaling_alpha", there_scaling_alpha, back_scaling_alpha, "is out of range"},
    {"scaling_mscale", there_scaling_mscale, back_scaling_mscale, "needs equal numbers short_mscale and long_mscale"},
    {"twice", there_twice, back_twice, "is out of range"},
    {"scaling_said", there_scaling, back_scaling_said, "is out of range"},
    {"with_turned", there_with_turned, back_with_turned, "is out of range"},
    {"shared", there_shared, back_shared, "is out of range"},
};

json_t *qkv_family_value(const json_t *config, const char *value, const char **why) {
    char key[96];
    *why = NULL;
    if (*value != '$') return qkv_family_constant(value);
    const size_t n = strcspn(value, ":");
    snprintf(key, sizeof key, "%.*s", (int)n - 1, value + 1);
    json_t *x = qkv_family_get(config, key);
    if (!x) {
        *why = "is missing";
        return NULL;
    }
    if (!value[n]) return json_incref(x);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++) {
        if (strcmp(transforms[i].name, value + n + 1)) continue;
        json_t *made = transforms[i].there(config, x);
        if (!made) *why = transforms[i].refused; /* also for infinities, which JSON does not have */
        return made;
    }
    *why = "has an unknown transform";
    return NULL;
}

json_t *qkv_family_back(const struct qkv_spec *spec, const char *transform, const json_t *value) {
    if (!*transform) return json_incref((json_t *)(uintptr_t)value);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        if (!strcmp(transforms[i].name, transform)) return transforms[i].back(spec, value);
    return NULL;
}
