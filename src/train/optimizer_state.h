/* optimizer_state: an optimizer, for the files that make it (optimizer.c) and that step (optimizer_step.c). */
#ifndef QKV_OPTIMIZER_STATE_H
#define QKV_OPTIMIZER_STATE_H

#include "model/model.h"
#include "op/steps.h"
#include "train/train.h"

struct qkv_optimizer_cut { /* numbers [begin, end) of a weight, in each moment of their run */
    size_t run, begin, end;
};

struct qkv_optimizer {
    struct qkv_model *model;
    struct qkv_optimizer_options options;
    bool trains;            /* it counts as a user that trains the model */
    uint64_t steps, chosen; /* chosen: which weights learnt when it was made */
    size_t moments, run_count, piece_count;
    struct qkv_arena arena;
    struct qkv_moment_run *runs; /* of weights in turn */
    bool *learns;                /* (weights): when it was made */
    struct qkv_optimizer_cut *pieces;
    struct qkv_optimizer_piece *work; /* (piece_count): those of the latest step */
    struct qkv_arena scratch;         /* of updates that need whole gradients */
    size_t scratch_bytes;
    struct qkv_rank_masters masters;
    /* of updates that need whole gradients */
    float *(*whole)[QKV_MOMENT_COUNT]; /* (weights): moments that ranks do not divide, in `arena` */
    float *scales;                     /* (weights): of the changes of the latest step */
    double *squares;                   /* (1 + ranks, square_count): of pieces of weights, own ones and those of all */
    size_t square_count;
};

#endif
