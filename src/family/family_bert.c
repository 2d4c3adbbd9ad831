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
    {"architecture='BertForMaskedLM'; hidden_act='gelu'", "head.transform.activation='gelu'"},
    {"architecture='BertForMaskedLM'; hidden_act='gelu_new'", "head.transform.activation='gelu_tanh'"},
    {"architecture='BertForMaskedLM'; hidden_act='relu'", "head.transform.activation='relu'"},
    {"architecture='BertForMaskedLM'; hidden_act='silu'", "head.transform.activation='silu'"},
    {"architecture=!'BertForMaskedLM'", ""},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"architecture", heads},
    {NULL, transforms},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "bert.embeddings.word_embeddings", 0, 0, NULL},
    {"embed.position", "bert.embeddings.position_embeddings", 0, 0, NULL},
    {"embed.type", "bert.embeddings.token_type_embeddings", 0, 0, NULL},
    {"embed.norm", "bert.embeddings.LayerNorm", 0, 0, NULL},
    {"attn.q", "bert.encoder.layer.{N}.attention.self.query", 0, 0, NULL},
    {"attn.k", "bert.encoder.layer.{N}.attention.self.key", 0, 0, NULL},
    {"attn.v", "bert.encoder.layer.{N}.attention.self.value", 0, 0, NULL},
    {"attn.o", "bert.encoder.layer.{N}.attention.output.dense", 0, 0, NULL},
    {"attn_norm", "bert.encoder.layer.{N}.attention.output.LayerNorm", 0, 0, NULL},
    {"ffn.up", "bert.encoder.layer.{N}.intermediate.dense", 0, 0, NULL},
    {"ffn.down", "bert.encoder.layer.{N}.output.dense", 0, 0, NULL},
    {"ffn_norm", "bert.encoder.layer.{N}.output.LayerNorm", 0, 0, NULL},
    {"head.transform", "bert.pooler.dense", 0, 0, "architecture='BertForSequenceClassification'"},
    {"head.transform", "cls.predictions.transform.dense", 0, 0, NULL},
    {"head.norm", "cls.predictions.transform.LayerNorm", 0, 0, NULL},
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
    .needs =
        "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false; tie_word_embeddings=true",
    .spec = "context=$max_position_embeddings; vocab=$vocab_size; d_model=$hidden_size; "
            "encoder.layers=$num_hidden_layers; encoder.attention.heads=$num_attention_heads; "
            "encoder.attention.bias=true; encoder.ffn.d_ff=$intermediate_size; encoder.ffn.bias=true; "
            "encoder.embed.position.kind='learned'; encoder.embed.scale=1.0; encoder.embed.types=$type_vocab_size; "
            "encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=$layer_norm_eps; "
            "encoder.norm.kind='layernorm'; encoder.norm.placement='post'; encoder.norm.eps=$layer_norm_eps",
    .choices = choices,
    .tensors = tensors,
    .prefix = "bert.",
    .ignored = "*pooler.dense.* cls.seq_relationship.* cls.predictions.decoder.*",
    .tied = "cls.predictions.decoder.*",
};
