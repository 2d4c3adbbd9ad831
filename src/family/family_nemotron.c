/* Nemotron 3, 4 and Minitron (NVIDIA 2024): LLaMA with layer norms of 1 + w, squared ReLU in place of gates, and a
 * rotation of part of a head. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations}, {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},  {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family qkv_family_nemotron = {
    .type = "nemotron",
    .architectures = "NemotronForCausalLM,NemotronModel,NemotronForSequenceClassification,"
                     "NemotronForTokenClassification,NemotronForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "rope_percent=partial_rotary_factor; rope_percentage=partial_rotary_factor",
    .defaults =
        "vocab_size=256000; hidden_size=6144; intermediate_size=24576; num_hidden_layers=32; num_attention_heads=48; "
        "num_key_value_heads=null; head_dim=null; hidden_act='relu2'; max_position_embeddings=4096; norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; partial_rotary_factor=0.5; tie_word_embeddings=false; "
        "attention_bias=false; mlp_bias=false",
    .spec = QKV_FAMILY_LLAMA_SPEC "decoder.attention.position.fraction=$partial_rotary_factor; "
                                  "decoder.norm.kind='layernorm_plus_one'; decoder.norm.eps=$norm_eps; "
                                  "decoder.norm.placement='pre'",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .question_prefix = "transformer.",
    .tied = "lm_head.weight",
};
