/* linear_adapter: the term that an adapter adds to a linear (LoRA, Hu et al. 2021), for each of its parts
 *
 *   u = scale·(x·aᵀ)    y[first …] += s·(u·bᵀ)
 *
 * with the s of a linear that adds to a residual. Backward, from dy, which has s in it already:
 *
 *   db += dy[first …]ᵀ·u    du = scale·(dy[first …]·b)    da += duᵀ·x    dx += du·a
 */
#include "op/linear.h"

size_t qkv_adapter_low(const struct qkv_adapter *adapter, size_t N) {
    size_t floats = 0;
    for (size_t i = 0; i < adapter->count; i++) floats += N * adapter->parts[i].a.rows;
    return floats;
}

double qkv_adapter_flops(const struct qkv_adapter *adapter, const struct qkv_tensor *x, bool backward) {
    double flops = 0;
    for (size_t i = 0; i < adapter->count; i++) {
        const struct qkv_tensor *a = &adapter->parts[i].a, *b = &adapter->parts[i].b;
        const double one = 2 * (double)x->rows * (double)b->rows * (double)b->columns;
        flops += qkv_product_flops(x, a, backward);
        if (!backward || b->learning.requires_grad) flops += one;
        if (backward && (a->learning.requires_grad || x->learning.requires_grad)) flops += one;
    }
    return flops;
}

static struct qkv_operand adapter_floats(const float *data, size_t row_stride, size_t column_stride) {
    return (struct qkv_operand){(void *)(uintptr_t)data, QKV_F32, row_stride, column_stride};
}

/* y[first …] += u·bᵀ */
static enum qkv_status adapter_up(struct qkv_tape *tape, const struct qkv_adapter_part *part, float *y, size_t ldy,
                                  const float *u, size_t N) {
    const size_t rank = part->b.columns;
    const struct qkv_product *product = qkv_operand_product(tape, &part->b);
    const struct qkv_linear_rows rows =
        qkv_tape_convert(tape, product, (struct qkv_linear_rows){(void *)(uintptr_t)u, QKV_F32}, N * rank);
    if (tape->status) return tape->status;
    const struct qkv_product_call call = {.c = y + part->first,
                                          .dtype = QKV_F32,
                                          .ldc = ldy,
                                          .accumulate = true,
                                          .a = {rows.data, rows.dtype, rank, 1},
                                          .b = adapter_floats(part->b.data, 1, rank),
                                          .M = N,
                                          .N = part->b.rows,
                                          .K = rank};
    return qkv_product_run(product, tape->ctx, tape->arena, &call);
}

enum qkv_status qkv_adapter_forward(struct qkv_tape *tape, const struct qkv_adapter *adapter, float *y, size_t ldy,
                                    float scale, const struct qkv_tensor *x, float *low) {
    const size_t N = x->rows;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < adapter->count && !status; i++) {
        const struct qkv_adapter_part *part = &adapter->parts[i];
        const size_t mark = qkv_arena_mark(tape->arena), count = N * part->a.rows;
        float *u = low, *scaled = scale == 1 ? u : qkv_tape_take(tape, count, sizeof *scaled);
        if (!scaled) return QKV_MEMORY;
        status = qkv_linear_forward_parts(tape, (struct qkv_linear_rows){u, QKV_F32},
                                          (struct qkv_linear_rows){x->data, x->dtype}, N, &part->a, NULL,
                                          (struct qkv_epilogue){0});
        if (!status) qkv_scale_floats(tape->ctx, u, false, u, part->scale, count);
        if (!status && scaled != u) qkv_scale_floats(tape->ctx, scaled, false, u, scale, count);
        if (!status) status = adapter_up(tape, part, y, ldy, scaled, N);
        qkv_arena_release(tape->arena, mark);
        low += count;
    }
    return status;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* du = scale·(dy[first …]·b) */
static enum qkv_status adapter_down(struct qkv_tape *tape, const struct qkv_adapter_part *part, const float *dy,
                                    size_t ldy, size_t N, float *du) {
    const size_t rank = part->b.columns;
    const struct qkv_product_call call = {.c = du,
                                          .dtype = QKV_F32,
                                          .ldc = rank,
                                          .a = adapter_floats(dy + part->first, ldy, 1),
                                          .b = adapter_floats(part->b.data, rank, 1),
                                          .M = N,
                                          .N = rank,
                                          .K = part->b.rows};
    const enum qkv_status status =
        qkv_product_run(qkv_operand_product_back(tape, &part->b), tape->ctx, tape->arena, &call);
    if (!status) qkv_scale_floats(tape->ctx, du, false, du, part->scale, N * rank);
    return status;
}

