/* ELECTRA (Clark et al. 2020): its generator; its discriminator, which scores each token; classifiers, and the encoder
 * alone. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.activation='gelu'; "
                      "head.transform.width=$embedding_size; head.transform.norm.kind='layernorm'; "
                      "head.transform.norm.eps=$layer_norm_eps"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; "
                                    "head.bias=true; head.transform.activation='gelu'; head.transform.norm=null"},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS},
    {"'ForQuestionAnswering'", QKV_FAMILY_ANSWER},
    {"'ForPreTraining'", "head.kind='classify_tokens'; head.classes=1; head.bias=true; head.transform.norm=null"},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule transforms[] = {
    QKV_FAMILY_BERT_TRANSFORMS("ForPreTraining", "hidden_act"),
    {NULL, NULL},
};

static const struct qkv_family_rule widths[] = {
    {"@narrow=true", "encoder.embed.width=$embedding_size; encoder.embed.bias=true"},
    {"@narrow=false", "encoder.embed.width=0; d_model=$embedding_size"},
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"class", heads},
    {NULL, transforms},
    {NULL, widths},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    QKV_FAMILY_BERT_EMBEDDINGS("electra"),
    QKV_FAMILY_BERT_LAYERS("electra"),
    {"embed.project", "electra.embeddings_project", 0, 0, NULL},
    {"head.transform", "classifier.dense", 0, 0, "class='ForSequenceClassification'"},
    {"head.transform", "discriminator_predictions.dense", 0, 0, "class='ForPreTraining'"},
    {"head.transform", "generator_predictions.dense", 0, 0, NULL},
    {"head.norm", "generator_predictions.LayerNorm", 0, 0, NULL},
    {"head.weight", "generator_lm_head", 0, 0, "class='ForMaskedLM'"},
    {"head", "classifier.out_proj", 0, 0, "class='ForSequenceClassification'"},
    {"head", "classifier", 0, 0, "class='ForTokenClassification'"},
    {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"},
    {"head", "discriminator_predictions.dense_prediction", 0, 0, "class='ForPreTraining'"},
    {"head.bias", "=generator_lm_head.bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_electra = {
    .type = "electra",
    .architectures = "ElectraForMaskedLM,ElectraForPreTraining,ElectraForSequenceClassification,"
                     "ElectraForTokenClassification,ElectraForQuestionAnswering,ElectraModel",
    .stacks = "encoder",
    .defaults =
        "vocab_size=30522; hidden_size=256; num_hidden_layers=12; num_attention_heads=4; intermediate_size=1024; "
        "hidden_act='gelu'; max_position_embeddings=512; type_vocab_size=2; layer_norm_eps=1e-12; "
        "tie_word_embeddings=true; embedding_size=128",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false",
    .idle = "summary_* directionality pooler_*",
    .spec = QKV_FAMILY_BERT_SPEC,
    .choices = choices,
    .tensors = tensors,
    .prefix = "electra.",
    .tied = "generator_lm_head.weight",
};
