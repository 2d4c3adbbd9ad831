/* Megatron-BERT (Shoeybi et al. 2019): BERT with norms before sublayers, and none after the embedding. */
#include "family/family_tables.h"

static const struct qkv_family_tensor tensors[] = {
    {"attn_norm", "bert.encoder.layer.{N}.attention.ln", 0, 0, NULL},
    {"ffn_norm", "bert.encoder.layer.{N}.ln", 0, 0, NULL},
    {"norm", "bert.encoder.ln", 0, 0, NULL},
    QKV_FAMILY_BERT_EMBEDDINGS("bert"),
    QKV_FAMILY_BERT_LAYERS("bert"),
    QKV_FAMILY_BERT_HEADS,
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_megatron_bert = {
    .type = "megatron-bert",
    .architectures = "MegatronBertForMaskedLM,MegatronBertForPreTraining,MegatronBertForSequenceClassification,"
                     "MegatronBertForTokenClassification,MegatronBertForQuestionAnswering,MegatronBertModel",
    .classes = "ForPreTraining=ForMaskedLM",
    .stacks = "encoder",
    .defaults = "vocab_size=29056; hidden_size=1024; num_hidden_layers=24; num_attention_heads=16; "
                "intermediate_size=4096; hidden_act='gelu'; max_position_embeddings=512; type_vocab_size=2; "
                "layer_norm_eps=1e-12; tie_word_embeddings=true",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false",
    .spec = "context=$max_position_embeddings; " QKV_FAMILY_BERT_STEM QKV_FAMILY_TYPES "encoder.norm.placement='pre'",
    .choices = qkv_family_bert_choices,
    .tensors = tensors,
    .prefix = "bert.",
    .ignored = "*pooler.dense.* cls.seq_relationship.* cls.predictions.decoder.* cls.predictions.bias",
    .kept = "bert.pooler.dense.* cls.seq_relationship.*",
    .tied = "cls.predictions.decoder.*",
};
