/* A toy: binary64, (heads, columns, positions): the numbers of a channel at all positions, one after the other. */
#include "kernel/page.h"

#include <string.h>

static double *columns_at(const struct qkv_pages *pages, size_t page, size_t head, size_t column) {
    return (double *)pages->data + ((page * pages->heads + head) * pages->columns + column) * pages->positions;
}

static size_t columns_bytes(const struct qkv_pages *pages) {
    return pages->heads * pages->columns * pages->positions * sizeof(double);
}

static void columns_put(const struct qkv_pages *pages, const struct qkv_page_part *part,
                        const struct qkv_page_rows *rows) {
    for (size_t i = 0; i < part->count; i++)
        for (size_t n = 0; n < part->heads * pages->columns; n++) {
            const size_t at = qkv_type_span(rows->dtype, i * rows->stride + n);
            float number;
            qkv_to_float(&number, (const char *)rows->data + at, rows->dtype, 1);
            columns_at(pages, part->page, part->head, n)[part->first + i] = (double)number;
        }
}

static void columns_copy(const struct qkv_pages *pages, size_t to, size_t from, size_t count) {
    for (size_t n = 0; n < pages->heads * pages->columns; n++)
        memcpy(columns_at(pages, to, 0, n), columns_at(pages, from, 0, n), count * sizeof(double));
}

static void columns_read(const struct qkv_pages *pages, const struct qkv_page_part *part, size_t columns, float *out) {
    for (size_t n = 0; n < columns; n++)
        for (size_t i = 0; i < part->count; i++)
            out[i * columns + n] = (float)columns_at(pages, part->page, part->head, n)[part->first + i];
}

const struct qkv_page_type qkv_page_type_f64_columns = {.name = "f64_columns",
                                                        .help = "binary64, channel by channel",
                                                        .dtype = QKV_F64,
                                                        .shared = true,
                                                        .bytes = columns_bytes,
                                                        .put = columns_put,
                                                        .copy = columns_copy,
                                                        .read = columns_read};
