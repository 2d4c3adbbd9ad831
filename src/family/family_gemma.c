/* Gemma 1 (Mesnard et al. 2024): norms times 1 + w, a scaled embedding. */
#include "family/family.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", qkv_family_gemma_gates},
    {"tie_word_embeddings", qkv_family_ties},
    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family qkv_family_gemma = {
    .type = "gemma",
    .architectures = "GemmaForCausalLM",
    .stacks = "decoder",
    .defaults =
        "vocab_size=256000; hidden_size=3072; intermediate_size=24576; num_hidden_layers=28; num_attention_heads=16; "
        "num_key_value_heads=16; head_dim=256; hidden_act='gelu_pytorch_tanh'; max_position_embeddings=8192; "
        "rms_norm_eps=1e-6; rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=true; hidden_activation=null",
    .needs = "attention_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_NO_BIASES
    "decoder.embed.scale=$hidden_size:sqrt; decoder.norm.kind='rmsnorm_plus_one'; decoder.norm.eps=$rms_norm_eps; "
    "decoder.norm.placement='pre'",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
