/* builders: one function for each operator, which makes its node, checks it and runs it forward. op.h includes this
 * header, and has the tape and the tensors. */
#ifndef QKV_BUILDERS_H
#define QKV_BUILDERS_H

#include "op/op.h"

/* ---- operators -------------------------------------------------------------------------------------------------
 * Shapes in comments are (rows, columns). N = B·T, or the rows of a ragged batch. */

/* The tables of an embedding, in the order in which their rows are added. Each is a parameter, a constant or NULL
 * (absent); at least one is present. */
enum { QKV_EMBED_TOKEN, QKV_EMBED_POSITION, QKV_EMBED_TYPE, QKV_EMBED_TABLES };
struct qkv_embedding {
    struct {
        struct qkv_tensor *rows;
        const int32_t *places; /* (N): the row of each n; NULL: row `first` for all. The array must outlive the tape */
        size_t first;          /* added to each place */
    } tables[QKV_EMBED_TABLES];
    float scale; /* of the rows of the token table */
    size_t N;
};
/* (N, C): scale·token[ids[n]] + position[first + positions[n]] + type[types[n]]. The operator checks ids and types
 * against the rows of their tables; the caller promises that positions are in range. */
struct qkv_tensor *qkv_op_embed(struct qkv_tape *tape, const struct qkv_embedding *embedding);

/* How an operator's result is stored: in fp32, or as products store what only they read (bf16 in mixed precision). */
enum qkv_result { QKV_RESULT_FP32, QKV_RESULT_FOR_PRODUCTS };

/* x (N, in), weight (out, in), bias (1, out) or NULL: x·weightᵀ + bias, (N, out), and the adapter of the weight, if it
 * has one. So in the next two. */
struct qkv_tensor *qkv_op_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias, enum qkv_result result);

/* residual + scale·(x·weightᵀ + bias), fp32: the same bits as linear and add, in one pass over the result. */
struct qkv_tensor *qkv_op_linear_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                     struct qkv_tensor *bias, struct qkv_tensor *residual, float scale);

/* act(x·weightᵀ + bias), or its gated form; `limit` is that of gates that clamp. The result and the recorded nodes are
 * those of linear and activation (or gated), in one pass over the result. */
struct qkv_tensor *qkv_op_linear_activation(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                            struct qkv_tensor *bias, enum qkv_ffn_kind kind, bool gated, float limit);

/* A norm of each row of x, which is fp32. weight NULL: a norm without weight and bias; bias NULL: no bias. */
struct qkv_tensor *qkv_op_norm(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_norm_kind kind,
                               struct qkv_tensor *weight, struct qkv_tensor *bias, float eps, enum qkv_result result);

/* Heads in the columns [column, column + heads·D) of a matrix, one after the other. */
struct qkv_heads_of_columns {
    size_t column, heads, D;
    bool own; /* each head has weights of its own, (heads, D); else all heads share one vector of D */
};
/* A norm of each of these heads of x, in place; weight and bias as in qkv_op_norm. Nothing else may use x, before or
 * after. */
struct qkv_tensor *qkv_op_head_norm(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_heads_of_columns heads,
                                    enum qkv_norm_kind kind, struct qkv_tensor *weight, struct qkv_tensor *bias,
                                    float eps);

/* Clamps columns [column, column + width) of x to ±limit in place; limit 0: returns x unchanged. Nothing else may use
 * x, before or after. */
struct qkv_tensor *qkv_op_clip(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t width, float limit);

/* Multiplies columns of x in place by the rule's number for each row's position; x itself without a rule. Nothing else
 * may use x, before or after. */
struct qkv_tensor *qkv_op_position_scale(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t width,
                                         const struct qkv_temperature_spec *rule, const int32_t *positions);

/* The rows of token embeddings: their ids (N), and the sequences that they are of. */
struct qkv_masked_rows {
    const int32_t *ids;
    const struct qkv_rows *batch; /* NULL: every T rows are a sequence */
    const int32_t *documents;     /* of each place of the batch: each is a sequence; NULL: there are none */
    /* (B): where padding is computed, the first token of each sequence and the end of its tokens; NULL: no padding */
    const int32_t *starts, *lengths;
    size_t T;
};
/* Multiplies embeddings of masked tokens in place (mask_scale.c); x itself without a rule. Nothing else may use x,
 * before or after. */
