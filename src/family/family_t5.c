/* T5 (Raffel et al. 2020), 1.0 and 1.1, Flan-T5, mT5: biases by buckets of distances, no scale of scores. */
#include "family/family_tables.h"

/* Newer files repeat the activation, and whether there are gates, under keys of their own. */
#define FEED_FORWARD(text, activation, gated, kind)                                                                    \
    {"feed_forward_proj='" text "'; dense_act_fn=null; is_gated_act=null", "*.ffn.kind='" kind "'"}, {                 \
        "feed_forward_proj='" text "'; dense_act_fn='" activation "'; is_gated_act=" gated, "*.ffn.kind='" kind "'"    \
    }
const struct qkv_family_rule qkv_family_t5_feed_forwards[] = {
    FEED_FORWARD("relu", "relu", "false", "relu"),
    FEED_FORWARD("gated-gelu", "gelu_new", "true", "geglu_tanh"),
    FEED_FORWARD("gated-silu", "silu", "true", "swiglu"),
    FEED_FORWARD("gated-relu", "relu", "true", "reglu"),
    FEED_FORWARD("gelu", "gelu", "false", "gelu"),
    FEED_FORWARD("gelu_new", "gelu_new", "false", "gelu_tanh"),
    FEED_FORWARD("silu", "silu", "false", "silu"),
    FEED_FORWARD("tanh", "tanh", "false", "tanh"),
    FEED_FORWARD("gated-gelu_python", "gelu_python", "true", "geglu"), /* the exact GELU */
    FEED_FORWARD("gated-gelu_new", "gelu_new", "true", "geglu_tanh"),
    FEED_FORWARD("gated-tanh", "tanh", "true", "tanh_glu"),
    {NULL, NULL},
};

/* A head of its own is read where files have one, whatever tie_word_embeddings says. That key says whether the head is
 * scaled, unless scale_decoder_outputs does. mT5 has no scale. */
static const struct qkv_family_rule scales[] = {
    {"model_type='mt5'", "head.scale=1.0"},
    {"scale_decoder_outputs=null; tie_word_embeddings=false", "head.scale=1.0"},
    {"scale_decoder_outputs=null; tie_word_embeddings=true", "head.scale=$d_model:rsqrt"},
    {"scale_decoder_outputs=null; tie_word_embeddings=null", "head.scale=$d_model:rsqrt"},
    {"scale_decoder_outputs=true", "head.scale=$d_model:rsqrt"},
    {"scale_decoder_outputs=false", "head.scale=1.0"},
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    {"@lm_head.weight=false", "tie='all'"},
    {"@lm_head.weight=true", "tie='stacks'"},
    {NULL, NULL},
};

const struct qkv_family_choice qkv_family_t5_choices[] = {
    {NULL, qkv_family_t5_feed_forwards},
    {NULL, ties},
    {NULL, scales},
    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family_tensor qkv_family_t5_tensors[] = {
    {"embed.token", "shared", 0, 0, NULL},
    {"position.buckets", "{S}.block.0.layer.0.SelfAttention.relative_attention_bias", 0, 0, NULL},
    {"attn_norm", "{S}.block.{N}.layer.0.layer_norm", 0, 0, NULL},
    {"attn.q", "{S}.block.{N}.layer.0.SelfAttention.q", 0, 0, NULL},
    {"attn.k", "{S}.block.{N}.layer.0.SelfAttention.k", 0, 0, NULL},
    {"attn.v", "{S}.block.{N}.layer.0.SelfAttention.v", 0, 0, NULL},
    {"attn.o", "{S}.block.{N}.layer.0.SelfAttention.o", 0, 0, NULL},
    {"cross_norm", "decoder.block.{N}.layer.1.layer_norm", 0, 0, NULL},
    {"cross.q", "decoder.block.{N}.layer.1.EncDecAttention.q", 0, 0, NULL},
    {"cross.k", "decoder.block.{N}.layer.1.EncDecAttention.k", 0, 0, NULL},
    {"cross.v", "decoder.block.{N}.layer.1.EncDecAttention.v", 0, 0, NULL},
    {"cross.o", "decoder.block.{N}.layer.1.EncDecAttention.o", 0, 0, NULL},
    {"encoder:ffn_norm", "encoder.block.{N}.layer.1.layer_norm", 0, 0, NULL},
    {"encoder:ffn.up", "encoder.block.{N}.layer.1.DenseReluDense.wi", 0, 0, QKV_FAMILY_T5_UNGATED},
    {"encoder:ffn.gate", "encoder.block.{N}.layer.1.DenseReluDense.wi_0", 0, 0, NULL},
    {"encoder:ffn.up", "encoder.block.{N}.layer.1.DenseReluDense.wi_1", 0, 0, NULL},
    {"encoder:ffn.down", "encoder.block.{N}.layer.1.DenseReluDense.wo", 0, 0, NULL},
    {"decoder:ffn_norm", "decoder.block.{N}.layer.2.layer_norm", 0, 0, NULL},
    {"decoder:ffn.up", "decoder.block.{N}.layer.2.DenseReluDense.wi", 0, 0, QKV_FAMILY_T5_UNGATED},
    {"decoder:ffn.gate", "decoder.block.{N}.layer.2.DenseReluDense.wi_0", 0, 0, NULL},
    {"decoder:ffn.up", "decoder.block.{N}.layer.2.DenseReluDense.wi_1", 0, 0, NULL},
    {"decoder:ffn.down", "decoder.block.{N}.layer.2.DenseReluDense.wo", 0, 0, NULL},
    {"norm", "{S}.final_layer_norm", 0, 0, NULL},
    {"head", "lm_head", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "t5",
    .class = "ForConditionalGeneration",
    .keys = QKV_FAMILY_GGUF_T5_BOTH,
    .finish = qkv_family_gguf_t5_finish,
    .tensors = qkv_family_gguf_t5,
};

const struct qkv_family qkv_family_t5 = {
    .type = "t5,mt5",
    .architectures = "T5ForConditionalGeneration,MT5ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_T5_ALIASES "; num_layers=num_decoder_layers",
    .defaults = QKV_FAMILY_T5_DEFAULTS
    "vocab_size=32128; d_model=512; d_kv=64; d_ff=2048; num_layers=6; num_heads=8; feed_forward_proj='relu'; "
    "tie_word_embeddings=null; scale_decoder_outputs=null",
    .spec = QKV_FAMILY_NO_BIASES QKV_FAMILY_T5_BOTH_STACKS,
    .choices = qkv_family_t5_choices,
    .tensors = qkv_family_t5_tensors,
    .ignored = "encoder.embed_tokens.weight decoder.embed_tokens.weight "
               "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    .gguf = &gguf,
};
