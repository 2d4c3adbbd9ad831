/* A pass and its attentions, for the files that implement it (pass*.c). */
#ifndef QKV_PASS_H
#define QKV_PASS_H

#include "model/model.h"

/* The shape of a batch, which determines its memory. */
struct qkv_pass_key {
    size_t B, T, source_T, rows, source_rows, groups;
    size_t scored;                /* 1 + the number of chosen rows; 0: none are chosen */
    size_t inputs, source_inputs; /* 1: vectors in place of ids; 2: and their gradient is wanted */
    size_t ragged, source_ragged; /* 1: sequences may be shorter than T */
    size_t masks;                 /* dense masks given: 1 of self attention, 2 of the source's, 4 of cross attention */
};

struct qkv_pass {
    struct qkv_model *model;
    struct qkv_pass_options options;
    bool trains; /* it counts as a user that trains the model: not a plan */
    struct qkv_arena arena, graph_arena;
    struct qkv_tape tape;
    struct qkv_pass_plan plan;       /* of all its shapes */
    struct qkv_tape_costs *costs;    /* of a plan: the work is added up here */
    size_t groups;                   /* the maximum; 0: batches are not parts of larger ones */
    struct qkv_pass_part part;       /* groups 0: none */
    qkv_gradient_listener *listener; /* NULL: none */
    void *listener_user;
    struct qkv_pass_key shape;     /* of the batch that runs or is planned */
    struct qkv_pass_key made;      /* the shape that the pass was made for */
    struct qkv_pass_key fits;      /* the latest other shape that fits its memory; B 0: none */
    const struct qkv_batch *given; /* while forward runs: the batch, whose arrays are the host's, */
    struct qkv_batch lent;         /* and the same with the arrays that rows of the backend read */
    struct qkv_loss loss;
    struct qkv_loss_rows loss_rows;
    size_t loss_count, loss_sequences;
    struct qkv_array output;
    const struct qkv_rows *rows, *source_rows; /* of the latest forward; source_rows NULL: no source */
    /* names and shapes of the weights, the encoder's first; names are owned */
    struct qkv_array *attentions;
    size_t *kept_at;                /* (attention_count): the index of each attention in `kept` */
    const struct qkv_attend **kept; /* calls of all layers, with entries for attentions that a layer lacks */
    size_t attention_count;
    bool forwarded;  /* a recorded forward has run, and its backward has not */
    bool looks;      /* attention weights can be computed from the latest forward */
    uint64_t chosen; /* the model's count of changes of trainable weights when the pass was planned */
};

/* ---- sums in a defined order (pass_order.c) ---- */
/* The order of the N rows of a stack's matrices, in the tape's memory; NULL without an order, or after an error. starts
 * (B + 1): the first row of each of the B sequences; NULL: all sequences are of one length. */
const struct qkv_row_order *qkv_pass_order(struct qkv_pass *pass, size_t B, size_t N, const int32_t *starts);

/* ---- the batch (pass_batch.c) ---- */
enum qkv_status qkv_pass_check_options(struct qkv_model *model, const struct qkv_pass_options *options);
/* Checks the batch and copies it to `out`, with T and source_T set for packed batches too. */
enum qkv_status qkv_pass_check_batch(struct qkv_pass *pass, const struct qkv_batch *batch, struct qkv_batch *out);
/* The input of one stack: the source, or the other side of a batch. */
struct qkv_pass_side {
    size_t B, T, N; /* N: rows of a packed batch */
    size_t length;  /* the length that rotations depend on; 0: each sequence's own */
    const int32_t *ids, *types, *lengths, *cu, *positions, *documents, *prefix;
    const float *inputs;
    float *input_gradient;
    const float *features;      /* of a stack that reads no tokens */
    size_t frames;              /* of each sequence, for a stack that reads frames */
    struct qkv_dense_mask mask; /* of self attention */
};
/* Fails unless the features of a side have the shape that the stack reads; sets the number of frames. */
enum qkv_status qkv_pass_check_features(struct qkv_context *ctx, const struct qkv_stack *stack,
                                        struct qkv_pass_side *side);
