/* op: the tape and the operators, each with its gradient.
 *
 * This header offers a define-by-run tape, and the operators as rows {name, check, forward, backward, cost} of one
 * list. A builder (qkv_op_linear(tape, x, …)) makes a node, checks it, takes memory for its output and runs the row's
 * forward; a recording tape saves the node for backward, any other tape saves nothing. A builder that gets NULL for an
 * activation returns NULL, and the tape keeps the first error, so model code checks the status once, at its end.
 *
 * All activations are dense row-major matrices (rows, columns). A batch has B·T rows, or fewer where sequences are
 * shorter than T (struct qkv_rows). Activations are fp32; in mixed precision (ctx->precision) those that only products
 * and elementwise operators read are bf16. Gradients are always fp32.
 *
 * All arithmetic of rows happens in bodies of qkv_parallel and qkv_compute, and in steps (op/steps.h). A context that
 * plans skips them, so the same calls count memory and compute nothing. Besides outputs and gradients, rows give a few
 * results to the host, in the host's memory: qkv_loss, the losses of groups (qkv_row_order), the loads of experts
 * (qkv_route_options), and whether a gradient was carried (qkv_learning). While a context plans, none is given. */
#ifndef QKV_OP_H
#define QKV_OP_H

#include "base/base.h"
#include "kernel/product.h"

/* ---- a tensor: an activation, or an operand, and what it learns ------------------------------------------------- */

/* The numbers of an activation in the type in which a product reads them, made once for all products of the tape that
 * read them (form.c). */
struct qkv_form {
    void *data;
    enum qkv_dtype dtype;
    size_t mark; /* of the tape's arena, before it */
    const struct qkv_tensor *of;
    struct qkv_form *previous; /* of the tape */
};

/* A weight packed for its product. The model owns it, packs it when it is finished, and packs it again before the next
 * forward pass when its numbers have changed (model/packed_weights.c). */
struct qkv_packed_weight {
    void *data;
    uint64_t version; /* of the weights that were packed (qkv_tensor_version); 0: not packed yet */
};

struct qkv_adapter;

/* The weights of one product, or the rows of a look-up. All is 0 in an activation. */
struct qkv_operand_part {
    const char *name;                 /* for messages; may be NULL */
    const struct qkv_weight *weights; /* that are its rows, one under the other (op/weights.h) */
    size_t weight_count;
    /* weights read from a mapped file: the parts to read in place of the tensor's data; count 0: none */
    struct qkv_stored stored;
    /* the rows of the table for x·wᵀ, and for the products of backward and of single heads; NULL: the context's */
    const struct qkv_product *product, *product_back;
    struct qkv_packed_weight *packed;            /* packed for x·wᵀ; NULL: packed at each use, or read as stored */
    struct qkv_packed_weight *packed_transposed; /* the same for dy·w */
    bool fp32;                                   /* its products are fp32 in every precision */
    bool divided; /* this rank has the weight as bf16 only, in `packed`; each rank has a share of its fp32 numbers */
    const struct qkv_adapter *adapter; /* is added to x·wᵀ by qkv_op_linear and its like; NULL: none */
    const struct qkv_adapter *named;   /* list of adapters that rows may choose by number; NULL: none */
};

/* The storage of a gradient. Two tensors with equal gradients share it; the one that changes takes a copy first. */
struct qkv_grad_buffer {
    float *data;
    size_t count; /* floats */
    size_t room;  /* floats of memory */
    int owners;
    struct qkv_grad_buffer *next; /* in the tape's list of free buffers */
};

/* Which sequences, of which groups of a larger batch, the rows of a matrix belong to: it defines the order of sums over
 * rows (kernel/order.h). Rows of a tensor without one are summed in an order of their number alone. The pass sets it on
 * the tape; operators copy it from their input to their output. */
struct qkv_row_order {
    struct qkv_order sums;
    const struct qkv_row_order *pooled; /* the order of a matrix with one row per sequence */
    uint64_t first_row;                 /* the number of the first sequence in the larger batch */
    size_t keys;                        /* of attention: see `ordered` in struct qkv_attend */
    double *losses; /* (groups), of the host: the loss of each group's rows is added here; NULL: nowhere */
};

/* Where the gradients of a part of a batch go while sums of other parts are pending (kernel/order.h). The part consists
 * of whole groups. Products write their sums, with those of earlier parts added, straight to `to`. */
struct qkv_gradient_carry {
    const float *own; /* the gradients of all parameters; NULL: this part's gradients go there */
    float *to;        /* an array of the same layout; `to` may be `own` */
    size_t count;
    const float *earlier[QKV_ORDER_LEVELS];
};

