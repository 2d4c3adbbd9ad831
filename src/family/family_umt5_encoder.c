/* The encoder of UMT5 alone, as in models of images and films, and the classifier of tokens made of it. */
#include "family/family_tables.h"

static const struct qkv_family_tensor tensors[] = {
    {"position.buckets", "transformer.encoder.block.{N}.layer.0.SelfAttention.relative_attention_bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "t5encoder",
    .has = "enc.blk.1.attn_rel_b.weight",
    .class = "EncoderModel",
    .keys = QKV_FAMILY_GGUF_T5,
    .finish = qkv_family_gguf_t5_finish,
    .tensors = qkv_family_gguf_t5,
};

const struct qkv_family qkv_family_umt5_encoder = {
    .type = "umt5",
    .architectures = "UMT5EncoderModel,UMT5ForTokenClassification",
    .stacks = "encoder",
    .aliases = QKV_FAMILY_T5_ALIASES,
    .defaults = QKV_FAMILY_T5_DEFAULTS QKV_FAMILY_UMT5_DEFAULTS,
    .needs = "is_decoder=false",
    .idle = "num_decoder_layers scale_decoder_outputs scalable_attention",
    .spec = QKV_FAMILY_NO_BIASES QKV_FAMILY_T5_STACK("encoder.") "encoder.attention.position.per_layer=true",
    .choices = qkv_family_t5_encoder_choices,
    .tensors = tensors,
    .others = qkv_family_t5_encoder_tensors,
    .prefix = "transformer.",
    .ignored = "transformer.encoder.embed_tokens.weight",
    .gguf = &gguf,
};
