/* family: families of published models: the meaning of their config.json and of their tensors.
 *
 * A family is one file, mostly a table, and a line in QKV_FAMILY_LIST. The table is read both ways: from config.json to
 * a spec and back, and from the tensors of a family to ours and back. Writing checks the table: the config.json of a
 * spec is read again and must give the same spec.
 *
 * Lists in tables are texts, "KEY=VALUE; KEY=VALUE". A value is JSON with ' for ", or "$KEY", the value of a key of
 * config.json, or "$KEY:TRANSFORM" (transforms in family_values.c). Paths of a spec begin with a stack; "*" stands for
 * every stack of the family. */
#ifndef QKV_FAMILY_H
#define QKV_FAMILY_H

#include <jansson.h>

#include "model/model.h"

#define QKV_FAMILY_LIST(X)                                                                                             \
    X(gpt2)                                                                                                            \
    X(llama)                                                                                                           \
    X(mistral)                                                                                                         \
    X(ministral)                                                                                                       \
    X(mixtral)                                                                                                         \
    X(qwen2)                                                                                                           \
    X(qwen2_moe)                                                                                                       \
    X(qwen3)                                                                                                           \
    X(qwen3_moe)                                                                                                       \
    X(smollm3)                                                                                                         \
    X(granite)                                                                                                         \
    X(phi3)                                                                                                            \
    X(gemma)                                                                                                           \
    X(gemma2)                                                                                                          \
    X(gemma3)                                                                                                          \
    X(olmo2)                                                                                                           \
    X(olmoe)                                                                                                           \
    X(deepseek_v2)                                                                                                     \
    X(deepseek_v3)                                                                                                     \
    X(gpt_oss)                                                                                                         \
    X(cohere)                                                                                                          \
    X(starcoder2)                                                                                                      \
    X(phi)                                                                                                             \
    X(gpt_neox)                                                                                                        \
    X(gptj)                                                                                                            \
    X(bloom)                                                                                                           \
    X(opt)                                                                                                             \
    X(falcon)                                                                                                          \
    X(mpt)                                                                                                             \
    X(bert)                                                                                                            \
    X(roberta)                                                                                                         \
    X(distilbert)                                                                                                      \
    X(albert)                                                                                                          \
    X(electra)                                                                                                         \
    X(modernbert)                                                                                                      \
    X(t5)                                                                                                              \
    X(t5_encoder)                                                                                                      \
    X(bart)                                                                                                            \
    X(marian)                                                                                                          \
    X(vit)                                                                                                             \
    X(whisper)                                                                                                         \
    X(gpt_bigcode)

/* A part of config.json that selects settings of the spec. */
struct qkv_family_rule {
    /* with a choice's key: the key's value, "'gelu'"; else a list of keys with values. NULL ends the rules */
    const char *when;
    const char *then; /* settings of the spec */
};
/* Selects the first rule whose values are those of config.json; a config.json that matches no rule is refused. */
struct qkv_family_choice {
    const char *key; /* NULL: rules name their keys; "" ends the choices */
    const struct qkv_family_rule *rules;
};
/* A kind of layer: its value in config.json's list, its name in the spec, and its settings,
 * "attention.window=$sliding_window". */
struct qkv_family_kind {
    const char *value, *name, *then;
};
struct qkv_family_layers {
    const char *list; /* the key with a list of one value per layer; NULL: the family has none */
    const struct qkv_family_kind *kinds;
    /* Returns the kind of a layer. listed: the kind that the list names, or −1 without a list. Returns −1 if the listed
     * kind is not possible for this layer. NULL: the listed kind, or kind 0 */
    int (*kind)(const json_t *config, int layer, int listed);
    /* Writes the keys that determine the kinds of layers. values: the value of each layer, or, where the family has a
     * list, the name of each layer's kind. Layers that these keys cannot express are detected when the written
     * config.json is read back. */
    void (*write)(json_t *config, const json_t *values);
    /* keys that `kind` reads: whole numbers, and a list of layers or of one type per layer; NULL: none */
    const char *numbers[2], *layers;
};

