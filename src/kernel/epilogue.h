/* epilogue: the operations that are fused into a product (QKV_EPILOGUE_LIST in kernel/product.h). They run on a block
 * of C as soon as it is computed, while it is in cache. For the drivers of products: gemm.c and gemm_bf16.c. */
#ifndef QKV_EPILOGUE_H
#define QKV_EPILOGUE_H

#include <stdatomic.h>

#include "kernel/product.h"

/* For each block of rows, counts its blocks of columns that are not computed yet. */
typedef atomic_uint qkv_epilogue_count;

/* Called before the blocks of a product are computed. Does nothing without an epilogue. */
void qkv_epilogue_begin(struct qkv_context *ctx, const struct qkv_product_call *call, qkv_epilogue_count *counts,
                        size_t row_blocks, size_t column_blocks);
/* Called when columns [column, column + columns) of a block of rows are computed. If the epilogue needs whole rows, the
 * thread that computes the last block of a block of rows runs it on all of them. Does nothing without an epilogue. */
void qkv_epilogue_block(const struct qkv_kernels *kernels, const struct qkv_product_call *call,
                        qkv_epilogue_count *counts, size_t row_block, size_t row, size_t rows, size_t column,
                        size_t columns);
/* Runs the epilogue of a call on a part of C that is complete: whole rows, if it needs them. */
void qkv_epilogue_run(const struct qkv_kernels *kernels, const struct qkv_product_call *call, size_t row, size_t rows,
                      size_t column, size_t columns);

#endif
