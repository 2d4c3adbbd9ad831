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
    X(gpt_bigcode)                                                                                                     \
    X(olmo)                                                                                                            \
    X(olmo3)                                                                                                           \
    X(cohere2)                                                                                                         \
    X(gpt_neo)                                                                                                         \
    X(glm)                                                                                                             \
    X(glm4)                                                                                                            \
    X(glm4_moe)                                                                                                        \
    X(minimax_m2)                                                                                                      \
    X(ernie4_5)                                                                                                        \
    X(ernie4_5_moe)                                                                                                    \
    X(exaone4)                                                                                                         \
    X(seed_oss)                                                                                                        \
    X(stablelm)                                                                                                        \
    X(granitemoe)                                                                                                      \
    X(granitemoeshared)                                                                                                \
    X(dots1)                                                                                                           \
    X(arcee)                                                                                                           \
    X(helium)                                                                                                          \
    X(vaultgemma)                                                                                                      \
    X(eurobert)                                                                                                        \
    X(modernbert_decoder)                                                                                              \
    X(mpnet)                                                                                                           \
    X(megatron_bert)                                                                                                   \
    X(roberta_prelayernorm)                                                                                            \
    X(nomic_bert)                                                                                                      \
    X(clip_text)                                                                                                       \
    X(m2m_100)                                                                                                         \
    X(mbart)                                                                                                           \
    X(pegasus)                                                                                                         \
    X(blenderbot)                                                                                                      \
    X(xglm)                                                                                                            \
    X(biogpt)                                                                                                          \
    X(codegen)                                                                                                         \
    X(nemotron)                                                                                                        \
    X(hunyuan_v1_dense)                                                                                                \
    X(ministral3)                                                                                                      \
    X(llama4)                                                                                                          \
    X(phimoe)                                                                                                          \
    X(umt5)                                                                                                            \
    X(umt5_encoder)                                                                                                    \
    X(blenderbot_small)                                                                                                \
    X(esm)

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
    /* keys that `kind` reads: whole numbers, and lists of layers (with spaces between them) or of one type per layer;
     * NULL: none */
    const char *numbers[3], *layers;
};

