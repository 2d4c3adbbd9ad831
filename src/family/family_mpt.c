/* MPT (MosaicML 2023): ALiBi, no biases. */
#include "family/family_tables.h"

static const struct qkv_family_choice choices[] = {
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "transformer.wte", 0, 0, NULL},
    {"attn_norm", "transformer.blocks.{N}.norm_1", 0, 0, NULL},
    {"ffn_norm", "transformer.blocks.{N}.norm_2", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "transformer.blocks.{N}.attn.Wqkv", 0, 0, NULL},
    {"attn.o", "transformer.blocks.{N}.attn.out_proj", 0, 0, NULL},
    {"ffn.up", "transformer.blocks.{N}.ffn.up_proj", 0, 0, NULL},
    {"ffn.down", "transformer.blocks.{N}.ffn.down_proj", 0, 0, NULL},
    {"norm", "transformer.norm_f", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "mpt",
    .keys = QKV_FAMILY_GGUF_SIZES
    "max_seq_len=$context_length; expansion_ratio=$feed_forward_length:of_model; "
    "layer_norm_epsilon=$attention.layer_norm_epsilon; attn_config.alibi_bias_max=$attention.max_alibi_bias|8; "
    "attn_config.clip_qkv=$attention.clamp_kqv|null",
    .tensors = qkv_family_gguf_joined,
};

const struct qkv_family qkv_family_mpt = {
    .type = "mpt",
    .architectures = "MptForCausalLM,MPTForCausalLM,MptModel,MptForSequenceClassification,MptForTokenClassification,"
                     "MptForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "hidden_size=!d_model; num_hidden_layers=!n_layers; num_attention_heads=!n_heads",
    .defaults = "vocab_size=50368; d_model=2048; n_heads=16; n_layers=24; expansion_ratio=4; max_seq_len=2048; "
                "layer_norm_epsilon=1e-5; attn_config.alibi=true; attn_config.alibi_bias_max=8; "
                "attn_config.clip_qkv=null; attn_config.softmax_scale=null; tie_word_embeddings=true",
    .needs =
        "no_bias=true; attn_config.alibi=true; attn_config.qk_ln=false; attn_config.prefix_lm=false; logit_scale=null",
    .idle = "learned_pos_emb norm_type embedding_fraction init_config verbose attn_config.attn_type "
            "attn_config.attn_impl attn_config.attn_uses_sequence_id",
    .spec = QKV_FAMILY_NO_BIASES
    "vocab=$vocab_size; context=$max_seq_len; d_model=$d_model; decoder.layers=$n_layers; "
    "decoder.attention.heads=$n_heads; decoder.attention.clip=$attn_config.clip_qkv:zero; "
    "decoder.attention.scale=$attn_config.softmax_scale:rule; decoder.attention.position.kind='alibi'; "
    "decoder.attention.position.form='mpt'; decoder.attention.position.max=$attn_config.alibi_bias_max; "
    "decoder.ffn.kind='gelu'; decoder.ffn.d_ff=$expansion_ratio:expansion; decoder.embed.position.kind='none'; "
    "decoder.norm.kind='layernorm'; decoder.norm.placement='pre'; decoder.norm.bias=false; "
    "decoder.norm.eps=$layer_norm_epsilon",
    .choices = choices,
    .tensors = tensors,
    .prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
