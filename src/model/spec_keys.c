/* The keys of config.json: one line each, with type, range, default and where it means something. The order is the order
 * of printing, and a default may depend on what stands before. */
#include "base/json_load.h"
#include "kernel/kernel.h"
#include "model/spec.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIMENSION (1 << 20)
#define VOCAB     (1 << 24)

_Static_assert(sizeof(enum qkv_position_kind) == sizeof(int) && sizeof(enum qkv_bias_kind) == sizeof(int),
               "choices are read and written as int");

/* ---- choices ---------------------------------------------------------------------------------------------------- */

#define TEXT(name, text, help)                text,
#define CHOICES(name, list)                   static const char *const name[] = {list(TEXT) NULL}
#define POSITION_TEXT(name, text, help, file) text,
static const char *const positions[] = {QKV_POSITION_LIST(POSITION_TEXT) NULL};
/* Parts of a list: a choice without a text cannot be made here. */
#define GAP(name, text, help, file) "",
static const char *const embed_positions[] = {"none", QKV_EMBED_POSITION_LIST(POSITION_TEXT) NULL};
static const char *const attention_positions[] = {"none", QKV_EMBED_POSITION_LIST(GAP)
                                                              QKV_ATTENTION_POSITION_LIST(POSITION_TEXT) NULL};
CHOICES(pairings, QKV_PAIRING_LIST);
CHOICES(biases, QKV_BIAS_LIST);
CHOICES(norms, QKV_NORM_LIST);
#define PLACEMENT_TEXT(name, text, help, file, final) text,
static const char *const placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_TEXT) NULL};
#define PLACEMENT_FINAL(name, text, help, file, final) final,
static const bool final_placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_FINAL)};
#define FFN_TEXT(name, text, help, activation, gated) text,
static const char *const ffns[] = {QKV_FFN_LIST(FFN_TEXT) NULL};
#define FFN_GATED(name, text, help, activation, gated) gated,
static const bool gated_ffns[] = {QKV_FFN_LIST(FFN_GATED)};
bool qkv_ffn_gated(enum qkv_ffn_kind kind) {
    return gated_ffns[kind];
}

int qkv_ffn_width(enum qkv_ffn_kind kind, int d_model) {
    const int64_t wide = 4 * (int64_t)d_model, multiple = d_model < 1024 ? 8 : 256;
    const int64_t d_ff = qkv_ffn_gated(kind) ? (2 * wide / 3 + multiple - 1) / multiple * multiple : wide;
    return d_ff < INT_MAX ? (int)d_ff : INT_MAX;
}
CHOICES(ties, QKV_TIE_LIST);
CHOICES(inits, QKV_INIT_LIST);
CHOICES(heads, QKV_HEAD_LIST);
CHOICES(pools, QKV_POOL_LIST);

/* ---- defaults that depend on something ----------------------------------------------------------------------- */

static double rule_kv_heads(const struct qkv_place *p) {
    return ((const struct qkv_attention_spec *)p->object)->heads;
}

/* 0 where heads does not divide d_model, which the check explains. */
static double rule_head_dim(const struct qkv_place *p) {
    int H = ((const struct qkv_attention_spec *)p->object)->heads;
    return H > 0 && p->spec->d_model % H == 0 ? p->spec->d_model / H : 0;
}

static double rule_value_dim(const struct qkv_place *p) {
    return ((const struct qkv_attention_spec *)p->object)->head_dim;
}

static double rule_causal(const struct qkv_place *p) {
    return p->stack == &p->spec->decoder;
}

static double rule_final(const struct qkv_place *p) {
    return final_placements[((const struct qkv_norm_spec *)p->object)->placement];
}

static double rule_norm_bias(const struct qkv_place *p) {
    return ((const struct qkv_norm_spec *)p->object)->kind == QKV_NORM_LAYERNORM;
}

static double rule_d_ff(const struct qkv_place *p) {
    return qkv_ffn_width(((const struct qkv_ffn_spec *)p->object)->kind, p->spec->d_model);
}

static double rule_head_bias(const struct qkv_place *p) {
    return p->spec->head.kind == QKV_HEAD_CLASSIFY;
}

