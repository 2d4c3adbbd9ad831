/* weights: the weights of a model, or of one layer by itself, as a list that everything about weights iterates: who makes it, who
 * fills it with numbers, optimizers, checkpoints, files and plans of memory.
 *
 * QKV_ROLE_LIST says what weights there are. A place says where a role stands (stack, layer, sizes by letter). The builder makes
 * the list in the order of files, and gives each operand of a product its memory: weights that are always used together (q, k and
 * v of self attention; k and v of cross attention; gate and up) lie side by side in one tensor, so one product serves them all.
 * Where numbers lie is known to the builder alone. */
#ifndef QKV_WEIGHTS_H
#define QKV_WEIGHTS_H

#include "op/op.h"

/* Sizes by letter, of one place. */
struct qkv_dimensions {
    size_t V, C, T;       /* vocabulary, width, rows of the table of positions */
    size_t E, P, Y;       /* widths of tokens, and of positions, types and norm of the embedding; how many types */
    size_t H, Hkv, D, Dv; /* of one attention: heads, key-value heads, width of a head and of its values */
    size_t M, U, O;       /* widths of what its keys are made of, its values, and of what it gives */
    /* norms of its queries and of its keys: heads with weights of their own, and the width of one; or, where all have the same weights,
     * the width, and Nd 0 */
    size_t Nq, Nk, Nd;
    size_t F, N;   /* width of the feed-forward; outputs of the head */
    size_t Ex, Fs; /* experts; width of the shared one */
    size_t W;      /* width of what the head reads */
    /* of what a stack reads that reads no tokens: numbers of a patch, a vector, or a window of a convolution; of windows of the second
     * one; channels of both lie apart by the kernel */
    size_t K, K2, kernel;
    size_t R; /* rows of a bias by distance */
    size_t Lq, L,
        S; /* of latent attention: widths of the latents of queries, and of keys and values; shared channels of a head */
};

/* Every weight there can be: X(ROLE, name in files, rows, columns, start, decays). A role is a matrix (rows, columns), or, where
 * columns is 0, the vector of a norm. Beside either there may be a bias of `rows` numbers (of a norm: shaped like its weight), whose name ends in ".bias" where the
 * weight's ends in ".weight"; it starts from what enum qkv_start says and does not decay. */
