/* ESM-1b and ESM-2 (Rives et al. 2021; Lin et al. 2022), language models of proteins: RoBERTa with norms before
 * sublayers, positions that are learned or rotations, and an embedding that is scaled by the share of masks. */
#include "family/family_tables.h"

static const struct qkv_family_rule positions[] = {
    {"'rotary'", "context=$max_position_embeddings; encoder.embed.position.kind='none'; "
                 "encoder.attention.position.kind='rope'; encoder.attention.position.theta=$rope_theta"},
    {"'absolute'", "context=$max_position_embeddings:behind_pad; encoder.embed.position.kind='learned'; "
                   "encoder.embed.position.offset=$pad_token_id:next; encoder.attention.position.kind='none'"},
    {NULL, NULL},
};

/* The share is always 0.12, the default. */
static const struct qkv_family_rule masks[] = {
    {"token_dropout=false", "encoder.embed.masked=null"},
    {"token_dropout=null", "encoder.embed.masked=null"},
    {"token_dropout=true; mask_token_id=!null", "encoder.embed.masked.token=$mask_token_id"},
    {NULL, NULL},
};

static const struct qkv_family_rule norms[] = {
    {"null", "encoder.embed.norm=null"},
    {"false", "encoder.embed.norm=null"},
    {"true", "encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=$layer_norm_eps"},
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

static const struct qkv_family_choice choices[] = {
    {"position_embedding_type", positions}, {NULL, masks}, {"emb_layer_norm_before", norms},
    {"class", qkv_family_roberta_heads},    {NULL, ties},  QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.norm", "esm.embeddings.layer_norm", 0, 0, NULL},
    {"attn_norm", "esm.encoder.layer.{N}.attention.LayerNorm", 0, 0, NULL},
    {"ffn_norm", "esm.encoder.layer.{N}.LayerNorm", 0, 0, NULL},
    {"norm", "esm.encoder.emb_layer_norm_after", 0, 0, NULL},
    QKV_FAMILY_BERT_EMBEDDINGS("esm"),
    QKV_FAMILY_BERT_LAYERS("esm"),
    QKV_FAMILY_ROBERTA_HEADS,
    {NULL, NULL, 0, 0, NULL},
};

/* The activation is the exact GELU, whatever hidden_act says. The head of contacts, which reads the weights of
 * attention, is not read. Published files of ESM-2, whose positions are rotations, have learned positions, too, that
 * nothing uses. */
const struct qkv_family qkv_family_esm = {
    .type = "esm",
    .architectures = "EsmForMaskedLM,EsmForSequenceClassification,EsmForTokenClassification,EsmModel",
    .stacks = "encoder",
    .defaults = "vocab_size=33; hidden_size=768; num_hidden_layers=12; num_attention_heads=12; "
                "intermediate_size=3072; max_position_embeddings=1026; layer_norm_eps=1e-12; "
                "tie_word_embeddings=true; pad_token_id=1; mask_token_id=null; position_embedding_type='absolute'; "
                "emb_layer_norm_before=null; token_dropout=false; rope_theta=10000.0",
    .needs = "is_decoder=false; add_cross_attention=false; is_folding_model=false",
    .idle = "hidden_act esmfold_config vocab_list pooler_*",
    .spec = QKV_FAMILY_ENCODER_SIZES QKV_FAMILY_BIASES "encoder.ffn.kind='gelu'; encoder.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .prefix = "esm.",
    .ignored = "*pooler.dense.* *contact_head.* *rotary_embeddings.inv_freq lm_head.decoder.* lm_head.bias "
               "esm.embeddings.position_embeddings.weight",
    .kept = "esm.pooler.dense.* esm.contact_head.* esm.encoder.layer.*.rotary_embeddings.inv_freq",
    .tied = "lm_head.decoder.*",
};
