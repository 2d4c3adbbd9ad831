/* rows: sequences of different lengths as one matrix without padding; gather and scatter, which choose and place rows.
 *
 * gather: y[m] = x[index[m]]; backward: dx[index[m]] += dy[m], in the order of m, for a block of columns at a time, so
 * that any thread count gives the same bits.
 * scatter: y[index[n]] = x[n] and zeros elsewhere; backward: dx[n] = dy[index[n]]. */
#include "op/steps.h"

#include <assert.h>

enum { ROWS_A_PIECE = 16, COLUMNS_A_PIECE = 64 };

/* ---- the rows of a batch ----------------------------------------------------------------------------------------- */

size_t qkv_rows_count(size_t B, size_t T, const int32_t *lengths) {
    size_t N = 0;
    for (size_t b = 0; b < B; b++) N += lengths ? (size_t)lengths[b] : T;
    return N;
}

const struct qkv_rows *qkv_rows_make(struct qkv_tape *tape, const struct qkv_rows *shape, const int32_t *lengths,
                                     const int32_t *documents) {
    const size_t B = shape->B, T = shape->T, N = shape->N;
    struct qkv_rows *rows = qkv_tape_take_graph(tape, sizeof *rows);
    int32_t *start = qkv_tape_take(tape, B + 1, sizeof *start), *place = qkv_tape_take(tape, N, sizeof *place);
    int32_t *position = qkv_tape_take(tape, N, sizeof *position);
    if (!rows || !start || !place || !position) return NULL;
    if (qkv_tape_failed(tape, QKV_STEP(tape->ctx, rows, .start = start, .place = place, .position = position,
                                       .lengths = lengths, .documents = documents, .B = B, .T = T)))
        return NULL;
    *rows = *shape;
    rows->most = shape->most && shape->most < B * T ? shape->most : B * T;
    rows->start = start, rows->place = place, rows->position = position;
    rows->before = tape->batch;
    tape->batch = rows;
    return rows;
}

const int32_t *qkv_rows_pack(struct qkv_tape *tape, const struct qkv_rows *rows, const int32_t *values) {
    if (!rows->ragged) return values;
    int32_t *packed = qkv_tape_take(tape, rows->N, sizeof *packed);
    if (packed)
        qkv_tape_failed(
            tape, QKV_STEP(tape->ctx, pick, .out = packed, .values = values, .index = rows->place, .count = rows->N));
    return packed;
}

void qkv_rows_spread(struct qkv_tape *tape, const struct qkv_rows *rows, float *matrix, size_t columns) {
    if (tape->status || !rows->ragged) return;
    qkv_tape_failed(tape, QKV_STEP(tape->ctx, spread, .matrix = matrix, .place = rows->place, .rows = rows->N,
                                   .places = rows->B * rows->T, .columns = columns));
}

/* ---- gather and scatter ------------------------------------------------------------------------------------------ */

struct choice {
    const int32_t *index;
    size_t rows; /* scatter: of the output */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    size_t count, C;
    const float *from;
    float *to;
    bool accumulate;
};

static struct choice rows_choice(const struct qkv_tape *tape, const struct qkv_node *node, size_t count) {
    struct choice c = *(const struct choice *)node->saved;
    c.kernels = tape->ctx->kernels;
    c.C = node->output->columns;
    c.count = count;
    return c;
}

/* to[m] (+)= from[index[m]] */
static void rows_gather(void *argument, size_t begin, size_t end, int thread) {
    const struct choice *c = argument;
    (void)thread;
    for (size_t m = begin; m < end; m++)
        c->kernels->scale(c->to + m * c->C, c->accumulate, c->from + (size_t)c->index[m] * c->C, 1, c->C);
}

/* to[index[n]] += from[n], for some columns. */
static void rows_add(void *argument, size_t begin, size_t end, int thread) {
    const struct choice *c = argument;
    (void)thread;
    for (size_t n = 0; n < c->count; n++)
        c->kernels->scale(c->to + (size_t)c->index[n] * c->C + begin, true, c->from + n * c->C + begin, 1, end - begin);
}

static enum qkv_status rows_clear(const struct qkv_tape *tape, float *to, size_t count) {
    return QKV_STEP(tape->ctx, clear, .to = to, .bytes = count * sizeof *to);
}

struct rows_check {
    struct qkv_context *ctx;
    const char *what;
    const int32_t *index;
    size_t count, rows;
};

