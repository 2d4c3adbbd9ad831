/* DeepSeek V3 and R1 (DeepSeek-AI 2024), Kimi K2: latent attention, and experts that are chosen by corrected scores. */
#include "family/family_gguf.h"
#include "family/family_tables.h"

static const struct qkv_family_rule pairings[] = {
    {"true", "decoder.attention.position.pairing='interleaved'"},
    {"false", "decoder.attention.position.pairing='half'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},      {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes}, {NULL, qkv_family_latent_biases},
    {"rope_interleave", pairings},         QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "deepseek2",
    .has = "expert_gating_func=2",
    .keys = QKV_FAMILY_GGUF_DEEPSEEK "norm_topk_prob=$expert_weights_norm|false",
    .only = "expert_gating_func=2",
    .tensors = qkv_family_gguf_deepseek,
};

/* Files have one layer more, which predicts a second token; it is not read. */
const struct qkv_family qkv_family_deepseek_v3 = {
    .type = "deepseek_v3,kimi_k2",
    .architectures =
        "DeepseekV3ForCausalLM,DeepseekV3Model,DeepseekV3ForSequenceClassification,DeepseekV3ForTokenClassification",
    .stacks = "decoder",
    .aliases = "num_local_experts=n_routed_experts",
    .defaults =
        "vocab_size=129280; hidden_size=7168; intermediate_size=18432; num_hidden_layers=61; num_attention_heads=128; "
        "num_key_value_heads=128; hidden_act='silu'; max_position_embeddings=4096; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; "
        "first_k_dense_replace=3; kv_lora_rank=512; q_lora_rank=1536; n_group=8; topk_group=4; n_routed_experts=256; "
        "n_shared_experts=1; qk_nope_head_dim=128; qk_rope_head_dim=64; v_head_dim=128; routed_scaling_factor=2.5; "
        "norm_topk_prob=true; num_experts_per_tok=8; moe_intermediate_size=2048; rope_interleave=true",
    .needs = "moe_layer_freq=1; scoring_func='sigmoid'; topk_method='noaux_tc'",
    .idle = "head_dim qk_head_dim num_nextn_predict_layers num_mtp_layers",
    .spec = QKV_FAMILY_DEEPSEEK_SPEC,
    .choices = choices,
    .layers = &qkv_family_corrected_layers,
    .tensors = qkv_family_deepseek_tensors,
    .others = qkv_family_llama_tensors,
    .ignored = "model.layers.$num_hidden_layers.*",
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
