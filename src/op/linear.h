/* The three products of a linear layer, for operators that fuse more around them (cross-entropy): shapes as in linear.c. */
#ifndef QKV_LINEAR_H
#define QKV_LINEAR_H

#include "op/op.h"

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias);
struct qkv_linear_rows { /* of a tensor */
    void *data;
    enum qkv_dtype dtype;
};
/* `epilogue`, or NULL, sees each block of y when it is whole. */
enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_linear_rows y, struct qkv_linear_rows x,
                                         size_t N, const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                         const struct qkv_epilogue *epilogue);
/* How the gradient of a weight may go where sums of parts wait (weight->carry). */
struct qkv_linear_carry {
    bool *done;         /* written: whether it went there; NULL: it may not, as something else is added to it */
    bool goes_on, more; /* rows of one group that come in several calls: this is not the first one, not the last one */
};
/* dx (or NULL) is added to or overwritten; dweight and dbias (or NULL), those of weight and bias, are added to, where rows learn.
 * order: of the rows, or NULL. */
enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, struct qkv_linear_rows x, size_t N,
                                          float *dx, bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          const struct qkv_tensor *bias, float *dbias,
                                          const struct qkv_row_order *order, struct qkv_linear_carry carry);

/* ---- activations (activation.c) ---- */

/* A checked node of an activation with its output; false after an error, and without x. */
bool qkv_activation_node(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_ffn_kind kind, bool gated, float limit,
                         struct qkv_node *node);
/* For the product that makes such a node's input: what computes the node's output block by block. */
struct qkv_activation_epilogue {
    struct qkv_epilogue epilogue; /* first */
    void *activation;
};
/* Rows of it without a node. */
struct qkv_activation_rows {
    enum qkv_ffn_kind kind;
    float limit; /* of gates that clamp */
    /* while it runs */
    const struct qkv_kernels *kernels;
    void *x;
    void *y;
    enum qkv_dtype dtype; /* of x and y */
    const float *dy;
    float *dx;
    size_t F; /* columns of y */
    bool accumulate;
    bool slope; /* forward writes the derivative over x, in fp32 without a gate: backward is then a product */
};
/* x (rows, F or, gated, 2F), to y (rows, F), both kept as x; `rows` must outlive the product. */
void qkv_activation_fuse_rows(struct qkv_context *ctx, struct qkv_activation_rows *rows, enum qkv_ffn_kind kind,
                              bool gated, float limit, struct qkv_linear_rows x, void *y, size_t F,
                              struct qkv_activation_epilogue *epilogue);
/* dx of x from dy (rows, F). */
void qkv_activation_backward_rows(struct qkv_context *ctx, enum qkv_ffn_kind kind, bool gated, float limit, float *dx,
                                  const float *dy, struct qkv_linear_rows x, size_t rows, size_t F);
/* backward: it will run, and nobody else reads the node's input. */
void qkv_activation_fuse(struct qkv_tape *tape, struct qkv_node *node, bool backward,
                         struct qkv_activation_epilogue *epilogue);

#endif
