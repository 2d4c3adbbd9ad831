/* The attention layer's insides, for the files that make it up (layer*.c). */
#ifndef QKV_ATTENTION_LAYER_H
#define QKV_ATTENTION_LAYER_H

#include "attention/attention.h"

struct qkv_attention_layer {
    struct qkv_context *ctx;
    struct qkv_attention_layer_spec spec;
    size_t owners; /* the caller until it frees the layer, and every cache */

    struct qkv_arena storage; /* weights, gradients, tables */
    struct qkv_weights weights;
    struct qkv_attention_parameters parameters;
    struct qkv_position_tables tables;
    struct qkv_distance_weights distances;

    struct qkv_arena arena, graph_arena; /* of one call */
    struct qkv_tape tape;
    struct qkv_tensor *x, *memory, *y;         /* of the latest forward; memory NULL without one */
    const struct qkv_attend *kept;             /* what to look at; NULL when there is nothing */
    const struct qkv_attention_cache *kept_in; /* the cache that this reads, or NULL */
    bool trained;                              /* a forward with train waits for its backward */
    bool empty_call;                           /* it had no queries or no keys, */
    size_t empty_rows, empty_memory;           /* but so many rows of x and of memory */
};

/* Each of its B rows has one page, of as many positions as it may hold. */
struct qkv_attention_cache {
    struct qkv_attention_layer *layer;
    size_t B, capacity, length;
    struct qkv_arena storage;
    struct qkv_key_values rows;
    int32_t *page;         /* (B): row b has page b, */
    const int32_t **lists; /* as the list of that one page */
};

/* Fills in what `spec` leaves out and checks the whole (layer_spec.c). */
enum qkv_status qkv_attention_layer_complete(struct qkv_context *ctx, struct qkv_attention_layer_spec *spec);

#endif
