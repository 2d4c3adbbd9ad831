/* model: a spec with weights, and the passes over it.
 *
 * This header offers the model with its named weights, tables of positions, the forms of blocks, the forward pass of a
 * stack (one function for training, evaluation and decoding with a cache), and the exact memory of plans. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include "attention/attention.h"
#include "base/base.h"
#include "op/op.h"
#include "qkv/generate.h"

/* ---- weights (params.c) ----------------------------------------------------------------------------------------- */

struct qkv_attention {
    struct qkv_norm norm, out_norm; /* weight.data NULL: absent */
    struct qkv_attention_parameters parameters;
};
struct qkv_ffn {
    struct qkv_norm norm, out_norm;
    struct qkv_linear up; /* gated: gate and up in one (2·F, C) */
    struct qkv_linear down;
    /* NULL: none; with experts, up and down are those of the shared expert, if there is one */
    struct qkv_experts *experts;
};
struct qkv_experts {
    struct qkv_linear router;
    struct qkv_tensor correction, shared_gate; /* data NULL: absent */
    struct qkv_expert_weights weights;
    uint64_t *loads; /* (count): rows that went to each expert, in recorded passes, since the counts were cleared */
};
struct qkv_layer {
    struct qkv_attention self, cross; /* cross.parameters.o.weight.data NULL: no cross attention */
    struct qkv_ffn ffn;
    /* The layer whose keys and values self attention reads, mostly the layer itself; and the end of the layers that
     * read those of this layer, the last one + 1. Layers that share weights have their own. */
    size_t keys_of, keys_end;
    struct qkv_distance_weights distances; /* where its position is per_layer */
};

/* The first products of a stack that reads no tokens. Patches and vectors: `first`. Frames: both convolutions. */
struct qkv_stack_input {
    struct qkv_linear first, second;
    struct qkv_tensor class_token;
};
struct qkv_stack {
    const struct qkv_stack_spec *spec;
    const char *name; /* "encoder" or "decoder" */
    bool has_cross;
    struct qkv_tensor *token;                        /* shared when tied */
    struct qkv_tensor token_storage, position, type; /* data NULL: absent, also for the next two */
    struct qkv_norm embed_norm;
    struct qkv_linear project;
    struct qkv_layer *layers;         /* a layer that shares another's weights is empty: use qkv_layer_weights */
    struct qkv_stack_input input;     /* of a stack that reads no tokens; its `token` has no data */
    struct qkv_norm norm;             /* final; weight.data NULL: absent */
    struct qkv_position_tables embed; /* added to the embedding */
    /* The tables of attention, per kind of layer; kinds with equal settings have the same tables. */
    struct qkv_position_tables tables[QKV_KINDS_MAX];
    struct qkv_distance_weights distances; /* of kinds whose layers share them */
};

/* The weights of a layer, which other layers may share. */
struct qkv_layer *qkv_layer_weights(const struct qkv_stack *stack, size_t layer);

/* A mapped file that weights are read from; the model closes it. */
struct qkv_model_file {
    struct qkv_weight_source source;
    void *owner;
    size_t memory; /* bytes that the file's owner has taken for repacked weights */
    enum qkv_status (*check)(struct qkv_context *ctx,
                             const void *owner); /* fails with QKV_FILE if the file has changed */
    void (*close)(void *owner);
};

/* The parts of a spec that a model has: all parts, except in the model of a module. */
struct qkv_model_parts {
    uint64_t roles;                /* which weights there are: bits of enum qkv_role */
    bool given_memory;             /* the decoder has cross attention without an encoder */
    size_t key_width, value_width; /* inputs of k and v of cross attention; 0: the model's width */
    size_t out_width;              /* outputs of o; 0: the model's width */
    /* new matrices are normal with standard deviation 1/sqrt(columns), and spec.init is not read */
    bool starts_by_columns;
};

/* Where a published model comes from: its family (the room family), and why its tokenizer is missing. */
struct qkv_model_origin {
    void *family; /* NULL: not a published model */
    void (*free)(void *family);
    char *tokenizer; /* why it cannot be read; NULL: it can, or the folder has none */
    char *warning;   /* a fault of the folder that changes nothing; NULL: none */
    char *gguf;      /* the path of the GGUF file whose keys have the model's tokenizer; NULL: none has */
};

/* The settings of generation in a model's folder; names are those of struct qkv_token_rules and of
 * struct qkv_search_options. 0 is a length or a beam that the folder does not name. */
