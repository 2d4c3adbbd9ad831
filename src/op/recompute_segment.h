/* A segment of the tape that saves its input and output only: backward computes it again (Chen et al. 2016, "Training
 * deep nets with sublinear memory cost"). Losses and gradients are those of a tape that saves everything, bit for
 * bit. */
#ifndef QKV_SEGMENT_H
#define QKV_SEGMENT_H

#include "op/op.h"

/* Builds the segment: x to an fp32 output of the same shape. Backward calls it a second time with the same argument;
 * both calls must build the same nodes. A segment holds no loss. */
typedef struct qkv_tensor *qkv_recompute_segment_run(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x);
/* Runs the segment. `argument` (size bytes) is copied. others: further activations from outside that the segment reads,
 * or NULL. A tape that does not record runs it like any other nodes. */
enum { QKV_SEGMENT_OTHERS = QKV_INPUTS_MAX - 1 };
struct qkv_tensor *qkv_tape_recompute_segment(struct qkv_tape *tape, qkv_recompute_segment_run *run,
                                              const void *argument, size_t size, struct qkv_tensor *x,
                                              struct qkv_tensor *const others[QKV_SEGMENT_OTHERS]);

/* ---- functions of tape.c that only segments call ---- */
/* A grad_buffer with the room that x's gradient needs and one owner, reused or new; NULL if there is no memory. */
struct qkv_grad_buffer *qkv_grad_buffer_take(struct qkv_tape *tape, const struct qkv_tensor *x);
/* Takes one owner away; the buffer may be NULL. Without owners it is free for reuse. */
void qkv_grad_buffer_drop(struct qkv_tape *tape, struct qkv_grad_buffer *buffer);
/* Runs backward over the nodes from tape->last on and removes them from the tape. */
enum qkv_status qkv_tape_go_back(struct qkv_tape *tape);

#endif
