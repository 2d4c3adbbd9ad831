/* Granite 3 with experts (IBM 2024): the scores of the chosen experts are a softmax. */
#include "family/family_tables.h"

const struct qkv_family_tensor qkv_family_granitemoe_tensors[] = {
    {"ffn.router", "model.layers.{N}.block_sparse_moe.router.layer", 0, 0, NULL},
    {"ffn.experts.gate,ffn.experts.up", "model.layers.{N}.block_sparse_moe.input_linear", 0, QKV_FAMILY_STACKED, NULL},
    {"ffn.experts.down", "model.layers.{N}.block_sparse_moe.output_linear", 0, QKV_FAMILY_STACKED, NULL},
    {"ffn.shared.gate,ffn.shared.up", "model.layers.{N}.shared_mlp.input_linear", 0, 0, NULL},
    {"ffn.shared.down", "model.layers.{N}.shared_mlp.output_linear", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family_choice qkv_family_granitemoe_choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "granitemoe",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES QKV_FAMILY_GGUF_GRANITE
    "num_local_experts=$expert_count; num_experts_per_tok=$expert_used_count",
    .tensors = qkv_family_gguf_pairs,
};

const struct qkv_family qkv_family_granitemoe = {
    .type = "granitemoe",
    .architectures = "GraniteMoeForCausalLM,GraniteMoeModel",
    .stacks = "decoder",
    .aliases = "num_experts=num_local_experts",
    .defaults = QKV_FAMILY_GRANITEMOE_DEFAULTS,
    .spec = QKV_FAMILY_GRANITEMOE_SPEC,
    .choices = qkv_family_granitemoe_choices,
    .tensors = qkv_family_granitemoe_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
