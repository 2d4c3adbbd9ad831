/* SmolLM3 (2025): LLaMA, one layer of several without a rotation. */
#include "family/family.h"

static const struct qkv_family_kind kinds[] = {
    {"1", "turned", QKV_FAMILY_ROPE("")},
    {"0", "plain", "attention.position.kind='none'"},
    {NULL, NULL, NULL},
};

/* Every so-manieth layer has none. */
static int kind_of(const json_t *config, int layer, int listed) {
    const json_int_t interval = json_integer_value(json_object_get(config, "no_rope_layer_interval"));
    return listed >= 0 ? listed : interval > 0 && (layer + 1) % interval == 0;
}

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {"no_rope_layers", kinds, kind_of, NULL, "no_rope_layer_interval", NULL};

const struct qkv_family qkv_family_smollm3 = {
    .type = "smollm3",
    .architectures = "SmolLM3ForCausalLM",
    .stacks = "decoder",
    .defaults = "vocab_size=128256; hidden_size=2048; intermediate_size=11008; num_hidden_layers=36; "
                "num_attention_heads=16; num_key_value_heads=4; head_dim=null; hidden_act='silu'; "
                "max_position_embeddings=32768; rms_norm_eps=1e-6; rope_theta=2000000.0; rope_scaling=null; "
                "tie_word_embeddings=true; attention_bias=false; mlp_bias=false; no_rope_layer_interval=4",
    .needs = "use_sliding_window=false",
    .spec = QKV_FAMILY_LLAMA_BASE QKV_FAMILY_RMSNORM "decoder.norm.placement='pre'",
    .choices = choices,
    .layers = &layers,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
