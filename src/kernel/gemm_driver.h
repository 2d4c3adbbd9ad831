/* gemm_driver.h: what gemm.c, gemm_order.c and, for a few rows, gemm_few.c share: drivers of the fp32 product. */
#ifndef QKV_GEMM_DRIVER_H
#define QKV_GEMM_DRIVER_H

#include "kernel/isa/gemm.h"

/* A product of at most QKV_FEW_ROWS rows, K > 0, whose A has rows, and whose B columns, that are contiguous along k. */
qkv_product_multiply qkv_gemm_few_rows;

/* The number of items to cut the work into: several a thread, but none so small that handing it out costs more. */
static inline size_t qkv_gemm_items(const struct qkv_product_call *call, size_t threads) {
    const double item_cycles = 8000; /* minimum of an item's work: a few times the cost of waking a thread */
    const size_t most = 4 * threads; /* so that the wait for the last thread is short */
    const double M = (double)call->M, N = (double)call->N, K = (double)call->K;
    const double cycles = K * (M * N / 16 + (M + N) / 3), items = cycles / item_cycles;
    if (threads == 1 || items < 2) return 1;
    const size_t count = items < (double)most ? (size_t)items : most;
    return count < threads ? count : count / threads * threads;
}

/* The beginning of the i-th of `count` nearly equal shares of n. */
static inline size_t qkv_gemm_share(size_t n, size_t count, size_t i) {
    return n / count * i + qkv_min(i, n % count);
}

static inline struct qkv_matrix qkv_gemm_at(struct qkv_matrix m, size_t row, size_t column) {
    m.data += row * m.row_stride + column * m.column_stride;
    return m;
}

/* An operand of fp32. */
static inline struct qkv_matrix qkv_gemm_matrix(const struct qkv_operand *x) {
    return (struct qkv_matrix){x->data, x->row_stride, x->column_stride};
}

#endif
