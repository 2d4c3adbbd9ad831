/* segment: forward runs a segment of the tape, copies its output and releases all memory of the segment; backward
 * records the segment again from the saved input, with the same dropout masks, and goes backward over it.
 *
 * The operators, their order and the tensors that the segment reads from outside are those of a tape that saves
 * everything, so all bits are the same. Only the gradients of the segment's inputs outlive its second run: those in
 * memory of the segment move to a grad_buffer from outside, which backward reserves before it runs the segment. */
#include "op/recompute_segment.h"
#include "op/steps.h"

#include <string.h>

struct segment {
    qkv_recompute_segment_run *run;
    const void *argument;
    uint32_t dropout_count; /* the tape's count where the segment begins */
};

static enum qkv_status recompute_segment_copy(const struct qkv_tape *tape, float *to, const float *from, size_t count) {
    return QKV_STEP(tape->ctx, copy, .to = to, .from = from, .bytes = count * sizeof *to);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_check_checkpoint(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0];
    if (x->dtype == QKV_F32) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "segment: x (%zu,%zu) is bf16, but inputs and outputs are fp32", x->rows,
                    x->columns);
}

enum qkv_status qkv_forward_checkpoint(struct qkv_tape *tape, struct qkv_node *node) {
    const struct segment *s = node->saved;
    const struct qkv_tensor *y = node->output;
    struct qkv_tape_mark mark = qkv_tape_mark(tape);
    struct qkv_node *last = tape->last;
    struct qkv_tensor *out = s->run(tape, s->argument, node->inputs[0]);
    if (out && (out->rows != y->rows || out->columns != y->columns || out->dtype != y->dtype)) {
        qkv_tape_failed(tape, qkv_fail(tape->ctx, QKV_SHAPE, "segment: x is (%zu,%zu) but the output (%zu,%zu)%s",
                                       y->rows, y->columns, out->rows, out->columns,
                                       out->dtype == y->dtype ? "" : ", and that is not fp32"));
    }
    if (out && !tape->status)
        qkv_tape_failed(tape, recompute_segment_copy(tape, y->data, out->data, y->rows * y->columns));
    node->asks = tape->last != last;
    tape->last = last;
    qkv_tape_release(tape, mark);
    return tape->status;
}

/* The nodes of the segment count their own work; this is the copy of the output. */
struct qkv_cost qkv_cost_checkpoint(const struct qkv_node *node, bool backward) {
    return (struct qkv_cost){.bytes = backward ? 0 : 2 * qkv_tensor_bytes(node->output)};
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The first run has counted the uses of parameters, and the second run has counted them again: takes the second
 * away. */
static void forget_uses(const struct qkv_node *node) {
    for (; node; node = node->previous) {
        for (size_t i = 0; i < QKV_INPUTS_MAX; i++) {
            if (node->inputs[i] && node->inputs[i]->learning.gradient) {
                node->inputs[i]->learning.uses--;
            }
        }
        for (size_t i = 0; i < node->more_count; i++)
            node->more[i]->learning.uses -= node->more[i]->learning.gradient != NULL;
    }
}

static bool lies_inside(const struct qkv_tape *tape, const struct qkv_grad_buffer *buffer, struct qkv_tape_mark mark) {
    return (uintptr_t)buffer >= (uintptr_t)tape->graph_arena->base + mark.graph_arena;
}

/* Makes sure that there is a free grad_buffer from outside for each input that may need one. */
static enum qkv_status reserve_buffers(struct qkv_tape *tape, const struct qkv_node *node) {
    struct qkv_grad_buffer *buffers[QKV_INPUTS_MAX] = {NULL};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_INPUTS_MAX; i++) {
        const struct qkv_tensor *x = node->inputs[i];
        bool has = x && x->learning.buffer && x->learning.buffer->owners == 1;
        if (x && x->learning.requires_grad && !x->learning.gradient && !has) {
            buffers[i] = qkv_grad_buffer_take(tape, x);
            status = buffers[i] ? status : QKV_MEMORY;
        }
    }
    for (size_t i = 0; i < QKV_INPUTS_MAX; i++) {
        qkv_grad_buffer_drop(tape, buffers[i]);
    }
    return status;
}

/* Removes the segment's buffers from the free list, and moves gradients of inputs out of the segment's memory. */
static enum qkv_status move_gradients(struct qkv_tape *tape, struct qkv_node *node, struct qkv_tape_mark mark) {
    struct qkv_grad_buffer **link = &tape->free_grad_buffers;
    while (*link) {
        if (lies_inside(tape, *link, mark)) {
            *link = (*link)->next;
        } else {
            link = &(*link)->next;
        }
    }
    for (size_t i = 0; i < QKV_INPUTS_MAX; i++) {
        struct qkv_tensor *x = node->inputs[i];
        if (!x || !x->learning.buffer || !lies_inside(tape, x->learning.buffer, mark)) continue;
        struct qkv_grad_buffer *buffer = qkv_grad_buffer_take(tape, x);
        if (!buffer) return QKV_MEMORY;
        const enum qkv_status status =
            recompute_segment_copy(tape, buffer->data, x->learning.buffer->data, buffer->count);
        if (status) return status;
        x->learning.buffer = buffer;
    }
    return QKV_OK;
}

enum qkv_status qkv_backward_checkpoint(struct qkv_tape *tape, struct qkv_node *node) {
    const struct segment *s = node->saved;
    enum qkv_status status = reserve_buffers(tape, node);
    if (status) return status;
    struct qkv_tape_mark mark = qkv_tape_mark(tape);
    uint32_t dropout_count = tape->dropout_count;
    tape->dropout_count = s->dropout_count;
    tape->last = NULL;
    tape->repeats = true;
    struct qkv_tensor *out = s->run(tape, s->argument, node->inputs[0]);
    tape->repeats = false;
    tape->dropout_count = dropout_count;
    forget_uses(tape->last);
    if (out) {
        out->learning.buffer = node->output->learning.buffer;
        node->output->learning.buffer = NULL;
        status = qkv_tape_go_back(tape);
    }
    tape->last = NULL;
    if (!status && !tape->status) {
        status = move_gradients(tape, node, mark);
    }
    if (!status && !tape->status) {
        qkv_tape_release(tape, mark);
    }
    return tape->status ? tape->status : status;
}

/* ---- builder ----------------------------------------------------------------------------------------------------- */

struct qkv_tensor *qkv_tape_recompute_segment(struct qkv_tape *tape, qkv_recompute_segment_run *run,
                                              const void *argument, size_t size, struct qkv_tensor *x,
                                              struct qkv_tensor *const others[QKV_SEGMENT_OTHERS]) {
    if (!x || tape->status) return NULL;
    if (!tape->recording) return run(tape, argument, x);
    struct segment *s = qkv_tape_take_graph(tape, sizeof *s);
    void *kept = qkv_tape_take_graph(tape, size);
    if (!s || !kept) return NULL;
    memcpy(kept, argument, size);
    *s = (struct segment){.run = run, .argument = kept, .dropout_count = tape->dropout_count};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_checkpoint, s);
    node.inputs[0] = x;
    for (size_t i = 0; i < QKV_SEGMENT_OTHERS; i++) node.inputs[i + 1] = others[i];
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, x->columns);
    return qkv_tape_run(tape, &node);
}
