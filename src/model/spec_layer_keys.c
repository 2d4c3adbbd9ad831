/* The keys of a layer: its attention, norm and feed-forward. One entry for each key, as in spec_keys.c. */
#include "kernel/kernel.h"
#include "model/spec_tables.h"

_Static_assert(sizeof(enum qkv_position_kind) == sizeof(int) && sizeof(enum qkv_bias_kind) == sizeof(int),
               "choices are read and written as int");

/* ---- choices ---------------------------------------------------------------------------------------------------- */

CHOICES(biases, QKV_BIAS_LIST);
const struct qkv_spec_choice qkv_norm_choices[] = {QKV_NORM_LIST(TEXT){NULL, NULL}};
CHOICES(norm_overs, QKV_NORM_OVER_LIST);
CHOICES(placements, QKV_PLACEMENT_LIST);
#define PLACEMENT_FINAL(name, text, help, file, final, norms, whole) final,
static const bool final_placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_FINAL)};
#define PLACEMENT_NORMS(name, text, help, file, final, norms, whole) QKV_BLOCK_NORMS_##norms,
enum qkv_block_norms qkv_placement_norms(enum qkv_placement placement) {
    static const enum qkv_block_norms norms_of_placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_NORMS)};
    return norms_of_placements[placement];
}

CHOICES(ffns, QKV_FFN_LIST);
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

/* ---- defaults that depend on something ----------------------------------------------------------------------- */

static double rule_kv_heads(const struct qkv_place *p) {
    return ((const struct qkv_attention_spec *)p->object)->heads;
}

/* 0 where heads does not divide d_model, which the check explains. */
static double rule_head_dim(const struct qkv_place *p) {
    int H = ((const struct qkv_attention_spec *)p->object)->heads;
    const int C = qkv_stack_width(p->spec, p->stack);
    return H > 0 && C % H == 0 ? C / H : 0;
}

static double rule_value_dim(const struct qkv_place *p) {
    return ((const struct qkv_attention_spec *)p->object)->head_dim;
}

static const struct qkv_attention_spec *rule_attention(const struct qkv_place *p) {
    const void *attention = (const char *)p->object - offsetof(struct qkv_attention_spec, latent);
    return attention;
}

/* The published models have four times the width of a head. */
static double rule_rank(const struct qkv_place *p) {
    const double wide = 4 * (double)rule_attention(p)->head_dim, most = qkv_stack_width(p->spec, p->stack) / 2;
    return wide < most || most < 1 ? wide : most;
}

static double rule_rope_dim(const struct qkv_place *p) {
    return rule_attention(p)->head_dim / 4 * 2;
}

static double rule_causal(const struct qkv_place *p) {
    return p->stack == &p->spec->decoder;
}

static double rule_final(const struct qkv_place *p) {
    return final_placements[((const struct qkv_norm_spec *)p->object)->placement];
}

double qkv_rule_norm_bias(const struct qkv_place *p) {
    const struct qkv_norm_spec *norm = p->object;
    return norm->weight && qkv_norm_centered(norm->kind);
}

static double rule_d_ff(const struct qkv_place *p) {
    return qkv_ffn_width(((const struct qkv_ffn_spec *)p->object)->kind, qkv_stack_width(p->spec, p->stack));
}

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool in_clamped(const struct qkv_place *p) {
    return ((const struct qkv_ffn_spec *)p->object)->kind == QKV_FFN_SWIGLU_CLAMPED;
}

static bool in_self_attention(const struct qkv_place *p) {
    return !p->like;
}

