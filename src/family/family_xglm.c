/* XGLM (Lin et al. 2021): a decoder with sinusoids that begin at 2. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"scale_embedding", qkv_family_flags},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.embed_tokens", 0, 0, NULL},
    {"attn.q", "model.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.o", "model.layers.{N}.self_attn.out_proj", 0, 0, NULL},
    {"attn_norm", "model.layers.{N}.self_attn_layer_norm", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.final_layer_norm", 0, 0, NULL},
    {"ffn.up", "model.layers.{N}.fc1", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.fc2", 0, 0, NULL},
    {"norm", "model.layer_norm", 0, 0, NULL},
    {"head", "lm_head", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

/* The sinusoid of the padding token's position is zeros, which must not be one of a token. */
const struct qkv_family qkv_family_xglm = {
    .type = "xglm",
    .architectures = "XGLMForCausalLM,XGLMModel",
    .stacks = "decoder",
    .aliases = "num_attention_heads=!attention_heads; hidden_size=!d_model; num_hidden_layers=!num_layers",
    .defaults = "vocab_size=256008; max_position_embeddings=2048; d_model=1024; ffn_dim=4096; num_layers=24; "
                "attention_heads=16; activation_function='gelu'; scale_embedding=true; tie_word_embeddings=true; "
                "pad_token_id=1",
    .needs = "pad_token_id=1; add_cross_attention=false",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$d_model; decoder.layers=$num_layers; "
            "decoder.attention.heads=$attention_heads; decoder.ffn.d_ff=$ffn_dim; " QKV_FAMILY_BIASES
            "decoder.embed.position.kind='sinusoidal'; decoder.embed.position.layout='spaced'; "
            "decoder.embed.position.offset=2; decoder.embed.scale=$scale_embedding:scaled; "
            "decoder.norm.kind='layernorm'; decoder.norm.eps=1e-5; decoder.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .prefix = "model.",
    .ignored = "model.embed_positions.weights",
    .tied = "lm_head.weight",
};
