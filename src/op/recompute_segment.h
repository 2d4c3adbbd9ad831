/* A stretch of the tape of which only the input and the output are kept: backward runs it again (Chen et al. 2016, "Training
 * deep nets with sublinear memory cost"). Losses and gradients are those of a tape that keeps everything, bit for bit. */
#ifndef QKV_SEGMENT_H
#define QKV_SEGMENT_H

#include "op/op.h"

/* Builds the stretch: x to an fp32 output of the same shape. It may be called twice with the same argument and must then do the
 * same; it holds no loss. */
typedef struct qkv_tensor *qkv_recompute_segment_run(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x);
/* Runs it. `argument` (size bytes) is copied. `other`: one more activation from outside that it reads, or NULL. Without
 * recording it is run as it is. */
struct qkv_tensor *qkv_tape_recompute_segment(struct qkv_tape *tape, qkv_recompute_segment_run *run,
                                              const void *argument, size_t size, struct qkv_tensor *x,
                                              struct qkv_tensor *other, struct qkv_tensor *third);

/* ---- what tape.c lends it ---- */
/* A slot of `count` floats that has one owner, free or new; NULL without memory. */
struct qkv_grad_buffer *qkv_grad_buffer_take(struct qkv_tape *tape, const struct qkv_tensor *x);
/* One owner less; NULL is fine. */
void qkv_grad_buffer_drop(struct qkv_tape *tape, struct qkv_grad_buffer *slot);
/* Goes backward over the nodes from tape->last on, which are then gone. */
enum qkv_status qkv_tape_go_back(struct qkv_tape *tape);

#endif