static double rule_tie(const struct qkv_place *p) {
    return p->spec->head.kind == QKV_HEAD_LM ? QKV_TIE_HEAD : QKV_TIE_NONE;
}

static bool starts_with_a_deviation(const struct qkv_place *p) {
    return p->spec->init.kind != QKV_INIT_XAVIER;
}

static double rule_source_vocab(const struct qkv_place *p) {
    return p->spec->vocab;
}

/* Of the whole model, where that is said in one place, as in version 1. */
static double rule_position(const struct qkv_place *p) {
    return p->written->version == 1 ? QKV_POSITION_LEARNED : QKV_POSITION_NONE;
}

static double rule_attention_position(const struct qkv_place *p) {
    return qkv_position_in_attention(p->written->position.kind) ? p->written->position.kind : QKV_POSITION_NONE;
}

static double rule_theta(const struct qkv_place *p) {
    return p->written->position.kind == QKV_POSITION_ROPE ? p->written->position.theta : 10000;
}

static double rule_pairing(const struct qkv_place *p) {
    return p->written->position.kind == QKV_POSITION_ROPE ? p->written->position.pairing : QKV_PAIRING_HALF;
}

static double rule_fraction(const struct qkv_place *p) {
    return p->written->position.kind == QKV_POSITION_ROPE ? p->written->position.fraction : 1;
}

static bool stack_has_position(const struct qkv_stack_spec *s) {
    for (int i = 0; i < s->kind_count; i++)
        if (s->kinds[i].attention.position.kind != QKV_POSITION_NONE) return true;
    return false;
}

/* Learned, as in version 1, where nothing else gives a position. */
static double rule_embed_position(const struct qkv_place *p) {
    const struct qkv_written_spec *w = p->written;
    if (w->position_given) return qkv_position_in_attention(w->position.kind) ? QKV_POSITION_NONE : w->position.kind;
    bool other = stack_has_position(&p->spec->encoder) || stack_has_position(&p->spec->decoder);
    return other ? QKV_POSITION_NONE : QKV_POSITION_LEARNED;
}

/* New embeddings are small beside sinusoids; with a scale of their own width they are not (Vaswani et al. 2017). */
static double scale_beside(enum qkv_position_kind position, int d_model) {
    return position == QKV_POSITION_SINUSOIDAL ? sqrt(d_model) : 1;
}

static double rule_written_scale(const struct qkv_place *p) {
    return scale_beside(p->written->position.kind, p->spec->d_model);
}

static double rule_embed_scale(const struct qkv_place *p) {
    const struct qkv_written_spec *w = p->written;
    if (w->embed_scale_given || w->version == 1) return w->embed_scale;
    return scale_beside(p->spec->embed.position.kind, p->spec->d_model);
}

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool in_rope(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_ROPE;
}

static bool in_self_attention(const struct qkv_place *p) {
    return !p->like;
}

static bool has_one_kind(const struct qkv_place *p) {
    return !p->stack->kinds[0].name[0];
}

static bool has_kinds(const struct qkv_place *p) {
    return !has_one_kind(p);
}

/* The norm after the last layer is of that layer's kind. */
static bool ends_a_stack(const struct qkv_place *p) {
    const struct qkv_stack_spec *s = p->stack;
    return s->layers < 1 || s->layers > QKV_LAYERS_MAX || p->layer == &s->kinds[s->kind_of[s->layers - 1]];
}

static bool in_classify(const struct qkv_place *p) {
    return p->spec->head.kind == QKV_HEAD_CLASSIFY;
}

static bool in_a_head(const struct qkv_place *p) {
    return p->spec->head.kind != QKV_HEAD_NONE;
}

static bool has_prompts(const struct qkv_place *p) {
    return qkv_spec_topology(p->spec) == QKV_DECODER_ALONE && p->spec->head.kind == QKV_HEAD_LM;
}

static bool beside_a_decoder(const struct qkv_place *p) {
    return qkv_spec_topology(p->spec) == QKV_ENCODER_DECODER;
}

static bool beside_an_encoder(const struct qkv_place *p) {
    bool of_kinds = p->object == (void *)p->stack && !has_one_kind(p);
    return p->stack == &p->spec->decoder && p->spec->encoder.layers != 0 && !of_kinds;
}