/* What backward does with a tensor. docs/sums.md explains the order of sums, parts and ranks, with a picture. */
struct qkv_learning {
    bool requires_grad; /* backward computes its gradient */
    /* Of an activation: */
    struct qkv_grad_buffer *buffer;    /* its gradient so far; NULL: nothing was added yet */
    const struct qkv_row_order *order; /* of its rows; NULL: none */
    /* B where every sequence reads it and its gradient is stored per sequence, one after the other, so that they can be
     * added in a defined order; 0: one gradient */
    size_t apart;
    /* Of a parameter: */
    float *gradient;     /* owned by the model and only ever added to; NULL for activations */
    unsigned uses;       /* nodes on the tape whose backward has not run yet */
    unsigned times;      /* the maximum number of uses in a pass; 0: one. Each may have a buffer of its own: */
    float *later;        /* the buffers of all uses after the first; NULL: all uses add to `gradient` */
    size_t later_stride; /* floats from one of these buffers to the next */
    uint8_t *later_rows; /* (times − 1, rows): non-zero where a row of one of these buffers was written */
    unsigned given;      /* uses that asked for their buffer since the pass began */
    const struct qkv_gradient_carry *carry; /* of parameters that one product uses; else NULL */
    bool carried;                           /* this part's gradient was written to carry->to, not to `gradient` */
};

/* A dense matrix, row by row: an activation, on a tape, or an operand, in a model. */
struct qkv_tensor {
    void *data; /* fp32, or bf16; of an operand whose numbers are elsewhere only a sign that it exists */
    enum qkv_dtype dtype;
    size_t rows, columns;
    size_t planned_rows; /* rows that a ragged batch's plan has memory for; 0: as many as `rows` */
    struct qkv_operand_part operand;
    struct qkv_learning learning;
};

/* The adapter of an operand w (LoRA, Hu et al. 2021): for each part, the columns of x·wᵀ from `first` on get
 * scale·(x·aᵀ)·bᵀ more. With magnitudes (DoRA, Liu et al. 2024), column k of that sum is then multiplied by
 * m[k] / norm[k]. The model owns it (model/adapter.c). */
struct qkv_adapter_part {
    struct qkv_tensor a, b; /* (rank, in) and (columns, rank) */
    struct qkv_tensor m;    /* (1, columns): the magnitudes; data NULL: none */
    float *norm;            /* (columns): the lengths of the rows of w + scale·b·a, which have no gradient */
    size_t first;
    float scale;
};
struct qkv_adapter {
    struct qkv_adapter_part *parts;
    struct qkv_tensor **operands; /* a, b and, with magnitudes, m of each part */
    size_t count, operand_count;
    bool magnitudes;                /* all parts have m, or none */
    float dropout;                  /* of the x that the parts read, while a tape trains */
    size_t number;                  /* of one that rows choose */
    const struct qkv_adapter *next; /* in the operand's list of these */
};
/* Rows that choose an adapter: `count` rows from `first` on, as far as there are so many. */
struct qkv_adapter_run {
    size_t number, first, count;
};
struct qkv_adapter_runs {
    const struct qkv_adapter_run *list;
    size_t count;
};

struct qkv_tape;
struct qkv_node;

/* Work of an operator in one direction. Products and attention are measured in operations; the other operators are
 * bound by memory and are measured in the bytes that they must read and write. */
struct qkv_cost {
    double flops; /* a multiply and an add are two */
    /* the part of flops that backward computes again because forward did not save it (attention's scores) */
    double again;
    double bytes;
};

/* One implementation of an operator. A row reads and writes only the tensors of a node and what the node has saved, so
 * another table of rows can replace this one. */
typedef enum qkv_status qkv_operator_step(struct qkv_tape *tape, struct qkv_node *node);
typedef struct qkv_cost qkv_operator_cost(const struct qkv_node *node, bool backward);
struct qkv_operator {
    const char *name;
    qkv_operator_step *check;    /* inputs and options agree (QKV_SHAPE, QKV_ARGUMENT); there is no output yet */
    qkv_operator_step *forward;  /* computes the output from the inputs, and what the node saves */
    qkv_operator_step *backward; /* computes the gradients of the inputs from the output's */
    qkv_operator_cost *cost;     /* of a node that has run; reads sizes only, no numbers of tensors */
};

