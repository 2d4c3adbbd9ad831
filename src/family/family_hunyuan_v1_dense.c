/* Hunyuan, dense (Tencent 2025): LLaMA with norms of each head's queries and keys behind the rotation, whose base may
 * be scaled by `alpha`. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"attn.q_norm", "model.layers.{N}.self_attn.query_layernorm", 0, 0, NULL},
    {"attn.k_norm", "model.layers.{N}.self_attn.key_layernorm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_hunyuan_v1_dense = {
    .type = "hunyuan_v1_dense",
    .architectures = "HunYuanDenseV1ForCausalLM,HunYuanDenseV1Model,HunYuanDenseV1ForSequenceClassification",
    .stacks = "decoder",
    .aliases = "attention_head_dim=head_dim",
    .defaults =
        "vocab_size=290943; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; use_qk_norm=true; "
        "use_cla=false",
    .needs = "use_qk_norm=true; use_cla=false",
    .idle = "cla_share_factor dense_list mlp_bias norm_type org_vocab_size use_rotary_pos_emb",
    .rotation_keys = "alpha",
    .spec = QKV_FAMILY_LLAMA_BASE QKV_FAMILY_RMSNORM QKV_FAMILY_HEAD_NORMS
    "; decoder.attention.qk_norm.after_rotation=true; decoder.attention.position.kind='rope'; "
    "decoder.attention.position.theta=$rope_theta; decoder.attention.position.scaling=$rope_scaling:scaling_alpha; "
    "decoder.ffn.bias=false; decoder.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
