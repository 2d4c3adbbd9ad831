/* RoBERTa (Liu et al. 2019), XLM-R, CamemBERT: positions from 2 on. */
#include "family/family_tables.h"

const struct qkv_family_rule qkv_family_roberta_heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.activation='gelu'; "
                      "head.transform.norm.kind='layernorm'; "
                      "head.transform.norm.eps=$layer_norm_eps"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; "
                                    "head.bias=true; head.transform.activation='tanh'; head.transform.norm=null"},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS},
    {"'ForQuestionAnswering'", QKV_FAMILY_ANSWER},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

const struct qkv_family_choice qkv_family_roberta_choices[] = {
    {"hidden_act", qkv_family_activations},
    {"class", qkv_family_roberta_heads},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    QKV_FAMILY_BERT_EMBEDDINGS("roberta"),
    QKV_FAMILY_BERT_LAYERS("roberta"),
    QKV_FAMILY_ROBERTA_HEADS,
    {NULL, NULL, 0, 0, NULL},
};

#define STEM(name)                                                                                                     \
    name "ForMaskedLM," name "ForSequenceClassification," name "ForTokenClassification," name                          \
         "ForQuestionAnswering," name "Model"

const struct qkv_family qkv_family_roberta = {
    .type = "roberta,xlm-roberta,camembert",
    .architectures = STEM("Roberta") "," STEM("XLMRoberta") "," STEM("Camembert"),
    .stacks = "encoder",
    .defaults = "vocab_size=50265; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; hidden_act='gelu'; max_position_embeddings=512; type_vocab_size=2; "
                "layer_norm_eps=1e-12; tie_word_embeddings=true; pad_token_id=1",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false",
    .idle = "directionality pooler_*",
    .spec =
        "context=$max_position_embeddings:behind_pad; "
        "encoder.embed.position.offset=$pad_token_id:next; " QKV_FAMILY_BERT_STEM QKV_FAMILY_TYPES QKV_FAMILY_EMBED_NORM
        "encoder.norm.placement='post'",
    .choices = qkv_family_roberta_choices,
    .tensors = tensors,
    .prefix = "roberta.",
    .ignored = "*pooler.dense.* lm_head.decoder.* lm_head.bias",
    .kept = "roberta.pooler.dense.*",
    .tied = "lm_head.decoder.*",
};
