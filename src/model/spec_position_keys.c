/* The keys of a position: of an attention, and of the whole model in the words of version 1 (spec_version1.c). One
 * entry for each key, as in spec_keys.c. */
#include "model/spec_tables.h"

CHOICES(positions, QKV_POSITION_LIST);
/* Parts of a list: a choice without a text cannot be made here. */
#define GAP(name, text, help, file) {"", NULL},
static const struct qkv_spec_choice attention_positions[] = {
    {"none", "no position: attention does not see the order of its keys, except through a causal mask"},
    QKV_EMBED_POSITION_LIST(GAP) QKV_ATTENTION_POSITION_LIST(TEXT){NULL, NULL}};
CHOICES(alibi_forms, QKV_ALIBI_LIST);
CHOICES(pairings, QKV_PAIRING_LIST);
CHOICES(scalings, QKV_SCALING_LIST);

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool in_rope(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_ROPE;
}

static bool in_alibi(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_ALIBI;
}

static bool in_mpt(const struct qkv_place *p) {
    return in_alibi(p) && ((const struct qkv_position_spec *)p->object)->form == QKV_ALIBI_MPT;
}

static bool in_buckets(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_BUCKETS;
}

static bool in_far(const struct qkv_place *p) {
    return in_buckets(p) || ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_RELATIVE;
}

static bool in_learned(const struct qkv_place *p) {
    return in_far(p) || (in_alibi(p) && ((const struct qkv_position_spec *)p->object)->learn);
}

static const struct qkv_scaling_spec *scaling_of(const struct qkv_place *p) {
    return p->object;
}

static bool in_original(const struct qkv_place *p) {
    const enum qkv_scaling_kind kind = scaling_of(p)->kind;
    return kind != QKV_SCALING_LINEAR && kind != QKV_SCALING_NTK;
}

static bool in_yarn(const struct qkv_place *p) {
    return scaling_of(p)->kind == QKV_SCALING_YARN;
}

static bool in_llama3(const struct qkv_place *p) {
    return scaling_of(p)->kind == QKV_SCALING_LLAMA3;
}

