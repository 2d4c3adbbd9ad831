/* embed: looks up rows of tables, y[n] = scale·token[ids[n]] + position[first + positions[n]] + type[types[n]].
 *
 * Tables are (rows, C), each may be absent; y (N, C). Backward: dtoken[ids[n]] += scale·dy[n], dposition[…] += dy[n],
 * dtype[…] += dy[n]. Rows n of one table row are added in the order of n, for a block of columns at a time, so any
 * thread count gives the same bits. Where rows have an order of several groups, the rows n of one table row are added
 * as the tree of groups says. */
#include "op/steps.h"

#include <string.h>

enum { ROWS_A_PIECE = 16, COLUMNS_A_PIECE = 64 };

/* A table, and the rows n that look up each of its rows: for row r, rows[ends[r − 1]] to rows[ends[r]], in order. */
struct embed_table {
    const struct qkv_tensor *table; /* NULL: there is none */
    const int32_t *places;          /* the table row of each n, counted from `first`; NULL: `first` for all */
    size_t first;
    float scale;
    float *gradient; /* backward; NULL: not wanted */
    /* set for several groups */
    int32_t *ends, *rows;
};

struct embed {
    size_t N;
    struct embed_table tables[QKV_EMBED_TABLES];
    /* set while it runs */
    const struct qkv_kernels *kernels;
    size_t C;
    float *y;        /* forward */
    const float *dy; /* backward */
    /* set for several groups */
    const struct qkv_order *order;
    size_t begins[QKV_GROUPS_MAX + 1];
};

static size_t embed_place(const struct embed_table *t, size_t n) {
    return t->first + (t->places ? (size_t)t->places[n] : 0);
}

/* Sorts the rows n by the table row that they look up, by counting. */
static void table_sort(void *argument, size_t item, int thread) {
    (void)thread;
    struct embed *e = argument;
    struct embed_table *m = &e->tables[item];
    if (!m->gradient) return;
    memset(m->ends, 0, m->table->rows * sizeof *m->ends);
    for (size_t n = 0; n < e->N; n++) m->ends[embed_place(m, n)]++;
    int32_t before = 0;
    for (size_t r = 0; r < m->table->rows; r++) {
        const int32_t count = m->ends[r];
        m->ends[r] = before;
        before += count;
    }
    for (size_t n = 0; n < e->N; n++) m->rows[m->ends[embed_place(m, n)]++] = (int32_t)n;
}

/* The gradient of one row of a table while its rows n are added along the tree of groups. */
struct climb {
    const struct embed *e;
    const struct embed_table *table;
    const int32_t *next, *end; /* rows n that are not added yet */
    size_t begin, columns;
    float levels[QKV_ORDER_LEVELS][COLUMNS_A_PIECE];
};

