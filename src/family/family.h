/* family: published families of models: what their config.json and their tensors mean.
 *
 * A family is one file, mostly a table, and a line in QKV_FAMILY_LIST. The table is read both ways: from config.json to a spec and back,
 * and from the tensors of a family to ours and back. What a table says is checked by the way: a config.json that is written for a spec
 * is read again, and must give that very spec.
 *
 * Lists in tables are texts, "KEY=VALUE; KEY=VALUE". A value is JSON with ' for ", or "$KEY", the value of a key of config.json, or
 * "$KEY:TRANSFORM" (QKV_FAMILY_TRANSFORMS in family_values.c). Paths of a spec begin with a stack; "*" stands for every stack of the family. */
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

/* What a config.json says in one way of several. */
struct qkv_family_rule {
    const char
        *when; /* of a choice with a key its value, "'gelu'"; else a list of values of keys; NULL ends the rules */
    const char *then; /* of the spec */
};
/* The first rule whose values are those of config.json; there must be one. */
struct qkv_family_choice {
    const char *key; /* NULL: rules name their keys; "" ends the choices */
    const struct qkv_family_rule *rules;
};
/* A kind of layer: its value in the list of layers, its name in the spec, and what it has of its own, "attention.window=$sliding_window". */
struct qkv_family_kind {
    const char *value, *name, *then;
};
struct qkv_family_layers {
    const char *list; /* the key with a value for each layer; NULL: there is none */
    const struct qkv_family_kind *kinds;
    /* the kind of a layer, whose value in the list is that of kind `listed`, or -1 where there is no list; NULL: as
     * listed, or 0. -1: it may not be what the list says */
    int (*kind)(const json_t *config, int layer, int listed);
    /* sets the keys that say what is one, beside a list or without, of the values of all layers, or, beside a list, of
     * their names; what they cannot say is found out later */
    void (*write)(json_t *config, const json_t *values);
    /* keys that `kind` reads: whole numbers, and a list, of layers or of a type for each; NULL: none */
    const char *numbers[2], *layers;
};

/* How rows of several of our weights stand in one tensor of theirs. */
enum qkv_family_order {
    QKV_FAMILY_PARTS = 0, /* all rows of one after all of another; of a single weight: as they are */
    QKV_FAMILY_HEADS,     /* all parts of a head, then the next: q, k and v (heads, 3, D), or k and v (heads, D + Dv) */
    QKV_FAMILY_GROUPS,    /* the queries of a key-value head, its key, its value (kv_heads, H/kv_heads + 2, D) */
    QKV_FAMILY_IN_TURNS   /* the first row of each, the second of each */
};
enum {
    QKV_FAMILY_TRANSPOSED = 1, /* (in, out) */
    QKV_FAMILY_LEADING = 2,    /* a dimension of 1 stands before */
    QKV_FAMILY_PATCHES = 4,    /* (out, channels, patch, patch) */
    QKV_FAMILY_FLAT = 8,       /* the one row of a matrix, as a vector */
    QKV_FAMILY_STACKED = 16,   /* those of all experts, one after the other, along a dimension before */
    QKV_FAMILY_BUFFER = 32     /* no parameter there: it does not learn */
};
struct qkv_family_tensor {
    /* "attn.q": of all layers, with its bias; several with commas. "encoder:attn.q": of that stack; "attn.q.bias": the bias alone. NULL ends
     * the tensors */
    const char *ours;
    /* without .weight and .bias, unless it begins with "="; {N} is the layer, {G} the group of layers that share weights, {S} the stack,
     * {E} the expert */
    const char *theirs;
    enum qkv_family_order order;
    unsigned flags;
    const char *when; /* a list of values of config.json; NULL: always */
};