enum { QKV_GENERATION_IDS = 1024, QKV_GENERATION_UNREAD = 256 };
struct qkv_model_generation {
    bool given; /* the folder has some; else all other fields are those of qkv_model_generation_clear */
    struct qkv_sampling sampling;
    int32_t ends[QKV_TOKEN_ENDS];
    size_t end_count;
    int32_t start, first; /* the token that targets begin with, and the one that must follow; −1: not set */
    size_t beams, max_length, max_tokens;
    double length_penalty;
    enum qkv_stopping stopping;
    size_t min_length, min_tokens, no_repeat, source_no_repeat;
    double source_penalty;
    int32_t last[QKV_TOKEN_ENDS], suppressed[QKV_GENERATION_IDS], suppressed_first[QKV_GENERATION_IDS];
    size_t last_count, suppressed_count, suppressed_first_count;
    int32_t bad_words[QKV_GENERATION_IDS]; /* a −1 after each */
    size_t bad_word_ids;
    char unread[QKV_GENERATION_UNREAD]; /* keys that would change texts, with commas between them */
};
/* Sets the settings of a folder that has none. */
void qkv_model_generation_clear(struct qkv_model_generation *generation);

/* A dense layer after the pooling: act(W·x + b), plus x if it has a residual, or plus R·x. Its numbers are heap memory
 * in fp32; a planned model has none of them, but the open file that they are read from. */
struct qkv_model_dense {
    size_t in, out;
    bool normalize; /* x is scaled to length 1 first */
    bool residual;  /* without a shortcut x itself is added, and in equals out */
    bool has_bias, has_shortcut;
    int activation;                  /* enum qkv_ffn_kind; −1: none */
    float *weight, *bias, *shortcut; /* W (out,in), b (out) or NULL, R (out,in) or NULL */
    struct qkv_model_file file;      /* owner NULL: the numbers are read */
};
/* A named text that is put before texts. */
struct qkv_model_prompt {
    char *name, *text;
};

/* How a folder makes vectors of texts (modules.json). */
struct qkv_model_pooling {
    bool given; /* the folder says so; else all other fields are unused */
    enum qkv_pool pool;
    bool normalize;
    size_t most;                   /* the maximum number of tokens of a text, the rest is cut off; 0: the context */
    bool without_prompt;           /* the tokens of a prompt are not pooled */
    struct qkv_model_dense *dense; /* dense layers after the pooling, in order */
    size_t dense_count;
    struct qkv_model_prompt *prompts;  /* sorted by name */
    size_t prompt_count, prompt_usual; /* prompt_usual: the default prompt; prompt_count: none */
    char *settings;                    /* the text of the file with the prompts; NULL: there was none */
};
/* Frees and clears it (model_pooling.c). */
void qkv_model_pooling_free(struct qkv_model_pooling *pooling);
/* Bytes of the numbers of all dense layers. */
size_t qkv_model_dense_bytes(const struct qkv_model_pooling *pooling);
/* Applies all dense layers to *x, heap memory of (rows, width before them), which becomes (rows, width behind them).
 * Fails with QKV_MEMORY. (model_dense.c) */
enum qkv_status qkv_model_dense_apply(struct qkv_context *ctx, const struct qkv_model_pooling *pooling, size_t rows,
                                      float **x);
/* Divides C numbers by their length if `normalize` is true and the length is not 0. Returns false if a number is not
 * finite. */
bool qkv_vector_normalize(float *x, size_t C, bool normalize);

/* How the adapter of a model was made, as its file says. */
struct qkv_adapter_settings {
    size_t rank;
    double alpha, dropout;
    bool rank_stabilised, dora;
    char *targets; /* with commas between them */
    char *base;    /* where the model is from; NULL: not known */
};

/* Who uses a model (share.c). qkv_model_share makes a struct of its own for another context, a copy: everything that
 * its pointers lead to belongs to the first one and is read-only. */
struct qkv_model_sharing {
    struct qkv_model *first; /* the model that owns everything; itself, unless it is a share */
    size_t users;            /* sessions, passes and so on that compute with this struct */
    bool freed;              /* the caller has freed it; its users have not yet ended */
    /* Of the first one. references: its own, and one of each share. state: shares, or minus the number of users that
     * train it. */
    atomic_size_t references;
    atomic_int state;
};

/* Adapters with names. A model has these, or one adapter without a name. */
struct qkv_model_named {
    struct qkv_model_adapter **list; /* (count); the number of an adapter is its place here */
    size_t count;
    struct qkv_adapter_run *every; /* (count): all rows with each of them in turn, as a plan has them */
};

