/* The attention layer's insides, for the files that make it up (layer*.c). */
#ifndef QKV_ATTENTION_LAYER_H
#define QKV_ATTENTION_LAYER_H

#include "model/decode.h"

/* A layer is a stack of one layer that has nothing but its attention: `model.decoder` is the stack's spec. */
struct qkv_attention_layer {
    struct qkv_context *ctx;
    struct qkv_attention_layer_spec spec;
    size_t owners; /* the caller until it frees the layer, and every cache */
    struct qkv_spec *model;
    struct qkv_stack stack;
    struct qkv_layer only; /* the stack's */

    struct qkv_arena storage; /* weights, gradients, tables */
    struct qkv_weights weights;

    struct qkv_arena arena, graph_arena; /* of one call */
    struct qkv_tape tape;
    struct qkv_tensor *x, *memory, *y;         /* of the latest forward; memory NULL without one */
    const struct qkv_attend *kept[2];          /* what to look at, of self and of cross attention; NULL: nothing */
    const struct qkv_attention_cache *kept_in; /* the cache that this reads, or NULL */
    bool trained;                              /* a forward with train waits for its backward */
    bool empty_call;                           /* it had no queries or no keys, */
    size_t empty_rows, empty_memory;           /* but so many rows of x and of memory */
};

/* B sequences of one length in a pool of pages. */
struct qkv_attention_cache {
    struct qkv_attention_layer *layer;
    size_t B, capacity, length;
    struct qkv_page_pool *pool;
    struct qkv_arena storage;    /* of lists and tables */
    struct qkv_page_list *lists; /* (B) */
    const int32_t **tables;      /* (B): their pages */
    size_t *more;                /* (B): while lists grow */
};
/* Drops all positions from `length` on, then adds `more`, whose contents are undefined (layer.c). */
enum qkv_status qkv_attention_cache_grow(struct qkv_attention_cache *cache, size_t length, size_t more);

/* The parameters of a layer. */
static inline struct qkv_attention_parameters *qkv_attention_layer_own(struct qkv_attention_layer *layer) {
    return layer->spec.cross ? &layer->only.cross.parameters : &layer->only.self.parameters;
}

/* Fills in what `spec` leaves out and checks the whole (layer_spec.c). */
enum qkv_status qkv_attention_layer_complete(struct qkv_context *ctx, struct qkv_attention_layer_spec *spec);

#endif
