/* The decoders of Ettin (Weller et al. 2025): ModernBERT with a causal mask, and separate queries, keys and values. */
#include "family/family_tables.h"

static const struct qkv_family_rule norms[] = {
    {"false", "decoder.norm.bias=false; decoder.embed.norm.bias=false"},
    {"true", "decoder.norm.bias=true; decoder.embed.norm.bias=true"},
    {NULL, NULL},
};

static const struct qkv_family_rule heads[] = {
    {"'ForCausalLM'", "head.kind='lm'; " QKV_FAMILY_MODERNBERT_HEAD "head.bias=$decoder_bias"},
    {"'ForSequenceClassification'", "head.kind='classify'; head.pool='last'; head.classes=$id2label:count; "
                                    "tie='none'; " QKV_FAMILY_MODERNBERT_HEAD "head.bias=$classifier_bias"},
    {"'Model'", QKV_FAMILY_BARE},
    {NULL, NULL},
};

static const struct qkv_family_rule ties[] = {
    {"class='ForCausalLM'; tie_word_embeddings=true", "tie='head'"},
    {"class='ForCausalLM'; tie_word_embeddings=false", "tie='none'"},
    {"class=!'ForCausalLM'", ""},
    {NULL, NULL},
};

static const struct qkv_family_kind kinds[] = {
    QKV_FAMILY_MODERNBERT_KINDS("half"),
    {NULL, NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_activation", qkv_family_gates},
    {"attention_bias", qkv_family_attention_biases},
    {"mlp_bias", qkv_family_ffn_biases},
    {"norm_bias", norms},
    {"class", heads},
    {NULL, ties},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.embeddings.tok_embeddings", 0, 0, NULL},
    {"embed.norm", "model.embeddings.norm", 0, 0, NULL},
    {"attn_norm", "model.layers.{N}.attn_norm", 0, 0, NULL},
    {"attn.q", "model.layers.{N}.attn.q_proj", 0, 0, NULL},
    {"attn.k", "model.layers.{N}.attn.k_proj", 0, 0, NULL},
    {"attn.v", "model.layers.{N}.attn.v_proj", 0, 0, NULL},
    {"attn.o", "model.layers.{N}.attn.Wo", 0, 0, NULL},
    {"ffn_norm", "model.layers.{N}.mlp_norm", 0, 0, NULL},
    {"ffn.gate,ffn.up", "model.layers.{N}.mlp.Wi", 0, 0, NULL},
    {"ffn.down", "model.layers.{N}.mlp.Wo", 0, 0, NULL},
    {"norm", "model.final_norm", 0, 0, NULL},
    {"head.transform", "lm_head.dense", 0, 0, "class='ForCausalLM'"},
    {"head.norm", "lm_head.norm", 0, 0, "class='ForCausalLM'"},
    {"head", "decoder", 0, 0, "class='ForCausalLM'"},
    {"head.transform", "head.dense", 0, 0, NULL},
    {"head.norm", "head.norm", 0, 0, NULL},
    {"head", "classifier", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

static const struct qkv_family_layers layers = {
    "layer_types", kinds, qkv_family_modernbert_kind, NULL, {"global_attn_every_n_layers"}, NULL};

const struct qkv_family qkv_family_modernbert_decoder = {
    .type = "modernbert-decoder",
    .architectures = "ModernBertDecoderForCausalLM,ModernBertDecoderModel,ModernBertDecoderForSequenceClassification",
    .stacks = "decoder",
    .defaults = "vocab_size=50368; hidden_size=768; intermediate_size=1152; num_hidden_layers=22; "
                "num_attention_heads=12; hidden_activation='gelu'; classifier_activation='gelu'; "
                "max_position_embeddings=8192; norm_eps=1e-5; norm_bias=false; attention_bias=false; mlp_bias=false; "
                "classifier_bias=false; decoder_bias=true; global_attn_every_n_layers=3; local_attention=128; "
                "global_rope_theta=160000.0; local_rope_theta=10000.0; tie_word_embeddings=true",
    .idle = "deterministic_flash_attn reference_compile sparse_* repad_logits_with_grad sliding_window "
            "position_embedding_type layer_norm_eps classifier_pooling causal_mask",
    .rotations = {"global_rope_theta", "local_rope_theta"},
    .scaling_of_all = true,
    .spec =
        "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; decoder.layers=$num_hidden_layers; "
        "decoder.attention.heads=$num_attention_heads; decoder.ffn.d_ff=$intermediate_size; "
        "decoder.embed.position.kind='none'; decoder.embed.norm.kind='layernorm'; decoder.embed.norm.eps=$norm_eps; "
        "decoder.norm.kind='layernorm'; decoder.norm.placement='pre'; decoder.norm.eps=$norm_eps",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .prefix = "model.",
    .tied = "decoder.weight",
};
