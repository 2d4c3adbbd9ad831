/* MarianMT (Junczys-Dowmunt et al. 2018), the OPUS models: sinusoids, norms after sublayers. */
#include "family/family_tables.h"

/* Each stack may have a table of its own, and the head may share the decoder's or have its own. */
static const struct qkv_family_rule ties[] = {
    {"share_encoder_decoder_embeddings=true; tie_word_embeddings=true", "tie='all'"},
    {"share_encoder_decoder_embeddings=false; tie_word_embeddings=true", "tie='head'"},
    {"tie_word_embeddings=false", "tie='none'"},
    {NULL, NULL},
};

static const struct qkv_family_rule vocabularies[] = {
    {"decoder_vocab_size=!null", "vocab=$decoder_vocab_size"},
    {"decoder_vocab_size=null", "vocab=$vocab_size"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {NULL, ties},
    {NULL, vocabularies},
    {"scale_embedding", qkv_family_flags},
    {"activation_function", qkv_family_activations},
    {NULL, qkv_family_head_biases},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.shared", 0, 0, "share_encoder_decoder_embeddings=true; tie_word_embeddings=true"},
    {"embed.token", "model.{S}.embed_tokens", 0, 0, NULL},
    {"head.weight", "lm_head", 0, 0, NULL},
    {"head.bias", "=final_logits_bias", 0, QKV_FAMILY_LEADING | QKV_FAMILY_BUFFER, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_marian = {
    .type = "marian",
    .architectures = "MarianMTModel,MarianModel",
    .classes = "Model=ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = "num_hidden_layers=!encoder_layers; num_attention_heads=!encoder_attention_heads; hidden_size=!d_model",
    .defaults = "encoder_layers=12; decoder_layers=12; encoder_attention_heads=16; decoder_attention_heads=16; "
                "encoder_ffn_dim=4096; decoder_ffn_dim=4096; d_model=1024; activation_function='gelu'; "
                "scale_embedding=false; tie_word_embeddings=true; vocab_size=58101; max_position_embeddings=1024; "
                "share_encoder_decoder_embeddings=true; decoder_vocab_size=null",
    .needs = "normalize_before=false; "
             "normalize_embedding=false; add_final_layer_norm=false",
    .idle = "add_bias_logits extra_pos_embeddings",
    .spec =
        "source_vocab=$vocab_size; " QKV_FAMILY_BART_SPEC "context=$max_position_embeddings; *.attention.bias=true; "
        "*.embed.position.kind='sinusoidal'; *.embed.position.layout='halves'; "
        "*.embed.scale=$scale_embedding:scaled; *.norm.placement='post'",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = "model.shared.weight model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight lm_head.weight "
               "model.encoder.embed_positions.weight model.decoder.embed_positions.weight",
};
