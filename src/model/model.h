/* model: a spec made of weights, and the passes over it.
 *
 * Offers: the model with its named parameters, the position tables, the key intervals of masks, the forward pass of a stack
 * (one function for training, evaluation and decoding with a cache), and the exact memory of plans. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include "attention/attention.h"
#include "base/base.h"
#include "op/op.h"
#include "qkv/generate.h"

/* ---- weights (params.c) ----------------------------------------------------------------------------------------- */

struct qkv_attention {
    struct qkv_norm norm, out_norm; /* weight.data NULL where there is none */
    struct qkv_attention_parameters parameters;
};
struct qkv_ffn {
    struct qkv_norm norm, out_norm;
    struct qkv_linear up; /* gated: gate and up in one (2·F, C) */
    struct qkv_linear down;
    struct qkv_experts *experts; /* NULL: none; up and down are then those of the shared one, if there is one */
};
struct qkv_experts {
    struct qkv_linear router;
    struct qkv_tensor correction, shared_gate; /* data NULL where there is none */
    struct qkv_expert_weights weights;
    uint64_t *loads; /* (count): rows that each expert has had, of passes that record, since they were cleared */
};
struct qkv_layer {
    struct qkv_attention self, cross; /* cross.parameters.o.weight.data is NULL without cross attention */
    struct qkv_ffn ffn;
};

/* Patches, vectors: first. Frames: both convolutions. */
struct qkv_stack_input {
    struct qkv_linear first, second;
    struct qkv_tensor class_token;
};
struct qkv_stack {
    const struct qkv_stack_spec *spec;
    const char *name; /* "encoder" or "decoder" */
    bool has_cross;
    struct qkv_tensor *token; /* shared when tied */
    struct qkv_tensor token_storage, position,
        type; /* of the embedding; data NULL where it has none, as of the next two */
    struct qkv_norm embed_norm;
    struct qkv_linear project;
    struct qkv_layer *layers;         /* those whose weights are another's are empty: qkv_layer_weights */
    struct qkv_stack_input input;     /* of a stack that reads no tokens, whose `token` has no data */
    struct qkv_norm norm;             /* final; weight.data NULL without one */
    struct qkv_position_tables embed; /* what is added to the embedding */
    /* Of the attention of each kind of layer; equal ones are the same tables. */
    struct qkv_position_tables tables[QKV_KINDS_MAX];
    struct qkv_distance_weights distances;
};

/* The weights of a layer, which it may share with others. */
struct qkv_layer *qkv_layer_weights(const struct qkv_stack *stack, size_t layer);

/* A file that weights stay in, closed with the model. */
struct qkv_model_file {
    struct qkv_weight_source source;
    void *owner;
    size_t memory;                               /* that it takes for them */
    enum qkv_status (*check)(const void *owner); /* QKV_FILE: it is not what it was */
    void (*close)(void *owner);
};

/* What of a spec a model has: all of it, but in a module by itself. */
struct qkv_model_parts {
    uint64_t roles;                /* bits of enum qkv_role: which weights there are */
    bool given_memory;             /* the decoder has cross attention though there is no encoder */
    size_t key_width, value_width; /* of what keys and values of cross attention are made of; 0: the model's */
};

/* Of a published model: what its family makes of it (the room family), and why its tokenizer is not there. */
struct qkv_model_origin {
    void *family; /* NULL: it is none */
    void (*free)(void *family);
    char *tokenizer; /* NULL: it is there, or the folder has none */
    char *warning;   /* what is wrong in its folder and changes nothing; NULL: nothing */
};

/* What a folder says of generating. */
struct qkv_model_generation {
    bool given; /* it says something; else the rest is nothing */
    struct qkv_sampling sampling;
    int32_t ends[QKV_TOKEN_ENDS];
    size_t end_count;
    int32_t start, first;           /* what targets begin with, and which token must come then; -1: nothing is said */
    int32_t barred[QKV_TOKEN_ENDS]; /* tokens that are never chosen */
    size_t barred_count;
};

