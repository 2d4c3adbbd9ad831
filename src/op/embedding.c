/* embed: tokens to vectors, y[n] = scale·token[ids[n]] + position[positions[n]].
 *
 * token (V, C), position (T, C) or none, y (N, C). Backward: dtoken[ids[n]] += scale·dy[n], dposition[positions[n]] += dy[n].
 * Rows that meet in one id are added in the order of n, for a block of columns at a time, so any thread count gives the
 * same bits. Where the rows have an order of several groups, those of each id are added as its tree says. */
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
    /* of several groups */
    const struct qkv_order *order;
    size_t begins[QKV_GROUPS_MAX + 1];
    struct meeting *meetings; /* of tokens, and of positions */
};

/* Which rows meet in each row of a table: those of row r are rows[ends[r − 1]] to rows[ends[r]], in order. */
struct meeting {
    const int32_t *places; /* of each row, in the table */
    float *gradient;       /* NULL: not wanted */
    float scale;
    size_t table_rows;
    int32_t *ends, *rows;
};

/* Sorts the rows by where they go, by counting. */
static void meeting_sort(void *argument, size_t item, int thread) {
    (void)thread;
    const struct embed *e = argument;
    struct meeting *m = &e->meetings[item];
    if (!m->gradient) {
        return;
    }
    memset(m->ends, 0, m->table_rows * sizeof *m->ends);
    for (size_t n = 0; n < e->N; n++) m->ends[m->places[n]]++;
    int32_t before = 0;
    for (size_t r = 0; r < m->table_rows; r++) {
        const int32_t count = m->ends[r];
        m->ends[r] = before;
        before += count;
    }
    for (size_t n = 0; n < e->N; n++) m->rows[m->ends[m->places[n]]++] = (int32_t)n;
}

/* The sums of one row of a table on their way through the tree of groups. */
struct climb {
    const struct embed *e;
    const struct meeting *meeting;
    const int32_t *next, *end; /* rows still to come */
    size_t begin, columns;
    float levels[QKV_ORDER_LEVELS][COLUMNS_A_PIECE];
};

/* The sum of the groups [group, group + 2^level) to `sum`; false where none of them has a row. */
static bool climb_sum(struct climb *c, size_t group, size_t level, float *sum) {
    const struct embed *e = c->e;
    const size_t end = group + ((size_t)1 << level), last = end < e->order->groups ? end : e->order->groups;
    if (c->next == c->end || group >= last || (size_t)*c->next >= e->begins[last]) {
        return false;
    }
    if (level == 0) {
        memset(sum, 0, c->columns * sizeof *sum);
        for (; c->next < c->end && (size_t)*c->next < e->begins[last]; c->next++) {
            const float *dy = e->dy + (size_t)*c->next * e->C + c->begin;
            e->kernels->scale(sum, true, dy, c->meeting->scale, c->columns);
        }
        return true;
    }
    float *right = c->levels[level];
    const size_t middle = group + ((size_t)1 << (level - 1));
    const bool first = climb_sum(c, group, level - 1, sum),
               second = climb_sum(c, middle, level - 1, first ? right : sum);
    if (first && second) {
        e->kernels->add(sum, sum, right, c->columns);
    }
    return first || second;
}

/* Columns of both tables. */
static void climb_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct embed *e = argument;
    size_t top = 0;
    while (((size_t)1 << top) < e->order->groups) top++;
    for (size_t i = 0; i < 2; i++) {
        const struct meeting *m = &e->meetings[i];
        for (size_t r = 0; m->gradient && r < m->table_rows; r++) {
            const int32_t *from = m->rows + (r ? m->ends[r - 1] : 0), *to = m->rows + m->ends[r];
            for (size_t at = begin; from < to && at < end; at += COLUMNS_A_PIECE) {
                const size_t n = end - at < COLUMNS_A_PIECE ? end - at : COLUMNS_A_PIECE;
                struct climb c = {.e = e, .meeting = m, .next = from, .end = to, .begin = at, .columns = n};
                float *gradient = m->gradient + r * e->C + at;
                climb_sum(&c, 0, top, c.levels[0]);
                e->kernels->add(gradient, gradient, c.levels[0], n);
            }
        }
    }
}

/* Several groups: rows are sorted by where they go first. */
static enum qkv_status backward_ordered(struct qkv_tape *tape, struct embed *e) {
    struct meeting meetings[2] = {{.places = e->ids, .gradient = e->dtoken, .scale = e->scale},
                                  {.places = e->positions, .gradient = e->dposition, .scale = 1}};
    const struct qkv_tensor *tables[2] = {e->token, e->position};
    const size_t mark = qkv_arena_mark(tape->arena);
    for (size_t i = 0; i < 2; i++) {
        meetings[i].table_rows = tables[i] ? tables[i]->rows : 0;
        meetings[i].ends = qkv_tape_take(tape, meetings[i].table_rows, sizeof(int32_t));
        meetings[i].rows = qkv_tape_take(tape, e->N, sizeof(int32_t));
    }
    e->meetings = meetings;
    if (tape->status == QKV_OK) {
        if (!tape->ctx->dry) {
            qkv_order_begins(e->order, e->begins);
        }
        qkv_parallel(tape->ctx, 2, meeting_sort, e);
        qkv_parallel_range(tape->ctx, e->C, COLUMNS_A_PIECE, climb_columns, e);
    }
    qkv_arena_release(tape->arena, mark);
    return tape->status;
}

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
    if (status == QKV_OK && node->output->order && node->output->order->sums.groups > 1) {
        e.order = &node->output->order->sums;
        e.token = node->inputs[0];
        e.position = node->inputs[1];
        return backward_ordered(tape, &e);
    }
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
    if (node.output) {
        node.output->order = tape->order;
    }
    return qkv_tape_run(tape, &node);
}
