/* DeepSeek V2 (DeepSeek-AI 2024): latent attention, and experts. */
#include <string.h>

#include "family/family_gguf.h"
#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'dense'", "dense", QKV_FAMILY_DENSE},
    {"'greedy'", "sparse",
     QKV_FAMILY_DEEPSEEK_SPARSE "ffn.experts.scores='softmax'; ffn.experts.normalize=false; ffn.experts.groups=1"},
    {"'group_limited_greedy'", "grouped",
     QKV_FAMILY_DEEPSEEK_SPARSE "ffn.experts.scores='softmax'; ffn.experts.normalize=false; "
                                "ffn.experts.groups=$n_group; ffn.experts.top_groups=$topk_group; "
                                "ffn.experts.group_score='max'"},
    {NULL, NULL, NULL},
};

/* The first layers have no experts. */
static int kind_of(const json_t *config, int layer, int listed) {
    const char *method = json_string_value(json_object_get(config, "topk_method"));
    (void)listed;
    if (qkv_family_first_dense(config, layer)) return 0;
    return method && !strcmp(method, "greedy") ? 1 : 2;
}

static void kinds_write(json_t *config, const json_t *values) {
    qkv_family_write_first_dense(config, values);
    json_t *last = json_array_get(values, json_array_size(values) - 1);
    if (last && strcmp(json_string_value(last), "dense")) json_object_set(config, "topk_method", last);
}

static const struct qkv_family_rule methods[] = {
    {"'greedy'", ""},
    {"'group_limited_greedy'", ""},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {NULL, qkv_family_latent_biases},
    {"topk_method", methods},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {NULL, kinds, kind_of, kinds_write, {"first_k_dense_replace"}, NULL};

/* Files say the groups of experts, not how they are chosen. */
static bool gguf_finish(json_t *config) {
    const bool groups = json_integer_value(json_object_get(config, "n_group")) > 1;
    return !json_object_set_new(config, "topk_method", json_string(groups ? "group_limited_greedy" : "greedy"));
}

static const struct qkv_family_gguf gguf = {
    .architecture = "deepseek2",
    .keys = QKV_FAMILY_GGUF_DEEPSEEK,
    .only = "expert_gating_func=1",
    .finish = gguf_finish,
    .tensors = qkv_family_gguf_deepseek,
};

const struct qkv_family qkv_family_deepseek_v2 = {
    .type = "deepseek_v2",
    .architectures = "DeepseekV2ForCausalLM,DeepseekV2Model,DeepseekV2ForSequenceClassification",
    .stacks = "decoder",
    .aliases = "num_experts=n_routed_experts",
    .defaults =
        "vocab_size=102400; hidden_size=4096; intermediate_size=11008; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; "
        "first_k_dense_replace=0; kv_lora_rank=512; q_lora_rank=1536; n_group=null; topk_group=null; "
        "n_routed_experts=64; n_shared_experts=2; qk_nope_head_dim=128; qk_rope_head_dim=64; v_head_dim=128; "
        "routed_scaling_factor=1.0; topk_method='greedy'; moe_intermediate_size=1407",
    .needs = "norm_topk_prob=false; mlp_bias=false; moe_layer_freq=1; scoring_func='softmax'",
    .idle = "head_dim qk_head_dim num_nextn_predict_layers",
    .spec = QKV_FAMILY_DEEPSEEK_SPEC "decoder.attention.position.pairing='interleaved'",
    .choices = choices,
    .layers = &layers,
    .tensors = qkv_family_deepseek_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
