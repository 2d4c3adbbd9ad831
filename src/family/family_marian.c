/* MarianMT (Junczys-Dowmunt et al. 2018), the OPUS models: sinusoids, norms behind sublayers. */
#include "family/family.h"

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "model.shared", 0, 0, NULL},
    {"head.bias", "=final_logits_bias", 0, QKV_FAMILY_LEADING | QKV_FAMILY_BUFFER, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_marian = {
    .type = "marian",
    .architectures = "MarianMTModel",
    .stacks = "encoder decoder",
    .defaults = "encoder_layers=12; decoder_layers=12; encoder_attention_heads=16; decoder_attention_heads=16; "
                "encoder_ffn_dim=4096; decoder_ffn_dim=4096; d_model=1024; activation_function='gelu'; "
                "scale_embedding=false; tie_word_embeddings=true; vocab_size=58101; max_position_embeddings=1024; "
                "share_encoder_decoder_embeddings=true",
    .needs = "tie_word_embeddings=true; share_encoder_decoder_embeddings=true; normalize_before=false; "
             "normalize_embedding=false; add_final_layer_norm=false",
    .spec = QKV_FAMILY_BART_SPEC "source_vocab=$vocab_size; "
                                 "context=$max_position_embeddings; tie='all'; head.bias=true; *.attention.bias=true; "
                                 "*.embed.position.kind='sinusoidal'; *.embed.position.layout='halves'; "
                                 "*.embed.scale=$scale_embedding:scaled; *.norm.placement='post'",
    .choices = choices,
    .tensors = tensors,
    .others = qkv_family_bart_tensors,
    .prefix = "model.",
    .ignored = "model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight lm_head.weight "
               "model.encoder.embed_positions.weight model.decoder.embed_positions.weight",
};