struct qkv_tensor *qkv_op_mask_scale(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_masked_spec *rule,
                                     const struct qkv_masked_rows *rows);

/* Rotates the first 2·pairs of D channels of each head of x in place, heads beginning at `column`: row n by entry
 * positions[n] of table (positions, pairs, 2). Nothing else may use x, before or after. */
struct qkv_tensor *qkv_op_rotate(struct qkv_tape *tape, struct qkv_tensor *x, size_t column, size_t heads, size_t D,
                                 size_t pairs, bool interleaved, const float *table, const int32_t *positions);

/* a (N, H·Da) and b (N, Db), which all heads share: (N, H·(Da + Db)), [a_h | b] for each head. */
struct qkv_tensor *qkv_op_join_heads(struct qkv_tape *tape, struct qkv_tensor *a, struct qkv_tensor *b, size_t heads);

/* A product per head: x (N, H·(in + tail)), weight the heads' matrices (in, out), or transposed (out, in), stacked by
 * rows. Result (N, H·(out + tail)): [x_h[0 … in)·w_h | x_h[in …)] for each head; transposed: by w_hᵀ. */
struct qkv_tensor *qkv_op_head_linear(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                      size_t heads, size_t tail, bool transposed);

/* Heads in the columns of a tensor, beginning at `column`. */
struct qkv_columns {
    struct qkv_tensor *x;
    size_t column;
};
/* How a table of distance_bias is made: entry (h, d) is factors[d] (NULL: 1) times weight[rows[d]][h]. */
struct qkv_distance_map {
    const int32_t *rows;
    const float *factors;
};
/* weight (R, H): the table (H, count), whose gradient is stored for each of B sequences. The map must outlive the
 * tape. */
struct qkv_tensor *qkv_op_distance_bias(struct qkv_tape *tape, struct qkv_tensor *weight, struct qkv_distance_map map,
                                        size_t count, size_t B);

/* Parameters of attention other than q, k and v: the table of distance_bias that the call reads, and sinks (1, H),
 * which replace the call's; NULL: none. */
struct qkv_attend_learned {
    struct qkv_tensor *distance_bias, *sinks;
};
/* softmax(q·kᵀ…)·v: (B·Tq, H·Dv), or as many rows as ragged queries have. `attend` is the call, whose heads, sizes,
 * intervals, masks and biases must outlive the tape; the operator sets q, k, v, y, lse and the dropout key, and applies
 * dropout when the tape trains. dattention_bias: backward adds the gradient of attention_bias here, in its strides;
 * NULL: not wanted. kept: receives the call as it ran, with lse, for qkv_attend_weights; it is valid as long as the
 * memory of the tape. NULL: not wanted. */
struct qkv_tensor *qkv_op_attend(struct qkv_tape *tape, struct qkv_columns q, struct qkv_columns k,
                                 struct qkv_columns v, const struct qkv_attend *attend,
                                 struct qkv_attend_learned learned, float *dattention_bias,
                                 const struct qkv_attend **kept);

/* act(x), or, when gated, act(x[:, :F])·x[:, F:] with F = columns/2. limit: of gates that clamp. */
struct qkv_tensor *qkv_op_activation(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind);
struct qkv_tensor *qkv_op_gated(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, float limit);

/* ---- experts (route.c, experts.c) ---- */