/* A dense layer behind the pooling: act(W·x + b), to which x is added where it has a residual, or R·x. All heap, fp32. */
struct qkv_model_dense {
    size_t in, out;
    bool normalize;                  /* x gets length 1 first */
    bool residual;                   /* with `shortcut` NULL: x itself, and in is out */
    int activation;                  /* enum qkv_ffn_kind; -1: none */
    float *weight, *bias, *shortcut; /* W (out,in), b (out) or NULL, R (out,in) or NULL */
};
/* A text that is put before texts, and its name. */
struct qkv_model_prompt {
    char *name, *text;
};

/* How a published folder makes vectors of texts (modules.json). */
struct qkv_model_pooling {
    bool given; /* it says so; else the rest is nothing */
    enum qkv_pool pool;
    bool normalize;
    size_t most;                   /* tokens of a text, what is behind them being left out; 0: the context */
    bool without_prompt;           /* the tokens of a prompt are not pooled */
    struct qkv_model_dense *dense; /* what follows the pooling, in order */
    size_t dense_count;
    struct qkv_model_prompt *prompts;  /* in the order of their names */
    size_t prompt_count, prompt_usual; /* which is put before texts where nobody chooses; prompt_count: none */
    char *settings;                    /* the file that has the prompts, as it was; NULL: there was none */
};
/* Frees all that it owns, and clears it. (model_pooling.c) */
void qkv_model_pooling_free(struct qkv_model_pooling *pooling);

struct qkv_model {
    struct qkv_context *ctx;
    struct qkv_spec spec;
    bool planned; /* names and shapes only */
    struct qkv_model_parts parts;
    struct qkv_arena arena;     /* weights, then tables */
    struct qkv_arena gradients; /* base NULL before the first training pass */
    struct qkv_weights weights;
    struct qkv_model_file file;               /* owner NULL: all weights are in memory, in fp32 */
    struct qkv_arena learned;                 /* those that were not when they were loaded */
    struct qkv_arena packed_arena;            /* weights in bf16; empty in fp32 */
    struct qkv_packed_weight *packed_weights; /* what lies there, or NULL */
    struct qkv_arena packed_back;             /* the head's for backward; empty before the first training pass */
    struct qkv_packed_weight head_back;       /* what lies there */
    bool dirty;                               /* a pass has begun on the gradients since they were cleared */
    struct qkv_stack encoder, decoder;        /* spec NULL when absent */
    struct qkv_tensor *head_weight;           /* NULL for head none */
    struct qkv_linear head;                   /* weight.data NULL when tied */
    struct qkv_linear head_transform;         /* weight.data NULL without one */
    struct qkv_norm head_norm;                /* behind it */
    struct qkv_tokenizer *tokenizer, *source_tokenizer; /* the latter NULL: sources have the former */
    char **labels;                                      /* the names of the classes, or NULL */
    size_t label_count;
    struct qkv_model_origin origin;
    struct qkv_model_generation generation;
    struct qkv_model_pooling pooling;
};

/* What targets begin with: as the folder says, else the tokenizer; -1: neither does. */
int32_t qkv_model_target_begin(const struct qkv_model *model);
/* Lists all weights, takes them from model->arena (which may be measuring), and fills the stacks with them. */
enum qkv_status qkv_model_build_weights(struct qkv_model *model);
/* The experts of a layer, NULL where it has none: its weights are listed, with `shared` those of the one that all rows go through. Fails
 * into weights->status. (experts_weights.c) */
struct qkv_experts *qkv_experts_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                              const struct qkv_ffn_spec *spec, struct qkv_ffn *ffn);
void qkv_experts_free(struct qkv_experts *experts);
/* Moves the corrections of routers that learn by the rows that their experts have had since the last call, or since these were counted
 * first; then they are counted anew. How many experts, of all layers, had none; and, unless NULL, of each layer, the encoder's first,
 * loads[i]: the rows of its busiest expert over the mean of its experts, NaN where it has no experts of its own. (balance.c) */
size_t qkv_balance_experts(struct qkv_model *model, double *loads);
/* Gives every weight that learns its gradient, zeroed, if it has none: by the first training pass, and by the first one after
 * weights were frozen or learn again. */
enum qkv_status qkv_model_add_gradients(struct qkv_model *model);
/* In mixed precision: room for the weights packed as bf16, and, when there will be a backward, for what only that uses. Each is
 * made once, before anything of the model is measured or run. */
