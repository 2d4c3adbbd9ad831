/* GLM-4.5 and 4.6 (GLM team 2025): experts that are chosen by corrected scores, part of a head is rotated. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},       {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},  {"attention_bias", qkv_family_query_biases},
    {"use_qk_norm", qkv_family_head_norms}, QKV_FAMILY_CHOICES_END,
};

/* Files have one layer more, which predicts a second token; it is not read. */
const struct qkv_family qkv_family_glm4_moe = {
    .type = "glm4_moe",
    .architectures = "Glm4MoeForCausalLM,Glm4MoeModel",
    .stacks = "decoder",
    .aliases = "num_local_experts=n_routed_experts",
    .defaults =
        "vocab_size=151552; hidden_size=4096; intermediate_size=10944; num_hidden_layers=46; num_attention_heads=96; "
        "num_key_value_heads=8; head_dim=null; hidden_act='silu'; max_position_embeddings=131072; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; partial_rotary_factor=0.5; tie_word_embeddings=false; "
        "attention_bias=false; moe_intermediate_size=1408; num_experts_per_tok=8; n_shared_experts=1; "
        "n_routed_experts=128; routed_scaling_factor=1.0; n_group=1; topk_group=1; first_k_dense_replace=1; "
        "norm_topk_prob=true; use_qk_norm=false",
    .needs = "moe_layer_freq=1; scoring_func='sigmoid'; topk_method='noaux_tc'",
    .idle = "num_nextn_predict_layers num_mtp_layers",
    .spec = QKV_FAMILY_LLAMA_STEM QKV_FAMILY_ROPE("decoder.") QKV_FAMILY_RMSNORM
    "decoder.norm.placement='pre'; decoder.attention.position.fraction=$partial_rotary_factor; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &qkv_family_corrected_layers,
    .tensors = qkv_family_deepseek_tensors,
    .others = qkv_family_llama_tensors,
    .ignored = "model.layers.$num_hidden_layers.*",
    .prefix = "model.",
    .tied = "lm_head.weight",
};
