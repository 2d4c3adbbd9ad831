/* OLMo 2 (Walsh et al. 2025): norms after sublayers, and a norm over all queries and one over all keys. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "olmo2",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES,
    .tensors = qkv_family_gguf_output_norms,
};

const struct qkv_family qkv_family_olmo2 = {
    .type = "olmo2",
    .architectures = "Olmo2ForCausalLM,Olmo2Model,Olmo2ForSequenceClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=50304; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM
    "decoder.norm.placement='output'; decoder.attention.qk_norm.kind='rmsnorm'; "
    "decoder.attention.qk_norm.eps=$rms_norm_eps; decoder.attention.qk_norm.over='width'; decoder.ffn.bias=false",
    .choices = choices,
    .tensors = qkv_family_output_norms,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