/* Fails where an index is not in [0, rows). A plan may have no index yet. */
static enum qkv_status rows_check(void *argument) {
    const struct rows_check *c = argument;
    assert(c->index || !c->count);
    for (size_t m = 0; m < c->count; m++)
        if (c->index[m] < 0 || (size_t)c->index[m] >= c->rows)
            return qkv_fail(c->ctx, QKV_SHAPE, "%s: row %d at place %zu is not one of 0 to %zu", c->what, c->index[m],
                            m, c->rows ? c->rows - 1 : 0);
    return QKV_OK;
}

enum qkv_status qkv_check_gather(struct qkv_tape *tape, struct qkv_node *node) {
    const struct choice *c = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (x->dtype != QKV_F32) return qkv_fail(tape->ctx, QKV_SHAPE, "gather: x is bf16, but must be fp32");
    struct rows_check check = {tape->ctx, "gather", c->index, c->rows, x->rows};
    return qkv_compute(tape->ctx, rows_check, &check);
}

enum qkv_status qkv_forward_gather(struct qkv_tape *tape, struct qkv_node *node) {
    struct choice c = rows_choice(tape, node, node->output->rows);
    c.from = node->inputs[0]->data, c.to = node->output->data;
    qkv_parallel_range(tape->ctx, c.count, ROWS_A_PIECE, rows_gather, &c);
    return QKV_OK;
}

enum qkv_status qkv_backward_gather(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0];
    struct choice c = rows_choice(tape, node, node->output->rows);
    enum qkv_status status = QKV_OK;
    c.from = qkv_gradient_in(node);
    c.to = qkv_gradient_out(tape, x, &c.accumulate, &status);
    if (c.to && !c.accumulate) status = rows_clear(tape, c.to, x->rows * c.C);
    if (c.to && !status) qkv_parallel_range(tape->ctx, c.C, COLUMNS_A_PIECE, rows_add, &c);
    return status;
}

struct qkv_cost qkv_cost_gather(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    return (struct qkv_cost){.bytes = backward ? qkv_gradient_bytes(x) + 2 * qkv_gradient_bytes(y)
                                               : 2 * qkv_tensor_bytes(y)};
}

enum qkv_status qkv_check_scatter(struct qkv_tape *tape, struct qkv_node *node) {
    const struct choice *c = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (x->dtype != QKV_F32) return qkv_fail(tape->ctx, QKV_SHAPE, "scatter: x is bf16, but must be fp32");
    struct rows_check check = {tape->ctx, "scatter", c->index, x->rows, c->rows};
    return qkv_compute(tape->ctx, rows_check, &check);
}

enum qkv_status qkv_forward_scatter(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    struct choice c = rows_choice(tape, node, x->rows);
    c.from = x->data, c.to = y->data;
    const enum qkv_status status = rows_clear(tape, c.to, y->rows * c.C);
    if (!status) qkv_parallel_range(tape->ctx, c.C, COLUMNS_A_PIECE, rows_add, &c);
    return status;
}

enum qkv_status qkv_backward_scatter(struct qkv_tape *tape, struct qkv_node *node) {
    struct choice c = rows_choice(tape, node, node->inputs[0]->rows);
    enum qkv_status status = QKV_OK;
    c.from = qkv_gradient_in(node);
    c.to = qkv_gradient_out(tape, node->inputs[0], &c.accumulate, &status);
    if (c.to) qkv_parallel_range(tape->ctx, c.count, ROWS_A_PIECE, rows_gather, &c);
    return status;
}

struct qkv_cost qkv_cost_scatter(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    return (struct qkv_cost){.bytes = backward ? 2 * qkv_gradient_bytes(x) : qkv_tensor_bytes(x) + qkv_tensor_bytes(y)};
}

static struct qkv_tensor *rows_move(struct qkv_tape *tape, int operator, struct qkv_tensor * x, const int32_t *index,
                                    size_t rows) {
    if (!x || tape->status) return NULL;
    struct choice *c = qkv_tape_take_graph(tape, sizeof *c);
    if (!c) return NULL;
    *c = (struct choice){.index = index, .rows = rows};
    struct qkv_node node = qkv_tape_node(tape, operator, c);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, rows, x->columns);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}

struct qkv_tensor *qkv_op_gather(struct qkv_tape *tape, struct qkv_tensor *x, const int32_t *index, size_t count) {
    return rows_move(tape, QKV_OPERATOR_gather, x, index, count);
}

struct qkv_tensor *qkv_op_scatter(struct qkv_tape *tape, struct qkv_tensor *x, const int32_t *index, size_t rows) {
    return rows_move(tape, QKV_OPERATOR_scatter, x, index, rows);
}
