/* op: the tape and the operators, each with its gradient.
 *
 * Offers: a define-by-run tape, and the operators as rows {name, check, forward, backward, cost} of one list. A builder
 * (qkv_op_linear(tape, x, …)) makes a node, has it checked, takes memory for its output, has it run by the row, and, when the
 * tape is recording, leaves the node on the tape. Without recording nothing is saved.
 * Builders pass NULL through and keep the first error, so model code is checked once, at its end.
 *
 * All activations are matrices (rows, columns), row-major and dense; a batch is rows = B·T, or fewer where sequences are shorter
 * (struct qkv_rows). They are fp32, but in mixed precision
 * (ctx->precision) those that only products and elementwise operators read are bf16; gradients are fp32 always. Arithmetic happens inside
 * qkv_parallel bodies only, so with ctx->dry set the same calls count memory and compute nothing. */
#ifndef QKV_OP_H
#define QKV_OP_H

#include "base/base.h"
#include "kernel/kernel.h"

/* A gradient's storage, shared while two tensors' gradients are equal, copied when one of them changes. */
struct qkv_grad_buffer {
    float *data;
    size_t count; /* floats */
    size_t room;  /* floats that there is memory for */
    int owners;
    struct qkv_grad_buffer *next; /* in the tape's list of free slots */
};

/* Gradients of a part of a batch that is whole groups of it (kernel.h: sums in a defined order) need not go to the parameters' own: the
 * products that make them can leave them where sums wait for other parts, with those of earlier parts added. */
struct qkv_gradient_carry {
    const float *own; /* the gradients of all parameters; NULL: this part's go there */
    float *to;        /* arrays like it; `to` may be the same */
    size_t count;
    const float *earlier[QKV_ORDER_LEVELS];
};

/* A weight packed for products in bf16 (qkv_bf16_pack), kept by the model and packed again when its weights have changed. */
struct qkv_packed_weight {
    void *data;
    uint64_t version; /* of the weights that were packed (qkv_tensor_version); 0: none yet */
};

/* The rows of a matrix as those of sequences of a larger batch, cut into groups: how sums over them are made (kernel.h: sums in a
 * defined order). Tensors without one are summed as they lie. Given to the tape by the pass, and handed on from the input of an
 * operator to its output. */
struct qkv_row_order {
    struct qkv_order sums;
    const struct qkv_row_order *pooled; /* of a matrix with one row a sequence */
    uint64_t first_row;                 /* the number of the first sequence in the larger batch */
    size_t keys;                        /* of attention: see `ordered` in struct qkv_attend */
    double *losses;                     /* (groups): what each group's rows lost is added here; NULL: nowhere */
};

struct qkv_tensor {
    void *data; /* floats, or bf16 */
    enum qkv_dtype dtype;
    size_t rows, columns;
    size_t planned_rows;                 /* of a ragged batch: those that memory is planned for; 0: as many as it has */
    bool requires_grad;                  /* its gradient is needed */
    struct qkv_grad_buffer *grad_buffer; /* an activation's gradient so far, NULL when none has come */
    const struct qkv_row_order *order;   /* of the rows; NULL: none */
    /* Of what all sequences read: its gradient is kept for each of so many by itself, one behind the other, so that they can be
     * added in a defined order. 0: one gradient */
    size_t gradients_apart;
    float *gradient;     /* a parameter's gradient, kept by the model and always added to; NULL for activations */
    unsigned times;      /* of a parameter: how often a pass uses it, at most; 0: once */
    float *later;        /* where its uses after the first one add theirs; NULL: to the same */
    size_t later_stride; /* from one of them to the next */
    uint8_t *later_rows; /* (uses,rows): not 0 where a row of one of them may not be 0 */
    unsigned given;      /* how many uses of it have asked where, since the pass began */
    const struct qkv_gradient_carry *carry; /* or NULL; of parameters that one product uses */
    bool carried;                           /* its gradient of this part is there, and not in `gradient` */
    const char *name;                       /* a parameter's name, for messages; may be NULL */
    unsigned uses;                          /* a parameter's uses on the tape that have not gone backward yet */
    const struct qkv_weight *weights; /* of an operand of weights: those that are its rows (op/weights.h); else NULL */
    size_t weight_count;
    /* of weights that stay as their file has them: what is read in place of `data`; count 0: none */
    struct qkv_stored stored;
    struct qkv_packed_weight *packed,
        *packed_transposed; /* a weight's, for x·wᵀ and for dy·w; NULL: packed at each use */
    bool fp32;              /* of a weight: its products multiply fp32 numbers in mixed precision too */
    bool divided; /* of a weight: its numbers lie here as bf16 alone, in `packed`; as fp32 ranks have a share each */
};

