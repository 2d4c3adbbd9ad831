/* GPTBigCode (Ben Allal et al. 2023): SantaCoder, StarCoder: GPT-2 with one head of keys and values for all. */
#include "family/family_tables.h"

/* transformers writes num_key_value_heads too, but never reads it. */
static const struct qkv_family_rule key_values[] = {
    {"true", "decoder.attention.kv_heads=1"},
    {"false", "decoder.attention.kv_heads=$n_head"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"scale_attn_weights", qkv_family_gpt_scales},
    {"activation_function", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"multi_query", key_values},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "transformer.wte", 0, 0, NULL},
    {"embed.position", "transformer.wpe", 0, 0, NULL},
    {"attn_norm", "transformer.h.{N}.ln_1", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "transformer.h.{N}.attn.c_attn", QKV_FAMILY_PARTS, 0, "multi_query=true"},
    {"attn.q,attn.k,attn.v", "transformer.h.{N}.attn.c_attn", QKV_FAMILY_HEADS, 0, NULL},
    {"attn.o", "transformer.h.{N}.attn.c_proj", 0, 0, NULL},
    {"ffn_norm", "transformer.h.{N}.ln_2", 0, 0, NULL},
    {"ffn.up", "transformer.h.{N}.mlp.c_fc", 0, 0, NULL},
    {"ffn.down", "transformer.h.{N}.mlp.c_proj", 0, 0, NULL},
    {"norm", "transformer.ln_f", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "starcoder",
    .keys = QKV_FAMILY_GGUF_SIZES "max_position_embeddings=$context_length; n_inner=$feed_forward_length; "
                                  "layer_norm_epsilon=$attention.layer_norm_epsilon; multi_query=true; "
                                  "num_key_value_heads=$attention.head_count_kv|1",
    .tensors = qkv_family_gguf_joined,
};

const struct qkv_family qkv_family_gpt_bigcode = {
    .type = "gpt_bigcode",
    .architectures =
        "GPTBigCodeForCausalLM,GPTBigCodeModel,GPTBigCodeForSequenceClassification,GPTBigCodeForTokenClassification",
    .stacks = "decoder",
    .aliases = "hidden_size=!n_embd; num_hidden_layers=!n_layer; num_attention_heads=!n_head; "
               "max_position_embeddings=!n_positions",
    .defaults = "vocab_size=50257; n_positions=1024; n_embd=768; n_layer=12; n_head=12; n_inner=null; "
                "activation_function='gelu_pytorch_tanh'; layer_norm_epsilon=1e-5; tie_word_embeddings=true; "
                "multi_query=true; scale_attn_weights=true",
    .needs = "add_cross_attention=false",
    .idle = "summary_* reorder_and_upcast_attn *softmax_in_fp32 inference_runner validate_runner_input "
            "pre_allocate_kv_cache num_key_value_heads pad_key_length max_batch_size n_special predict_special_tokens",
    .spec = "vocab=$vocab_size; context=$n_positions; d_model=$n_embd; decoder.layers=$n_layer; "
            "decoder.attention.heads=$n_head; decoder.attention.bias=true; decoder.ffn.d_ff=$n_inner; "
            "decoder.ffn.bias=true; decoder.norm.kind='layernorm'; decoder.norm.placement='pre'; "
            "decoder.norm.eps=$layer_norm_epsilon; decoder.embed.position.kind='learned'; decoder.embed.scale=1.0",
    .choices = choices,
    .tensors = tensors,
    .prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
