/* Mixtral (Jiang et al. 2024): Mistral with experts. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"ffn.router", "model.layers.{N}.block_sparse_moe.gate", 0, 0, NULL},
    {"ffn.experts.gate", "model.layers.{N}.block_sparse_moe.experts.{E}.w1", 0, 0, NULL},
    {"ffn.experts.down", "model.layers.{N}.block_sparse_moe.experts.{E}.w2", 0, 0, NULL},
    {"ffn.experts.up", "model.layers.{N}.block_sparse_moe.experts.{E}.w3", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "llama",
    .has = "blk.0.ffn_gate_inp.weight",
    .keys = QKV_FAMILY_GGUF_LLAMA "num_local_experts=$expert_count; num_experts_per_tok=$expert_used_count",
    .tensors = qkv_family_gguf_pairs,
};

const struct qkv_family qkv_family_mixtral = {
    .type = "mixtral",
    .architectures = "MixtralForCausalLM,MixtralModel,MixtralForSequenceClassification,MixtralForTokenClassification,"
                     "MixtralForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "num_experts=num_local_experts",
    .defaults =
        "vocab_size=32000; hidden_size=4096; intermediate_size=14336; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=8; head_dim=null; hidden_act='silu'; max_position_embeddings=131072; rms_norm_eps=1e-5; "
        "rope_theta=1000000.0; rope_scaling=null; tie_word_embeddings=false; sliding_window=null; "
        "num_experts_per_tok=2; num_local_experts=8",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM QKV_FAMILY_NO_BIASES
    "decoder.norm.placement='pre'; decoder.attention.window=$sliding_window:zero; "
    "decoder.ffn.experts.count=$num_local_experts; decoder.ffn.experts.top_k=$num_experts_per_tok; "
    "decoder.ffn.experts.scores='softmax'; decoder.ffn.experts.normalize=true; decoder.ffn.experts.balance_loss=0",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
