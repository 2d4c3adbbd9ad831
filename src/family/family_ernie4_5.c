/* ERNIE 4.5 (Baidu 2025) without experts: LLaMA, where neighbouring channels are rotated together. */
#include "family/family_tables.h"

static const struct qkv_family_rule biases[] = {
    {"false", "decoder.attention.bias=false; decoder.ffn.bias=false"},
    {"null", "decoder.attention.bias=false; decoder.ffn.bias=false"},
    {"true", "decoder.attention.bias=true; decoder.ffn.bias=true"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"use_bias", biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "ernie4_5",
    .keys = QKV_FAMILY_GGUF_LLAMA "use_bias=false",
};

const struct qkv_family qkv_family_ernie4_5 = {
    .type = "ernie4_5",
    .architectures = "Ernie4_5ForCausalLM,Ernie4_5Model",
    .stacks = "decoder",
    .defaults =
        "vocab_size=103424; hidden_size=1024; intermediate_size=3072; num_hidden_layers=18; num_attention_heads=16; "
        "num_key_value_heads=2; head_dim=128; hidden_act='silu'; max_position_embeddings=131072; rms_norm_eps=1e-5; "
        "rope_theta=500000.0; rope_scaling=null; tie_word_embeddings=true; use_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM
    "decoder.attention.position.pairing='interleaved'; decoder.norm.placement='pre'",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
