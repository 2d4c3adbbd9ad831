/* experts.h: what the files of experts share: the rows of an expert, and the adapters of its matrices. */
#ifndef QKV_EXPERTS_H
#define QKV_EXPERTS_H

#include "op/linear.h"
#include "op/weights.h"

/* The adapters of one matrix, up or down, of all experts of a node. */
struct qkv_expert_adapters {
    bool applies;  /* to some expert */
    size_t low;    /* floats that forward saves of a row, the maximum of all experts; 0: none has an own adapter */
    float *saved;  /* (slots, low) where they are saved; else of one expert */
    float dropout; /* 0: none, or the tape does not train */
    uint32_t key[2];
};
/* Rows that a matrix of an expert multiplies. */
struct qkv_expert_rows {
    size_t expert, N;                  /* N: rows of the batch */
    const int32_t *row;                /* the batch's row of each, rising; NULL in a plan */
    const int32_t *place;              /* as in struct qkv_dropout_rows */
    const struct qkv_row_order *order; /* of the rows of the batch; NULL: none */
    struct qkv_tensor x;               /* the rows; x.learning.order is their own order of sums */
};

/* The experts of a node, and the one of them that runs. */
struct qkv_experts_pass {
    const struct qkv_routing *routing;
    const struct qkv_expert_weights *weights;
    enum qkv_ffn_kind kind;
    bool gated;
    bool inputs; /* weights multiply the inputs of experts, and not their results */
    float limit;
    void *hidden, *active; /* (slots, F or 2F), (slots, F) where they are saved; else of one expert */
    bool kept;
    enum qkv_dtype dtype; /* of hidden and active */
    struct qkv_expert_adapters up, down;
    const struct qkv_adapter_runs *runs; /* of the tape */
    const int32_t *place;                /* of the rows of x in masks; NULL: their own numbers */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    const struct qkv_tensor *x;
    size_t C, H, F;
    const float *scale, *dy;
    float *y, *dweights, *dx;
    bool accumulate, accumulate_weights;
    /* of one expert, with room for all rows of x: a row goes to an expert at most once */
    void *gathered; /* (rows, C), of x's dtype */
    float *out;     /* (rows, C): the expert's result; in backward its gradient, then the gradient of `gathered` */
    float *dhidden, *dactive;
    float *sum;  /* (rows, H): fp32 results of a product up with an adapter; NULL: `hidden` has them */
    bool plans;  /* no expert has rows yet */
    size_t slot; /* of the expert's first row */
    const float *down_bias;
};

static inline struct qkv_linear_rows qkv_experts_at(void *data, enum qkv_dtype dtype, size_t row, size_t columns) {
    return (struct qkv_linear_rows){(char *)data + row * columns * qkv_type_size(dtype), dtype};
}

/* The rows of the expert that is running. */
static inline struct qkv_linear_rows qkv_experts_hidden(const struct qkv_experts_pass *o) {
    return qkv_experts_at(o->hidden, o->dtype, o->kept ? o->slot : 0, o->H);
}

static inline struct qkv_linear_rows qkv_experts_active(const struct qkv_experts_pass *o) {
    return qkv_experts_at(o->active, o->dtype, o->kept ? o->slot : 0, o->F);
}

/* ---- rows (experts_rows.c) ---- */

/* `gathered` gets the rows of x of an expert, and, in backward, `out` those of dy. */
void qkv_experts_gather(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows);
/* Adds the results of the expert to the rows of y. */
void qkv_experts_give(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows);
/* Computes the gradient of each row's weight, then multiplies the other gradients by the weight. */
void qkv_experts_weigh(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows);
/* Adds the gradient of `gathered` to the rows of dx, and, with `inputs`, computes that of each row's weight. */
void qkv_experts_return(struct qkv_context *ctx, struct qkv_experts_pass *pass, size_t rows);
/* The row of x that is the expert's i-th. */
static inline size_t qkv_experts_row(const struct qkv_experts_pass *pass, size_t i) {
    return (size_t)pass->routing->row[pass->slot + i];
}

/* ---- adapters (experts_adapter.c) ---- */

/* Finds the adapters of the matrices of `count` experts. */
void qkv_expert_adapters_start(struct qkv_tape *tape, const struct qkv_linear *linears, size_t count,
                               struct qkv_expert_adapters *adapters);
/* The operands of experts, with those of their adapters: from the tape's graph. NULL after a failure. */
struct qkv_tensor *const *qkv_expert_operands(struct qkv_tape *tape, const struct qkv_expert_weights *weights,
                                              size_t *count);
/* Whether the adapters of two operands have the same shapes, and learn the same: then both need the same scratch. */
bool qkv_expert_adapters_alike(const struct qkv_tensor *weight, const struct qkv_tensor *other);
/* y (rows, out), fp32, gets the term of the operand's adapter, or the terms that rows choose. low: receives what
 * backward reads. */
enum qkv_status qkv_expert_adapter_forward(struct qkv_tape *tape, const struct qkv_expert_adapters *adapters,
                                           const struct qkv_expert_rows *rows, const struct qkv_tensor *weight,
                                           float *y, float *low);
/* From dy (rows, out): dx (or NULL) is added to; gradients as in qkv_adapter_backward_to. */
enum qkv_status qkv_expert_adapter_backward(struct qkv_tape *tape, const struct qkv_expert_adapters *adapters,
                                            const struct qkv_expert_rows *rows, const struct qkv_tensor *weight,
                                            const float *dy, float *dx, const float *low, float *const *gradients);
/* Operations of rows x, which all experts share equally. */
double qkv_expert_adapters_flops(const struct qkv_adapter_runs *runs, const struct qkv_linear *linears, size_t count,
                                 const struct qkv_tensor *x, bool backward);

#endif
