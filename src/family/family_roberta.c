/* RoBERTa (Liu et al. 2019), XLM-R, CamemBERT: positions from 2 on. */
#include "family/family.h"

static const struct qkv_family_rule heads[] = {
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

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"class", heads},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "roberta.embeddings.word_embeddings", 0, 0, NULL},
    {"embed.position", "roberta.embeddings.position_embeddings", 0, 0, NULL},
    {"embed.type", "roberta.embeddings.token_type_embeddings", 0, 0, NULL},
    {"embed.norm", "roberta.embeddings.LayerNorm", 0, 0, NULL},
    {"attn.q", "roberta.encoder.layer.{N}.attention.self.query", 0, 0, NULL},
    {"attn.k", "roberta.encoder.layer.{N}.attention.self.key", 0, 0, NULL},
    {"attn.v", "roberta.encoder.layer.{N}.attention.self.value", 0, 0, NULL},
    {"attn.o", "roberta.encoder.layer.{N}.attention.output.dense", 0, 0, NULL},
    {"attn_norm", "roberta.encoder.layer.{N}.attention.output.LayerNorm", 0, 0, NULL},
    {"ffn.up", "roberta.encoder.layer.{N}.intermediate.dense", 0, 0, NULL},
    {"ffn.down", "roberta.encoder.layer.{N}.output.dense", 0, 0, NULL},
    {"ffn_norm", "roberta.encoder.layer.{N}.output.LayerNorm", 0, 0, NULL},
    {"head.transform", "classifier.dense", 0, 0, "class='ForSequenceClassification'"},
    {"head.transform", "lm_head.dense", 0, 0, NULL},
    {"head.norm", "lm_head.layer_norm", 0, 0, NULL},
    QKV_FAMILY_UNTIED_TENSORS("ForMaskedLM", "lm_head.decoder", "lm_head.bias"),
    {"head", "classifier.out_proj", 0, 0, "class='ForSequenceClassification'"},
    {"head", "classifier", 0, 0, "class='ForTokenClassification'"},
    {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"},
    {"head.bias", "=lm_head.bias", 0, 0, NULL},
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
        "context=$max_position_embeddings:behind_pad; encoder.embed.position.offset=$pad_token_id:next; "
        "vocab=$vocab_size; "
        "d_model=$hidden_size; encoder.layers=$num_hidden_layers; encoder.attention.heads=$num_attention_heads; "
        "encoder.attention.bias=true; encoder.ffn.d_ff=$intermediate_size; encoder.ffn.bias=true; "
        "encoder.embed.position.kind='learned'; encoder.embed.scale=1.0; encoder.embed.types=$type_vocab_size:types; "
        "encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=$layer_norm_eps; "
        "encoder.norm.kind='layernorm'; encoder.norm.placement='post'; encoder.norm.eps=$layer_norm_eps",
    .choices = choices,
    .tensors = tensors,
    .prefix = "roberta.",
    .ignored = "*pooler.dense.* lm_head.decoder.* lm_head.bias",
    .kept = "roberta.pooler.dense.*",
    .tied = "lm_head.decoder.*",
};
