/* ERNIE 4.5 with experts (Baidu 2025): scores are softmaxes, and corrected scores choose the experts. */
#include <string.h>

#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'dense'", "dense", QKV_FAMILY_DENSE},
    {"'sparse'", "sparse",
     "ffn.experts.top_k=$moe_k; ffn.experts.balance_loss=0; ffn.experts.z_loss=0; ffn.d_ff=$moe_intermediate_size; "
     "ffn.experts.count=$moe_num_experts; ffn.experts.scores='softmax'; ffn.experts.correction=true; "
     "ffn.experts.normalize=true; ffn.experts.shared=$moe_num_shared_experts:shared; "
     "ffn.experts.unbiased=$use_bias:flag"},
    {NULL, NULL, NULL},
};

static json_int_t number_of(const json_t *config, const char *key) {
    return json_integer_value(json_object_get(config, key));
}

/* Every moe_layer_interval-th layer has experts, from a first to a last layer; −1 means the last of all. */
static int kind_of(const json_t *config, int layer, int listed) {
    const json_int_t interval = number_of(config, "moe_layer_interval"), end = number_of(config, "moe_layer_end_index");
    (void)listed;
    return interval > 0 && (layer + 1) % interval == 0 && layer >= number_of(config, "moe_layer_start_index") &&
           (end == -1 || layer <= end);
}

/* The interval is the distance of the first two layers with experts. */
static void kinds_write(json_t *config, const json_t *values) {
    json_int_t first = -1, second = -1, last = -1;
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (strcmp(json_string_value(json_array_get(values, i)), "sparse") != 0) continue;
        last = (json_int_t)i;
        if (first >= 0 && second < 0) second = last;
        if (first < 0) first = last;
    }
    const json_int_t apart = second < 0 ? 1 : second - first;
    json_object_set_new(config, "moe_layer_interval", json_integer((first + 1) % apart == 0 ? apart : 1));
    json_object_set_new(config, "moe_layer_start_index",
                        json_integer(first < 0 ? (json_int_t)json_array_size(values) : first));
    json_object_set_new(config, "moe_layer_end_index", json_integer(last < 0 ? 0 : last));
}

/* Biases of attention, of dense layers, of the shared expert and of the head; other experts have none. */
static const struct qkv_family_rule biases[] = {
    {"use_bias=false", "decoder.attention.bias=false; decoder.ffn.bias=false; head.bias=false"},
    {"use_bias=null", "decoder.attention.bias=false; decoder.ffn.bias=false; head.bias=false"},
    {"use_bias=true; class='ForCausalLM'", "decoder.attention.bias=true; decoder.ffn.bias=true; head.bias=true"},
    {"use_bias=true; class='Model'", "decoder.attention.bias=true; decoder.ffn.bias=true"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {NULL, biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.correction", "=model.layers.{N}.mlp.moe_statics.e_score_correction_bias", 0, QKV_FAMILY_BUFFER, NULL},
    QKV_FAMILY_SHARED_EXPERTS,
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_layers layers = {
    NULL, kinds, kind_of, kinds_write, {"moe_layer_interval", "moe_layer_start_index", "moe_layer_end_index"}, NULL};

/* Files have tensors that predict a second token; they are not read. */
const struct qkv_family qkv_family_ernie4_5_moe = {
    .type = "ernie4_5_moe",
    .architectures = "Ernie4_5_MoeForCausalLM,Ernie4_5_MoeModel",
    .stacks = "decoder",
    .aliases = "num_experts=moe_num_experts; num_experts_per_tok=moe_k",
    .defaults =
        "vocab_size=103424; hidden_size=2560; intermediate_size=12288; num_hidden_layers=28; num_attention_heads=20; "
        "num_key_value_heads=4; head_dim=null; hidden_act='silu'; max_position_embeddings=131072; rms_norm_eps=1e-5; "
        "rope_theta=500000.0; rope_scaling=null; tie_word_embeddings=true; moe_intermediate_size=1536; moe_k=6; "
        "moe_num_experts=64; moe_num_shared_experts=2; moe_layer_start_index=1; moe_layer_end_index=-1; "
        "moe_layer_interval=1; use_bias=false",
    .needs = "moe_norm_min=1e-12; moe_use_aux_free=true; moe_gate='topk'",
    .idle = "moe_capacity num_nextn_predict_layers multi_token_pred_lambda",
    .spec = QKV_FAMILY_LLAMA_STEM QKV_FAMILY_ROPE("decoder.") QKV_FAMILY_RMSNORM
    "decoder.attention.position.pairing='interleaved'; decoder.norm.placement='pre'",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .ignored = "model.mtp_*",
    .tied = "lm_head.weight",
};
