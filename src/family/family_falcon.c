/* Falcon (Almazrouei et al. 2023), in its three layouts. */
#include "family/family_tables.h"

static const struct qkv_family_rule biases[] = {
    {"false", "decoder.attention.bias=false; decoder.ffn.bias=false"},
    {"true", "decoder.attention.bias=true; decoder.ffn.bias=true"},
    {NULL, NULL},
};

static const struct qkv_family_rule blocks[] = {
    {"new_decoder_architecture=true; parallel_attn=true; num_ln_in_parallel_attn=1",
     "decoder.norm.placement='parallel'"},
    {"new_decoder_architecture=true; parallel_attn=true; num_ln_in_parallel_attn=2",
     "decoder.norm.placement='parallel_two'"},
    {"new_decoder_architecture=true; parallel_attn=true; num_ln_in_parallel_attn=null",
     "decoder.norm.placement='parallel_two'"},
    {"new_decoder_architecture=false; parallel_attn=true; num_ln_in_parallel_attn=!2",
     "decoder.norm.placement='parallel'"},
    {"new_decoder_architecture=false; parallel_attn=false", "decoder.norm.placement='pre'"},
    {NULL, NULL},
};

static const struct qkv_family_rule keys[] = {
    {"new_decoder_architecture=true", "decoder.attention.kv_heads=$num_kv_heads"},
    {"new_decoder_architecture=false; multi_query=true", "decoder.attention.kv_heads=1"},
    {"new_decoder_architecture=false; multi_query=false", "decoder.attention.kv_heads=$num_attention_heads"},
    {NULL, NULL},
};

static const struct qkv_family_rule positions[] = {
    {"false", QKV_FAMILY_ROPE("decoder.")},
    {"true", "decoder.attention.position.kind='alibi'; decoder.attention.position.form='falcon'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"activation", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"bias", biases},
    {NULL, blocks},
    {NULL, keys},
    {"alibi", positions},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "transformer.word_embeddings", 0, 0, NULL},
    {"attn_norm", "transformer.h.{N}.ln_attn", 0, 0, "new_decoder_architecture=true; num_ln_in_parallel_attn=!1"},
    {"ffn_norm", "transformer.h.{N}.ln_mlp", 0, 0, "new_decoder_architecture=true; num_ln_in_parallel_attn=!1"},
    {"attn_norm", "transformer.h.{N}.input_layernorm", 0, 0, NULL},
    {"ffn_norm", "transformer.h.{N}.post_attention_layernorm", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "transformer.h.{N}.self_attention.query_key_value", QKV_FAMILY_GROUPS, 0,
     "new_decoder_architecture=true"},
    {"attn.q,attn.k,attn.v", "transformer.h.{N}.self_attention.query_key_value", QKV_FAMILY_PARTS, 0,
     "multi_query=true"},
    {"attn.q,attn.k,attn.v", "transformer.h.{N}.self_attention.query_key_value", QKV_FAMILY_HEADS, 0, NULL},
    {"attn.o", "transformer.h.{N}.self_attention.dense", 0, 0, NULL},
    {"ffn.up", "transformer.h.{N}.mlp.dense_h_to_4h", 0, 0, NULL},
    {"ffn.down", "transformer.h.{N}.mlp.dense_4h_to_h", 0, 0, NULL},
    {"norm", "transformer.ln_f", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

/* Models of 40B have a norm of each sublayer's own. */
static bool gguf_finish(json_t *config) {
    const bool two = json_is_true(json_object_get(config, "@blk.0.attn_norm_2.weight"));
    json_object_del(config, "@blk.0.attn_norm_2.weight");
    return !json_object_set_new(config, "num_ln_in_parallel_attn", json_integer(two ? 2 : 1));
}

static const struct qkv_family_tensor gguf_tensors[] = {
    {"attn.q,attn.k,attn.v", "blk.{N}.attn_qkv", 0, 0, NULL},
    {"attn_norm", "blk.{N}.attn_norm_2", 0, 0, "num_ln_in_parallel_attn=2"},
    {"ffn_norm", "blk.{N}.attn_norm", 0, 0, "num_ln_in_parallel_attn=2"},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "falcon",
    .keys = QKV_FAMILY_GGUF_SIZES QKV_FAMILY_GGUF_ROPE
    "max_position_embeddings=$context_length; ffn_hidden_size=$feed_forward_length; "
    "num_kv_heads=$attention.head_count_kv|1; new_decoder_architecture=true; parallel_attn=true; "
    "num_ln_in_parallel_attn=1; bias=?blk.0.attn_qkv.bias; layer_norm_epsilon=$attention.layer_norm_epsilon; "
    "@blk.0.attn_norm_2.weight=?blk.0.attn_norm_2.weight",
    .finish = gguf_finish,
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_falcon = {
    .type = "falcon,RefinedWeb,RefinedWebModel",
    .architectures = "FalconForCausalLM,RWForCausalLM,FalconModel,FalconForSequenceClassification,"
                     "FalconForTokenClassification,FalconForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "n_head=num_attention_heads; n_head_kv=num_kv_heads; n_layer=num_hidden_layers; n_embed=hidden_size",
    .defaults =
        "vocab_size=65024; hidden_size=4544; num_hidden_layers=32; num_attention_heads=71; num_kv_heads=null; "
        "alibi=false; new_decoder_architecture=false; multi_query=true; parallel_attn=true; bias=false; "
        "rope_theta=10000.0; rope_scaling=null; ffn_hidden_size=null; activation='gelu'; num_ln_in_parallel_attn=null; "
        "layer_norm_epsilon=1e-5; max_position_embeddings=2048; tie_word_embeddings=true",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
            "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "
            "decoder.ffn.d_ff=$ffn_hidden_size; decoder.embed.position.kind='none'; decoder.norm.kind='layernorm'; "
            "decoder.norm.eps=$layer_norm_epsilon",
    .choices = choices,
    .tensors = tensors,
    .prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
