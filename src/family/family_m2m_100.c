/* M2M100 (Fan et al. 2020) and NLLB (NLLB team 2022): sinusoids, norms before sublayers. */
#include "family/family_tables.h"

static const struct qkv_family_rule ties[] = {
    {"true", "tie='all'"},
    {"false", "tie='none'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"tie_word_embeddings", ties},
    {"scale_embedding", qkv_family_flags},
    {"activation_function", qkv_family_activations},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.{S}.embed_tokens", 0, 0, "tie_word_embeddings=false"},
    {"embed.token", "model.shared", 0, 0, NULL},
    {"head.weight", "lm_head", 0, 0, NULL},
    {"norm", "model.{S}.layer_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_m2m_100 = {
    .type = "m2m_100",
    .architectures = "M2M100ForConditionalGeneration,M2M100Model",
    .classes = "Model=ForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = QKV_FAMILY_BART_ALIASES,
    .defaults = "vocab_size=128112; max_position_embeddings=1024; encoder_layers=12; decoder_layers=12; "
                "encoder_attention_heads=16; decoder_attention_heads=16; encoder_ffn_dim=4096; decoder_ffn_dim=4096; "
                "d_model=1024; activation_function='relu'; scale_embedding=true; tie_word_embeddings=true; "
                "pad_token_id=1",
    .idle = "static_position_embeddings normalize_* add_final_layer_norm add_bias_logits",
    .spec = QKV_FAMILY_BART_SPEC
    "source_vocab=$vocab_size; context=$max_position_embeddings; *.attention.bias=true; "
    "*.embed.scale=$scale_embedding:scaled; *.embed.position.kind='sinusoidal'; *.embed.position.layout='spaced'; "
    "*.embed.position.offset=$pad_token_id:next; *.norm.placement='pre'; head.bias=false",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = QKV_FAMILY_BART_IGNORED " model.encoder.embed_positions.weights model.decoder.embed_positions.weights",
};
