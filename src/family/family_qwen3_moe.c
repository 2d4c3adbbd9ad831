/* Qwen 3 with experts (Yang et al. 2025). */
#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'dense'", "dense", QKV_FAMILY_DENSE},
    {"'sparse'", "sparse", QKV_FAMILY_QWEN_SPARSE},
    {NULL, NULL, NULL},
};

static const struct qkv_family_rule windows[] = {
    {"use_sliding_window=false", "decoder.attention.window=0"},
    {"use_sliding_window=true", "decoder.attention.window=$sliding_window:zero"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    {NULL, windows},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {
    NULL, kinds, qkv_family_qwen_sparse, qkv_family_write_qwen_sparse, {"decoder_sparse_step"}, "mlp_only_layers"};

static const struct qkv_family_gguf gguf = {
    .architecture = "qwen3moe",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_EXPERTS QKV_FAMILY_GGUF_BIASES
    "moe_intermediate_size=$expert_feed_forward_length; norm_topk_prob=true",
};

const struct qkv_family qkv_family_qwen3_moe = {
    .type = "qwen3_moe",
    .architectures = "Qwen3MoeForCausalLM,Qwen3MoeModel,Qwen3MoeForSequenceClassification,"
                     "Qwen3MoeForTokenClassification,Qwen3MoeForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "num_local_experts=num_experts",
    .defaults =
        "vocab_size=151936; hidden_size=2048; intermediate_size=6144; num_hidden_layers=24; num_attention_heads=32; "
        "num_key_value_heads=4; head_dim=null; hidden_act='silu'; max_position_embeddings=32768; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; use_sliding_window=false; "
        "sliding_window=4096; attention_bias=false; decoder_sparse_step=1; mlp_only_layers=[]; "
        "moe_intermediate_size=768; num_experts_per_tok=8; num_experts=128; norm_topk_prob=false",
    .idle = "max_window_layers",
    .spec = QKV_FAMILY_LLAMA_STEM QKV_FAMILY_ROPE("decoder.") QKV_FAMILY_RMSNORM
    "decoder.norm.placement='pre'; decoder.attention.qk_norm.kind='rmsnorm'; "
    "decoder.attention.qk_norm.eps=$rms_norm_eps; decoder.attention.qk_norm.over='head'; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &layers,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .question_prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
