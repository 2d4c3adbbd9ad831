/* add: y = x + s·f, the residual connection (He et al. 2016); dropout: y = x·m/(1 − p) (Srivastava et al. 2014).
 *
 * add's gradient goes to both inputs, to f times s. dropout's mask is a function of its key and the element's number
 * (kernel.h); forward saves one bit per element for backward, as reading it is much less work than making the mask
 * again. Both operators write over an input that no other node reads. */
#include "op/linear.h"

enum { ELEMENTS_A_PIECE = 16384 };

struct add {
    struct qkv_context *ctx;
    float scale; /* of f; the only field that a node saves */
    float *y;
    const float *x;
};

static void add_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct add *o = argument;
    float *y = o->y + begin;
    if (o->scale != 1) o->ctx->kernels->scale(y, false, y, o->scale, end - begin);
    o->ctx->kernels->add(y, o->x + begin, y, end - begin);
}

static float add_scale(const struct qkv_node *node) {
    return *(const float *)node->saved;
}

enum qkv_status qkv_check_add(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0], *f = node->inputs[1];
    if (x->rows == f->rows && x->columns == f->columns) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "add: (%zu,%zu) and (%zu,%zu)", x->rows, x->columns, f->rows, f->columns);
}

enum qkv_status qkv_forward_add(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *y = node->output;
    struct add o = {.ctx = tape->ctx, .scale = add_scale(node), .y = y->data, .x = node->inputs[0]->data};
    qkv_parallel_range(tape->ctx, y->rows * y->columns, ELEMENTS_A_PIECE, add_elements, &o);
    return QKV_OK;
}

struct scaled {
    const struct qkv_kernels *kernels;
    float scale;
    bool accumulate;
    float *y;
    const float *x;
};

static void scale_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct scaled *o = argument;
    o->kernels->scale(o->y + begin, o->accumulate, o->x + begin, o->scale, end - begin);
}

void qkv_scale_floats(struct qkv_context *ctx, float *y, bool accumulate, const float *x, float scale, size_t n) {
    struct scaled o = {.kernels = ctx->kernels, .scale = scale, .accumulate = accumulate, .y = y, .x = x};
    qkv_parallel_range(ctx, n, ELEMENTS_A_PIECE, scale_elements, &o);
}

enum qkv_status qkv_backward_add(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *f = node->inputs[1];
    enum qkv_status status = qkv_gradient_pass(tape, node, node->inputs[0]);
    bool accumulate;
    if (status || add_scale(node) == 1) return !status ? qkv_gradient_pass(tape, node, f) : status;
    float *df = qkv_gradient_out(tape, f, &accumulate, &status);
    if (df) {
        qkv_scale_floats(tape->ctx, df, accumulate, qkv_gradient_in(node), add_scale(node), f->rows * f->columns);
    }
    return status;
}

/* Backward passes the gradient on without reading it, unless there is a scale. */
struct qkv_cost qkv_cost_add(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *f = node->inputs[1];
    if (backward)
        return (struct qkv_cost){.bytes = add_scale(node) == 1 ? 0 : qkv_gradient_bytes(x) + qkv_gradient_bytes(f)};
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(x) + 2 * qkv_tensor_bytes(node->output)};
}

struct qkv_tensor *qkv_op_add(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *f, float scale) {
    if (!x || !f || tape->status) return NULL;
    float *saved = qkv_tape_take_graph(tape, sizeof *saved);
    if (!saved) return NULL;
    *saved = scale;
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_add, saved);
    node.inputs[0] = x;
    node.inputs[1] = f;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_view(tape, f->data, f->rows, f->columns);
    return qkv_tape_run(tape, &node);
}

/* Numbers of bf16 that are widened to fp32 at a time: a multiple of 8, so that parts begin at whole bytes of bits. */
enum { PART = 512 };

