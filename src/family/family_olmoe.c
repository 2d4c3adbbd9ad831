/* OLMoE (Muennighoff et al. 2024): experts, and a norm over all queries and one over all keys. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    {"attention_bias", qkv_family_attention_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_gguf gguf = {
    .architecture = "olmoe",
    .keys = QKV_FAMILY_GGUF_LLAMA QKV_FAMILY_GGUF_BIASES QKV_FAMILY_GGUF_EXPERTS "clip_qkv=$attention.clamp_kqv|null",
};

const struct qkv_family qkv_family_olmoe = {
    .type = "olmoe",
    .architectures = "OlmoeForCausalLM,OlmoeModel",
    .stacks = "decoder",
    .aliases = "num_local_experts=num_experts",
    .defaults =
        "vocab_size=50304; hidden_size=2048; intermediate_size=2048; num_hidden_layers=16; num_attention_heads=16; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=4096; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; clip_qkv=null; "
        "num_experts_per_tok=8; num_experts=64; norm_topk_prob=false",
    .spec = QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_RMSNORM
    "decoder.norm.placement='pre'; decoder.attention.qk_norm.kind='rmsnorm'; "
    "decoder.attention.qk_norm.eps=$rms_norm_eps; decoder.attention.qk_norm.over='width'; decoder.ffn.bias=false; "
    "decoder.attention.clip=$clip_qkv:zero; decoder.ffn.experts.count=$num_experts; "
    "decoder.ffn.experts.top_k=$num_experts_per_tok; decoder.ffn.experts.scores='softmax'; "
    "decoder.ffn.experts.normalize=$norm_topk_prob; decoder.ffn.experts.balance_loss=0",
    .choices = choices,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