enum qkv_status qkv_model_add_packed(struct qkv_model *model, bool backward);
void qkv_model_drop_packed(struct qkv_model *model);
/* Bytes of all that a model keeps: weights, tables, gradients and packed weights, as far as they have been asked for, but not what
 * stays in a file. */
size_t qkv_model_bytes(const struct qkv_model *model);
/* A module's: only those parts. */
enum qkv_status qkv_model_allocate_parts(struct qkv_context *ctx, const struct qkv_spec *spec,
                                         const struct qkv_model_parts *parts, struct qkv_model **out);
/* A model whose weights are all zero: what create, plan and load start from. What stays in `file` (NULL: nothing) takes no memory;
 * the file is the model's once the call succeeded. */
enum qkv_status qkv_model_allocate(struct qkv_context *ctx, const struct qkv_spec *spec, bool planned,
                                   const struct qkv_model_file *file, struct qkv_model **out);
/* QKV_ARGUMENT: a planned model has names and shapes only. */
enum qkv_status qkv_model_check_weights(const struct qkv_model *model);
/* Whether the weights can be read: called before every use. */
enum qkv_status qkv_model_check_file(const struct qkv_model *model);
/* Whether all their fp32 numbers can be: QKV_ARGUMENT where ranks have divided some. */
enum qkv_status qkv_model_check_whole(const struct qkv_model *model);
/* Gives weights that stay in a file memory of their own in fp32, as learning needs it, and closes the file. */
enum qkv_status qkv_model_to_fp32(struct qkv_model *model);

/* ---- positions (position.c, position_*.c) -------------------------------------------------------------------------- */

QKV_EMBED_POSITION_LIST(QKV_POSITION_FILLER)
/* The tables of a stack, from the model's arena. */
enum qkv_status qkv_position_tables_make(struct qkv_model *model, struct qkv_stack *stack);

/* ---- forms of blocks (block_*.c, of parts in block_parts.c) ---------------------------------------------------------------------- */

enum qkv_sublayer { QKV_SUBLAYER_SELF, QKV_SUBLAYER_CROSS, QKV_SUBLAYER_FFN, QKV_SUBLAYER_COUNT };
/* A sublayer of a layer in a forward pass; of a form of whole layers the first one. */
struct qkv_block {
    struct qkv_forward_args *f;
    size_t layer;
    enum qkv_sublayer sublayer;
};
/* The residual stream x (B·T, C) after a sublayer f, or all of a layer, with its norms. */
typedef struct qkv_tensor *qkv_block_form(const struct qkv_block *block, struct qkv_tensor *x);
#define QKV_BLOCK_FORM(name, text, help, file, final, norms, whole) qkv_block_form qkv_block_##file;
QKV_PLACEMENT_LIST(QKV_BLOCK_FORM)
/* Whether a sublayer has a norm, or, of two, one behind it. */
bool qkv_block_has_norm(const struct qkv_norm_spec *norm, enum qkv_sublayer sublayer, bool out);
/* The sublayer's norm of x; x itself where it has none. A result that only the sublayer reads may be bf16 (QKV_RESULT_BF16_IF_MIXED). */
struct qkv_tensor *qkv_block_norm(const struct qkv_block *block, struct qkv_tensor *x, enum qkv_result result);
/* Tells whoever listens to the pass. */
void qkv_hook_call(const struct qkv_forward_args *f, enum qkv_hook_kind kind, size_t layer, const struct qkv_tensor *x);
/* Whether the layer has that sublayer. */
bool qkv_layer_has(const struct qkv_stack *stack, size_t layer, enum qkv_sublayer sublayer);
/* residual + scale·dropout(f(x)), where scale is the kind's residual_scale. Once a sublayer: hooks are called in it. */
struct qkv_tensor *qkv_block_add(const struct qkv_block *block, struct qkv_tensor *residual, struct qkv_tensor *x);
/* The same with a norm behind the sublayer, residual + scale·dropout(norm(f(x))): the second one where it has two. */
struct qkv_tensor *qkv_block_add_normed(const struct qkv_block *block, struct qkv_tensor *residual,
                                        struct qkv_tensor *x);
/* x + Σ scale·dropout(f(h[i])) over the sublayers i that the layer has. Without recording in the storage of x. */
struct qkv_tensor *qkv_block_add_all(const struct qkv_block *block, struct qkv_tensor *x,
                                     struct qkv_tensor *const h[QKV_SUBLAYER_COUNT]);
