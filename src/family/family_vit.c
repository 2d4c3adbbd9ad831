/* ViT (Dosovitskiy et al. 2021): classifiers of images, given as numbers. */
#include "family/family_tables.h"

static const struct qkv_family_rule biases[] = {
    {"true", "encoder.attention.bias=true"},
    {"false", "encoder.attention.bias='o'"},
    {NULL, NULL},
};

static const struct qkv_family_rule heads[] = {
    {"'ForImageClassification'",
     "head.kind='classify'; head.pool='first'; head.classes=$id2label:count; head.bias=true; head.transform=null"},
    {"'Model'", "head.kind='none'"},
    {NULL, NULL},
};

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_activations},
    {"qkv_bias", biases},
    {"class", heads},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_tensor tensors[] = {
    {"embed.class", "=vit.embeddings.cls_token", 0, QKV_FAMILY_LEADING, NULL},
    {"embed.position", "=vit.embeddings.position_embeddings", 0, QKV_FAMILY_LEADING, NULL},
    {"embed.patch", "vit.embeddings.patch_embeddings.projection", 0, QKV_FAMILY_PATCHES, NULL},
    {"attn_norm", "vit.encoder.layer.{N}.layernorm_before", 0, 0, NULL},
    {"ffn_norm", "vit.encoder.layer.{N}.layernorm_after", 0, 0, NULL},
    {"attn.q", "vit.encoder.layer.{N}.attention.attention.query", 0, 0, NULL},
    {"attn.k", "vit.encoder.layer.{N}.attention.attention.key", 0, 0, NULL},
    {"attn.v", "vit.encoder.layer.{N}.attention.attention.value", 0, 0, NULL},
    {"attn.o", "vit.encoder.layer.{N}.attention.output.dense", 0, 0, NULL},
    {"ffn.up", "vit.encoder.layer.{N}.intermediate.dense", 0, 0, NULL},
    {"ffn.down", "vit.encoder.layer.{N}.output.dense", 0, 0, NULL},
    {"norm", "vit.layernorm", 0, 0, NULL},
    {"head", "classifier", 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_vit = {
    .type = "vit",
    .architectures = "ViTForImageClassification,ViTModel",
    .stacks = "encoder",
    .defaults = "hidden_size=768; num_hidden_layers=12; num_attention_heads=12; intermediate_size=3072; "
                "hidden_act='gelu'; layer_norm_eps=1e-12; image_size=224; patch_size=16; num_channels=3; "
                "qkv_bias=true",
    .idle = "encoder_stride pooler_*",
    .spec = "context=$image_size:patches; d_model=$hidden_size; encoder.layers=$num_hidden_layers; "
            "encoder.attention.heads=$num_attention_heads; encoder.ffn.d_ff=$intermediate_size; encoder.ffn.bias=true; "
            "encoder.embed.input.kind='patches'; encoder.embed.input.channels=$num_channels; "
            "encoder.embed.input.height=$image_size:down; encoder.embed.input.width=$image_size:across; "
            "encoder.embed.input.patch=$patch_size:side; encoder.embed.input.class_token=true; "
            "encoder.embed.position.kind='learned'; encoder.embed.scale=1.0; encoder.norm.kind='layernorm'; "
            "encoder.norm.placement='pre'; encoder.norm.eps=$layer_norm_eps",
    .choices = choices,
    .tensors = tensors,
    .hidden_before_norm = true,
    .prefix = "vit.",
    .ignored = "*pooler.dense.*",
    .kept = "vit.pooler.dense.*",
};
