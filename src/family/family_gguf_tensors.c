/* The tensors that all families have under the same names in GGUF files (https://github.com/ggml-org/llama.cpp,
 * gguf-py), and tables that several families share. */
#include "family/family_tables.h"

const struct qkv_family_tensor qkv_family_gguf_tensors[] = {
    {"embed.token", "token_embd", 0, 0, NULL},
    {"embed.position", "position_embd", 0, 0, NULL},
    {"embed.type", "token_types", 0, 0, NULL},
    {"embed.norm", "token_embd_norm", 0, 0, NULL},
    {"attn_norm", "blk.{N}.attn_norm", 0, 0, NULL},
    {"attn_out_norm", "blk.{N}.post_attention_norm", 0, 0, NULL},
    {"ffn_norm", "blk.{N}.ffn_norm", 0, 0, NULL},
    {"ffn_out_norm", "blk.{N}.post_ffw_norm", 0, 0, NULL},
    {"attn.q", "blk.{N}.attn_q", 0, 0, NULL},
    {"attn.k", "blk.{N}.attn_k", 0, 0, NULL},
    {"attn.v", "blk.{N}.attn_v", 0, 0, NULL},
    {"attn.o", "blk.{N}.attn_output", 0, 0, NULL},
    {"attn.q_norm", "blk.{N}.attn_q_norm", 0, 0, NULL},
    {"attn.k_norm", "blk.{N}.attn_k_norm", 0, 0, NULL},
    {"attn.sinks", "blk.{N}.attn_sinks", 0, QKV_FAMILY_FLAT, NULL},
    {"attn.q_a", "blk.{N}.attn_q_a", 0, 0, NULL},
    {"attn.q_a_norm", "blk.{N}.attn_q_a_norm", 0, 0, NULL},
    {"attn.q_b", "blk.{N}.attn_q_b", 0, 0, NULL},
    {"attn.kv_a,attn.k_rope", "blk.{N}.attn_kv_a_mqa", 0, 0, NULL},
    {"attn.kv_a_norm", "blk.{N}.attn_kv_a_norm", 0, 0, NULL},
    {"ffn.gate", "blk.{N}.ffn_gate", 0, 0, NULL},
    {"ffn.up", "blk.{N}.ffn_up", 0, 0, NULL},
    {"ffn.down", "blk.{N}.ffn_down", 0, 0, NULL},
    {"ffn.router", "blk.{N}.ffn_gate_inp", 0, 0, NULL},
    {"ffn.correction", "=blk.{N}.exp_probs_b.bias", 0, QKV_FAMILY_FLAT, NULL},
    {"ffn.experts.gate", "blk.{N}.ffn_gate_exps", 0, QKV_FAMILY_STACKED, NULL},
    {"ffn.experts.up", "blk.{N}.ffn_up_exps", 0, QKV_FAMILY_STACKED, NULL},
    {"ffn.experts.down", "blk.{N}.ffn_down_exps", 0, QKV_FAMILY_STACKED, NULL},
    {"ffn.shared.gate", "blk.{N}.ffn_gate_shexp", 0, 0, NULL},
    {"ffn.shared.up", "blk.{N}.ffn_up_shexp", 0, 0, NULL},
    {"ffn.shared.down", "blk.{N}.ffn_down_shexp", 0, 0, NULL},
    {"ffn.shared_gate", "blk.{N}.ffn_gate_inp_shexp", 0, QKV_FAMILY_FLAT, NULL},
    {"norm", "output_norm", 0, 0, NULL},
    {"head", "cls.output", 0, 0, "class='ForSequenceClassification'"},
    {"head", "output", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
/* The scales of positions are keys of the config.json; layers behind a pooling are no weights of the model. */
const char qkv_family_gguf_ignored[] = "rope_freqs.weight rope_factors_long.weight rope_factors_short.weight "
                                       "*.attn_rot_embd *.rope_freqs.weight dense_2.weight dense_3.weight";

const struct qkv_family_tensor qkv_family_gguf_pairs[] = {
    {"attn.q", "blk.{N}.attn_q", QKV_FAMILY_PAIRS, 0, NULL},
    {"attn.k", "blk.{N}.attn_k", QKV_FAMILY_PAIRS, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
const struct qkv_family_tensor qkv_family_gguf_joined[] = {
    {"attn.q,attn.k,attn.v", "blk.{N}.attn_qkv", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
const struct qkv_family_tensor qkv_family_gguf_output_norms[] = {
    {"attn_norm", "blk.{N}.post_attention_norm", 0, 0, NULL},
    {"ffn_norm", "blk.{N}.post_ffw_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
const struct qkv_family_tensor qkv_family_gguf_gemma[] = {
    {"attn_norm", "blk.{N}.attn_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {"attn_out_norm", "blk.{N}.post_attention_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {"ffn_norm", "blk.{N}.ffn_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {"ffn_out_norm", "blk.{N}.post_ffw_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {"attn.q_norm", "blk.{N}.attn_q_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {"attn.k_norm", "blk.{N}.attn_k_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {"norm", "output_norm", 0, QKV_FAMILY_PLUS_ONE, NULL},
    {NULL, NULL, 0, 0, NULL},
};

/* Keys and values of latents are two tensors, apart from files of older writers. */
const struct qkv_family_tensor qkv_family_gguf_deepseek[] = {
    {"attn.k_b,attn.v_b", "blk.{N}.attn_kv_b", QKV_FAMILY_HEADS, 0, "@blk.0.attn_kv_b.weight=true"},
    {"attn.k_b", "blk.{N}.attn_k_b", 0, QKV_FAMILY_BY_HEAD | QKV_FAMILY_TRANSPOSED, NULL},
    {"attn.v_b", "blk.{N}.attn_v_b", 0, QKV_FAMILY_BY_HEAD, NULL},
    {NULL, NULL, 0, 0, NULL},
};

bool qkv_family_gguf_scale(json_t *config, int largest) {
    const json_int_t heads = json_integer_value(json_object_get(config, "num_attention_heads"));
    const json_int_t width = json_integer_value(json_object_get(config, "head_dim"));
    const json_int_t each = json_integer_value(json_object_get(config, "hidden_size")) / (heads > 0 ? heads : 1);
    const bool is = json_integer_value(json_object_get(config, "num_hidden_layers")) == largest;
    return !json_object_set_new(config, "query_pre_attn_scalar", json_integer(is || width < 1 ? each : width));
}

/* ---- T5 ---------------------------------------------------------------------------------------------------------- */

bool qkv_family_gguf_t5_finish(json_t *config) {
    const bool gate = json_is_true(json_object_get(config, "@gate"));
    json_object_del(config, "@gate");
    return !json_object_set_new(config, "feed_forward_proj", json_string(gate ? "gated-gelu" : "relu"));
}

const struct qkv_family_tensor qkv_family_gguf_t5[] = {
    {"encoder:position.buckets", "enc.blk.{N}.attn_rel_b", 0, 0, "model_type='umt5'"},
    {"encoder:position.buckets", "enc.blk.0.attn_rel_b", 0, 0, NULL},
    {"encoder:attn_norm", "enc.blk.{N}.attn_norm", 0, 0, NULL},
    {"encoder:attn.q", "enc.blk.{N}.attn_q", 0, 0, NULL},
    {"encoder:attn.k", "enc.blk.{N}.attn_k", 0, 0, NULL},
    {"encoder:attn.v", "enc.blk.{N}.attn_v", 0, 0, NULL},
    {"encoder:attn.o", "enc.blk.{N}.attn_o", 0, 0, NULL},
    {"encoder:ffn_norm", "enc.blk.{N}.ffn_norm", 0, 0, NULL},
    {"encoder:ffn.gate", "enc.blk.{N}.ffn_gate", 0, 0, NULL},
    {"encoder:ffn.up", "enc.blk.{N}.ffn_up", 0, 0, NULL},
    {"encoder:ffn.down", "enc.blk.{N}.ffn_down", 0, 0, NULL},
    {"encoder:norm", "enc.output_norm", 0, 0, NULL},
    {"decoder:position.buckets", "dec.blk.{N}.attn_rel_b", 0, 0, "model_type='umt5'"},
    {"decoder:position.buckets", "dec.blk.0.attn_rel_b", 0, 0, NULL},
    {"decoder:attn_norm", "dec.blk.{N}.attn_norm", 0, 0, NULL},
    {"decoder:attn.q", "dec.blk.{N}.attn_q", 0, 0, NULL},
    {"decoder:attn.k", "dec.blk.{N}.attn_k", 0, 0, NULL},
    {"decoder:attn.v", "dec.blk.{N}.attn_v", 0, 0, NULL},
    {"decoder:attn.o", "dec.blk.{N}.attn_o", 0, 0, NULL},
    {"decoder:cross_norm", "dec.blk.{N}.cross_attn_norm", 0, 0, NULL},
    {"decoder:cross.q", "dec.blk.{N}.cross_attn_q", 0, 0, NULL},
    {"decoder:cross.k", "dec.blk.{N}.cross_attn_k", 0, 0, NULL},
    {"decoder:cross.v", "dec.blk.{N}.cross_attn_v", 0, 0, NULL},
    {"decoder:cross.o", "dec.blk.{N}.cross_attn_o", 0, 0, NULL},
    {"decoder:ffn_norm", "dec.blk.{N}.ffn_norm", 0, 0, NULL},
    {"decoder:ffn.gate", "dec.blk.{N}.ffn_gate", 0, 0, NULL},
    {"decoder:ffn.up", "dec.blk.{N}.ffn_up", 0, 0, NULL},
    {"decoder:ffn.down", "dec.blk.{N}.ffn_down", 0, 0, NULL},
    {"decoder:norm", "dec.output_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
