/* Gemma 2 (Riviere et al. 2024): norms around sublayers, softcaps, every second layer with a window. */
#include "family/family.h"

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
    .defaults = "vocab_size=256000; hidden_size=2304; intermediate_size=9216; num_hidden_layers=26; "
                "num_attention_heads=8; num_key_value_heads=4; head_dim=256; "
                "max_position_embeddings=8192; rms_norm_eps=1e-6; rope_theta=10000.0; rope_scaling=null; "
                "tie_word_embeddings=true; attention_bias=false; hidden_activation='gelu_pytorch_tanh'; "
                "query_pre_attn_scalar=256; "
                "sliding_window=4096; attn_logit_softcapping=50.0; final_logit_softcapping=30.0",
    .needs = "use_bidirectional_attention=!true",
    .idle = "hidden_act",
    .spec = QKV_FAMILY_LLAMA_SPEC
    "decoder.ffn.bias=false; "
    "decoder.embed.scale=$hidden_size:sqrt; decoder.norm.kind='rmsnorm_plus_one'; decoder.norm.eps=$rms_norm_eps; "
    "decoder.norm.placement='sandwich'; decoder.attention.scale=$query_pre_attn_scalar:rsqrt; "
    "decoder.attention.softcap=$attn_logit_softcapping:zero; head.softcap=$final_logit_softcapping:zero",
    .choices = choices,
    .layers = &qkv_family_even_windows,
    .tensors = qkv_family_gemma_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