/* What the latest export cost the matrices that an adapter was merged into: their errors, and how much the adapter had
 * changed them, both relative to their lengths. */
struct qkv_merge_cost {
    size_t count;
    double error, worst, change; /* sums, except the worst error */
    const char *name;            /* of the worst matrix */
};

struct qkv_model {
    struct qkv_context *ctx;
    struct qkv_model_sharing sharing;
    struct qkv_adapter_run chosen;     /* the adapter of all rows of passes of this struct; count 0: none */
    const struct qkv_adapter_run *now; /* that of what an engine computes now, in place of `chosen`; NULL: it is not */
    /* Shares have a copy of what follows, and their own of what is above. */
    enum qkv_precision precision; /* of its products and attention, and of the usual types of its caches */
    struct qkv_spec spec;
    bool planned; /* it has names and shapes only, and arena.peak is the memory that it would take */
    struct qkv_model_parts parts;
    /* Page types of caches that begin from now on; NULL: the usual ones. */
    struct qkv_page_types cache_types;
    struct qkv_arena arena;                   /* weights, then tables */
    struct qkv_arena gradients;               /* base NULL until the first training pass */
    struct qkv_weights weights;               /* with an adapter, those of the adapter: what learns and is saved */
    struct qkv_model_adapter *adapter;        /* has the model's own weights then (qkv_model_base); NULL: none */
    struct qkv_model_named named;             /* adapters with names, which rows of a pass choose */
    struct qkv_model_file file;               /* owner NULL: all weights are in memory, in fp32 */
    bool in_place;                            /* products read stored weights in the file: none is packed */
    struct qkv_arena learned;                 /* weights that qkv_model_to_fp32 has converted */
    struct qkv_arena packed_arena;            /* weights packed in bf16; empty in fp32 */
    struct qkv_packed_weight *packed_weights; /* in packed_arena, or NULL */
    uint64_t packed_changes;                  /* 1 more than `changes` of the weights that were packed; 0: none were */
    struct qkv_arena packed_back;             /* the head packed for backward; empty until the first training pass */
    struct qkv_packed_weight head_back;       /* in packed_back */
    bool dirty;                               /* a pass has begun to add to the gradients since they were cleared */
    struct qkv_stack encoder, decoder;        /* spec NULL: absent */
    struct qkv_tensor *head_weight;           /* NULL: head none */
    struct qkv_linear head;                   /* weight.data NULL: tied */
    struct qkv_linear head_transform;         /* weight.data NULL: absent */
    struct qkv_norm head_norm;                /* after head_transform */
    struct qkv_tokenizer *tokenizer, *source_tokenizer; /* source_tokenizer NULL: sources use `tokenizer` */
    char **labels;                                      /* the names of the classes, or NULL */
    size_t label_count;
    struct qkv_model_origin origin;
    struct qkv_model_generation generation;
    struct qkv_model_pooling pooling;
    struct qkv_merge_cost merge_cost;
};

/* ---- adapters (adapter.c) ---------------------------------------------------------------------------------------- */

/* What is adapted: `count` weights from index `weight` of the list on, which are rows of one operand, one under the
 * other; and the rank and the scale of the product that is added to them. */
struct qkv_adapted {
    size_t weight, count, rank;
    float scale;
};
struct qkv_model_adapter {
    char *name;               /* NULL: the model's one adapter */
    struct qkv_weights base;  /* the model's own weights, all frozen; with a name, the weights of the adapter */
    bool *learned;            /* (base.count): which of them were trainable before */
    struct qkv_arena arena;   /* of its numbers */
    struct qkv_adapter *list; /* of adapted operands */
    size_t count;
    struct qkv_adapter_part *parts; /* of all operands */
    struct qkv_tensor **operands;
    struct qkv_adapted *adapted; /* (part_count): of each part, by rising weight */
    size_t part_count;
    uint64_t normed; /* 1 more than `changes` of its weights that the norms are of; 0: there are none yet */
    struct qkv_adapter_settings settings;
};
/* Gives a model a new adapter, with numbers if it is not planned: a random as `seed` says, b zero. `adapted` has rising
 * weights, each of which qkv_adapter_fits. settings.targets is copied. name NULL: it is the model's one adapter, else
 * one that rows choose. Fails with QKV_ARGUMENT if the model has another adapter, or one of that name, or is in use. */