/* Every operator: X(name). The list makes the rows (operators.c) from qkv_check_NAME, qkv_forward_NAME,
 * qkv_backward_NAME and qkv_cost_NAME; the tests make one gradient check per name.
 *
 * Operators of the first list take memory by shapes alone, so the same row also plans. What the others take depends on
 * numbers, as how many rows an expert gets: for them the backend that plans has rows of their own, with
 * qkv_plan_forward_NAME and qkv_plan_backward_NAME, which take the maximum. */
#define QKV_OPERATOR_LIST(X) QKV_OPERATOR_BY_SHAPE_LIST(X) QKV_OPERATOR_BY_NUMBERS_LIST(X)
#define QKV_OPERATOR_BY_SHAPE_LIST(X)                                                                                  \
    X(embed)                                                                                                           \
    X(linear)                                                                                                          \
    X(norm)                                                                                                            \
    X(rotate)                                                                                                          \
    X(join_heads)                                                                                                      \
    X(head_linear)                                                                                                     \
    X(head_norm)                                                                                                       \
    X(clip)                                                                                                            \
    X(position_scale)                                                                                                  \
    X(mask_scale)                                                                                                      \
    X(attend)                                                                                                          \
    X(distance_bias)                                                                                                   \
    X(activation)                                                                                                      \
    X(gated)                                                                                                           \
    X(route)                                                                                                           \
    X(row_gate)                                                                                                        \
    X(add)                                                                                                             \
    X(dropout)                                                                                                         \
    X(pool)                                                                                                            \
    X(gather)                                                                                                          \
    X(scatter)                                                                                                         \
    X(unfold)                                                                                                          \
    X(scores)                                                                                                          \
    X(inner_product)                                                                                                   \
    X(checkpoint)
#define QKV_OPERATOR_BY_NUMBERS_LIST(X)                                                                                \
    X(experts)                                                                                                         \
    X(cross_entropy)
#define QKV_OPERATOR_DECLARE(name)                                                                                     \
    qkv_operator_step qkv_check_##name, qkv_forward_##name, qkv_backward_##name;                                       \
    qkv_operator_cost qkv_cost_##name;
QKV_OPERATOR_LIST(QKV_OPERATOR_DECLARE)
#define QKV_OPERATOR_DECLARE_PLAN(name) qkv_operator_step qkv_plan_forward_##name, qkv_plan_backward_##name;
QKV_OPERATOR_BY_NUMBERS_LIST(QKV_OPERATOR_DECLARE_PLAN)
#define QKV_OPERATOR_NUMBER(name) QKV_OPERATOR_##name,
enum { QKV_OPERATOR_LIST(QKV_OPERATOR_NUMBER) QKV_OPERATOR_COUNT };
/* The rows for CPUs, by number. */
extern const struct qkv_operator qkv_operators[QKV_OPERATOR_COUNT];

enum { QKV_INPUTS_MAX = 5 };
struct qkv_node {
    const struct qkv_operator *row;
    struct qkv_tensor *inputs[QKV_INPUTS_MAX]; /* activations and parameters that may want a gradient; NULL: absent */
    struct qkv_tensor *const *more;            /* further parameters: operands of experts, or of an adapter */
    size_t more_count;
    struct qkv_tensor *output; /* NULL: a loss */
    void *saved;               /* the operator's record: its options, and what forward saves for backward */
    struct qkv_node *fused;    /* while forward runs: the next node, which the same pass computes; NULL: none */
    bool whole;                /* forward has computed the gradients too */
    bool asks;                 /* a parameter inside this node wants a gradient, even if no input does */
    struct qkv_node *previous;
};

/* Called when the last use of a parameter has gone backward: its gradient is complete. */
typedef void qkv_gradient_listener(void *user, struct qkv_tensor *parameter);

/* The work of a tape: forward, backward, and the forward that checkpoints repeat. */
struct qkv_tape_costs {
    struct qkv_cost forward, backward, repeated;
};

/* The rows of a batch of B sequences of at most T positions: sequence after sequence, without rows for padding. */
struct qkv_rows {
    size_t N, B, T;
    size_t most;             /* rows that memory is planned for, the maximum of all batches to come: at most B·T */
    bool ragged;             /* some sequences may be shorter than T; else N = B·T and no array is packed */
    const int32_t *start;    /* (B + 1): the first row of each sequence, and N */
    const int32_t *place;    /* (N): b·T + t of each row */
    const int32_t *position; /* (N): t, or the position inside its document */
    const struct qkv_rows *before; /* the rows that the tape had before these */
};

