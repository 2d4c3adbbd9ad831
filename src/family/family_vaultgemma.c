/* VaultGemma (Google 2025): Gemma 2 without the norms after sublayers. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family qkv_family_vaultgemma = {
    .type = "vaultgemma",
    .architectures = "VaultGemmaForCausalLM,VaultGemmaModel",
    .stacks = "decoder",
    .defaults = QKV_FAMILY_GEMMA2_DEFAULTS,
    .needs = "use_bidirectional_attention=!true",
    .idle = "hidden_act",
    .spec = QKV_FAMILY_GEMMA2_SPEC "decoder.norm.placement='pre'",
    .choices = choices,
    .layers = &qkv_family_even_windows,
    .tensors = qkv_family_gemma_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