struct qkv_tape;
struct qkv_node;

/* Work of an operator in one direction. Products and attention are counted in operations; the others, which are bound by memory,
 * in the bytes that they cannot avoid to read and write. */
struct qkv_cost {
    double flops; /* a multiply and an add are two */
    double again; /* those of flops that compute what forward computed and did not keep (the scores of attention) */
    double bytes;
};

/* One implementation of an operator. A row reads and writes the tensors of a node and what the node has saved, nothing else, so
 * another table of rows can take the place of this one. */
typedef enum qkv_status qkv_operator_step(struct qkv_tape *tape, struct qkv_node *node);
typedef struct qkv_cost qkv_operator_cost(const struct qkv_node *node, bool backward);
struct qkv_operator {
    const char *name;
    qkv_operator_step *check;    /* inputs and options agree (QKV_SHAPE, QKV_ARGUMENT); there is no output yet */
    qkv_operator_step *forward;  /* inputs to output, and to what the node saves */
    qkv_operator_step *backward; /* the output's gradient to those of the inputs */
    qkv_operator_cost *cost;     /* of a node that has run; reads none of the numbers of tensors */
};

/* Every operator: X(name). The list makes the rows (operators.c) out of qkv_check_NAME, qkv_forward_NAME, qkv_backward_NAME and
 * qkv_cost_NAME, and, in the tests, one gradient check each. */
#define QKV_OPERATOR_LIST(X)                                                                                           \
    X(embed)                                                                                                           \
    X(linear)                                                                                                          \
    X(norm)                                                                                                            \
    X(rotate)                                                                                                          \
    X(join_heads)                                                                                                      \
    X(head_linear)                                                                                                     \
    X(head_norm)                                                                                                       \
    X(clip)                                                                                                            \
    X(attend)                                                                                                          \
    X(distance_bias)                                                                                                   \
    X(activation)                                                                                                      \
    X(gated)                                                                                                           \
    X(route)                                                                                                           \
    X(experts)                                                                                                         \
    X(row_gate)                                                                                                        \
    X(add)                                                                                                             \
    X(dropout)                                                                                                         \
    X(pool)                                                                                                            \
    X(gather)                                                                                                          \
    X(scatter)                                                                                                         \
    X(unfold)                                                                                                          \
    X(softcap)                                                                                                         \
    X(cross_entropy)                                                                                                   \
    X(inner_product)                                                                                                   \
    X(checkpoint)
#define QKV_OPERATOR_DECLARE(name)                                                                                     \
    qkv_operator_step qkv_check_##name, qkv_forward_##name, qkv_backward_##name;                                       \
    qkv_operator_cost qkv_cost_##name;
QKV_OPERATOR_LIST(QKV_OPERATOR_DECLARE)
#define QKV_OPERATOR_NUMBER(name) QKV_OPERATOR_##name,
enum { QKV_OPERATOR_LIST(QKV_OPERATOR_NUMBER) QKV_OPERATOR_COUNT };
/* The rows for CPUs, by number. */
extern const struct qkv_operator qkv_operators[QKV_OPERATOR_COUNT];

enum { QKV_INPUTS_MAX = 5 };
struct qkv_node {
    const struct qkv_operator *row;
    struct qkv_tensor *inputs[QKV_INPUTS_MAX]; /* activations and parameters that may want a gradient; NULL: absent */
    struct qkv_tensor *const *more;            /* further parameters, as many as there are experts */
    size_t more_count;
    struct qkv_tensor *output; /* NULL: a loss */
    void *saved;               /* options, and what forward keeps for backward: a record */
    struct qkv_node *fused; /* while forward runs: the next operator, which it computes in the same pass; NULL: none */
    bool whole;             /* forward has made the gradients too */
    bool asks;              /* what it runs inside asks for gradients, whether or not an input does */
    struct qkv_node *previous;
};

