/* StarCoder 2 (Lozhkov et al. 2024). */
#include "family/family_tables.h"

static const struct qkv_family_rule biases[] = {
    {"true", "decoder.attention.bias=true; decoder.ffn.bias=true"},
    {"false", "decoder.attention.bias=false; decoder.ffn.bias=false"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"use_bias", biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.up", "model.layers.{N}.mlp.c_fc", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.mlp.c_proj", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "starcoder2",
    .keys = QKV_FAMILY_GGUF_STEM "norm_epsilon=$attention.layer_norm_epsilon; use_bias=?blk.0.attn_q.bias; "
                                 "sliding_window=$attention.sliding_window|null",
    .unwritten = "attention.sliding_window",
};

const struct qkv_family qkv_family_starcoder2 = {
    .type = "starcoder2",
    .architectures =
        "Starcoder2ForCausalLM,Starcoder2Model,Starcoder2ForSequenceClassification,Starcoder2ForTokenClassification",
    .stacks = "decoder",
    .defaults = "vocab_size=49152; hidden_size=3072; intermediate_size=12288; num_hidden_layers=30; "
                "num_attention_heads=24; num_key_value_heads=2; head_dim=null; hidden_act='gelu_pytorch_tanh'; "
                "max_position_embeddings=4096; norm_epsilon=1e-5; rope_theta=10000.0; rope_scaling=null; "
                "tie_word_embeddings=true; use_bias=true; sliding_window=null",
    .idle = "activation_function mlp_type norm_type scale_attn_weights *softmax_in_fp32",
    .spec = QKV_FAMILY_LLAMA_SPEC "decoder.norm.placement='pre'; decoder.norm.kind='layernorm'; "
                                  "decoder.norm.eps=$norm_epsilon; decoder.attention.window=$sliding_window:zero",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
