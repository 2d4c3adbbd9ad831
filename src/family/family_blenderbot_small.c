/* Blenderbot-small (Roller et al. 2020): BART whose decoder norms the embedding of tokens before it adds positions.
 * scale_embedding is of both stacks, as in ParlAI, which trained the published weights, and in transformers 4; the
 * decoder of transformers 5.24 leaves it out. */
#include "family/family_tables.h"

const struct qkv_family qkv_family_blenderbot_small = {
    .type = "blenderbot-small",
    .architectures = "BlenderbotSmallForConditionalGeneration,BlenderbotSmallModel",
    .classes = "Model=ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_BART_ALIASES,
    .defaults = QKV_FAMILY_BART_DEFAULTS
    "vocab_size=50265; max_position_embeddings=512; encoder_layers=8; decoder_layers=8; encoder_attention_heads=16; "
    "decoder_attention_heads=16; encoder_ffn_dim=2048; decoder_ffn_dim=2048; d_model=512",
    .idle = "add_bias_logits extra_pos_embeddings save_step static_position_embeddings normalize_* "
            "add_final_layer_norm do_blenderbot_90_layernorm layernorm_variant extra_layer_norm",
    .spec = QKV_FAMILY_BART_SPEC
    "source_vocab=$vocab_size; context=$max_position_embeddings; *.attention.bias=true; "
    "*.embed.scale=$scale_embedding:scaled; *.embed.position.kind='learned'; *.embed.norm.kind='layernorm'; "
    "*.embed.norm.eps=1e-5; encoder.embed.norm_tokens=false; decoder.embed.norm_tokens=true; *.norm.placement='post'",
    .choices = qkv_family_bart_choices,
    .tensors = qkv_family_bart_embeddings,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = QKV_FAMILY_BART_IGNORED,
};