struct qkv_tape {
    struct qkv_context *ctx;
    struct qkv_arena *arena;           /* numbers that operators compute with; may be a measuring arena */
    struct qkv_arena *graph_arena;     /* nodes, tensors and grad_buffers themselves; always real memory */
    const struct qkv_row_order *order; /* of the rows that qkv_op_embed makes next; NULL: none */
    bool recording;
    bool training; /* dropout is on */
    uint32_t dropout_key[2];
    uint32_t dropout_count; /* dropouts of this tape so far: each has a key of its own */
    enum qkv_status status; /* the first error */
    struct qkv_node *last;
    struct qkv_grad_buffer *free_grad_buffers;
    const struct qkv_operator *rows;   /* the operators of the context's backend */
    const struct qkv_product *product; /* of whatever has no row of its own, and of attention */
    struct qkv_tape_costs *costs;      /* work is added up here; NULL: nowhere */
    bool repeats;                      /* forward runs again, in backward of a checkpoint */
    qkv_gradient_listener *listener;   /* may be NULL */
    void *listener_user;
    const struct qkv_rows *batch; /* the batch that rows of new activations belong to; NULL: not known */
    struct qkv_adapter_runs runs; /* the rows of all linears that choose an adapter; only where nothing is recorded */
    struct qkv_form *forms;       /* the latest form that was made */
};

/* ---- tape (tape.c) ------------------------------------------------------------------------------------------- */
/* Starts a tape, in the context's precision; the caller may set another product. */
void qkv_tape_start(struct qkv_tape *tape, struct qkv_context *ctx, struct qkv_arena *arena,
                    struct qkv_arena *graph_arena, bool recording);
/* Turns dropout on; the seed determines all masks of this tape. Elements of a mask are numbered by b·T + t of their
 * row. */
void qkv_tape_train(struct qkv_tape *tape, uint64_t dropout_seed);
/* Runs backward over all recorded nodes, from the losses on. Returns the tape's first error. */
enum qkv_status qkv_tape_backward(struct qkv_tape *tape);
/* The same from y, whose gradient dy is the caller's and is not written. */
enum qkv_status qkv_tape_backward_from(struct qkv_tape *tape, struct qkv_tensor *y, const float *dy);
/* A tape that does not record: moves x into the storage of `into` (same shape, taken before the mark), releases all
 * memory taken since the mark and returns `into`. A tape that records or has an error: returns x. */
struct qkv_tape_mark {
    size_t arena, graph_arena;
};
struct qkv_tape_mark qkv_tape_mark(const struct qkv_tape *tape);
/* Releases all memory taken since the mark; forms that were made there are forgotten. */
void qkv_tape_release(struct qkv_tape *tape, struct qkv_tape_mark mark);
struct qkv_tensor *qkv_tape_keep(struct qkv_tape *tape, struct qkv_tape_mark mark, struct qkv_tensor *into,
                                 struct qkv_tensor *x);

/* For operators. */
/* Stores the first error. Returns true if the tape has one. */
bool qkv_tape_failed(struct qkv_tape *tape, enum qkv_status status);
void *qkv_tape_take(struct qkv_tape *tape, size_t count, size_t size); /* for parallel bodies only: may be a plan's */
void *qkv_tape_take_graph(struct qkv_tape *tape, size_t size);         /* always real memory */
struct qkv_tensor *qkv_tape_tensor(struct qkv_tape *tape, size_t rows, size_t columns);
/* The same, in the type in which the context's product stores activations that only products read. */
struct qkv_tensor *qkv_tape_for_products(struct qkv_tape *tape, size_t rows, size_t columns);
/* The same in the shape and type of x. */
struct qkv_tensor *qkv_tape_like(struct qkv_tape *tape, const struct qkv_tensor *x);
/* ---- forms (form.c) ---- */
/* Rows as a product reads them. */
struct qkv_linear_rows {
    void *data;
    enum qkv_dtype dtype;
};
/* Whether a product reads numbers of that type. */
bool qkv_product_reads(const struct qkv_product *product, enum qkv_dtype dtype);
/* x in a type that the product reads: x itself, or its form, which is made where x has none. data is NULL after an
 * error. */
struct qkv_linear_rows qkv_tape_form(struct qkv_tape *tape, const struct qkv_product *product,
                                     const struct qkv_tensor *x);
/* The form of that type that the tape has of x; NULL: none was made. */
const struct qkv_form *qkv_tape_formed(const struct qkv_tape *tape, const struct qkv_tensor *x, enum qkv_dtype dtype);
/* `count` numbers, whole rows, in a type that the product reads: the same ones, or converted, in memory of the
 * arena. */
struct qkv_linear_rows qkv_tape_convert(struct qkv_tape *tape, const struct qkv_product *product,
                                        struct qkv_linear_rows x, size_t count);
