/* embed: tokens to vectors, y[n] = scale·token[ids[n]] + position[positions[n]].
 *
 * token (V, C), position (T, C) or none, y (N, C). Backward: dtoken[ids[n]] += scale·dy[n], dposition[positions[n]] += dy[n].
 * Rows that meet in one id are added in the order of n, for a block of columns at a time, so any thread count gives the
 * same bits. */
#include "op/op.h"

#include <string.h>

enum { ROWS_A_PIECE = 16, COLUMNS_A_PIECE = 64 };

struct embed {
    float scale;
    const int32_t *ids, *positions;
    size_t N;
    /* while it runs */
    const struct qkv_kernels *kernels;
    const struct qkv_tensor *token, *position;
    size_t C;
    float *y;        /* forward */
    const float *dy; /* backward */
    float *dtoken, *dposition;
};

/* y (+)= scale·row of a table. */
static void embed_row(const struct embed *e, float *y, bool accumulate, const struct qkv_tensor *table, size_t row,
                      float scale) {
    if (!table->stored.count) {
        e->kernels->scale(y, accumulate, (const float *)table->data + row * e->C, scale, e->C);
        return;
    }
    float numbers[COLUMNS_A_PIECE];
    for (size_t c = 0; c < e->C; c += COLUMNS_A_PIECE) {
        const size_t n = e->C - c < COLUMNS_A_PIECE ? e->C - c : COLUMNS_A_PIECE;
        qkv_stored_floats(e->kernels, &table->stored, row, c, n, numbers);
        e->kernels->scale(y + c, accumulate, numbers, scale, n);
    }
}

static void forward_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct embed *e = argument;
    for (size_t n = begin; n < end; n++) {
        float *y = e->y + n * e->C;
        embed_row(e, y, false, e->token, (size_t)e->ids[n], e->scale);
        if (e->position) {
            embed_row(e, y, true, e->position, (size_t)e->positions[n], 1);
        }
    }
}

static void backward_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct embed *e = argument;
    for (size_t n = 0; n < e->N; n++) {
        const float *dy = e->dy + n * e->C + begin;
        if (e->dtoken) {
            e->kernels->scale(e->dtoken + (size_t)e->ids[n] * e->C + begin, true, dy, e->scale, end - begin);
        }
        if (e->dposition) {
            e->kernels->scale(e->dposition + (size_t)e->positions[n] * e->C + begin, true, dy, 1, end - begin);
        }
    }
}

static struct embed embed_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct embed e = *(const struct embed *)node->saved;
    e.kernels = tape->ctx->kernels;
    e.C = node->output->columns;
    return e;
}

enum qkv_status qkv_forward_embed(struct qkv_tape *tape, struct qkv_node *node) {
    struct embed e = embed_of(tape, node);
    e.token = node->inputs[0];
    e.position = node->inputs[1];
    e.y = node->output->data;
    qkv_parallel_range(tape->ctx, e.N, ROWS_A_PIECE, forward_rows, &e);
    return QKV_OK;
}

enum qkv_status qkv_backward_embed(struct qkv_tape *tape, struct qkv_node *node) {
    struct embed e = embed_of(tape, node);
    bool accumulate;
    enum qkv_status status = QKV_OK;
    e.dy = qkv_gradient_in(node);
    e.dtoken = qkv_gradient_out(tape, node->inputs[0], &accumulate, &status);
    e.dposition = qkv_gradient_out(tape, node->inputs[1], &accumulate, &status);
    if (status == QKV_OK) {
        qkv_parallel_range(tape->ctx, e.C, COLUMNS_A_PIECE, backward_columns, &e);
    }
    return status;
}

/* Of the tables only the rows that are looked up. */
struct qkv_cost qkv_cost_embed(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *position = node->inputs[1];
    if (backward) {
        const int tables = node->inputs[0]->requires_grad + (position && position->requires_grad);
        return (struct qkv_cost){.bytes = qkv_gradient_bytes(node->output) * (2 * tables + 1)};
    }
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(node->output) * (position ? 3 : 2)};
}

static enum qkv_status check_ids(struct qkv_tape *tape, const struct qkv_tensor *token, const int32_t *ids, size_t N) {
    if (tape->ctx->dry) {
        return QKV_OK;
    }
    for (size_t n = 0; n < N; n++) {
        if (ids[n] < 0 || (size_t)ids[n] >= token->rows) {
            return qkv_fail(tape->ctx, QKV_ARGUMENT,
                            "token id %d at place %zu is out of range: %s has %zu tokens, ids are 0 to %zu", ids[n], n,
                            token->name ? token->name : "the embedding", token->rows, token->rows - 1);
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_check_embed(struct qkv_tape *tape, struct qkv_node *node) {
    const struct embed *e = node->saved;
    const struct qkv_tensor *token = node->inputs[0], *position = node->inputs[1];
    if (position && position->columns != token->columns) {
        return qkv_fail(tape->ctx, QKV_SHAPE, "embed: tokens are (%zu,%zu) but positions are (%zu,%zu)", token->rows,
                        token->columns, position->rows, position->columns);
    }
    return check_ids(tape, token, e->ids, e->N);
}

struct qkv_tensor *qkv_op_embed(struct qkv_tape *tape, struct qkv_tensor *token, float scale,
                                struct qkv_tensor *position, const int32_t *ids, const int32_t *positions, size_t N) {
    struct embed *e = tape->status == QKV_OK ? qkv_tape_take_graph(tape, sizeof *e) : NULL;
    if (!e) {
        return NULL;
    }
    *e = (struct embed){.scale = scale, .ids = ids, .positions = positions, .N = N};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_embed, e);
    node.inputs[0] = token;
    node.inputs[1] = position;
    if (!qkv_tape_check(tape, &node)) {
        return NULL;
    }
    node.output = qkv_tape_tensor(tape, N, token->columns);
    return qkv_tape_run(tape, &node);
}
