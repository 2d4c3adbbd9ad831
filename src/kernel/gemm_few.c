/* gemm_few: the matrix product of a few rows, as in decoding, which is bound by reading B: it is read in place, or
 * converted into the first cache, and transposed in registers. */
#include <string.h>

#include "kernel/epilogue.h"
#include "kernel/gemm_driver.h"

enum { STORED_COLUMNS = 16 }; /* columns of stored weights that are converted at a time for a run of K */

struct few {
    const struct qkv_product_call *call;
    const struct qkv_kernels *table;
    const struct qkv_stored *weights; /* of B, or NULL */
    struct qkv_matrix a, b;
    size_t kc;            /* terms a run */
    size_t panels, items; /* of columns; items share the panels */
    float *packed_a;      /* A side by side (few_across), or NULL */
    qkv_epilogue_count count;
};

/* Columns [n, end) over all terms; the caller sets B. */
static struct qkv_gemm_few few_of(const struct few *p, size_t n, size_t end) {
    return (struct qkv_gemm_few){.rows = p->call->M,
                                 .columns = end - n,
                                 .K = p->call->K,
                                 .run = p->kc,
                                 .a = p->a,
                                 .across = p->packed_a,
                                 .c = (float *)p->call->c + n,
                                 .ldc = p->call->ldc,
                                 .accumulate = p->call->accumulate,
                                 .bias = p->call->bias ? p->call->bias + n : NULL};
}

/* Columns of stored weights: converts one run at a time into the first cache. If a block continues in the next run, its
 * rest is kept behind the run. */
static void few_converted(const struct few *p, size_t n, size_t end) {
    float floats[STORED_COLUMNS * (QKV_GEMM_RUN_MAX + QKV_TYPE_BLOCK_MAX)];
    const size_t block = qkv_stored_block(p->weights), stride = p->kc + block, K = p->call->K;
    for (; n < end; n += STORED_COLUMNS) {
        const size_t columns = qkv_min(STORED_COLUMNS, end - n);
        size_t have = 0; /* terms that are converted */
        for (size_t k = 0; k < K; k += p->kc) {
            const size_t terms = qkv_min(p->kc, K - k), want = qkv_min(qkv_round_up(k + terms, block), K);
            for (size_t i = 0; i < columns; i++) {
                float *row = floats + i * stride;
                if (have > k) memmove(row, row + p->kc, (have - k) * sizeof *row);
                if (want > have) qkv_stored_floats(p->table, p->weights, n + i, have, want - have, row + (have - k));
            }
            have = want;
            struct qkv_gemm_few few = few_of(p, n, n + columns);
            few.K = terms;
            few.a = qkv_gemm_at(p->a, 0, k);
            if (few.across) few.across += k * QKV_FEW_ROWS;
            few.b = floats;
            few.b_stride = stride;
            few.accumulate = p->call->accumulate || k > 0;
            if (k + terms < K) few.bias = NULL;
            p->table->gemm->few(&few);
        }
    }
}

/* Columns of stored weights, part by part: by the type's own product, where it has one. */
static void few_stored(const struct few *p, size_t n, size_t end) {
    const struct qkv_stored *weights = p->weights;
    for (size_t stop; n < end; n = stop) {
        size_t row = n;
        const struct qkv_stored_part *part = qkv_stored_part_of(weights, &row);
        stop = qkv_min(end, n + part->rows - row);
        void (*own)(const struct qkv_gemm_few *few) = p->table->types[part->dtype].few;
        if (!own) {
            few_converted(p, n, stop);
            continue;
        }
        struct qkv_gemm_few few = few_of(p, n, stop);
        few.b = (const char *)part->data + row * qkv_type_span(part->dtype, weights->columns);
        few.b_stride = weights->columns;
        own(&few);
    }
}

static void few_floats(const struct few *p, size_t n, size_t end) {
    struct qkv_gemm_few few = few_of(p, n, end);
    few.b = qkv_gemm_at(p->b, 0, n).data;
    few.b_stride = p->b.column_stride;
    p->table->gemm->few(&few);
}

static void few_item(void *argument, size_t item, int thread) {
    (void)thread;
    struct few *p = argument;
    const size_t nr = p->table->gemm->nr, n = qkv_gemm_share(p->panels, p->items, item) * nr;
    const size_t end = qkv_min(qkv_gemm_share(p->panels, p->items, item + 1) * nr, p->call->N);
    if (p->weights)
        few_stored(p, n, end);
    else
        few_floats(p, n, end);
    qkv_epilogue_block(p->table, p->call, &p->count, 0, 0, p->call->M, n, end - n);
}

/* Puts rows of A side by side: rows that lie far apart would often share a set of the first cache, also with columns of
 * B. */
static void few_across(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct few *p = argument;
    memset(p->packed_a, 0, p->call->K * QKV_FEW_ROWS * sizeof *p->packed_a);
    for (size_t m = 0; m < p->call->M; m++) {
        const float *row = p->a.data + m * p->a.row_stride;
        for (size_t k = 0; k < p->call->K; k++) p->packed_a[k * QKV_FEW_ROWS + m] = row[k];
    }
}

enum qkv_status qkv_gemm_few_rows(struct qkv_context *ctx, struct qkv_arena *scratch,
                                  const struct qkv_product_call *call) {
    struct few p = {.call = call,
                    .table = ctx->kernels,
                    .weights = call->stored.weights,
                    .a = qkv_gemm_matrix(&call->a),
                    .b = qkv_gemm_matrix(&call->b),
                    .kc = qkv_gemm_run_length(call->K),
                    .panels = qkv_pieces(call->N, ctx->kernels->gemm->nr)};
    const size_t mark = qkv_arena_mark(scratch);
    if (call->M > QKV_FEW_PAIR) {
        p.packed_a = qkv_arena_take(scratch, call->K, QKV_FEW_ROWS * sizeof(float));
        if (!p.packed_a) return QKV_MEMORY;
        qkv_parallel(ctx, 1, few_across, &p);
    }
    p.items = qkv_min(qkv_gemm_items(call, (size_t)ctx->threads), p.panels);
    qkv_epilogue_begin(ctx, call, &p.count, 1, p.items);
    qkv_parallel(ctx, p.items, few_item, &p);
    qkv_arena_release(scratch, mark);
    return QKV_OK;
}