#define QKV_ROLE_LIST(X)                                                                                               \
    X(TOKEN, "embed.token", d->V, d->E, EMBEDDING, true)                                                               \
    X(PATCH, "embed.patch", d->P, d->K, LINEAR, true)                                                                  \
    X(CLASS, "embed.class", 1, d->P, EMBEDDING, false)                                                                 \
    X(CONV1, "embed.conv1", d->P, d->K, LINEAR, true)                                                                  \
    X(CONV2, "embed.conv2", d->P, d->K2, LINEAR, true)                                                                 \
    X(VECTOR, "embed.vector", d->P, d->K, LINEAR, true)                                                                \
    X(POSITION, "embed.position", d->T, d->P, EMBEDDING, true)                                                         \
    X(TYPE, "embed.type", d->Y, d->P, EMBEDDING, true)                                                                 \
    X(EMBED_NORM, "embed.norm", d->P, 0, NORM, false)                                                                  \
    X(PROJECT, "embed.project", d->C, d->E, LINEAR, true)                                                              \
    X(BUCKETS, "position.buckets", d->R, d->H, EMBEDDING, true)                                                        \
    X(RELATIVE, "position.relative", d->R, d->H, EMBEDDING, true)                                                      \
    X(SLOPES, "position.slopes", 1, d->H, GIVEN, false)                                                                \
    X(ATTN_NORM, "attn_norm", d->C, 0, NORM, false)                                                                    \
    X(ATTN_Q, "attn.q", d->H * d->D, d->C, LINEAR, true)                                                               \
    X(ATTN_K, "attn.k", d->Hkv * d->D, d->M, LINEAR, true)                                                             \
    X(ATTN_V, "attn.v", d->Hkv * d->Dv, d->U, LINEAR, true)                                                            \
    X(ATTN_Q_A, "attn.q_a", d->Lq, d->C, LINEAR, true)                                                                 \
    X(ATTN_Q_A_NORM, "attn.q_a_norm", d->Lq, 0, NORM, false)                                                           \
    X(ATTN_Q_B, "attn.q_b", d->H * d->D, d->Lq, LINEAR, true)                                                          \
    X(ATTN_KV_A, "attn.kv_a", d->L, d->C, LINEAR, true)                                                                \
    X(ATTN_K_ROPE, "attn.k_rope", d->S, d->C, LINEAR, true)                                                            \
    X(ATTN_KV_A_NORM, "attn.kv_a_norm", d->L, 0, NORM, false)                                                          \
    X(ATTN_K_B, "attn.k_b", d->H *(d->D - d->S), d->L, LINEAR, true)                                                   \
    X(ATTN_V_B, "attn.v_b", d->H * d->Dv, d->L, LINEAR, true)                                                          \
    X(ATTN_Q_NORM, "attn.q_norm", d->Nq, d->Nd, NORM, false)                                                           \
    X(ATTN_K_NORM, "attn.k_norm", d->Nk, d->Nd, NORM, false)                                                           \
    X(ATTN_O, "attn.o", d->O, d->H * d->Dv, RESIDUAL, true)                                                            \
    X(ATTN_SINKS, "attn.sinks", 1, d->H, GIVEN, false)                                                                 \
    X(ATTN_OUT_NORM, "attn_out_norm", d->C, 0, NORM, false)                                                            \
    X(CROSS_NORM, "cross_norm", d->C, 0, NORM, false)                                                                  \
    X(CROSS_Q, "cross.q", d->H * d->D, d->C, LINEAR, true)                                                             \
    X(CROSS_K, "cross.k", d->Hkv * d->D, d->M, LINEAR, true)                                                           \
    X(CROSS_V, "cross.v", d->Hkv * d->Dv, d->U, LINEAR, true)                                                          \
    X(CROSS_Q_NORM, "cross.q_norm", d->Nq, d->Nd, NORM, false)                                                         \
    X(CROSS_K_NORM, "cross.k_norm", d->Nk, d->Nd, NORM, false)                                                         \
    X(CROSS_O, "cross.o", d->O, d->H * d->Dv, RESIDUAL, true)                                                          \
    X(CROSS_SINKS, "cross.sinks", 1, d->H, GIVEN, false)                                                               \
    X(CROSS_OUT_NORM, "cross_out_norm", d->C, 0, NORM, false)                                                          \
    X(FFN_NORM, "ffn_norm", d->C, 0, NORM, false)                                                                      \
    X(FFN_GATE, "ffn.gate", d->F, d->C, LINEAR, true)                                                                  \
    X(FFN_UP, "ffn.up", d->F, d->C, LINEAR, true)                                                                      \
    X(FFN_DOWN, "ffn.down", d->C, d->F, RESIDUAL, true)                                                                \
    X(ROUTER, "ffn.router", d->Ex, d->C, LINEAR, true)                                                                 \
    X(CORRECTION, "ffn.correction", 1, d->Ex, GIVEN, false)                                                            \
    X(EXPERT_GATE, "ffn.experts.gate", d->F, d->C, LINEAR, true)                                                       \
    X(EXPERT_UP, "ffn.experts.up", d->F, d->C, LINEAR, true)                                                           \
    X(EXPERT_DOWN, "ffn.experts.down", d->C, d->F, RESIDUAL, true)                                                     \
    X(SHARED_GATE, "ffn.shared.gate", d->Fs, d->C, LINEAR, true)                                                       \
    X(SHARED_UP, "ffn.shared.up", d->Fs, d->C, LINEAR, true)                                                           \
    X(SHARED_DOWN, "ffn.shared.down", d->C, d->Fs, RESIDUAL, true)                                                     \
    X(SHARED_MIX, "ffn.shared_gate", 1, d->C, LINEAR, true)                                                            \
    X(FFN_OUT_NORM, "ffn_out_norm", d->C, 0, NORM, false)                                                              \
    X(NORM, "norm", d->C, 0, NORM, false)                                                                              \
    X(HEAD_NORM, "head.norm", d->W, 0, NORM, false)                                                                    \
    X(HEAD_TRANSFORM, "head.transform", d->W, d->C, LINEAR, true)                                                      \
    X(HEAD, "head", d->N, d->W, LINEAR, true)
#define QKV_ROLE_ENUM(role, name, rows, columns, start, decays) QKV_ROLE_##role,
enum qkv_role { QKV_ROLE_LIST(QKV_ROLE_ENUM) QKV_ROLE_COUNT };

