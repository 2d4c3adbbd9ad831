/* BERT (Devlin et al. 2018): masked language models, classifiers of texts and of tokens, and the encoder alone. */
#include "family/family.h"

static const struct qkv_family_rule heads[] = {
    {"'BertForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.norm.kind='layernorm'; "
                          "head.transform.norm.eps=$layer_norm_eps"},
    {"'BertForSequenceClassification'", "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; "
                                        "head.bias=true; head.transform.activation='tanh'; head.transform.norm=null"},
    {"'BertForTokenClassification'",
     "head.kind='classify_tokens'; head.classes=$id2label:count; head.bias=true; head.transform=null"},
    {"'BertModel'", "head.kind='none'; tie='none'"},
    {NULL, NULL},
};

static const struct qkv_family_rule transforms[] = {
    QKV_FAMILY_BERT_TRANSFORMS("BertForMaskedLM", "hidden_act"),
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("BertForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"architecture", heads},
    {NULL, transforms},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    QKV_FAMILY_BERT_EMBEDDINGS("bert"),
    QKV_FAMILY_BERT_LAYERS("bert"),
    {"head.transform", "bert.pooler.dense", 0, 0, "architecture='BertForSequenceClassification'"},
    {"head.transform", "cls.predictions.transform.dense", 0, 0, NULL},
    {"head.norm", "cls.predictions.transform.LayerNorm", 0, 0, NULL},
    QKV_FAMILY_UNTIED_TENSORS("BertForMaskedLM", "cls.predictions.decoder", "cls.predictions.bias"),
    {"head", "classifier", 0, 0, "architecture=!'BertForMaskedLM'"},
    {"head.bias", "=cls.predictions.bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_bert = {
    .type = "bert",
    .architectures = "BertForMaskedLM,BertForSequenceClassification,BertForTokenClassification,BertModel",
    .stacks = "encoder",
    .defaults = "vocab_size=30522; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; hidden_act='gelu'; max_position_embeddings=512; type_vocab_size=2; "
                "layer_norm_eps=1e-12; tie_word_embeddings=true; id2label={'0':'LABEL_0','1':'LABEL_1'}",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false",
    .idle = "directionality pooler_*",
    .spec = QKV_FAMILY_BERT_SPEC,
    .choices = choices,
    .tensors = tensors,
    .prefix = "bert.",
    .ignored = "*pooler.dense.* cls.seq_relationship.* cls.predictions.decoder.* cls.predictions.bias",
    .tied = "cls.predictions.decoder.*",
};