/* The norm after the last layer is of that layer's kind. */
static bool ends_a_stack(const struct qkv_place *p) {
    const struct qkv_stack_spec *s = p->stack;
    return s->layers < 1 || s->layers > QKV_LAYERS_MAX || p->layer == &s->kinds[s->kind_of[s->layers - 1]];
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static const struct qkv_key qk_norm_keys[] = {
    NORM_KEYS,
    CHOICE(qkv_qk_norm_spec, over, norm_overs, .value = QKV_NORM_OVER_HEAD,
           .help = "The channels that the norm is computed over, and whether the heads share its weight."),
    FLAG(qkv_qk_norm_spec, after_rotation, .flags = QKV_KEY_LATER, .neutral = false,
         .help = "Whether the norms come after clip and rotation, and not before them (Hunyuan, Llama 4)."),
    END,
};

static const struct qkv_key latent_keys[] = {
    WHOLE(qkv_latent_spec, rank, 1, DIMENSION, .rule = rule_rank, .standard = "4 * head_dim, at most d_model / 2",
          .example = "32",
          .help =
              "The number of channels of the latent that keys and values are projected from. It is at most d_model."),
    WHOLE(qkv_latent_spec, query_rank, 0, DIMENSION, .value = 0, .example = "48",
          .help = "The number of channels of a latent that queries are projected from. 0 means that they are projected "
                  "from the input."),
    WHOLE(qkv_latent_spec, rope_dim, 0, DIMENSION, .rule = rule_rope_dim,
          .standard = "head_dim / 2, rounded down to an even number", .example = "8",
          .help = "The number of channels at the end of a head that the keys of all heads share and that RoPE rotates. "
                  "It is less than head_dim."),
    REAL(qkv_latent_spec, eps, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW, .value = 1e-6,
         .example = "1e-5", .help = "The eps of the norms of the latents, which are rmsnorm."),
    END,
};

static const struct qkv_key temperature_keys[] = {
    REAL(qkv_temperature_spec, beta, 0, FLT_MAX, "a number from 0 to 3.4e38", .value = 0.1, .needs = "length=8",
         .example = "0.2", .help = "How much the number grows."),
    WHOLE(qkv_temperature_spec, length, 1, 1 << 24, .flags = QKV_KEY_REQUIRED, .example = "8",
          .help = "The number of positions after which it grows for the first time."),
    WHOLE(qkv_temperature_spec, offset, 0, 1 << 24, .needs = "length=8", .example = "1",
          .help = "Added to positions. Llama 4 has 1."),
    END,
};

const struct qkv_key qkv_attention_keys[] = {
    WHOLE(qkv_attention_spec, heads, 1, DIMENSION, .flags = QKV_KEY_REQUIRED, .example = "8",
          .help = "The number of heads of the queries. It divides d_model unless head_dim is given."),
    WHOLE(qkv_attention_spec, kv_heads, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_kv_heads,
          .standard = "the same as heads", .example = "2",
          .help = "The number of heads of keys and values. It divides heads: 1 is multi-query attention (Shazeer "
                  "2019), a number between 1 and heads is grouped-query attention (Ainslie et al. 2023)."),
    WHOLE(qkv_attention_spec, head_dim, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_head_dim,
          .standard = "d_model / heads", .example = "64",
          .help = "The number of channels of a head of queries and keys."),
    WHOLE(qkv_attention_spec, value_dim, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_value_dim,
          .standard = "the same as head_dim", .example = "16", .help = "The number of channels of a head of values."),
    FLAG(qkv_attention_spec, causal, .flags = QKV_KEY_MASK, .rule = rule_causal,
         .standard = "true in a decoder, false in an encoder", .example = "false",
         .help = "Whether a position attends only to itself and earlier positions."),
    WHOLE(qkv_attention_spec, window, 0, INT_MAX, .flags = QKV_KEY_MASK, .example = "16",
          .help = "A position attends only to keys whose distance is less than this; with 1, only to itself. 0 means "
                  "no window. Mistral and Gemma 2 have windows."),
    WHOLE(qkv_attention_spec, window_right, 0, INT_MAX, .flags = QKV_KEY_MASK | QKV_KEY_LATER, .needs = "causal=false",
          .example = "4",
          .help = "The window of the keys after a position; window is then that of the keys before it. 1 means that a "
                  "position sees no key after it. 0 means that window holds on both sides."),
    WHOLE(qkv_attention_spec, chunk, 0, INT_MAX, .flags = QKV_KEY_MASK | QKV_KEY_LATER, .example = "8",
          .help = "Positions form chunks of so many, and a position attends only to keys of its own chunk (Llama 4). 0 "
                  "means one chunk."),
    REAL(qkv_attention_spec, softcap, 0, FLT_MAX, "a number from 2.94e-39 to 3.4e38, or 0 for none",
         .flags = QKV_KEY_SOFTCAP, .value = 0, .example = "50",
         .help = "Each score s becomes softcap*tanh(s/softcap), before the mask and the softmax. 0 means off. Gemma 2 "
                 "has 50."),
    REAL(qkv_attention_spec, scale, 0, FLT_MAX, "a number greater than 0, or null for 1/sqrt(head_dim)",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL, .standard = "null", .example = "0.125",
         .help = "Multiplies the products of queries and keys. With a latent and a rotation that is scaled by yarn, "
                 "the default also depends on mscale_all_dim."),
    CHOICE(qkv_attention_spec, bias, biases, .value = QKV_BIAS_ALL, .example = "\"qkv\"",
           .help = "Which projections have a bias: true for all four, false for none, or the letters of those that "
                   "have one, in the order q, k, v, o. Qwen 2 has qkv, Whisper qvo."),
    OBJECT(qkv_attention_spec, qk_norm, qk_norm_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER,
           .example = "{\"kind\":\"rmsnorm\"}",
           .help =
               "Norms of the queries and of the keys, before clip and rotation, or after them (Henry et al. 2020)."),
    OBJECT(qkv_attention_spec, temperature, temperature_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER,
           .applies = in_self_attention, .owner = "self attention", .example = "{\"length\":8}",
           .help = "Queries are multiplied by a number that grows with their position t, after rotation and norm: 1 + "
                   "beta*ln(1 + floor((t + offset)/length)) (Nakanishi 2025; Llama 4, Ministral 3)."),
    OBJECT(qkv_attention_spec, latent, latent_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER,
           .applies = in_self_attention, .owner = "self attention", .example = "{\"rank\":32}",
           .help = "Multi-head latent attention (DeepSeek V2 and V3). kv_heads must be equal to heads; qk_norm and "
                   "clip are not allowed."),
    WHOLE(qkv_attention_spec, share, 0, QKV_LAYERS_MAX, .flags = QKV_KEY_MASK | QKV_KEY_LATER,
          .applies = in_self_attention, .owner = "self attention", .example = "1",
          .needs = "/decoder.pattern=[\"own\",\"reads\"] "
                   "/decoder.kinds={\"own\":{\"attention\":{\"share\":0}},\"reads\":{}}",
          .help = "With n, the layer computes no keys and values, and reads those of the n-th layer before it whose "
                  "keys and values, mask and position are alike, or, if that one shares too, those that it reads "
                  "(cross-layer attention, Brandon et al. 2024; Gemma 3n). With a latent, it reads the latent and the "
                  "channels that all heads share. 0 means that the layer has keys and values of its own."),
    REAL(qkv_attention_spec, clip, 0, FLT_MAX, "a number greater than 0, or 0 for none", .flags = QKV_KEY_LATER,
         .example = "8",
         .help = "Queries, keys and values are clamped to the range from -clip to clip, after qk_norm and before the "
                 "rotation, which qk_norm may also follow. 0 means off. MPT and OLMoE have it."),
    FLAG(qkv_attention_spec, sinks, .flags = QKV_KEY_LATER, .neutral = false,
         .help = "Whether each head has a learned logit that only adds to the denominator of the softmax (gpt-oss)."),
    REAL(qkv_attention_spec, dropout, 0, 1, RATE_TEXT, .flags = RATE_FLAGS, .standard = "null", .example = "0.1",
         .help = "The dropout of the attention weights."),
    OBJECT(qkv_attention_spec, position, qkv_attention_position_keys, .applies = in_self_attention,
           .owner = "self attention", .example = "{\"kind\":\"rope\"}",
           .help = "The position that this attention itself has."),
    END,
};

const struct qkv_key qkv_norm_keys[] = {
    NORM_KIND,
    CHOICE(qkv_norm_spec, placement, placements, .value = QKV_PLACEMENT_PRE,
           .help =
               "Where the norms of a layer are. x is the residual stream, f a sublayer: attention or feed-forward."),
    NORM_EPS,
    FLAG(qkv_norm_spec, final, .flags = QKV_KEY_IDLE, .rule = rule_final, .applies = ends_a_stack,
         .owner = "the kind of the last layer", .standard = "false with placement post, else true", .example = "false",
         .help = "Whether a norm follows the last layer of the stack."),
    NORM_AFFINE,
    FLAG(qkv_norm_spec, attention, .flags = QKV_KEY_LATER, .neutral = true, .value = true,
         .help = "Whether self attention has its norm; with placement sandwich, its two norms. ModernBERT's first "
                 "layer has false."),
    END,
};

const struct qkv_key qkv_norm_only_keys[] = {NORM_KEYS, END};

const struct qkv_key qkv_ffn_keys[] = {
    CHOICE(qkv_ffn_spec, kind, ffns, .value = QKV_FFN_GELU, .example = "\"swiglu\"",
           .help = "The activation of x, a projection of the input. With a gate, there are two projections, gate and "
                   "up, and the activation of one is multiplied by the other (Shazeer 2020)."),
    WHOLE(qkv_ffn_spec, d_ff, 1, DIMENSION, .rule = rule_d_ff, .example = "1024",
          .standard = "4 * d_model; with a gate two thirds of that, rounded up to a multiple of 8, or of 256 from "
                      "d_model 1024 on",
          .help = "The width of the feed-forward: the number of its activations."),
    FLAG(qkv_ffn_spec, bias, .value = true, .help = "Whether the projections of the feed-forward have biases."),
    REAL(qkv_ffn_spec, dropout, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH | QKV_KEY_LATER,
         .example = "0.1",
         .help = "The dropout of the activations, before the last projection, as in PyTorch's layers. The spec's "
                 "dropout does not change it. With experts it is 0."),
    REAL(qkv_ffn_spec, limit, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE,
         .value = 7, .applies = in_clamped, .owner = "ffn.kind swiglu_clamped", .needs = "kind=swiglu_clamped",
         .example = "10",
         .help = "The gate is at most limit, and up is clamped to the range from -limit to limit (gpt-oss)."),
    OBJECT(qkv_ffn_spec, experts, qkv_experts_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER,
           .example = "{\"count\":8}", .help = "A mixture of experts in place of one feed-forward."),
    END,
};

const struct qkv_key qkv_layer_keys[] = {LAYER_KEYS(NULL), END};