struct qkv_family {
    const char *type; /* model_type, with commas where there are several */
    /* the classes that it reads, the first one being that of a config.json without; commas. What a name ends with is
     * the key `class` of tables: "ForTokenClassification" of BertForTokenClassification, "Model" of BertModel
     * (family_classes.c) */
    const char *architectures;
    const char *classes; /* of that key: classes that are read as another one, "ForPreTraining=ForMaskedLM" */
    const char *stacks;  /* "decoder", "encoder" or "encoder decoder" */
    /* other names of keys, "n_ctx=n_positions": theirs, then the one that tables have; "!": theirs wins over it */
    const char *aliases;
    const char *defaults; /* what a key is where config.json has none */
    const char *needs;    /* keys with the only value that can be read */
    const char *idle;     /* keys that change nothing, beside those of all families: patterns with spaces; NULL: none */
    const char *spec;     /* what all of them have */
    /* where layers with and without a window are rotated each in their own way, the keys of their bases; NULL: all in
     * one way */
    const char *rotations[2];
    bool
        scaling_of_all; /* the rope_scaling of older files is for both of them, not for layers without a window alone */
    const struct qkv_family_choice *choices; /* NULL: none */
    const struct qkv_family_layers *layers;  /* NULL: all layers are alike */
    const struct qkv_family_tensor *tensors; /* its own; NULL: none */
    const struct qkv_family_tensor
        *others;                 /* those of a table that it shares, for what its own do not have; NULL: none */
    const char *prefix;          /* begins names that files of the base model do not begin with; NULL: none */
    const char *question_prefix; /* what stands there in files of the class that answers questions; NULL: the same */
    const char
        *ignored;     /* patterns of tensors that are no weights, with spaces; "$KEY" in one is a number; NULL: none */
    const char *kept; /* those of the ignored that a folder of the same model has again, as a pooler; NULL: none */
    bool hidden_before_norm; /* what it calls its last hidden states is before the final norm */
    const char *tied; /* the tensor of a head that is left out where tie_word_embeddings is true; NULL: there is none */
};
#define QKV_FAMILY_DECLARE(name) extern const struct qkv_family qkv_family_##name;
QKV_FAMILY_LIST(QKV_FAMILY_DECLARE)
extern const struct qkv_family *const qkv_families[]; /* in the order of the list; ends with NULL */

/* Tables that families share (family_shared.c). */
extern const struct qkv_family_rule qkv_family_activations[], qkv_family_gates[], qkv_family_ties[],
    qkv_family_flags[], /* what kinds of layers ask for: true or false */
    qkv_family_gpt_scales[], qkv_family_attention_biases[], qkv_family_ffn_biases[], qkv_family_latent_biases[];
extern const struct qkv_family_tensor qkv_family_llama_tensors[], qkv_family_gemma_tensors[],
    qkv_family_deepseek_tensors[], qkv_family_bart_tensors[];
extern const struct qkv_family_rule qkv_family_t5_feed_forwards[], qkv_family_head_biases[];
/* The classes that are made of any decoder: a language model, classifiers of texts by their last token and of tokens,
 * answers to questions (two classes of tokens: where an answer begins, and where it ends), and the decoder alone. */
extern const struct qkv_family_rule qkv_family_decoder_classes[];
/* Their heads: a classifier of tokens is called `tokens`, the language model's `lm`. */
#define QKV_FAMILY_DECODER_HEADS(tokens, lm)                                                                           \
    {"head", "score", 0, 0, "class='ForSequenceClassification'"},                                                      \
        {"head", tokens, 0, 0, "class='ForTokenClassification'"},                                                      \
        {"head", "qa_outputs", 0, 0, "class='ForQuestionAnswering'"}, {                                                \
        "head", lm, 0, 0, NULL                                                                                         \
    }
/* The heads of encoders that have no layer before the scores: of tokens, of two classes of them, and none. */
#define QKV_FAMILY_CLASSIFY_TOKENS                                                                                     \
    "head.kind='classify_tokens'; head.classes=$id2label:count; head.bias=true; head.transform=null"
#define QKV_FAMILY_ANSWER "head.kind='classify_tokens'; head.classes=2; head.bias=true; head.transform=null"
#define QKV_FAMILY_BARE   "head.kind='none'; tie='none'"
/* The class that answers questions, and the names of its two classes of tokens. */
#define QKV_FAMILY_ANSWERS "ForQuestionAnswering"
extern const char *const qkv_family_answer[2];
/* What a language model alone has of a head: a classifier's scores are as they come. */
#define QKV_FAMILY_SCORES "tie='none'; head.scale=1.0; head.softcap=0.0"
/* The key `class` of an architecture; NULL: it ends with nothing that is known. And the first architecture of a family
 * that has a class, n bytes of its list; that of a config.json without where none has it. */
