/* The keys of the embedding: what stands between ids and the first layer. */
#include "model/spec_tables.h"

static const struct qkv_spec_choice embed_positions[] = {{"none", "nothing is added"},
                                                         QKV_EMBED_POSITION_LIST(TEXT){NULL, NULL}};

static bool stack_has_position(const struct qkv_stack_spec *s) {
    for (int i = 0; i < s->kind_count; i++)
        if (s->kinds[i].attention.position.kind != QKV_POSITION_NONE && !s->kinds[i].cross_only) return true;
    return false;
}

/* Learned where nothing else gives a position. */
static double rule_embed_position(const struct qkv_place *p) {
    const bool other = stack_has_position(&p->spec->encoder) || stack_has_position(&p->spec->decoder);
    return other ? QKV_POSITION_NONE : QKV_POSITION_LEARNED;
}

static double rule_embed_scale(const struct qkv_place *p) {
    return qkv_scale_beside(p->embed->position.kind, qkv_stack_width(p->spec, p->stack));
}

static bool is_sinusoidal(const struct qkv_place *p) {
    return p->embed->position.kind == QKV_POSITION_SINUSOIDAL;
}

static bool adds_a_position(const struct qkv_place *p) {
    return p->embed->position.kind != QKV_POSITION_NONE;
}

static bool has_a_norm(const struct qkv_place *p) {
    return p->embed->norm.given;
}

static bool is_projected(const struct qkv_place *p) {
    return p->embed->width != 0;
}

CHOICES(sinusoids, QKV_SINUSOID_LIST);
CHOICES(projects, QKV_PROJECT_LIST);
/* ---- what a stack reads ------------------------------------------------------------------------------------------ */

CHOICES(inputs, QKV_INPUT_LIST);

const char *qkv_input_text(enum qkv_input_kind kind) {
    return inputs[kind].text;
}

static enum qkv_input_kind input_kind(const struct qkv_place *p) {
    return ((const struct qkv_input_spec *)p->object)->kind;
}

static bool reads_no_tokens(const struct qkv_place *p) {
    return input_kind(p) != QKV_INPUT_TOKENS;
}

static bool reads_patches(const struct qkv_place *p) {
    return input_kind(p) == QKV_INPUT_PATCHES;
}

static bool reads_frames(const struct qkv_place *p) {
    return input_kind(p) == QKV_INPUT_FRAMES;
}

static bool reads_vectors(const struct qkv_place *p) {
    return input_kind(p) == QKV_INPUT_VECTORS;
}

/* Of vectors it must be given: 0 is none. */
static double rule_channels(const struct qkv_place *p) {
    return reads_patches(p) ? 3 : reads_frames(p) ? 80 : 0;
}

size_t qkv_stack_patches(const struct qkv_stack_spec *stack) {
    if (!stack) return 0;
    const struct qkv_input_spec *input = &stack->embed.input;
    if (input->kind != QKV_INPUT_PATCHES || input->patch < 1) return 0;
    const size_t down = (size_t)(input->height / input->patch), across = (size_t)(input->width / input->patch);
    return down * across + (input->class_token ? 1 : 0);
}

bool qkv_stack_reads_tokens(const struct qkv_stack_spec *stack) {
    return stack->layers > 0 && stack->embed.input.kind == QKV_INPUT_TOKENS;
}

bool qkv_spec_has_tokens(const struct qkv_spec *spec) {
    if (!spec) return false;
    return spec->head.kind == QKV_HEAD_LM || qkv_stack_reads_tokens(&spec->encoder) ||
           qkv_stack_reads_tokens(&spec->decoder);
}

#define IMAGE   "kind=patches height=16 width=16 patch=4"
#define TIE     " /tie=none"
#define PATCHES .applies = reads_patches, .owner = "an input of kind patches"
#define FRAMES  .applies = reads_frames, .owner = "an input of kind frames", .needs = "kind=frames" TIE
static const struct qkv_key input_keys[] = {
    CHOICE(qkv_input_spec, kind, inputs, .flags = QKV_KEY_LATER, .neutral = QKV_INPUT_TOKENS, .value = QKV_INPUT_TOKENS,
           .example = "\"frames\"", .needs = "/tie=none", .help = "What the stack reads."),
    WHOLE(qkv_input_spec, channels, 1, DIMENSION, .rule = rule_channels, .applies = reads_no_tokens,
          .owner = "an input of kind patches, frames or vectors", .needs = "kind=vectors" TIE,
          .standard = "3 for patches, 80 for frames; must be given for vectors", .example = "16",
          .help = "The number of values of a pixel, of a frame or of a vector."),
    WHOLE(qkv_input_spec, height, 1, DIMENSION, .flags = QKV_KEY_REQUIRED, PATCHES, .example = "16",
          .needs = "kind=patches width=16 patch=4" TIE, .help = "The height of an image in pixels."),
    WHOLE(qkv_input_spec, width, 1, DIMENSION, .flags = QKV_KEY_REQUIRED, PATCHES, .example = "16",
          .needs = "kind=patches height=16 patch=4" TIE, .help = "The width of an image in pixels."),
    WHOLE(qkv_input_spec, patch, 1, 1 << 10, .flags = QKV_KEY_REQUIRED, PATCHES, .example = "4",
          .needs = "kind=patches height=16 width=16" TIE,
          .help = "The height and width of a patch in pixels. It divides the height and the width of the image."),
    FLAG(qkv_input_spec, class_token, .value = true, PATCHES, .needs = IMAGE TIE,
         .help = "Whether a learned vector comes before the patches."),
    WHOLE(qkv_input_spec, kernel, 1, 1 << 10, .value = 3, FRAMES, .example = "5",
          .help = "The number of frames that a convolution reads for one output. It must be odd."),
    WHOLE(qkv_input_spec, stride, 1, 1 << 10, .value = 2, FRAMES, .example = "1",
          .help = "The step of the second convolution: 2 halves the number of positions."),
    FLAG(qkv_input_spec, bias, .value = true, .applies = reads_vectors, .owner = "an input of kind vectors",
         .needs = "kind=vectors channels=16" TIE, .help = "Whether the projection of the vectors has a bias."),
    END,
};

