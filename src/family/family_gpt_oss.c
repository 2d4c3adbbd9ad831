/* gpt-oss (OpenAI 2025): experts with biases and a clamped gate, sinks, every second layer with a window. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

#define EXPERTS "=model.layers.{N}.mlp.experts."
static const struct qkv_family_tensor tensors[] = {
    {"attn.sinks", "=model.layers.{N}.self_attn.sinks", 0, QKV_FAMILY_FLAT, NULL},
    {"ffn.router", "model.layers.{N}.mlp.router", 0, 0, NULL},
    {"ffn.experts.gate.weight,ffn.experts.up.weight", EXPERTS "gate_up_proj", QKV_FAMILY_IN_TURNS,
     QKV_FAMILY_STACKED | QKV_FAMILY_TRANSPOSED, NULL},
    {"ffn.experts.gate.bias,ffn.experts.up.bias", EXPERTS "gate_up_proj_bias", QKV_FAMILY_IN_TURNS, QKV_FAMILY_STACKED,
     NULL},
    {"ffn.experts.down.weight", EXPERTS "down_proj", 0, QKV_FAMILY_STACKED | QKV_FAMILY_TRANSPOSED, NULL},
    {"ffn.experts.down.bias", EXPERTS "down_proj_bias", 0, QKV_FAMILY_STACKED, NULL},
    {NULL, NULL, 0, 0, NULL},
};

/* Cut frequencies are not rounded to whole channels; without a scaling that is said, as the default is one. */
static bool gguf_finish(json_t *config) {
    json_t *scaling = json_object_get(config, "rope_scaling");
    if (json_is_object(scaling)) return !json_object_set_new(scaling, "truncate", json_false());
    return !json_object_set_new(config, "rope_scaling", json_pack("{s:s}", "rope_type", "default"));
}

static const struct qkv_family_tensor gguf_tensors[] = {
    {"ffn_norm", "blk.{N}.post_attention_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "gpt-oss",
    .keys = QKV_FAMILY_GGUF_SIZES QKV_FAMILY_GGUF_ROPE QKV_FAMILY_GGUF_BIASES
    "max_position_embeddings=$context_length; intermediate_size=$expert_feed_forward_length; "
    "num_key_value_heads=$attention.head_count_kv; head_dim=$attention.key_length|null; "
    "rms_norm_eps=$attention.layer_norm_rms_epsilon; sliding_window=$attention.sliding_window; "
    "num_local_experts=$expert_count; num_experts_per_tok=$expert_used_count",
    .idle = "feed_forward_length",
    .finish = gguf_finish,
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_gpt_oss = {
    .type = "gpt_oss",
    .architectures = "GptOssForCausalLM,GptOssModel,GptOssForSequenceClassification,GptOssForTokenClassification",
    .stacks = "decoder",
    .aliases = "num_experts=num_local_experts",
    .defaults =
        "vocab_size=201088; hidden_size=2880; intermediate_size=2880; num_hidden_layers=36; num_attention_heads=64; "
        "num_key_value_heads=8; head_dim=64; max_position_embeddings=131072; rms_norm_eps=1e-5; rope_theta=150000.0; "
        "rope_scaling={'rope_type':'yarn','factor':32.0,'beta_fast':32.0,'beta_slow':1.0,'truncate':false,"
        "'original_max_position_embeddings':4096}; tie_word_embeddings=false; sliding_window=128; "
        "num_experts_per_tok=4; num_local_experts=128; swiglu_limit=7.0; attention_bias=true",
    .needs = "hidden_act='silu'; swiglu_alpha=1.702",
    .idle = "initial_context_length experts_per_token",
    .spec = QKV_FAMILY_LLAMA_BASE QKV_FAMILY_RMSNORM
    "decoder.norm.placement='pre'; decoder.attention.sinks=true; decoder.attention.position.kind='rope'; "
    "decoder.attention.position.theta=$rope_theta; decoder.attention.position.scaling=$rope_scaling:scaling_said; "
    "decoder.ffn.kind='swiglu_clamped'; decoder.ffn.limit=$swiglu_limit; decoder.ffn.bias=true; "
    "decoder.ffn.experts.count=$num_local_experts; decoder.ffn.experts.top_k=$num_experts_per_tok; "
    "decoder.ffn.experts.scores='chosen'; decoder.ffn.experts.bias=true; decoder.ffn.experts.balance_loss=0",
    .choices = choices,
    .layers = &qkv_family_even_windows,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
