/* Gemma 2 (Riviere et al. 2024): norms around sublayers, softcaps, every second layer with a window. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static bool gguf_finish(json_t *config) {
    return qkv_family_gguf_scale(config, 46);
}

static const struct qkv_family_gguf gguf = {
    .architecture = "gemma2",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES
    "sliding_window=$attention.sliding_window|4096; attn_logit_softcapping=$attn_logit_softcapping|50.0; "
    "final_logit_softcapping=$final_logit_softcapping|30.0",
    .finish = gguf_finish,
    .tensors = qkv_family_gguf_gemma,
};

const struct qkv_family qkv_family_gemma2 = {
    .type = "gemma2",
    .architectures = "Gemma2ForCausalLM,Gemma2Model,Gemma2ForSequenceClassification,Gemma2ForTokenClassification",
    .stacks = "decoder",
    .defaults = QKV_FAMILY_GEMMA2_DEFAULTS,
    .needs = "use_bidirectional_attention=!true",
    .idle = "hidden_act",
    .spec = QKV_FAMILY_GEMMA2_SPEC "decoder.norm.placement='sandwich'",
    .choices = choices,
    .layers = &qkv_family_even_windows,
    .tensors = qkv_family_gemma_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
