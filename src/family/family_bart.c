/* BART (Lewis et al. 2019). The base model is read as the language model, whose head is its embedding. */
#include "family/family_tables.h"

/* Without ties, both stacks and the head have tables of their own. */
static const struct qkv_family_rule ties[] = {
    {"true", "tie='all'"},
    {"false", "tie='none'"},
    {NULL, NULL},
};

const struct qkv_family_choice qkv_family_bart_choices[] = {
    {"tie_word_embeddings", ties},
    {"scale_embedding", qkv_family_flags},
    {"activation_function", qkv_family_activations},
    {NULL, qkv_family_head_biases},
    QKV_FAMILY_CHOICES_END,
};

const struct qkv_family_tensor qkv_family_bart_embeddings[] = {
    {"embed.token", "model.{S}.embed_tokens", 0, 0, "tie_word_embeddings=false"},
    {"embed.token", "model.shared", 0, 0, NULL},
    {"head.weight", "lm_head", 0, 0, NULL},
    {"embed.position", "model.{S}.embed_positions", 0, 0, NULL},
    {"embed.norm", "model.{S}.layernorm_embedding", 0, 0, NULL},
    {"norm", "model.{S}.layer_norm", 0, 0, NULL},
    {"head.bias", "=final_logits_bias", 0, QKV_FAMILY_LEADING | QKV_FAMILY_BUFFER, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_bart = {
    .type = "bart",
    .architectures = "BartForConditionalGeneration,BartModel",
    .classes = "Model=ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_BART_ALIASES,
    .defaults = "encoder_layers=12; decoder_layers=12; encoder_attention_heads=16; decoder_attention_heads=16; "
                "encoder_ffn_dim=4096; decoder_ffn_dim=4096; d_model=1024; activation_function='gelu'; "
                "scale_embedding=false; tie_word_embeddings=true; vocab_size=50265; max_position_embeddings=1024",
    .idle = "add_bias_logits extra_pos_embeddings save_step",
    .spec = QKV_FAMILY_BART_SPEC
    "source_vocab=$vocab_size; "
    "context=$max_position_embeddings; *.attention.bias=true; "
    "*.embed.position.kind='learned'; *.embed.position.offset=2; *.embed.scale=$scale_embedding:scaled; "
    "*.embed.norm.kind='layernorm'; *.embed.norm.eps=1e-5; *.norm.placement='post'",
    .choices = qkv_family_bart_choices,
    .tensors = qkv_family_bart_embeddings,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = QKV_FAMILY_BART_IGNORED,
};
