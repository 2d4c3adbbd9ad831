/* The three products of a linear layer, for operators that fuse more around them (cross-entropy). linear.c has the
 * shapes. */
#ifndef QKV_LINEAR_H
#define QKV_LINEAR_H

#include "op/op.h"

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias);
/* y = x·weightᵀ + bias. `epilogue`, or NULL, is called for each block of y that is complete. */
enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_linear_rows y, struct qkv_linear_rows x,
                                         size_t N, const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                         const struct qkv_epilogue *epilogue);
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

/* ---- activations (activation.c) ---- */

/* A checked node of an activation, with its output. Returns false after an error, and where x is NULL. */
bool qkv_activation_node(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, bool gated, float limit,
                         struct qkv_node *node);
/* An epilogue of the product that makes such a node's input: it computes the node's output block by block. */
struct qkv_activation_epilogue {
    struct qkv_epilogue epilogue; /* first */
    void *activation;
};
/* Rows of an activation without a node. */
struct qkv_activation_rows {
    enum qkv_ffn_kind kind;
    float limit; /* of gates that clamp */
    /* set while the activation runs */
    const struct qkv_kernels *kernels;
    void *x;
    void *y;
    enum qkv_dtype dtype; /* of x and y */
    const float *dy;
    float *dx;
    size_t F; /* columns of y */
    bool accumulate;
    bool slope; /* forward replaces x by act'(x), in fp32 without a gate: backward is then a product */
};
/* x (rows, F or, gated, 2F) to y (rows, F), both of x's dtype; `rows` must outlive the product. */
void qkv_activation_fuse_rows(struct qkv_context *ctx, struct qkv_activation_rows *rows, enum qkv_ffn_kind kind,
                              bool gated, float limit, struct qkv_linear_rows x, void *y, size_t F,
                              struct qkv_activation_epilogue *epilogue);
/* dx, the gradient of x, from dy (rows, F). */
void qkv_activation_backward_rows(struct qkv_context *ctx, enum qkv_ffn_kind kind, bool gated, float limit, float *dx,
                                  const float *dy, struct qkv_linear_rows x, size_t rows, size_t F);
/* backward: the node's backward will run, and no other node reads the node's input. */
void qkv_activation_fuse(struct qkv_tape *tape, struct qkv_node *node, bool backward,
                         struct qkv_activation_epilogue *epilogue);

#endif
