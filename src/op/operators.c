/* operators: the table of rows, one per operator of the list. */
#include "base/backend.h"
#include "op/op.h"

#define ROW(name)                                                                                                      \
    [QKV_OPERATOR_##name] = {#name, qkv_check_##name, qkv_forward_##name, qkv_backward_##name, qkv_cost_##name},
const struct qkv_operator qkv_operators[QKV_OPERATOR_COUNT] = {QKV_OPERATOR_LIST(ROW)};

void qkv_tape_start(struct qkv_tape *tape, struct qkv_context *ctx, struct qkv_arena *arena,
                    struct qkv_arena *graph_arena, bool recording) {
    *tape = (struct qkv_tape){.ctx = ctx,
                              .arena = arena,
                              .graph_arena = graph_arena,
                              .recording = recording,
                              .status = QKV_OK,
                              .rows = ctx->backend->operators,
                              .product = qkv_product_of(ctx)};
}
