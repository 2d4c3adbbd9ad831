/* distance_bias: the table of biases by distance, y[h][d] = factors[d]·weight[rows[d]][h]. The weight has a row per
 * bucket of distances (Raffel et al. 2020), per distance, or one row of slopes (Press et al. 2022).
 *
 * weight (R, H), y (H, count). All layers of a stack add to y's gradient, which is stored per sequence; backward
 * computes the weight's gradient of each sequence, and adds these in the order of the sequences. */
#include "op/op.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

struct distance_bias {
    struct qkv_distance_map map;
    size_t B;
    const struct qkv_row_order *order;
};

/* The work of one run. */
struct distance_work {
    const struct distance_bias *o;
    const struct qkv_kernels *kernels;
    const struct qkv_tensor *weight;
    const float *numbers; /* forward: the weight's, (R,H) */
    float *copy;          /* forward: the same where the weight is in a mapped file */
    size_t H, count;
    float *y;        /* forward */
    const float *dy; /* backward: (B,H,count) */
    float *parts;    /* backward: the weight's gradient of each sequence, (B,R,H) */
};

static float distance_factor(const struct distance_work *w, size_t d) {
    return w->o->map.factors ? w->o->map.factors[d] : 1;
}

static void distance_convert_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct distance_work *w = argument;
    for (size_t r = begin; r < end; r++)
        qkv_stored_floats(w->kernels, &w->weight->operand.stored, r, 0, w->H, w->copy + r * w->H);
}

/* Neighbouring distances often share a row, so the row is looked up once per run of them. */
static void distance_forward_head(void *argument, size_t h, int thread) {
    (void)thread;
    const struct distance_work *w = argument;
    const int32_t *rows = w->o->map.rows;
    float x = 0;
    for (size_t d = 0; d < w->count; d++) {
        if (!d || rows[d] != rows[d - 1]) x = w->numbers[(size_t)rows[d] * w->H + h];
        w->y[h * w->count + d] = distance_factor(w, d) * x;
    }
}

static void distance_backward_sequence(void *argument, size_t b, int thread) {
    (void)thread;
    const struct distance_work *w = argument;
    const size_t floats = w->weight->rows * w->H;
    float *out = w->parts + b * floats;
    memset(out, 0, floats * sizeof *out);
    for (size_t h = 0; h < w->H; h++) {
        const float *dy = w->dy + (b * w->H + h) * w->count;
        for (size_t d = 0; d < w->count; d++)
            out[(size_t)w->o->map.rows[d] * w->H + h] += distance_factor(w, d) * dy[d];
    }
}

static struct distance_work distance_work(const struct qkv_tape *tape, const struct qkv_node *node) {
    const struct qkv_tensor *weight = node->inputs[0];
    return (struct distance_work){.o = node->saved,
                                  .kernels = tape->ctx->kernels,
                                  .weight = weight,
                                  .H = weight->columns,
                                  .count = node->output->columns};
}

struct distance_check {
    struct qkv_context *ctx;
    const struct distance_bias *o;
};

/* A plan may have no map yet. */
static enum qkv_status distance_check_map(void *argument) {
    const struct distance_check *check = argument;
    if (check->o->map.rows) return QKV_OK;
    return qkv_fail(check->ctx, QKV_ARGUMENT, "distance_bias: no map from distances to rows of the weight is given");
}

enum qkv_status qkv_check_distance_bias(struct qkv_tape *tape, struct qkv_node *node) {
    struct distance_check check = {tape->ctx, node->saved};
    return qkv_compute(tape->ctx, distance_check_map, &check);
}

enum qkv_status qkv_forward_distance_bias(struct qkv_tape *tape, struct qkv_node *node) {
    struct distance_work w = distance_work(tape, node);
    const size_t mark = qkv_arena_mark(tape->arena);
    const bool stored = w.weight->operand.stored.count > 0;
    w.y = node->output->data;
    w.copy = stored ? qkv_tape_take(tape, w.weight->rows * w.H, sizeof(float)) : NULL;
    w.numbers = stored ? w.copy : w.weight->data;
    if (stored && !w.copy) return QKV_MEMORY;
    if (stored) qkv_parallel_range(tape->ctx, w.weight->rows, ROWS_A_PIECE, distance_convert_rows, &w);
    qkv_parallel(tape->ctx, w.H, distance_forward_head, &w);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

enum qkv_status qkv_backward_distance_bias(struct qkv_tape *tape, struct qkv_node *node) {
    struct distance_work w = distance_work(tape, node);
    const size_t floats = w.weight->rows * w.H, mark = qkv_arena_mark(tape->arena);
    enum qkv_status status = QKV_OK;
    bool always;
    float *dweight = qkv_gradient_out(tape, node->inputs[0], &always, &status);
    if (!dweight) return status;
    w.dy = qkv_gradient_in(node);
    w.parts = qkv_tape_take(tape, w.o->B * floats, sizeof(float));
    if (!w.parts) return QKV_MEMORY;
    qkv_parallel(tape->ctx, w.o->B, distance_backward_sequence, &w);
    qkv_order_sequences(tape->ctx, w.o->order, dweight, w.parts, w.o->B, floats);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

struct qkv_cost qkv_cost_distance_bias(const struct qkv_node *node, bool backward) {
    const double B = backward ? (double)node->output->learning.apart : 1;
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(node->inputs[0]) + B * qkv_tensor_bytes(node->output)};
}

struct qkv_tensor *qkv_op_distance_bias(struct qkv_tape *tape, struct qkv_tensor *weight, struct qkv_distance_map map,
                                        size_t count, size_t B) {
    struct distance_bias *o = !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct distance_bias){.map = map, .B = B, .order = tape->order};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_distance_bias, o);
    node.inputs[0] = weight;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, weight->columns, count);
    if (node.output) node.output->learning.apart = B;
    return qkv_tape_run(tape, &node);
}
