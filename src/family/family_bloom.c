/* BLOOM (Scao et al. 2022): ALiBi, and a norm after the embedding. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "transformer.word_embeddings", 0, 0, NULL},
    {"embed.norm", "transformer.word_embeddings_layernorm", 0, 0, NULL},
    {"attn_norm", "transformer.h.{N}.input_layernorm", 0, 0, NULL},
    {"ffn_norm", "transformer.h.{N}.post_attention_layernorm", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "transformer.h.{N}.self_attention.query_key_value", QKV_FAMILY_HEADS, 0, NULL},
    {"attn.o", "transformer.h.{N}.self_attention.dense", 0, 0, NULL},
    {"ffn.up", "transformer.h.{N}.mlp.dense_h_to_4h", 0, 0, NULL},
    {"ffn.down", "transformer.h.{N}.mlp.dense_4h_to_h", 0, 0, NULL},
    {"norm", "transformer.ln_f", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "bloom",
    .keys = QKV_FAMILY_GGUF_SIZES "seq_length=$context_length; layer_norm_epsilon=$attention.layer_norm_epsilon",
    .idle = "feed_forward_length attention.max_alibi_bias",
    .tensors = qkv_family_gguf_joined,
};

const struct qkv_family qkv_family_bloom = {
    .type = "bloom",
    .architectures = "BloomForCausalLM,BloomModel,BloomForSequenceClassification,BloomForTokenClassification,"
                     "BloomForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "n_embed=hidden_size; num_attention_heads=n_head; num_hidden_layers=n_layer",
    .defaults = "vocab_size=250880; hidden_size=64; n_layer=2; n_head=8; layer_norm_epsilon=1e-5; seq_length=2048; "
                "tie_word_embeddings=true",
    .needs = "apply_residual_connection_post_layernorm=false",
    .idle = "attention_softmax_in_fp32 masked_softmax_fusion offset_alibi skip_bias_add skip_bias_add_qkv "
            "slow_but_exact",
    .spec = "vocab=$vocab_size; context=$seq_length; d_model=$hidden_size; decoder.layers=$n_layer; "
            "decoder.attention.heads=$n_head; decoder.attention.bias=true; decoder.attention.position.kind='alibi'; "
            "decoder.ffn.kind='gelu_tanh'; decoder.ffn.bias=true; decoder.embed.position.kind='none'; "
            "decoder.embed.norm.kind='layernorm'; decoder.embed.norm.eps=$layer_norm_epsilon; "
            "decoder.norm.kind='layernorm'; decoder.norm.placement='pre'; decoder.norm.eps=$layer_norm_epsilon",
    .choices = choices,
    .tensors = tensors,
    .prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
