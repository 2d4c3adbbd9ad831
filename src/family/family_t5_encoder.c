/* The encoder of T5 alone, as in sentence-t5 and in models of images, and the classifier of tokens made of it. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'EncoderModel'", QKV_FAMILY_BARE},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS "; tie='none'"},
    {NULL, NULL},
};

const struct qkv_family_choice qkv_family_t5_encoder_choices[] = {
    {NULL, qkv_family_t5_feed_forwards},
    {"class", heads},
    QKV_FAMILY_CHOICES_END,
};

/* Names begin with "transformer." in a classifier. */
const struct qkv_family_tensor qkv_family_t5_encoder_tensors[] = {
    {"embed.token", "transformer.shared", 0, 0, NULL},
    {"position.buckets", "transformer.encoder.block.0.layer.0.SelfAttention.relative_attention_bias", 0, 0, NULL},
    {"attn_norm", "transformer.encoder.block.{N}.layer.0.layer_norm", 0, 0, NULL},
    {"attn.q", "transformer.encoder.block.{N}.layer.0.SelfAttention.q", 0, 0, NULL},
    {"attn.k", "transformer.encoder.block.{N}.layer.0.SelfAttention.k", 0, 0, NULL},
    {"attn.v", "transformer.encoder.block.{N}.layer.0.SelfAttention.v", 0, 0, NULL},
    {"attn.o", "transformer.encoder.block.{N}.layer.0.SelfAttention.o", 0, 0, NULL},
    {"ffn_norm", "transformer.encoder.block.{N}.layer.1.layer_norm", 0, 0, NULL},
    {"ffn.up", "transformer.encoder.block.{N}.layer.1.DenseReluDense.wi", 0, 0, QKV_FAMILY_T5_UNGATED},
    {"ffn.gate", "transformer.encoder.block.{N}.layer.1.DenseReluDense.wi_0", 0, 0, NULL},
    {"ffn.up", "transformer.encoder.block.{N}.layer.1.DenseReluDense.wi_1", 0, 0, NULL},
    {"ffn.down", "transformer.encoder.block.{N}.layer.1.DenseReluDense.wo", 0, 0, NULL},
    {"norm", "transformer.encoder.final_layer_norm", 0, 0, NULL},
    {"head", "classifier", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "t5encoder",
    .class = "EncoderModel",
    .keys = QKV_FAMILY_GGUF_T5,
    .finish = qkv_family_gguf_t5_finish,
    .tensors = qkv_family_gguf_t5,
};

const struct qkv_family qkv_family_t5_encoder = {
    .type = "t5,mt5",
    .architectures = "T5EncoderModel,MT5EncoderModel,T5ForTokenClassification,MT5ForTokenClassification",
    .stacks = "encoder",
    .aliases = QKV_FAMILY_T5_ALIASES,
    .defaults = QKV_FAMILY_T5_DEFAULTS
    "vocab_size=32128; d_model=512; d_kv=64; d_ff=2048; num_layers=6; num_heads=8; feed_forward_proj='relu'",
    .needs = "is_decoder=false",
    .idle = "num_decoder_layers scale_decoder_outputs",
    .spec = QKV_FAMILY_NO_BIASES QKV_FAMILY_T5_STACK("encoder."),
    .choices = qkv_family_t5_encoder_choices,
    .tensors = qkv_family_t5_encoder_tensors,
    .prefix = "transformer.",
    .ignored = "transformer.encoder.embed_tokens.weight",
    .gguf = &gguf,
};
