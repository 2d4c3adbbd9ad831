/* fill_table: tables of constants, computed by all threads of the host. */
#include "op/fill_table.h"

#include <stdlib.h>

#include "base/backend.h"

enum { BYTES_A_PIECE = 1 << 12, BYTES_A_COPY = 1 << 20 };

struct table {
    char *out;
    size_t first, bytes;
    qkv_table_row *row;
    const void *of;
};

static void table_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct table *t = argument;
    for (size_t n = begin; n < end; n++) t->row(t->of, t->first + n, t->out + n * t->bytes);
}

static void table_fill(struct qkv_context *ctx, struct table t, size_t count) {
    qkv_parallel_range(ctx, count, BYTES_A_PIECE / qkv_max(t.bytes, 1), table_rows, &t);
}

void qkv_table_fill(struct qkv_context *ctx, void *table, size_t count, size_t bytes, qkv_table_row *row,
                    const void *of) {
    table_fill(ctx, (struct table){.out = table, .bytes = bytes, .row = row, .of = of}, count);
}

/* Computes some rows at a time in memory of the host, and writes them to the backend's. */
static bool table_write(struct qkv_context *ctx, char *table, size_t count, struct table t) {
    const size_t rows = qkv_min(qkv_max(BYTES_A_COPY / qkv_max(t.bytes, 1), 1), count);
    t.out = qkv_allocate(ctx, rows, t.bytes);
    if (!t.out) return false;
    for (; t.first < count; t.first += rows) {
        const size_t some = qkv_min(rows, count - t.first);
        table_fill(ctx, t, some);
        ctx->backend->write(table + t.first * t.bytes, t.out, some * t.bytes);
    }
    free(t.out);
    return true;
}

void *qkv_table_make(struct qkv_context *ctx, struct qkv_arena *arena, size_t count, size_t bytes, qkv_table_row *row,
                     const void *of) {
    char *table = qkv_arena_take(arena, count, bytes);
    if (!table) return NULL;
    if (ctx->backend->of_host)
        qkv_table_fill(ctx, table, count, bytes, row, of);
    else if (!table_write(ctx, table, count, (struct table){.bytes = bytes, .row = row, .of = of}))
        return NULL;
    return table;
}