const char *qkv_family_class(const struct qkv_family *family, const char *architecture);
const char *qkv_family_architecture(const struct qkv_family *family, const char *class, size_t *n);
/* The matrix of a feed-forward has another name beside gates. */
#define QKV_FAMILY_T5_UNGATED                                                                                          \
    "feed_forward_proj=!'gated-gelu'; feed_forward_proj=!'gated-gelu_new'; feed_forward_proj=!'gated-silu'; "          \
    "feed_forward_proj=!'gated-relu'; feed_forward_proj=!'gated-tanh'; feed_forward_proj=!'gated-gelu_python'"
/* Every second layer with a window; those that a list names, all without one. Of Qwen: layers with a window; which
 * layers have experts, and how that is said. */
extern const struct qkv_family_layers qkv_family_even_windows, qkv_family_listed_windows, qkv_family_qwen_layers;
int qkv_family_qwen_sparse(const json_t *config, int layer, int listed);
void qkv_family_write_qwen_sparse(json_t *config, const json_t *values);
/* use_sliding_window: whether the name of a kind has "sliding" in it. */
void qkv_family_write_windows(json_t *config, const json_t *names);
/* Of DeepSeek: the first layers have no experts. */
bool qkv_family_first_dense(const json_t *config, int layer);
void qkv_family_write_first_dense(json_t *config, const json_t *values);
/* What LLaMA and those that came of it have in common, and their rotation, of a stack or of a kind of layer. */
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
/* A layer without experts among others with them; and what the latter have. Losses that balance experts are no part of a published
 * model. */
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
/* What BART and those that came of it have in common: the sizes of two stacks. */
#define QKV_FAMILY_BART_SPEC                                                                                           \
    "d_model=$d_model; head.kind='lm'; encoder.layers=$encoder_layers; decoder.layers=$decoder_layers; "               \
    "encoder.attention.heads=$encoder_attention_heads; decoder.attention.heads=$decoder_attention_heads; "             \
    "encoder.ffn.d_ff=$encoder_ffn_dim; decoder.ffn.d_ff=$decoder_ffn_dim; *.ffn.bias=true; "                          \
    "*.norm.kind='layernorm'; *.norm.eps=1e-5; vocab=$vocab_size; "
/* What BERT and those that came of it have in common: the encoder, its tensors under the name of the family, and what stands before the
 * scores of a masked language model, of that class. */
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
/* A masked language model whose scores have a table of their own. */
#define QKV_FAMILY_UNTIED(class)                                                                                       \
    { "class='" class "'; tie_word_embeddings=false", "tie='none'" }
#define QKV_FAMILY_UNTIED_END                                                                                          \
    {"tie_word_embeddings=true", ""}, {"tie_word_embeddings=false", ""}, {                                             \
        NULL, NULL                                                                                                     \
    }
/* Its tensors, under the names that the scores have, with the bias of the masked language model where the table has
 * none of its own. */
#define QKV_FAMILY_UNTIED_TENSORS(class, scores, bias_)                                                                \
    {"head.weight", scores, 0, 0, "class='" class "'; tie_word_embeddings=false"},                                     \
        {"head.bias", "=" bias_, 0, 0,                                                                                 \
         "class='" class "'; tie_word_embeddings=false; @" scores ".bias=false; @" bias_ "=true"},                     \
    {                                                                                                                  \
        "head.bias", scores, 0, 0, "class='" class "'; tie_word_embeddings=false"                                      \
    }
#define QKV_FAMILY_CHOICES_END                                                                                         \
    { "", NULL }

/* A config.json that is read: its family, and its keys under the names that tables have, with defaults. */
struct qkv_family_config {
    const struct qkv_family *family;
    json_t *keys;
    size_t block[2]; /* rows and columns that have one scale, of matrices in 8 bits; 0: there are none */
    bool packed;     /* experts may be in MXFP4 */
    /* Of a folder that was read: tensors that are none of the weights and are written again. Owned by the model's
     * origin. */
    struct qkv_array *kept; /* names and data are on the heap */
    size_t kept_count;
    /* written for a model that has less, biases of zeros or the like: what the family has of it; NULL: the same.
     * Owned */
    struct qkv_spec *whole;
};
void qkv_family_config_free(struct qkv_family_config *config);

/* Whether a JSON object is the config.json of a published model, and no spec. */
bool qkv_family_is_config(const json_t *root);
/* Whether a file has a tensor of that name. */
typedef bool qkv_family_has(const void *user, const char *name);
/* The spec of a config.json, whose name is for messages. QKV_FORMAT: no known family; QKV_SPEC: what cannot be read, with the key. */
enum qkv_status qkv_family_read(struct qkv_context *ctx, const char *name, const json_t *root, qkv_family_has *has,
                                const void *user, struct qkv_family_config *config, struct qkv_spec *spec);
