/* Whisper (Radford et al. 2022): frames through two convolutions, given as numbers; keys have no bias. scale_embedding is read by nobody. */
#include "family/family.h"

/* The encoder's sinusoids as a file has them, rounded as they may be; where it has none they are made. */
#define TABLE "encoder.embed.position.kind='learned'"
static const struct qkv_family_rule positions[] = {
    {"@model.encoder.embed_positions.weight=true", TABLE},
    {"@encoder.embed_positions.weight=true", TABLE},
    {"@model.encoder.embed_positions.weight=false; @encoder.embed_positions.weight=false",
     "encoder.embed.position.kind='sinusoidal'; encoder.embed.position.layout='spaced'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    {NULL, positions},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.decoder.embed_tokens", 0, 0, NULL},
    {"encoder:embed.position", "model.encoder.embed_positions", 0, QKV_FAMILY_BUFFER, NULL},
    {"decoder:embed.position", "model.decoder.embed_positions", 0, 0, NULL},
    {"embed.conv1", "model.encoder.conv1", 0, 0, NULL},
    {"embed.conv2", "model.encoder.conv2", 0, 0, NULL},
    {"norm", "model.{S}.layer_norm", 0, 0, NULL},
    {"attn.q", "model.{S}.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.{S}.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.{S}.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.o", "model.{S}.layers.{N}.self_attn.out_proj", 0, 0, NULL},
    {"cross.q", "model.{S}.layers.{N}.encoder_attn.q_proj", 0, 0, NULL},
    {"cross.k", "model.{S}.layers.{N}.encoder_attn.k_proj", 0, 0, NULL},
    {"cross.v", "model.{S}.layers.{N}.encoder_attn.v_proj", 0, 0, NULL},
    {"cross.o", "model.{S}.layers.{N}.encoder_attn.out_proj", 0, 0, NULL},
    {"attn_norm", "model.{S}.layers.{N}.self_attn_layer_norm", 0, 0, NULL},
    {"cross_norm", "model.{S}.layers.{N}.encoder_attn_layer_norm", 0, 0, NULL},
    {"ffn_norm", "model.{S}.layers.{N}.final_layer_norm", 0, 0, NULL},
    {"ffn.up", "model.{S}.layers.{N}.fc1", 0, 0, NULL},
    {"ffn.down", "model.{S}.layers.{N}.fc2", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_whisper = {
    .type = "whisper",
    .architectures = "WhisperForConditionalGeneration",
    .stacks = "encoder decoder",
    .defaults = "vocab_size=51865; num_mel_bins=80; d_model=384; encoder_layers=4; decoder_layers=4; "
                "encoder_attention_heads=6; decoder_attention_heads=6; encoder_ffn_dim=1536; decoder_ffn_dim=1536; "
                "activation_function='gelu'; max_source_positions=1500; "
                "max_target_positions=448; tie_word_embeddings=true",
    .needs = "tie_word_embeddings=true",
    .spec =
        "d_model=$d_model; head.kind='lm'; encoder.layers=$encoder_layers; decoder.layers=$decoder_layers; "
        "encoder.attention.heads=$encoder_attention_heads; decoder.attention.heads=$decoder_attention_heads; "
        "encoder.ffn.d_ff=$encoder_ffn_dim; decoder.ffn.d_ff=$decoder_ffn_dim; *.ffn.bias=true; "
        "*.norm.kind='layernorm'; *.norm.eps=1e-5; vocab=$vocab_size; context=$max_target_positions; "
        "source_context=$max_source_positions; tie='head'; "
        "head.bias=false; *.attention.bias='qvo'; encoder.embed.input.kind='frames'; "
        "encoder.embed.input.channels=$num_mel_bins; encoder.embed.scale=1.0; decoder.embed.position.kind='learned'; "
        "decoder.embed.scale=1.0; *.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .prefix = "model.",
    .ignored = "proj_out.weight",
};
