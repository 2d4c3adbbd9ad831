/* The data of a GGUF file: rows of weights, copied where their type stays, else converted, a few at a time, by all
 * threads of the context. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf_export.h"

enum { ROWS_BYTES = 1 << 20, ROWS_GRAIN = 1 << 13 }; /* bytes that a thread converts at once; numbers of a part */
enum rows_fault { FAULT_NONE, FAULT_NOT_FINITE, FAULT_TOO_LARGE };

/* A piece of a tensor: rows that are converted together. */
struct rows_work {
    const struct qkv_family_rows *rows;
    const struct qkv_gguf_tensor *tensor;
    const struct qkv_type *type;
    size_t first; /* row */
    size_t bytes; /* of a row, converted */
    unsigned char *out;
    float *scratch; /* 2 rows for each thread */
    atomic_int fault;
};

/* Whether the numbers of a row can be written: blocks have no place for numbers that are not finite, and conversion
 * keeps finite numbers finite. */
static enum rows_fault row_fault(const struct qkv_type *type, const unsigned char *bytes, const float *x, float *back,
                                 size_t n) {
    type->to_float(back, bytes, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]) && type->kind == QKV_CLASS_BLOCKS) return FAULT_NOT_FINITE;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]) && !isfinite(back[i])) return FAULT_TOO_LARGE;
    return FAULT_NONE;
}

static void row_convert(struct rows_work *w, size_t r, int thread) {
    const size_t n = w->rows->columns;
    float *x = w->scratch + 2 * n * (size_t)thread;
    unsigned char *out = w->out + r * w->bytes;
    enum qkv_dtype dtype;
    const void *from = qkv_family_rows_at(w->rows, w->first + r, &dtype);
    if (from && qkv_types[dtype] == w->type && !w->rows->plus_one) {
        memcpy(out, from, w->bytes);
        return;
    }
    if (from)
        qkv_to_float(x, from, dtype, n);
    else
        memset(x, 0, n * sizeof *x);
    for (size_t i = 0; i < n && w->rows->plus_one; i++) x[i] += 1;
    const size_t slice = w->tensor->slices > 1 ? (w->first + r) / (w->rows->count / w->tensor->slices) : 0;
    qkv_type_quantise(w->type, out, x, n, w->tensor->importance ? w->tensor->importance + slice * n : NULL);
    const enum rows_fault fault = row_fault(w->type, out, x, x + n, n);
    if (fault) atomic_store(&w->fault, (int)fault);
}

static void rows_body(void *argument, size_t begin, size_t end, int thread) {
    for (size_t r = begin; r < end; r++) row_convert(argument, r, thread);
}

static enum qkv_status rows_fail(struct qkv_context *ctx, const struct rows_work *w) {
    const char *name = w->tensor->array.name;
    if (atomic_load(&w->fault) == FAULT_NOT_FINITE)
        return qkv_fail(ctx, QKV_NUMBER,
                        "%s holds numbers that are not finite, which %s cannot have, so nothing was written; the model "
                        "is damaged, or its training diverged",
                        name, w->type->name);
    return qkv_fail(ctx, QKV_NUMBER,
                    "%s holds numbers that are too large for %s, so nothing was written; choose another type for it",
                    name, w->type->name);
}

/* Tells who watches, and stops the work if asked to. */
static enum qkv_status rows_progress(const struct qkv_gguf_export *e) {
    const struct qkv_gguf_options *o = e->options;
    const enum qkv_status status = qkv_check_cancelled(e->ctx, "writing a model");
    if (status || !o->progress) return status;
    if (o->progress(o->user, "writing", (double)e->writer.written, (double)e->writer.data)) return QKV_OK;
    return qkv_fail(e->ctx, QKV_STOPPED, "writing was stopped, and nothing was written");
}

static enum qkv_status rows_write(struct qkv_gguf_export *e, const struct qkv_family_rows *rows,
                                  const struct qkv_gguf_tensor *tensor) {
    struct rows_work w = {.rows = rows, .tensor = tensor, .type = qkv_types[tensor->array.dtype]};
    const size_t threads = (size_t)e->ctx->threads, columns = rows->columns;
    size_t piece;
    enum qkv_status status = QKV_OK;
    if (!rows->count || !columns) return QKV_OK;
    w.bytes = qkv_type_span(tensor->array.dtype, columns);
    piece = qkv_min(rows->count, qkv_max(threads * (ROWS_BYTES / (columns * sizeof(float)) + 1), 1));
    w.out = qkv_allocate(e->ctx, piece, w.bytes);
    w.scratch = qkv_allocate(e->ctx, 2 * threads * columns, sizeof *w.scratch);
    if (!w.out || !w.scratch) status = QKV_MEMORY;
    for (size_t n; w.first < rows->count && !status; w.first += n) {
        n = qkv_min(piece, rows->count - w.first);
        qkv_parallel_range(e->ctx, n, qkv_max(ROWS_GRAIN / columns, 1), rows_body, &w);
        status = atomic_load(&w.fault) ? rows_fail(e->ctx, &w) : qkv_gguf_write_data(&e->writer, w.out, n * w.bytes);
        if (!status) status = rows_progress(e);
    }
    free(w.out);
    free(w.scratch);
    return status;
}

enum qkv_status qkv_gguf_write_rows(struct qkv_gguf_export *e) {
    enum qkv_status status = rows_progress(e);
    for (size_t i = 0; i < e->arrays.count && !status; i++) {
        struct qkv_family_rows rows;
        status = qkv_family_rows_begin(&e->arrays, i, &rows);
        if (!status) status = rows_write(e, &rows, &e->tensors[i]);
        if (!status) status = qkv_gguf_end_tensor(&e->writer);
        qkv_family_rows_free(&rows);
    }
    for (size_t i = 0; i < e->written.factor_count && !status; i++) {
        const struct qkv_array *a = &e->written.factors[i];
        status = qkv_gguf_write_data(&e->writer, a->data, a->bytes);
        if (!status) status = qkv_gguf_end_tensor(&e->writer);
    }
    return status;
}