/* Told when the last use of a parameter has gone backward: its gradient is complete. */
typedef void qkv_gradient_listener(void *user, struct qkv_tensor *parameter);

/* The work of a tape: forward, backward, and forward once more (checkpoints). */
struct qkv_tape_costs {
    struct qkv_cost forward, backward, repeated;
};

/* The rows of a batch of B sequences of at most T positions: side by side, sequence after sequence, none for padding. */
struct qkv_rows {
    size_t N, B, T;
    size_t most; /* rows that memory is planned for: B·T, or fewer where fewer will come */
    bool ragged; /* some sequences may be shorter than T; else N = B·T and every array is as plain as it can be */
    const int32_t *start;          /* (B + 1): the first row of each sequence, and N */
    const int32_t *place;          /* (N): b·T + t of each row */
    const int32_t *position;       /* (N): t, or what it is in its document */
    const struct qkv_rows *before; /* those that the tape was given before */
};

struct qkv_tape {
    struct qkv_context *ctx;
    struct qkv_arena *arena;           /* what operators compute with; may be a measuring one */
    struct qkv_arena *graph_arena;     /* nodes, tensors and slots themselves; always real memory */
    const struct qkv_row_order *order; /* of the rows that are embedded next; NULL: none */
    bool recording;
    bool training; /* dropout is on */
    uint32_t dropout_key[2];
    uint32_t dropout_count; /* how many dropouts this tape has made: each has a key of its own */
    enum qkv_status status; /* the first error */
    struct qkv_node *last;
    struct qkv_grad_buffer *free_grad_buffers;
    const struct qkv_operator *rows; /* who computes: qkv_operators, or another table in its order */
    struct qkv_tape_costs *costs;    /* where work is added up; NULL: nowhere */
    bool repeats;                    /* what runs forward has run before: backward of a checkpoint */
    qkv_gradient_listener *listener; /* may be NULL */
    void *listener_user;
    const struct qkv_rows *batch; /* what the rows of activations are at the moment; NULL: nobody asks */
};

/* ---- tape (tape.c) ------------------------------------------------------------------------------------------- */
void qkv_tape_start(struct qkv_tape *tape, struct qkv_context *ctx, struct qkv_arena *arena,
                    struct qkv_arena *graph_arena, bool recording);
/* Turns dropout on; the seed names all masks of this tape. Elements of a mask are numbered by the padded place of their row. */
void qkv_tape_train(struct qkv_tape *tape, uint64_t dropout_seed);
/* Goes backward over everything recorded, from the operators that are losses. */
enum qkv_status qkv_tape_backward(struct qkv_tape *tape);
/* Without recording: moves x into the storage of `into` (same shape, older than the mark), takes back all memory since the
 * mark and returns `into`. With recording, and on a tape with an error, x is returned as it is. */
struct qkv_tape_mark {
    size_t arena, graph_arena;
};
struct qkv_tape_mark qkv_tape_mark(const struct qkv_tape *tape);
struct qkv_tensor *qkv_tape_keep(struct qkv_tape *tape, struct qkv_tape_mark mark, struct qkv_tensor *into,
                                 struct qkv_tensor *x);

/* For operators. */
bool qkv_tape_failed(struct qkv_tape *tape, enum qkv_status status);   /* keeps the first error; true if there is one */
void *qkv_tape_take(struct qkv_tape *tape, size_t count, size_t size); /* to compute with */
void *qkv_tape_take_graph(struct qkv_tape *tape, size_t size);         /* to write at once */
struct qkv_tensor *qkv_tape_tensor(struct qkv_tape *tape, size_t rows, size_t columns);
/* The same, but bf16 in mixed precision. */
struct qkv_tensor *qkv_tape_bf16_if_mixed(struct qkv_tape *tape, size_t rows, size_t columns);
/* A tensor over floats, or over the data of another tensor. */
struct qkv_tensor *qkv_tape_view(struct qkv_tape *tape, float *data, size_t rows, size_t columns);
struct qkv_tensor *qkv_tape_same(struct qkv_tape *tape, struct qkv_tensor *x);
/* A node of an operator (QKV_OPERATOR_NAME), in the rows of this tape. */
struct qkv_node qkv_tape_node(const struct qkv_tape *tape, int operator, void * saved);
/* Whether the node can run; keeps the error. */
bool qkv_tape_check(struct qkv_tape *tape, struct qkv_node *node);
/* Runs a checked node forward, and records a copy when recording and some input wants a gradient; the output then wants one
 * too. The output (of the operator fused with it, if there is one), or NULL after an error. */
