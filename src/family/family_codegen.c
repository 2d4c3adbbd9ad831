/* CodeGen (Nijkamp et al. 2022): GPT-J with joined queries, values and keys, in four shards. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "transformer.wte", 0, 0, NULL},
    {"attn_norm", "transformer.h.{N}.ln_1", 0, 0, NULL},
    {"attn.q,attn.v,attn.k", "transformer.h.{N}.attn.qkv_proj", QKV_FAMILY_SHARDS, 0, NULL},
    {"attn.o", "transformer.h.{N}.attn.out_proj", 0, 0, NULL},
    {"ffn.up", "transformer.h.{N}.mlp.fc_in", 0, 0, NULL},
    {"ffn.down", "transformer.h.{N}.mlp.fc_out", 0, 0, NULL},
    {"norm", "transformer.ln_f", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("score", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_codegen = {
    .type = "codegen",
    .architectures = "CodeGenForCausalLM,CodeGenModel",
    .stacks = "decoder",
    .aliases = "max_position_embeddings=!n_positions; hidden_size=!n_embd; num_hidden_layers=!n_layer; "
               "num_attention_heads=!n_head; n_ctx=n_positions",
    .defaults = "vocab_size=50400; n_positions=2048; n_embd=4096; n_layer=28; n_head=16; rotary_dim=64; n_inner=null; "
                "activation_function='gelu_new'; layer_norm_epsilon=1e-5; tie_word_embeddings=false",
    .needs = "rotary_dim=!null",
    .idle = "summary_* rotary scale_attn_weights n_special predict_special_tokens",
    .spec = QKV_FAMILY_GPTJ_SPEC "; d_model=$n_embd:quarters",
    .choices = choices,
    .tensors = tensors,
    .prefix = "transformer.",
    .ignored = "*.attn.causal_mask",
    .tied = "lm_head.weight",
};
