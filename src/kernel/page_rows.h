/* page_rows: the functions of page types whose pages are rows of numbers (page_rows.c), for page_NAME.c. */
#ifndef QKV_PAGE_ROWS_H
#define QKV_PAGE_ROWS_H

#include "kernel/page.h"

size_t qkv_page_rows_bytes(const struct qkv_pages *pages);
void qkv_page_rows_put(const struct qkv_pages *pages, const struct qkv_page_part *part,
                       const struct qkv_page_rows *rows);
void qkv_page_rows_copy(const struct qkv_pages *pages, size_t to, size_t from, size_t count);
void qkv_page_rows_read(const struct qkv_pages *pages, const struct qkv_page_part *part, size_t columns, float *out);

/* The fields of such a type, which follow from its numbers. */
#define QKV_PAGE_ROWS                                                                                                  \
    .rows = true, .shared = true, .bytes = qkv_page_rows_bytes, .put = qkv_page_rows_put, .copy = qkv_page_rows_copy,  \
    .read = qkv_page_rows_read

#endif