/* The same layer's block at another sublayer; false where the layer has none such. */
bool qkv_block_at(const struct qkv_block *block, enum qkv_sublayer sublayer, struct qkv_block *at);

/* ---- forward (block.c) --------------------------------------------------------------------------- */

/* One sequence batch on its way through a stack. */
struct qkv_forward_args {
    struct qkv_tape *tape;
    const struct qkv_spec *spec;
    struct qkv_stack *stack;
    size_t B, T;                 /* T new positions a row */
    const struct qkv_rows *rows; /* those of the activations, without padding; NULL: (B·T) */
    const int32_t *positions;    /* of each of them */
    /* What the calls of self attention begin with, one for each kind of layer; with a cache, its pages. */
    struct qkv_attend *self;
    const struct qkv_turns *turns; /* rotations by kind, where some depend on the length of a sequence; else NULL */
    struct qkv_tensor *distances[QKV_KINDS_MAX]; /* their tables of distances, where these learn; NULL: none */
    struct qkv_key_values *cache;                /* one a layer, NULL without */
    /* Cross attention: the same, with the encoder's output as memory (B·Tk, C). Or, without `memory`, what was kept of several:
     * keys and values, one a layer. Rows that stand side by side and read the same memory may go through it as one. */
    struct qkv_attend *cross;
    struct qkv_tensor *memory;
    struct qkv_tensor *values; /* cross attention's, where they are not made of the memory; else NULL */
    float *dself_bias,
        *dcross_bias;          /* gradients of the calls' attention_bias, of all layers together; NULL: not wanted */
    const int32_t *types;      /* the type of each token; NULL: 0 */
    struct qkv_tensor *inputs; /* (N, C): in place of the scaled token embeddings; NULL: those */
    struct qkv_key_values *memory_cache;
    /* The attentions' calls, left for looking at their weights: self of layer 0, cross of layer 0, self of layer 1 …; then no
     * memory is given back between sublayers. NULL: not kept. */
    const struct qkv_attend **kept;
    qkv_hook *hook; /* told of the numbers on the way; NULL: nobody */
    void *hook_user;
    const int32_t *lengths; /* (B), where padding is computed; else NULL */
    double sequences;       /* that losses of routers are a mean of; 0: there are no such losses */
    bool checkpoint;        /* of a block only the input is kept, and backward runs it again; no `kept` then */
};
/* The feed-forward of a layer with experts: x (N, C) → (N, C); and, unless it fails, which experts the rows go through.
 * (block_experts.c) */
struct qkv_tensor *qkv_experts_forward(struct qkv_forward_args *args, const struct qkv_ffn_spec *spec,
                                       struct qkv_ffn *ffn, struct qkv_tensor *x, const struct qkv_routing **routing);
/* What the calls of a stack's self attention, or of `cross` attention, begin with, one for each kind of layer: by `mask` with the
 * kind's causal and window, for those rows. Their memory is the tape's; NULL when it has failed. (stack_calls.c) */
struct qkv_attend *qkv_stack_calls(struct qkv_tape *tape, const struct qkv_stack *stack, bool cross,
                                   const struct qkv_mask *mask, struct qkv_call_rows rows, double dropout);
/* Whether rotations of a stack depend on the length that a sequence is decided for; and those of N rows at positions (N), each of a
 * sequence decided for lengths (N), for each kind of layer: in the memory of the tape, NULL when it has failed. (stack_calls.c) */
bool qkv_stack_by_length(const struct qkv_stack *stack);
const struct qkv_turns *qkv_stack_turns(struct qkv_tape *tape, const struct qkv_stack *stack, size_t N,
                                        const int32_t *positions, const int32_t *lengths);
/* Makes the tables of distances of the calls of self attention, which get them, where they learn: one for kinds that share it. */
void qkv_stack_distances(struct qkv_forward_args *args);
/* Of the kind of the last layer; `final` says whether the stack has the norm. */
const struct qkv_norm_spec *qkv_stack_final_norm(const struct qkv_stack_spec *stack);
/* The parts of qkv_stack_forward, for modules: x (B·T, C) → the same, but ids (B·T) → embeddings. Layers are [first, end). A sublayer by itself is without
 * norm and residual. Without recording, layers may use the storage of x. */
