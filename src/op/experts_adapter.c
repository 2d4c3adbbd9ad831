/* experts_adapter: the terms that adapters add to the products of experts (linear_adapter.c), for the rows of an
 * expert. Rows that choose among adapters by number are consecutive among the rows of an expert, too. A dropout has a
 * mask for each expert, which the place of a row in the batch determines. */
#include "op/experts.h"

void qkv_expert_adapters_start(struct qkv_tape *tape, const struct qkv_linear *linears, size_t count,
                               struct qkv_expert_adapters *adapters) {
    *adapters = (struct qkv_expert_adapters){0};
    for (size_t e = 0; e < count; e++) {
        const struct qkv_adapter *own = linears[e].weight.operand.adapter;
        adapters->applies = adapters->applies || qkv_adapter_applies(&tape->runs, &linears[e].weight);
        if (!own) continue;
        adapters->low = qkv_max(adapters->low, qkv_adapter_low(own, 1));
        if (tape->training) adapters->dropout = own->dropout;
    }
    if (adapters->dropout > 0) qkv_tape_dropout_key(tape, adapters->key);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* The adapters of an expert's matrices; NULL: none. */
static const struct qkv_adapter *operands_of(const struct qkv_expert_weights *weights, size_t i) {
    return (i % 2 ? weights->down : weights->up)[i / 2].weight.operand.adapter;
}

struct qkv_tensor *const *qkv_expert_operands(struct qkv_tape *tape, const struct qkv_expert_weights *weights,
                                              size_t *count) {
    size_t all = weights->operand_count, used = 0;
    for (size_t i = 0; i < 2 * weights->count; i++) {
        const struct qkv_adapter *adapter = operands_of(weights, i);
        if (adapter) all += adapter->operand_count;
    }
    *count = all;
    if (all == weights->operand_count) return weights->operands;
    struct qkv_tensor **list = qkv_tape_take_graph(tape, all * sizeof *list);
    if (!list) return NULL;
    for (size_t i = 0; i < weights->operand_count; i++) list[used++] = weights->operands[i];
    for (size_t i = 0; i < 2 * weights->count; i++) {
        const struct qkv_adapter *adapter = operands_of(weights, i);
        for (size_t k = 0; adapter && k < adapter->operand_count; k++) list[used++] = adapter->operands[k];
    }
    return list;
}

static bool adapters_alike(const struct qkv_adapter *a, const struct qkv_adapter *b) {
    if (!a || !b) return a == b;
    if (a->count != b->count || a->number != b->number) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct qkv_adapter_part *p = &a->parts[i], *q = &b->parts[i];
        if (p->a.rows != q->a.rows || p->b.rows != q->b.rows) return false;
        if (p->a.learning.requires_grad != q->a.learning.requires_grad) return false;
        if (p->b.learning.requires_grad != q->b.learning.requires_grad) return false;
    }
    return true;
}

bool qkv_expert_adapters_alike(const struct qkv_tensor *weight, const struct qkv_tensor *other) {
    const struct qkv_adapter *a = weight->operand.named, *b = other->operand.named;
    for (; a && b; a = a->next, b = b->next)
        if (!adapters_alike(a, b)) return false;
    return !a && !b && adapters_alike(weight->operand.adapter, other->operand.adapter);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static struct qkv_dropout_rows rows_masks(const struct qkv_expert_adapters *adapters,
                                          const struct qkv_expert_rows *rows) {
    const uint32_t counter[2] = {(uint32_t)rows->expert, 0};
    struct qkv_dropout_rows how = {
        .rate = adapters->dropout, .order = rows->order, .place = rows->place, .row = rows->row};
    qkv_threefry(adapters->key, counter, how.key);
    return how;
}

/* The rows that adapters read: those of the expert, or a copy after the dropout. False: there is no memory. */
static bool rows_read(struct qkv_tape *tape, const struct qkv_expert_adapters *adapters,
                      const struct qkv_expert_rows *rows, struct qkv_tensor *read) {
    *read = rows->x;
    if (!(adapters->dropout > 0)) return true;
    const struct qkv_dropout_rows how = rows_masks(adapters, rows);
    read->data = qkv_tape_take(tape, read->rows * read->columns, qkv_type_size(read->dtype));
    if (!read->data) return false;
    qkv_dropout_gathered(tape->ctx, &how, read->data, (struct qkv_linear_rows){rows->x.data, rows->x.dtype}, read->rows,
                         read->columns);
    return true;
}

/* The rows [*begin, *end) that are in a run of the batch; a plan has as many as there can be. */
static void rows_of_run(const struct qkv_expert_rows *rows, const struct qkv_adapter_run *run, size_t *begin,
                        size_t *end) {
    *begin = 0;
    *end = qkv_min(rows->x.rows, run->count);
    if (!rows->row) return;
    while (*begin < rows->x.rows && (size_t)rows->row[*begin] < run->first) ++*begin;
    for (*end = *begin; *end < rows->x.rows && (size_t)rows->row[*end] - run->first < run->count;) ++*end;
}

static enum qkv_status rows_forward_runs(struct qkv_tape *tape, const struct qkv_expert_rows *rows,
                                         const struct qkv_tensor *weight, float *y) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < tape->runs.count && !status; i++) {
        struct qkv_adapter_run run;
        const struct qkv_adapter *adapter = qkv_adapter_of_run(&tape->runs, i, weight, rows->N, &run);
        size_t begin, end;
        if (!adapter) continue;
        rows_of_run(rows, &run, &begin, &end);
        if (begin == end) continue;
        const size_t mark = qkv_arena_mark(tape->arena);
        float *low = qkv_tape_take(tape, qkv_adapter_low(adapter, end - begin), sizeof *low);
        if (!low) return QKV_MEMORY;
        struct qkv_tensor some = rows->x;
        some.data = (char *)some.data + qkv_type_span(some.dtype, begin * some.columns);
        some.rows = end - begin;
        status = qkv_adapter_forward(tape, adapter, y + begin * weight->rows, weight->rows, 1, &some, low);
        qkv_arena_release(tape->arena, mark);
    }
    return status;
}

