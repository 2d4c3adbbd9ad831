/* The tape: the nodes of a pass in order, and backward over them.
 *
 * Reverse-mode differentiation over coarse operators. Gradients of activations are in grad_buffers from the step's
 * arena, which are reused: when an operator has gone backward, its output's buffer is free for the next gradient of the
 * same size, so a deep stack needs only a few. Gradients of parameters are in the model's memory and are added to. */
#include "op/op.h"
#include "op/recompute_segment.h"
#include "op/steps.h"

void qkv_tape_train(struct qkv_tape *tape, uint64_t dropout_seed) {
    tape->training = true;
    struct qkv_random random = qkv_random_start(dropout_seed, 0);
    uint64_t bits = qkv_random_bits(&random);
    tape->dropout_key[0] = (uint32_t)bits;
    tape->dropout_key[1] = (uint32_t)(bits >> 32);
}

bool qkv_tape_failed(struct qkv_tape *tape, enum qkv_status status) {
    if (!tape->status) {
        tape->status = status;
    }
    return tape->status;
}

void *qkv_tape_take(struct qkv_tape *tape, size_t count, size_t size) {
    void *block = qkv_arena_take(tape->arena, count, size);
    if (!block) {
        qkv_tape_failed(tape, QKV_MEMORY);
    }
    return block;
}

void *qkv_tape_take_graph(struct qkv_tape *tape, size_t size) {
    void *block = qkv_arena_take(tape->graph_arena, 1, size);
    if (!block) {
        qkv_tape_failed(tape, QKV_MEMORY);
    }
    return block;
}

/* The rows that are planned for a batch that has `rows` rows. A gradient takes a buffer of the planned size, whatever
 * the lengths are, so that buffers are reused as in the plan. The size is found when the tensor is made: when backward
 * runs, the tape may be at another batch that happens to have as many rows. */
static size_t tape_planned_rows(const struct qkv_tape *tape, size_t rows) {
    for (const struct qkv_rows *batch = tape->batch; batch; batch = batch->before)
        if (batch->N == rows) return batch->most;
    return 0;
}

struct qkv_tensor *qkv_tape_view(struct qkv_tape *tape, float *data, size_t rows, size_t columns) {
    if (tape->status || !data) return NULL;
    struct qkv_tensor *tensor = qkv_tape_take_graph(tape, sizeof *tensor);
    if (tensor) {
        *tensor = (struct qkv_tensor){
            .data = data, .rows = rows, .columns = columns, .planned_rows = tape_planned_rows(tape, rows)};
    }
    return tensor;
}

struct qkv_tensor *qkv_tape_same(struct qkv_tape *tape, struct qkv_tensor *x) {
    struct qkv_tensor *y = qkv_tape_view(tape, x->data, x->rows, x->columns);
    if (y) {
        y->dtype = x->dtype;
    }
    return y;
}

static struct qkv_tensor *make_tensor(struct qkv_tape *tape, size_t rows, size_t columns, enum qkv_dtype dtype) {
    if (tape->status) return NULL;
    size_t count;
    if (!qkv_multiply(rows, columns, &count)) {
        qkv_tape_failed(tape,
                        qkv_fail(tape->ctx, QKV_SHAPE, "a tensor of %zu x %zu elements is too large", rows, columns));
        return NULL;
    }
    struct qkv_tensor *x = qkv_tape_view(tape, qkv_tape_take(tape, count, qkv_type_size(dtype)), rows, columns);
    if (x) {
        x->dtype = dtype;
    }
    return x;
}

struct qkv_tensor *qkv_tape_tensor(struct qkv_tape *tape, size_t rows, size_t columns) {
    return make_tensor(tape, rows, columns, QKV_F32);
}

struct qkv_tensor *qkv_tape_for_products(struct qkv_tape *tape, size_t rows, size_t columns) {
    return make_tensor(tape, rows, columns, tape->product->activation);
}

