/* Phi-3.5-MoE (Microsoft 2024): Mixtral with layer norms and biases, whose router is sparsemixer (Liu et al. 2024). */
#include "family/family_tables.h"

static const struct qkv_family_rule head_biases[] = {
    {"false", "head.bias=false"},
    {"true", "head.bias=true"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},      {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes}, {"attention_bias", qkv_family_attention_biases},
    {"lm_head_bias", head_biases},         QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.router", "model.layers.{N}.block_sparse_moe.gate", 0, 0, NULL},
    {"ffn.experts.gate", "model.layers.{N}.block_sparse_moe.experts.{E}.w1", 0, 0, NULL},
    {"ffn.experts.down", "model.layers.{N}.block_sparse_moe.experts.{E}.w2", 0, 0, NULL},
    {"ffn.experts.up", "model.layers.{N}.block_sparse_moe.experts.{E}.w3", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_phimoe = {
    .type = "phimoe",
    .architectures = "PhimoeForCausalLM,PhiMoEForCausalLM,PhimoeModel",
    .stacks = "decoder",
    .defaults =
        "vocab_size=32064; hidden_size=4096; intermediate_size=6400; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=8; head_dim=null; hidden_act='silu'; max_position_embeddings=131072; rms_norm_eps=1e-5; "
        "rope_theta=1000000.0; rope_scaling=null; tie_word_embeddings=false; sliding_window=null; "
        "num_experts_per_tok=2; num_local_experts=16; router_jitter_noise=0.01; attention_bias=false; "
        "lm_head_bias=false",
    .needs = "num_experts_per_tok=2",
    .idle = "input_jitter_noise",
    .rotation_keys = "short_mscale long_mscale",
    .spec = QKV_FAMILY_LLAMA_BASE
    "decoder.attention.position.kind='rope'; decoder.attention.position.theta=$rope_theta; "
    "decoder.attention.position.scaling=$rope_scaling:scaling_mscale; decoder.norm.kind='layernorm'; "
    "decoder.norm.eps=$rms_norm_eps; decoder.norm.placement='pre'; "
    "decoder.attention.window=$sliding_window:zero; decoder.ffn.bias=false; "
    "decoder.ffn.experts.count=$num_local_experts; decoder.ffn.experts.top_k=$num_experts_per_tok; "
    "decoder.ffn.experts.scores='sparsemixer'; decoder.ffn.experts.margin=$router_jitter_noise:twice; "
    "decoder.ffn.experts.balance_loss=0",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
