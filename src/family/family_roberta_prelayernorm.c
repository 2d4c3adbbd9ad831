/* RoBERTa with norms before sublayers, of fairseq's --encoder-normalize-before. */
#include "family/family_tables.h"

static const struct qkv_family_tensor tensors[] = {
    {"attn_norm", "roberta_prelayernorm.encoder.layer.{N}.attention.LayerNorm", 0, 0, NULL},
    {"ffn_norm", "roberta_prelayernorm.encoder.layer.{N}.intermediate.LayerNorm", 0, 0, NULL},
    {"norm", "roberta_prelayernorm.LayerNorm", 0, 0, NULL},
    QKV_FAMILY_BERT_EMBEDDINGS("roberta_prelayernorm"),
    QKV_FAMILY_BERT_LAYERS("roberta_prelayernorm"),
    QKV_FAMILY_ROBERTA_HEADS,
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_roberta_prelayernorm = {
    .type = "roberta-prelayernorm",
    .architectures = "RobertaPreLayerNormForMaskedLM,RobertaPreLayerNormForSequenceClassification,"
                     "RobertaPreLayerNormForTokenClassification,RobertaPreLayerNormForQuestionAnswering,"
                     "RobertaPreLayerNormModel",
    .stacks = "encoder",
    .defaults = "vocab_size=50265; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; hidden_act='gelu'; max_position_embeddings=512; type_vocab_size=2; "
                "layer_norm_eps=1e-12; tie_word_embeddings=true; pad_token_id=1",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false",
    .spec =
        "context=$max_position_embeddings:behind_pad; "
        "encoder.embed.position.offset=$pad_token_id:next; " QKV_FAMILY_BERT_STEM QKV_FAMILY_TYPES QKV_FAMILY_EMBED_NORM
        "encoder.norm.placement='pre'",
    .choices = qkv_family_roberta_choices,
    .tensors = tensors,
    .prefix = "roberta_prelayernorm.",
    .ignored = "*pooler.dense.* lm_head.decoder.* lm_head.bias",
    .kept = "roberta_prelayernorm.pooler.dense.*",
    .tied = "lm_head.decoder.*",
};
