/* BERT (Devlin et al. 2018): masked language models, classifiers of texts and of tokens, and the encoder alone. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.norm.kind='layernorm'; "
                      "head.transform.norm.eps=$layer_norm_eps"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; "
                                    "head.bias=true; head.transform.activation='tanh'; head.transform.norm=null"},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS},
    {"'ForQuestionAnswering'", QKV_FAMILY_ANSWER},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule transforms[] = {
    QKV_FAMILY_BERT_TRANSFORMS("ForMaskedLM", "hidden_act"),
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

const struct qkv_family_choice qkv_family_bert_choices[] = {
    {"hidden_act", qkv_family_activations}, {"class", heads}, {NULL, transforms}, {NULL, ties}, QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    QKV_FAMILY_BERT_EMBEDDINGS("bert"),
    QKV_FAMILY_BERT_LAYERS("bert"),
    QKV_FAMILY_BERT_HEADS,
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_tensor gguf_tensors[] = {
    {"attn_norm", "blk.{N}.attn_output_norm", 0, 0, NULL},
    {"ffn_norm", "blk.{N}.layer_output_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "bert",
    .class = "Model",
    .keys = "vocab_size=#token_embd.weight; hidden_size=$embedding_length; num_hidden_layers=$block_count; "
            "num_attention_heads=$attention.head_count; intermediate_size=$feed_forward_length; "
            "max_position_embeddings=#position_embd.weight; type_vocab_size=#token_types.weight; "
            "layer_norm_eps=$attention.layer_norm_epsilon",
    .idle = "context_length",
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_bert = {
    .type = "bert",
    .architectures = "BertForMaskedLM,BertForPreTraining,BertForSequenceClassification,"
                     "BertForTokenClassification,BertForQuestionAnswering,BertModel",
    .classes = "ForPreTraining=ForMaskedLM",
    .stacks = "encoder",
    .defaults = "vocab_size=30522; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; hidden_act='gelu'; max_position_embeddings=512; type_vocab_size=2; "
                "layer_norm_eps=1e-12; tie_word_embeddings=true",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false",
    .idle = "directionality pooler_*",
    .spec = QKV_FAMILY_BERT_SPEC,
    .choices = qkv_family_bert_choices,
    .tensors = tensors,
    .prefix = "bert.",
    .ignored = "*pooler.dense.* cls.seq_relationship.* cls.predictions.decoder.* cls.predictions.bias",
    .kept = "bert.pooler.dense.* cls.seq_relationship.*",
    .tied = "cls.predictions.decoder.*",
    .gguf = &gguf,
};