struct dropout {
    const struct qkv_kernels *kernels;
    float rate;
    uint32_t key[2];
    const int32_t *place; /* the place b·T + t of each row, which numbers its elements; NULL: the row's own number */
    uint8_t *kept;        /* (N, ceil(columns / 8)): which elements are not dropped; NULL: backward will not run */
    /* set while it runs */
    void *y;
    const void *x;
    enum qkv_dtype dtype; /* of x and y: fp32; in forward also bf16 */
    bool accumulate;      /* backward */
    bool backward;
    const struct qkv_row_order *order; /* NULL: none */
    size_t columns;
};

static size_t dropout_bytes(size_t columns) {
    return (columns + 7) / 8;
}

/* n elements from `at` on, whose numbers in the mask begin at `first`. */
static void drop_run(const struct dropout *o, size_t at, uint8_t *kept, size_t n, uint64_t first) {
    if (o->backward) {
        o->kernels->dropout_backward((float *)o->y + at, o->accumulate, (const float *)o->x + at, kept, o->rate, n);
        return;
    }
    if (o->dtype == QKV_F32) {
        o->kernels->dropout((float *)o->y + at, kept, (const float *)o->x + at, o->rate, o->key, first, n);
        return;
    }
    float part[PART];
    for (size_t done = 0, count; done < n; done += count) {
        count = n - done < PART ? n - done : PART;
        o->kernels->widen(part, (const uint16_t *)o->x + at + done, count);
        o->kernels->dropout(part, kept ? kept + done / 8 : NULL, part, o->rate, o->key, first + done, count);
        o->kernels->narrow((uint16_t *)o->y + at + done, part, count);
    }
}

/* Rows whose elements have consecutive numbers. The bits of each row begin at a new byte; rows without padding bits are
 * one run. */
static void drop_rows(const struct dropout *o, size_t begin, size_t end, uint64_t first) {
    const size_t C = o->columns, step = C % 8 ? 1 : end - begin;
    for (size_t n = begin; n < end; n += step)
        drop_run(o, n * C, o->kept ? o->kept + n * dropout_bytes(C) : NULL, step * C, first + (n - begin) * C);
}

/* The last sequence that begins at or before row n. */
static size_t drop_sequence(const struct dropout *o, size_t n) {
    const struct qkv_order *order = &o->order->sums;
    size_t s = 0, last = order->sequences;
    while (last - s > 1) {
        const size_t middle = s + (last - s) / 2;
        if (order->start[middle] <= n) {
            s = middle;
        } else {
            last = middle;
        }
    }
    return s;
}

/* The number in masks of row n, of sequence s. */
static uint64_t drop_number(const struct dropout *o, size_t s, size_t n) {
    return ((o->order->first_row + s) << QKV_POSITION_BITS) + (n - o->order->sums.start[s]);
}

/* Rows whose elements are numbered by their place in the larger batch: (row·2^20 + position)·columns + column. */
static void drop_ordered(const struct dropout *o, size_t begin, size_t end) {
    const struct qkv_order *order = &o->order->sums;
    size_t s = drop_sequence(o, begin);
    for (size_t n = begin, next; n < end; n = next, s++) {
        next = order->start[s + 1] < end ? order->start[s + 1] : end;
        drop_rows(o, n, next, drop_number(o, s, n) * o->columns);
    }
}

static void drop_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct dropout *o = argument;
    const size_t C = o->columns;
    if (o->backward || !(o->order || o->place)) {
        drop_rows(o, begin, end, (uint64_t)begin * C);
    } else if (o->order) {
        drop_ordered(o, begin, end);
    } else {
        for (size_t n = begin; n < end; n++) drop_rows(o, n, n + 1, (uint64_t)o->place[n] * C);
    }
}

static void dropout_run(struct qkv_context *ctx, const struct qkv_node *node, struct dropout *o) {
    o->kernels = ctx->kernels;
    o->order = node->inputs[0]->learning.order;
    o->columns = node->output->columns;
    qkv_parallel_range(ctx, node->output->rows, ELEMENTS_A_PIECE / qkv_max(o->columns, 1) + 1, drop_piece, o);
}

enum qkv_status qkv_check_dropout(struct qkv_tape *tape, struct qkv_node *node) {
    const struct dropout *o = node->saved;
    if (o->rate > 0 && o->rate < 1) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_ARGUMENT, "dropout: the rate is %g; it must be less than 1", (double)o->rate);
}