/* The order in which rows of several of our weights are in one tensor of theirs. */
enum qkv_family_order {
    QKV_FAMILY_PARTS = 0, /* all rows of one weight, then all rows of the next; a single weight keeps its order */
    QKV_FAMILY_HEADS,     /* head by head: q, k and v of one head (heads, 3, D), or k and v (heads, D + Dv) */
    QKV_FAMILY_GROUPS,    /* the queries of a key-value head, its key, its value (kv_heads, H/kv_heads + 2, D) */
    QKV_FAMILY_IN_TURNS,  /* the first row of each weight, then the second row of each */
    QKV_FAMILY_PAIRS      /* in each head, rows that are rotated together are neighbours */
};
enum {
    QKV_FAMILY_TRANSPOSED = 1, /* (in, out) */
    QKV_FAMILY_LEADING = 2,    /* with a first dimension of 1 */
    QKV_FAMILY_PATCHES = 4,    /* (out, channels, patch, patch) */
    QKV_FAMILY_FLAT = 8,       /* a matrix of one row, as a vector */
    QKV_FAMILY_STACKED = 16,   /* all experts in one tensor, with a first dimension of experts */
    QKV_FAMILY_BUFFER = 32,    /* not a parameter in the family: it is frozen */
    QKV_FAMILY_PLUS_ONE = 64,  /* 1 + the numbers */
    QKV_FAMILY_BY_HEAD = 128   /* with a first dimension of heads; QKV_FAMILY_TRANSPOSED: each head is (in, out) */
};
struct qkv_family_tensor {
    /* "attn.q": of all layers, with its bias; several weights with commas. "encoder:attn.q": of that stack only.
     * "attn.q.bias": the bias only. NULL ends the tensors */
    const char *ours;
    /* without .weight and .bias, unless it begins with "="; {N} is the layer, {G} the group of layers that share
     * weights, {S} the stack, {E} the expert */
    const char *theirs;
    enum qkv_family_order order;
    unsigned flags;
    const char *when; /* a list of keys with values that config.json must have; NULL: always */
};

/* How GGUF files have a family. family_gguf.c makes the config.json that a folder of the same model would have, so that
 * the family's table reads both. */
struct qkv_family_gguf {
    const char *architecture; /* general.architecture */
    /* what tells the family from others of the architecture: a tensor, or a key of it with its value, "KEY=VALUE";
     * NULL: none */
    const char *has;
    const char *class; /* of the config.json; NULL: ForCausalLM */
    /* the keys of the config.json, "KEY=VALUE; …". A value is JSON, or "$KEY:TRANSFORM", the value of the
     * architecture's key, "#TENSOR", the rows of a tensor, "?TENSOR", whether the file has it, "!TENSOR", whether it
     * has not, or "@scaling", rope_scaling. "VALUE|OTHER": the other value where the file does not have the key */
    const char *keys;
    const char *only;      /* more keys of the architecture, with the only value that they may have; NULL: none */
    const char *idle;      /* more keys of the architecture without effect: patterns with spaces; NULL: none */
    bool dense;            /* files may have dense layers behind the pooling */
    const char *unwritten; /* a key that is read, but that llama.cpp computes nothing with; NULL: none */
    /* Sets what neither keys nor tensors say; NULL: nothing. */
    bool (*finish)(json_t *config);
    /* its own tensors; the others are those of all families. NULL: none */
    const struct qkv_family_tensor *tensors;
    /* of a family with several architectures: keys with values that a config.json must have to be written as this one
     * (NULL: none), and the next one (NULL: none), which a config.json that does not have them is written as */
    const char *when;
    const struct qkv_family_gguf *next;
};
struct qkv_family {
    const char *type; /* model_type; several with commas */
    /* the classes that it reads, with commas; the first one is that of a config.json that names none. The end of the
     * name is the key `class` of tables: "ForTokenClassification" for BertForTokenClassification, "Model" for BertModel
     * (family_classes.c) */
    const char *architectures;
    const char *classes; /* values of `class` that are read as another one, "ForPreTraining=ForMaskedLM" */
    const char *stacks;  /* "decoder", "encoder" or "encoder decoder" */
    /* other names of keys, "n_ctx=n_positions": the file's name, then the tables'; "!": the former overrides the
     * latter */
    const char *aliases;
    const char *defaults; /* values of keys that config.json does not have */
    const char *needs;    /* keys with the only value that can be read */
    const char *idle;     /* more keys without effect: patterns with spaces; NULL: none */
    const char *spec;     /* settings of all models of the family */
    /* the keys of the rotary bases of layers without and with a window, where these differ; NULL: one rotation */
    const char *rotations[2];
    /* with two rotations: rope_scaling of older files applies to both, not only to layers without a window */
    bool scaling_of_all;
    const struct qkv_family_choice *choices; /* NULL: none */
    const struct qkv_family_layers *layers;  /* NULL: all layers are of one kind */
    const struct qkv_family_tensor *tensors; /* its own; NULL: none */
    /* a shared table, for weights that its own tensors do not have; NULL: none */
    const struct qkv_family_tensor *others;
    const char *prefix;          /* first part of names, which files of the base model leave out; NULL: none */
    const char *question_prefix; /* the same in files of the class that answers questions; NULL: `prefix` */
    /* patterns, with spaces, of tensors that are not weights; "$KEY" in one is a number; NULL: none */
    const char *ignored;
    const char *kept;        /* those of `ignored` that an export writes again, as a pooler; NULL: none */
    bool hidden_before_norm; /* its last hidden states are those before the final norm */
    const char *tied;        /* the tensor of the head, left out where tie_word_embeddings is true; NULL: none */
    const struct qkv_family_gguf *gguf; /* NULL: GGUF files do not have the family */
};
#define QKV_FAMILY_DECLARE(name) extern const struct qkv_family qkv_family_##name;
QKV_FAMILY_LIST(QKV_FAMILY_DECLARE)
extern const struct qkv_family *const qkv_families[]; /* in the order of the list; ends with NULL */