struct qkv_tensor *qkv_tape_like(struct qkv_tape *tape, const struct qkv_tensor *x) {
    return make_tensor(tape, x->rows, x->columns, x->dtype);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

struct qkv_node qkv_tape_node(const struct qkv_tape *tape, int operator, void * saved) {
    return (struct qkv_node){.row = &tape->rows[operator], .saved = saved};
}

bool qkv_tape_check(struct qkv_tape *tape, struct qkv_node *node) {
    return !qkv_tape_failed(tape, node->row->check(tape, node));
}

bool qkv_tape_records(const struct qkv_tape *tape, const struct qkv_node *call) {
    bool requires_grad = call->asks;
    for (size_t i = 0; i < QKV_INPUTS_MAX; i++) {
        if (call->inputs[i] && call->inputs[i]->learning.requires_grad) {
            requires_grad = true;
        }
    }
    for (size_t i = 0; i < call->more_count; i++)
        requires_grad = requires_grad || call->more[i]->learning.requires_grad;
    return tape->recording && requires_grad;
}

static struct qkv_tensor *tape_record(struct qkv_tape *tape, const struct qkv_node *call) {
    if (!qkv_tape_records(tape, call)) return call->output;
    struct qkv_node *node = qkv_tape_take_graph(tape, sizeof *node);
    if (!node) return NULL;
    *node = *call;
    node->fused = NULL;
    node->previous = tape->last;
    for (size_t i = 0; i < QKV_INPUTS_MAX; i++) {
        if (node->inputs[i] && node->inputs[i]->learning.gradient) {
            node->inputs[i]->learning.uses++;
        }
    }
    for (size_t i = 0; i < node->more_count; i++)
        node->more[i]->learning.uses += node->more[i]->learning.gradient != NULL;
    if (node->output) {
        node->output->learning.requires_grad = true;
    }
    tape->last = node;
    return node->output;
}

/* The output gets the order of the input's rows, if it has none of its own, and their planned number. */
static void tape_copy_order(struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0];
    if (!node->output || !x || node->output->rows != x->rows) return;
    if (!node->output->learning.order) node->output->learning.order = x->learning.order;
    if (x->planned_rows) node->output->planned_rows = x->planned_rows;
}

struct qkv_tensor *qkv_tape_run(struct qkv_tape *tape, struct qkv_node *node) {
    for (struct qkv_node *n = node; n; n = n->fused) tape_copy_order(n);
    if (tape->status || qkv_tape_failed(tape, node->row->forward(tape, node))) return NULL;
    qkv_operator_count(tape, node, false);
    struct qkv_tensor *y = tape_record(tape, node);
    return node->fused && !tape->status ? tape_record(tape, node->fused) : y;
}

/* ---- memory of a pass that does not record ----------------------------------------------------------------------- */

struct qkv_tape_mark qkv_tape_mark(const struct qkv_tape *tape) {
    return (struct qkv_tape_mark){qkv_arena_mark(tape->arena), qkv_arena_mark(tape->graph_arena)};
}

void qkv_tape_release(struct qkv_tape *tape, struct qkv_tape_mark mark) {
    while (tape->forms && tape->forms->mark >= mark.arena) tape->forms = tape->forms->previous;
    qkv_arena_release(tape->arena, mark.arena);
    qkv_arena_release(tape->graph_arena, mark.graph_arena);
}