/* The order in which rows of several of our weights are in one tensor of theirs. */
enum qkv_family_order {
    QKV_FAMILY_PARTS = 0, /* all rows of one weight, then all rows of the next; a single weight keeps its order */
    QKV_FAMILY_HEADS,     /* head by head: q, k and v of one head (heads, 3, D), or k and v (heads, D + Dv) */
    QKV_FAMILY_GROUPS,    /* the queries of a key-value head, its key, its value (kv_heads, H/kv_heads + 2, D) */
    QKV_FAMILY_IN_TURNS,  /* the first row of each weight, then the second row of each */
    QKV_FAMILY_SHARDS,    /* a quarter of each weight, then the second quarter of each, and so on */
    QKV_FAMILY_PAIRS      /* in each head, rows that are rotated together are neighbours */
};
enum {
    QKV_FAMILY_TRANSPOSED = 1,  /* (in, out) */
    QKV_FAMILY_LEADING = 2,     /* with a first dimension of 1 */
    QKV_FAMILY_PATCHES = 4,     /* (out, channels, patch, patch) */
    QKV_FAMILY_FLAT = 8,        /* a matrix of one row, as a vector */
    QKV_FAMILY_STACKED = 16,    /* all experts in one tensor, with a first dimension of experts */
    QKV_FAMILY_BUFFER = 32,     /* not a parameter in the family: it is frozen */
    QKV_FAMILY_PLUS_ONE = 64,   /* 1 + the numbers */
    QKV_FAMILY_BY_HEAD = 128,   /* with a first dimension of heads; QKV_FAMILY_TRANSPOSED: each head is (in, out) */
    QKV_FAMILY_EXCHANGED = 256, /* adapters of PEFT have a and b of it exchanged */
    QKV_FAMILY_PARAMETER = 512, /* a parameter of its module, which is no linear layer: PEFT adapts it as one */
    QKV_FAMILY_APART = 1024     /* each row of a norm is a tensor, whose number is {R} */
};
struct qkv_family_tensor {
    /* "attn.q": of all layers, with its bias; several weights with commas. "encoder:attn.q": of that stack only.
     * "attn.q.bias": the bias only. NULL ends the tensors */
    const char *ours;
    /* without .weight and .bias, unless it begins with "="; {N} is the layer, {G} the group of layers that share
     * weights, {S} the stack, {E} the expert, {R} the row */
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
    /* keys of rope_scaling that only this family has, which tables read as keys of config.json: patterns with spaces;
     * NULL: none */
    const char *rotation_keys;
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
/* A published model of several parts, whose text model is that of a family: config.json has the text model's keys in
 * text_config, and tensors have a first part of their names. The other parts are left out. */
struct qkv_family_parts {
    const char *type; /* model_type of the whole, "gemma3" */
    /* model_type of text_config, and the text model's family, "qwen2_vl_text=qwen2; …"; the first one is that of a
     * file that names none */
    const char *texts;
    const char *defaults;      /* of keys of text_config, where they are not the family's; NULL: they are */
    const char *architectures; /* the class */
    const char *keys;          /* keys of the other parts, and of how parts are joined: patterns with spaces */
    const char *names;         /* first parts of names, "language_model.model.=model.": the files', the family's */
    const char *others;        /* tensors of the other parts: patterns with spaces */
};
#define QKV_FAMILY_DECLARE(name) extern const struct qkv_family qkv_family_##name;
QKV_FAMILY_LIST(QKV_FAMILY_DECLARE)
extern const struct qkv_family *const qkv_families[]; /* in the order of the list; ends with NULL */

/* The class that answers questions, and the names of its two classes of tokens. */
#define QKV_FAMILY_ANSWERS "ForQuestionAnswering"
extern const char *const qkv_family_answer[2];
/* The key `class` of an architecture; NULL: the end of the name is not known. The second function returns the first
 * architecture of a family that has a class, *n bytes of its list; that of a config.json without a class if none has
 * it. */
const char *qkv_family_class(const struct qkv_family *family, const char *architecture);
const char *qkv_family_architecture(const struct qkv_family *family, const char *class, size_t *n);

/* A config.json that was read: its family, and its keys under the names of tables, with defaults. */
struct qkv_family_config {
    const struct qkv_family *family;
    json_t *keys;
    size_t block[2]; /* rows and columns of a block with one scale, for matrices in 8 bits; 0: none */
    bool packed;     /* experts may be in MXFP4 */
    /* the files are GGUF: the architecture, whose names and orders tensors have; NULL: they are not, or are our own */
    const struct qkv_family_gguf *gguf;
    const struct qkv_family_parts *parts; /* the files have other parts too; NULL: they do not */
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
    char name[QKV_FAMILY_NAME]; /* theirs; of tensors that are rows, with {R} */
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
/* Of a view with QKV_FAMILY_APART, the name of the tensor that is row r. */
void qkv_family_row_name(const struct qkv_family_view *view, size_t r, char out[QKV_FAMILY_NAME]);
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
/* The model of several parts that a config.json describes; NULL: none. The second function returns the i-th one that
 * can be read; NULL past the last. */
const struct qkv_family_parts *qkv_family_parts_of(const json_t *root);
const struct qkv_family_parts *qkv_family_parts_at(size_t i);
/* Whether a tensor belongs to a part that is left out. */
bool qkv_family_is_other_part(const struct qkv_family_config *config, const char *name);
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
    json_t *paths;                        /* for messages: the key whose value a path of the spec has */
    const struct qkv_family_parts *parts; /* the file has other parts too; NULL: it does not */
};
/* For a config.json of several parts: the keys of its text model, a new object for the caller to free, and the parts;
 * else NULL and NULL. */
enum qkv_status qkv_family_take_text(const struct qkv_family_reading *r, qkv_family_has *has, const void *user,
                                     const struct qkv_family_parts **parts, json_t **out);
/* The i-th name that a tensor of the text model has in files with other parts. Returns false: there are no more. */
bool qkv_family_parts_name(const struct qkv_family_parts *parts, const char *name, size_t i, char out[QKV_FAMILY_NAME]);
/* Whether a key or a name matches one of several patterns with spaces between them. */
bool qkv_family_patterns_have(const char *patterns, const char *key);
/* Whether a key with this value, which no table reads, may change what a model computes. */
bool qkv_family_may_matter(const char *key, const json_t *value);
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
/* The base of layers with a window, where only rope_parameters has it. */
#define QKV_FAMILY_LOCAL_THETA "@local_theta"
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
