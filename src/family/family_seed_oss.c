/* Seed-OSS (ByteDance 2025): LLaMA with biases of queries, keys and values. */
#include "family/family_tables.h"

static const struct qkv_family_rule biases[] = {
    {"attention_bias=true; attention_out_bias=false", "decoder.attention.bias='qkv'"},
    {"attention_bias=true; attention_out_bias=true", "decoder.attention.bias=true"},
    {"attention_bias=false; attention_out_bias=false", "decoder.attention.bias=false"},
    {"attention_bias=false; attention_out_bias=true", "decoder.attention.bias='o'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},      {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes}, {NULL, biases},
    {"mlp_bias", qkv_family_ffn_biases},   QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor gguf_tensors[] = {
    {"ffn_norm", "blk.{N}.post_attention_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "seed_oss",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES
    "attention_out_bias=?blk.0.attn_output.bias; mlp_bias=?blk.0.ffn_up.bias",
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_seed_oss = {
    .type = "seed_oss",
    .architectures = "SeedOssForCausalLM,SeedOssModel,SeedOssForSequenceClassification,SeedOssForTokenClassification,"
                     "SeedOssForQuestionAnswering",
    .stacks = "decoder",
    .defaults =
        "vocab_size=155136; hidden_size=4096; intermediate_size=27648; num_hidden_layers=64; num_attention_heads=80; "
        "num_key_value_heads=8; head_dim=128; hidden_act='silu'; max_position_embeddings=524288; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=true; "
        "attention_out_bias=false; mlp_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM "decoder.norm.placement='pre'",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .question_prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
