/* Command R (Cohere 2024): parallel sublayers, norms without a bias, interleaved rotations. */
#include "family/family_tables.h"

static const struct qkv_family_rule query_norms[] = {
    {"false", "decoder.attention.qk_norm=null"},
    {"true", "decoder.attention.qk_norm.kind='layernorm'; decoder.attention.qk_norm.eps=$layer_norm_eps; "
             "decoder.attention.qk_norm.bias=false; decoder.attention.qk_norm.over='heads'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},      {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes}, {"attention_bias", qkv_family_attention_biases},
    {"use_qk_norm", query_norms},          QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "command-r",
    .keys = QKV_FAMILY_GGUF_STEM QKV_FAMILY_GGUF_BIASES
    "layer_norm_eps=$attention.layer_norm_epsilon; logit_scale=$logit_scale|1.0; "
    "use_qk_norm=?blk.0.attn_q_norm.weight",
};

const struct qkv_family qkv_family_cohere = {
    .type = "cohere",
    .architectures = "CohereForCausalLM,CohereModel",
    .stacks = "decoder",
    .defaults = "vocab_size=256000; hidden_size=8192; intermediate_size=22528; num_hidden_layers=40; "
                "num_attention_heads=64; num_key_value_heads=null; head_dim=null; hidden_act='silu'; "
                "max_position_embeddings=8192; layer_norm_eps=1e-5; rope_theta=500000.0; rope_scaling=null; "
                "tie_word_embeddings=true; attention_bias=false; use_qk_norm=false; logit_scale=0.0625",
    .spec =
        QKV_FAMILY_LLAMA_SPEC "decoder.attention.position.pairing='interleaved'; decoder.norm.placement='parallel'; "
                              "decoder.norm.kind='layernorm'; decoder.norm.bias=false; "
                              "decoder.norm.eps=$layer_norm_eps; decoder.ffn.bias=false; head.scale=$logit_scale",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