struct qkv_tensor *qkv_tape_run(struct qkv_tape *tape, struct qkv_node *node);
/* Whether a node that runs forward will be left on the tape. */
bool qkv_tape_records(const struct qkv_tape *tape, const struct qkv_node *node);
/* A key for one more dropout mask of this tape. */
void qkv_tape_dropout_key(struct qkv_tape *tape, uint32_t key[2]);
/* The gradient of a node's output; never NULL while its backward runs. */
const float *qkv_gradient_in(const struct qkv_node *node);
/* Storage for x's gradient, exclusively x's; *accumulate says whether to add to it or to overwrite all of it. NULL when
 * x wants none, or memory ran out (then *status is set). */
float *qkv_gradient_out(struct qkv_tape *tape, struct qkv_tensor *x, bool *accumulate, enum qkv_status *status);
/* The same of a parameter that wants one. *rows: NULL, or a byte for each of its rows, that the caller sets where it adds to the row. */
float *qkv_gradient_rows(struct qkv_tensor *parameter, uint8_t **rows);
/* x's gradient += the output's gradient, without copying where possible. */
enum qkv_status qkv_gradient_pass(struct qkv_tape *tape, struct qkv_node *node, struct qkv_tensor *x);

/* y (+)= scale·x, n floats; in parallel (elementwise.c). */
void qkv_scale_floats(struct qkv_context *ctx, float *y, bool accumulate, const float *x, float scale, size_t n);
/* out[c] += the sum over rows of x[row][c], in the order of the rows, which are ldx apart; in parallel. */
void qkv_order_columns(struct qkv_context *ctx, const struct qkv_order *order, float *out, const float *x, size_t ldx,
                       size_t columns);
/* The same for some of the columns, ldx apart in x, by whoever shares them out; begins: (groups + 1) where each group's rows begin. */
void qkv_order_sum(const struct qkv_kernels *kernels, size_t groups, const size_t *begins, float *out, const float *x,
                   size_t ldx, size_t columns);
/* out[c] += the sum over the B sequences of x[b][c], columns apart: in the order of their rows, or, where that is NULL, one after the
 * other. */
void qkv_order_sequences(struct qkv_context *ctx, const struct qkv_row_order *order, float *out, const float *x,
                         size_t B, size_t columns);
/* (groups + 1): the first row of each group, and the end. */
void qkv_order_begins(const struct qkv_order *order, size_t begins[QKV_GROUPS_MAX + 1]);

/* ---- rows (operators.c) ----------------------------------------------------------------------------------------- */
/* Tells profile and plan of a node that has run. */
void qkv_operator_count(struct qkv_tape *tape, const struct qkv_node *node, bool backward);
/* For costs: bytes of a tensor and of its gradient, which is fp32 whatever the tensor is kept as; NULL has none. */
double qkv_tensor_bytes(const struct qkv_tensor *tensor);
double qkv_gradient_bytes(const struct qkv_tensor *tensor);
/* Operations of x (N, in) times a weight (out, in), forward or backward: one product for each of the two that wants it. */
double qkv_product_flops(const struct qkv_tensor *x, const struct qkv_tensor *weight, bool backward);

/* ---- operators -------------------------------------------------------------------------------------------------
 * Shapes in comments are (rows, columns). N = B·T, or the rows of a ragged batch. */

/* Tables whose rows are added, in this order, each a parameter, a constant, or NULL: not there; at least one is. */
enum { QKV_EMBED_TOKEN, QKV_EMBED_POSITION, QKV_EMBED_TYPE, QKV_EMBED_TABLES };
struct qkv_embedding {
    struct {
        struct qkv_tensor *rows;
        const int32_t *places; /* (N): the row of each n; NULL: the first one for all. They must outlive the tape */
        size_t first;          /* where places count from */
    } tables[QKV_EMBED_TABLES];
    float scale; /* of tokens */
    size_t N;
};
/* (N, C): scale·token[ids[n]] + position[first + positions[n]] + type[types[n]]. ids and types are checked against the rows of their
 * tables; positions are the caller's promise. */