enum qkv_status qkv_model_adapt(struct qkv_model *model, const char *name, const struct qkv_adapted *adapted,
                                size_t count, const struct qkv_adapter_settings *settings, uint64_t seed);
/* Takes the one adapter away, or the latest one with a name; the model is as it was before. */
void qkv_model_drop_adapter(struct qkv_model *model);
/* Takes all adapters away. */
void qkv_model_drop_adapters(struct qkv_model *model);
/* Computes the norms of adapters with magnitudes whose weights have changed. */
void qkv_model_norm_adapters(struct qkv_model *model);
/* The adapter that was given last. */
struct qkv_model_adapter *qkv_model_newest_adapter(const struct qkv_model *model);
/* Fails with QKV_ARGUMENT if a text cannot be a name of an adapter. (adapter_choice.c, as the next two) */
enum qkv_status qkv_adapter_check_name(struct qkv_context *ctx, const char *name);
/* The run of all rows that choose the adapter of that name, or none for NULL and "". Fails with QKV_ARGUMENT, and lists
 * the names, if there is no such adapter. */
enum qkv_status qkv_model_find_adapter(const struct qkv_model *model, const char *name, struct qkv_adapter_run *all);
/* Bytes of the numbers of all adapters. */
size_t qkv_model_adapter_bytes(const struct qkv_model *model);
/* Whether products of linear layers alone read the weight, one at a time, so that an adapter can be added to it. */
bool qkv_adapter_fits(const struct qkv_weight *weight);
/* The model's own weights. */
struct qkv_weights *qkv_model_base(const struct qkv_model *model);
/* Fails with QKV_ARGUMENT if the model has an adapter; `what`: "exporting it". */
enum qkv_status qkv_model_check_plain(const struct qkv_model *model, const char *what);

/* ---- who uses a model (model_use.c; model.c frees it) ------------------------------------------------------------ */

/* Counts what computes with a model: the struct stays until all of it has ended, also if the caller frees the model
 * before. With `train`, fails with QKV_ARGUMENT if the model is shared; it then cannot be shared until
 * qkv_model_end_use. */
enum qkv_status qkv_model_begin_use(struct qkv_model *model, bool train);
void qkv_model_end_use(struct qkv_model *model, bool train);
/* Fails with QKV_ARGUMENT if the model is shared, and so read-only; `what`: "its labels cannot be set". */
enum qkv_status qkv_model_check_own(const struct qkv_model *model, const char *what);
/* Fails with QKV_ARGUMENT if the caller has freed the model. */
enum qkv_status qkv_model_check_alive(const struct qkv_model *model);
/* The row of the table of products in the model's precision. */
const struct qkv_product *qkv_model_product(const struct qkv_model *model);
/* Starts a tape in the model's precision, whose rows have the adapter that the model has chosen. */
void qkv_model_tape(struct qkv_model *model, struct qkv_tape *tape, struct qkv_arena *arena,
                    struct qkv_arena *graph_arena, bool recording);

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* The token that targets begin with: the folder's setting, else the tokenizer's token; −1: neither has one. */
int32_t qkv_model_target_begin(const struct qkv_model *model);
/* Measures, by plans, the bytes that the dense layers take for so many rows besides their weights. The model may be
 * planned. Fails with QKV_MEMORY. (model_dense.c) */
enum qkv_status qkv_model_dense_measure(struct qkv_model *model, size_t rows, size_t *bytes);
/* Lists all weights; they have no memory yet. */
enum qkv_status qkv_model_build_weights(struct qkv_model *model);
/* Lists the weights of a layer's experts, with `shared` also those of the shared expert. NULL where the layer has no
 * experts. A failure is in weights->status. (experts_weights.c) */
struct qkv_experts *qkv_experts_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                              const struct qkv_ffn_spec *spec, struct qkv_ffn *ffn);
void qkv_experts_free(struct qkv_experts *experts);
/* Moves the corrections of trainable routers by the rows that their experts had since the last call, and clears these
 * counts. Returns the number of experts, of all layers, that had no row. loads, or NULL: for each layer, the encoder's
 * first, the rows of its busiest expert over the mean of its experts; NaN where the layer has no experts of its own.
 * (balance.c) */
size_t qkv_balance_experts(struct qkv_model *model, double *loads);
/* Gives every trainable weight its gradient, zeroed, if it has none. The first training pass calls it, and the first
 * one after weights were frozen or unfrozen. */
