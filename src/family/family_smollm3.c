/* SmolLM3 (2025): LLaMA, where one of several layers has no rotation. */
#include <string.h>

#include "family/family_tables.h"

#define PLAIN  "attention.position.kind='none'; "
#define WINDOW "attention.window=$sliding_window"
static const struct qkv_family_kind kinds[] = {
    {"1", "turned", QKV_FAMILY_ROPE("") "attention.window=0"},
    {"0", "plain", PLAIN "attention.window=0"},
    {"1", "turned_sliding", QKV_FAMILY_ROPE("") WINDOW},
    {"0", "plain_sliding", PLAIN WINDOW},
    {NULL, NULL, NULL},
};

/* Every no_rope_layer_interval-th layer has no rotation. layer_types says which layers have a window; without it, those
 * without a rotation have one. */
static int kind_of(const json_t *config, int layer, int listed) {
    const json_int_t interval = json_integer_value(json_object_get(config, "no_rope_layer_interval"));
    const json_t *type = json_array_get(json_object_get(config, "layer_types"), (size_t)layer);
    const int plain = listed >= 0 ? listed : interval > 0 && (layer + 1) % interval == 0;
    const bool windows = json_is_true(json_object_get(config, "use_sliding_window")) &&
                         json_is_integer(json_object_get(config, "sliding_window"));
    const bool window = type ? json_string_value(type) && !strcmp(json_string_value(type), "sliding_attention") : plain;
    return plain + 2 * (windows && window);
}

/* layer_types says which layers have a window. */
static void kinds_write(json_t *config, const json_t *names) {
    json_t *types = json_array();
    for (size_t i = 0; i < json_array_size(names); i++) {
        const bool window = strstr(json_string_value(json_array_get(names, i)), "sliding") != NULL;
        json_array_append_new(types, json_string(window ? "sliding_attention" : "full_attention"));
    }
    qkv_family_write_windows(config, names);
    json_object_set_new(config, "layer_types", types);
}

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},
    {"use_sliding_window", qkv_family_flags},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {"no_rope_layers",           kinds,        kind_of, kinds_write,
                                                {"no_rope_layer_interval"}, "layer_types"};

static const struct qkv_family_gguf gguf = {
    .architecture = "smollm3",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES "mlp_bias=?blk.0.ffn_up.bias",
    .tensors = qkv_family_gguf_pairs,
};

const struct qkv_family qkv_family_smollm3 = {
    .type = "smollm3",
    .architectures = "SmolLM3ForCausalLM,SmolLM3Model,SmolLM3ForSequenceClassification,SmolLM3ForTokenClassification,"
                     "SmolLM3ForQuestionAnswering",
    .stacks = "decoder",
    .defaults = "vocab_size=128256; hidden_size=2048; intermediate_size=11008; num_hidden_layers=36; "
                "num_attention_heads=16; num_key_value_heads=4; head_dim=null; hidden_act='silu'; "
                "max_position_embeddings=32768; rms_norm_eps=1e-6; rope_theta=2000000.0; rope_scaling=null; "
                "tie_word_embeddings=true; attention_bias=false; mlp_bias=false; no_rope_layer_interval=4; "
                "use_sliding_window=false; sliding_window=null",
    .idle = "max_window_layers",
    .spec = QKV_FAMILY_LLAMA_BASE QKV_FAMILY_RMSNORM "decoder.norm.placement='pre'",
    .choices = choices,
    .layers = &layers,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .question_prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