/* Writes the sum of the groups [group, group + 2^level) to `sum`. Returns false where none of them has a row. */
static bool climb_sum(struct climb *c, size_t group, size_t level, float *sum) {
    const struct embed *e = c->e;
    const size_t end = group + ((size_t)1 << level), last = end < e->order->groups ? end : e->order->groups;
    if (c->next == c->end || group >= last || (size_t)*c->next >= e->begins[last]) return false;
    if (level == 0) {
        memset(sum, 0, c->columns * sizeof *sum);
        for (; c->next < c->end && (size_t)*c->next < e->begins[last]; c->next++) {
            const float *dy = e->dy + (size_t)*c->next * e->C + c->begin;
            e->kernels->scale(sum, true, dy, c->table->scale, c->columns);
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

/* Adds the gradients of some columns of all tables. */
static void climb_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct embed *e = argument;
    size_t top = 0;
    while (((size_t)1 << top) < e->order->groups) top++;
    for (size_t i = 0; i < QKV_EMBED_TABLES; i++) {
        const struct embed_table *m = &e->tables[i];
        for (size_t r = 0; m->gradient && r < m->table->rows; r++) {
            const int32_t *from = m->rows + (r ? m->ends[r - 1] : 0), *to = m->rows + m->ends[r];
            for (size_t at = begin; from < to && at < end; at += COLUMNS_A_PIECE) {
                const size_t n = end - at < COLUMNS_A_PIECE ? end - at : COLUMNS_A_PIECE;
                struct climb c = {.e = e, .table = m, .next = from, .end = to, .begin = at, .columns = n};
                float *gradient = m->gradient + r * e->C + at;
                climb_sum(&c, 0, top, c.levels[0]);
                e->kernels->add(gradient, gradient, c.levels[0], n);
            }
        }
    }
}

static enum qkv_status embed_begins(void *argument) {
    struct embed *e = argument;
    qkv_order_begins(e->order, e->begins);
    return QKV_OK;
}

/* Backward with several groups: rows n are first sorted by the table row that they look up. */
static enum qkv_status backward_ordered(struct qkv_tape *tape, struct embed *e) {
    const size_t mark = qkv_arena_mark(tape->arena);
    for (size_t i = 0; i < QKV_EMBED_TABLES; i++) {
        struct embed_table *m = &e->tables[i];
        if (!m->gradient) continue;
        m->ends = qkv_tape_take(tape, m->table->rows, sizeof(int32_t));
        m->rows = qkv_tape_take(tape, e->N, sizeof(int32_t));
    }
    if (!tape->status && !qkv_tape_failed(tape, qkv_compute(tape->ctx, embed_begins, e))) {
        qkv_parallel(tape->ctx, QKV_EMBED_TABLES, table_sort, e);
        qkv_parallel_range(tape->ctx, e->C, COLUMNS_A_PIECE, climb_columns, e);
    }
    qkv_arena_release(tape->arena, mark);
    return tape->status;
}

/* y (+)= scale·row of a table. */
static void embed_row(const struct embed *e, float *y, bool accumulate, const struct qkv_tensor *table, size_t row,
                      float scale) {
    if (!table->operand.stored.count) {
        e->kernels->scale(y, accumulate, (const float *)table->data + row * e->C, scale, e->C);
        return;
    }
    float numbers[QKV_TYPE_BLOCK_MAX]; /* whole blocks of every type */
    for (size_t c = 0; c < e->C; c += QKV_TYPE_BLOCK_MAX) {
        const size_t n = qkv_min(QKV_TYPE_BLOCK_MAX, e->C - c);
        qkv_stored_floats(e->kernels, &table->operand.stored, row, c, n, numbers);
        e->kernels->scale(y + c, accumulate, numbers, scale, n);
    }
}

static void forward_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct embed *e = argument;
    for (size_t n = begin; n < end; n++) {
        bool accumulate = false;
        for (size_t i = 0; i < QKV_EMBED_TABLES; i++) {
            const struct embed_table *t = &e->tables[i];
            if (!t->table) continue;
            embed_row(e, e->y + n * e->C, accumulate, t->table, embed_place(t, n), t->scale);
            accumulate = true;
        }
    }
}

static void backward_columns(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct embed *e = argument;
    for (size_t n = 0; n < e->N; n++) {
        const float *dy = e->dy + n * e->C + begin;
        for (size_t i = 0; i < QKV_EMBED_TABLES; i++) {
            const struct embed_table *t = &e->tables[i];
            if (!t->gradient) continue;
            e->kernels->scale(t->gradient + embed_place(t, n) * e->C + begin, true, dy, t->scale, end - begin);
        }
    }
}

struct marking {
    const struct embed_table *table;
    size_t N;
    uint8_t *marks;
};

static enum qkv_status mark_rows(void *argument) {
    const struct marking *m = argument;
    for (size_t n = 0; n < m->N; n++) m->marks[embed_place(m->table, n)] = 1;
    return QKV_OK;
}

/* The buffer for the gradient of a table. Where the buffer is this use's own, only the rows that are looked up are
 * marked as written. */
static enum qkv_status table_gradient(struct qkv_tape *tape, struct embed *e, size_t i, struct qkv_tensor *table) {
    struct embed_table *t = &e->tables[i];
    enum qkv_status status = QKV_OK;
    bool accumulate;
    if (table && table->learning.requires_grad && table->learning.gradient) {
        struct marking m = {.table = t, .N = e->N};
        t->gradient = qkv_gradient_rows(table, &m.marks);
        return m.marks ? qkv_compute(tape->ctx, mark_rows, &m) : QKV_OK;
    }
    t->gradient = qkv_gradient_out(tape, table, &accumulate, &status);
    if (!t->gradient || accumulate) return status;
    /* a table that is an activation: rows that no n looks up have gradient 0 */
    return QKV_STEP(tape->ctx, clear, .to = t->gradient, .bytes = table->rows * table->columns * sizeof(float));
}

static struct embed embed_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct embed e = *(const struct embed *)node->saved;
    e.kernels = tape->ctx->kernels;
    e.C = node->output->columns;
    for (size_t i = 0; i < QKV_EMBED_TABLES; i++) e.tables[i].table = node->inputs[i];
    return e;
}

enum qkv_status qkv_forward_embed(struct qkv_tape *tape, struct qkv_node *node) {
    struct embed e = embed_of(tape, node);
    e.y = node->output->data;
    qkv_parallel_range(tape->ctx, e.N, ROWS_A_PIECE, forward_rows, &e);
    return QKV_OK;
}