enum qkv_status qkv_model_add_gradients(struct qkv_model *model);
/* Makes weights ready to be multiplied in the model's precision: each operand gets its row, and those that are packed,
 * with `backward` also those that only backward reads, get memory and are packed. This is done once; callers do so
 * before they measure or run anything of the model. (model_ready.c) */
enum qkv_status qkv_model_prepare(struct qkv_model *model, bool backward);
void qkv_model_drop_packed(struct qkv_model *model);
/* Bytes of the model: weights, tables, and gradients and packed weights if they have been asked for; without weights
 * that are read from a mapped file. */
size_t qkv_model_bytes(const struct qkv_model *model);
/* A model whose weights are all zero; with `parts` that of a module: only those parts, of a spec that was checked. */
enum qkv_status qkv_model_allocate(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out);
enum qkv_status qkv_model_allocate_parts(struct qkv_context *ctx, const struct qkv_spec *spec,
                                         const struct qkv_model_parts *parts, struct qkv_model **out);
/* A planned model of a spec: its list of weights is built once, and qkv_model_take gives them memory. */
enum qkv_status qkv_model_list(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out);
/* Weights of a planned model that the file has in a type of weights are read from it and take no memory. After a
 * success the model owns the file. */
enum qkv_status qkv_model_set_file(struct qkv_model *model, const struct qkv_model_file *file);
/* Closes the file, which no weight reads any more; harmless without one. */
void qkv_model_close_file(struct qkv_model *model);
/* Takes the memory of a planned model, which is then no longer planned: its weights are zero, or read from its file.
 * After a failure it is planned as before. */
enum qkv_status qkv_model_take(struct qkv_model *model);
/* Packed copies of all weights are made again, as after the step of an optimizer. For the benchmark. */
void qkv_model_weights_changed(struct qkv_model *model);
/* Fails with QKV_ARGUMENT for a planned model, which has names and shapes only, and for one that was freed. */
enum qkv_status qkv_model_check_weights(const struct qkv_model *model);
/* Fails with QKV_FILE if the weights' file has changed. Called before every use of the weights. */
enum qkv_status qkv_model_check_file(const struct qkv_model *model);
/* Takes memory for packed weights, once. Packs those that have changed since they were packed. */
enum qkv_status qkv_model_take_packed(struct qkv_model *model, bool backward);
enum qkv_status qkv_model_pack(struct qkv_model *model);
/* Both: called before each forward pass. */
enum qkv_status qkv_model_ready(struct qkv_model *model);
/* Fails with QKV_ARGUMENT if ranks have divided fp32 weights. */
enum qkv_status qkv_model_check_whole(const struct qkv_model *model);
/* Converts weights of a mapped file to fp32 in memory, as training needs them, and closes the file. */
enum qkv_status qkv_model_to_fp32(struct qkv_model *model);
/* The same of operands that its adapter adapts. */
enum qkv_status qkv_model_adapted_to_fp32(struct qkv_model *model);

/* ---- positions (position.c, position_*.c) ------------------------------------------------------------------------ */

QKV_EMBED_POSITION_LIST(QKV_POSITION_FILLER)
/* Makes the tables of a stack, in the model's arena. */
enum qkv_status qkv_position_tables_make(struct qkv_model *model, struct qkv_stack *stack);

/* ---- forms of blocks (block_*.c; block_parts.c has their parts) -------------------------------------------------- */

enum qkv_sublayer { QKV_SUBLAYER_SELF, QKV_SUBLAYER_CROSS, QKV_SUBLAYER_FFN, QKV_SUBLAYER_COUNT };
struct qkv_forward_args;
/* Runs a sublayer f(x) of a layer, without a norm; with `residual`, residual + scale·f(x), where scale is the kind's
 * residual_scale. residual NULL: nothing is added. */
typedef struct qkv_tensor *qkv_sublayer_run(struct qkv_forward_args *args, size_t layer, enum qkv_sublayer kind,
                                            struct qkv_tensor *x, struct qkv_tensor *residual);
/* A sublayer of a layer in a forward pass; a form of whole layers gets the first one. */
struct qkv_block {
    struct qkv_forward_args *f;
    size_t layer;
    enum qkv_sublayer sublayer;
    qkv_sublayer_run *run;
};
/* The residual stream x (B·T, C) after a sublayer f, or after a whole layer, with its norms. */
typedef struct qkv_tensor *qkv_block_form(const struct qkv_block *block, struct qkv_tensor *x);
#define QKV_BLOCK_FORM(name, text, help, file, final, norms, whole) qkv_block_form qkv_block_##file;
QKV_PLACEMENT_LIST(QKV_BLOCK_FORM)
/* Whether a sublayer has a norm before it, or, with `out`, after it. */
bool qkv_block_has_norm(const struct qkv_norm_spec *norm, enum qkv_sublayer sublayer, bool out);
/* The sublayer's norm of x; x itself where there is none. result: QKV_RESULT_FOR_PRODUCTS if only the sublayer reads
 * it. */