/* A config.json for a spec: of the family of that type, or with NULL of the first one that has all of it, else of one
 * that has more which weights of zeros or copies fill (config->whole); of the class where one has it as that (NULL: of
 * any). QKV_SPEC: there is none; the sentence says what the nearest one has otherwise, each difference with the setting
 * that avoids it. */
enum qkv_status qkv_family_write(struct qkv_context *ctx, const char *type, const char *class,
                                 const struct qkv_spec *spec, struct qkv_family_config *config);
/* Its text: `format` is the number format of the matrices, "bfloat16". The caller's, freed with free(); NULL: no memory. */
char *qkv_family_text(struct qkv_context *ctx, const struct qkv_family_config *config, const char *dtype);

/* Where a weight of ours stands in a tensor of theirs. */
enum { QKV_FAMILY_NAME = 200 };
struct qkv_family_view {
    char name[QKV_FAMILY_NAME]; /* theirs */
    enum qkv_family_order order;
    unsigned flags;
    size_t part, parts;
    size_t rows, before, total; /* its own rows, those of the parts before, and of all */
    size_t heads, kv_heads, head_dim;
    size_t slice, slices; /* of stacked ones: which expert, of how many; else 0 of 1 */
};
/* Of the weight called `ours`, of `rows` rows; false: the family has none such. */
bool qkv_family_view(const struct qkv_family_config *config, const struct qkv_spec *spec, const char *ours, size_t rows,
                     struct qkv_family_view *view);
/* The row of theirs that row r of ours is. */
size_t qkv_family_row(const struct qkv_family_view *view, size_t r);
/* The shape of theirs, where ours has that one, and view->total rows of it. */
void qkv_family_shape(const struct qkv_family_view *view, const struct qkv_array *ours, const struct qkv_spec *spec,
                      struct qkv_array *theirs);
/* Whether a tensor of a file is none of the weights, and to be left out. */
bool qkv_family_ignores(const struct qkv_family_config *config, const char *name);
/* Whether one that is left out is written again with the model, and under which name. */
bool qkv_family_keeps(const struct qkv_family_config *config, const char *name, char out[QKV_FAMILY_NAME]);
/* Another name that a tensor may have in files, of those with number i; false: there is none. */
bool qkv_family_name(const struct qkv_family_config *config, const char *name, size_t i, char out[QKV_FAMILY_NAME]);

/* The tensors of a family that a model's weights are, as they are stored or in fp32, or their gradients, of those that
 * learn. Those that are put together of weights have no numbers before they are made. */
struct qkv_family_array {
    struct qkv_array array; /* data NULL: not made */
    char *name;
    void *memory; /* the numbers, where they are not the model's */
    size_t first; /* 1 + the weight that they begin with in the model's list; 0: the array shows the model's numbers */
};
struct qkv_family_arrays {
    struct qkv_model *model;
    const struct qkv_family_config *config;
    bool gradients;
    struct qkv_family_array *list;
    size_t count, capacity;
    size_t *next; /* of each weight, 1 + the next one of the same array; 0: none */
};
/* Finds out which there are; qkv_family_arrays_free frees them, on failure too. The config must outlive them. QKV_SPEC:
 * the family has no place for a weight. */
enum qkv_status qkv_family_arrays(struct qkv_model *model, const struct qkv_family_config *config, bool gradients,
                                  struct qkv_family_arrays *out);
/* Makes the numbers of one, where it has none; and frees those that were made. */
enum qkv_status qkv_family_array_make(const struct qkv_family_arrays *arrays, size_t i);
void qkv_family_array_drop(const struct qkv_family_arrays *arrays, size_t i);
void qkv_family_arrays_free(struct qkv_family_arrays *arrays); /* harmless on {0} */

