/* The three products of a linear layer (linear_products.c), for operators that fuse more around them (cross-entropy).
 * linear.c has the shapes. */
#ifndef QKV_LINEAR_H
#define QKV_LINEAR_H

#include "op/op.h"

/* The inputs of a node of linear: x, weight, bias or NULL, a residual or NULL, and, of an adapter with dropout, the x
 * that it reads, else NULL. */
enum { QKV_LINEAR_X, QKV_LINEAR_WEIGHT, QKV_LINEAR_BIAS, QKV_LINEAR_RESIDUAL, QKV_LINEAR_ADAPTER_X };

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias);
/* y = x·weightᵀ + bias, then the epilogue; {0}: none. */
enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_linear_rows y, struct qkv_linear_rows x,
                                         size_t N, const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                         struct qkv_epilogue epilogue);
/* Whether the gradient of a weight may be written to weight->carry, where sums of parts are pending. */
struct qkv_linear_carry {
    bool *done;         /* written: whether it was; NULL: it may not be, as other sums are added to this gradient */
    bool goes_on, more; /* of a group whose rows come in several calls: not the first call, not the last call */
};
/* dx (or NULL) is overwritten, or added to if `accumulate`; dweight and dbias (or NULL) are added to, in trainable rows
 * of weight and bias only. order: of the rows of x, or NULL. */
enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, struct qkv_linear_rows x, size_t N,
                                          float *dx, bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          const struct qkv_tensor *bias, float *dbias,
                                          const struct qkv_row_order *order, struct qkv_linear_carry carry);
/* dweight (+)= dyᵀ·x of all rows of a weight; the rows of dy are ld numbers apart. x is in a type that the product of
 * backward reads. */
enum qkv_status qkv_linear_backward_weight(struct qkv_tape *tape, const float *dy, size_t ld, struct qkv_linear_rows x,
                                           size_t N, const struct qkv_tensor *weight, float *dweight,
                                           const struct qkv_row_order *order, struct qkv_linear_carry carry);

/* ---- adapters (linear_adapter.c) ---- */

/* Whether a linear of this tape adds terms of adapters: the operand's own, or those that rows choose. */
bool qkv_adapter_applies(const struct qkv_adapter_runs *runs, const struct qkv_tensor *weight);
/* The adapter of run i, with its rows of N; NULL: the operand is not adapted there. */
const struct qkv_adapter *qkv_adapter_of_run(const struct qkv_adapter_runs *runs, size_t i,
                                             const struct qkv_tensor *weight, size_t N, struct qkv_adapter_run *rows);
/* y (N, out), fp32, the linear without adapters, gets scale times the terms that rows choose. Rows that choose one with
 * magnitudes are computed once more. */
enum qkv_status qkv_adapter_forward_runs(struct qkv_tape *tape, const struct qkv_node *node, float *y, float scale);
/* Floats of x·aᵀ of N rows, of all parts. */
size_t qkv_adapter_low(const struct qkv_adapter *adapter, size_t N);
/* y (N, ldy), fp32, gets scale times all parts more. low: receives the parts' scale times x·aᵀ, one part after the
 * other, which backward reads. */
enum qkv_status qkv_adapter_forward(struct qkv_tape *tape, const struct qkv_adapter *adapter, float *y, size_t ldy,
                                    float scale, const struct qkv_tensor *x, float *low);
/* The gradients of all parts from dy (N, ldy), which `scale` has gone into; x and low as in forward. dx (or NULL) is
 * overwritten, or added to if `accumulate`. */
enum qkv_status qkv_adapter_backward(struct qkv_tape *tape, const struct qkv_adapter *adapter, const float *dy,
                                     size_t ldy, const struct qkv_tensor *x, float *dx, bool accumulate,
                                     const float *low);
/* Where the gradients of a and b of each part go, in the tape's graph, NULL where one is not wanted: asked for once in
 * a backward, for the next call. */
float **qkv_adapter_gradients(struct qkv_tape *tape, const struct qkv_adapter *adapter, enum qkv_status *status);
/* qkv_adapter_backward that writes to these. gradients NULL: it computes dx alone, and reads no low. */
enum qkv_status qkv_adapter_backward_to(struct qkv_tape *tape, const struct qkv_adapter *adapter, const float *dy,
                                        size_t ldy, const struct qkv_tensor *x, float *dx, bool accumulate,
                                        const float *low, float *const *gradients);
