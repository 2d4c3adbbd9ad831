/* Qwen 3 (Yang et al. 2025): norms of queries and keys, head by head. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"use_sliding_window", qkv_family_flags},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "qwen3",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES,
};

const struct qkv_family qkv_family_qwen3 = {
    .type = "qwen3",
    .architectures = "Qwen3ForCausalLM,Qwen3Model,Qwen3ForSequenceClassification,Qwen3ForTokenClassification,"
                     "Qwen3ForQuestionAnswering",
    .stacks = "decoder",
    .defaults =
        "vocab_size=151936; hidden_size=4096; intermediate_size=22016; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=32; head_dim=128; hidden_act='silu'; max_position_embeddings=32768; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; use_sliding_window=false; "
        "sliding_window=4096; max_window_layers=28; attention_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM
    "decoder.norm.placement='pre'; decoder.attention.qk_norm.kind='rmsnorm'; "
    "decoder.attention.qk_norm.eps=$rms_norm_eps; decoder.attention.qk_norm.over='head'; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &qkv_family_qwen_layers,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .question_prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