struct qkv_tensor *qkv_stack_embed(struct qkv_forward_args *args, const int32_t *ids);
struct qkv_tensor *qkv_stack_layers(struct qkv_forward_args *args, struct qkv_tensor *x, size_t first, size_t end);
struct qkv_tensor *qkv_stack_norm(struct qkv_forward_args *args, struct qkv_tensor *x);
struct qkv_tensor *qkv_stack_sublayer(struct qkv_forward_args *args, size_t layer, enum qkv_sublayer kind,
                                      struct qkv_tensor *x);
/* out: the norm behind the sublayer, of two. */
struct qkv_tensor *qkv_stack_sublayer_norm(struct qkv_forward_args *args, size_t layer, enum qkv_sublayer kind,
                                           bool out, struct qkv_tensor *x);
/* ids (B·T) → hidden states (B·T, C) after the final norm. */
struct qkv_tensor *qkv_stack_forward(struct qkv_forward_args *args, const int32_t *ids);

/* ---- between hidden states and scores (head.c) ----
 * What the head reads (N, W) of hidden states (N, C), pooled ones for a classifier; and what becomes of its scores. */
struct qkv_tensor *qkv_head_transform(struct qkv_tape *tape, struct qkv_model *model, struct qkv_tensor *x);
struct qkv_softcap qkv_head_softcap(const struct qkv_model *model);
/* What becomes of the scores of n classes: probabilities, or of a single class, which is a score and no choice, itself.
 * False: some are no finite numbers. And what a text has that is blank or skipped: zeros, or of a single class, where 0
 * is a score, NaN. */
bool qkv_scores_take(const float *scores, size_t n, float *out);
void qkv_scores_none(size_t count, size_t classes, float *out);

/* ---- memory for graph_arena ------------------------------------------------------------------------------------------------ */
/* Room for the nodes and tensors of one pass over a model: generous, backed lazily. */
size_t qkv_graph_bytes(const struct qkv_spec *spec);

/* Bytes of a session's cache and step, by dry runs. The model may be planned. */
enum qkv_status qkv_session_measure(struct qkv_model *model, size_t capacity, size_t *bytes);

/* The batches of a pass as parts of a larger batch, whose rows are cut into groups (kernel.h: sums in a defined order): whole groups, or
 * some of the rows of one. Gradients are then added in that order; dropout masks are those of the larger batch. */
struct qkv_pass_part {
    size_t groups;
    size_t first[QKV_GROUPS_MAX + 1]; /* the row of the part that each group begins with, and how many rows there are */
    uint64_t first_row;               /* the number of the part's first row */
    double *losses;                   /* (groups): the losses of their rows are added to these */
};
/* For the forward calls that follow; NULL: no more. Nothing is kept of it but `losses`. (pass_order.c) */
void qkv_pass_set_part(struct qkv_pass *pass, const struct qkv_pass_part *part);
/* Whom backward tells of each weight whose last use it has gone through, from the next forward on; NULL: nobody. A weight that is used
 * more than once (qkv_tensor: times) may be told of before its gradient is complete. (pass_order.c) */
void qkv_pass_listen(struct qkv_pass *pass, qkv_gradient_listener *listener, void *user);
/* What a pass needs and does, by a dry run of each of its shapes. */
struct qkv_pass_plan {
    size_t bytes;                /* of memory to compute in, for the largest of its shapes */
    double positions, tokens;    /* of all shapes: B·T, and with the source's, B·(T + source_T) */
    struct qkv_tape_costs costs; /* the work, of all shapes */
};
/* The model may be planned. */
enum qkv_status qkv_pass_measure(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                 struct qkv_pass_plan *plan);
/* groups: whether batches will be parts of larger ones, of at most so many groups; 0: they will not. For qkv_pass_measure the same. */
enum qkv_status qkv_pass_create_ordered(struct qkv_model *model, const struct qkv_pass_options *options, size_t groups,
                                        struct qkv_pass **pass);
/* The plan that a pass was made with. */
const struct qkv_pass_plan *qkv_pass_planned(const struct qkv_pass *pass);
/* Operations of forward and backward in a plan, each counted once: not what is computed again to save memory. */
double qkv_pass_plan_flops(const struct qkv_pass_plan *plan);

#endif
