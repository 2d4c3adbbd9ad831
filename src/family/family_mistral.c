/* Mistral 7B (Jiang et al. 2023): LLaMA with a window. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family qkv_family_mistral = {
    .type = "mistral",
    .architectures = "MistralForCausalLM,MistralModel,MistralForSequenceClassification,MistralForTokenClassification,"
                     "MistralForQuestionAnswering",
    .stacks = "decoder",
    .defaults =
        "vocab_size=32000; hidden_size=4096; intermediate_size=14336; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=8; head_dim=null; hidden_act='silu'; max_position_embeddings=131072; rms_norm_eps=1e-6; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; sliding_window=4096",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_NO_BIASES
    "decoder.norm.placement='pre'; decoder.attention.window=$sliding_window:zero",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
