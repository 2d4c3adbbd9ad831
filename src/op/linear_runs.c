/* linear_runs: rows that choose among several adapters of a linear by number. The term of an adapter is computed for
 * the rows of each run of the tape; rows of no run are not read. */
#include "op/linear.h"

static const struct qkv_adapter *adapter_find(const struct qkv_tensor *weight, size_t number) {
    const struct qkv_adapter *adapter = weight->operand.named;
    while (adapter && adapter->number != number) adapter = adapter->next;
    return adapter;
}

bool qkv_adapter_applies(const struct qkv_adapter_runs *runs, const struct qkv_tensor *weight) {
    for (size_t i = 0; i < runs->count && weight->operand.named; i++)
        if (adapter_find(weight, runs->list[i].number)) return true;
    return weight->operand.adapter != NULL;
}

const struct qkv_adapter *qkv_adapter_of_run(const struct qkv_adapter_runs *runs, size_t i,
                                             const struct qkv_tensor *weight, size_t N, struct qkv_adapter_run *rows) {
    *rows = runs->list[i];
    rows->first = qkv_min(rows->first, N);
    rows->count = qkv_min(rows->count, N - rows->first);
    return rows->count ? adapter_find(weight, rows->number) : NULL;
}

/* Rows from `first` on of a matrix of floats. */
static float *adapter_rows(const struct qkv_tensor *matrix, size_t first) {
    return matrix ? (float *)matrix->data + first * matrix->columns : NULL;
}

static enum qkv_status adapter_run_forward(struct qkv_tape *tape, const struct qkv_node *node,
                                           const struct qkv_adapter *adapter, const struct qkv_adapter_run *rows,
                                           float *y, float scale) {
    const struct qkv_tensor *x = node->inputs[QKV_LINEAR_X], *weight = node->inputs[QKV_LINEAR_WEIGHT];
    const size_t out = weight->rows;
    float *low = qkv_tape_take(tape, qkv_adapter_low(adapter, rows->count), sizeof *low);
    if (!low) return QKV_MEMORY;
    struct qkv_tensor some = *x;
    some.data = (char *)x->data + qkv_type_span(x->dtype, rows->first * x->columns);
    some.rows = rows->count;
    if (!adapter->magnitudes) return qkv_adapter_forward(tape, adapter, y + rows->first * out, out, scale, &some, low);
    const struct qkv_dora dora = {.adapter = adapter,
                                  .weight = weight,
                                  .bias = node->inputs[QKV_LINEAR_BIAS],
                                  .x = &some,
                                  .read = &some,
                                  .residual = adapter_rows(node->inputs[QKV_LINEAR_RESIDUAL], rows->first),
                                  .scale = scale,
                                  .y = y + rows->first * out,
                                  .v = qkv_tape_take(tape, rows->count * out, sizeof(float)),
                                  .low = low};
    return dora.v ? qkv_dora_forward(tape, &dora) : QKV_MEMORY;
}

enum qkv_status qkv_adapter_forward_runs(struct qkv_tape *tape, const struct qkv_node *node, float *y, float scale) {
    const struct qkv_tensor *weight = node->inputs[QKV_LINEAR_WEIGHT];
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < tape->runs.count && !status; i++) {
        struct qkv_adapter_run rows;
        const struct qkv_adapter *adapter =
            qkv_adapter_of_run(&tape->runs, i, weight, node->inputs[QKV_LINEAR_X]->rows, &rows);
        if (!adapter) continue;
        const size_t mark = qkv_arena_mark(tape->arena);
        status = adapter_run_forward(tape, node, adapter, &rows, y, scale);
        qkv_arena_release(tape->arena, mark);
    }
    return status;
}
