/* Gemma 1 (Mesnard et al. 2024): norms times 1 + w, a scaled embedding. */
#include "family/family_tables.h"

/* Published files say gelu where the model uses its approximation by tanh. */
static const struct qkv_family_rule gates[] = {
    {"'gelu_pytorch_tanh'", "decoder.ffn.kind='geglu_tanh'"},
    {"'gelu'", "decoder.ffn.kind='geglu_tanh'"},
    {"'gelu_new'", "decoder.ffn.kind='geglu_tanh'"},
    {"'gelu_fast'", "decoder.ffn.kind='geglu_tanh'"},
    {"'gelu_accurate'", "decoder.ffn.kind='geglu_tanh'"},
    {"'gelu_python'", "decoder.ffn.kind='geglu'"},
    {"'silu'", "decoder.ffn.kind='swiglu'"},
    {"'swish'", "decoder.ffn.kind='swiglu'"},
    {"'relu'", "decoder.ffn.kind='reglu'"},
    {"'relu2'", "decoder.ffn.kind='relu2_glu'"},
    {"'tanh'", "decoder.ffn.kind='tanh_glu'"},
    {"'quick_gelu'", "decoder.ffn.kind='quick_geglu'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "gemma",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES,
    .tensors = qkv_family_gguf_gemma,
};

const struct qkv_family qkv_family_gemma = {
    .type = "gemma",
    .architectures = "GemmaForCausalLM,GemmaModel,GemmaForSequenceClassification,GemmaForTokenClassification",
    .stacks = "decoder",
    .defaults =
        "vocab_size=256000; hidden_size=3072; intermediate_size=24576; num_hidden_layers=28; num_attention_heads=16; "
        "num_key_value_heads=16; head_dim=256; hidden_act='gelu_pytorch_tanh'; max_position_embeddings=8192; "
        "rms_norm_eps=1e-6; rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=true; attention_bias=false",
    .idle = "hidden_activation use_bidirectional_attention",
    .spec = QKV_FAMILY_LLAMA_SPEC
    "decoder.ffn.bias=false; "
    "decoder.embed.scale=$hidden_size:sqrt; decoder.norm.kind='rmsnorm_plus_one'; decoder.norm.eps=$rms_norm_eps; "
    "decoder.norm.placement='pre'",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
