/* The text part of CLIP (Radford et al. 2021), as diffusion models have it: its hidden states. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "text_model.embeddings.token_embedding", 0, 0, NULL},
    {"embed.position", "text_model.embeddings.position_embedding", 0, 0, NULL},
    {"attn_norm", "text_model.encoder.layers.{N}.layer_norm1", 0, 0, NULL},
    {"attn.q", "text_model.encoder.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "text_model.encoder.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "text_model.encoder.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.o", "text_model.encoder.layers.{N}.self_attn.out_proj", 0, 0, NULL},
    {"ffn_norm", "text_model.encoder.layers.{N}.layer_norm2", 0, 0, NULL},
    {"ffn.up", "text_model.encoder.layers.{N}.mlp.fc1", 0, 0, NULL},
    {"ffn.down", "text_model.encoder.layers.{N}.mlp.fc2", 0, 0, NULL},
    {"norm", "text_model.final_layer_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_clip_text = {
    .type = "clip_text_model",
    .architectures = "CLIPTextModel",
    .stacks = "decoder",
    .defaults = "vocab_size=49408; hidden_size=512; intermediate_size=2048; num_hidden_layers=12; "
                "num_attention_heads=8; max_position_embeddings=77; hidden_act='quick_gelu'; layer_norm_eps=1e-5",
    .idle = "projection_dim",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
            "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "
            "decoder.ffn.d_ff=$intermediate_size; decoder.embed.position.kind='learned'; "
            "decoder.embed.scale=1.0; " QKV_FAMILY_BIASES
            "decoder.norm.kind='layernorm'; decoder.norm.eps=$layer_norm_eps; "
            "decoder.norm.placement='pre'; " QKV_FAMILY_BARE,
    .choices = choices,
    .tensors = tensors,
    .prefix = "text_model.",
};
