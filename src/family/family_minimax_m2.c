/* MiniMax-M2 (2025): experts that are chosen by corrected scores, norms over all queries and all keys. */
#include "family/family_tables.h"

/* Published files have rotary_dim. */
static const struct qkv_family_rule rotations[] = {
    {"partial_rotary_factor=!null", "decoder.attention.position.fraction=$partial_rotary_factor"},
    {"rotary_dim=!null", "decoder.attention.position.fraction=$rotary_dim:rotary"},
    {"rotary_dim=null", "decoder.attention.position.fraction=1.0"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {NULL, rotations},
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.router", "model.layers.{N}.block_sparse_moe.gate", 0, 0, NULL},
    {"ffn.correction", "=model.layers.{N}.block_sparse_moe.e_score_correction_bias", 0,
     QKV_FAMILY_FLAT | QKV_FAMILY_BUFFER, NULL},
    {"ffn.experts.gate", "model.layers.{N}.block_sparse_moe.experts.{E}.w1", 0, 0, NULL},
    {"ffn.experts.down", "model.layers.{N}.block_sparse_moe.experts.{E}.w2", 0, 0, NULL},
    {"ffn.experts.up", "model.layers.{N}.block_sparse_moe.experts.{E}.w3", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_minimax_m2 = {
    .type = "minimax_m2,minimax",
    .architectures = "MiniMaxM2ForCausalLM,MiniMaxM2Model",
    .stacks = "decoder",
    .aliases = "num_experts=num_local_experts",
    .defaults =
        "vocab_size=200064; hidden_size=3072; intermediate_size=1536; num_hidden_layers=62; num_attention_heads=48; "
        "num_key_value_heads=8; head_dim=128; hidden_act='silu'; max_position_embeddings=196608; rms_norm_eps=1e-6; "
        "rope_theta=5000000.0; rope_scaling=null; partial_rotary_factor=null; rotary_dim=null; "
        "tie_word_embeddings=false; "
        "num_experts_per_tok=8; num_local_experts=256",
    .needs = "scoring_func='sigmoid'; use_routing_bias=true; use_qk_norm=true; qk_norm_type='per_layer'; "
             "shared_intermediate_size=0",
    .idle = "attn_type_list mtp_transformer_layers num_mtp_modules use_mtp layernorm_* mlp_intermediate_size "
            "shared_moe_mode max_model_len attn_window_size swa_rope_theta",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_NO_BIASES
    "decoder.norm.placement='pre'; "
    "decoder.attention.qk_norm.kind='rmsnorm'; decoder.attention.qk_norm.eps=$rms_norm_eps; "
    "decoder.attention.qk_norm.over='width'; decoder.ffn.experts.count=$num_local_experts; "
    "decoder.ffn.experts.top_k=$num_experts_per_tok; decoder.ffn.experts.scores='sigmoid'; "
    "decoder.ffn.experts.correction=true; decoder.ffn.experts.normalize=true; decoder.ffn.experts.balance_loss=0",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
