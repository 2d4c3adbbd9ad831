/* Helium (Kyutai 2025): LLaMA, where neighbouring channels are rotated together. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},      {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes}, {"attention_bias", qkv_family_query_biases},
    {"mlp_bias", qkv_family_ffn_biases},   QKV_FAMILY_CHOICES_END,
};

const struct qkv_family qkv_family_helium = {
    .type = "helium",
    .architectures = "HeliumForCausalLM,HeliumModel,HeliumForSequenceClassification,HeliumForTokenClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=48000; hidden_size=2560; intermediate_size=7040; num_hidden_layers=24; num_attention_heads=20; "
        "num_key_value_heads=20; head_dim=128; hidden_act='silu'; max_position_embeddings=4096; rms_norm_eps=1e-8; "
        "rope_theta=100000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; mlp_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM
    "decoder.attention.position.pairing='interleaved'; decoder.norm.placement='pre'",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
