/* Tables that families share. */
#include <string.h>

#include "family/family_tables.h"

const struct qkv_family_rule qkv_family_activations[] = {
    {"'gelu_new'", "*.ffn.kind='gelu_tanh'"},
    {"'gelu'", "*.ffn.kind='gelu'"},
    {"'gelu_pytorch_tanh'", "*.ffn.kind='gelu_tanh'"},
    {"'gelu_fast'", "*.ffn.kind='gelu_tanh'"},
    {"'gelu_accurate'", "*.ffn.kind='gelu_tanh'"},
    {"'gelu_python'", "*.ffn.kind='gelu'"},
    {"'relu'", "*.ffn.kind='relu'"},
    {"'silu'", "*.ffn.kind='silu'"},
    {"'swish'", "*.ffn.kind='silu'"},
    {"'tanh'", "*.ffn.kind='tanh'"},
    {"'quick_gelu'", "*.ffn.kind='quick_gelu'"},
    {"'relu2'", "*.ffn.kind='relu2'"},
    {NULL, NULL},
};

const struct qkv_family_rule qkv_family_gates[] = {
    {"'silu'", "*.ffn.kind='swiglu'"},
    {"'swish'", "*.ffn.kind='swiglu'"},
    {"'gelu_pytorch_tanh'", "*.ffn.kind='geglu_tanh'"},
    {"'gelu_new'", "*.ffn.kind='geglu_tanh'"},
    {"'gelu_fast'", "*.ffn.kind='geglu_tanh'"},
    {"'gelu_accurate'", "*.ffn.kind='geglu_tanh'"},
    {"'gelu'", "*.ffn.kind='geglu'"},
    {"'gelu_python'", "*.ffn.kind='geglu'"},
    {"'relu'", "*.ffn.kind='reglu'"},
    {"'relu2'", "*.ffn.kind='relu2_glu'"},
    {"'tanh'", "*.ffn.kind='tanh_glu'"},
    {"'quick_gelu'", "*.ffn.kind='quick_geglu'"},
    {NULL, NULL},
};

const struct qkv_family_rule qkv_family_ties[] = {
    {"true", "tie='head'"},
    {"false", "tie='none'"},
    {NULL, NULL},
};

const struct qkv_family_rule qkv_family_flags[] = {
    {"false", ""},
    {"true", ""},
    {NULL, NULL},
};

/* Whether scores are scaled, as scale_attn_weights of GPT says. */
const struct qkv_family_rule qkv_family_gpt_scales[] = {
    {"true", "decoder.attention.scale=null"},
    {"false", "decoder.attention.scale=1.0"},
    {NULL, NULL},
};

/* Biases of all attention matrices, as LLaMA's attention_bias says, and of the feed-forward. */
const struct qkv_family_rule qkv_family_attention_biases[] = {
    {"false", "*.attention.bias=false"},
    {"true", "*.attention.bias=true"},
    {NULL, NULL},
};
const struct qkv_family_rule qkv_family_ffn_biases[] = {
    {"false", "*.ffn.bias=false"},
    {"true", "*.ffn.bias=true"},
    {NULL, NULL},
};

/* The same where the projection after attention has none; norms of each head's queries and keys. */
const struct qkv_family_rule qkv_family_query_biases[] = {
    {"false", "decoder.attention.bias=false"},
    {"true", "decoder.attention.bias='qkv'"},
    {NULL, NULL},
};
const struct qkv_family_rule qkv_family_head_norms[] = {
    {"false", "decoder.attention.qk_norm=null"},
    {"true", QKV_FAMILY_HEAD_NORMS},
    {NULL, NULL},
};

