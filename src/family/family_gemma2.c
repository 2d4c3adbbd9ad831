/* Gemma 2 (Riviere et al. 2024): norms around sublayers, softcaps, every second layer with a window. */
#include "family/family.h"

static const struct qkv_family_rule activations[] = {
    {"'gelu_pytorch_tanh'", "decoder.ffn.kind='geglu_tanh'"},
    {"null", "decoder.ffn.kind='geglu_tanh'"},
    {"'gelu'", "decoder.ffn.kind='geglu'"},
    {"'silu'", "decoder.ffn.kind='swiglu'"},
    {NULL, NULL},
};

static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "full", "attention.window=0"},
    {"'sliding_attention'", "sliding", "attention.window=$sliding_window"},
    {NULL, NULL, NULL},
};

/* Even layers have the window. */
static int kind_of(const json_t *config, int layer, int listed) {
    (void)config;
    return listed >= 0 ? listed : layer % 2 == 0;
}

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", activations},
    {"tie_word_embeddings", qkv_family_ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.embed_tokens", 0, 0, NULL},
    {"attn_out_norm", "model.layers.{N}.post_attention_layernorm", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.pre_feedforward_layernorm", 0, 0, NULL},
    {"ffn_out_norm", "model.layers.{N}.post_feedforward_layernorm", 0, 0, NULL},
    {"attn_norm", "model.layers.{N}.input_layernorm", 0, 0, NULL},
    {"attn.q", "model.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.q_norm", "model.layers.{N}.self_attn.q_norm", 0, 0, NULL},
    {"attn.k_norm", "model.layers.{N}.self_attn.k_norm", 0, 0, NULL},
    {"attn.o", "model.layers.{N}.self_attn.o_proj", 0, 0, NULL},
    {"ffn.gate", "model.layers.{N}.mlp.gate_proj", 0, 0, NULL},
    {"ffn.up", "model.layers.{N}.mlp.up_proj", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.mlp.down_proj", 0, 0, NULL},
    {"norm", "model.norm", 0, 0, NULL},
    {"head", "lm_head", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_layers layers = {"layer_types", kinds, kind_of};

const struct qkv_family qkv_family_gemma2 = {
    .type = "gemma2",
    .architectures = "Gemma2ForCausalLM",
    .stacks = "decoder",
    .defaults = "vocab_size=256000; hidden_size=2304; intermediate_size=9216; num_hidden_layers=26; "
                "num_attention_heads=8; num_key_value_heads=4; head_dim=256; hidden_act='gelu_pytorch_tanh'; "
                "max_position_embeddings=8192; rms_norm_eps=1e-6; rope_theta=10000.0; rope_scaling=null; "
                "tie_word_embeddings=true; hidden_activation='gelu_pytorch_tanh'; query_pre_attn_scalar=256; "
                "sliding_window=4096; attn_logit_softcapping=50.0; final_logit_softcapping=30.0",
    .needs = "attention_bias=false; use_bidirectional_attention=null",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_NO_BIASES
    "decoder.embed.scale=$hidden_size:sqrt; decoder.norm.kind='rmsnorm_plus_one'; decoder.norm.eps=$rms_norm_eps; "
    "decoder.norm.placement='sandwich'; decoder.attention.scale=$query_pre_attn_scalar:rsqrt; "
    "decoder.attention.softcap=$attn_logit_softcapping:zero; head.softcap=$final_logit_softcapping:zero",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
