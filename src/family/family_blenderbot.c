/* Blenderbot (Roller et al. 2020): BART with norms before sublayers, and none after the embedding. */
#include "family/family_tables.h"

const struct qkv_family qkv_family_blenderbot = {
    .type = "blenderbot",
    .architectures = "BlenderbotForConditionalGeneration,BlenderbotModel",
    .classes = "Model=ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_BART_ALIASES,
    .defaults = QKV_FAMILY_BART_DEFAULTS
    "vocab_size=8008; max_position_embeddings=128; encoder_layers=2; decoder_layers=24; encoder_attention_heads=32; "
    "decoder_attention_heads=32; encoder_ffn_dim=10240; decoder_ffn_dim=10240; d_model=2560",
    .idle = "add_bias_logits extra_pos_embeddings save_step static_position_embeddings normalize_* "
            "add_final_layer_norm do_blenderbot_90_layernorm layernorm_variant extra_layer_norm",
    .spec = QKV_FAMILY_BART_SPEC
    "source_vocab=$vocab_size; context=$max_position_embeddings; *.attention.bias=true; "
    "*.embed.scale=$scale_embedding:scaled; *.embed.position.kind='learned'; *.norm.placement='pre'",
    .choices = qkv_family_bart_choices,
    .tensors = qkv_family_bart_embeddings,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = QKV_FAMILY_BART_IGNORED,
};
