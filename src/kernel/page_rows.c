/* page_rows: pages that are rows of numbers, (positions, heads, columns). */
#include "kernel/page_rows.h"

#include <string.h>

static size_t rows_row_bytes(const struct qkv_pages *pages) {
    return qkv_type_span(pages->type->dtype, pages->heads * pages->columns);
}

/* The numbers of a head at a position. */
static char *rows_at(const struct qkv_pages *pages, size_t page, size_t head, size_t position) {
    return (char *)pages->data + page * pages->bytes + position * rows_row_bytes(pages) +
           qkv_type_span(pages->type->dtype, head * pages->columns);
}

size_t qkv_page_rows_bytes(const struct qkv_pages *pages) {
    return pages->positions * rows_row_bytes(pages);
}

/* Rounds once if the page has fewer bits than the row. */
static void rows_convert(void *to, enum qkv_dtype dtype, const void *from, enum qkv_dtype from_dtype, size_t n) {
    if (dtype == from_dtype)
        memcpy(to, from, qkv_type_span(dtype, n));
    else if (dtype == QKV_F32)
        qkv_to_float(to, from, from_dtype, n);
    else if (from_dtype == QKV_F32)
        qkv_from_float(to, from, dtype, n);
    else
        for (size_t i = 0; i < n; i++) {
            float number;
            qkv_to_float(&number, (const char *)from + qkv_type_span(from_dtype, i), from_dtype, 1);
            qkv_from_float((char *)to + qkv_type_span(dtype, i), &number, dtype, 1);
        }
}

void qkv_page_rows_put(const struct qkv_pages *pages, const struct qkv_page_part *part,
                       const struct qkv_page_rows *rows) {
    const enum qkv_dtype dtype = pages->type->dtype;
    for (size_t i = 0; i < part->count; i++)
        rows_convert(rows_at(pages, part->page, part->head, part->first + i), dtype,
                     (const char *)rows->data + qkv_type_span(rows->dtype, i * rows->stride), rows->dtype,
                     part->heads * pages->columns);
}

void qkv_page_rows_copy(const struct qkv_pages *pages, size_t to, size_t from, size_t count) {
    memcpy(rows_at(pages, to, 0, 0), rows_at(pages, from, 0, 0), count * rows_row_bytes(pages));
}

void qkv_page_rows_read(const struct qkv_pages *pages, const struct qkv_page_part *part, size_t columns, float *out) {
    for (size_t i = 0; i < part->count; i++)
        qkv_to_float(out + i * columns, rows_at(pages, part->page, part->head, part->first + i), pages->type->dtype,
                     columns);
}
