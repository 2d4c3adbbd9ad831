/* The data of a GGUF file: rows of weights, copied where their type stays, else converted, a few at a time, by all
 * threads of the context. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/adapter_merge.h"
#include "io/gguf_export.h"
#include "op/steps.h"

enum { ROWS_BYTES = 1 << 20 }; /* of floats that are converted at once, for each thread */

/* The rows of a tensor while they are written. */
struct rows_work {
    const struct qkv_family_rows *rows;
    const struct qkv_gguf_tensor *tensor;
    size_t bytes;   /* of a row, converted */
    float *floats;  /* of a piece; NULL: rows are copied */
    float *scratch; /* of a row, for each thread if rows are converted; NULL: rows of blocks are copied */
    unsigned char *out;
    struct qkv_merge_sum cost;
};

/* Whether a tensor's rows are in its type already. */
static bool rows_stay(const struct rows_work *w) {
    return !w->rows->plus_one && qkv_family_rows_dtype(w->rows) == w->tensor->array.dtype;
}

static void rows_gather(const struct rows_work *w, size_t first, size_t n) {
    const size_t columns = w->rows->columns;
    for (size_t r = 0; r < n; r++) {
        float *x = w->floats + r * columns;
        enum qkv_dtype dtype;
        const void *from = qkv_family_rows_at(w->rows, first + r, &dtype);
        if (from)
            qkv_to_float(x, from, dtype, columns);
        else
            memset(x, 0, columns * sizeof *x);
        for (size_t i = 0; i < columns && w->rows->plus_one; i++) x[i] += 1;
    }
}

static enum qkv_status rows_fail(struct qkv_context *ctx, const struct rows_work *w, int fault) {
    const char *name = w->tensor->array.name;
    if (fault == QKV_QUANTISE_NOT_FINITE)
        return qkv_fail(ctx, QKV_NUMBER,
                        "%s holds numbers that are not finite, so nothing was written; the model is damaged, or its "
                        "training diverged",
                        name);
    return qkv_fail(ctx, QKV_NUMBER,
                    "%s holds numbers that are too large for %s, so nothing was written; choose another type for it",
                    name, qkv_types[w->tensor->array.dtype]->name);
}

/* Adds up what rounding has changed in rows of merged weights. */
static void rows_cost(struct rows_work *w, size_t first, size_t n) {
    const size_t columns = w->rows->columns;
    for (size_t r = 0; r < n && w->tensor->array.dtype != QKV_F32; r++) {
        const struct qkv_weight *weight = qkv_family_rows_weight(w->rows, first + r);
        if (!weight || !weight->merged) continue;
        qkv_to_float(w->scratch, w->out + r * w->bytes, w->tensor->array.dtype, columns);
        qkv_merge_sum_row(&w->cost, weight, w->floats + r * columns, w->scratch, columns);
    }
}

static enum qkv_status rows_convert(struct qkv_context *ctx, struct rows_work *w, size_t first, size_t n) {
    atomic_int fault = 0;
    const size_t slices = w->tensor->slices;
    rows_gather(w, first, n);
    const enum qkv_status status =
        QKV_STEP(ctx, quantise, .out = w->out, .x = w->floats, .dtype = w->tensor->array.dtype, .rows = n,
                 .columns = w->rows->columns, .importance = w->tensor->importance, .first = first,
                 .rows_each = w->rows->count / slices, .scratch = w->scratch, .fault = &fault);
    if (!status && atomic_load(&fault)) return rows_fail(ctx, w, atomic_load(&fault));
    if (!status) rows_cost(w, first, n);
    return status;
}

/* Whether rows of reals, which are copied, are finite. */
static bool rows_are_finite(const struct rows_work *w, size_t n) {
    const size_t columns = w->rows->columns;
    bool finite = true;
    for (size_t r = 0; r < n && finite; r++) {
        qkv_to_float(w->scratch, w->out + r * w->bytes, w->tensor->array.dtype, columns);
        for (size_t i = 0; i < columns; i++) finite = finite && isfinite(w->scratch[i]);
    }
    return finite;
}

