/* Gemma 3 (Kamath et al. 2025), its text model: norms of queries and keys, and layers with a window have a rotation of
 * their own. */
#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "full",
     "attention.window=0; attention.position.kind='rope'; attention.position.theta=$rope_theta; "
     "attention.position.scaling=$" QKV_FAMILY_FULL_SCALING ":scaling"},
    {"'sliding_attention'", "sliding",
     "attention.window=$sliding_window:reach; attention.position.kind='rope'; "
     "attention.position.theta=$rope_local_base_freq; "
     "attention.position.scaling=$" QKV_FAMILY_LOCAL_SCALING ":scaling"},
    {NULL, NULL, NULL},
};

/* EmbeddingGemma is bidirectional. */
static const struct qkv_family_rule directions[] = {
    {"false", "decoder.attention.causal=true"},
    {"null", "decoder.attention.causal=true"},
    {"true", "decoder.attention.causal=false"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", qkv_family_gates},         {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},           {"use_bidirectional_attention", directions},
    {"attention_bias", qkv_family_attention_biases}, QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {
    "layer_types", kinds, qkv_family_period_window, NULL, {"sliding_window_pattern"}, NULL};

static bool gguf_finish(json_t *config) {
    if (json_integer_value(json_object_get(config, "sliding_window")) == 0) /* no layer has a window */
        json_object_set_new(config, "sliding_window_pattern", json_integer(1));
    return qkv_family_gguf_scale(config, 62);
}

#define GGUF_KEYS                                                                                                      \
    QKV_FAMILY_GGUF_SIZES QKV_FAMILY_GGUF_BIASES                                                                       \
        "max_position_embeddings=$context_length; intermediate_size=$feed_forward_length; "                            \
        "num_key_value_heads=$attention.head_count_kv|null; head_dim=$attention.key_length|null; "                     \
        "rms_norm_eps=$attention.layer_norm_rms_epsilon; rope_theta=$rope.freq_base|1000000.0; "                       \
        "rope_scaling=@scaling; rope_local_base_freq=$rope.freq_base_swa|10000.0; "                                    \
        "sliding_window=$attention.sliding_window|0; "                                                                 \
        "sliding_window_pattern=$attention.sliding_window_pattern|6; "
static const struct qkv_family_gguf gguf = {
    .architecture = "gemma3",
    .keys = GGUF_KEYS "final_logit_softcapping=$final_logit_softcapping|null",
    .finish = gguf_finish,
    .tensors = qkv_family_gguf_gemma,
};
static const struct qkv_family_gguf gguf_both_ways = {
    .architecture = "gemma-embedding",
    .class = "Model",
    .keys = GGUF_KEYS "use_bidirectional_attention=true",
    .idle = "dense_?_feat_in dense_?_feat_out",
    .dense = true,
    .finish = gguf_finish,
    .tensors = qkv_family_gguf_gemma,
    .when = "use_bidirectional_attention=true",
    .next = &gguf,
};

const struct qkv_family qkv_family_gemma3 = {
    .type = "gemma3_text",
    .architectures = "Gemma3ForCausalLM,Gemma3TextModel,Gemma3TextForSequenceClassification",
    .stacks = "decoder",
    .defaults = "vocab_size=262208; hidden_size=2304; intermediate_size=9216; num_hidden_layers=26; "
                "num_attention_heads=8; num_key_value_heads=4; head_dim=256; "
                "max_position_embeddings=131072; rms_norm_eps=1e-6; rope_theta=1000000.0; "
                "tie_word_embeddings=true; attention_bias=false; hidden_activation='gelu_pytorch_tanh'; "
                "query_pre_attn_scalar=256; "
                "sliding_window=4096; sliding_window_pattern=6; "
                "final_logit_softcapping=null; rope_local_base_freq=10000.0; use_bidirectional_attention=false",
    .needs = "attn_logit_softcapping=null",
    .idle = "hidden_act _sliding_window_pattern",
    .rotations = {"rope_theta", "rope_local_base_freq"},
    .spec = QKV_FAMILY_LLAMA_BASE
    "decoder.ffn.bias=false; "
    "decoder.embed.scale=$hidden_size:sqrt; decoder.norm.kind='rmsnorm_plus_one'; decoder.norm.eps=$rms_norm_eps; "
    "decoder.attention.qk_norm.kind='rmsnorm_plus_one'; decoder.attention.qk_norm.eps=$rms_norm_eps; "
    "decoder.attention.qk_norm.over='head'; decoder.norm.placement='sandwich'; "
    "decoder.attention.scale=$query_pre_attn_scalar:rsqrt; decoder.attention.softcap=0; "
    "head.softcap=$final_logit_softcapping:zero",
    .choices = choices,
    .layers = &layers,
    .tensors = qkv_family_gemma_tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf_both_ways,
};