struct qkv_tensor *qkv_op_embed(struct qkv_tape *tape, const struct qkv_embedding *embedding);

/* What an operator's result is kept as: fp32, or, in mixed precision, bf16 where it goes into products only. */
enum qkv_result { QKV_RESULT_FP32, QKV_RESULT_BF16_IF_MIXED };

/* x (N, in), weight (out, in), bias (1, out) or NULL: x·weightᵀ + bias, (N, out). */
struct qkv_tensor *qkv_op_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias, enum qkv_result result);

/* residual + scale·(x·weightᵀ + bias), fp32: what linear and add give, in one pass over the result. */
struct qkv_tensor *qkv_op_linear_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                     struct qkv_tensor *bias, struct qkv_tensor *residual, float scale);

/* act(x·weightᵀ + bias), or gated, with the limit of gates that clamp: what linear and activation (or gated) give and record, in one pass over the result. */
struct qkv_tensor *qkv_op_linear_activation(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                            struct qkv_tensor *bias, enum qkv_ffn_kind kind, bool gated, float limit);

/* A norm of each row of x, which is fp32. weight NULL: a bare one, which has no bias either; bias NULL: none. */
struct qkv_tensor *qkv_op_norm(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_norm_kind kind,
                               struct qkv_tensor *weight, struct qkv_tensor *bias, float eps, enum qkv_result result);

/* Heads side by side in a matrix: columns [column, column + heads·D). */
struct qkv_heads_of_columns {
    size_t column, heads, D;
    bool own; /* each has weights of its own, (heads, D); else all have the same D */
};
/* A norm of each of those heads of x, in place; weight and bias as of qkv_op_norm. x must not be used by anybody else before or after. */
struct qkv_tensor *qkv_op_head_norm(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_heads_of_columns heads,
                                    enum qkv_norm_kind kind, struct qkv_tensor *weight, struct qkv_tensor *bias,
                                    float eps);

/* Clamps columns [column, column + width) of x to ±limit in place; limit 0: gives x. x must not be used by anybody else before or after. */
struct qkv_tensor *qkv_op_clip(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t width, float limit);

/* Rotates the first 2·pairs of D channels of each head of x in place, from `column` on: row n by table (positions, pairs, 2) at
 * positions[n]. x must not be used by anybody else before or after. */
struct qkv_tensor *qkv_op_rotate(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t heads, size_t D,
                                 size_t pairs, bool interleaved, const float *table, const int32_t *positions);

/* a (N, H·Da) and b (N, Db), which all heads share: (N, H·(Da + Db)), [a_h | b] for each head. */
struct qkv_tensor *qkv_op_join_heads(struct qkv_tape *tape, struct qkv_tensor *a, struct qkv_tensor *b, size_t heads);

/* A product for each head: x (N, H·(in + tail)), weight the heads' matrices (in, out), or transposed (out, in), under one another:
 * (N, H·(out + tail)), [x_h[0 … in)·w_h | x_h[in …)] for each head; transposed: by w_hᵀ. */
struct qkv_tensor *qkv_op_head_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                      size_t heads, size_t tail, bool transposed);

/* Heads that lie side by side in the columns of a tensor, from `column` on. */
struct qkv_columns {
    struct qkv_tensor *x;
    size_t column;
};
/* What a table of biases by distance is made of: entry (h, d) of it is factors[d] (NULL: 1) times weight[rows[d]][h]. */
struct qkv_distance_map {
    const int32_t *rows;
    const float *factors;
};
/* weight (R, H): the table (H, count), whose gradient is kept for each of B sequences. The map must outlive the tape. */
struct qkv_tensor *qkv_op_distance_bias(struct qkv_tape *tape, struct qkv_tensor *weight, struct qkv_distance_map map,
                                        size_t count, size_t B);

