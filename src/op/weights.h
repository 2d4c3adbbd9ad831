/* weights: the weights of a model, or of a part of one, as one list. Everything about weights iterates it: the
 * builder, initialisation, optimizers, checkpoints, files and plans of memory.
 *
 * QKV_ROLE_LIST lists the kinds of weights. A place says where a role occurs (stack, layer, sizes by letter). The
 * builder makes the list in the order of files and gives each operand of a product its memory: weights that are always
 * used together (q, k and v of self attention; k and v of cross attention; gate and up) are rows of one tensor, so one
 * product serves them all. Only the builder knows where numbers are in memory. */
#ifndef QKV_WEIGHTS_H
#define QKV_WEIGHTS_H

#include "op/op.h"

/* Sizes by letter, for one place. */
struct qkv_dimensions {
    size_t V, C, T;       /* vocabulary, width, rows of the table of positions */
    size_t E, P, Y;       /* widths of tokens, and of positions, types and norm of the embedding; how many types */
    size_t H, Hkv, D, Dv; /* of one attention: heads, key-value heads, width of a head and of its values */
    size_t M, U, O;       /* inputs of k, inputs of v, outputs of o */
    /* norms of its queries and of its keys: heads with weights of their own, and the width of one; or, where all heads
     * share one vector, its width, and Nd 0 */
    size_t Nq, Nk, Nd;
    size_t F, N;   /* width of the feed-forward; outputs of the head */
    size_t Ex, Fs; /* number of experts; width of the shared one */
    size_t W;      /* inputs of the head */
    /* of a stack that reads no tokens: the inputs of its first product (numbers of a patch, a vector or a window of a
     * convolution) and of its second convolution; positions in a window */
    size_t K, K2, kernel;
    size_t R; /* rows of a table of distance_bias */
    /* of latent attention: widths of the latents of queries, and of keys and values; channels that all heads share */
    size_t Lq, L, S;
};

/* Every kind of weight: X(ROLE, name in files, rows, columns, start, decays). A role is a matrix (rows, columns), or,
 * where columns is 0, the vector of a norm. Either may have a bias of `rows` numbers (that of a norm has the weight's
 * shape). The bias's name ends in ".bias" where the weight's ends in ".weight"; QKV_START_BIAS is its start, and it
 * does not decay. */
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

/* How new weights of a role start. RESIDUAL: a matrix that ends a residual branch. GIVEN: the numbers of the place's
 * `starts`, or 0, nothing random. */
enum qkv_start {
    QKV_START_EMBEDDING,
    QKV_START_LINEAR,
    QKV_START_RESIDUAL,
    QKV_START_NORM,
    QKV_START_BIAS,
    QKV_START_GIVEN
};

struct qkv_weights;
/* The first numbers of a role with start GIVEN: table(weights, of) makes them in weights->arena whenever weights get
 * their places. `of` must outlive the list. table NULL: 0. */
struct qkv_weight_start {
    const float *(*table)(struct qkv_weights *weights, const void *of);
    const void *of;
};
/* Where roles occur, while a list is built. */
struct qkv_weight_place {
    const char *stack;                  /* "encoder", "decoder"; NULL: of the whole model */
    int layer;                          /* from 0; −1: of no layer */
    int expert;                         /* of the roles of experts: the number of the expert, from 0 */
    const struct qkv_dimensions *sizes; /* of its roles */
    size_t branches;                    /* residual branches of the stack */
    unsigned times;                     /* the maximum number of uses of its operands in a pass; 0: one */
    struct qkv_weight_start start;      /* of roles with start GIVEN */
    bool head_wise;                     /* its operands are multiplied by qkv_op_head_linear */
};

/* A named weight. */
struct qkv_weight {
    enum qkv_role role;
    bool bias;         /* the bias of the role's matrix or norm */
    bool head_wise;    /* qkv_op_head_linear multiplies it */
    const char *stack; /* the place's; owned by the caller */
    int layer;
    int expert;           /* −1: of none */
    bool stored;          /* the numbers are in a mapped file, of the type in `array`; else they are fp32 in `data` */
    bool trainable;       /* else it is frozen: it has no gradient and no moments, and no step changes it */
    size_t rows, columns; /* a vector is one row */
    float *data;          /* the numbers, row-major; NULL where they are stored or divided among ranks, and in a plan */
    float *gradient;      /* of the same shape; NULL while there are no gradients, where it is frozen, and in a plan */
    bool decays;          /* weight decay applies */
    float rate;           /* its learning rate as a multiple of the step's; 1 by default */
    uint64_t version;     /* raised when the numbers change: packed copies are then made again */
    struct qkv_array array; /* as files have it; the name is owned */
    struct qkv_tensor *part_of;
    size_t first_row; /* its first row in part_of; for a bias, its first column */
    /* new numbers: normal with this standard deviation, else uniform within ±bound, else the constant */
    float std, bound, constant;
    struct qkv_weight_start start;
    const float *starts; /* new numbers in place of these, made by `start`; NULL: none */
    bool merged;         /* an adapter was merged into it, */
    double change;       /* which changed it by this part of its length (Frobenius norm) */
};