static bool in_longrope(const struct qkv_place *p) {
    return scaling_of(p)->kind == QKV_SCALING_LONGROPE;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

#define ABOVE_0 .flags = QKV_KEY_ABOVE_LOW
#define YARN    .needs = "kind=yarn factor=4 original_context=64", .applies = in_yarn, .owner = "a scaling of kind yarn"
#define LLAMA3                                                                                                         \
    .needs = "kind=llama3 factor=8 original_context=64", .applies = in_llama3, .owner = "a scaling of kind llama3"
#define LONGROPE .applies = in_longrope, .owner = "a scaling of kind longrope"
/* A factor for each pair of a head of 32 channels. */
#define SIXTEEN(x) "[" x "," x "," x "," x "," x "," x "," x "," x "," x "," x "," x "," x "," x "," x "," x "," x "]"
const struct qkv_key qkv_scaling_keys[] = {
    CHOICE(qkv_scaling_spec, kind, scalings, .flags = QKV_KEY_REQUIRED, .needs = "factor=4",
           .help = "The way to extend the rotation. docs/positions.md has the formulas."),
    REAL(qkv_scaling_spec, factor, 1, FLT_MAX, "a number of at least 1", .flags = QKV_KEY_NULL, .needs = "kind=linear",
         .standard = "for longrope context / original_context; other kinds need it", .example = "4",
         .help = "How many times more positions the model has than it was trained with."),
    WHOLE(qkv_scaling_spec, original_context, 1, 1 << 24, .applies = in_original, .flags = QKV_KEY_NULL,
          .owner = "a scaling of kind dynamic, yarn, llama3 or longrope", .needs = "kind=dynamic factor=2",
          .standard = "must be given", .example = "32",
          .help = "The number of positions that the model was trained with."),
    REAL(qkv_scaling_spec, beta_fast, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 32, YARN,
         .example = "16",
         .help = "Pairs of channels that turn at least this many times within original_context keep their angle."),
    REAL(qkv_scaling_spec, beta_slow, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 1, YARN, .example = "2",
         .help = "Pairs of channels that turn at most this many times within original_context have their angle divided "
                 "by factor. Between beta_slow and beta_fast the two are mixed."),
    FLAG(qkv_scaling_spec, truncate, .value = true, YARN,
         .help = "Whether the bounds of the mix are rounded to whole pairs of channels. gpt-oss has false."),
    REAL(qkv_scaling_spec, mscale, 0, FLT_MAX, "a number of at least 0", YARN, .example = "0.707",
         .help = "Together with mscale_all_dim it sets the default of attention_factor (DeepSeek). If one of the two "
                 "is 0, neither is used."),
    REAL(qkv_scaling_spec, mscale_all_dim, 0, FLT_MAX, "a number of at least 0", YARN, .example = "0.707",
         .help = "See mscale. With a latent it also changes the default of the attention's scale (DeepSeek)."),
    REAL(qkv_scaling_spec, low_freq, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 1, LLAMA3, .example = "2",
         .help = "Wavelengths longer than original_context / low_freq are multiplied by factor."),
    REAL(qkv_scaling_spec, high_freq, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 4, LLAMA3,
         .example = "8",
         .help = "Wavelengths shorter than original_context / high_freq stay. Between low_freq and high_freq the two "
                 "are mixed."),
    REAL(qkv_scaling_spec, attention_factor, 0, FLT_MAX, "a number greater than 0, or null for the kind's own",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL, .needs = "kind=linear factor=4", .example = "1.1",
         .standard = "null, which is a formula of factor for yarn and longrope, and 1 for other kinds",
         .help = "Multiplies the cosines and sines of the rotation."),
    LIST(qkv_scaling_spec, "short", short_factors, 0, "numbers greater than 0", ABOVE_0, LONGROPE,
         .standard = "must be given", .example = SIXTEEN("1.0"),
         .needs = "kind=longrope original_context=32 long=" SIXTEEN("4.0"),
         .help = "The factors that divide the angles of sequences of at most original_context positions: one for each "
                 "pair of rotated channels."),
    LIST(qkv_scaling_spec, "long", long_factors, 0, "numbers greater than 0", ABOVE_0, LONGROPE,
         .standard = "must be given", .example = SIXTEEN("4.0"),
         .needs = "kind=longrope original_context=32 short=" SIXTEEN("1.0"),
         .help = "The same for sequences that are longer than original_context."),
    END,
};
#undef ABOVE_0

/* The keys beside `kind`. */
#define ROTATION_KEYS                                                                                                  \
    REAL(qkv_position_spec, theta, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE,   \
         .value = 10000, .standard = "10000", .applies = in_rope, .owner = "position.kind rope", .needs = "kind=rope", \
         .example = "500000",                                                                                          \
         .help = "The base of the wavelengths of RoPE: from one position to the next, pair j of the d rotated "        \
                 "channels turns by the angle theta^(-2j/d). Llama 3 has 500000."),                                    \
        CHOICE(qkv_position_spec, pairing, pairings, .flags = QKV_KEY_IDLE, .value = QKV_PAIRING_HALF,                 \
               .standard = "half", .applies = in_rope, .owner = "position.kind rope", .needs = "kind=rope",            \
               .help = "Which two channels of a head RoPE rotates together."),                                         \
        REAL(qkv_position_spec, fraction, 0, 1, "a number greater than 0 and at most 1",                               \
             .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, .value = 1, .standard = "1", .applies = in_rope,               \
             .owner = "position.kind rope", .needs = "kind=rope", .example = "0.5",                                    \
             .help = "The share of a head's channels that RoPE rotates; they are the first ones. GPT-NeoX has 0.25."), \
        OBJECT(qkv_position_spec, scaling, qkv_scaling_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_IDLE,                 \
               .applies = in_rope, .owner = "position.kind rope", .needs = "kind=rope",                                \
               .example = "{\"kind\":\"linear\",\"factor\":4}",                                                        \
               .help = "Extends RoPE to more positions than the model was trained with.")

/* The same of biases by distance. */
#define DISTANCE_KEYS                                                                                                  \
    CHOICE(qkv_position_spec, form, alibi_forms, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = QKV_ALIBI_PRESS,    \
           .value = QKV_ALIBI_PRESS, .standard = "press", .applies = in_alibi, .owner = "position.kind alibi",         \
           .needs = "kind=alibi", .help = "The slopes of the heads of ALiBi."),                                        \
        REAL(qkv_position_spec, max, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, \
             .value = 8, .standard = "8", .applies = in_mpt, .needs = "kind=alibi form=mpt", .example = "6",           \
             .owner = "position.kind alibi of form mpt", .help = "The slopes of MPT end at 2^(-max)."),                \
        FLAG(qkv_position_spec, learn, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = false, .standard = "false",   \
             .example = "true", .applies = in_alibi, .owner = "position.kind alibi", .needs = "kind=alibi",            \
             .help = "Whether the slopes are weights that are trained."),                                              \
        WHOLE(qkv_position_spec, buckets, 2, DIMENSION, .flags = QKV_KEY_IDLE, .value = 32, .standard = "32",          \
              .applies = in_buckets, .owner = "position.kind buckets", .needs = "kind=buckets", .example = "64",       \
              .help = "The number of buckets of distances, each with a learned bias for each head (T5). Without a "    \
                      "causal mask, half of the buckets are for keys after the query."),                               \
        WHOLE(qkv_position_spec, max_distance, 1, DIMENSION, .flags = QKV_KEY_IDLE, .value = 128, .standard = "128",   \
              .applies = in_far, .owner = "position.kind buckets or relative", .needs = "kind=relative",               \
              .example = "64", .help = "All distances from this one on share one bias."),                              \
        FLAG(qkv_position_spec, per_layer, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = false,                    \
             .standard = "false", .example = "true", .applies = in_learned, .needs = "kind=relative",                  \
             .owner = "position.kind buckets or relative, or alibi with learn",                                        \
             .help =                                                                                                   \
                 "Whether each layer learns biases of its own, as in UMT5. Else the layers of a stack share them.")

const struct qkv_key qkv_position_keys[] = {
    CHOICE(qkv_position_spec, kind, positions, .value = QKV_POSITION_LEARNED, .example = "\"rope\"",
           .help = "The kind of position of the whole model: of the embedding, or of all attentions."),
    ROTATION_KEYS,
    DISTANCE_KEYS,
    END,
};

const struct qkv_key qkv_attention_position_keys[] = {
    CHOICE(qkv_position_spec, kind, attention_positions, .value = QKV_POSITION_NONE, .example = "\"rope\"",
           .help =
               "The position that attention itself has. If an attention has one, the embedding has none by default."),
    ROTATION_KEYS,
    DISTANCE_KEYS,
    END,
};
