/* Llama 4 (Meta 2025), its text model: most layers rotate queries and keys, norm them, and see chunks; the others have
 * no rotation and see all, with queries that grow with their positions. Experts read inputs times their weights. */
#include <string.h>

#include "family/family_tables.h"

#define NORMED                                                                                                         \
    "attention.qk_norm.kind='rmsnorm'; attention.qk_norm.weight=false; attention.qk_norm.eps=$rms_norm_eps; "          \
    "attention.qk_norm.over='head'; attention.qk_norm.after_rotation=true; "
#define TEMPERED                                                                                                       \
    "attention.temperature.offset=1; attention.temperature.beta=$attn_scale; "                                         \
    "attention.temperature.length=$floor_scale; "
#define ROTATED(norm)  QKV_FAMILY_ROPE("") "attention.position.pairing='interleaved'; attention.temperature=null; " norm
#define FLAT(tempered) "attention.position.kind='none'; attention.qk_norm=null; " tempered
#define CHUNKED        "attention.chunk=$attention_chunk_size; "
#define WHOLE          "attention.chunk=0; "
#define DENSE          "ffn.d_ff=$intermediate_size_mlp; ffn.experts=null"
#define SPARSE                                                                                                         \
    QKV_FAMILY_SPARSE                                                                                                  \
    "ffn.d_ff=$intermediate_size; ffn.experts.count=$num_local_experts; ffn.experts.scores='sigmoid'; "                \
    "ffn.experts.normalize=false; ffn.experts.shared=$intermediate_size; ffn.experts.scale_inputs=true"
/* Without and with experts. */
#define BOTH(value, name, then)                                                                                        \
    {value, name "_dense", then DENSE}, {                                                                              \
        value, name "_sparse", then SPARSE                                                                             \
    }

/* In the order of kind_of: whole or chunked; rotated or flat; without or with what a flag adds; dense or sparse. */
static const struct qkv_family_kind kinds[] = {
    BOTH("'full_attention'", "whole_rotated", WHOLE ROTATED("attention.qk_norm=null; ")),
    BOTH("'full_attention'", "whole_normed", WHOLE ROTATED(NORMED)),
    BOTH("'full_attention'", "whole_flat", WHOLE FLAT("attention.temperature=null; ")),
    BOTH("'full_attention'", "whole_tempered", WHOLE FLAT(TEMPERED)),
    BOTH("'chunked_attention'", "chunked_rotated", CHUNKED ROTATED("attention.qk_norm=null; ")),
    BOTH("'chunked_attention'", "chunked_normed", CHUNKED ROTATED(NORMED)),
    BOTH("'chunked_attention'", "chunked_flat", CHUNKED FLAT("attention.temperature=null; ")),
    BOTH("'chunked_attention'", "chunked_tempered", CHUNKED FLAT(TEMPERED)),
    {NULL, NULL, NULL},
};

static bool has_flag(const json_t *config, const char *key) {
    return json_is_true(json_object_get(config, key));
}

/* Whether every step-th layer is one of those that a list has, or is one without a list. */
static bool is_step(const json_t *config, const char *key, int layer) {
    const json_int_t step = json_integer_value(json_object_get(config, key));
    return step > 0 && (layer + 1) % step == 0;
}

static bool is_sparse(const json_t *config, int layer) {
    const json_t *list = json_object_get(config, "moe_layers");
    if (!json_is_array(list)) return is_step(config, "interleave_moe_layer_step", layer);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == layer) return true;
    return false;
}

static int kind_of(const json_t *config, int layer, int listed) {
    const json_t *rotated = json_object_get(config, "no_rope_layers");
    const bool turns = json_array_size(rotated) ? json_integer_value(json_array_get(rotated, (size_t)layer)) != 0
                                                : !is_step(config, "no_rope_layer_interval", layer);
    const bool sized = !json_is_null(json_object_get(config, "attention_chunk_size"));
    const bool chunked = listed >= 0 ? listed >= 8 : turns && sized;
    if (chunked && !sized) return -1;
    const bool more = has_flag(config, turns ? "use_qk_norm" : "attn_temperature_tuning");
    return 8 * chunked + 4 * !turns + 2 * more + is_sparse(config, layer);
}