/* Which of E experts each of N rows goes through. The arrays are in the tape's memory. */
struct qkv_routing {
    size_t N, experts, top_k;
    int32_t *chosen; /* (N, top_k): the experts of a row, the one with the best score first */
    int32_t *slot;   /* (N, top_k): where that expert's copy of the row is in the list of rows sorted by expert */
    int32_t *row;    /* (N·top_k): the row at each place of that list */
    int32_t *start;  /* (experts + 1): where each expert's rows begin in that list; an expert's rows are in order */
};
struct qkv_route_options { /* as in struct qkv_experts_spec */
    size_t top_k, groups, top_groups;
    enum qkv_expert_scores scores;
    enum qkv_group_score group_score;
    bool normalize;
    float scale, margin;
    float balance, z;            /* gradients of the losses, divided by the sequences of their mean; 0: no loss */
    const struct qkv_rows *rows; /* the sequences that the rows belong to; NULL: no losses */
    const int32_t *lengths;      /* where padding is computed: how many rows of a sequence count; NULL: all */
    uint64_t *loads;  /* (experts): of the host: a recording tape adds the rows of each expert here; NULL: nowhere */
    const char *name; /* of the router, for messages */
};
/* logits (N, E), fp32; correction (1, E) or NULL. Returns the weights (N, top_k) of the chosen experts; *routing says
 * which they are. Fails with QKV_NUMBER where a logit is not finite. */
struct qkv_tensor *qkv_op_route(struct qkv_tape *tape, struct qkv_tensor *logits, struct qkv_tensor *correction,
                                const struct qkv_route_options *options, const struct qkv_routing **routing);
/* x (N, C): Σ over the chosen experts of weight · down(act(up(x))), in the order of experts, (N, C) fp32; kind, gated
 * and limit as in qkv_op_linear_activation; with `inputs`, Σ down(act(up(weight · x))). op/weights.h has the weights
 * of experts. */
struct qkv_expert_weights;
struct qkv_tensor *qkv_op_experts(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weights,
                                  const struct qkv_routing *routing, const struct qkv_expert_weights *experts,
                                  enum qkv_ffn_kind kind, bool gated, float limit, bool inputs);
/* x (N, C) times sigmoid(gate), gate (N, 1): both fp32. */
struct qkv_tensor *qkv_op_row_gate(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *gate);
/* Σ a·b of n numbers, in an order that depends on n alone (row_gate.c). */
float qkv_dot(const float *a, const float *b, size_t n);

/* x + scale·f. The sum overwrites f's storage: f must be the output of an operator whose backward does not read its
 * output (linear, norm, dropout, embed), and nothing else may use f. */
struct qkv_tensor *qkv_op_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *f, float scale);

/* Inverted dropout, in place, when the tape trains and rate > 0; else x itself. x must be the output of linear, embed
 * or an activation, and nothing else may use it; it may be bf16. */
struct qkv_tensor *qkv_op_dropout(struct qkv_tape *tape, struct qkv_tensor *x, float rate);
/* The same in memory of its own, of any x. */
struct qkv_tensor *qkv_op_dropout_copy(struct qkv_tape *tape, struct qkv_tensor *x, float rate);

/* x (B·T, C) to (B, C): the first position, the last one, or the mean over the positions before lengths[b] (NULL: T). A
 * sequence of length 0 gives zeros. */
struct qkv_tensor *qkv_op_pool(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind, size_t B, size_t T,
                               const int32_t *lengths);
/* The same for rows (N, C) without padding. */
struct qkv_tensor *qkv_op_pool_rows(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_pool kind,
                                    const struct qkv_rows *rows);

/* ---- rows of ragged batches (rows.c) ---- */
/* The sum of the lengths (B), each at most T; NULL: B·T. */
size_t qkv_rows_count(size_t B, size_t T, const int32_t *lengths);
/* The rows of sequences of these lengths, in the memory of the tape, whose batch they become. shape: their N, B, T,
 * whether they are ragged (a plan says so where batches to come may be), and `most`, or 0: B·T. lengths (B), with the
 * sum N; NULL: all have T. documents (B,T); NULL: a sequence is one document. */
const struct qkv_rows *qkv_rows_make(struct qkv_tape *tape, const struct qkv_rows *shape, const int32_t *lengths,
                                     const int32_t *documents);