/* Sets pass->lent (pass_lend.c). */
void qkv_pass_lend(struct qkv_pass *pass, const struct qkv_batch *batch);
struct qkv_pass_side qkv_pass_side(const struct qkv_batch *batch, bool source);
struct qkv_pass_key qkv_pass_key(const struct qkv_pass *pass, const struct qkv_batch *batch);
/* The rows of a side, as many as pass->shape says; sets the side's lengths if the batch is packed. */
const struct qkv_rows *qkv_pass_rows(struct qkv_pass *pass, struct qkv_pass_side *side, bool source);
const int32_t *qkv_pass_positions(struct qkv_pass *pass, const struct qkv_pass_side *side, const struct qkv_rows *rows);
/* The length of the sequence or document of each row, if the stack's rotations depend on it; else NULL. */
const int32_t *qkv_pass_turn_lengths(struct qkv_pass *pass, const struct qkv_stack *stack,
                                     const struct qkv_pass_side *side, const struct qkv_rows *rows,
                                     const int32_t *positions);
const int32_t *qkv_pass_ids(struct qkv_pass *pass, const struct qkv_pass_side *side, const struct qkv_rows *rows);
/* The types of tokens; NULL: all types are 0, or the stack has none. */
const int32_t *qkv_pass_types(struct qkv_pass *pass, const struct qkv_stack *stack, const struct qkv_pass_side *side,
                              const struct qkv_rows *rows);
/* The vectors in place of embeddings; NULL: ids are embedded. */
struct qkv_tensor *qkv_pass_inputs(struct qkv_pass *pass, const struct qkv_stack *stack,
                                   const struct qkv_pass_side *side);

/* The same for a stack that reads no tokens (pass_input.c). pass NULL: a tape without an order of sums. rows: of
 * positions. */
struct qkv_tensor *qkv_pass_features(struct qkv_tape *tape, struct qkv_pass *pass, struct qkv_stack *stack,
                                     const struct qkv_pass_side *side, const struct qkv_rows *rows);

/* ---- the output (pass_output.c) ---- */
/* Computes output and loss from the hidden states x, which are NULL after an error. */
void qkv_pass_head(struct qkv_pass *pass, const struct qkv_batch *batch, struct qkv_tensor *x);

/* ---- masks (pass_mask.c) ---- */
/* The mask of the rows of a side, its dense mask included; kinds of layers add causal and windows. */
struct qkv_module_mask qkv_pass_mask(const struct qkv_pass_side *side, const struct qkv_rows *rows);
/* A mask with its sizes, and a dense mask. */
struct qkv_module_mask qkv_pass_dense(const struct qkv_mask *mask, const struct qkv_dense_mask *dense);
/* Whether some layer of the stack has a distance_bias, which depends on the number of the row. */
bool qkv_pass_counts_rows(const struct qkv_stack *stack);
/* (N): the position of each row among the keys of its sequence, for distance_bias; it does not begin again in a
 * document. */
const int32_t *qkv_pass_key_positions(struct qkv_pass *pass, const struct qkv_stack *stack, const struct qkv_rows *rows,
                                      const struct qkv_pass_side *side);
/* Checks documents, prefixes and dense masks against the model; lengths must have been checked. */
enum qkv_status qkv_pass_check_mask(const struct qkv_pass *pass, const struct qkv_batch *batch);

/* ---- attention weights (pass_weights.c); none without options.weights ---- */
enum qkv_status qkv_pass_prepare_attentions(struct qkv_pass *pass);
void qkv_pass_free_attentions(struct qkv_pass *pass);
void qkv_pass_shape_attentions(struct qkv_pass *pass, size_t B, size_t T, size_t source_T);
/* Takes the scratch of computing attention weights and releases it: so a plan has it. */
enum qkv_status qkv_pass_plan_weights(struct qkv_pass *pass);

#endif
