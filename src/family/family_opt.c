/* OPT (Zhang et al. 2022): positions from 2 on; the 350m has norms after sublayers and a narrow embedding. */
#include "family/family_tables.h"

static const struct qkv_family_rule norms[] = {
    {"do_layer_norm_before=true; _remove_final_layer_norm=false",
     "decoder.norm.placement='pre'; decoder.norm.final=true"},
    {"do_layer_norm_before=true; _remove_final_layer_norm=true",
     "decoder.norm.placement='pre'; decoder.norm.final=false"},
    {"do_layer_norm_before=false", "decoder.norm.placement='post'; decoder.norm.final=false"},
    {NULL, NULL},
};

static const struct qkv_family_rule biases[] = {
    {"true", "decoder.attention.bias=true; decoder.ffn.bias=true"},
    {"false", "decoder.attention.bias=false; decoder.ffn.bias=false"},
    {NULL, NULL},
};

static const struct qkv_family_rule affine[] = {
    {"true", "decoder.norm.weight=true; decoder.norm.bias=true"},
    {"false", "decoder.norm.weight=false; decoder.norm.bias=false"},
    {NULL, NULL},
};

static const struct qkv_family_rule widths[] = {
    {"@narrow=true",
     "decoder.embed.width=$word_embed_proj_dim; decoder.embed.project='token'; decoder.embed.bias=false; "
     "head.transform.width=$word_embed_proj_dim; head.transform.activation='none'; head.transform.bias=false"},
    {"@narrow=false", "decoder.embed.width=0; head.transform=null; d_model=$word_embed_proj_dim"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"enable_bias", biases},
    {"layer_norm_elementwise_affine", affine},
    {NULL, norms},
    {NULL, widths},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.decoder.embed_tokens", 0, 0, NULL},
    {"embed.position", "model.decoder.embed_positions", 0, 0, NULL},
    {"embed.project", "model.decoder.project_in", 0, 0, NULL},
    {"head.transform", "model.decoder.project_out", 0, 0, NULL},
    {"attn_norm", "model.decoder.layers.{N}.self_attn_layer_norm", 0, 0, NULL},
    {"ffn_norm", "model.decoder.layers.{N}.final_layer_norm", 0, 0, NULL},
    {"attn.q", "model.decoder.layers.{N}.self_attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.decoder.layers.{N}.self_attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.decoder.layers.{N}.self_attn.v_proj", 0, 0, NULL},
    {"attn.o", "model.decoder.layers.{N}.self_attn.out_proj", 0, 0, NULL},
    {"ffn.up", "model.decoder.layers.{N}.fc1", 0, 0, NULL},
    {"ffn.down", "model.decoder.layers.{N}.fc2", 0, 0, NULL},
    {"norm", "model.decoder.final_layer_norm", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("score", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_opt = {
    .type = "opt",
    .architectures = "OPTForCausalLM,OPTModel,OPTForSequenceClassification,OPTForQuestionAnswering",
    .stacks = "decoder",
    .defaults = "vocab_size=50272; hidden_size=768; num_hidden_layers=12; ffn_dim=3072; max_position_embeddings=2048; "
                "do_layer_norm_before=true; _remove_final_layer_norm=false; num_attention_heads=12; "
                "activation_function='relu'; tie_word_embeddings=true; enable_bias=true; word_embed_proj_dim=null; "
                "layer_norm_elementwise_affine=true",
    .spec =
        "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
        "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; decoder.ffn.d_ff=$ffn_dim; "
        "decoder.embed.position.kind='learned'; decoder.embed.position.offset=2; decoder.embed.scale=1.0; "
        "decoder.norm.kind='layernorm'; decoder.norm.eps=1e-5",
    .choices = choices,
    .tensors = tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
