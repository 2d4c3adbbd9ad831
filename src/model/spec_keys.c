/* The keys of config.json: one line each, with type, range, default and where it means something. The order is the order
 * of printing, and a default may depend on what stands before. Those of the embedding and of layers are in files of their own. */
#include "model/spec_tables.h"

/* ---- choices ---------------------------------------------------------------------------------------------------- */

CHOICES(ties, QKV_TIE_LIST);
CHOICES(inits, QKV_INIT_LIST);
CHOICES(heads, QKV_HEAD_LIST);
CHOICES(pools, QKV_POOL_LIST);
/* The kinds of feed-forwards without a gate; the others cannot be chosen here. */
#define TRANSFORM_TEXT(name, text, help, activation, gated) (gated) ? "" : text,
static const char *const transform_activations[] = {"none", QKV_FFN_LIST(TRANSFORM_TEXT) NULL};

/* ---- defaults that depend on something ----------------------------------------------------------------------- */

static double rule_head_bias(const struct qkv_place *p) {
    return qkv_head_has_classes(p->spec);
}

static double rule_transform_width(const struct qkv_place *p) {
    return p->spec->d_model;
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

static double rule_written_scale(const struct qkv_place *p) {
    return qkv_scale_beside(p->written->position.kind, p->spec->d_model);
}

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool has_kinds(const struct qkv_place *p) {
    return !qkv_place_has_one_kind(p);
}

const char *qkv_head_text(enum qkv_head_kind kind) {
    return heads[kind];
}

const char *qkv_tie_text(enum qkv_tie tie) {
    return ties[tie];
}

bool qkv_tie_has_head(enum qkv_tie tie) {
    return tie == QKV_TIE_HEAD || tie == QKV_TIE_ALL;
}

bool qkv_tie_has_stacks(enum qkv_tie tie) {
    return tie == QKV_TIE_ALL || tie == QKV_TIE_STACKS;
}

bool qkv_head_has_classes(const struct qkv_spec *spec) {
    return spec->head.kind == QKV_HEAD_CLASSIFY || spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
}

static bool has_classes(const struct qkv_place *p) {
    return qkv_head_has_classes(p->spec);
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

/* Of a reader the other stack may be still to come. */
static bool beside_a_stack(const struct qkv_place *p) {
    return p->written->reading ? p->written->pair : qkv_spec_topology(p->spec) == QKV_ENCODER_DECODER;
}

/* Where nothing is left that has one, which is known once the stacks are. */
static bool has_vocabulary(const struct qkv_place *p) {
    const bool stacks = p->spec->encoder.layers || p->spec->decoder.layers;
    return !stacks || qkv_spec_has_tokens(p->spec);
}

static bool has_sources(const struct qkv_place *p) {
    return qkv_spec_topology(p->spec) == QKV_ENCODER_DECODER && qkv_stack_reads_tokens(&p->spec->encoder);
}

static bool has_source_features(const struct qkv_place *p) {
    return qkv_spec_topology(p->spec) == QKV_ENCODER_DECODER && !qkv_stack_reads_tokens(&p->spec->encoder);
}

static bool has_encoder(const struct qkv_place *p) {
    return p->spec->encoder.layers != 0;
}

static bool has_decoder(const struct qkv_place *p) {
    return p->spec->decoder.layers != 0;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

/* The parts beside `kinds` are those of the only kind; in a file that has kinds, what these have in common. */
const struct qkv_key qkv_stack_keys[] = {
    WHOLE(qkv_stack_spec, layers, 1, QKV_LAYERS_MAX, .flags = QKV_KEY_REQUIRED),
    WHOLE(qkv_stack_spec, d_model, 1, DIMENSION, .flags = QKV_KEY_NULL | QKV_KEY_LATER, .applies = beside_a_stack,
          .owner = "a stack beside another"),
    WHOLE(qkv_stack_spec, share, 0, QKV_LAYERS_MAX, .flags = QKV_KEY_LATER),
    {.name = "pattern", .type = QKV_KEY_PATTERN, .flags = QKV_KEY_VERSION_2, .applies = has_kinds},
    LAYER_KEYS(qkv_stack_spec, kinds[0]., qkv_place_has_one_kind),
    {.name = "kinds", .type = QKV_KEY_KINDS, .flags = QKV_KEY_VERSION_2, .keys = qkv_layer_keys, .applies = has_kinds},
    OBJECT(qkv_stack_spec, embed, qkv_embed_keys, .flags = QKV_KEY_VERSION_2 | QKV_KEY_COMMON),
    END,
};

static const struct qkv_key transform_keys[] = {
    WHOLE(qkv_head_transform_spec, width, 1, DIMENSION, .rule = rule_transform_width),
    CHOICE(qkv_head_transform_spec, activation, transform_activations, .value = QKV_TRANSFORM_NONE),
    FLAG(qkv_head_transform_spec, bias, .value = true),
    OBJECT(qkv_head_transform_spec, norm, qkv_norm_only_keys, .flags = QKV_KEY_OPTIONAL),
    END,
};

/* The struct has no type of its own: the offsets count from the spec. */
#define HEADS "a head of kind lm, classify or classify_tokens"
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
     .applies = has_classes,
     .owner = "a head of kind classify or classify_tokens"},
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
     .owner = HEADS},
    {.name = "transform",
     .type = QKV_KEY_OBJECT,
     .flags = QKV_KEY_OPTIONAL,
     .offset = offsetof(struct qkv_spec, head.transform),
     .keys = transform_keys,
     .applies = in_a_head,
     .owner = HEADS},
    {.name = "scale",
     .type = QKV_KEY_REAL,
     .flags = QKV_KEY_LATER | QKV_KEY_NOT_ZERO,
     .offset = offsetof(struct qkv_spec, head.scale),
     .low = -FLT_MAX,
     .high = FLT_MAX,
     .text = "a number other than 0",
     .neutral = 1,
     .value = 1,
     .applies = in_a_head,
     .owner = HEADS},
    {.name = "softcap",
     .type = QKV_KEY_REAL,
     .flags = QKV_KEY_LATER | QKV_KEY_SOFTCAP,
     .offset = offsetof(struct qkv_spec, head.softcap),
     .high = FLT_MAX,
     .text = "a number from 2.94e-39 to 3.4e38, or 0 for none",
     .applies = in_a_head,
     .owner = HEADS},
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
    WHOLE(qkv_spec, vocab, 1, VOCAB, .flags = QKV_KEY_LATE, .applies = has_vocabulary,
          .owner = "a stack that reads tokens, or a head of kind lm,"),
    WHOLE(qkv_spec, d_model, 1, DIMENSION, .flags = QKV_KEY_REQUIRED),
    WHOLE(qkv_spec, context, 1, 1 << 24, .flags = QKV_KEY_REQUIRED),
    OBJECT(qkv_written_spec, position, qkv_position_keys, .flags = QKV_KEY_VERSION_1,
           .instead = "embed.position or the attention's position"),
    REAL(qkv_written_spec, embed_scale, -FLT_MAX, FLT_MAX, "a number other than 0",
         .flags = QKV_KEY_NOT_ZERO | QKV_KEY_VERSION_1, .rule = rule_written_scale, .instead = "embed.scale"),
    REAL(qkv_spec, dropout, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH),
    {.name = "head", .type = QKV_KEY_OBJECT, .keys = head_keys},
    CHOICE(qkv_spec, tie, ties, .rule = rule_tie),
    OBJECT(qkv_spec, encoder, qkv_stack_keys, .flags = QKV_KEY_NULL, .applies = has_encoder),
    OBJECT(qkv_spec, decoder, qkv_stack_keys, .flags = QKV_KEY_NULL, .applies = has_decoder),
    OBJECT(qkv_written_spec, embed, qkv_embed_keys, .flags = QKV_KEY_VERSION_2 | QKV_KEY_COMMON),
    OBJECT(qkv_spec, init, init_keys, .flags = QKV_KEY_START),
    WHOLE(qkv_spec, source_vocab, 1, VOCAB, .flags = QKV_KEY_LATE, .rule = rule_source_vocab, .applies = has_sources,
          .owner = "an encoder beside a decoder"),
    WHOLE(qkv_spec, source_context, 0, 1 << 24, .flags = QKV_KEY_LATER, .applies = has_source_features,
          .owner = "an encoder beside a decoder that reads no tokens"),
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