/* What new weights of a role are drawn as; RESIDUAL: a matrix that ends a residual branch. GIVEN: nothing is drawn, they are what the
 * place says, or 0. */
enum qkv_start {
    QKV_START_EMBEDDING,
    QKV_START_LINEAR,
    QKV_START_RESIDUAL,
    QKV_START_NORM,
    QKV_START_BIAS,
    QKV_START_GIVEN
};

/* Where roles stand, while a list is built. */
struct qkv_weight_place {
    const char *stack;                  /* "encoder", "decoder"; NULL: of the whole model, or of a layer by itself */
    int layer;                          /* from 0; -1: of no layer */
    int expert;                         /* of the roles of experts: which one, from 0 */
    bool single;                        /* a layer by itself: names are the last part of the role's, "q.weight" */
    const struct qkv_dimensions *sizes; /* of its roles */
    size_t branches;                    /* residual branches of the stack */
    unsigned times;                     /* how often a pass uses its operands; 0: once */
    const float *starts;                /* of a role that starts from what is GIVEN, which outlives the list; NULL: 0 */
};

/* A named weight. */
struct qkv_weight {
    enum qkv_role role;
    bool bias;         /* the vector beside the role's matrix or norm */
    const char *stack; /* as in its place; the caller's */
    int layer;
    int expert; /* −1: of none */
    const struct qkv_format *format;
    bool stored;          /* the numbers stay as their file has them; others are fp32 in `data` */
    bool trainable;       /* it learns; else it is frozen: no gradient, no moments, no step changes it */
    size_t rows, columns; /* a vector is one row */
    float *data;          /* the numbers, row-major; NULL where they are stored or divided among ranks, and in a plan */
    float *gradient;      /* shaped alike; NULL before there are gradients, where it is frozen, and in a plan */
    bool decays;          /* under weight decay */
    float rate;           /* times that of a step, which it learns with: 1 */
    uint64_t version;     /* raised when the numbers change: packed copies are made again */
    struct qkv_array array; /* as files have it; the name is owned */
    struct qkv_tensor *part_of;
    size_t first_row; /* its first row there; of a bias, its first column */
    float std, bound,
        constant;        /* new numbers: normal with this deviation, else uniform within ±bound, else the constant, */
    const float *starts; /* or these */
};

/* Where the numbers of weights come from that are not to be copied: the tensors of a file, by name; NULL: it has none so called. */
struct qkv_weight_source {
    const void *file;
    const struct qkv_array *(*find)(const void *file, const char *name);
};

struct qkv_norm {
    struct qkv_tensor weight, bias; /* data is NULL without one */
};
struct qkv_linear {
    struct qkv_tensor weight, bias; /* the same */
};
/* Those of the experts of a layer. */
struct qkv_expert_weights {
    size_t count, operand_count;
    struct qkv_linear *up, *down; /* (count): gated, gate and up in one (2·F, C); (C, F) */
    struct qkv_tensor **operands; /* all of their tensors */
};
/* A tensor that is there, or NULL: qkv_tensor_or_null(&linear->bias). */
struct qkv_tensor *qkv_tensor_or_null(struct qkv_tensor *tensor);
/* qkv_op_norm with the weights that qkv_weights_norm made of the same spec (norm.c). */
struct qkv_tensor *qkv_norm_apply(struct qkv_tape *tape, const struct qkv_norm_spec *spec, struct qkv_norm *norm,
                                  struct qkv_tensor *x, enum qkv_result result);

/* The list, and the operands that its weights are rows of, in the order of memory. */
struct qkv_weights {
    struct qkv_context *ctx;
    /* Where numbers are taken from while the list is built; may be measuring: then it is a plan. */
    struct qkv_arena *arena;
    struct qkv_weight_source source;  /* find NULL: all weights get memory, in fp32 */
    const struct qkv_init_spec *init; /* what new numbers are; NULL: normal with deviation 1/sqrt(columns) */
    enum qkv_status status;           /* the first failure of the builder */
    struct qkv_weight *list;
    size_t count, capacity;
    struct qkv_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    struct qkv_stored_part *parts; /* one for each weight */
    double *gradient_sums;         /* one for each piece of the gradient norm; NULL before there are gradients */
    float *gradients;              /* all of them, with the padding between tensors, which is zero */
    size_t floats;                 /* there */
    uint64_t chosen;               /* raised when a weight is frozen, or learns again: passes plan anew */
};