/* A file whose tensors may be used without a copy. find: a tensor by its name; NULL: the file has none of that name. */
struct qkv_weight_source {
    const void *file;
    const struct qkv_array *(*find)(const void *file, const char *name);
};

struct qkv_norm {
    struct qkv_tensor weight, bias; /* data is NULL for one that is absent */
};
struct qkv_linear {
    struct qkv_tensor weight, bias; /* data is NULL for one that is absent */
};
/* The weights of the experts of a layer. */
struct qkv_expert_weights {
    size_t count, operand_count;
    struct qkv_linear *up, *down; /* (count): up is (F, C), or, gated, gate and up in one (2·F, C); down is (C, F) */
    struct qkv_tensor **operands; /* all their tensors */
};
/* The tensor, or NULL if it is absent: qkv_tensor_or_null(&linear->bias). */
struct qkv_tensor *qkv_tensor_or_null(struct qkv_tensor *tensor);
/* qkv_op_norm with the weights that qkv_weights_norm made of the same spec (norm.c). */
struct qkv_tensor *qkv_norm_apply(struct qkv_tape *tape, const struct qkv_norm_spec *spec, struct qkv_norm *norm,
                                  struct qkv_tensor *x, enum qkv_result result);

/* The list, and the operands that its weights are rows of, in the order of memory. */
struct qkv_weights {
    struct qkv_context *ctx;
    struct qkv_arena *arena;          /* the numbers' memory; a measuring arena makes a plan */
    struct qkv_weight_source source;  /* find NULL: all weights get memory, in fp32 */
    const struct qkv_init_spec *init; /* the start of new numbers; NULL: normal with std 1/sqrt(columns) */
    enum qkv_status status;           /* the first failure of the builder, or of qkv_weights_clear_gradients */
    struct qkv_weight *list;
    size_t count, capacity;
    struct qkv_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    struct qkv_stored_part *parts; /* one per weight */
    double *gradient_sums; /* owned, of the host: one per piece of the norm; NULL while there are no gradients */
    float *gradients;      /* all gradients, with padding between tensors, which is zero */
    size_t floats;         /* of `gradients` */
    const struct qkv_product *product; /* of whatever has no row of its own */
    uint64_t changes;                  /* raised when numbers change */
    uint64_t chosen;                   /* raised when weights are frozen or unfrozen: passes then plan again */
};

/* ---- building (weights.c) ---- */
/* weights->status has the first failure (QKV_MEMORY; QKV_SPEC: too large); later calls do nothing. */
/* One operand made of the weights of `count` roles, stacked by rows. */
void qkv_weights_matrix(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                        const enum qkv_role *roles, size_t count);
/* The biases of these roles as one vector: of the roles that `has` one, or, with NULL, of all. The places of roles
 * without a bias are 0, belong to no weight and are never trained. No vector is made where no role has a bias. */
void qkv_weights_bias(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                      const enum qkv_role *roles, const bool *has, size_t count);
/* The matrix, and, if `bias`, the vector. */
void qkv_weights_linear(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_linear *linear,
                        const enum qkv_role *roles, size_t count, bool bias);
/* The weights of a norm: a weight that multiplies by 1, and a bias of 0, as far as its spec has them. */
void qkv_weights_norm(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_norm *norm,
                      enum qkv_role role, const struct qkv_norm_spec *spec);
/* An operand of an adapter of `count` weights from `like` on, which may be of another list: "X.lora_A.weight" for
 * "X.weight", where `letter` is "A"; "X.q_k_v.lora_A.weight" for X.q, X.k and X.v. New numbers are uniform within
 * ±bound. columns 0: it is a vector of `rows` numbers. */
