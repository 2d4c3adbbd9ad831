/* Cohere 2 (2024), Command R7B: Command R with windows, where layers without a window have no rotation. */
#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "full", "attention.position.kind='none'; attention.window=0"},
    {"'sliding_attention'", "sliding",
     QKV_FAMILY_ROPE("") "attention.position.pairing='interleaved'; attention.window=$sliding_window"},
    {NULL, NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {
    "layer_types", kinds, qkv_family_period_window, NULL, {"sliding_window_pattern"}, NULL};

/* Every fourth layer has no window. */
static const struct qkv_family_gguf gguf = {
    .architecture = "cohere2",
    .keys = QKV_FAMILY_GGUF_STEM QKV_FAMILY_GGUF_BIASES
    "layer_norm_eps=$attention.layer_norm_epsilon; logit_scale=$logit_scale|1.0; "
    "sliding_window=$attention.sliding_window",
};

const struct qkv_family qkv_family_cohere2 = {
    .type = "cohere2",
    .architectures = "Cohere2ForCausalLM,Cohere2Model",
    .stacks = "decoder",
    .defaults = "vocab_size=256000; hidden_size=8192; intermediate_size=22528; num_hidden_layers=40; "
                "num_attention_heads=64; num_key_value_heads=null; head_dim=null; hidden_act='silu'; "
                "max_position_embeddings=8192; layer_norm_eps=1e-5; rope_theta=10000.0; rope_scaling=null; "
                "tie_word_embeddings=true; attention_bias=false; logit_scale=0.0625; sliding_window=4096; "
                "sliding_window_pattern=4",
    .needs = "use_qk_norm=false; sliding_window=!null",
    .idle = "_sliding_window_pattern layer_switch cache_implementation order_of_interleaved_layers rotary_pct "
            "position_embedding_type use_embedding_sharing use_gated_activation use_parallel_block "
            "use_parallel_embedding",
    .spec = QKV_FAMILY_LLAMA_BASE
    "decoder.norm.placement='parallel'; decoder.norm.kind='layernorm'; decoder.norm.bias=false; "
    "decoder.norm.eps=$layer_norm_eps; decoder.ffn.bias=false; head.scale=$logit_scale",
    .choices = choices,
    .layers = &layers,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
