/* Phi-3, 3.5 and 4 (Abdin et al. 2024): LLaMA with fused matrices, and a rotation for long texts. */
#include "family/family_tables.h"

static const struct qkv_family_rule stretched[] = {
    {"rope_scaling=!null", "decoder.attention.position.scaling.original_context=$original_max_position_embeddings"},
    {"rope_scaling=null", ""},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {NULL, stretched},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"attn.q,attn.k,attn.v", "model.layers.{N}.self_attn.qkv_proj", 0, 0, NULL},
    {"ffn.gate,ffn.up", "model.layers.{N}.mlp.gate_up_proj", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_tensor gguf_tensors[] = {
    {"attn.q,attn.k,attn.v", "blk.{N}.attn_qkv", 0, 0, NULL},
    {"ffn.gate,ffn.up", "blk.{N}.ffn_up", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "phi3",
    .keys = QKV_FAMILY_GGUF_LLAMA
    "sliding_window=$attention.sliding_window|null; partial_rotary_factor=$rope.dimension_count:of_head|1.0; "
    "original_max_position_embeddings=$rope.scaling.original_context_length|$context_length",
    .unwritten = "attention.sliding_window",
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_phi3 = {
    .type = "phi3",
    .architectures = "Phi3ForCausalLM,Phi3Model,Phi3ForSequenceClassification,Phi3ForTokenClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=32064; hidden_size=3072; intermediate_size=8192; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=4096; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; sliding_window=null; "
        "partial_rotary_factor=1.0; original_max_position_embeddings=4096",
    .idle = "full_attn_mod interpolate_factor",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_NO_BIASES
    "decoder.norm.placement='pre'; decoder.attention.window=$sliding_window:zero; "
    "decoder.attention.position.fraction=$partial_rotary_factor",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
