/* Phi-1, 1.5 and 2 (Li et al. 2023): parallel sublayers, half of a head rotated. */
#include "family/family_tables.h"

static const struct qkv_family_rule query_norms[] = {
    {"false", "decoder.attention.qk_norm=null"},
    {"true", "decoder.attention.qk_norm.kind='layernorm'; decoder.attention.qk_norm.eps=$layer_norm_eps; "
             "decoder.attention.qk_norm.over='head'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"qk_layernorm", query_norms},
    {"hidden_act", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"attn.o", "model.layers.{N}.self_attn.dense", 0, 0, NULL},
    {"attn.q_norm", "model.layers.{N}.self_attn.q_layernorm", 0, 0, NULL},
    {"attn.k_norm", "model.layers.{N}.self_attn.k_layernorm", 0, 0, NULL},
    {"ffn.up", "model.layers.{N}.mlp.fc1", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.mlp.fc2", 0, 0, NULL},
    {"norm", "model.final_layernorm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "phi2",
    .keys = QKV_FAMILY_GGUF_STEM
    "layer_norm_eps=$attention.layer_norm_epsilon; partial_rotary_factor=$rope.dimension_count:of_head|1.0",
};

const struct qkv_family qkv_family_phi = {
    .type = "phi",
    .architectures = "PhiForCausalLM,PhiModel,PhiForSequenceClassification,PhiForTokenClassification",
    .stacks = "decoder",
    .defaults = "vocab_size=51200; hidden_size=2048; intermediate_size=8192; num_hidden_layers=24; "
                "num_attention_heads=32; num_key_value_heads=null; head_dim=null; hidden_act='gelu_new'; "
                "max_position_embeddings=2048; layer_norm_eps=1e-5; rope_theta=10000.0; rope_scaling=null; "
                "tie_word_embeddings=false; partial_rotary_factor=0.5; qk_layernorm=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_BIASES
    "decoder.attention.position.fraction=$partial_rotary_factor; decoder.norm.placement='parallel'; "
    "decoder.norm.kind='layernorm'; decoder.norm.eps=$layer_norm_eps; head.bias=true",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