enum qkv_status qkv_forward_dropout(struct qkv_tape *tape, struct qkv_node *node) {
    struct dropout *saved = node->saved;
    const struct qkv_tensor *y = node->output;
    if (qkv_tape_records(tape, node)) {
        saved->kept = qkv_tape_take(tape, y->rows, dropout_bytes(y->columns));
        if (!saved->kept) return QKV_MEMORY;
    }
    struct dropout o = *saved;
    o.y = y->data;
    o.x = node->inputs[0]->data;
    o.dtype = node->inputs[0]->dtype;
    dropout_run(tape->ctx, node, &o);
    return QKV_OK;
}

enum qkv_status qkv_backward_dropout(struct qkv_tape *tape, struct qkv_node *node) {
    struct dropout o = *(const struct dropout *)node->saved;
    enum qkv_status status = QKV_OK;
    o.backward = true;
    o.x = qkv_gradient_in(node);
    o.y = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.y) {
        dropout_run(tape->ctx, node, &o);
    }
    return status;
}

struct qkv_cost qkv_cost_dropout(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    const struct dropout *o = node->saved;
    const double bits = o->kept ? (double)(y->rows * dropout_bytes(y->columns)) : 0;
    return (struct qkv_cost){.bytes = bits + (backward ? qkv_gradient_bytes(x) + qkv_gradient_bytes(y)
                                                       : qkv_tensor_bytes(x) + qkv_tensor_bytes(y))};
}

struct gathered {
    struct dropout dropout;
    const int32_t *row;
};

static void drop_gathered(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct gathered *g = argument;
    const struct dropout *o = &g->dropout;
    for (size_t i = begin; i < end; i++) {
        const size_t n = (size_t)g->row[i];
        const uint64_t number = o->order   ? drop_number(o, drop_sequence(o, n), n)
                                : o->place ? (uint64_t)o->place[n]
                                           : n;
        drop_run(o, i * o->columns, NULL, o->columns, number * o->columns);
    }
}

void qkv_dropout_gathered(struct qkv_context *ctx, const struct qkv_dropout_rows *how, void *y,
                          struct qkv_linear_rows x, size_t rows, size_t columns) {
    struct gathered g = {.dropout = {.rate = how->rate,
                                     .key = {how->key[0], how->key[1]},
                                     .place = how->place,
                                     .kernels = ctx->kernels,
                                     .y = y,
                                     .x = x.data,
                                     .dtype = x.dtype,
                                     .order = how->order,
                                     .columns = columns},
                         .row = how->row};
    qkv_parallel_range(ctx, rows, ELEMENTS_A_PIECE / qkv_max(columns, 1) + 1, drop_gathered, &g);
}

void qkv_tape_dropout_key(struct qkv_tape *tape, uint32_t key[2]) {
    uint32_t counter[2] = {tape->dropout_count++, 0};
    qkv_threefry(tape->dropout_key, counter, key);
}

/* y: where the result goes, x itself or another tensor of its shape and type. */
static struct qkv_tensor *dropout_to(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *y, float rate) {
    struct dropout *o = y ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    const struct qkv_rows *batch = tape->batch;
    *o = (struct dropout){.rate = rate, .place = batch && batch->ragged && batch->N == x->rows ? batch->place : NULL};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_dropout, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    qkv_tape_dropout_key(tape, o->key);
    node.output = y;
    return qkv_tape_run(tape, &node);
}

static bool dropout_drops(const struct qkv_tape *tape, const struct qkv_tensor *x, float rate) {
    return x && !tape->status && tape->training && rate > 0;
}

struct qkv_tensor *qkv_op_dropout(struct qkv_tape *tape, struct qkv_tensor *x, float rate) {
    return dropout_drops(tape, x, rate) ? dropout_to(tape, x, qkv_tape_same(tape, x), rate) : x;
}

struct qkv_tensor *qkv_op_dropout_copy(struct qkv_tape *tape, struct qkv_tensor *x, float rate) {
    return dropout_drops(tape, x, rate) ? dropout_to(tape, x, qkv_tape_like(tape, x), rate) : x;
}