/* Tables that families share (family_shared.c). */
extern const struct qkv_family_rule qkv_family_activations[], qkv_family_gates[], qkv_family_ties[],
    qkv_family_flags[], /* a choice by true or false */
    qkv_family_gpt_scales[], qkv_family_attention_biases[], qkv_family_ffn_biases[], qkv_family_latent_biases[];
extern const struct qkv_family_tensor qkv_family_llama_tensors[], qkv_family_gemma_tensors[],
    qkv_family_deepseek_tensors[], qkv_family_bart_tensors[];
extern const struct qkv_family_rule qkv_family_t5_feed_forwards[], qkv_family_head_biases[];
/* Classes that exist for any decoder: the language model, classifiers of texts by their last token and of tokens,
 * answers to questions (two classes of tokens: where an answer begins, and where it ends), and the decoder alone. */
extern const struct qkv_family_rule qkv_family_decoder_classes[];
/* The heads of these classes: `tokens` is the name of a classifier of tokens, `lm` that of the language model. */
#define QKV_FAMILY_DECODER_HEADS(tokens, lm)                                                                           \
    {"head", "score", 0, 0, "class='ForSequenceClassification'"},                                                      \
        {"head", tokens, 0, 0, "class='ForTokenClassification'"},                                                      \
        {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"}, {                                                \
        "head", lm, 0, 0, NULL                                                                                         \
    }
/* Settings of encoders without a layer before the scores: a classifier of tokens, one for answers, and no head. */
#define QKV_FAMILY_CLASSIFY_TOKENS                                                                                     \
    "head.kind='classify_tokens'; head.classes=$id2label:count; head.bias=true; head.transform=null"
#define QKV_FAMILY_ANSWER "head.kind='classify_tokens'; head.classes=2; head.bias=true; head.transform=null"
#define QKV_FAMILY_BARE   "head.kind='none'; tie='none'"
/* The class that answers questions, and the names of its two classes of tokens. */
#define QKV_FAMILY_ANSWERS "ForQuestionAnswering"
extern const char *const qkv_family_answer[2];
/* Settings of heads that are not language models: scores are neither tied, scaled nor capped. */
#define QKV_FAMILY_SCORES "tie='none'; head.scale=1.0; head.softcap=0.0"
/* The key `class` of an architecture; NULL: the end of the name is not known. The second function returns the first
 * architecture of a family that has a class, *n bytes of its list; that of a config.json without a class if none has
 * it. */
const char *qkv_family_class(const struct qkv_family *family, const char *architecture);
const char *qkv_family_architecture(const struct qkv_family *family, const char *class, size_t *n);
/* GGUF files of LLaMA and its descendants: sizes, other keys, and the orders of rows of queries and keys. */
#define QKV_FAMILY_GGUF_SIZES                                                                                          \
    "vocab_size=#token_embd.weight; hidden_size=$embedding_length; num_hidden_layers=$block_count; "                   \
    "num_attention_heads=$attention.head_count; tie_word_embeddings=!output.weight; "
#define QKV_FAMILY_GGUF_ROPE "rope_theta=$rope.freq_base|10000.0; rope_scaling=@scaling; "
#define QKV_FAMILY_GGUF_STEM                                                                                           \
    QKV_FAMILY_GGUF_SIZES QKV_FAMILY_GGUF_ROPE                                                                         \
        "max_position_embeddings=$context_length; intermediate_size=$feed_forward_length; "                            \
        "num_key_value_heads=$attention.head_count_kv|null; head_dim=$attention.key_length|null; "
#define QKV_FAMILY_GGUF_LLAMA   QKV_FAMILY_GGUF_STEM "rms_norm_eps=$attention.layer_norm_rms_epsilon; "
#define QKV_FAMILY_GGUF_BIASES  "attention_bias=?blk.0.attn_q.bias; "
#define QKV_FAMILY_GGUF_EXPERTS "num_experts=$expert_count; num_experts_per_tok=$expert_used_count; "
/* Sets query_pre_attn_scalar of Gemma, which files do not say: the width of a head, but hidden_size / heads in the
 * model with `largest` layers. Returns false without memory. */
bool qkv_family_gguf_scale(json_t *config, int largest);
extern const struct qkv_family_tensor qkv_family_gguf_pairs[], qkv_family_gguf_joined[], qkv_family_gguf_gemma[],
    qkv_family_gguf_deepseek[];
/* T5: sizes; qkv_family_gguf_t5_finish sets feed_forward_proj by whether there are gates. */
#define QKV_FAMILY_GGUF_T5                                                                                             \
    "vocab_size=#token_embd.weight; d_model=$embedding_length; num_layers=$block_count; "                              \
    "num_heads=$attention.head_count; d_kv=$attention.key_length; d_ff=$feed_forward_length; "                         \
    "n_positions=$context_length; relative_attention_num_buckets=$attention.relative_buckets_count|32; "               \
    "layer_norm_epsilon=$attention.layer_norm_rms_epsilon; @gate=?enc.blk.0.ffn_gate.weight; "
bool qkv_family_gguf_t5_finish(json_t *config);
extern const struct qkv_family_tensor qkv_family_gguf_t5[];
/* Conditions for a feed-forward without a gate: its matrix then has another name. */
#define QKV_FAMILY_T5_UNGATED                                                                                          \
    "feed_forward_proj=!'gated-gelu'; feed_forward_proj=!'gated-gelu_new'; feed_forward_proj=!'gated-silu'; "          \
    "feed_forward_proj=!'gated-relu'; feed_forward_proj=!'gated-tanh'; feed_forward_proj=!'gated-gelu_python'"
/* Windows of every second layer; windows of the layers that a list names, or, without a list, of all layers. Qwen:
 * layers with a window, which layers have experts, and the keys for these. */
extern const struct qkv_family_layers qkv_family_even_windows, qkv_family_listed_windows, qkv_family_qwen_layers;
int qkv_family_qwen_sparse(const json_t *config, int layer, int listed);
void qkv_family_write_qwen_sparse(json_t *config, const json_t *values);
/* Writes use_sliding_window: whether the name of a kind contains "sliding". */
void qkv_family_write_windows(json_t *config, const json_t *names);
/* DeepSeek: whether a layer is one of the first ones, which have no experts. */
bool qkv_family_first_dense(const json_t *config, int layer);
void qkv_family_write_first_dense(json_t *config, const json_t *values);
/* Settings of LLaMA and its descendants, and their rotation, of a stack or of a kind of layer. */
#define QKV_FAMILY_LLAMA_STEM                                                                                          \
    "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "                                      \
    "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "                                \
    "decoder.attention.kv_heads=$num_key_value_heads; decoder.attention.head_dim=$head_dim; "                          \
    "decoder.embed.position.kind='none'; "
#define QKV_FAMILY_LLAMA_BASE QKV_FAMILY_LLAMA_STEM "decoder.ffn.d_ff=$intermediate_size; "
#define QKV_FAMILY_ROPE(stack)                                                                                         \
    stack "attention.position.kind='rope'; " stack "attention.position.theta=$rope_theta; " stack                      \
          "attention.position.scaling=$rope_scaling:scaling; "
#define QKV_FAMILY_LLAMA_SPEC QKV_FAMILY_LLAMA_BASE QKV_FAMILY_ROPE("decoder.")
/* Settings of a layer without experts among layers with experts, and of the latter. Losses that balance experts are not
 * part of a published model. */
#define QKV_FAMILY_DENSE  "ffn.d_ff=$intermediate_size; ffn.experts=null"
#define QKV_FAMILY_SPARSE "ffn.experts.top_k=$num_experts_per_tok; ffn.experts.balance_loss=0; ffn.experts.z_loss=0; "
#define QKV_FAMILY_QWEN_SPARSE                                                                                         \
    QKV_FAMILY_SPARSE                                                                                                  \
    "ffn.d_ff=$moe_intermediate_size; ffn.experts.count=$num_experts; ffn.experts.scores='softmax'; "                  \
    "ffn.experts.normalize=$norm_topk_prob; "
#define QKV_FAMILY_DEEPSEEK_SPARSE                                                                                     \
    QKV_FAMILY_SPARSE                                                                                                  \
    "ffn.d_ff=$moe_intermediate_size; ffn.experts.count=$n_routed_experts; "                                           \
    "ffn.experts.scale=$routed_scaling_factor; ffn.experts.shared=$n_shared_experts:shared; "
#define QKV_FAMILY_DEEPSEEK_SPEC                                                                                       \
    "vocab=$vocab_size; context=$max_position_embeddings; d_model=$hidden_size; "                                      \
    "decoder.layers=$num_hidden_layers; decoder.attention.heads=$num_attention_heads; "                                \
    "decoder.attention.kv_heads=$num_key_value_heads; decoder.attention.latent.rank=$kv_lora_rank; "                   \
    "decoder.attention.latent.rope_dim=$qk_rope_head_dim; decoder.attention.head_dim=$qk_nope_head_dim:with_turned; "  \
    "decoder.attention.value_dim=$v_head_dim; decoder.attention.latent.query_rank=$q_lora_rank:zero; "                 \
    "decoder.attention.latent.eps=1e-6; decoder.embed.position.kind='none'; " QKV_FAMILY_ROPE("decoder.")              \
        QKV_FAMILY_RMSNORM "decoder.norm.placement='pre'; decoder.ffn.bias=false; "
#define QKV_FAMILY_RMSNORM   "decoder.norm.kind='rmsnorm'; decoder.norm.eps=$rms_norm_eps; "
#define QKV_FAMILY_NO_BIASES "*.attention.bias=false; *.ffn.bias=false; "
#define QKV_FAMILY_BIASES    "*.attention.bias=true; *.ffn.bias=true; "
/* Settings of BART and its descendants: the sizes of two stacks. */
#define QKV_FAMILY_BART_SPEC                                                                                           \
    "d_model=$d_model; head.kind='lm'; encoder.layers=$encoder_layers; decoder.layers=$decoder_layers; "               \
    "encoder.attention.heads=$encoder_attention_heads; decoder.attention.heads=$decoder_attention_heads; "             \
    "encoder.ffn.d_ff=$encoder_ffn_dim; decoder.ffn.d_ff=$decoder_ffn_dim; *.ffn.bias=true; "                          \
    "*.norm.kind='layernorm'; *.norm.eps=1e-5; vocab=$vocab_size; "
/* Settings of BERT and its descendants: the encoder, its tensors with the family's first part of names, and the layer
 * before the scores of a masked language model. */
#define QKV_FAMILY_BERT_SPEC                                                                                           \
    "context=$max_position_embeddings; vocab=$vocab_size; d_model=$hidden_size; "                                      \
    "encoder.layers=$num_hidden_layers; encoder.attention.heads=$num_attention_heads; "                                \
    "encoder.attention.bias=true; encoder.ffn.d_ff=$intermediate_size; encoder.ffn.bias=true; "                        \
    "encoder.embed.position.kind='learned'; encoder.embed.scale=1.0; encoder.embed.types=$type_vocab_size:types; "     \
    "encoder.embed.norm.kind='layernorm'; encoder.embed.norm.eps=$layer_norm_eps; "                                    \
    "encoder.norm.kind='layernorm'; encoder.norm.placement='post'; encoder.norm.eps=$layer_norm_eps"
#define QKV_FAMILY_BERT_EMBEDDINGS(stem)                                                                               \
    {"embed.token", stem ".embeddings.word_embeddings", 0, 0, NULL},                                                   \
        {"embed.position", stem ".embeddings.position_embeddings", 0, 0, NULL},                                        \
        {"embed.type", stem ".embeddings.token_type_embeddings", 0, 0, NULL}, {                                        \
        "embed.norm", stem ".embeddings.LayerNorm", 0, 0, NULL                                                         \
    }
#define QKV_FAMILY_BERT_LAYERS(stem)                                                                                   \
    {"attn.q", stem ".encoder.layer.{N}.attention.self.query", 0, 0, NULL},                                            \
        {"attn.k", stem ".encoder.layer.{N}.attention.self.key", 0, 0, NULL},                                          \
        {"attn.v", stem ".encoder.layer.{N}.attention.self.value", 0, 0, NULL},                                        \
        {"attn.o", stem ".encoder.layer.{N}.attention.output.dense", 0, 0, NULL},                                      \
        {"attn_norm", stem ".encoder.layer.{N}.attention.output.LayerNorm", 0, 0, NULL},                               \
        {"ffn.up", stem ".encoder.layer.{N}.intermediate.dense", 0, 0, NULL},                                          \
        {"ffn.down", stem ".encoder.layer.{N}.output.dense", 0, 0, NULL}, {                                            \
        "ffn_norm", stem ".encoder.layer.{N}.output.LayerNorm", 0, 0, NULL                                             \
    }
#define QKV_FAMILY_BERT_TRANSFORMS(class, key)                                                                         \
    {"class='" class "'", "head.transform.activation=$" key ":activation"}, {                                          \
        "class=!'" class "'", ""                                                                                       \
    }
/* Rules of a masked language model whose scores have a table of their own. */
#define QKV_FAMILY_UNTIED(class)                                                                                       \
    { "class='" class "'; tie_word_embeddings=false", "tie='none'" }
#define QKV_FAMILY_UNTIED_END                                                                                          \
    {"tie_word_embeddings=true", ""}, {"tie_word_embeddings=false", ""}, {                                             \
        NULL, NULL                                                                                                     \
    }
/* Tensors of such a model: the table `scores`, and the masked language model's bias `bias_` where the table has
 * none. */
#define QKV_FAMILY_UNTIED_TENSORS(class, scores, bias_)                                                                \
    {"head.weight", scores, 0, 0, "class='" class "'; tie_word_embeddings=false"},                                     \
        {"head.bias", "=" bias_, 0, 0,                                                                                 \
         "class='" class "'; tie_word_embeddings=false; @" scores ".bias=false; @" bias_ "=true"},                     \
    {                                                                                                                  \
        "head.bias", scores, 0, 0, "class='" class "'; tie_word_embeddings=false"                                      \
    }
#define QKV_FAMILY_CHOICES_END                                                                                         \
    { "", NULL }

/* A config.json that was read: its family, and its keys under the names of tables, with defaults. */
struct qkv_family_config {
    const struct qkv_family *family;
    json_t *keys;
    size_t block[2]; /* rows and columns of a block with one scale, for matrices in 8 bits; 0: none */
    bool packed;     /* experts may be in MXFP4 */
    /* the files are GGUF: the architecture, whose names and orders tensors have; NULL: they are not, or are our own */
    const struct qkv_family_gguf *gguf;
    /* of a folder that was read: tensors that are not weights and are written again. The model's origin owns them. */
    struct qkv_array *kept; /* names and data are on the heap */
    size_t kept_count;
    /* where the family's model has more weights than ours, as biases of zeros: the spec of that model; NULL: the same
     * spec. Owned */
    struct qkv_spec *whole;
};
void qkv_family_config_free(struct qkv_family_config *config);

/* Whether a JSON object is the config.json of a published model, not a spec of ours. */
bool qkv_family_is_config(const json_t *root);
/* Whether a family reads models of a type: one of the names of family->type. */
bool qkv_family_has_type(const struct qkv_family *family, const char *type);
/* Whether a file has a tensor of that name. */
typedef bool qkv_family_has(const void *user, const char *name);
/* Reads the spec of a config.json; `name` is for messages. Fails with QKV_FORMAT: unknown family; QKV_SPEC: a key whose
 * value cannot be read. */
enum qkv_status qkv_family_read(struct qkv_context *ctx, const char *name, const json_t *root, qkv_family_has *has,
                                const void *user, struct qkv_family_config *config, struct qkv_spec *spec);
/* Makes a config.json for a spec: of the family `type`; or, with NULL, of the first family that can express the spec,
 * or of one whose model has more weights, which zeros or copies fill (config->whole). class: only as this class (NULL:
 * any). Fails with QKV_SPEC if there is none; the sentence lists the differences to the nearest family, each with the
 * setting that avoids it. */
enum qkv_status qkv_family_write(struct qkv_context *ctx, const char *type, const char *class,
                                 const struct qkv_spec *spec, struct qkv_family_config *config);
/* Removes settings that a published config.json does not have: those of training and initialisation. */
void qkv_family_strip(struct qkv_spec *spec);
/* The text of config.json; dtype is the matrices' format, "bfloat16". Freed with free(); NULL: no memory. */
char *qkv_family_text(struct qkv_context *ctx, const struct qkv_family_config *config, const char *dtype);

/* The tensors of all families in GGUF files (family_gguf_tensors.c), and patterns, with spaces, of those that are not
 * weights. */
extern const struct qkv_family_tensor qkv_family_gguf_tensors[];
extern const char qkv_family_gguf_ignored[];

/* Where a weight of ours is in a tensor of theirs. */
enum { QKV_FAMILY_NAME = 200 };
struct qkv_family_view {
    char name[QKV_FAMILY_NAME]; /* theirs */
    enum qkv_family_order order;
    unsigned flags;
    size_t part, parts;
    size_t rows, before, total; /* rows of the weight, of the parts before it, and of the whole tensor */
    size_t heads, kv_heads, head_dim;
    size_t slice, slices; /* of stacked experts: which one, of how many; else 0 of 1 */
};
/* Finds the weight `ours`, which has `rows` rows. Returns false if the family does not have it. */
bool qkv_family_view(const struct qkv_family_config *config, const struct qkv_spec *spec, const char *ours, size_t rows,
                     struct qkv_family_view *view);
/* The row of theirs that holds row r of ours. */
size_t qkv_family_row(const struct qkv_family_view *view, size_t r);
/* Where row r of ours, of `columns` numbers, is in theirs: the place of its first number, and the step to the next. */
struct qkv_family_line {
    size_t first, step;
};
struct qkv_family_line qkv_family_line(const struct qkv_family_view *view, size_t r, size_t columns);
/* The shape of their tensor, from that of ours and view->total. */
void qkv_family_shape(const struct qkv_family_view *view, const struct qkv_array *ours, const struct qkv_spec *spec,
                      struct qkv_array *theirs);
/* Whether a tensor of a file is not a weight and can be left out. */
bool qkv_family_ignores(const struct qkv_family_config *config, const char *name);
/* Whether a tensor that is left out is written again by an export; out: its name then. */
bool qkv_family_keeps(const struct qkv_family_config *config, const char *name, char out[QKV_FAMILY_NAME]);
/* The i-th other name that a tensor may have in files. Returns false: there are no more. */
bool qkv_family_name(const struct qkv_family_config *config, const char *name, size_t i, char out[QKV_FAMILY_NAME]);

/* The tensors of a family that hold a model's weights, or the gradients of trainable weights. A tensor that is the
 * model's numbers as they are shows them; one that joins or converts weights has no numbers until it is made. */
struct qkv_family_array {
    struct qkv_array array; /* data NULL: not made yet */
    char *name;
    void *memory;    /* the numbers, where they are not the model's */
    size_t first;    /* 1 + the index of its first weight in the model's list; 0: it shows the model's numbers */
    size_t shows;    /* 1 + the index of the weight whose numbers it shows; 0: none */
    bool transposed; /* its columns are not those of its weights */
};
struct qkv_family_arrays {
    struct qkv_model *model;
    const struct qkv_family_config *config;
    bool gradients;
    struct qkv_family_array *list;
    size_t count, capacity;
    size_t *next; /* for each weight: 1 + the index of the next weight of the same tensor; 0: none */
};
/* Lists the tensors. qkv_family_arrays_free frees them, after a failure too. The config must outlive them. Fails with
 * QKV_SPEC if the family has no tensor for a weight. */
enum qkv_status qkv_family_arrays(struct qkv_model *model, const struct qkv_family_config *config, bool gradients,
                                  struct qkv_family_arrays *out);
/* The same list for a model without a family: each weight is a tensor of its own name. */
enum qkv_status qkv_family_arrays_own(struct qkv_model *model, const struct qkv_family_config *config,
                                      struct qkv_family_arrays *out);
/* The weights of tensor i of a list: 1 + the index of the next one after *at, which is 0 at first; 0: there are no
 * more. */
size_t qkv_family_array_weight(const struct qkv_family_arrays *arrays, size_t i, size_t at);
/* Makes the numbers of tensor i, if it has none; the second function frees the numbers that were made. */
enum qkv_status qkv_family_array_make(const struct qkv_family_arrays *arrays, size_t i);
void qkv_family_array_drop(const struct qkv_family_arrays *arrays, size_t i);
void qkv_family_arrays_free(struct qkv_family_arrays *arrays); /* harmless on {0} */

/* ---- for the files of this room ---- */
/* The state while a config.json is read. */
struct qkv_family_reading {
    struct qkv_context *ctx;
    const char *name; /* of the file, for messages */
    const struct qkv_family *family;
    const json_t *root; /* the file */
    json_t *config;     /* its keys under the names of tables */
    json_t *spec;
    json_t *paths; /* for messages: the key whose value a path of the spec has */
};
/* Fails with QKV_SPEC: the key, its value, and the values that models of the family can have. */
enum qkv_status qkv_family_refuse(const struct qkv_family_reading *r, const char *key, const char *instead);
/* The same for a choice without a matching rule: the values that rules ask about, and those that they accept. */
enum qkv_status qkv_family_refuse_choice(const struct qkv_family_reading *r, const struct qkv_family_choice *choice);
/* Whether a table reads a key of config.json. */
bool qkv_family_reads(const struct qkv_family *family, const char *key);
/* Whether a table reads the key, or the key is known to have no effect. */
bool qkv_family_knows(const struct qkv_family *family, const char *key);
/* Fails with QKV_SPEC at a key that is neither read nor known to have no effect, unless its name is not about what a
 * model computes. */
enum qkv_status qkv_family_check_keys(const struct qkv_family_reading *r);
/* A message about a spec, with the keys of the config.json that it was read from. Freed with free(); NULL: no
 * memory. */
char *qkv_family_reword(const struct qkv_family_reading *r, const char *message);
/* Writes rotations under the keys of tables. These two are for layers with and without a window that have rotations of
 * their own. */
#define QKV_FAMILY_FULL_SCALING  "@full_scaling"
#define QKV_FAMILY_LOCAL_SCALING "@local_scaling"
enum qkv_status qkv_family_spell_rotations(const struct qkv_family_reading *r);
/* The reverse, for a config.json that is written. */
void qkv_family_write_rotations(const struct qkv_family *family, json_t *config);
/* Whether a key belongs to a scaled rotation. The second function returns the key for a field of a spec's scaling;
 * NULL: there is none. */
bool qkv_family_scaling_has(const char *key);
const char *qkv_family_scaling_key(const char *ours);

/* Reads the next "KEY=VALUE" of a list. Returns false at its end. */
struct qkv_family_piece {
    char key[96], value[160];
};
bool qkv_family_next(const char **list, struct qkv_family_piece *piece);
/* The JSON of a value that is not "$KEY"; NULL: no memory. */
json_t *qkv_family_constant(const char *value);
/* The value of a key, "attn_config.alibi"; NULL: none. Borrowed. */
json_t *qkv_family_get(const json_t *config, const char *key);
/* Sets the value of a key, and makes the objects around it. Owns the value. Returns false without memory. */
bool qkv_family_put(json_t *root, const char *key, json_t *value);
/* Whether two values are the same number, text, flag or list. */
bool qkv_family_same(const json_t *a, const json_t *b);
/* Whether config.json has all values of a list. A value "!X" means any but X; a key "@NAME" means that files have a
 * tensor of that name. */
bool qkv_family_holds(const json_t *config, const char *when);
/* The value of "$KEY:TRANSFORM" for a spec: new; JSON null means the spec's own default. NULL: no memory, or the value
 * cannot be read, and *why says the reason. */
json_t *qkv_family_value(const json_t *config, const char *value, const char **why);
/* The reverse: the value of the key for a value of the spec; NULL: there is none. */
json_t *qkv_family_back(const struct qkv_spec *spec, const char *transform, const json_t *value);
/* The keys of config.json for as much of a spec as the family can express, as one class or as any (NULL); a new
 * object. */
json_t *qkv_family_keys(struct qkv_context *ctx, const struct qkv_family *family, const char *class,
                        const struct qkv_spec *spec);
/* Settings that turn one spec into another. */
enum { QKV_FAMILY_SETTINGS = 40 };
struct qkv_family_setting {
    char path[96], value[64], was[64]; /* "head.bias", "true", "false" */
    bool exact;                        /* with weights of zeros or copies it is the same model */
};
struct qkv_family_settings {
    size_t count;
    struct qkv_family_setting list[QKV_FAMILY_SETTINGS];
};
/* Adds the settings that turn `ours` into `theirs`, and counts the differences. Returns false if settings cannot do
 * it. `room`, for a kind of layer of each stack, is overwritten. */
bool qkv_family_differences(const struct qkv_spec *ours, const struct qkv_spec *theirs, struct qkv_layer_spec room[2],
                            struct qkv_family_settings *settings, size_t *count);
/* The spec with the settings applied. Fails with QKV_SPEC or QKV_ARGUMENT where a setting is refused. */
enum qkv_status qkv_family_apply(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_family_settings *settings, struct qkv_spec *out);
/* The value of a spec at a path, for kind `kind` of its stacks; NULL: none, or no memory. */
json_t *qkv_family_of_spec(const struct qkv_spec *spec, const char *path, int kind);

#endif