/* x (columns) becomes row `row` of w + scale·b·a of a part, where w are the weights that it adapts, from `first` on.
 * (linear_norms.c) */
void qkv_adapter_sum_row(struct qkv_context *ctx, const struct qkv_weight *first, const struct qkv_adapter_part *part,
                         size_t row, float *x);
/* Sets the norms of a part: the lengths of these rows. (linear_norms.c) */
void qkv_adapter_norm(struct qkv_context *ctx, const struct qkv_weight *first, const struct qkv_adapter_part *part);
/* x / norm; 0 where a row has no length. */
static inline float qkv_adapter_over_norm(float x, float norm) {
    return norm > 0 ? x / norm : 0;
}
/* A linear whose adapter has magnitudes (linear_dora.c). */
struct qkv_dora {
    const struct qkv_adapter *adapter;
    const struct qkv_tensor *weight, *bias; /* bias NULL: none */
    const struct qkv_tensor *x, *read;      /* read: x, or x after a dropout */
    const float *residual;                  /* (N, out); NULL: none */
    float scale;                            /* of the product where there is a residual, else 1 */
    float *y;                               /* (N, out), fp32 */
    float *v, *low;                         /* (N, out) and as in qkv_adapter_forward: backward reads them */
};
/* Without a dropout, y is overwritten; with one, y has the linear without the adapter, and gets the adapter's term. */
enum qkv_status qkv_dora_forward(struct qkv_tape *tape, const struct qkv_dora *dora);
/* The gradients to write to, or NULL, as in qkv_linear_backward_parts and qkv_adapter_backward. */
struct qkv_dora_back {
    const float *dy; /* (N, out), which `scale` has gone into */
    float *dx, *dread, *dweight, *dbias;
    bool accumulate, again; /* of dx, and of dread */
};
enum qkv_status qkv_dora_backward(struct qkv_tape *tape, const struct qkv_dora *dora, const struct qkv_dora_back *back);
double qkv_adapter_flops(const struct qkv_adapter *adapter, const struct qkv_tensor *x, bool backward);

/* ---- dropout (elementwise.c) ---- */

/* Masks of rows that are gathered of a batch: a row has the mask of the batch's row that it is. */
struct qkv_dropout_rows {
    float rate;
    uint32_t key[2];
    const struct qkv_row_order *order; /* of the rows of the batch; NULL: none */
    const int32_t *place;              /* their places b·T + t; NULL: their own numbers */
    const int32_t *row;                /* (rows): the batch's row of each */
};
/* y = x after the dropout; y may be x. Of a gradient it is the gradient. */
void qkv_dropout_gathered(struct qkv_context *ctx, const struct qkv_dropout_rows *how, void *y,
                          struct qkv_linear_rows x, size_t rows, size_t columns);

/* ---- activations (activation.c) ---- */

/* A checked node of an activation, with its output. Returns false after an error, and where x is NULL. */
bool qkv_activation_node(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, bool gated, float limit,
                         struct qkv_node *node);
/* The epilogue of a product that makes x (rows, F or, gated, 2F): it computes y (rows, F), of x's dtype. */
struct qkv_epilogue qkv_activation_epilogue(enum qkv_ffn_kind kind, bool gated, float limit, void *y, size_t F);
/* The epilogue that computes the output of a node of an activation. backward: the node's backward will run, and no
 * other node reads its input. */
struct qkv_epilogue qkv_activation_fuse(struct qkv_tape *tape, struct qkv_node *node, bool backward);
/* y (rows, F) from x, in x's dtype. */
void qkv_activation_forward_rows(struct qkv_context *ctx, enum qkv_ffn_kind kind, bool gated, float limit, void *y,
                                 struct qkv_linear_rows x, size_t rows, size_t F);
/* dx, the gradient of x, from dy (rows, F). */
void qkv_activation_backward_rows(struct qkv_context *ctx, enum qkv_ffn_kind kind, bool gated, float limit, float *dx,
                                  const float *dy, struct qkv_linear_rows x, size_t rows, size_t F);

#endif