/* The rows of the table for an operand. */
const struct qkv_product *qkv_operand_product(const struct qkv_tape *tape, const struct qkv_tensor *weight);
const struct qkv_product *qkv_operand_product_back(const struct qkv_tape *tape, const struct qkv_tensor *weight);
/* A tensor over the caller's floats, or over the data of another tensor. */
struct qkv_tensor *qkv_tape_view(struct qkv_tape *tape, float *data, size_t rows, size_t columns);
struct qkv_tensor *qkv_tape_same(struct qkv_tape *tape, struct qkv_tensor *x);
/* A node of an operator (QKV_OPERATOR_NAME), with the row of this tape's table. */
struct qkv_node qkv_tape_node(const struct qkv_tape *tape, int operator, void * saved);
/* Runs the row's check. Returns whether the node can run; the tape keeps the error. */
bool qkv_tape_check(struct qkv_tape *tape, struct qkv_node *node);
/* Runs a checked node forward. A recording tape saves a copy of a node that an input wants a gradient of; the output
 * then requires a gradient too. Returns the output (of the fused node, if there is one), or NULL after an error. */
struct qkv_tensor *qkv_tape_run(struct qkv_tape *tape, struct qkv_node *node);
/* Whether the tape records this node when it runs. */
bool qkv_tape_records(const struct qkv_tape *tape, const struct qkv_node *node);
/* A key for one more dropout mask of this tape. */
void qkv_tape_dropout_key(struct qkv_tape *tape, uint32_t key[2]);
/* The gradient of a node's output; never NULL while its backward runs. */
const float *qkv_gradient_in(const struct qkv_node *node);
/* Storage for x's gradient that no other tensor shares; *accumulate says whether to add to it or to overwrite all of
 * it. NULL when x wants no gradient, or when memory ran out (then *status is set). */
float *qkv_gradient_out(struct qkv_tape *tape, struct qkv_tensor *x, bool *accumulate, enum qkv_status *status);
/* The same for a parameter that wants a gradient. *rows: NULL, or one byte per row, which the caller sets to 1 for each
 * row that it adds to. */
float *qkv_gradient_rows(struct qkv_tensor *parameter, uint8_t **rows);
/* x's gradient += the output's gradient, without copying where possible. */
enum qkv_status qkv_gradient_pass(struct qkv_tape *tape, struct qkv_node *node, struct qkv_tensor *x);

/* y (+)= scale·x, n floats; in parallel (elementwise.c). */
void qkv_scale_floats(struct qkv_context *ctx, float *y, bool accumulate, const float *x, float scale, size_t n);
/* out[c] += the sum over rows of x[row][c], in the order that `order` defines; rows are ldx floats apart. In
 * parallel. */
void qkv_order_columns(struct qkv_context *ctx, const struct qkv_order *order, float *out, const float *x, size_t ldx,
                       size_t columns);
/* The same on the calling thread for `columns` columns; begins (groups + 1): the first row of each group. */
void qkv_order_sum(const struct qkv_kernels *kernels, size_t groups, const size_t *begins, float *out, const float *x,
                   size_t ldx, size_t columns);
/* out[c] += the sum over the B sequences of x[b][c], rows `columns` floats apart: in the order that `order` defines,
 * or, where it is NULL, one sequence after the other. */
void qkv_order_sequences(struct qkv_context *ctx, const struct qkv_row_order *order, float *out, const float *x,
                         size_t B, size_t columns);
/* (groups + 1): the first row of each group, and the end. */
void qkv_order_begins(const struct qkv_order *order, size_t begins[QKV_GROUPS_MAX + 1]);

/* ---- rows (operators.c) ----------------------------------------------------------------------------------------- */
/* Whether the costs of nodes are counted: for the profile, or for the tape's costs. */
bool qkv_operator_counts(const struct qkv_tape *tape);
/* Adds a node that has run to the profile and to the tape's costs. */
void qkv_operator_count(struct qkv_tape *tape, const struct qkv_node *node, bool backward);
/* For costs: bytes of a tensor, and of its gradient, which is always fp32; 0 for NULL. */
double qkv_tensor_bytes(const struct qkv_tensor *tensor);
double qkv_gradient_bytes(const struct qkv_tensor *tensor);
/* Operations of x (N, in) times a weight (out, in): forward, or backward's one product for each of x and weight that
 * wants a gradient. */
double qkv_product_flops(const struct qkv_tensor *x, const struct qkv_tensor *weight, bool backward);

#include "op/builders.h"

#endif
