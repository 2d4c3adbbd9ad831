/* DistilBERT (Sanh et al. 2019): BERT without types of tokens. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.norm.kind='layernorm'; "
                      "head.transform.norm.eps=1e-12"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; "
                                    "head.bias=true; head.transform.activation='relu'; head.transform.norm=null"},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS},
    {"'ForQuestionAnswering'", QKV_FAMILY_ANSWER},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule transforms[] = {
    QKV_FAMILY_BERT_TRANSFORMS("ForMaskedLM", "activation"),
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

static const struct qkv_family_choice choices[] = {
    {"activation", qkv_family_activations}, {"class", heads}, {NULL, transforms}, {NULL, ties}, QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "distilbert.embeddings.word_embeddings", 0, 0, NULL},
    {"embed.position", "distilbert.embeddings.position_embeddings", 0, 0, NULL},
    {"embed.norm", "distilbert.embeddings.LayerNorm", 0, 0, NULL},
    {"attn.q", "distilbert.transformer.layer.{N}.attention.q_lin", 0, 0, NULL},
    {"attn.k", "distilbert.transformer.layer.{N}.attention.k_lin", 0, 0, NULL},
    {"attn.v", "distilbert.transformer.layer.{N}.attention.v_lin", 0, 0, NULL},
    {"attn.o", "distilbert.transformer.layer.{N}.attention.out_lin", 0, 0, NULL},
    {"attn_norm", "distilbert.transformer.layer.{N}.sa_layer_norm", 0, 0, NULL},
    {"ffn.up", "distilbert.transformer.layer.{N}.ffn.lin1", 0, 0, NULL},
    {"ffn.down", "distilbert.transformer.layer.{N}.ffn.lin2", 0, 0, NULL},
    {"ffn_norm", "distilbert.transformer.layer.{N}.output_layer_norm", 0, 0, NULL},
    {"head.transform", "pre_classifier", 0, 0, "class='ForSequenceClassification'"},
    {"head.transform", "vocab_transform", 0, 0, NULL},
    {"head.norm", "vocab_layer_norm", 0, 0, NULL},
    {"head.weight", "vocab_projector", 0, 0, "class='ForMaskedLM'"},
    {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"},
    {"head", "classifier", 0, 0, "class=!'ForMaskedLM'"},
    {"head.bias", "=vocab_projector.bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_distilbert = {
    .type = "distilbert",
    .architectures = "DistilBertForMaskedLM,DistilBertForSequenceClassification,DistilBertForTokenClassification,"
                     "DistilBertForQuestionAnswering,DistilBertModel",
    .stacks = "encoder",
    .aliases = "hidden_size=!dim; num_hidden_layers=!n_layers; num_attention_heads=!n_heads",
    .defaults = "vocab_size=30522; dim=768; n_layers=6; n_heads=12; hidden_dim=3072; activation='gelu'; "
                "max_position_embeddings=512; tie_word_embeddings=true",
    .idle = "sinusoidal_pos_embds tie_weights_",
    .spec = "context=$max_position_embeddings; vocab=$vocab_size; d_model=$dim; encoder.layers=$n_layers; "
            "encoder.attention.heads=$n_heads; encoder.attention.bias=true; encoder.ffn.d_ff=$hidden_dim; "
            "encoder.ffn.bias=true; encoder.embed.position.kind='learned'; encoder.embed.scale=1.0; "
            "encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=1e-12; encoder.norm.kind='layernorm'; "
            "encoder.norm.placement='post'; encoder.norm.eps=1e-12",
    .choices = choices,
    .tensors = tensors,
    .prefix = "distilbert.",
    .tied = "vocab_projector.weight",
};