enum qkv_status qkv_expert_adapter_forward(struct qkv_tape *tape, const struct qkv_expert_adapters *adapters,
                                           const struct qkv_expert_rows *rows, const struct qkv_tensor *weight,
                                           float *y, float *low) {
    const struct qkv_adapter *own = weight->operand.adapter;
    const size_t mark = qkv_arena_mark(tape->arena);
    struct qkv_tensor read;
    if (!own) return rows_forward_runs(tape, rows, weight, y);
    if (!rows_read(tape, adapters, rows, &read)) return QKV_MEMORY;
    const enum qkv_status status = qkv_adapter_forward(tape, own, y, weight->rows, 1, &read, low);
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_expert_adapter_backward(struct qkv_tape *tape, const struct qkv_expert_adapters *adapters,
                                            const struct qkv_expert_rows *rows, const struct qkv_tensor *weight,
                                            const float *dy, float *dx, const float *low, float *const *gradients) {
    const size_t mark = qkv_arena_mark(tape->arena), count = rows->x.rows * rows->x.columns;
    const bool dropped = adapters->dropout > 0;
    struct qkv_tensor read = rows->x;
    float *dread = dx;
    if (gradients && !rows_read(tape, adapters, rows, &read)) return QKV_MEMORY;
    if (dx && dropped && !(dread = qkv_tape_take(tape, count, sizeof *dread))) return QKV_MEMORY;
    const enum qkv_status status = qkv_adapter_backward_to(tape, weight->operand.adapter, dy, weight->rows, &read,
                                                           dread, !dropped, low, gradients);
    if (!status && dx && dropped) {
        const struct qkv_dropout_rows how = rows_masks(adapters, rows);
        qkv_dropout_gathered(tape->ctx, &how, dread, (struct qkv_linear_rows){dread, QKV_F32}, rows->x.rows,
                             rows->x.columns);
        qkv_scale_floats(tape->ctx, dx, true, dread, 1, count);
    }
    qkv_arena_release(tape->arena, mark);
    return status;
}

double qkv_expert_adapters_flops(const struct qkv_adapter_runs *runs, const struct qkv_linear *linears, size_t count,
                                 const struct qkv_tensor *x, bool backward) {
    double flops = 0;
    for (size_t e = 0; e < count; e++) {
        const struct qkv_tensor *weight = &linears[e].weight;
        if (weight->operand.adapter) flops += qkv_adapter_flops(weight->operand.adapter, x, backward);
        for (size_t i = 0; i < runs->count && !weight->operand.adapter; i++) {
            struct qkv_adapter_run run;
            struct qkv_tensor some = *x;
            const struct qkv_adapter *chosen = qkv_adapter_of_run(runs, i, weight, x->rows, &run);
            some.rows = run.count;
            if (chosen) flops += qkv_adapter_flops(chosen, &some, backward);
        }
    }
    return flops / (double)count;
}
