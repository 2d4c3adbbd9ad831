/* The keys of config.json: one entry for each, with its type, range, default, help, an example and where it means
 * something. Specs are printed in this order, and a default may depend on the keys before it. The keys of the
 * embedding, layers, positions and experts are in spec_{embed,layer,position,expert}_keys.c. */
#include "model/spec_tables.h"

/* ---- choices ---------------------------------------------------------------------------------------------------- */

CHOICES(ties, QKV_TIE_LIST);
CHOICES(inits, QKV_INIT_LIST);
CHOICES(heads, QKV_HEAD_LIST);
CHOICES(pools, QKV_POOL_LIST);
/* The kinds of feed-forwards without a gate; the others cannot be chosen here. */
#define TRANSFORM_TEXT(name, text, help, activation, gated) {(gated) ? "" : text, help},
static const struct qkv_spec_choice transform_activations[] = {{"none", "no activation"},
                                                               QKV_FFN_LIST(TRANSFORM_TEXT){NULL, NULL}};

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

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool has_kinds(const struct qkv_place *p) {
    return !qkv_place_has_one_kind(p);
}

const char *qkv_head_text(enum qkv_head_kind kind) {
    return heads[kind].text;
}

const char *qkv_tie_text(enum qkv_tie tie) {
    return ties[tie].text;
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

/* Without `kinds`, the parts of a layer are those of the only kind; in a file that has kinds, all kinds share them. */
#define TWO_KINDS "{\"local\":{\"attention\":{\"window\":16}},\"global\":{}}"
const struct qkv_key qkv_stack_keys[] = {
    WHOLE(qkv_stack_spec, layers, 1, QKV_LAYERS_MAX, .flags = QKV_KEY_REQUIRED, .example = "6",
          .help = "The number of layers."),
    WHOLE(qkv_stack_spec, d_model, 1, DIMENSION, .flags = QKV_KEY_NULL | QKV_KEY_LATER, .applies = beside_a_stack,
          .owner = "a stack of an encoder-decoder", .needs = PAIR, .standard = "null, which is the spec's d_model",
          .example = "64", .help = "The width of this stack, if it differs from that of the other stack."),
    WHOLE(qkv_stack_spec, share, 0, QKV_LAYERS_MAX, .flags = QKV_KEY_LATER, .example = "1",
          .help = "The number of groups of layers that share their weights: layer N is in group floor(N*share/layers). "
                  "ALBERT has 1. 0 means that each layer has its own weights."),
    {.name = "pattern",
     .type = QKV_KEY_PATTERN,
     .applies = has_kinds,
     .standard = "none; with kinds it must be given",
     .example = "[\"local\",\"global\"]",
     .needs = "kinds=" TWO_KINDS,
     .help = "The kind of each layer: a list of names of kinds. A list that is shorter than layers must divide it and "
             "is repeated."},
    LAYER_KEYS(qkv_place_has_one_kind),
    {.name = "kinds",
     .type = QKV_KEY_KINDS,
     .keys = qkv_layer_keys,
     .applies = has_kinds,
     .standard = "one kind, without a name",
     .example = TWO_KINDS,
     .needs = "pattern=[\"local\",\"global\"]",
     .help =
         "Kinds of layers by their names. A kind has the keys of a layer: attention, cross, norm, ffn, residual_scale, "
         "cross_only and residual_dropout. Keys that a kind leaves out have the values of the stack."},
    OBJECT(qkv_stack_spec, embed, qkv_embed_keys, .flags = QKV_KEY_COMMON, .standard = "the values of embed",
           .example = "{\"scale\":8}", .help = "The keys of embed that differ in this stack."),
    END,
};

static const struct qkv_key transform_keys[] = {
    WHOLE(qkv_head_transform_spec, width, 1, DIMENSION, .rule = rule_transform_width, .standard = "d_model",
          .example = "64", .needs = "/tie=none",
          .help = "The width of the layer's output. With a tied head it must be the width of the token embedding."),
    CHOICE(qkv_head_transform_spec, activation, transform_activations, .value = QKV_TRANSFORM_NONE,
           .example = "\"gelu\"", .help = "The activation after the projection."),
    FLAG(qkv_head_transform_spec, bias, .value = true, .help = "Whether the projection has a bias."),
    FLAG(qkv_head_transform_spec, each_position, .flags = QKV_KEY_LATER, .neutral = false, .applies = in_classify,
         .owner = "a head of kind classify", .needs = "/head.kind=classify /head.classes=3",
         .help = "Whether a classifier applies the layer to each position and pools the results, and does not apply it "
                 "to the pooled states (EuroBERT)."),
    OBJECT(qkv_head_transform_spec, norm, qkv_norm_only_keys, .flags = QKV_KEY_OPTIONAL,
           .example = "{\"kind\":\"layernorm\"}", .help = "A norm after the activation."),
    END,
};

/* The struct has no type of its own: the offsets count from the spec. */
#define HEADS "a head of kind lm, classify or classify_tokens"
static const struct qkv_key head_keys[] = {
    {.name = "kind",
     .type = QKV_KEY_CHOICE,
     .offset = offsetof(struct qkv_spec, head.kind),
     .choices = heads,
     .value = QKV_HEAD_LM,
     .help = "What the model computes from the hidden states of the last layer."},
    {.name = "classes",
     .type = QKV_KEY_WHOLE,
     .flags = QKV_KEY_LATE,
     .offset = offsetof(struct qkv_spec, head.classes),
     .low = 1,
     .high = DIMENSION,
     .applies = has_classes,
     .owner = "a head of kind classify or classify_tokens",
     .standard = "the number of classes of the training data",
     .example = "3",
     .needs = "kind=classify",
     .help = "The number of classes."},
    {.name = "pool",
     .type = QKV_KEY_CHOICE,
     .offset = offsetof(struct qkv_spec, head.pool),
     .choices = pools,
     .value = QKV_POOL_FIRST,
     .applies = in_classify,
     .owner = "a head of kind classify",
     .needs = "kind=classify",
     .help = "The hidden states that a class is computed from."},
    {.name = "bias",
     .type = QKV_KEY_FLAG,
     .offset = offsetof(struct qkv_spec, head.bias),
     .rule = rule_head_bias,
     .applies = in_a_head,
     .owner = HEADS,
     .standard = "false for lm, else true",
     .example = "true",
     .help = "Whether the scores have a bias, also with a tied head."},
    {.name = "transform",
     .type = QKV_KEY_OBJECT,
     .flags = QKV_KEY_OPTIONAL,
     .offset = offsetof(struct qkv_spec, head.transform),
     .keys = transform_keys,
     .applies = in_a_head,
     .owner = HEADS,
     .example = "{\"activation\":\"tanh\"}",
     .help = "A layer between the hidden states and the scores. A classifier applies it to the pooled states (BERT)."},
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
     .owner = HEADS,
     .example = "0.125",
     .help = "Multiplies the scores, biases included (Granite, Cohere)."},
    {.name = "softcap",
     .type = QKV_KEY_REAL,
     .flags = QKV_KEY_LATER | QKV_KEY_SOFTCAP,
     .offset = offsetof(struct qkv_spec, head.softcap),
     .high = FLT_MAX,
     .text = "a number from 2.94e-39 to 3.4e38, or 0 for none",
     .applies = in_a_head,
     .owner = HEADS,
     .example = "30",
     .help = "Each score s, after scale, becomes softcap*tanh(s/softcap). 0 means off. Gemma 2 has 30."},
    END,
};

