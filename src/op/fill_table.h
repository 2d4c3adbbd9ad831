/* fill_table: constants that the host computes once, for rows of the backend to read: tables of positions.
 *
 * A kind of table is a function that computes one row of it. Rows are computed by all threads of the context, each as
 * if it were alone; a context that plans computes none. */
#ifndef QKV_FILL_TABLE_H
#define QKV_FILL_TABLE_H

#include "base/base.h"

/* Computes row `row` of the table that `of` describes. */
typedef void qkv_table_row(const void *of, size_t row, void *out);

/* Computes a table of `count` rows, of `bytes` bytes each, in the memory of the host. */
void qkv_table_fill(struct qkv_context *ctx, void *table, size_t count, size_t bytes, qkv_table_row *row,
                    const void *of);
/* The same in memory of the backend, from the arena. NULL: there is not enough memory. */
void *qkv_table_make(struct qkv_context *ctx, struct qkv_arena *arena, size_t count, size_t bytes, qkv_table_row *row,
                     const void *of);

#endif