/* Tokens are not written. */
static bool has_another_input(const struct qkv_place *p) {
    return p->written->reading || ((const struct qkv_embed_spec *)p->object)->input.kind != QKV_INPUT_TOKENS;
}

static const struct qkv_key embed_position_keys[] = {
    CHOICE(qkv_embed_position_spec, kind, embed_positions, .rule = rule_embed_position,
           .standard = "none if an attention has a position, else learned", .example = "\"sinusoidal\"",
           .help = "The position that is added to the token embedding."),
    CHOICE(qkv_embed_position_spec, layout, sinusoids, .flags = QKV_KEY_LATER, .neutral = QKV_SINUSOID_INTERLEAVED,
           .applies = is_sinusoidal, .owner = "a position of kind sinusoidal", .needs = "kind=sinusoidal",
           .help = "Which channels are sines and which cosines; t is the position, C the number of channels."),
    WHOLE(qkv_embed_position_spec, offset, 0, DIMENSION, .flags = QKV_KEY_LATER, .applies = adds_a_position,
          .owner = "a position of kind sinusoidal or learned", .needs = "kind=learned", .example = "2",
          .help = "Position t uses row t + offset of the table. A learned table has offset more rows than positions. "
                  "OPT and RoBERTa have 2."),
    END,
};

static const struct qkv_key masked_keys[] = {
    WHOLE(qkv_masked_spec, token, 0, VOCAB, .flags = QKV_KEY_REQUIRED, .example = "3", .help = "The id of the mask."),
    REAL(qkv_masked_spec, share, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH, .value = 0.12,
         .needs = "token=3", .example = "0.15", .help = "The share of masks in the sequences of training."),
    END,
};

#define NARROW .applies = is_projected, .owner = "an embedding with a width of its own", .needs = "width=64 /tie=none"
const struct qkv_key qkv_embed_keys[] = {
    OBJECT(qkv_embed_spec, input, input_keys, .applies = has_another_input, .needs = "/tie=none",
           .example = "{\"kind\":\"frames\"}", .help = "What a stack reads, if that is not tokens."),
    OBJECT(qkv_embed_spec, position, embed_position_keys, .flags = 0, .example = "{\"kind\":\"sinusoidal\"}",
           .help = "The position that is added to the token embedding."),
    REAL(qkv_embed_spec, scale, -FLT_MAX, FLT_MAX, "a number other than 0", .flags = QKV_KEY_NOT_ZERO,
         .rule = rule_embed_scale, .standard = "sqrt(d_model) with sinusoidal positions, else 1", .example = "8",
         .help = "Multiplies the token embedding, before a position is added. Gemma has sqrt(d_model)."),
    WHOLE(qkv_embed_spec, types, 0, DIMENSION, .flags = QKV_KEY_LATER, .example = "2",
          .help = "The number of types of tokens (segments). Each type has a learned vector that is added to the "
                  "embedding. A batch that does not say the types has type 0. BERT has 2 types; 0 means none."),
    WHOLE(qkv_embed_spec, width, 0, DIMENSION, .flags = QKV_KEY_LATER, .example = "64", .needs = "/tie=none",
          .help = "The width of the token embedding. A projection makes the embedding d_model wide (ALBERT). 0 means "
                  "d_model, without a projection."),
    FLAG(qkv_embed_spec, bias, .flags = QKV_KEY_LATER, .neutral = true, .value = true, NARROW,
         .help = "Whether the projection to d_model has a bias."),
    CHOICE(qkv_embed_spec, project, projects, .flags = QKV_KEY_LATER, .neutral = QKV_PROJECT_END, NARROW,
           .help = "The place of the projection to d_model."),
    OBJECT(qkv_embed_spec, norm, qkv_norm_only_keys, .flags = QKV_KEY_OPTIONAL, .example = "{\"kind\":\"layernorm\"}",
           .help = "A norm after token, position and type are added, before dropout (BERT)."),
    FLAG(qkv_embed_spec, norm_tokens, .flags = QKV_KEY_LATER, .neutral = false, .applies = has_a_norm,
         .owner = "an embedding with a norm", .needs = "norm.kind=layernorm",
         .help =
             "Whether the norm is of the token embedding alone: position and type are added after it (the decoder of "
             "Blenderbot-small)."),
    OBJECT(qkv_embed_spec, masked, masked_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER, .example = "{\"token\":3}",
           .needs = "/decoder.attention.causal=false",
           .help = "Embeddings of masks are 0, and those of other tokens grow with the share of masks in a sequence."),
    REAL(qkv_embed_spec, dropout, 0, 1, RATE_TEXT, .flags = RATE_FLAGS, .standard = "null", .example = "0.1",
         .help = "The dropout of the embedding."),
    END,
};
