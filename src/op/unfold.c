/* unfold: the windows of a convolution over positions as rows, so that the convolution is a product (im2col;
 * Chellapilla et al. 2006).
 *
 * x (M, C), y (N, C·K): y[t][c·K + j] = x[t·stride + j − ⌊K/2⌋][c] of the same sequence, and 0 past its ends. The order
 * of columns is that of a weight (out, C, K). Backward: dx[i][c] is the sum of dy over the windows that hold i, in the
 * order of j, so any thread count gives the same bits. */
#include "op/op.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

struct unfold {
    struct qkv_unfold_options options;
    /* set while it runs */
    size_t C, size; /* bytes of an element */
    const char *x;
    char *y;
    const float *dy;
    float *dx;
    bool accumulate;
};

/* The sequence of a row; `start` has the first row of each sequence. */
static size_t unfold_sequence(const int32_t *start, size_t B, size_t row) {
    size_t low = 0, high = B;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if ((size_t)start[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void unfold_row(const struct unfold *o, size_t b, size_t row) {
    const struct qkv_unfold_options *p = &o->options;
    const size_t K = p->kernel, count = (size_t)p->count[b], t = row - (size_t)p->y_start[b];
    char *y = o->y + row * o->C * K * o->size;
    for (size_t j = 0; j < K; j++) {
        const size_t at = t * p->stride + j, i = at - K / 2;
        const bool inside = at >= K / 2 && i < count;
        const char *x = o->x + ((size_t)p->x_start[b] + (inside ? i : 0)) * o->C * o->size;
        for (size_t c = 0; c < o->C; c++) {
            if (inside)
                memcpy(y + (c * K + j) * o->size, x + c * o->size, o->size);
            else
                memset(y + (c * K + j) * o->size, 0, o->size);
        }
    }
}

static void unfold_forward(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct unfold *o = argument;
    const struct qkv_unfold_options *p = &o->options;
    size_t b = unfold_sequence(p->y_start, p->B, begin);
    for (size_t row = begin; row < end; row++) {
        while (row >= (size_t)p->y_start[b + 1]) b++;
        unfold_row(o, b, row);
    }
}

static void unfold_back_row(const struct unfold *o, size_t b, size_t row) {
    const struct qkv_unfold_options *p = &o->options;
    const size_t K = p->kernel, i = row - (size_t)p->x_start[b], windows = (size_t)(p->y_start[b + 1] - p->y_start[b]);
    float *dx = o->dx + row * o->C;
    if (!o->accumulate) memset(dx, 0, o->C * sizeof *dx);
    if (i >= (size_t)p->count[b]) return;
    for (size_t j = 0; j < K && j <= i + K / 2; j++) {
        const size_t at = i + K / 2 - j, t = at / p->stride;
        if (at % p->stride || t >= windows) continue;
        const float *dy = o->dy + ((size_t)p->y_start[b] + t) * o->C * K + j;
        for (size_t c = 0; c < o->C; c++) dx[c] += dy[c * K];
    }
}

static void unfold_backward(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct unfold *o = argument;
    const struct qkv_unfold_options *p = &o->options;
    size_t b = unfold_sequence(p->x_start, p->B, begin);
    for (size_t row = begin; row < end; row++) {
        while (row >= (size_t)p->x_start[b + 1]) b++;
        unfold_back_row(o, b, row);
    }
}

struct unfold_check {
    struct qkv_context *ctx;
    const struct qkv_unfold_options *options;
    size_t M; /* rows of x */
};

static enum qkv_status unfold_check_sequences(void *argument) {
    const struct unfold_check *check = argument;
    const struct qkv_unfold_options *p = check->options;
    for (size_t b = 0; b < p->B; b++) {
        if (p->count[b] >= 0 && p->count[b] <= p->x_start[b + 1] - p->x_start[b] && p->y_start[b] <= p->y_start[b + 1])
            continue;
        return qkv_fail(check->ctx, QKV_SHAPE, "unfold: sequence %zu has %d positions, but its rows are %d to %d", b,
                        p->count[b], p->x_start[b], p->x_start[b + 1]);
    }
    if ((size_t)p->x_start[p->B] == check->M && (size_t)p->y_start[p->B] == p->rows) return QKV_OK;
    return qkv_fail(check->ctx, QKV_SHAPE, "unfold: x has %zu rows but the sequences end at %d", check->M,
                    p->x_start[p->B]);
}

enum qkv_status qkv_check_unfold(struct qkv_tape *tape, struct qkv_node *node) {
    const struct unfold *o = node->saved;
    struct unfold_check check = {tape->ctx, &o->options, node->inputs[0]->rows};
    return qkv_compute(tape->ctx, unfold_check_sequences, &check);
}

enum qkv_status qkv_forward_unfold(struct qkv_tape *tape, struct qkv_node *node) {
    struct unfold o = *(const struct unfold *)node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    o.C = x->columns, o.size = qkv_type_size(x->dtype), o.x = x->data, o.y = node->output->data;
    qkv_parallel_range(tape->ctx, node->output->rows, ROWS_A_PIECE, unfold_forward, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_unfold(struct qkv_tape *tape, struct qkv_node *node) {
    struct unfold o = *(const struct unfold *)node->saved;
    struct qkv_tensor *x = node->inputs[0];
    enum qkv_status status = QKV_OK;
    o.C = x->columns;
    o.dy = qkv_gradient_in(node);
    o.dx = qkv_gradient_out(tape, x, &o.accumulate, &status);
    if (o.dx) qkv_parallel_range(tape->ctx, x->rows, ROWS_A_PIECE, unfold_backward, &o);
    return status;
}

struct qkv_cost qkv_cost_unfold(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    return (struct qkv_cost){.bytes = backward ? qkv_gradient_bytes(x) + qkv_gradient_bytes(y)
                                               : qkv_tensor_bytes(x) + qkv_tensor_bytes(y)};
}

struct qkv_tensor *qkv_op_unfold(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_unfold_options *options,
                                 const struct qkv_row_order *order) {
    struct unfold *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct unfold){.options = *options};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_unfold, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    const size_t columns = x->columns * options->kernel;
    node.output = x->dtype == QKV_F32 ? qkv_tape_tensor(tape, options->rows, columns)
                                      : qkv_tape_for_products(tape, options->rows, columns);
    if (!node.output) return NULL;
    node.output->learning.order = order;
    return qkv_tape_run(tape, &node);
}