struct qkv_tensor *qkv_tape_keep(struct qkv_tape *tape, struct qkv_tape_mark mark, struct qkv_tensor *into,
                                 struct qkv_tensor *x) {
    if (tape->recording || tape->status || !x) return x;
    if (into != x)
        tape->status =
            QKV_STEP(tape->ctx, copy, .to = into->data, .from = x->data, .bytes = x->rows * x->columns * sizeof(float));
    qkv_tape_release(tape, mark);
    return into;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

struct qkv_grad_buffer *qkv_grad_buffer_take(struct qkv_tape *tape, const struct qkv_tensor *x) {
    const size_t apart = x->learning.apart ? x->learning.apart : 1, count = apart * x->rows * x->columns;
    const size_t room = x->planned_rows && !x->learning.apart ? x->planned_rows * x->columns : count;
    for (struct qkv_grad_buffer **link = &tape->free_grad_buffers; *link; link = &(*link)->next) {
        struct qkv_grad_buffer *buffer = *link;
        if (buffer->room != room) continue;
        *link = buffer->next;
        buffer->owners = 1;
        buffer->count = count;
        return buffer;
    }
    struct qkv_grad_buffer *buffer = qkv_tape_take_graph(tape, sizeof *buffer);
    float *data = buffer ? qkv_tape_take(tape, room, sizeof(float)) : NULL;
    if (!data) return NULL;
    *buffer = (struct qkv_grad_buffer){.data = data, .count = count, .room = room, .owners = 1};
    return buffer;
}

void qkv_grad_buffer_drop(struct qkv_tape *tape, struct qkv_grad_buffer *buffer) {
    if (buffer && --buffer->owners == 0) {
        buffer->next = tape->free_grad_buffers;
        tape->free_grad_buffers = buffer;
    }
}

const float *qkv_gradient_in(const struct qkv_node *node) {
    return node->output->learning.buffer->data;
}

float *qkv_gradient_rows(struct qkv_tensor *parameter, uint8_t **rows) {
    const unsigned use = parameter->learning.given++;
    const bool later = use && use < parameter->learning.times && parameter->learning.later;
    *rows = later ? parameter->learning.later_rows + (use - 1) * parameter->rows : NULL;
    return later ? parameter->learning.later + (use - 1) * parameter->learning.later_stride
                 : parameter->learning.gradient;
}

/* Storage of a parameter's gradient, all of whose rows count as written. */
static float *gradient_of_parameter(const struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_status *status) {
    uint8_t *rows;
    float *gradient = qkv_gradient_rows(x, &rows);
    const enum qkv_status marked = rows ? QKV_STEP(tape->ctx, clear, .to = rows, .bytes = x->rows, .byte = 1) : QKV_OK;
    if (!marked) return gradient;
    *status = marked;
    return NULL;
}

/* Replaces a buffer that another tensor shares by a copy. */
static enum qkv_status gradient_own(struct qkv_tape *tape, struct qkv_tensor *x) {
    struct qkv_grad_buffer *copy = qkv_grad_buffer_take(tape, x), *shared = x->learning.buffer;
    if (!copy) return QKV_MEMORY;
    x->learning.buffer = copy;
    const enum qkv_status status =
        QKV_STEP(tape->ctx, copy, .to = copy->data, .from = shared->data, .bytes = copy->count * sizeof *copy->data);
    qkv_grad_buffer_drop(tape, shared);
    return status;
}

float *qkv_gradient_out(struct qkv_tape *tape, struct qkv_tensor *x, bool *accumulate, enum qkv_status *status) {
    *accumulate = true;
    if (!x || !x->learning.requires_grad) return NULL;
    if (x->learning.gradient) return gradient_of_parameter(tape, x, status);
    enum qkv_status taken = QKV_OK;
    if (!x->learning.buffer) {
        *accumulate = false;
        x->learning.buffer = qkv_grad_buffer_take(tape, x);
        taken = x->learning.buffer ? QKV_OK : QKV_MEMORY;
    } else if (x->learning.buffer->owners > 1) {
        taken = gradient_own(tape, x);
    }
    if (!taken) return x->learning.buffer->data;
    *status = taken;
    return NULL;
}

enum qkv_status qkv_gradient_pass(struct qkv_tape *tape, struct qkv_node *node, struct qkv_tensor *x) {
    if (!x || !x->learning.requires_grad) return QKV_OK;
    struct qkv_grad_buffer *buffer = node->output->learning.buffer;
    if (!x->learning.gradient && !x->learning.buffer) {
        buffer->owners++;
        x->learning.buffer = buffer;
        return QKV_OK;
    }
    bool accumulate;
    enum qkv_status status = QKV_OK;
    float *dx = qkv_gradient_out(tape, x, &accumulate, &status);
    if (!dx) return status;
    return QKV_STEP(tape->ctx, add, .to = dx, .x = buffer->data, .count = buffer->count);
}

static void tape_used(struct qkv_tape *tape, struct qkv_tensor *x) {
    if (x && x->learning.gradient && --x->learning.uses == 0 && tape->listener) {
        tape->listener(tape->listener_user, x);
    }
}

static void finish_node(struct qkv_tape *tape, struct qkv_node *node) {
    for (size_t i = 0; i < QKV_INPUTS_MAX; i++) tape_used(tape, node->inputs[i]);
    for (size_t i = 0; i < node->more_count; i++) tape_used(tape, node->more[i]);
    if (node->output) {
        qkv_grad_buffer_drop(tape, node->output->learning.buffer);
        node->output->learning.buffer = NULL;
    }
}

enum qkv_status qkv_tape_go_back(struct qkv_tape *tape) {
    enum qkv_status status = tape->status;
    for (struct qkv_node *node = tape->last; node; node = node->previous) {
        /* An output that nothing used has no gradient; a loss has no output. */
        if (!status && (!node->output || node->output->learning.buffer)) {
            status = node->row->backward(tape, node);
            if (!status) {
                qkv_operator_count(tape, node, true);
            }
        }
        finish_node(tape, node);
    }
    tape->last = NULL;
    return status;
}

enum qkv_status qkv_tape_backward(struct qkv_tape *tape) {
    qkv_tape_failed(tape, qkv_tape_go_back(tape));
    return tape->status;
}

enum qkv_status qkv_tape_backward_from(struct qkv_tape *tape, struct qkv_tensor *y, const float *dy) {
    struct qkv_grad_buffer *buffer = qkv_tape_take_graph(tape, sizeof *buffer);
    if (!buffer) return QKV_MEMORY;
    /* a second owner of the buffer keeps backward from writing to it */
    *buffer = (struct qkv_grad_buffer){.data = (float *)(uintptr_t)dy, .count = y->rows * y->columns, .owners = 2};
    y->learning.buffer = buffer;
    return qkv_tape_backward(tape);
}
