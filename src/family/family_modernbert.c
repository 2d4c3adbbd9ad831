/* ModernBERT (Warner et al. 2024): rotations, windows, gates; the first layer has no norm before its attention. */
#include "family/family_tables.h"

static const struct qkv_family_rule norms[] = {
    {"false", "encoder.norm.bias=false; encoder.embed.norm.bias=false"},
    {"true", "encoder.norm.bias=true; encoder.embed.norm.bias=true"},
    {NULL, NULL},
};

static const struct qkv_family_rule heads[] = {
    {"'ForMaskedLM'", "head.kind='lm'; tie='head'; " QKV_FAMILY_MODERNBERT_HEAD "head.bias=$decoder_bias"},
    {"'ForSequenceClassification'",
     "head.kind='classify'; head.classes=$id2label:count; " QKV_FAMILY_MODERNBERT_HEAD "head.bias=true"},
    {"'ForTokenClassification'",
     "head.kind='classify_tokens'; head.classes=$id2label:count; " QKV_FAMILY_MODERNBERT_HEAD "head.bias=true"},
    {"'ForQuestionAnswering'",
     "head.kind='classify_tokens'; head.classes=2; " QKV_FAMILY_MODERNBERT_HEAD "head.bias=true"},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule pools[] = {
    {"class='ForSequenceClassification'; classifier_pooling='cls'", "head.pool='first'"},
    {"class='ForSequenceClassification'; classifier_pooling='mean'", "head.pool='mean'"},
    {"class=!'ForSequenceClassification'", ""},
    {NULL, NULL},
};

static const struct qkv_family_kind kinds[] = {
    QKV_FAMILY_MODERNBERT_KINDS("sides"),
    {NULL, NULL, NULL},
};

int qkv_family_modernbert_kind(const json_t *config, int layer, int listed) {
    const json_int_t every = json_integer_value(json_object_get(config, "global_attn_every_n_layers"));
    const int kind = listed >= 0 ? listed : every > 0 && layer % every != 0;
    return layer == 0 ? kind + 2 : kind;
}

static const struct qkv_family_rule ties[] = {
    QKV_FAMILY_UNTIED("ForMaskedLM"),
    QKV_FAMILY_UNTIED_END,
};

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", qkv_family_gates},
    {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},
    {"norm_bias", norms},
    {"class", heads},
    {NULL, pools},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.embeddings.tok_embeddings", 0, 0, NULL},
    {"embed.norm", "model.embeddings.norm", 0, 0, NULL},
    {"attn_norm", "model.layers.{N}.attn_norm", 0, 0, NULL},
    {"attn.q,attn.k,attn.v", "model.layers.{N}.attn.Wqkv", 0, 0, NULL},
    {"attn.o", "model.layers.{N}.attn.Wo", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.mlp_norm", 0, 0, NULL},
    {"ffn.gate,ffn.up", "model.layers.{N}.mlp.Wi", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.mlp.Wo", 0, 0, NULL},
    {"norm", "model.final_norm", 0, 0, NULL},
    {"head.transform", "head.dense", 0, 0, NULL},
    {"head.norm", "head.norm", 0, 0, NULL},
    {"head.weight", "decoder", 0, 0, "class='ForMaskedLM'"},
    {"head", "classifier", 0, 0, "class=!'ForMaskedLM'"},
    {"head.bias", "=decoder.bias", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_layers layers = {
    "layer_types", kinds, qkv_family_modernbert_kind, NULL, {"global_attn_every_n_layers"}, NULL};

static bool gguf_finish(json_t *config) {
    if (json_integer_value(json_object_get(config, "local_attention")) > 0) return true;
    return !json_object_set_new(config, "global_attn_every_n_layers", json_integer(1)); /* no layer has a window */
}

static const struct qkv_family_tensor gguf_tensors[] = {
    {"attn.q,attn.k,attn.v", "blk.{N}.attn_qkv", 0, 0, NULL},
    {"ffn.gate,ffn.up", "blk.{N}.ffn_up", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_gguf gguf = {
    .architecture = "modern-bert",
    .class = "Model",
    .keys = "vocab_size=#token_embd.weight; hidden_size=$embedding_length; num_hidden_layers=$block_count; "
            "num_attention_heads=$attention.head_count; intermediate_size=$feed_forward_length; "
            "max_position_embeddings=$context_length; hidden_activation=$hidden_activation|'gelu'; "
            "norm_eps=$attention.layer_norm_epsilon|$attention.layer_norm_rms_epsilon; "
            "norm_bias=false; attention_bias=false; mlp_bias=false; "
            "global_rope_theta=$rope.freq_base|160000.0; local_rope_theta=$rope.freq_base_swa|10000.0; "
            "rope_scaling=@scaling; local_attention=$attention.sliding_window|0; "
            "global_attn_every_n_layers=$attention.sliding_window_pattern|3",
    .finish = gguf_finish,
    .tensors = gguf_tensors,
};

const struct qkv_family qkv_family_modernbert = {
    .type = "modernbert",
    .architectures = "ModernBertForMaskedLM,ModernBertForSequenceClassification,ModernBertForTokenClassification,"
                     "ModernBertForQuestionAnswering,ModernBertModel",
    .stacks = "encoder",
    .defaults = "vocab_size=50368; hidden_size=768; intermediate_size=1152; num_hidden_layers=22; "
                "num_attention_heads=12; hidden_activation='gelu'; classifier_activation='gelu'; "
                "max_position_embeddings=8192; norm_eps=1e-5; norm_bias=false; attention_bias=false; mlp_bias=false; "
                "classifier_bias=false; decoder_bias=true; global_attn_every_n_layers=3; local_attention=128; "
                "global_rope_theta=160000.0; local_rope_theta=10000.0; tie_word_embeddings=true; "
                "classifier_pooling='cls'",
    .idle = "deterministic_flash_attn reference_compile sparse_* repad_logits_with_grad"
            "position_embedding_type layer_norm_eps",
    .rotations = {"global_rope_theta", "local_rope_theta"},
    .scaling_of_all = true,
    .spec =
        "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; encoder.layers=$num_hidden_layers; "
        "encoder.attention.heads=$num_attention_heads; encoder.ffn.d_ff=$intermediate_size; "
        "encoder.embed.position.kind='none'; encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=$norm_eps; "
        "encoder.norm.kind='layernorm'; encoder.norm.placement='pre'; encoder.norm.eps=$norm_eps",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .prefix = "model.",
    .tied = "decoder.weight",
    .gguf = &gguf,
};
