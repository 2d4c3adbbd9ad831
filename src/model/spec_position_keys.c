/* The keys of a position: of an attention, and of version 1, which has one position for the whole model. One entry for
 * each key, as in spec_keys.c. */
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

/* ---- defaults that depend on something ----------------------------------------------------------------------- */

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

/* Of a position of the same kind that is said for the whole model. */
static const struct qkv_position_spec *rule_written(const struct qkv_place *p) {
    const struct qkv_position_spec *own = p->object, *whole = &p->written->position;
    return own->kind == whole->kind ? whole : NULL;
}

static double rule_form(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole ? whole->form : QKV_ALIBI_PRESS;
}

static double rule_max(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole && whole->form == QKV_ALIBI_MPT ? whole->max : 8;
}

static double rule_learn(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole && whole->learn;
}

static double rule_buckets(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole && whole->kind == QKV_POSITION_BUCKETS ? whole->buckets : 32;
}

static double rule_max_distance(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    const bool has = whole && (whole->kind == QKV_POSITION_BUCKETS || whole->kind == QKV_POSITION_RELATIVE);
    return has ? whole->max_distance : 128;
}

/* Of the whole model, where that is said in one place, as in version 1. */
static double rule_position(const struct qkv_place *p) {
    return p->written->version == 1 ? QKV_POSITION_LEARNED : QKV_POSITION_NONE;
}

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

/* The two tables differ in the defaults: a rotation's own theta, or that of the whole model. */
#define ROTATION_KEYS(theta_rule, pairing_rule, fraction_rule)                                                         \
    REAL(qkv_position_spec, theta, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE,   \
         .value = 10000, .rule = theta_rule, .standard = "10000", .applies = in_rope, .owner = "position.kind rope",   \
         .needs = "kind=rope", .example = "500000",                                                                    \
         .help = "The base of the wavelengths of RoPE: from one position to the next, pair j of the d rotated "        \
                 "channels turns by the angle theta^(-2j/d). Llama 3 has 500000."),                                    \
        CHOICE(qkv_position_spec, pairing, pairings, .flags = QKV_KEY_IDLE, .value = QKV_PAIRING_HALF,                 \
               .rule = pairing_rule, .standard = "half", .applies = in_rope, .owner = "position.kind rope",            \
               .needs = "kind=rope", .help = "Which two channels of a head RoPE rotates together."),                   \
        REAL(qkv_position_spec, fraction, 0, 1, "a number greater than 0 and at most 1",                               \
             .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, .value = 1, .rule = fraction_rule, .standard = "1",            \
             .applies = in_rope, .owner = "position.kind rope", .needs = "kind=rope", .example = "0.5",                \
             .help = "The share of a head's channels that RoPE rotates; they are the first ones. GPT-NeoX has 0.25."), \
        OBJECT(qkv_position_spec, scaling, qkv_scaling_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_IDLE,                 \
               .applies = in_rope, .owner = "position.kind rope", .needs = "kind=rope",                                \
               .example = "{\"kind\":\"linear\",\"factor\":4}",                                                        \
               .help = "Extends RoPE to more positions than the model was trained with.")

/* The same of biases by distance. */
#define DISTANCE_KEYS(form_rule, max_rule, learn_rule, buckets_rule, max_distance_rule)                                \
    CHOICE(qkv_position_spec, form, alibi_forms, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = QKV_ALIBI_PRESS,    \
           .value = QKV_ALIBI_PRESS, .rule = form_rule, .standard = "press", .applies = in_alibi,                      \
           .owner = "position.kind alibi", .needs = "kind=alibi", .help = "The slopes of the heads of ALiBi."),        \
        REAL(qkv_position_spec, max, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, \
             .value = 8, .rule = max_rule, .standard = "8", .applies = in_mpt, .needs = "kind=alibi form=mpt",         \
             .example = "6", .owner = "position.kind alibi of form mpt",                                               \
             .help = "The slopes of MPT end at 2^(-max)."),                                                            \
        FLAG(qkv_position_spec, learn, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = false, .rule = learn_rule,    \
             .standard = "false", .example = "true", .applies = in_alibi, .owner = "position.kind alibi",              \
             .needs = "kind=alibi",                                                                                    \
             .help = "Whether the slopes are weights that are trained. All layers of a stack share them."),            \
        WHOLE(qkv_position_spec, buckets, 2, DIMENSION, .flags = QKV_KEY_IDLE, .value = 32, .rule = buckets_rule,      \
              .standard = "32", .applies = in_buckets, .owner = "position.kind buckets", .needs = "kind=buckets",      \
              .example = "64",                                                                                         \
              .help = "The number of buckets of distances, each with a learned bias for each head (T5). Without a "    \
                      "causal mask, half of the buckets are for keys after the query."),                               \
        WHOLE(qkv_position_spec, max_distance, 1, DIMENSION, .flags = QKV_KEY_IDLE, .value = 128,                      \
              .rule = max_distance_rule, .standard = "128", .applies = in_far,                                         \
              .owner = "position.kind buckets or relative", .needs = "kind=relative", .example = "64",                 \
              .help = "All distances from this one on share one bias.")

const struct qkv_key qkv_position_keys[] = {
    CHOICE(qkv_position_spec, kind, positions, .rule = rule_position, .standard = "learned", .example = "\"rope\"",
           .help = "The kind of position of the whole model: of the embedding, or of all attentions."),
    ROTATION_KEYS(NULL, NULL, NULL),
    DISTANCE_KEYS(NULL, NULL, NULL, NULL, NULL),
    END,
};

const struct qkv_key qkv_attention_position_keys[] = {
    CHOICE(qkv_position_spec, kind, attention_positions, .rule = rule_attention_position, .standard = "none",
           .example = "\"rope\"",
           .help =
               "The position that attention itself has. If an attention has one, the embedding has none by default."),
    ROTATION_KEYS(rule_theta, rule_pairing, rule_fraction),
    DISTANCE_KEYS(rule_form, rule_max, rule_learn, rule_buckets, rule_max_distance),
    END,
};
