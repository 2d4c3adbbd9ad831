/* The three products of a linear layer, for operators that fuse more around them (cross-entropy): shapes as in linear.c. */
#ifndef QKV_LINEAR_H
#define QKV_LINEAR_H

#include "op/op.h"

enum qkv_status qkv_linear_check(struct qkv_tape *tape, const char *what, const struct qkv_tensor *x,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias);
struct qkv_rows { /* of a tensor */
    void *data;
    enum qkv_dtype dtype;
};
enum qkv_status qkv_linear_forward_parts(struct qkv_tape *tape, struct qkv_rows y, struct qkv_rows x, size_t N,
                                         const struct qkv_tensor *weight, const struct qkv_tensor *bias);
/* dx (or NULL) is added to or overwritten; dweight and dbias (or NULL) are added to. */
enum qkv_status qkv_linear_backward_parts(struct qkv_tape *tape, const float *dy, struct qkv_rows x, size_t N,
                                          float *dx, bool accumulate, const struct qkv_tensor *weight, float *dweight,
                                          float *dbias);

#endif