static void layers_write(json_t *config, const json_t *names) {
    json_t *rotated = json_array(), *sparse = json_array();
    bool normed = false, tempered = false, chunked = false;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const bool turns = strstr(name, "_rotated") || strstr(name, "_normed");
        json_array_append_new(rotated, json_integer(turns));
        if (strstr(name, "_sparse")) json_array_append_new(sparse, json_integer((json_int_t)i));
        normed = normed || strstr(name, "_normed");
        tempered = tempered || strstr(name, "_tempered");
        chunked = chunked || !strncmp(name, "chunked", 7);
    }
    json_object_set_new(config, "no_rope_layers", rotated);
    json_object_set_new(config, "moe_layers", sparse);
    json_object_set_new(config, "use_qk_norm", json_boolean(normed));
    json_object_set_new(config, "attn_temperature_tuning", json_boolean(tempered));
    if (!chunked) json_object_set_new(config, "attention_chunk_size", json_null());
}

static const struct qkv_family_layers layers = {"layer_types",
                                                kinds,
                                                kind_of,
                                                layers_write,
                                                {"no_rope_layer_interval", "interleave_moe_layer_step"},
                                                "no_rope_layers moe_layers"};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    {"use_qk_norm", qkv_family_flags},
    {"attn_temperature_tuning", qkv_family_flags},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.gate", "model.layers.{N}.feed_forward.gate_proj", 0, 0, NULL},
    {"ffn.up", "model.layers.{N}.feed_forward.up_proj", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.feed_forward.down_proj", 0, 0, NULL},
    {"ffn.router", "model.layers.{N}.feed_forward.router", 0, 0, NULL},
    {"ffn.shared.gate", "model.layers.{N}.feed_forward.shared_expert.gate_proj", 0, 0, NULL},
    {"ffn.shared.up", "model.layers.{N}.feed_forward.shared_expert.up_proj", 0, 0, NULL},
    {"ffn.shared.down", "model.layers.{N}.feed_forward.shared_expert.down_proj", 0, 0, NULL},
    {"ffn.experts.gate,ffn.experts.up", "=model.layers.{N}.feed_forward.experts.gate_up_proj", 0,
     QKV_FAMILY_STACKED | QKV_FAMILY_TRANSPOSED | QKV_FAMILY_EXCHANGED, NULL},
    {"ffn.experts.down", "=model.layers.{N}.feed_forward.experts.down_proj", 0,
     QKV_FAMILY_STACKED | QKV_FAMILY_TRANSPOSED | QKV_FAMILY_EXCHANGED, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_llama4 = {
    .type = "llama4_text",
    .architectures = "Llama4ForCausalLM,Llama4TextModel",
    .stacks = "decoder",
    .defaults = "vocab_size=202048; hidden_size=5120; intermediate_size=8192; intermediate_size_mlp=16384; "
                "num_hidden_layers=48; num_attention_heads=40; num_key_value_heads=8; head_dim=128; hidden_act='silu'; "
                "max_position_embeddings=131072; rms_norm_eps=1e-5; rope_theta=500000.0; rope_scaling=null; "
                "tie_word_embeddings=false; num_experts_per_tok=1; num_local_experts=16; interleave_moe_layer_step=1; "
                "use_qk_norm=true; no_rope_layer_interval=4; attention_chunk_size=8192; attn_temperature_tuning=true; "
                "floor_scale=8192; attn_scale=0.1; attention_bias=false",
    .idle = "for_llm_compressor",
    .spec = QKV_FAMILY_LLAMA_STEM QKV_FAMILY_RMSNORM "decoder.norm.placement='pre'; decoder.ffn.bias=false",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
