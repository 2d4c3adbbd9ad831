/* BioGPT (Luo et al. 2022): OPT with a scaled embedding. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"scale_embedding", qkv_family_flags},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "biogpt.embed_tokens", 0, 0, NULL},
    {"embed.position", "biogpt.embed_positions", 0, 0, NULL},
    {"attn.q", "biogpt.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "biogpt.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "biogpt.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.o", "biogpt.layers.{N}.self_attn.out_proj", 0, 0, NULL},
    {"attn_norm", "biogpt.layers.{N}.self_attn_layer_norm", 0, 0, NULL},
    {"ffn_norm", "biogpt.layers.{N}.final_layer_norm", 0, 0, NULL},
    {"ffn.up", "biogpt.layers.{N}.fc1", 0, 0, NULL},
    {"ffn.down", "biogpt.layers.{N}.fc2", 0, 0, NULL},
    {"norm", "biogpt.layer_norm", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "output_projection"),
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_biogpt = {
    .type = "biogpt",
    .architectures = "BioGptForCausalLM,BioGptModel,BioGptForSequenceClassification,BioGptForTokenClassification",
    .stacks = "decoder",
    .defaults = "vocab_size=42384; hidden_size=1024; num_hidden_layers=24; num_attention_heads=16; "
                "intermediate_size=4096; hidden_act='gelu'; max_position_embeddings=1024; scale_embedding=true; "
                "tie_word_embeddings=true",
    .idle = "layer_norm_eps",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
            "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "
            "decoder.ffn.d_ff=$intermediate_size; " QKV_FAMILY_BIASES
            "decoder.embed.position.kind='learned'; decoder.embed.position.offset=2; "
            "decoder.embed.scale=$scale_embedding:scaled; decoder.norm.kind='layernorm'; decoder.norm.eps=1e-5; "
            "decoder.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .prefix = "biogpt.",
    .tied = "output_projection.weight",
};
