/* What an operator's lap of a profile is called, and the work that was done in it. */
#ifndef QKV_OP_PROFILE_H
#define QKV_OP_PROFILE_H

#include "base/profile.h"
#include "op/op.h"

/* After an operator has run forward (as qkv_tape_record is told of it), and after a node has gone backward. */
void qkv_profile_forward(struct qkv_tape *tape, qkv_backward *backward, struct qkv_tensor *const *inputs, size_t count,
                         const struct qkv_tensor *output, const void *saved);
void qkv_profile_backward(struct qkv_tape *tape, const struct qkv_node *node);

#endif