struct qkv_tensor *qkv_block_norm(const struct qkv_block *block, struct qkv_tensor *x, enum qkv_result result);
/* Calls the pass's hook, if it has one. */
void qkv_hook_call(const struct qkv_forward_args *f, enum qkv_hook_kind kind, size_t layer, const struct qkv_tensor *x);
/* The same with the number of rows that each expert got. */
void qkv_hook_call_experts(struct qkv_forward_args *f, size_t layer, const struct qkv_routing *routing);
/* Whether the layer has that sublayer. */
bool qkv_layer_has(const struct qkv_stack *stack, size_t layer, enum qkv_sublayer sublayer);
/* residual + scale·dropout(f(x)); scale is the kind's residual_scale. Calls hooks, so a form calls it once per
 * sublayer. */
struct qkv_tensor *qkv_block_add(const struct qkv_block *block, struct qkv_tensor *residual, struct qkv_tensor *x);
/* The same with a norm after the sublayer, residual + scale·dropout(norm(f(x))): the second norm where it has two. */
struct qkv_tensor *qkv_block_add_normed(const struct qkv_block *block, struct qkv_tensor *residual,
                                        struct qkv_tensor *x);
/* x + Σ scale·dropout(f(h[i])) over the sublayers i that the layer has. Without recording, the result is in x's
 * storage. */
struct qkv_tensor *qkv_block_add_all(const struct qkv_block *block, struct qkv_tensor *x,
                                     struct qkv_tensor *const h[QKV_SUBLAYER_COUNT]);
/* Whether memory of the sublayer is not released after it, because later layers read its keys and values. */
bool qkv_block_holds(const struct qkv_block *block);
/* Sets `at` to another sublayer of the same layer. Returns false if the layer does not have it. */
bool qkv_block_at(const struct qkv_block *block, enum qkv_sublayer sublayer, struct qkv_block *at);

/* ---- forward (forward.c) ----------------------------------------------------------------------------------------- */

/* A batch in one stack. */
struct qkv_forward_args {
    struct qkv_tape *tape;
    const struct qkv_spec *spec;
    struct qkv_stack *stack;
    size_t only;                 /* 1 + the only kind of layers that run; 0: all kinds */
    size_t B, T;                 /* T new positions per sequence */
    const struct qkv_rows *rows; /* the rows of activations, without padding; NULL: (B·T) */
    const int32_t *positions;    /* of each row */
    /* calls of self attention, one per kind of layer, without q, k and v; with a cache they have its pages */
    struct qkv_attend *self;
    const struct qkv_turns *turns; /* rotations per kind, where some depend on a sequence's length; else NULL */
    /* the trainable tables of distance_bias that layers share; NULL: none */
    struct qkv_tensor *distances[QKV_KINDS_MAX];
    /* one per layer, empty where a layer reads the keys and values of another one; NULL: no cache */
    struct qkv_key_values *cache;
    struct qkv_layer_keys *keys; /* without a cache: one per layer, set while layers run; NULL: no layer shares */
    /* Calls of cross attention. `memory` is the encoder's output (B·Tk, C); NULL: memory_cache has keys and values of
     * several sources, one entry per layer. Consecutive rows that read the same source may be one sequence of the
     * call. */
    struct qkv_attend *cross;
    struct qkv_tensor *memory;
    struct qkv_tensor *values; /* the input of cross attention's v, where it is not the memory; else NULL */
    /* gradients of the calls' attention_bias, summed over all layers; NULL: not wanted */
    float *dself_bias, *dcross_bias;
    const int32_t *types;      /* the type of each token; NULL: 0 */
    struct qkv_tensor *inputs; /* (N, C): in place of scaled token embeddings; NULL: ids are embedded */
    struct qkv_key_values *memory_cache;
    /* The calls as they ran, for their weights: self of layer 0, cross of layer 0, self of layer 1 …; memory is then
     * not released between sublayers. NULL: not wanted. */
    const struct qkv_attend **kept;
    qkv_hook *hook; /* called with activations; NULL: none */
    void *hook_user;
    /* (B): where padding is computed, the first position of each sequence, and its length; else NULL */
    const int32_t *starts, *lengths;
    const int32_t *documents; /* (B,T): of each position; NULL: a sequence is one */
    double sequences;         /* losses of routers are means over this many sequences; 0: no such losses */
    /* only the inputs of blocks are saved, backward computes blocks again; `kept` is NULL then */
    bool checkpoint;
};
/* The feed-forward of a layer with experts: x (N, C) → (N, C). (block_experts.c) */
struct qkv_tensor *qkv_experts_forward(struct qkv_forward_args *args, size_t layer, struct qkv_tensor *x);