static struct qkv_linear_carry adapter_carry(struct qkv_tensor *weight) {
    const bool once = weight->learning.uses == 1 && weight->learning.given == 1;
    return (struct qkv_linear_carry){.done = once ? &weight->learning.carried : NULL};
}

/* Where the gradients of a part go; NULL: not wanted. */
struct adapter_gradients {
    float *a, *b;
};

static enum qkv_status adapter_backward_part(struct qkv_tape *tape, struct qkv_adapter_part *part, const float *dy,
                                             size_t ldy, const struct qkv_tensor *x, const float *u, float *dx,
                                             bool accumulate, struct adapter_gradients to) {
    const size_t N = x->rows, rank = part->a.rows;
    const struct qkv_product *product = qkv_operand_product_back(tape, &part->a);
    const struct qkv_row_order *order = x->learning.order;
    enum qkv_status status = QKV_OK;
    float *du = qkv_tape_take(tape, N * rank, sizeof *du);
    if (!du) return QKV_MEMORY;
    struct qkv_linear_rows low = {(void *)(uintptr_t)u, QKV_F32}, rows = {x->data, x->dtype};
    const struct qkv_form *form = qkv_tape_formed(tape, x, product->form);
    if (form) rows = (struct qkv_linear_rows){form->data, form->dtype};
    if (to.b) low = qkv_tape_convert(tape, product, low, N * rank);
    if (to.a) rows = qkv_tape_convert(tape, product, rows, N * x->columns);
    if (tape->status) return tape->status;
    if (to.b)
        status = qkv_linear_backward_weight(tape, dy + part->first, ldy, low, N, &part->b, to.b, order,
                                            adapter_carry(&part->b));
    if (!status) status = adapter_down(tape, part, dy, ldy, N, du);
    if (!status && to.a)
        status = qkv_linear_backward_weight(tape, du, rank, rows, N, &part->a, to.a, order, adapter_carry(&part->a));
    if (status || !dx) return status;
    return qkv_linear_backward_parts(tape, du, rows, N, dx, accumulate, &part->a, NULL, NULL, NULL, NULL,
                                     (struct qkv_linear_carry){0});
}

static struct adapter_gradients adapter_ask(struct qkv_tape *tape, struct qkv_adapter_part *part,
                                            enum qkv_status *status) {
    bool always;
    struct adapter_gradients to = {.a = qkv_gradient_out(tape, &part->a, &always, status)};
    to.b = qkv_gradient_out(tape, &part->b, &always, status);
    return to;
}

enum qkv_status qkv_adapter_backward(struct qkv_tape *tape, const struct qkv_adapter *adapter, const float *dy,
                                     size_t ldy, const struct qkv_tensor *x, float *dx, bool accumulate,
                                     const float *low) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < adapter->count && !status; i++) {
        const size_t mark = qkv_arena_mark(tape->arena);
        const struct adapter_gradients to = adapter_ask(tape, &adapter->parts[i], &status);
        if (!status) status = adapter_backward_part(tape, &adapter->parts[i], dy, ldy, x, low, dx, accumulate || i, to);
        low += x->rows * adapter->parts[i].a.rows;
        qkv_arena_release(tape->arena, mark);
    }
    return status;
}

float **qkv_adapter_gradients(struct qkv_tape *tape, const struct qkv_adapter *adapter, enum qkv_status *status) {
    float **gradients = qkv_tape_take_graph(tape, 2 * adapter->count * sizeof *gradients);
    if (!gradients) *status = QKV_MEMORY;
    for (size_t i = 0; i < adapter->count && !*status; i++) {
        const struct adapter_gradients to = adapter_ask(tape, &adapter->parts[i], status);
        gradients[2 * i] = to.a;
        gradients[2 * i + 1] = to.b;
    }
    return gradients;
}

enum qkv_status qkv_adapter_backward_to(struct qkv_tape *tape, const struct qkv_adapter *adapter, const float *dy,
                                        size_t ldy, const struct qkv_tensor *x, float *dx, bool accumulate,
                                        const float *low, float *const *gradients) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < adapter->count && !status; i++) {
        const size_t mark = qkv_arena_mark(tape->arena);
        struct adapter_gradients to = {0};
        if (gradients) to = (struct adapter_gradients){gradients[2 * i], gradients[2 * i + 1]};
        status = adapter_backward_part(tape, &adapter->parts[i], dy, ldy, x, low, dx, accumulate || i, to);
        if (low) low += x->rows * adapter->parts[i].a.rows;
        qkv_arena_release(tape->arena, mark);
    }
    return status;
}