/* What attention learns besides: the table of distances that the call has, and sinks (1, H), which replace the call's; NULL: none. */
struct qkv_attend_learned {
    struct qkv_tensor *distance_bias, *sinks;
};
/* softmax(q·kᵀ…)·v: (B·Tq, H·Dv), or as many rows as ragged queries have. The call is `attend`, whose heads, sizes, intervals, masks and biases must outlive the tape; q, k,
 * v, y, lse and the dropout key are filled in here, and dropout is applied when the tape trains. dattention_bias: the gradient of the
 * attention_bias, in its strides, which backward adds to; NULL: not wanted. kept: where to leave the call that was made, lse kept, for
 * qkv_attend_weights to look at as long as the memory of the tape lasts; NULL: nowhere. */
struct qkv_tensor *qkv_op_attend(struct qkv_tape *tape, struct qkv_columns q, struct qkv_columns k,
                                 struct qkv_columns v, const struct qkv_attend *attend,
                                 struct qkv_attend_learned learned, float *dattention_bias,
                                 const struct qkv_attend **kept);

/* act(x), or, when gated, act(x[:, :F])·x[:, F:] with F = columns/2. limit: of gates that clamp. */
struct qkv_tensor *qkv_op_activation(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind);
struct qkv_tensor *qkv_op_gated(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, float limit);

/* ---- experts (route.c, experts.c) ---- */

/* Which of E experts each of N rows goes through. In the memory of the tape. */
struct qkv_routing {
    size_t N, experts, top_k;
    int32_t *chosen; /* (N, top_k): the best one first */
    int32_t *slot;   /* (N, top_k): where a row stands among those of the experts, one after the other */
    int32_t *row;    /* (N·top_k): which row stands there */
    int32_t *start;  /* (experts + 1): where each expert's rows begin; they are in order */
};
struct qkv_route_options { /* as in struct qkv_experts_spec */
    size_t top_k, groups, top_groups;
    enum qkv_expert_scores scores;
    enum qkv_group_score group_score;
    bool normalize;
    float scale;
    float balance, z; /* gradients of losses, over the number of sequences that they are a mean of; 0: none */
    const struct qkv_rows *rows; /* the sequences that these are of; NULL: no losses */
    const int32_t *lengths;      /* where padding is computed, how many of a sequence's rows count; NULL: all */
    uint64_t *loads;             /* (experts): the rows of each are added where the tape records; NULL: nowhere */
    const char *name;            /* for messages: of the router */
};
/* logits (N, E), fp32; correction (1, E) or NULL: the weights (N, top_k) of the chosen, and who they are. QKV_NUMBER where a logit is no
 * finite number. */
struct qkv_tensor *qkv_op_route(struct qkv_tape *tape, struct qkv_tensor *logits, struct qkv_tensor *correction,
                                const struct qkv_route_options *options, const struct qkv_routing **routing);
/* x (N, C): Σ over the chosen of weight · down(act(up(x))), in the order of experts, (N, C) fp32; kind and limit as of qkv_op_linear_activation. The weights of
 * experts are op/weights.h's. */
struct qkv_expert_weights;
struct qkv_tensor *qkv_op_experts(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weights,
                                  const struct qkv_routing *routing, const struct qkv_expert_weights *experts,
                                  enum qkv_ffn_kind kind, bool gated, float limit);
/* x (N, C) times sigmoid(gate), gate (N, 1): fp32 both. */
struct qkv_tensor *qkv_op_row_gate(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *gate);
/* Σ a·b of n numbers, in an order of n alone (row_gate.c). */
float qkv_dot(const float *a, const float *b, size_t n);

/* x + scale·f. Takes f's storage for the sum: f must be the output of an operator that does not need its own output again
 * (linear, norm, dropout, embed), and nobody else's. */
struct qkv_tensor *qkv_op_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *f, float scale);

/* Inverted dropout, in place, when the tape trains and rate > 0; else x itself. As with add, x must be the output of
 * linear, embed or an activation and nobody else's; it may be bf16. */
struct qkv_tensor *qkv_op_dropout(struct qkv_tape *tape, struct qkv_tensor *x, float rate);

/* x (B·T, C) to (B, C): the first position, the last one, or the mean over the positions before lengths[b] (NULL: T). A row of length 0
 * gives zeros. */
