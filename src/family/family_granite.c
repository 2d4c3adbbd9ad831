/* Granite 3 (IBM 2024): LLaMA with multipliers of embedding, scores, residuals and logits. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},      {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes}, {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},   QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "granite",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES QKV_FAMILY_GGUF_GRANITE "mlp_bias=?blk.0.ffn_up.bias",
    .tensors = qkv_family_gguf_pairs,
};

const struct qkv_family qkv_family_granite = {
    .type = "granite",
    .architectures = "GraniteForCausalLM,GraniteModel",
    .stacks = "decoder",
    .defaults =
        "vocab_size=32000; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; mlp_bias=false; "
        "embedding_multiplier=1.0; attention_multiplier=1.0; residual_multiplier=1.0; logits_scaling=1.0",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_GRANITE_MULTIPLIERS,
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
