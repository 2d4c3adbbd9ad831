/* MarianMT (Junczys-Dowmunt et al. 2018), the OPUS models: sinusoids, norms behind sublayers. */
#include "family/family.h"

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.shared", 0, 0, NULL},
    {"head.bias", "=final_logits_bias", 0, QKV_FAMILY_LEADING | QKV_FAMILY_BUFFER, NULL},
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

const struct qkv_family qkv_family_marian = {
    .type = "marian",
    .architectures = "MarianMTModel",
    .stacks = "encoder decoder",
    .defaults = "encoder_layers=12; decoder_layers=12; encoder_attention_heads=16; decoder_attention_heads=16; "
                "encoder_ffn_dim=4096; decoder_ffn_dim=4096; d_model=1024; activation_function='gelu'; "
                "scale_embedding=false; tie_word_embeddings=true; vocab_size=58101; max_position_embeddings=1024; "
                "share_encoder_decoder_embeddings=true",
    .needs = "tie_word_embeddings=true; share_encoder_decoder_embeddings=true; normalize_before=false; "
             "normalize_embedding=false; add_final_layer_norm=false",
    .spec = "d_model=$d_model; head.kind='lm'; encoder.layers=$encoder_layers; decoder.layers=$decoder_layers; "
            "encoder.attention.heads=$encoder_attention_heads; decoder.attention.heads=$decoder_attention_heads; "
            "encoder.ffn.d_ff=$encoder_ffn_dim; decoder.ffn.d_ff=$decoder_ffn_dim; *.ffn.bias=true; "
            "*.norm.kind='layernorm'; *.norm.eps=1e-5; vocab=$vocab_size; source_vocab=$vocab_size; "
            "context=$max_position_embeddings; tie='all'; head.bias=true; *.attention.bias=true; "
            "*.embed.position.kind='sinusoidal'; *.embed.position.layout='halves'; "
            "*.embed.scale=$scale_embedding:scaled; *.norm.placement='post'",
    .choices = choices,
    .tensors = tensors,
    .prefix = "model.",
    .ignored = "model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight lm_head.weight "
               "model.encoder.embed_positions.weight model.decoder.embed_positions.weight",
};
