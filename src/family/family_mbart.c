/* mBART (Liu et al. 2020): BART with norms before sublayers. */
#include "family/family_tables.h"

const struct qkv_family qkv_family_mbart = {
    .type = "mbart",
    .architectures = "MBartForConditionalGeneration,MBartModel",
    .classes = "Model=ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_BART_ALIASES,
    .defaults = QKV_FAMILY_BART_DEFAULTS
    "vocab_size=50265; max_position_embeddings=1024; encoder_layers=12; decoder_layers=12; encoder_attention_heads=16; "
    "decoder_attention_heads=16; encoder_ffn_dim=4096; decoder_ffn_dim=4096; d_model=1024",
    .idle =
        "add_bias_logits extra_pos_embeddings save_step static_position_embeddings normalize_* add_final_layer_norm",
    .spec = QKV_FAMILY_BART_SPEC
    "source_vocab=$vocab_size; context=$max_position_embeddings; *.attention.bias=true; "
    "*.embed.scale=$scale_embedding:scaled; *.embed.position.kind='learned'; *.embed.position.offset=2; "
    "*.embed.norm.kind='layernorm'; *.embed.norm.eps=1e-5; *.norm.placement='pre'",
    .choices = qkv_family_bart_choices,
    .tensors = qkv_family_bart_embeddings,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = QKV_FAMILY_BART_IGNORED,
};