static enum qkv_status rows_copy(struct qkv_context *ctx, const struct rows_work *w, size_t first, size_t n) {
    for (size_t r = 0; r < n; r++) {
        enum qkv_dtype dtype;
        const void *from = qkv_family_rows_at(w->rows, first + r, &dtype);
        if (from)
            memcpy(w->out + r * w->bytes, from, w->bytes);
        else
            memset(w->out + r * w->bytes, 0, w->bytes); /* zeros are f32 */
    }
    return !w->scratch || rows_are_finite(w, n) ? QKV_OK : rows_fail(ctx, w, QKV_QUANTISE_NOT_FINITE);
}

/* Tells who watches, and stops the work if asked to. */
static enum qkv_status rows_progress(const struct qkv_gguf_export *e) {
    const struct qkv_gguf_options *o = e->options;
    const enum qkv_status status = qkv_check_cancelled(e->ctx, "writing a model");
    if (status || !o->progress) return status;
    if (o->progress(o->user, "writing", (double)e->writer.written, (double)e->writer.data)) return QKV_OK;
    return qkv_fail(e->ctx, QKV_STOPPED, "writing was stopped, and nothing was written");
}

/* Takes the memory for a piece of rows. */
static enum qkv_status rows_begin(struct qkv_context *ctx, struct rows_work *w, size_t piece) {
    const enum qkv_dtype dtype = w->tensor->array.dtype;
    const size_t columns = w->rows->columns;
    const bool stay = rows_stay(w), blocks = qkv_types[dtype]->kind == QKV_CLASS_BLOCKS;
    size_t numbers, rows;
    w->bytes = qkv_type_span(dtype, columns);
    w->out = qkv_allocate(ctx, piece, w->bytes);
    if (!w->out) return QKV_MEMORY;
    if (stay && blocks) return QKV_OK;
    if (!qkv_multiply(piece, columns, &numbers) || !qkv_multiply(stay ? 1 : (size_t)ctx->threads, columns, &rows))
        return qkv_fail_memory(ctx, 0, "rows of a tensor");
    if (!stay) w->floats = qkv_allocate(ctx, numbers, sizeof *w->floats);
    w->scratch = qkv_allocate(ctx, rows, sizeof *w->scratch);
    return (stay || w->floats) && w->scratch ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status rows_write(struct qkv_gguf_export *e, const struct qkv_family_rows *rows,
                                  const struct qkv_gguf_tensor *tensor) {
    struct rows_work w = {.rows = rows, .tensor = tensor};
    if (!rows->count || !rows->columns) return QKV_OK;
    const size_t each = ROWS_BYTES / sizeof(float) / rows->columns + 1;
    const size_t piece = qkv_min(rows->count, (size_t)e->ctx->threads * each);
    enum qkv_status status = rows_begin(e->ctx, &w, piece);
    for (size_t first = 0, n; first < rows->count && !status; first += n) {
        n = qkv_min(piece, rows->count - first);
        status = w.floats ? rows_convert(e->ctx, &w, first, n) : rows_copy(e->ctx, &w, first, n);
        if (!status) status = qkv_gguf_write_data(&e->writer, w.out, n * w.bytes);
        if (!status) status = rows_progress(e);
    }
    if (!status) qkv_merge_sum_end(e->model, &w.cost);
    free(w.out);
    free(w.floats);
    free(w.scratch);
    return status;
}

enum qkv_status qkv_gguf_write_rows(struct qkv_gguf_export *e) {
    enum qkv_status status = rows_progress(e);
    e->model->merge_cost = (struct qkv_merge_cost){0};
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
    if (status) e->model->merge_cost = (struct qkv_merge_cost){0};
    return status;
}
