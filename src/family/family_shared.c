/* Tables that families share. */
#include "family/family.h"

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
    {"'gelu'", "*.ffn.kind='geglu'"},
    {"'relu'", "*.ffn.kind='reglu'"},
    {"'relu2'", "*.ffn.kind='relu2_glu'"},
    {"'quick_gelu'", "*.ffn.kind='quick_geglu'"},
    {NULL, NULL},
};

const struct qkv_family_rule qkv_family_ties[] = {
    {"true", "tie='head'"},
    {"false", "tie='none'"},
    {NULL, NULL},
};

/* Biases of all attention matrices, as LLaMA's attention_bias says it, and of the feed-forward. */
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
    {"norm", "model.norm", 0, 0, NULL},
    {"head", "lm_head", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
