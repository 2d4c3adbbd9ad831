/* epilogue.h: the operations that are fused into a product (residual, activation, gate). They run on a block of C as
 * soon as it is computed, while it is in cache. For the drivers gemm.c and gemm_bf16.c. */
#ifndef QKV_EPILOGUE_H
#define QKV_EPILOGUE_H

#include <stdatomic.h>

#include "kernel/product.h"

/* For each block of rows, counts its blocks of columns that are not computed yet. */
typedef atomic_uint qkv_epilogue_count;

static inline void qkv_epilogue_begin(const struct qkv_context *ctx, qkv_epilogue_count *counts, size_t row_blocks,
                                      size_t column_blocks) {
    for (size_t i = 0; counts && !ctx->dry && i < row_blocks; i++) atomic_init(&counts[i], (unsigned)column_blocks);
}

/* Called when columns [column, column + columns) of a block of rows are computed. If the epilogue needs whole rows, the
 * thread that computes the last block of a block of rows runs it on all of them. */
static inline void qkv_epilogue_block(const struct qkv_epilogue *epilogue, qkv_epilogue_count *counts, size_t row_block,
                                      size_t row, size_t rows, size_t column, size_t columns, size_t N) {
    if (!epilogue->whole_rows) {
        if (rows && columns) epilogue->run(epilogue, row, rows, column, columns);
    } else if (atomic_fetch_sub_explicit(&counts[row_block], 1, memory_order_acq_rel) == 1) {
        epilogue->run(epilogue, row, rows, 0, N);
    }
}

#endif
