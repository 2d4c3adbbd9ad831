/* OLMo 1 (Groeneveld et al. 2024): LLaMA with norms without weights, and clamped queries, keys and values. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "olmo",
    .keys = QKV_FAMILY_GGUF_STEM QKV_FAMILY_GGUF_BIASES
    "layer_norm_eps=$attention.layer_norm_epsilon; clip_qkv=$attention.clamp_kqv|null",
    .tensors = qkv_family_gguf_pairs,
};

const struct qkv_family qkv_family_olmo = {
    .type = "olmo",
    .architectures = "OlmoForCausalLM,OlmoModel,OlmoForSequenceClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=50304; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; clip_qkv=null; "
        "layer_norm_eps=1e-5",
    .needs = "layer_norm_eps=1e-5",
    .spec = QKV_FAMILY_LLAMA_SPEC
    "decoder.norm.placement='pre'; decoder.norm.kind='layernorm'; decoder.norm.eps=1e-5; decoder.norm.weight=false; "
    "decoder.norm.bias=false; decoder.attention.clip=$clip_qkv:zero; decoder.ffn.bias=false",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
