/* A module's insides, for the files that make it up (module*.c). */
#ifndef QKV_MODULE_H
#define QKV_MODULE_H

#include "model/model.h"

struct qkv_module {
    struct qkv_context *ctx;
    struct qkv_model *model; /* whose weights and stacks it uses */
    bool owns;               /* the model was made for it */
    enum qkv_module_kind kind;
    struct qkv_stack *stack; /* NULL: a whole model */
    size_t layer;
    enum qkv_sublayer sublayer; /* of an attention or feed-forward, */
    bool out, final;            /* and of a norm: behind the sublayer; or that after the last layer */
    const char *part;           /* while it is made: what stands behind ".layers.N" of its name; NULL: of no layer */

    struct qkv_array *arrays; /* its parameters; names end the model's names */
    size_t *indices;          /* of them in the model's list */
    size_t count;

    struct qkv_arena arena, graph_arena; /* of one call */
    struct qkv_tape tape;
    /* Of the latest forward; NULL: none. The gradients of inputs go right where the caller wants them. */
    struct qkv_tensor *x, *memory, *values, *y;
    struct qkv_vectors shapes[4]; /* of x, memory, values and y there, without data */
    bool trained;                 /* a forward with train waits for its backward */
    bool empty;                   /* there was nothing to compute */
};

#endif
