/* StableLM 2 (Bellagente et al. 2024): LLaMA with layer norms, and a rotation of part of a head. */
#include "family/family_tables.h"

static const struct qkv_family_rule blocks[] = {
    {"false", "decoder.norm.placement='pre'"},
    {"true", "decoder.norm.placement='parallel'"},
    {NULL, NULL},
};

static const struct qkv_family_rule query_norms[] = {
    {"false", "decoder.attention.qk_norm=null"},
    {"null", "decoder.attention.qk_norm=null"},
    {"true", "decoder.attention.qk_norm.kind='layernorm'; decoder.attention.qk_norm.eps=$layer_norm_eps; "
             "decoder.attention.qk_norm.bias=false; decoder.attention.qk_norm.over='heads'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"use_qkv_bias", qkv_family_query_biases},
    {"use_parallel_residual", blocks},
    {"qk_layernorm", query_norms},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "stablelm",
    .keys = QKV_FAMILY_GGUF_STEM
    "layer_norm_eps=$attention.layer_norm_epsilon; partial_rotary_factor=$rope.dimension_count:of_head|1.0; "
    "use_parallel_residual=$use_parallel_residual|true; use_qkv_bias=?blk.0.attn_q.bias; "
    "qk_layernorm=?blk.0.attn_q_norm.weight",
};

/* Norms of queries and keys are a tensor for each head. */
static const struct qkv_family_tensor tensors[] = {
    {"attn.q_norm", "model.layers.{N}.self_attn.q_layernorm.norms.{R}", 0, QKV_FAMILY_APART, NULL},
    {"attn.k_norm", "model.layers.{N}.self_attn.k_layernorm.norms.{R}", 0, QKV_FAMILY_APART, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_stablelm = {
    .type = "stablelm",
    .architectures =
        "StableLmForCausalLM,StableLmModel,StableLmForSequenceClassification,StableLmForTokenClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=50304; hidden_size=2560; intermediate_size=6912; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=32; hidden_act='silu'; max_position_embeddings=4096; layer_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; partial_rotary_factor=0.25; tie_word_embeddings=false; "
        "use_qkv_bias=false; use_parallel_residual=false; qk_layernorm=false",
    .idle = "head_dim",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
            "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "
            "decoder.attention.kv_heads=$num_key_value_heads; decoder.embed.position.kind='none'; "
            "decoder.ffn.d_ff=$intermediate_size; " QKV_FAMILY_ROPE(
                "decoder.") "decoder.attention.position.fraction=$partial_rotary_factor; decoder.ffn.bias=false; "
                            "decoder.norm.kind='layernorm'; decoder.norm.eps=$layer_norm_eps",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
