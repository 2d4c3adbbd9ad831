/* OLMo 3 (2025): OLMo 2 with windows, and layers with a window have a rotation of their own. */
#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "full",
     "attention.window=0; attention.position.kind='rope'; attention.position.theta=$rope_theta; "
     "attention.position.scaling=$" QKV_FAMILY_FULL_SCALING ":scaling"},
    {"'sliding_attention'", "sliding",
     "attention.window=$sliding_window; attention.position.kind='rope'; "
     "attention.position.theta=$" QKV_FAMILY_LOCAL_THETA "; "
     "attention.position.scaling=$" QKV_FAMILY_LOCAL_SCALING ":scaling"},
    {NULL, NULL, NULL},
};

/* Every fourth layer has no window. */
static int kind_of(const json_t *config, int layer, int listed) {
    (void)config;
    return listed >= 0 ? listed : (layer + 1) % 4 != 0;
}

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {"layer_types", kinds, kind_of, NULL, {NULL}, NULL};

const struct qkv_family qkv_family_olmo3 = {
    .type = "olmo3",
    .architectures = "Olmo3ForCausalLM,Olmo3Model,Olmo3ForSequenceClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=50304; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-5; "
        "rope_theta=500000.0; " QKV_FAMILY_LOCAL_THETA
        "=500000.0; tie_word_embeddings=false; attention_bias=false; sliding_window=4096",
    .needs = "sliding_window=!null",
    .rotations = {"rope_theta", QKV_FAMILY_LOCAL_THETA},
    .spec = QKV_FAMILY_LLAMA_BASE QKV_FAMILY_RMSNORM
    "decoder.norm.placement='output'; decoder.attention.qk_norm.kind='rmsnorm'; "
    "decoder.attention.qk_norm.eps=$rms_norm_eps; decoder.attention.qk_norm.over='width'; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &layers,
    .tensors = qkv_family_output_norms,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
