/* A pass and its attentions, for the files that make it up (pass*.c). */
#ifndef QKV_PASS_H
#define QKV_PASS_H

#include "model/model.h"

/* What the memory of a batch depends on. */
struct qkv_pass_key {
    size_t B, T, source_T, rows, source_rows, groups;
    size_t scored;                /* rows that are chosen, and one more; 0: none are chosen */
    size_t inputs, source_inputs; /* vectors in place of ids: 1, and 2 where their gradient is wanted */
    size_t masks; /* dense masks that are given: 1 of self attention, 2 of the source's, 4 of cross attention */
};

struct qkv_pass {
    struct qkv_model *model;
    struct qkv_pass_options options;
    struct qkv_arena arena, graph_arena;
    struct qkv_tape tape;
    struct qkv_pass_plan plan;       /* of all its shapes */
    struct qkv_tape_costs *costs;    /* in a dry run: where the work is added up */
    size_t groups;                   /* at most; 0: batches are no parts of larger ones */
    struct qkv_pass_part part;       /* groups 0: none */
    qkv_gradient_listener *listener; /* NULL: none */
    void *listener_user;
    struct qkv_pass_key shape; /* of the batch that runs or is planned */
    struct qkv_pass_key made,
        fits; /* what it was made for, and the latest other one that there is room for; B 0: none */
    struct qkv_loss loss;
    size_t loss_count, loss_sequences;
    struct qkv_array output;
    const struct qkv_rows *rows, *source_rows; /* of the latest forward; the source's NULL without */
    struct qkv_array *attentions;              /* names and shapes of the weights, encoder's first; names owned */
    size_t *kept_at;                           /* (attention_count): where `kept` has each */
    const struct qkv_attend **kept;            /* of all layers, with room for those that lack an attention */
    size_t attention_count;
    bool forwarded;  /* a recorded forward waits for its backward */
    bool looks;      /* the attentions of a forward can be looked at */
    uint64_t chosen; /* which weights learn: of the model's list when the pass was planned */
};

/* ---- sums in a defined order (pass_order.c) ----
 * The order of the N rows of a stack's matrices, from the tape's memory; NULL without one, or after an error. starts: (B + 1) where each
 * of the B sequences begins, not read in a dry run; NULL: all are of one length. */
const struct qkv_row_order *qkv_pass_order(struct qkv_pass *pass, size_t B, size_t N, const int32_t *starts);

/* ---- what comes in (pass_batch.c) ---- */
enum qkv_status qkv_pass_check_options(struct qkv_model *model, const struct qkv_pass_options *options);
/* The batch to `out`, where T and source_T are those of packed batches too. */
enum qkv_status qkv_pass_check_batch(struct qkv_pass *pass, const struct qkv_batch *batch, struct qkv_batch *out);
/* What a stack reads of a batch: of the source, or of the other one. */
struct qkv_pass_side {
    size_t B, T, N; /* N: rows of a packed batch */
    size_t length;  /* that rotations are decided for; 0: each sequence its own */
    const int32_t *ids, *types, *lengths, *cu, *positions, *documents, *prefix;
    const float *inputs;
    float *input_gradient;
    const float *features;      /* of a stack that reads no tokens */
    size_t frames;              /* of each sequence, where it reads those */
    struct qkv_dense_mask mask; /* of self attention */
};
/* The features of a side, whose frames are counted, are such as the stack reads; else the sentence says what is. */
enum qkv_status qkv_pass_check_features(struct qkv_context *ctx, const struct qkv_stack *stack,
                                        struct qkv_pass_side *side);
struct qkv_pass_side qkv_pass_side(const struct qkv_batch *batch, bool source);
struct qkv_pass_key qkv_pass_key(const struct qkv_pass *pass, const struct qkv_batch *batch);
/* The rows that are computed, as many as pass->shape has; the side then has the lengths of a packed batch. */
const struct qkv_rows *qkv_pass_rows(struct qkv_pass *pass, struct qkv_pass_side *side, bool source);
const int32_t *qkv_pass_positions(struct qkv_pass *pass, const struct qkv_pass_side *side, const struct qkv_rows *rows);
/* What turns them, for each kind of layer, where that depends on lengths; else NULL. */
const struct qkv_turns *qkv_pass_turns(struct qkv_pass *pass, const struct qkv_stack *stack,
                                       const struct qkv_pass_side *side, const struct qkv_rows *rows,
                                       const int32_t *positions);
const int32_t *qkv_pass_ids(struct qkv_pass *pass, const struct qkv_pass_side *side, const struct qkv_rows *rows);
/* The types of tokens; NULL: all are 0, or the stack has none. */
const int32_t *qkv_pass_types(struct qkv_pass *pass, const struct qkv_stack *stack, const struct qkv_pass_side *side,
                              const struct qkv_rows *rows);
/* The vectors in place of embeddings; NULL: ids. */
struct qkv_tensor *qkv_pass_inputs(struct qkv_pass *pass, const struct qkv_stack *stack,
                                   const struct qkv_pass_side *side);

/* The same made of what a stack reads that reads no tokens (pass_input.c), on the tape of a pass, or with NULL on one without an order
 * of sums; rows: of its positions. */
struct qkv_tensor *qkv_pass_features(struct qkv_tape *tape, struct qkv_pass *pass, struct qkv_stack *stack,
                                     const struct qkv_pass_side *side, const struct qkv_rows *rows);

/* ---- what comes out (pass_output.c) ----
 * Output and loss of the hidden states x, which is NULL after an error. */
void qkv_pass_head(struct qkv_pass *pass, const struct qkv_batch *batch, struct qkv_tensor *x);

/* ---- who sees whom (pass_mask.c) ---- */
/* Of the rows of a side; kinds of layers add what they allow. */
struct qkv_mask qkv_pass_mask(const struct qkv_pass_side *side, const struct qkv_rows *rows);
/* Some layers have a bias by distance, which counts rows. */
bool qkv_pass_counts_rows(const struct qkv_stack *stack);
/* (N): where each row stands among the keys of its sequence, which biases by distance go by: not where its document begins. */
const int32_t *qkv_pass_key_positions(struct qkv_pass *pass, const struct qkv_stack *stack, const struct qkv_rows *rows,
                                      const struct qkv_pass_side *side);
/* Gives the calls of all kinds of layers of a stack a dense mask. Fails with QKV_SHAPE where the shapes do not
 * agree. */
enum qkv_status qkv_pass_set_dense(const struct qkv_pass *pass, const struct qkv_stack *stack,
                                   const struct qkv_dense_mask *mask, struct qkv_attend *calls);
/* Documents, prefixes and dense masks make sense, for this model; lengths are checked before. */
enum qkv_status qkv_pass_check_mask(const struct qkv_pass *pass, const struct qkv_batch *batch);

/* ---- attentions to look at (pass_weights.c); none without options.weights ---- */
enum qkv_status qkv_pass_prepare_attentions(struct qkv_pass *pass);
void qkv_pass_free_attentions(struct qkv_pass *pass);
void qkv_pass_shape_attentions(struct qkv_pass *pass, size_t B, size_t T, size_t source_T);
/* Takes the scratch of looking, and gives it back: in a dry run, part of the plan. */
enum qkv_status qkv_pass_plan_weights(struct qkv_pass *pass);

#endif