void qkv_weights_adapter(struct qkv_weights *weights, struct qkv_tensor *tensor, const struct qkv_weight *like,
                         size_t count, const char *letter, size_t rows, size_t columns, float bound);
/* Gives each operand of a complete list its memory, from weights->arena in the order of the list. Where the source has
 * all weights of an operand in types of weights (type/type.h), and not all in f32, the operand reads the source and
 * takes no memory. May be called again, for another arena or source. Returns QKV_OK, or the first failure. */
enum qkv_status qkv_weights_place(struct qkv_weights *weights);
/* Gives each operand its rows of the table of products; `product` multiplies whatever has no row of its own. Fails with
 * QKV_ARGUMENT if ranks have divided an operand, and it is another product's. */
enum qkv_status qkv_weights_choose(struct qkv_weights *weights, const struct qkv_product *product);
/* Frees the list, not the numbers. */
void qkv_weights_free(struct qkv_weights *weights);

/* ---- the list (weights.c) ---- */
/* Draws new numbers, the same at any thread count. Fails if the backend does. */
enum qkv_status qkv_weights_start(struct qkv_weights *weights, uint64_t seed);
/* Gives every operand with a trainable weight its gradient, zeroed, from an arena; a measuring arena makes a plan. */
enum qkv_status qkv_weights_add_gradients(struct qkv_weights *weights, struct qkv_arena *arena);
/* Takes the gradients away; their memory belongs to the arena's owner. */
void qkv_weights_drop_gradients(struct qkv_weights *weights);
/* A failure becomes weights->status. */
void qkv_weights_clear_gradients(struct qkv_weights *weights);
/* Called before a pass: fails if gradients could not be cleared. */
enum qkv_status qkv_weights_check(const struct qkv_weights *weights);
/* Called when a pass begins: no operand was used yet. */
void qkv_weights_begin(struct qkv_weights *weights);
/* Sums the squares of all gradients in pieces, or fails if the backend does; qkv_weights_gradient_norm is the square
 * root of their sum, 0 without gradients. */
enum { QKV_GRADIENT_PIECE = 1 << 16 };
enum qkv_status qkv_weights_square_gradients(struct qkv_weights *weights);
double qkv_weights_gradient_norm(const struct qkv_weights *weights);
/* The next run [*begin, *end) of trainable rows (of a vector: columns) of an operand, from *begin on. False: there is
 * none. */
bool qkv_weights_learn(const struct qkv_tensor *tensor, size_t *begin, size_t *end);
/* Called when all numbers have changed: raises all versions. */
void qkv_weights_changed(struct qkv_weights *weights);
/* The numbers of the i-th weight have changed. */
void qkv_weight_changed(struct qkv_weights *weights, size_t i);
/* Converts the numbers in a mapped file to fp32, in memory from an arena; `adapted`: those of operands with an adapter
 * alone. A measuring arena counts that memory and changes nothing else. */
enum qkv_status qkv_weights_to_fp32(struct qkv_weights *weights, bool adapted, struct qkv_arena *arena);
/* Whether the weight is a matrix of a product or an embedding, which files may have in a type of weights. */
bool qkv_weight_has_formats(const struct qkv_weight *weight);
/* Whether only products of linear layers read the weight. */
bool qkv_weight_only_multiplied(const struct qkv_weight *weight);
/* Makes an operand that is packed in bf16 divided: it loses its fp32 numbers. Returns where they were. */
float *qkv_weights_divide(struct qkv_weights *weights, struct qkv_tensor *tensor);
/* lent: the fp32 numbers of all divided operands are in the memory of their gradients for a while; else nowhere. */
void qkv_weights_lend(struct qkv_weights *weights, bool lent);
/* The first weight that is divided among ranks and whose fp32 numbers this rank does not have; NULL: there is none. */
const struct qkv_weight *qkv_weights_divided(const struct qkv_weights *weights);
/* The first weight that is read from a mapped file; NULL: there is none. The bytes of all of them. */
const struct qkv_weight *qkv_weights_stored(const struct qkv_weights *weights);
size_t qkv_weights_stored_bytes(const struct qkv_weights *weights);
/* Bytes of one more fp32 copy of all trainable weights, each aligned to a cache line: a moment of an optimizer. */

size_t qkv_weights_moment_bytes(const struct qkv_weights *weights);
/* The sum of the versions of an operand's weights. */
uint64_t qkv_tensor_version(const struct qkv_tensor *tensor);

#endif