/* ---- the context of a forward pass (forward_args.c) -------------------------------------------------------------- */

/* Sequences whose keys are in pages. */
struct qkv_forward_pages {
    struct qkv_page_table table;
    size_t sequences, longest, queries; /* the maximum of queries of a sequence, and the sum */
    const int32_t *start;               /* (sequences + 1): the first query of each */
    const int32_t *pasts;               /* (sequences): their keys; NULL: as many as the mask has */
};
/* One attention of a batch, which all kinds of layers start from: they add their own causal and window. */
struct qkv_forward_attention {
    struct qkv_module_mask given;          /* the sizes of its mask are set */
    const struct qkv_rows *keys;           /* NULL: (B·Tk) */
    const struct qkv_forward_pages *pages; /* the mask is then that of each query by itself; NULL: none */
};
struct qkv_forward_batch {
    const struct qkv_rows *rows; /* NULL: (B·T) */
    size_t B, T;                 /* without rows */
    size_t only;                 /* 1 + the only kind of layers that run; 0: all kinds */
    const int32_t *positions;    /* of each row */
    /* of each row among its keys, for a distance_bias; NULL: positions */
    const int32_t *key_positions;
    const int32_t *turn_lengths;              /* the length of each row's sequence, if qkv_stack_by_length; else NULL */
    const int32_t *types;                     /* the type of each token; NULL: 0 */
    struct qkv_tensor *inputs;                /* in place of token embeddings; NULL: ids are embedded */
    const struct qkv_forward_attention *self; /* NULL: no self attention runs */
};
/* Checks what an attention of that spec makes of a mask for (B,Tq,Tk), and its arrays. */
enum qkv_status qkv_forward_check(struct qkv_context *ctx, const struct qkv_attention_spec *spec,
                                  const struct qkv_module_mask *given, size_t B, size_t Tq, size_t Tk);
/* The context of a stack's pass over a batch, without cross attention. After an error, which the tape has, its calls
 * are NULL. */
struct qkv_forward_args qkv_forward_begin(struct qkv_tape *tape, const struct qkv_spec *spec, struct qkv_stack *stack,
                                          const struct qkv_forward_batch *batch);
/* Adds cross attention; the caller sets `memory` or `memory_cache`. */
void qkv_forward_cross(struct qkv_forward_args *args, const struct qkv_forward_attention *cross);
/* Whether rotations of a stack depend on a sequence's length. */
bool qkv_stack_by_length(const struct qkv_stack *stack);

/* ---- parts of a stack -------------------------------------------------------------------------------------------- */

/* The final norm: of the kind of the last layer; its `final` says whether the stack has the norm. */
const struct qkv_norm_spec *qkv_stack_final_norm(const struct qkv_stack_spec *stack);
/* Parts of qkv_stack_forward, for modules: x (B·T, C) → the same shape; embedding: ids (B·T) → (B·T, C). Layers are
 * [first, end). Without recording, layers may overwrite x. */
struct qkv_tensor *qkv_stack_embed(struct qkv_forward_args *args, const int32_t *ids);
struct qkv_tensor *qkv_stack_layers(struct qkv_forward_args *args, struct qkv_tensor *x, size_t first, size_t end);
struct qkv_tensor *qkv_stack_norm(struct qkv_forward_args *args, struct qkv_tensor *x);
qkv_sublayer_run qkv_stack_sublayer;
/* out: the norm after the sublayer, where it has two. */
struct qkv_tensor *qkv_stack_sublayer_norm(struct qkv_forward_args *args, size_t layer, enum qkv_sublayer kind,
                                           bool out, struct qkv_tensor *x);
/* ids (B·T) → hidden states (B·T, C) after the final norm. */
struct qkv_tensor *qkv_stack_forward(struct qkv_forward_args *args, const int32_t *ids);
/* ids (B·T) → the scores (count, V) of the rows chosen[…], or of all B·T rows in order. out: their memory; NULL: memory
 * of the tape. */
