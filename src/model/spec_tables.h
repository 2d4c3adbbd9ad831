/* spec_tables: the vocabulary of the tables of keys, which are in spec_keys.c (the whole spec, head, init, stacks) and
 * spec_{embed,layer,position,expert}_keys.c. */
#ifndef QKV_SPEC_TABLES_H
#define QKV_SPEC_TABLES_H

#include "model/spec.h"

#include <float.h>
#include <limits.h>
#include <math.h>

#define DIMENSION (1 << 20)
#define VOCAB     (1 << 24)

/* The value and its help, from a list of kinds. */
#define FIRST(first, ...)     first
#define TEXT(name, text, ...) {text, FIRST(__VA_ARGS__, 0)},
#define CHOICES(name, list)   static const struct qkv_spec_choice name[] = {list(TEXT){NULL, NULL}}

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
/* A dropout that a part of the spec may have of its own. */
#define RATE_TEXT  "a number from 0 to less than 1, or null for the spec's dropout"
#define RATE_FLAGS (QKV_KEY_BELOW_HIGH | QKV_KEY_NULL | QKV_KEY_LATER | QKV_KEY_RATE)
#define FLAG(type_, field, ...)                                                                                        \
    { .name = #field, .type = QKV_KEY_FLAG, .offset = offsetof(struct type_, field), __VA_ARGS__ }
#define CHOICE(type_, field, choices_, ...)                                                                            \
    {                                                                                                                  \
        .name = #field, .type = QKV_KEY_CHOICE, .offset = offsetof(struct type_, field), .choices = choices_,          \
        __VA_ARGS__                                                                                                    \
    }
#define LIST(type_, name_, field, low_, text_, ...)                                                                    \
    {                                                                                                                  \
        .name = name_, .type = QKV_KEY_LIST, .offset = offsetof(struct type_, field), .low = low_, .high = FLT_MAX,    \
        .text = text_, __VA_ARGS__                                                                                     \
    }
#define OBJECT(type_, field, keys_, ...)                                                                               \
    { .name = #field, .type = QKV_KEY_OBJECT, .offset = offsetof(struct type_, field), .keys = keys_, __VA_ARGS__ }
#define CONSTANT(name_, text_)                                                                                         \
    { .name = name_, .type = QKV_KEY_CONSTANT, .text = text_, .flags = QKV_KEY_REQUIRED }
#define END                                                                                                            \
    { .name = NULL }

/* The keys of a position of the whole model, which version 1 has; of the embedding; of the parts of a layer. */
extern const struct qkv_key qkv_position_keys[], qkv_embed_keys[], qkv_attention_keys[], qkv_norm_keys[],
    qkv_ffn_keys[], qkv_experts_keys[], qkv_layer_keys[], qkv_stack_keys[], qkv_scaling_keys[],
    qkv_attention_position_keys[];
/* The keys of a norm without placement and final. The object is a struct qkv_norm_spec, or begins with one:
 * OBJECT(type, norm, qkv_norm_only_keys, .flags = QKV_KEY_OPTIONAL), or NORM_KEYS and what else the object has. */
extern const struct qkv_key qkv_norm_only_keys[];
extern const struct qkv_spec_choice qkv_norm_choices[];
double qkv_rule_norm_bias(const struct qkv_place *place);
#define NORM_KIND                                                                                                      \
    CHOICE(qkv_norm_spec, kind, qkv_norm_choices, .value = QKV_NORM_LAYERNORM,                                         \
           .help = "The function that normalises the channels of a position.")
#define NORM_EPS                                                                                                       \
    REAL(qkv_norm_spec, eps, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW, .value = 1e-5,         \
         .example = "1e-6", .help = "Added to the variance, or to the mean square, before the square root.")
#define NORM_AFFINE                                                                                                    \
    FLAG(qkv_norm_spec, weight, .flags = QKV_KEY_LATER, .neutral = true, .value = true,                                \
         .help = "Whether the norm has a weight for each channel. Without one it has no bias either."),                \
        FLAG(qkv_norm_spec, bias, .rule = qkv_rule_norm_bias,                                                          \
             .standard = "true for a layernorm with a weight, else false", .example = "false",                         \
             .help = "Whether the norm has a bias. An rmsnorm has none.")
#define NORM_KEYS NORM_KIND, NORM_EPS, NORM_AFFINE
/* Whether the only kind of layers stands beside the stack's other keys; and what else several tables ask. */
bool qkv_place_has_one_kind(const struct qkv_place *place);
bool qkv_place_beside_an_encoder(const struct qkv_place *place);
/* The default of embed.scale: √d_model with sinusoids, which are larger than new embeddings; else 1 (Vaswani et al.
 * 2017). */
double qkv_scale_beside(enum qkv_position_kind position, int d_model);

/* The keys of a layer. In the table of a stack, they are those of its first kind (QKV_KEY_OF_LAYER). */
#define PAIR  "/encoder.layers=2 /encoder.attention.heads=4"
#define CROSS .applies = qkv_place_beside_an_encoder, .owner = "a decoder beside an encoder", .needs = PAIR
#define LAYER_KEYS(where)                                                                                              \
    OBJECT(qkv_layer_spec, attention, qkv_attention_keys, .flags = QKV_KEY_OF_LAYER, .applies = where,                 \
           .example = "{\"heads\":8}", .help = "Self attention."),                                                     \
        OBJECT(qkv_layer_spec, cross, qkv_attention_keys, .flags = QKV_KEY_OF_LAYER | QKV_KEY_NULL, CROSS,             \
               .standard = "the values of attention, without its mask, position, latent and share",                    \
               .example = "{\"heads\":2}",                                                                             \
               .help = "Cross attention: the attention of a decoder to the states of the encoder. A key that is left " \
                       "out has the value that it has in attention."),                                                 \
        OBJECT(qkv_layer_spec, norm, qkv_norm_keys, .flags = QKV_KEY_OF_LAYER, .applies = where,                       \
               .example = "{\"kind\":\"rmsnorm\"}", .help = "The norms of a layer."),                                  \
        OBJECT(qkv_layer_spec, ffn, qkv_ffn_keys, .flags = QKV_KEY_OF_LAYER, .applies = where,                         \
               .example = "{\"kind\":\"swiglu\"}", .help = "The feed-forward of a layer."),                            \
        REAL(qkv_layer_spec, residual_scale, -FLT_MAX, FLT_MAX, "a number other than 0",                               \
             .flags = QKV_KEY_OF_LAYER | QKV_KEY_LATER | QKV_KEY_NOT_ZERO, .neutral = 1, .value = 1, .applies = where, \
             .example = "0.22", .help = "Multiplies what each sublayer adds to the residual stream (Granite)."),       \
        FLAG(qkv_layer_spec, cross_only, .flags = QKV_KEY_OF_LAYER | QKV_KEY_LATER, .neutral = false, CROSS,           \
             .help = "Whether the layers have cross attention and a feed-forward, but no self attention."),            \
        REAL(qkv_layer_spec, residual_dropout, 0, 1, RATE_TEXT, .example = "0.1",                                      \
             .flags = QKV_KEY_OF_LAYER | RATE_FLAGS, .applies = where, .standard = "null",                             \
             .help = "The dropout of the output of each sublayer.")

#endif