const struct qkv_family_tensor qkv_family_output_norms[] = {
    {"attn_norm", "model.layers.{N}.post_attention_layernorm", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.post_feedforward_layernorm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family_tensor qkv_family_llama_tensors[] = {
    {"embed.token", "model.embed_tokens", 0, 0, NULL},
    {"attn_norm", "model.layers.{N}.input_layernorm", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.post_attention_layernorm", 0, 0, NULL},
    {"attn.q", "model.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.q_norm", "model.layers.{N}.self_attn.q_norm", 0, 0, NULL},
    {"attn.k_norm", "model.layers.{N}.self_attn.k_norm", 0, 0, NULL},
    {"attn.o", "model.layers.{N}.self_attn.o_proj", 0, 0, NULL},
    {"ffn.gate", "model.layers.{N}.mlp.gate_proj", 0, 0, NULL},
    {"ffn.up", "model.layers.{N}.mlp.up_proj", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.mlp.down_proj", 0, 0, NULL},
    {"ffn.router", "model.layers.{N}.mlp.gate", 0, 0, NULL},
    {"ffn.experts.gate", "model.layers.{N}.mlp.experts.{E}.gate_proj", 0, 0, NULL},
    {"ffn.experts.up", "model.layers.{N}.mlp.experts.{E}.up_proj", 0, 0, NULL},
    {"ffn.experts.down", "model.layers.{N}.mlp.experts.{E}.down_proj", 0, 0, NULL},
    {"norm", "model.norm", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("score", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

/* ---- BART ------------------------------------------------------------------------------------------------------ */

/* The bias of scores that is a buffer, which files may leave out. */
const struct qkv_family_rule qkv_family_head_biases[] = {
    {"@final_logits_bias=true", "head.bias=true"},
    {"@final_logits_bias=false", "head.bias=false"},
    {NULL, NULL},
};

const struct qkv_family_tensor qkv_family_bart_tensors[] = {
    {"attn.q", "model.{S}.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.{S}.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.{S}.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.o", "model.{S}.layers.{N}.self_attn.out_proj", 0, 0, NULL},
    {"cross.q", "model.{S}.layers.{N}.encoder_attn.q_proj", 0, 0, NULL},
    {"cross.k", "model.{S}.layers.{N}.encoder_attn.k_proj", 0, 0, NULL},
    {"cross.v", "model.{S}.layers.{N}.encoder_attn.v_proj", 0, 0, NULL},
    {"cross.o", "model.{S}.layers.{N}.encoder_attn.out_proj", 0, 0, NULL},
    {"attn_norm", "model.{S}.layers.{N}.self_attn_layer_norm", 0, 0, NULL},
    {"cross_norm", "model.{S}.layers.{N}.encoder_attn_layer_norm", 0, 0, NULL},
    {"ffn_norm", "model.{S}.layers.{N}.final_layer_norm", 0, 0, NULL},
    {"ffn.up", "model.{S}.layers.{N}.fc1", 0, 0, NULL},
    {"ffn.down", "model.{S}.layers.{N}.fc2", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

/* ---- windows ------------------------------------------------------------------------------------------------- */

static const struct qkv_family_kind windows[] = {
    {"'full_attention'", "full", "attention.window=0"},
    {"'sliding_attention'", "sliding", "attention.window=$sliding_window"},
    {NULL, NULL, NULL},
};

/* Even layers have a window. */
static int even_window(const json_t *config, int layer, int listed) {
    (void)config;
    return listed >= 0 ? listed : layer % 2 == 0;
}

const struct qkv_family_layers qkv_family_even_windows = {"layer_types", windows, even_window, NULL, {NULL}, NULL};

/* Without a list all layers have a window, if sliding_window is set. */
static int listed_window(const json_t *config, int layer, int listed) {
    (void)layer;
    return listed >= 0 ? listed : !json_is_null(json_object_get(config, "sliding_window"));
}

const struct qkv_family_layers qkv_family_listed_windows = {"layer_types", windows, listed_window, NULL, {NULL}, NULL};

int qkv_family_period_window(const json_t *config, int layer, int listed) {
    const json_int_t period = json_integer_value(json_object_get(config, "sliding_window_pattern"));
    return listed >= 0 ? listed : period > 0 && (layer + 1) % period != 0;
}

/* ---- Gemma ---------------------------------------------------------------------------------------------------- */

const struct qkv_family_tensor qkv_family_gemma_tensors[] = {
    {"attn_out_norm", "model.layers.{N}.post_attention_layernorm", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.pre_feedforward_layernorm", 0, 0, NULL},
    {"ffn_out_norm", "model.layers.{N}.post_feedforward_layernorm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

/* ---- Qwen -------------------------------------------------------------------------------------------------------- */

/* With use_sliding_window, layers from max_window_layers on have a window; else none has. */
static int qwen_window(const json_t *config, int layer, int listed) {
    if (!json_is_true(json_object_get(config, "use_sliding_window"))) return listed > 0 ? -1 : 0;
    if (listed >= 0) return listed;
    return layer >= (int)json_integer_value(json_object_get(config, "max_window_layers"));
}

void qkv_family_write_windows(json_t *config, const json_t *names) {
    bool any = false;
    for (size_t i = 0; i < json_array_size(names); i++)
        any = any || strstr(json_string_value(json_array_get(names, i)), "sliding");
    json_object_set_new(config, "use_sliding_window", json_boolean(any));
}

const struct qkv_family_layers qkv_family_qwen_layers = {
    "layer_types", windows, qwen_window, qkv_family_write_windows, {"max_window_layers"}, NULL};

static bool qwen_lists(const json_t *list, int layer) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == layer) return true;
    return false;
}

/* Every decoder_sparse_step-th layer has experts, except those in mlp_only_layers. */
int qkv_family_qwen_sparse(const json_t *config, int layer, int listed) {
    (void)listed;
    const json_int_t step = json_integer_value(json_object_get(config, "decoder_sparse_step"));
    return step != 0 && (layer + 1) % step == 0 && !qwen_lists(json_object_get(config, "mlp_only_layers"), layer);
}

void qkv_family_write_qwen_sparse(json_t *config, const json_t *values) {
    json_t *dense = json_array();
    for (size_t i = 0; i < json_array_size(values); i++)
        if (!strncmp(json_string_value(json_array_get(values, i)), "dense", 5))
            json_array_append_new(dense, json_integer((json_int_t)i));
    json_object_set_new(config, "mlp_only_layers", dense);
    json_object_set_new(config, "decoder_sparse_step", json_integer(1));
}

/* ---- DeepSeek ---------------------------------------------------------------------------------------------------- */

/* With a latent of queries, the bias is that of the latent's projection. */
const struct qkv_family_rule qkv_family_latent_biases[] = {
    {"attention_bias=false", "decoder.attention.bias=false"},
    {"attention_bias=true; q_lora_rank=!null", "decoder.attention.bias=true"},
    {"attention_bias=true; q_lora_rank=null", "decoder.attention.bias='kvo'"},
    {NULL, NULL},
};

void qkv_family_write_first_dense(json_t *config, const json_t *values) {
    size_t dense = 0;
    while (dense < json_array_size(values) && !strncmp(json_string_value(json_array_get(values, dense)), "dense", 5))
        dense++;
    json_object_set_new(config, "first_k_dense_replace", json_integer((json_int_t)dense));
}

bool qkv_family_first_dense(const json_t *config, int layer) {
    return layer < json_integer_value(json_object_get(config, "first_k_dense_replace"));
}

static const struct qkv_family_kind corrected[] = {
    {"'dense'", "dense", QKV_FAMILY_DENSE},
    {"'sparse'", "sparse", QKV_FAMILY_CORRECTED_SPARSE},
    {NULL, NULL, NULL},
};

static int corrected_kind(const json_t *config, int layer, int listed) {
    (void)listed;
    return !qkv_family_first_dense(config, layer);
}

const struct qkv_family_layers qkv_family_corrected_layers = {
    NULL, corrected, corrected_kind, qkv_family_write_first_dense, {"first_k_dense_replace"}, NULL};

const struct qkv_family_tensor qkv_family_deepseek_tensors[] = {
    {"attn.q_a", "model.layers.{N}.self_attn.q_a_proj", 0, 0, NULL},
    {"attn.q_a_norm", "model.layers.{N}.self_attn.q_a_layernorm", 0, 0, NULL},
    {"attn.q_b", "model.layers.{N}.self_attn.q_b_proj", 0, 0, NULL},
    {"attn.kv_a,attn.k_rope", "model.layers.{N}.self_attn.kv_a_proj_with_mqa", 0, 0, NULL},
    {"attn.kv_a_norm", "model.layers.{N}.self_attn.kv_a_layernorm", 0, 0, NULL},
    {"attn.k_b,attn.v_b", "model.layers.{N}.self_attn.kv_b_proj", QKV_FAMILY_HEADS, 0, NULL},
    {"ffn.router", "model.layers.{N}.mlp.gate", 0, QKV_FAMILY_PARAMETER, NULL},
    {"ffn.correction", "=model.layers.{N}.mlp.gate.e_score_correction_bias", 0, QKV_FAMILY_FLAT | QKV_FAMILY_BUFFER,
     NULL},
    QKV_FAMILY_SHARED_EXPERTS,
    {NULL, NULL, 0, 0, NULL},
};