struct qkv_tensor *qkv_op_pool(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind, size_t B, size_t T,
                               const int32_t *lengths);
/* The same of rows (N, C) without padding. */
struct qkv_tensor *qkv_op_pool_rows(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind,
                                    const struct qkv_rows *rows);

/* ---- rows of ragged batches (rows.c) ---- */
/* The sum of the lengths (B), each at most T; NULL: B·T. */
size_t qkv_rows_count(size_t B, size_t T, const int32_t *lengths);
/* The N rows that the lengths say, in the memory of the tape, whose batch they become. With the numbers of documents (B,T), positions
 * begin again where the number changes. A dry run does not read lengths and documents. most: rows of
 * all batches that will come; 0: B·T. */
const struct qkv_rows *qkv_rows_make(struct qkv_tape *tape, size_t B, size_t T, const int32_t *lengths,
                                     const int32_t *documents, size_t N, size_t most);
/* Of values (B,T) those of the rows: (N); the values themselves where there is no padding. */
const int32_t *qkv_rows_pack(struct qkv_tape *tape, const struct qkv_rows *rows, const int32_t *values);
/* The first N rows of a matrix (B·T, columns) go to their places; the others become zeros. */
void qkv_rows_spread(struct qkv_tape *tape, const struct qkv_rows *rows, float *matrix, size_t columns);

/* x (N, C): the rows index[0] … of it, (count, C); a row may be chosen several times. fp32. The index must outlive the tape. */
struct qkv_tensor *qkv_op_gather(struct qkv_tape *tape, struct qkv_tensor *x, const int32_t *index, size_t count);
/* x (N, C): (rows, C) with row n of x at index[n], no place twice, and zeros elsewhere. */
struct qkv_tensor *qkv_op_scatter(struct qkv_tape *tape, struct qkv_tensor *x, const int32_t *index, size_t rows);

/* Windows of a convolution over the positions of B sequences: sequence b of x is rows x_start[b] … x_start[b + 1] − 1, of which the first
 * count[b] are there and others read as zeros; of the output, rows y_start[b] … The arrays, (B + 1) and (B), must outlive the tape. */
struct qkv_unfold_options {
    size_t B, kernel, stride, rows; /* an odd kernel; rows of the output */
    const int32_t *x_start, *count, *y_start;
};
/* x (M, C), fp32 or bf16: (rows, C·kernel), window t of a sequence being around its position t·stride, channel by channel. order: of the
 * output's rows, or NULL. */
struct qkv_tensor *qkv_op_unfold(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_unfold_options *options,
                                 const struct qkv_row_order *order);

/* What becomes of scores: a score s becomes cap·tanh(scale·s / cap). */
struct qkv_softcap {
    float scale; /* 0: 1 */
    float cap;   /* 0: none, scale·s */
};
/* x of any shape, fp32; x itself where nothing becomes of it. */
struct qkv_tensor *qkv_op_softcap(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_softcap *options);

/* What a loss gives. */
struct qkv_loss {
    double sum;     /* over the targets that count, not divided */
    size_t counted; /* how many */
};
struct qkv_cross_entropy_options {
    const int32_t *targets; /* (N), QKV_IGNORE does not count; NULL: no loss, logits only */
    float scale;            /* the gradient is that of scale·Σ loss */
    float smoothing; /* e: loss is (1 − e)·(−log p[target]) + e·mean over all of −log p (Szegedy et al. 2016) */
    float *logits;   /* (N, V) to be filled, or NULL */
    struct qkv_softcap softcap; /* of the scores */
};
/* Scores softcap(x·weightᵀ + bias) of x (N, C) against weight (V, C), and the loss −log softmax(scores)[target], in chunks of rows
 * so that all scores are never held at once (unless asked for). A recording tape computes the gradient on the way
 * (a loss is where backward starts, so it is known). */
void qkv_op_cross_entropy(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                          struct qkv_tensor *bias, const struct qkv_cross_entropy_options *options,
                          struct qkv_loss *loss);

/* The loss Σ scale·x·g with a given g (N, C): its gradient is scale·g. */
void qkv_op_inner_product(struct qkv_tape *tape, struct qkv_tensor *x, const float *g, float scale,
                          struct qkv_loss *loss);

#endif
