/* dots.llm1 (Rednote 2025): experts that are chosen by corrected scores, and norms of each head. */
#include "family/family_tables.h"

#define WINDOW "; attention.window=$sliding_window"
static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "dense", QKV_FAMILY_DENSE "; attention.window=0"},
    {"'sliding_attention'", "dense_sliding", QKV_FAMILY_DENSE WINDOW},
    {"'full_attention'", "sparse", QKV_FAMILY_CORRECTED_SPARSE "; attention.window=0"},
    {"'sliding_attention'", "sparse_sliding", QKV_FAMILY_CORRECTED_SPARSE WINDOW},
    {NULL, NULL, NULL},
};

/* Layers from max_window_layers on have a window, unless a list names the layers. */
static int kind_of(const json_t *config, int layer, int listed) {
    const bool windows = !json_is_null(json_object_get(config, "sliding_window"));
    const bool late = layer >= json_integer_value(json_object_get(config, "max_window_layers"));
    if (listed > 0 && !windows) return -1;
    return 2 * !qkv_family_first_dense(config, layer) + (listed >= 0 ? listed : windows && late);
}

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {
    "layer_types", kinds, kind_of, qkv_family_write_first_dense, {"first_k_dense_replace", "max_window_layers"}, NULL};

const struct qkv_family qkv_family_dots1 = {
    .type = "dots1",
    .architectures = "Dots1ForCausalLM,Dots1Model",
    .stacks = "decoder",
    .aliases = "num_local_experts=n_routed_experts",
    .defaults =
        "vocab_size=152064; hidden_size=4608; intermediate_size=10944; num_hidden_layers=62; num_attention_heads=32; "
        "num_key_value_heads=32; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; "
        "moe_intermediate_size=1408; num_experts_per_tok=null; n_shared_experts=null; n_routed_experts=null; "
        "routed_scaling_factor=1.0; n_group=1; topk_group=1; first_k_dense_replace=0; norm_topk_prob=false; "
        "sliding_window=4096; max_window_layers=62",
    .idle = "use_sliding_window scoring_func topk_method moe_layer_freq",
    .spec = QKV_FAMILY_LLAMA_STEM QKV_FAMILY_ROPE("decoder.") QKV_FAMILY_RMSNORM QKV_FAMILY_HEAD_NORMS
    "; decoder.norm.placement='pre'; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &layers,
    .tensors = qkv_family_deepseek_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
