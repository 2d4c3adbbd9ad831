/* ALBERT (Lan et al. 2019): a narrow embedding, and layers that share their weights. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; head.bias=true; head.transform.width=$embedding_size; "
                      "head.transform.norm.kind='layernorm'; "
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

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations}, {"class", heads}, {NULL, transforms}, {NULL, ties}, QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    QKV_FAMILY_BERT_EMBEDDINGS("albert"),
    {"embed.project", "albert.encoder.embedding_hidden_mapping_in", 0, 0, NULL},
    {"attn.q", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.attention.query", 0, 0, NULL},
    {"attn.k", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.attention.key", 0, 0, NULL},
    {"attn.v", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.attention.value", 0, 0, NULL},
    {"attn.o", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.attention.dense", 0, 0, NULL},
    {"attn_norm", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.attention.LayerNorm", 0, 0, NULL},
    {"ffn.up", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.ffn", 0, 0, NULL},
    {"ffn.down", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.ffn_output", 0, 0, NULL},
    {"ffn_norm", "albert.encoder.albert_layer_groups.{G}.albert_layers.0.full_layer_layer_norm", 0, 0, NULL},
    {"head.transform", "albert.pooler", 0, 0, "class='ForSequenceClassification'"},
    {"head.transform", "predictions.dense", 0, 0, NULL},
    {"head.norm", "predictions.LayerNorm", 0, 0, NULL},
    QKV_FAMILY_UNTIED_TENSORS("ForMaskedLM", "predictions.decoder", "predictions.bias"),
    {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"},
    {"head", "classifier", 0, 0, "class=!'ForMaskedLM'"},
    {"head.bias", "=predictions.bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_albert = {
    .type = "albert",
    .architectures = "AlbertForMaskedLM,AlbertForPreTraining,AlbertForSequenceClassification,"
                     "AlbertForTokenClassification,AlbertForQuestionAnswering,AlbertModel",
    .classes = "ForPreTraining=ForMaskedLM",
    .stacks = "encoder",
    .defaults =
        "vocab_size=30000; hidden_size=4096; num_hidden_layers=12; num_attention_heads=64; intermediate_size=16384; "
        "hidden_act='gelu_new'; max_position_embeddings=512; type_vocab_size=2; layer_norm_eps=1e-12; "
        "tie_word_embeddings=true; embedding_size=128; num_hidden_groups=1",
    .needs = "position_embedding_type='absolute'; is_decoder=false; add_cross_attention=false; inner_group_num=1; "
             "num_hidden_groups=!0",
    .idle = "net_structure_type gap_size num_memory_blocks down_scale_factor layers_to_keep",
    .spec = QKV_FAMILY_BERT_SPEC
    "; encoder.share=$num_hidden_groups; encoder.embed.width=$embedding_size; encoder.embed.bias=true",
    .choices = choices,
    .tensors = tensors,
    .prefix = "albert.",
    .ignored = "albert.pooler.* pooler.* predictions.decoder.* predictions.bias sop_classifier.*",
    .kept = "albert.pooler.* sop_classifier.*",
    .tied = "predictions.decoder.*",
};