static const struct qkv_key init_keys[] = {
    CHOICE(qkv_init_spec, kind, inits, .value = QKV_INIT_GPT2, .neutral = QKV_INIT_GPT2,
           .help = "The distribution of new weights. New norms multiply by 1 and add 0."),
    REAL(qkv_init_spec, std, 0, FLT_MAX, "a number greater than 0, or null for the kind's own",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL, .applies = starts_with_a_deviation,
         .owner = "init.kind gpt2 or torch", .standard = "null, which is 0.02 for gpt2 and 1 for torch",
         .example = "0.01",
         .help = "The standard deviation of the normal distribution: with gpt2 of all matrices, with torch of the "
                 "embeddings."),
    END,
};

const struct qkv_key qkv_spec_keys[] = {
    {.name = "format",
     .type = QKV_KEY_CONSTANT,
     .text = "\"qkv\"",
     .flags = QKV_KEY_REQUIRED,
     .example = "\"qkv\"",
     .help = "Marks the file as a spec of qkv. A config.json without this key belongs to a published model."},
    {.name = "version",
     .type = QKV_KEY_VERSION,
     .low = 1,
     .high = 2,
     .text = "1 or 2",
     .standard = "must be given",
     .example = "2",
     .help = "The version of the format. New specs have 2. Version 1 has fewer keys."},
    WHOLE(qkv_spec, vocab, 1, VOCAB, .flags = QKV_KEY_LATE, .applies = has_vocabulary,
          .owner = "a stack that reads tokens, or a head of kind lm,",
          .standard = "the size of the tokenizer's vocabulary", .example = "1000",
          .help = "The number of tokens of the vocabulary: of the decoder, or of the only stack."),
    WHOLE(qkv_spec, d_model, 1, DIMENSION, .flags = QKV_KEY_REQUIRED, .example = "256",
          .help = "The width of the model: the number of channels of the residual stream."),
    WHOLE(qkv_spec, context, 1, 1 << 24, .flags = QKV_KEY_REQUIRED, .example = "256",
          .help = "The largest number of positions of a sequence."),
    REAL(qkv_spec, dropout, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH, .example = "0.1",
         .help = "The dropout of the embedding, of the attention weights and of the output of each sublayer. The keys "
                 "embed.dropout, attention.dropout and residual_dropout change one of the three."),
    {.name = "head",
     .type = QKV_KEY_OBJECT,
     .keys = head_keys,
     .example = "{\"kind\":\"classify\",\"classes\":3}",
     .help = "What the model computes from the hidden states."},
    CHOICE(qkv_spec, tie, ties, .rule = rule_tie, .standard = "head for a head of kind lm, else none",
           .example = "\"none\"",
           .help =
               "Which matrices share their weights: the token embeddings of the stacks and the output of the head."),
    OBJECT(qkv_spec, encoder, qkv_stack_keys, .flags = QKV_KEY_NULL, .applies = has_encoder, .needs = PAIR,
           .example = "{\"layers\":2,\"attention\":{\"heads\":4}}",
           .help = "The encoder. It has the same keys as the decoder; its attention is not causal by default."),
    OBJECT(qkv_spec, decoder, qkv_stack_keys, .flags = QKV_KEY_NULL, .applies = has_decoder,
           .example = "{\"layers\":2,\"attention\":{\"heads\":4}}",
           .help = "The decoder. Beside an encoder it has cross attention. A spec has an encoder, a decoder or both."),
    OBJECT(qkv_written_spec, embed, qkv_embed_keys, .flags = QKV_KEY_COMMON, .example = "{\"types\":2}",
           .help = "The embedding of all stacks. A stack overrides it by its own embed."),
    OBJECT(qkv_spec, init, init_keys, .flags = QKV_KEY_START, .example = "{\"kind\":\"xavier\"}",
           .help = "The distribution of new weights."),
    WHOLE(qkv_spec, source_vocab, 1, VOCAB, .flags = QKV_KEY_LATE, .rule = rule_source_vocab, .applies = has_sources,
          .owner = "an encoder beside a decoder", .needs = PAIR,
          .standard = "the size of the source tokenizer's vocabulary, else vocab", .example = "1000",
          .help = "The number of tokens of the encoder's vocabulary."),
    WHOLE(qkv_spec, source_context, 0, 1 << 24, .flags = QKV_KEY_LATER, .applies = has_source_features,
          .owner = "an encoder beside a decoder that reads no tokens",
          .needs = PAIR " /encoder.embed.input.kind=frames", .standard = "0, which is context", .example = "1500",
          .help = "The largest number of positions of the encoder. Whisper has 1500."),
    {.name = "prefix",
     .type = QKV_KEY_FLAG,
     .flags = QKV_KEY_LATER,
     .offset = offsetof(struct qkv_spec, prefix),
     .applies = has_prompts,
     .owner = "a decoder alone with a head of kind lm",
     .help = "Whether the positions of the prompt attend to each other in both directions (prefix LM; Dong et al. "
             "2019, Raffel et al. 2020). The training option prefix trains such a model."},
    END,
};

const char *qkv_spec_key_at(size_t i) {
    const struct qkv_key *const tables[] = {qkv_spec_keys, qkv_version1_keys};
    for (size_t t = 0; t < 2; t++)
        for (const struct qkv_key *key = tables[t]; key->name; key++) {
            if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION || key->type == QKV_KEY_OBJECT) continue;
            if (i-- == 0) return key->name;
        }
    return NULL;
}