enum qkv_status qkv_backward_embed(struct qkv_tape *tape, struct qkv_node *node) {
    struct embed e = embed_of(tape, node);
    enum qkv_status status = QKV_OK;
    e.dy = qkv_gradient_in(node);
    for (size_t i = 0; i < QKV_EMBED_TABLES && !status; i++) status = table_gradient(tape, &e, i, node->inputs[i]);
    if (!status && node->output->learning.order && node->output->learning.order->sums.groups > 1) {
        e.order = &node->output->learning.order->sums;
        return backward_ordered(tape, &e);
    }
    if (!status) {
        qkv_parallel_range(tape->ctx, e.C, COLUMNS_A_PIECE, backward_columns, &e);
    }
    return status;
}

/* The bytes count the rows that are looked up, not the whole tables. */
struct qkv_cost qkv_cost_embed(const struct qkv_node *node, bool backward) {
    int tables = 0;
    for (size_t i = 0; i < QKV_EMBED_TABLES; i++)
        tables += node->inputs[i] && (!backward || node->inputs[i]->learning.requires_grad);
    if (backward) return (struct qkv_cost){.bytes = qkv_gradient_bytes(node->output) * (2 * tables + 1)};
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(node->output) * (tables + 1)};
}

/* The numbers of a batch that look up rows of a table. */
struct embed_check {
    struct qkv_context *ctx;
    const struct qkv_tensor *table;
    const int32_t *places;
    size_t N;
};

/* The first place whose number is not one of the table's rows; N: there is none. */
static size_t check_places(const struct embed_check *c) {
    size_t n = 0;
    while (n < c->N && c->places[n] >= 0 && (size_t)c->places[n] < c->table->rows) n++;
    return n;
}

static const char *check_name(const struct embed_check *c) {
    return c->table->operand.name ? c->table->operand.name : "the embedding";
}

static enum qkv_status check_ids(void *argument) {
    const struct embed_check *c = argument;
    const size_t n = check_places(c), rows = c->table->rows;
    if (n == c->N) return QKV_OK;
    return qkv_fail(c->ctx, QKV_ARGUMENT,
                    "token id %d at place %zu is out of range: %s has %zu tokens, ids are 0 to %zu", c->places[n], n,
                    check_name(c), rows, rows - 1);
}

static enum qkv_status check_types(void *argument) {
    const struct embed_check *c = argument;
    const size_t n = check_places(c), rows = c->table->rows;
    if (n == c->N) return QKV_OK;
    return qkv_fail(c->ctx, QKV_ARGUMENT,
                    "token type %d at place %zu is out of range: %s has %zu types, which are 0 to %zu", c->places[n], n,
                    check_name(c), rows, rows - 1);
}

enum qkv_status qkv_check_embed(struct qkv_tape *tape, struct qkv_node *node) {
    const struct embed *e = node->saved;
    const struct qkv_tensor *token = node->inputs[QKV_EMBED_TOKEN], *position = node->inputs[QKV_EMBED_POSITION],
                            *type = node->inputs[QKV_EMBED_TYPE];
    if (token && position && position->columns != token->columns)
        return qkv_fail(tape->ctx, QKV_SHAPE, "embed: tokens are (%zu,%zu) but positions are (%zu,%zu)", token->rows,
                        token->columns, position->rows, position->columns);
    const struct qkv_tensor *other = token ? token : position;
    if (type && other && type->columns != other->columns)
        return qkv_fail(tape->ctx, QKV_SHAPE, "embed: types are (%zu,%zu), but vectors are %zu wide", type->rows,
                        type->columns, other->columns);
    struct embed_check ids = {tape->ctx, token, e->tables[QKV_EMBED_TOKEN].places, e->N};
    struct embed_check types = {tape->ctx, type, e->tables[QKV_EMBED_TYPE].places, e->N};
    enum qkv_status status = token && ids.places ? qkv_compute(tape->ctx, check_ids, &ids) : QKV_OK;
    if (!status && type && types.places) status = qkv_compute(tape->ctx, check_types, &types);
    return status;
}

struct qkv_tensor *qkv_op_embed(struct qkv_tape *tape, const struct qkv_embedding *embedding) {
    struct embed *e = !tape->status ? qkv_tape_take_graph(tape, sizeof *e) : NULL;
    size_t C = 0;
    if (!e) return NULL;
    *e = (struct embed){.N = embedding->N};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_embed, e);
    for (size_t i = 0; i < QKV_EMBED_TABLES; i++) {
        struct embed_table *t = &e->tables[i];
        node.inputs[i] = embedding->tables[i].rows;
        t->places = embedding->tables[i].places;
        t->first = embedding->tables[i].first;
        t->scale = i == QKV_EMBED_TOKEN ? embedding->scale : 1;
        if (node.inputs[i]) C = node.inputs[i]->columns;
    }
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, embedding->N, C);
    if (node.output) {
        node.output->learning.order = tape->order;
    }
    return qkv_tape_run(tape, &node);
}