static bool has_encoder(const struct qkv_place *p) {
    return p->spec->encoder.layers != 0;
}

static bool has_decoder(const struct qkv_place *p) {
    return p->spec->decoder.layers != 0;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

#define WHOLE(type_, field, low_, high_, ...)                                                                          \
    {                                                                                                                  \
        .name = #field, .type = QKV_KEY_WHOLE, .offset = offsetof(struct type_, field), .low = low_, .high = high_,    \
        __VA_ARGS__                                                                                                    \
    }
#define REAL(type_, field, low_, high_, text_, ...)                                                                    \
    {                                                                                                                  \
        .name = #field, .type = QKV_KEY_REAL, .offset = offsetof(struct type_, field), .low = low_, .high = high_,     \
        .text = text_, __VA_ARGS__                                                                                     \
    }
#define FLAG(type_, field, ...)                                                                                        \
    { .name = #field, .type = QKV_KEY_FLAG, .offset = offsetof(struct type_, field), __VA_ARGS__ }
#define CHOICE(type_, field, choices_, ...)                                                                            \
    {                                                                                                                  \
        .name = #field, .type = QKV_KEY_CHOICE, .offset = offsetof(struct type_, field), .choices = choices_,          \
        __VA_ARGS__                                                                                                    \
    }
#define OBJECT(type_, field, keys_, ...)                                                                               \
    { .name = #field, .type = QKV_KEY_OBJECT, .offset = offsetof(struct type_, field), .keys = keys_, __VA_ARGS__ }
#define CONSTANT(name_, text_)                                                                                         \
    { .name = name_, .type = QKV_KEY_CONSTANT, .text = text_, .flags = QKV_KEY_REQUIRED }
#define END                                                                                                            \
    { .name = NULL }

/* Whether theta is a rotation's own, or by default that of the whole model, is what the two tables differ in. */
#define ROTATION_KEYS(theta_rule, pairing_rule, fraction_rule)                                                         \
    REAL(qkv_position_spec, theta, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE,   \
         .value = 10000, .rule = theta_rule, .applies = in_rope, .owner = "position.kind rope"),                       \
        CHOICE(qkv_position_spec, pairing, pairings, .flags = QKV_KEY_IDLE, .value = QKV_PAIRING_HALF,                 \
               .rule = pairing_rule, .applies = in_rope, .owner = "position.kind rope"),                               \
        REAL(qkv_position_spec, fraction, 0, 1, "a number greater than 0 and at most 1",                               \
             .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, .value = 1, .rule = fraction_rule, .applies = in_rope,         \
             .owner = "position.kind rope")

static const struct qkv_key position_keys[] = {
    CHOICE(qkv_position_spec, kind, positions, .rule = rule_position),
    ROTATION_KEYS(NULL, NULL, NULL),
    END,
};

static const struct qkv_key attention_position_keys[] = {
    CHOICE(qkv_position_spec, kind, attention_positions, .rule = rule_attention_position),
    ROTATION_KEYS(rule_theta, rule_pairing, rule_fraction),
    END,
};

static const struct qkv_key embed_position_keys[] = {
    CHOICE(qkv_position_spec, kind, embed_positions, .rule = rule_embed_position),
    END,
};

static const struct qkv_key embed_keys[] = {
    OBJECT(qkv_embed_spec, position, embed_position_keys, .flags = 0),
    REAL(qkv_embed_spec, scale, -FLT_MAX, FLT_MAX, "a number other than 0", .flags = QKV_KEY_NOT_ZERO,
         .rule = rule_embed_scale),
    END,
};

static const struct qkv_key attention_keys[] = {
    WHOLE(qkv_attention_spec, heads, 1, DIMENSION, .flags = QKV_KEY_REQUIRED),
    WHOLE(qkv_attention_spec, kv_heads, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_kv_heads),
    WHOLE(qkv_attention_spec, head_dim, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_head_dim),
    WHOLE(qkv_attention_spec, value_dim, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_value_dim),
    FLAG(qkv_attention_spec, causal, .flags = QKV_KEY_MASK, .rule = rule_causal),
    WHOLE(qkv_attention_spec, window, 0, INT_MAX, .flags = QKV_KEY_MASK),
    REAL(qkv_attention_spec, softcap, 0, FLT_MAX, "a number from 2.94e-39 to 3.4e38, or 0 for none",
         .flags = QKV_KEY_SOFTCAP, .value = 0),
    REAL(qkv_attention_spec, scale, 0, FLT_MAX, "a number greater than 0, or null for 1/sqrt(head_dim)",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL),
    CHOICE(qkv_attention_spec, bias, biases, .value = QKV_BIAS_ALL),
    OBJECT(qkv_attention_spec, position, attention_position_keys, .flags = QKV_KEY_VERSION_2,
           .applies = in_self_attention, .owner = "self attention"),
    END,
};

static const struct qkv_key norm_keys[] = {
    CHOICE(qkv_norm_spec, kind, norms, .value = QKV_NORM_LAYERNORM),
    CHOICE(qkv_norm_spec, placement, placements, .value = QKV_PLACEMENT_PRE),
    REAL(qkv_norm_spec, eps, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW, .value = 1e-5),
    FLAG(qkv_norm_spec, final, .flags = QKV_KEY_IDLE, .rule = rule_final, .applies = ends_a_stack,
         .owner = "the kind of the last layer"),
    FLAG(qkv_norm_spec, bias, .rule = rule_norm_bias),
    END,
};

static const struct qkv_key ffn_keys[] = {
    CHOICE(qkv_ffn_spec, kind, ffns, .value = QKV_FFN_GELU),
    WHOLE(qkv_ffn_spec, d_ff, 1, DIMENSION, .rule = rule_d_ff),
    FLAG(qkv_ffn_spec, bias, .value = true),
    REAL(qkv_ffn_spec, dropout, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH | QKV_KEY_LATER),
    END,
};

/* The parts of a layer, in a struct at `field` of struct `type`. */
#define PART(type_, name_, field_, keys_, ...)                                                                         \
    { .name = #name_, .type = QKV_KEY_OBJECT, .offset = offsetof(struct type_, field_), .keys = keys_, __VA_ARGS__ }
#define LAYER_KEYS(type, at, where)                                                                                    \
    PART(type, attention, at attention, attention_keys, .applies = where),                                             \
        PART(type, cross, at cross, attention_keys, .flags = QKV_KEY_NULL, .applies = beside_an_encoder,               \
             .owner = "a decoder beside an encoder"),                                                                  \
        PART(type, norm, at norm, norm_keys, .applies = where), PART(type, ffn, at ffn, ffn_keys, .applies = where)

static const struct qkv_key layer_keys[] = {LAYER_KEYS(qkv_layer_spec, , NULL), END};

/* The parts beside `kinds` are those of the only kind; in a file that has kinds, what these have in common. */
static const struct qkv_key stack_keys[] = {
    WHOLE(qkv_stack_spec, layers, 1, QKV_LAYERS_MAX, .flags = QKV_KEY_REQUIRED),
    {.name = "pattern", .type = QKV_KEY_PATTERN, .flags = QKV_KEY_VERSION_2, .applies = has_kinds},
    LAYER_KEYS(qkv_stack_spec, kinds[0]., has_one_kind),
    {.name = "kinds", .type = QKV_KEY_KINDS, .flags = QKV_KEY_VERSION_2, .keys = layer_keys, .applies = has_kinds},
    END,
};

/* The struct has no type of its own: the offsets count from the spec. */
static const struct qkv_key head_keys[] = {
    {.name = "kind",
     .type = QKV_KEY_CHOICE,
     .offset = offsetof(struct qkv_spec, head.kind),
     .choices = heads,
     .value = QKV_HEAD_LM},
    {.name = "classes",
     .type = QKV_KEY_WHOLE,
     .flags = QKV_KEY_LATE,
     .offset = offsetof(struct qkv_spec, head.classes),
     .low = 1,
     .high = DIMENSION,
     .applies = in_classify,
     .owner = "a head of kind classify"},
    {.name = "pool",
     .type = QKV_KEY_CHOICE,
     .offset = offsetof(struct qkv_spec, head.pool),
     .choices = pools,
     .value = QKV_POOL_FIRST,
     .applies = in_classify,
     .owner = "a head of kind classify"},
    {.name = "bias",
     .type = QKV_KEY_FLAG,
     .offset = offsetof(struct qkv_spec, head.bias),
     .rule = rule_head_bias,
     .applies = in_a_head,
     .owner = "a head of kind lm or classify"},
    END,
};

static const struct qkv_key init_keys[] = {
    CHOICE(qkv_init_spec, kind, inits, .value = QKV_INIT_GPT2, .neutral = QKV_INIT_GPT2),
    REAL(qkv_init_spec, std, 0, FLT_MAX, "a number greater than 0, or null for the kind's own",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL, .applies = starts_with_a_deviation,
         .owner = "init.kind gpt2 or torch"),
    END,
};

const struct qkv_key qkv_spec_keys[] = {
    CONSTANT("format", "\"qkv\""),
    {.name = "version",
     .type = QKV_KEY_VERSION,
     .offset = offsetof(struct qkv_written_spec, version),
     .low = 1,
     .high = 2,
     .text = "1 or 2"},
    WHOLE(qkv_spec, vocab, 1, VOCAB, .flags = QKV_KEY_LATE),
    WHOLE(qkv_spec, d_model, 1, DIMENSION, .flags = QKV_KEY_REQUIRED),
    WHOLE(qkv_spec, context, 1, 1 << 24, .flags = QKV_KEY_REQUIRED),
    OBJECT(qkv_written_spec, position, position_keys, .flags = QKV_KEY_VERSION_1,
           .instead = "embed.position or the attention's position"),
    REAL(qkv_written_spec, embed_scale, -FLT_MAX, FLT_MAX, "a number other than 0",
         .flags = QKV_KEY_NOT_ZERO | QKV_KEY_VERSION_1, .rule = rule_written_scale, .instead = "embed.scale"),
    REAL(qkv_spec, dropout, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH),
    {.name = "head", .type = QKV_KEY_OBJECT, .keys = head_keys},
    CHOICE(qkv_spec, tie, ties, .rule = rule_tie),
    OBJECT(qkv_spec, encoder, stack_keys, .flags = QKV_KEY_NULL, .applies = has_encoder),
    OBJECT(qkv_spec, decoder, stack_keys, .flags = QKV_KEY_NULL, .applies = has_decoder),
    OBJECT(qkv_spec, embed, embed_keys, .flags = QKV_KEY_VERSION_2),
    OBJECT(qkv_spec, init, init_keys, .flags = QKV_KEY_START),
    WHOLE(qkv_spec, source_vocab, 1, VOCAB, .flags = QKV_KEY_LATE, .rule = rule_source_vocab,
          .applies = beside_a_decoder, .owner = "an encoder beside a decoder"),
    {.name = "prefix",
     .type = QKV_KEY_FLAG,
     .flags = QKV_KEY_LATER,
     .offset = offsetof(struct qkv_spec, prefix),
     .applies = has_prompts,
     .owner = "a decoder alone with a head of kind lm"},
    END,
};

const char *qkv_spec_key_at(size_t i) {
    const struct qkv_key *key = qkv_spec_keys;
    for (; key->name; key++) {
        if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION || key->type == QKV_KEY_OBJECT) continue;
        if (i-- == 0) break;
    }
    return key->name;
}

/* ---- places, fields ------------------------------------------------------------------------------------------------ */

struct qkv_place qkv_spec_place(struct qkv_written_spec *written) {
    return (struct qkv_place){.written = written, .spec = &written->spec, .object = written};
}

struct qkv_place qkv_key_enter(const struct qkv_place *place, const struct qkv_key *key) {
    struct qkv_place in = *place;
    in.object = (char *)place->object + key->offset;
    if (key->keys == stack_keys) in.stack = in.object;
    if (key->keys == stack_keys) in.layer = &in.stack->kinds[0];
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

bool qkv_key_applies(const struct qkv_key *key, const struct qkv_place *place) {
    const struct qkv_written_spec *w = place->written;
    unsigned other = w->version == 1 ? QKV_KEY_VERSION_2 : QKV_KEY_VERSION_1;
    if (key->flags & other && !w->reading) return false;
    return !key->applies || key->applies(place);
}

double qkv_key_get(const struct qkv_key *key, const struct qkv_place *place) {
    const char *field = (const char *)place->object + key->offset;
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
    char *field = (char *)place->object + key->offset;
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
