/* UMT5 (Chung et al. 2023): T5 1.1 whose layers learn biases of their own by buckets of distances. */
#include "family/family_tables.h"

static const struct qkv_family_tensor tensors[] = {
    {"position.buckets", "{S}.block.{N}.layer.0.SelfAttention.relative_attention_bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "t5",
    .has = "enc.blk.1.attn_rel_b.weight",
    .class = "ForConditionalGeneration",
    .keys = QKV_FAMILY_GGUF_T5_BOTH,
    .finish = qkv_family_gguf_t5_finish,
    .tensors = qkv_family_gguf_t5,
};

const struct qkv_family qkv_family_umt5 = {
    .type = "umt5",
    .architectures = "UMT5ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_T5_ALIASES "; num_layers=num_decoder_layers",
    .defaults = QKV_FAMILY_T5_DEFAULTS QKV_FAMILY_UMT5_DEFAULTS "tie_word_embeddings=null; scale_decoder_outputs=null",
    .idle = "scalable_attention",
    .spec = QKV_FAMILY_NO_BIASES QKV_FAMILY_T5_BOTH_STACKS "; *.attention.position.per_layer=true",
    .choices = qkv_family_t5_choices,
    .tensors = tensors,
    .others = qkv_family_t5_tensors,
    .ignored = "encoder.embed_tokens.weight decoder.embed_tokens.weight",
    .gguf = &gguf,
};
