/* A module, for the files that implement it (module*.c). */
#ifndef QKV_MODULE_H
#define QKV_MODULE_H

#include "model/model.h"

struct qkv_module {
    struct qkv_context *ctx;
    struct qkv_model *model; /* has the weights and stacks */
    bool owns;               /* the model was made for the module */
    bool trains;             /* a forward with train has run: the module counts as a user that trains the model */
    enum qkv_module_kind kind;
    struct qkv_stack *stack; /* NULL: a whole model */
    size_t layer;
    enum qkv_sublayer sublayer; /* of an attention, feed-forward or norm */
    bool out, final;            /* of a norm: after the sublayer; after the last layer */
    const char *part;           /* while the module is made: its name after ".layers.N"; NULL: not in a layer */

    struct qkv_array *arrays; /* its parameters; a name is the end of the model's name */
    size_t *indices;          /* their indices in the model's list */
    size_t count;

    struct qkv_arena arena, graph_arena; /* of one call */
    struct qkv_tape tape;
    /* of the latest forward; NULL: none. Gradients of inputs go straight to the caller's memory. */
    struct qkv_tensor *x, *memory, *values, *y;
    struct qkv_vectors shapes[4]; /* of x, memory, values and y, without data */
    bool trained;                 /* a forward with train has run, and its backward has not */
    bool empty;                   /* the forward had nothing to compute */
};

#endif
