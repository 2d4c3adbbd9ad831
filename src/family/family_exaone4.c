/* EXAONE 4 (LG AI Research 2025): norms after sublayers and of each head; with windows, layers without a window have no
 * rotation. */
#include "family/family_tables.h"

static const struct qkv_family_kind kinds[] = {
    {"'full_attention'", "full", "attention.position.kind='none'; attention.window=0"},
    {"'sliding_attention'", "sliding", QKV_FAMILY_ROPE("") "attention.window=$sliding_window"},
    {"'full_attention'", "turned", QKV_FAMILY_ROPE("") "attention.window=0"},
    {NULL, NULL, NULL},
};

/* Published files have a list and, as a pattern, a text, which is then not read. */
static int kind_of(const json_t *config, int layer, int listed) {
    const json_t *pattern = json_object_get(config, "sliding_window_pattern");
    if (json_is_null(json_object_get(config, "sliding_window"))) return listed == 1 ? -1 : 2;
    if (listed < 0 && json_integer_value(pattern) < 1) return -1;
    return qkv_family_period_window(config, layer, listed);
}

static void kinds_write(json_t *config, const json_t *names) {
    (void)names;
    if (!json_object_get(config, "sliding_window")) json_object_set_new(config, "sliding_window", json_null());
}

static const struct qkv_family_choice choices[] = {
    {"hidden_act", qkv_family_gates},
    {"tie_word_embeddings", qkv_family_ties},
    {"class", qkv_family_decoder_classes},
    QKV_FAMILY_CHOICES_END,
};

static const struct qkv_family_layers layers = {"layer_types", kinds, kind_of, kinds_write, {NULL}, NULL};

static const struct qkv_family_gguf gguf = {
    .architecture = "exaone4",
    .keys = QKV_FAMILY_GGUF_LLAMA "sliding_window=$attention.sliding_window|null",
    .tensors = qkv_family_gguf_output_norms,
};

const struct qkv_family qkv_family_exaone4 = {
    .type = "exaone4",
    .architectures = "Exaone4ForCausalLM,Exaone4Model,Exaone4ForSequenceClassification,Exaone4ForTokenClassification,"
                     "Exaone4ForQuestionAnswering",
    .stacks = "decoder",
    .defaults =
        "vocab_size=102400; hidden_size=4096; intermediate_size=16384; num_hidden_layers=32; num_attention_heads=32; "
        "num_key_value_heads=null; head_dim=null; hidden_act='silu'; max_position_embeddings=2048; rms_norm_eps=1e-5; "
        "rope_theta=10000.0; rope_scaling=null; tie_word_embeddings=false; sliding_window=4096; "
        "sliding_window_pattern=4",
    .idle = "sliding_window_pattern",
    .spec = QKV_FAMILY_LLAMA_BASE QKV_FAMILY_RMSNORM QKV_FAMILY_NO_BIASES QKV_FAMILY_HEAD_NORMS
    "; decoder.norm.placement='output'",
    .choices = choices,
    .layers = &layers,
    .tensors = qkv_family_output_norms,
    .others = qkv_family_llama_tensors,
    .prefix = "model.",
    .question_prefix = "transformer.",
    .tied = "lm_head.weight",
    .gguf = &gguf,
};