/* The values of the rows, (N), out of values (B,T); `values` itself where the rows are not ragged. */
const int32_t *qkv_rows_pack(struct qkv_tape *tape, const struct qkv_rows *rows, const int32_t *values);
/* Moves the first N rows of a matrix (B·T, columns) to their places; all other rows become zeros. */
void qkv_rows_spread(struct qkv_tape *tape, const struct qkv_rows *rows, float *matrix, size_t columns);

/* x (N, C) to (count, C), fp32: row i is row index[i] of x; a row may occur several times. The index must outlive the
 * tape. */
struct qkv_tensor *qkv_op_gather(struct qkv_tape *tape, struct qkv_tensor *x, const int32_t *index, size_t count);
/* x (N, C) to (rows, C): row n of x goes to row index[n], each index once; all other rows are zeros. */
struct qkv_tensor *qkv_op_scatter(struct qkv_tape *tape, struct qkv_tensor *x, const int32_t *index, size_t rows);

/* Windows of a convolution over the positions of B sequences. Sequence b of x begins at row x_start[b] and has count[b]
 * rows; rows up to x_start[b + 1] that are missing read as zeros. Its output begins at row y_start[b]. The arrays, (B +
 * 1) and (B), must outlive the tape. */
struct qkv_unfold_options {
    size_t B, kernel, stride, rows; /* kernel is odd; rows: of the output */
    const int32_t *x_start, *count, *y_start;
};
/* x (M, C), fp32 or bf16, to (rows, C·kernel): window t of a sequence is centred on its position t·stride and lists the
 * window channel by channel. order: of the output's rows, or NULL. */
struct qkv_tensor *qkv_op_unfold(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_unfold_options *options,
                                 const struct qkv_row_order *order);

/* The scores softcap(x·weightᵀ + bias) of x (N, C) against weight (V, C): (N, V), fp32 (kernel/kernel.h has softcaps).
 * out: the memory of the scores; NULL: memory of the tape. */
struct qkv_tensor *qkv_op_scores(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                                 struct qkv_tensor *bias, const struct qkv_softcap *softcap, float *out);

/* The result of a loss, in the host's memory. */
struct qkv_loss {
    double sum;     /* over the counted targets, not divided */
    size_t counted; /* targets that are not QKV_IGNORE */
};
/* What a loss has of each row, by its place. */
struct qkv_loss_rows {
    const float *weights; /* the gradient of a row's loss is multiplied by; NULL: 1 */
    const float *losses;  /* what a row that counts adds to the sum in place of its loss; NULL: its loss */
    float *found;         /* receives the loss of each row, 0 of those that do not count; NULL: not wanted */
    /* The scores of a teacher, V of each row, which are used up; NULL: there is none. The loss of a row is then
     * (1 − share)·loss + share·t²·KL(softmax(teacher/t), softmax(scores/t)), t the temperature (Hinton et al. 2015). */
    float *teacher;
    float temperature, share;
};
struct qkv_cross_entropy_options {
    const int32_t *targets; /* (N), QKV_IGNORE is not counted */
    float scale;            /* the gradient is that of scale·Σ loss */
    float smoothing; /* e: loss is (1 − e)·(−log p[target]) + e·mean over all of −log p (Szegedy et al. 2016) */
    float *logits;   /* (N, V): receives the scores; NULL: not wanted */
    struct qkv_softcap softcap; /* of the scores */
    struct qkv_loss_rows rows;
    const int32_t *places; /* (N): of each row in `rows`; NULL: its number */
};
/* The loss −log softmax(scores)[target] of the scores that qkv_op_scores gives, in chunks of rows, so that memory holds
 * a chunk of scores at a time unless `logits` asks for all. A recording tape computes the gradient in forward: a loss
 * is where backward starts, so the gradient of its output is known. */
void qkv_op_cross_entropy(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                          struct qkv_tensor *bias, const struct qkv_cross_entropy_options *options,
                          struct qkv_loss *loss);

/* The loss Σ scale·x·g with a given g (N, C): its gradient is scale·g. */
void qkv_op_inner_product(struct qkv_tape *tape, struct qkv_tensor *x, const float *g, float scale,
                          struct qkv_loss *loss);

#endif