/* ---- building (weights.c). Failures are kept in weights->status (QKV_MEMORY; QKV_SPEC: too large); later calls do nothing. ---- */
/* One operand made of the weights of `count` roles, rows under rows. Where the source has all of them in formats of
 * QKV_FORMAT_LIST, and not all in f32, they stay there and take no memory. */
void qkv_weights_matrix(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                        const enum qkv_role *roles, size_t count);
/* Their biases, one after the other in one vector: of those roles that have one, or with NULL of all. What stands in the place of the
 * others is 0 and belongs to no weight, so it never learns. Nothing where no role has one. */
void qkv_weights_bias(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                      const enum qkv_role *roles, const bool *has, size_t count);
/* Both, or, without `bias`, the former. */
void qkv_weights_linear(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_linear *linear,
                        const enum qkv_role *roles, size_t count, bool bias);
/* What a norm of that kind has: a weight that multiplies by 1, and a bias of 0. */
void qkv_weights_norm(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_norm *norm,
                      enum qkv_role role, const struct qkv_norm_spec *spec);
/* Once the list is whole: tells the operands of their weights. */
enum qkv_status qkv_weights_finish(struct qkv_weights *weights);
/* Frees the list, not the numbers. */
void qkv_weights_free(struct qkv_weights *weights);

/* ---- the list (weights.c) ---- */
/* Draws new numbers: the same at any thread count. */
void qkv_weights_start(struct qkv_weights *weights, uint64_t seed);
/* Gives every operand some weight of which learns its gradient, zeroed, from an arena, which may be measuring: then it is a plan. */
enum qkv_status qkv_weights_add_gradients(struct qkv_weights *weights, struct qkv_arena *arena);
/* Takes them away again; their memory is the arena's owner's. */
void qkv_weights_drop_gradients(struct qkv_weights *weights);
void qkv_weights_clear_gradients(struct qkv_weights *weights);
/* A pass over them begins: operands have not been used yet. */
void qkv_weights_begin(struct qkv_weights *weights);
/* The sums of squares of pieces of all gradients, and the square root of them all; 0 without any. */
enum { QKV_GRADIENT_PIECE = 1 << 16 };
void qkv_weights_square_gradients(struct qkv_weights *weights);
double qkv_weights_gradient_norm(const struct qkv_weights *weights);
/* The next run of rows (of a vector: columns) of an operand that learn, from *begin on: [*begin, *end). False: there is none. */
bool qkv_weights_learn(const struct qkv_tensor *tensor, size_t *begin, size_t *end);
/* Tells the list that all numbers have changed. */
void qkv_weights_changed(struct qkv_weights *weights);
/* Converts what lies in a file to fp32, in memory from an arena, which may be measuring: then nothing changes but the arena. */
enum qkv_status qkv_weights_to_fp32(struct qkv_weights *weights, struct qkv_arena *arena);
/* Whether it is a matrix of a product or an embedding, which files may have in a format of QKV_FORMAT_LIST; not a norm's. */
bool qkv_weight_has_formats(const struct qkv_weight *weight);
/* Whether nothing but products of the operands of linear layers reads it. */
bool qkv_weight_only_multiplied(const struct qkv_weight *weight);
/* The numbers of an operand that is packed for products in bf16 are as fp32 no longer here: where they were. */
float *qkv_weights_divide(struct qkv_weights *weights, struct qkv_tensor *tensor);
/* Those of all such operands lie where their gradients are for a while, or no longer. */
void qkv_weights_lend(struct qkv_weights *weights, bool lent);
/* The first weight that is divided among ranks and nowhere whole; NULL: there is none. */
const struct qkv_weight *qkv_weights_divided(const struct qkv_weights *weights);
/* The first weight that stays in a file; NULL: there is none. Bytes of all of them. */
const struct qkv_weight *qkv_weights_stored(const struct qkv_weights *weights);
size_t qkv_weights_stored_bytes(const struct qkv_weights *weights);
/* Bytes of one more copy, in fp32, of all weights that learn, each from a cache line on: a moment of an optimizer. */
size_t qkv_weights_moment_bytes(const struct qkv_weights *weights);
/* The sum of the versions of an operand's weights. */
uint64_t qkv_tensor_version(const struct qkv_tensor *tensor);

#endif
