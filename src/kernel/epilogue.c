/* epilogue: the operations that are fused into a product, row by row of a block. */
#include "kernel/epilogue.h"

#include <assert.h>

/* Columns [column, column + columns) of a row of C. */
typedef void epilogue_row(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row,
                          size_t column, size_t columns);

static char *epilogue_c(const struct qkv_product_call *call, size_t row, size_t column) {
    return (char *)call->c + (row * call->ldc + column) * qkv_type_size(call->dtype);
}

static char *epilogue_out(const struct qkv_product_call *call, size_t row, size_t column) {
    const struct qkv_epilogue *e = &call->epilogue;
    return (char *)e->out + (row * e->ld + column) * qkv_type_size(call->dtype);
}

static void epilogue_residual(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row,
                              size_t column, size_t columns) {
    const struct qkv_epilogue *e = &call->epilogue;
    float *c = (float *)(void *)epilogue_c(call, row, column);
    if (e->scale != 1) kernels->scale(c, false, c, e->scale, columns);
    kernels->add(c, e->residual + row * e->ld + column, c, columns);
}

static void epilogue_activation(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row,
                                size_t column, size_t columns) {
    const struct qkv_epilogue *e = &call->epilogue;
    void *x = epilogue_c(call, row, column), *y = epilogue_out(call, row, column);
    if (e->slope)
        kernels->activation_forward_slope(e->ffn, y, x, columns);
    else
        qkv_activate(kernels, e->ffn, call->dtype, y, x, columns);
}

static void epilogue_gated(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row,
                           size_t column, size_t columns) {
    const struct qkv_epilogue *e = &call->epilogue;
    qkv_activate_gated(kernels, e->ffn, e->limit, call->dtype, epilogue_out(call, row, column),
                       epilogue_c(call, row, column), columns / 2);
}

static void epilogue_softcap(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row,
                             size_t column, size_t columns) {
    float *c = (float *)(void *)epilogue_c(call, row, column);
    qkv_softcap_apply(kernels, &call->epilogue.softcap, c, c, columns);
}

struct epilogue_kind {
    epilogue_row *run;
    bool whole_rows, fp32;
};
#define EPILOGUE_KIND(name, whole_rows, fp32) [QKV_EPILOGUE_##name] = {epilogue_##name, whole_rows, fp32},
static const struct epilogue_kind epilogue_kinds[QKV_EPILOGUE_COUNT] = {QKV_EPILOGUE_LIST(EPILOGUE_KIND)};

void qkv_epilogue_run(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row, size_t rows,
                      size_t column, size_t columns) {
    const struct epilogue_kind *kind = &epilogue_kinds[call->epilogue.kind];
    assert(call->dtype == QKV_F32 || !(kind->fp32 || call->epilogue.slope));
    for (size_t n = row; n < row + rows; n++) kind->run(kernels, call, n, column, columns);
}

void qkv_epilogue_block(const struct qkv_kernels *kernels, const struct qkv_product_call *call,
                        qkv_epilogue_count *counts, size_t row_block, size_t row, size_t rows, size_t column,
                        size_t columns) {
    if (call->epilogue.kind == QKV_EPILOGUE_none) return;
    if (!epilogue_kinds[call->epilogue.kind].whole_rows) {
        if (rows && columns) qkv_epilogue_run(kernels, call, row, rows, column, columns);
    } else if (atomic_fetch_sub_explicit(&counts[row_block], 1, memory_order_acq_rel) == 1) {
        qkv_epilogue_run(kernels, call, row, rows, 0, call->N);
    }
}

struct epilogue_counts {
    qkv_epilogue_count *counts;
    size_t row_blocks, column_blocks;
};

static void epilogue_begin_item(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct epilogue_counts *c = argument;
    for (size_t i = 0; i < c->row_blocks; i++) atomic_init(&c->counts[i], (unsigned)c->column_blocks);
}

void qkv_epilogue_begin(struct qkv_context *ctx, const struct qkv_product_call *call, qkv_epilogue_count *counts,
                        size_t row_blocks, size_t column_blocks) {
    struct epilogue_counts all = {counts, row_blocks, column_blocks};
    if (call->epilogue.kind != QKV_EPILOGUE_none) qkv_parallel(ctx, 1, epilogue_begin_item, &all);
}
