/* GLM-4-0414 and GLM-Z1 (2025): GLM-4 with norms before and after sublayers. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_query_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"attn_out_norm", "model.layers.{N}.post_self_attn_layernorm", 0, 0, NULL},
    {"ffn_out_norm", "model.layers.{N}.post_mlp_layernorm", 0, 0, NULL},
    {"ffn.gate,ffn.up", "model.layers.{N}.mlp.gate_up_proj", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_tensor gguf_tensors[] = {
    {"ffn.gate,ffn.up", "blk.{N}.ffn_up", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "glm4",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES "partial_rotary_factor=$rope.dimension_count:of_head|1.0",
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_glm4 = {
    .type = "glm4",
    .architectures = "Glm4ForCausalLM,Glm4Model,Glm4ForSequenceClassification,Glm4ForTokenClassification",
    .stacks = "decoder",
    .defaults = QKV_FAMILY_GLM_DEFAULTS,
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_GLM_ROTATION "decoder.norm.placement='sandwich'",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
