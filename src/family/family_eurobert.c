/* EuroBERT (Boizard et al. 2025): LLaMA without a causal mask. */
#include "family/family_tables.h"

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; head.bias=$mlp_bias; head.transform=null"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.classes=$id2label:count; head.bias=true; tie='none'; "
                                    "head.transform.activation='gelu'; head.transform.norm=null"},
    {"'ForTokenClassification'", QKV_FAMILY_CLASSIFY_TOKENS "; tie='none'"},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

/* "late" pools scores: as these are linear, it is to pool what the layer before them gives. */
static const struct qkv_family_rule pools[] = {
    {"class='ForSequenceClassification'; classifier_pooling='bos'",
     "head.pool='first'; head.transform.each_position=false"},
    {"class='ForSequenceClassification'; classifier_pooling='mean'",
     "head.pool='mean'; head.transform.each_position=false"},
    {"class='ForSequenceClassification'; classifier_pooling='late'",
     "head.pool='mean'; head.transform.each_position=true"},
    {"class=!'ForSequenceClassification'", ""},
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    {"class='ForMaskedLM'; tie_word_embeddings=true", "tie='head'"},
    {"class='ForMaskedLM'; tie_word_embeddings=false", "tie='none'"},
    {"class=!'ForMaskedLM'", ""},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},
    {"class", heads},
    {NULL, pools},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"head.transform", "dense", 0, 0, "class='ForSequenceClassification'"},
    {"head", "classifier", 0, 0, "class=!'ForMaskedLM'"},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_eurobert = {
    .type = "eurobert",
    .architectures = "EuroBertForMaskedLM,EuroBertModel,EuroBertForSequenceClassification,"
                     "EuroBertForTokenClassification",
    .stacks = "encoder",
    .defaults =
        "vocab_size=128256; hidden_size=768; intermediate_size=3072; num_hidden_layers=12; num_attention_heads=12; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=8192; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; attention_bias=false; mlp_bias=false; "
        "classifier_pooling='late'",
    .idle = "mask_token clf_pooling",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "
            "encoder.layers=$num_hidden_layers; encoder.attention.heads=$num_attention_heads; "
            "encoder.attention.kv_heads=$num_key_value_heads; encoder.attention.head_dim=$head_dim; "
            "encoder.ffn.d_ff=$intermediate_size; encoder.embed.position.kind='none'; " QKV_FAMILY_ROPE(
                "encoder.") "encoder.norm.kind='rmsnorm'; encoder.norm.eps=$rms_norm_eps; "
                            "encoder.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .tied = "lm_head.weight",
};
