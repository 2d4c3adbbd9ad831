/* Whisper (Radford et al. 2022): frames, given as numbers, through two convolutions; keys have no bias. Nothing reads
 * scale_embedding. */
#include "family/family_tables.h"

/* The encoder's sinusoids as the file has them, maybe rounded; a file without them means computed ones. */

#define TABLE "encoder.embed.position.kind='learned'"
static const struct qkv_family_rule positions[] = {
    {"@model.encoder.embed_positions.weight=true", TABLE},
    {"@encoder.embed_positions.weight=true", TABLE},
    {"@model.encoder.embed_positions.weight=false; @encoder.embed_positions.weight=false",
     "encoder.embed.position.kind='sinusoidal'; encoder.embed.position.layout='spaced'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"tie_word_embeddings", qkv_family_ties},
    {"activation_function", qkv_family_activations},
    {NULL, positions},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.decoder.embed_tokens", 0, 0, NULL},
    {"encoder:embed.position", "model.encoder.embed_positions", 0, QKV_FAMILY_BUFFER, NULL},
    {"decoder:embed.position", "model.decoder.embed_positions", 0, 0, NULL},
    {"head", "proj_out", 0, 0, NULL},
    {"embed.conv1", "model.encoder.conv1", 0, 0, NULL},
    {"embed.conv2", "model.encoder.conv2", 0, 0, NULL},
    {"norm", "model.{S}.layer_norm", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_whisper = {
    .type = "whisper",
    .architectures = "WhisperForConditionalGeneration",
    .stacks = "encoder decoder",
    .aliases = "num_hidden_layers=!encoder_layers; num_attention_heads=!encoder_attention_heads; hidden_size=!d_model",
    .defaults = "vocab_size=51865; num_mel_bins=80; d_model=384; encoder_layers=4; decoder_layers=4; "
                "encoder_attention_heads=6; decoder_attention_heads=6; encoder_ffn_dim=1536; decoder_ffn_dim=1536; "
                "activation_function='gelu'; max_source_positions=1500; "
                "max_target_positions=448; tie_word_embeddings=true",
    .idle = "scale_embedding median_filter_width mask_time_* mask_feature_* apply_spec_augment "
            "use_weighted_layer_sum classifier_proj_size lang_ids task_ids alignment_heads",
    .spec = QKV_FAMILY_BART_SPEC
    "context=$max_target_positions; source_context=$max_source_positions; "
    "head.bias=false; *.attention.bias='qvo'; encoder.embed.input.kind='frames'; "
    "encoder.embed.input.channels=$num_mel_bins; encoder.embed.scale=1.0; decoder.embed.position.kind='learned'; "
    "decoder.embed.scale=1.0; *.norm.placement='pre'",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .tied = "proj_out.weight",
};