/* ---- for the files of this room ---- */
/* A config.json on its way to a spec. */
struct qkv_family_reading {
    struct qkv_context *ctx;
    const char *name; /* of the file, for messages */
    const struct qkv_family *family;
    const json_t *root; /* the file, */
    json_t *config;     /* and its keys under the names that tables have */
    json_t *spec;
    json_t *paths; /* the key that a path of the spec has its value of, for messages */
};
/* QKV_SPEC: a sentence with the key, its value, and what models of the family can have instead. */
enum qkv_status qkv_family_refuse(const struct qkv_family_reading *r, const char *key, const char *instead);
/* The same of a choice of which no rule holds: the values that it asks about, and those that rules have. */
enum qkv_status qkv_family_refuse_choice(const struct qkv_family_reading *r, const struct qkv_family_choice *choice);
/* Whether a table reads a key of config.json. */
bool qkv_family_reads(const struct qkv_family *family, const char *key);
/* Whether it reads a key, or the key is known to change nothing. */
bool qkv_family_knows(const struct qkv_family *family, const char *key);
/* Refuses a key that is neither read nor known to change nothing, but those whose names are about something else:
 * QKV_SPEC. */
enum qkv_status qkv_family_check_keys(const struct qkv_family_reading *r);
/* A message about a spec in the words of the config.json that it came of. Freed with free(); NULL: no memory. */
char *qkv_family_reword(const struct qkv_family_reading *r, const char *message);
/* Rotations become the keys of tables; those of layers with and without a window, where each have their own, these
 * two. */
#define QKV_FAMILY_FULL_SCALING  "@full_scaling"
#define QKV_FAMILY_LOCAL_SCALING "@local_scaling"
enum qkv_status qkv_family_spell_rotations(const struct qkv_family_reading *r);
/* The other way round, for a file. */
void qkv_family_write_rotations(const struct qkv_family *family, json_t *config);
/* Whether a key is one of a scaled rotation; and the other way round, the key for one of a scaling of a spec. NULL:
 * there is none. */
bool qkv_family_scaling_has(const char *key);
const char *qkv_family_scaling_key(const char *ours);

/* The next "KEY=VALUE" of a list; false at its end. */
struct qkv_family_piece {
    char key[96], value[160];
};
bool qkv_family_next(const char **list, struct qkv_family_piece *piece);
/* The JSON of a value that is none of "$KEY"; NULL: no memory. */
json_t *qkv_family_constant(const char *value);
/* The value of a key, "attn_config.alibi"; NULL: none. Borrowed. */
json_t *qkv_family_get(const json_t *config, const char *key);
/* Sets it, with the objects on the way; takes the value. False: no memory. */
bool qkv_family_put(json_t *root, const char *key, json_t *value);
/* The same number, text, flag, list. */
bool qkv_family_same(const json_t *a, const json_t *b);
/* Whether config.json has the values of a list; a value "!X" is any but X, a key "@NAME" says whether files have that tensor. */
bool qkv_family_holds(const json_t *config, const char *when);
/* "$KEY:TRANSFORM" of config.json for a spec: a new value, JSON null where the spec's own default is meant; NULL: no memory, or it cannot be
 * had, which *why then says. */
json_t *qkv_family_value(const json_t *config, const char *value, const char **why);
/* The other way round: the value of the key for what the spec has; NULL: there is none. */
json_t *qkv_family_back(const struct qkv_spec *spec, const char *transform, const json_t *value);
/* Keys that have of a spec what the family can say, as that class or as any (NULL); a new object. */
json_t *qkv_family_keys(struct qkv_context *ctx, const struct qkv_family *family, const char *class,
                        const struct qkv_spec *spec);
/* Settings that make of one spec another. */
enum { QKV_FAMILY_SETTINGS = 40 };
struct qkv_family_setting {
    char path[96], value[64], was[64]; /* "head.bias", "true", "false" */
    bool exact;                        /* weights that are added, zeros or copies, give the same model */
};
struct qkv_family_settings {
    size_t count;
    struct qkv_family_setting list[QKV_FAMILY_SETTINGS];
};
/* Adds the settings that a spec lacks to be `theirs`, and counts them; false: settings cannot make it so. */
bool qkv_family_differences(const struct qkv_spec *ours, const struct qkv_spec *theirs,
                            struct qkv_family_settings *settings, size_t *count);
/* The spec with settings. QKV_SPEC, QKV_ARGUMENT: they are refused. */
enum qkv_status qkv_family_apply(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_family_settings *settings, struct qkv_spec *out);
/* What a spec has at a path, kind `kind` of its stacks; NULL: nothing, or no memory. */
json_t *qkv_family_of_spec(const struct qkv_spec *spec, const char *path, int kind);

#endif
