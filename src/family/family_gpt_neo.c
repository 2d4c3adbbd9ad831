/* GPT-Neo (Black et al. 2021) and TinyStories: GPT-2 with windows in some layers, and scores that are not scaled. */
#include <string.h>

#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'global'", "global", "attention.window=0"},
    {"'local'", "local", "attention.window=$window_size"},
    {NULL, NULL, NULL},
};

/* attention_types is [[[KIND, ...], TIMES], ...]: each list of kinds is repeated. */
static int kind_of(const json_t *config, int layer, int listed) {
    const json_t *types = json_object_get(config, "attention_types");
    json_int_t first = 0;
    for (size_t i = 0; i < json_array_size(types) && listed < 0; i++) {
        const json_t *item = json_array_get(types, i), *names = json_array_get(item, 0);
        const json_int_t size = (json_int_t)json_array_size(names);
        const json_int_t times = json_integer_value(json_array_get(item, 1));
        if (size == 0 || times < 1) continue;
        if (times > QKV_LAYERS_MAX || layer - first < size * times) {
            const char *name = json_string_value(json_array_get(names, (size_t)((layer - first) % size)));
            return name && !strcmp(name, "global") ? 0 : name && !strcmp(name, "local") ? 1 : -1;
        }
        first += size * times;
    }
    return listed;
}

/* attention_layers lists the kinds; transformers also wants attention_types to have as many. */
static void kinds_write(json_t *config, const json_t *names) {
    json_object_set_new(config, "attention_types", json_pack("[[O,i]]", names, 1));
}

static const struct qkv_family_choice choices[] = {
    {"activation_function", qkv_family_activations},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {"attention_layers", kinds, kind_of, kinds_write, {NULL}, NULL};

static const struct qkv_family_tensor tensors[] = {
    {"embed.token", "transformer.wte", 0, 0, NULL},
    {"embed.position", "transformer.wpe", 0, 0, NULL},
    {"attn_norm", "transformer.h.{N}.ln_1", 0, 0, NULL},
    {"attn.q", "transformer.h.{N}.attn.attention.q_proj", 0, 0, NULL},
    {"attn.k", "transformer.h.{N}.attn.attention.k_proj", 0, 0, NULL},
    {"attn.v", "transformer.h.{N}.attn.attention.v_proj", 0, 0, NULL},
    {"attn.o", "transformer.h.{N}.attn.attention.out_proj", 0, 0, NULL},
    {"ffn_norm", "transformer.h.{N}.ln_2", 0, 0, NULL},
    {"ffn.up", "transformer.h.{N}.mlp.c_fc", 0, 0, NULL},
    {"ffn.down", "transformer.h.{N}.mlp.c_proj", 0, 0, NULL},
    {"norm", "transformer.ln_f", 0, 0, NULL},
    QKV_FAMILY_DECODER_HEADS("classifier", "lm_head"),
    {NULL, NULL, 0, 0, NULL},
};

const struct qkv_family qkv_family_gpt_neo = {
    .type = "gpt_neo",
    .architectures = "GPTNeoForCausalLM,GPTNeoModel,GPTNeoForSequenceClassification,GPTNeoForTokenClassification,"
                     "GPTNeoForQuestionAnswering",
    .stacks = "decoder",
    .aliases = "num_hidden_layers=!num_layers; num_attention_heads=!num_heads",
    .defaults = "vocab_size=50257; max_position_embeddings=2048; hidden_size=2048; num_layers=24; num_heads=16; "
                "intermediate_size=null; window_size=256; activation_function='gelu_new'; layer_norm_epsilon=1e-5; "
                "tie_word_embeddings=true; attention_types=[[['global','local'],12]]",
    .idle = "attention_types summary_* gradient_checkpointing",
    .spec = "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; decoder.layers=$num_layers; "
            "decoder.attention.heads=$num_heads; decoder.attention.bias='o'; decoder.attention.scale=1.0; "
            "decoder.ffn.d_ff=$intermediate_size; decoder.ffn.bias=true; decoder.norm.kind='layernorm'; "
            "decoder.norm.placement='pre'; decoder.norm.eps=$layer_norm_epsilon; "
            "decoder.embed.position.kind='learned'; decoder.embed.scale=1.0",
    .choices = choices,
    .layers = &layers,
    .tensors = tensors,
    .prefix = "transformer.",
    .tied = "lm_head.weight",
};
