/* attend_backward.h: what the passes of backward share: one block of rows with one block of keys, with the weights
 * recomputed (attend_gradients.c). attend_backward.c computes dq, dk and dv from it, attend_addend.c the gradient of
 * attention_bias. */
#ifndef QKV_ISA_ATTEND_BACKWARD_H
#define QKV_ISA_ATTEND_BACKWARD_H

#include "kernel/isa/attend_distance.h"
#include "kernel/isa/attend_shares.h"

enum { KEYS = BACKWARD_KEYS };

struct backward {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    float keep_scale;
    bool plain;                         /* scores are scaled products, and there is no dropout */
    bool of_score;                      /* ds is the gradient of the score, not of the product */
    size_t ldk, ldv;                    /* D and Dv padded */
    size_t b, n, key, keys;             /* the current block of keys */
    struct stream stream_k, stream_v;   /* of the current kv head */
    bool packed;                        /* whether the block is packed */
    bool wants_k, wants_dk, wants_dv;   /* whether it needs rows of K, dk, dv */
    size_t r0, count;                   /* the current block of rows */
    bool finite_k, finite_q, finite_dy; /* whether all packed numbers are finite */
    float *kt, *vt;                     /* panels of (D,PANEL), (Dv,PANEL) */
    float *k;                           /* (KEYS,D padded) */
    float *dk, *dv;                     /* (KEYS,D padded), (KEYS,Dv padded) */
    const float *q, *dy;                /* (rows,D padded), (rows,Dv padded), */
    float *own_q, *own_dy;              /* and where they are packed for this block of keys alone */
    float *p, *ds;                      /* (rows,KEYS) */
    float *sum;                         /* (rows,KEYS) of the gradient of attention_bias, if it is wanted */
    float *staging;                     /* keys or values that must be copied before packing */
    struct share share;                 /* of dq, of the current run: all rows of the kv head */
    float *distances;                   /* of the table of distances, of the current run; NULL: not wanted */
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];         /* of each row, and */
    struct span covers[QKV_ATTEND_ROWS / TILE]; /* of each tile of rows */
};

/* Sets up an item: everything that is constant for the item, and its scratch. */
void QKV_K(attend_backward_start)(struct backward *f, const struct qkv_attend_plan *plan, float *scratch);
/* Moves to a kv head and a block of its keys. */
void QKV_K(attend_backward_keys)(struct backward *f, size_t b, size_t n, size_t block);
/* Moves to the rows [r0, r0 + count). Returns the span of keys that they attend to, and packs both sides if it is not
 * empty. */
struct span QKV_K(attend_backward_rows)(struct backward *f, size_t r0, size_t count);
/* P, with dropout, and dS of the rows [r, r + rows) of the block, for the keys that the tile covers; 0 for masked
 * pairs. */
void QKV_K(attend_tile_gradients)(struct backward *f, size_t r, size_t rows);

#endif
