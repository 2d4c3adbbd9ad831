/* MPNet (Song et al. 2020): RoBERTa with T5's biases of distances, without types. */
#include "family/family_tables.h"

static const struct qkv_family_tensor tensors[] = {
    QKV_FAMILY_BERT_EMBEDDINGS("mpnet"),
    {"position.buckets", "mpnet.encoder.relative_attention_bias", 0, 0, NULL},
    {"attn.q", "mpnet.encoder.layer.{N}.attention.attn.q", 0, 0, NULL},
    {"attn.k", "mpnet.encoder.layer.{N}.attention.attn.k", 0, 0, NULL},
    {"attn.v", "mpnet.encoder.layer.{N}.attention.attn.v", 0, 0, NULL},
    {"attn.o", "mpnet.encoder.layer.{N}.attention.attn.o", 0, 0, NULL},
    {"attn_norm", "mpnet.encoder.layer.{N}.attention.LayerNorm", 0, 0, NULL},
    {"ffn.up", "mpnet.encoder.layer.{N}.intermediate.dense", 0, 0, NULL},
    {"ffn.down", "mpnet.encoder.layer.{N}.output.dense", 0, 0, NULL},
    {"ffn_norm", "mpnet.encoder.layer.{N}.output.LayerNorm", 0, 0, NULL},
    QKV_FAMILY_ROBERTA_HEADS,
    {NULL, NULL, 0, 0, NULL},
};

/* Positions begin at 2, and there are 32 buckets, whatever config.json says. */
const struct qkv_family qkv_family_mpnet = {
    .type = "mpnet",
    .architectures = "MPNetForMaskedLM,MPNetForSequenceClassification,MPNetForTokenClassification,"
                     "MPNetForQuestionAnswering,MPNetModel",
    .stacks = "encoder",
    .defaults = "vocab_size=30527; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; hidden_act='gelu'; max_position_embeddings=512; layer_norm_eps=1e-12; "
                "tie_word_embeddings=true; pad_token_id=1",
    .needs = "pad_token_id=1; relative_attention_num_buckets=32",
    .spec = "context=$max_position_embeddings:behind_pad; encoder.embed.position.offset=2; " QKV_FAMILY_BERT_STEM
        QKV_FAMILY_EMBED_NORM "encoder.norm.placement='post'; encoder.attention.position.kind='buckets'; "
            "encoder.attention.position.buckets=32; encoder.attention.position.max_distance=128",
    .choices = qkv_family_roberta_choices,
    .tensors = tensors,
    .prefix = "mpnet.",
    .ignored = "*pooler.dense.* lm_head.decoder.* lm_head.bias",
    .kept = "mpnet.pooler.dense.*",
    .tied = "lm_head.decoder.*",
};