struct qkv_tensor *qkv_stack_scores(struct qkv_forward_args *args, struct qkv_model *model, const int32_t *ids,
                                    const int32_t *chosen, size_t count, float *out);
/* Writes the keys and values that a layer's cross attention computes from args->memory to its cache. */
void qkv_stack_cache_source(struct qkv_forward_args *args, size_t layer);

/* The head's input (N, W), from hidden states (N, C), pooled ones for a classifier; and the softcap of its scores. */
struct qkv_tensor *qkv_head_transform(struct qkv_tape *tape, struct qkv_model *model, struct qkv_tensor *x);
/* What a classifier pools, from hidden states: these, or, with transform.each_position, what the transform gives. */
struct qkv_tensor *qkv_head_positions(struct qkv_tape *tape, struct qkv_model *model, struct qkv_tensor *x);
struct qkv_softcap qkv_head_softcap(const struct qkv_model *model);
/* The scores (N, V) of such hidden states. out: their memory; NULL: memory of the tape. */
struct qkv_tensor *qkv_head_scores(struct qkv_tape *tape, struct qkv_model *model, struct qkv_tensor *x, float *out);

/* ---- results of classes (head.c) ---- */
/* Copies the result for n classes: their probabilities; for a single class its score itself. Returns false if a score
 * is not finite. qkv_scores_none: the result for a blank or skipped text: zeros, or, for a single class, where 0 is a
 * score, NaN. */
bool qkv_scores_take(const float *scores, size_t n, float *out);
void qkv_scores_none(size_t count, size_t classes, float *out);

/* ---- memory for graph_arena -------------------------------------------------------------------------------------- */
/* Bytes for the nodes and tensors of one pass: a generous bound of address space; only used pages take memory. */
size_t qkv_graph_bytes(const struct qkv_spec *spec);

/* Bytes of a session's cache and step, by plans. The model may be planned. */
enum qkv_status qkv_session_measure(struct qkv_model *model, size_t capacity, size_t *bytes);
/* The model of a session. */
struct qkv_model *qkv_session_model(const struct qkv_session *session);

/* The batches of a pass as parts of a larger batch whose sequences are cut into groups (kernel/order.h): whole groups,
 * or some sequences of one group. Gradients are then added in that order; dropout masks are those of the larger
 * batch. */
struct qkv_pass_part {
    size_t groups;
    size_t first[QKV_GROUPS_MAX + 1]; /* the first sequence of each group, counted in the part; then their number */
    uint64_t first_row;               /* the number of the part's first sequence in the larger batch */
    double *losses;                   /* (groups): the losses of each group are added here */
};
/* Sets the part for the next forward calls; NULL: none. The pass keeps only the pointer `losses` of it.
 * (pass_order.c) */
void qkv_pass_set_part(struct qkv_pass *pass, const struct qkv_pass_part *part);
/* Sets what the loss of an lm head has of each row of a rectangle (B,T) for the next forward calls; NULL: nothing. The
 * arrays are the caller's. (pass_order.c) */
struct qkv_loss_rows;
void qkv_pass_set_loss_rows(struct qkv_pass *pass, const struct qkv_loss_rows *rows);
/* Sets the listener that backward calls for each weight after its last use, from the next forward on; NULL: none. A
 * weight that is used more than once (qkv_tensor: times) may be reported before its gradient is complete.
 * (pass_order.c) */
void qkv_pass_listen(struct qkv_pass *pass, qkv_gradient_listener *listener, void *user);
/* The needs and the work of a pass, from a plan of each of its shapes. */
struct qkv_pass_plan {
    size_t bytes;                /* of memory to compute in, for the largest shape */
    double positions, tokens;    /* of all shapes: B·T, and with the source B·(T + source_T) */
    struct qkv_tape_costs costs; /* the work of all shapes */
};
/* Measures a pass; the model may be planned. */
enum qkv_status qkv_pass_measure(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                 struct qkv_pass_plan *plan);
/* groups: the maximum number of groups where batches are parts of larger ones; 0: they are not. So in
 * qkv_pass_measure. */
enum qkv_status qkv_pass_create_ordered(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                        struct qkv_pass **pass);
/* The plan that a pass was made with. */
const struct qkv_pass_plan *qkv_pass_planned(const struct qkv_pass *pass);
/* FLOPs of forward and backward in a plan, without those that are computed again to save memory. */
double qkv_pass_plan_flops(const struct qkv_pass_plan *plan);

#endif
