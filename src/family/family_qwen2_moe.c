/* Qwen 1.5 and 2 with experts (Yang et al. 2024), and a shared expert with a gate. */
#include "family/family_tables.h"

#define SPARSE                                                                                                         \
    QKV_FAMILY_QWEN_SPARSE "ffn.experts.shared=$shared_expert_intermediate_size; ffn.experts.shared_gate=true; "
#define WINDOW "attention.window=$sliding_window"
static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "dense", QKV_FAMILY_DENSE "; attention.window=0"},
    {"'sliding_attention'", "dense_sliding", QKV_FAMILY_DENSE "; " WINDOW},
    {"'full_attention'", "sparse", SPARSE "attention.window=0"},
    {"'sliding_attention'", "sparse_sliding", SPARSE WINDOW},
    {NULL, NULL, NULL},
};

/* Every second layer below max_window_layers has a window, unless a list names the layers. */
static int kind_of(const json_t *config, int layer, int listed) {
    const json_int_t most = json_integer_value(json_object_get(config, "max_window_layers"));
    const int window = listed >= 0 ? listed : layer % 2 == 0 && layer < most;
    const bool windows = json_is_true(json_object_get(config, "use_sliding_window"));
    if (listed > 0 && !windows) return -1;
    return 2 * qkv_family_qwen_sparse(config, layer, -1) + (windows && window);
}

static void kinds_write(json_t *config, const json_t *names) {
    qkv_family_write_windows(config, names);
    qkv_family_write_qwen_sparse(config, names);
}

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},         {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},    {"qkv_bias", qkv_family_query_biases},
    {"use_sliding_window", qkv_family_flags}, QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.shared.gate", "model.layers.{N}.mlp.shared_expert.gate_proj", 0, 0, NULL},
    {"ffn.shared.up", "model.layers.{N}.mlp.shared_expert.up_proj", 0, 0, NULL},
    {"ffn.shared.down", "model.layers.{N}.mlp.shared_expert.down_proj", 0, 0, NULL},
    {"ffn.shared_gate", "model.layers.{N}.mlp.shared_expert_gate", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_layers layers = {
    "layer_types", kinds, kind_of, kinds_write, {"decoder_sparse_step", "max_window_layers"}, "mlp_only_layers"};

static const struct qkv_family_gguf gguf = {
    .architecture = "qwen2moe",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_EXPERTS
    "qkv_bias=?blk.0.attn_q.bias; "
    "moe_intermediate_size=$expert_feed_forward_length; "
    "shared_expert_intermediate_size=$expert_shared_feed_forward_length",
};

const struct qkv_family qkv_family_qwen2_moe = {
    .type = "qwen2_moe",
    .architectures = "Qwen2MoeForCausalLM,Qwen2MoeModel,Qwen2MoeForSequenceClassification,"
                     "Qwen2MoeForTokenClassification,Qwen2MoeForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "num_local_experts=num_experts",
    .defaults =
        "vocab_size=151936; hidden_size=2048; intermediate_size=5632; num_hidden_layers=24; num_attention_heads=16; "
        "num_key_value_heads=16; head_dim=null; hidden_act='silu'; max_position_embeddings=32768; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; use_sliding_window=false; "
        "sliding_window=4096; max_window_layers=28; "
        "qkv_bias=true; "
        "decoder_sparse_step=1; mlp_only_layers=[]; moe_intermediate_size=1408; shared_expert_intermediate_size=5632; "
        "num_experts_per_tok=4; num_experts=60; norm_topk_prob=false",
    .spec = QKV_FAMILY_LLAMA_STEM QKV_FAMILY_ROPE("decoder.") QKV_FAMILY_RMSNORM
    "decoder.norm.placement='pre'; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
