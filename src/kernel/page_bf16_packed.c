/* bf16_packed: bf16 in the panels that the products of the context's kernels multiply, so that a step of decoding packs
 * its own positions only: the usual pages of mixed precision. Each kernel table has its own panels
 * (isa/attend_bf16_page.c). Heads are stored one after the other. */
#include "kernel/isa/attend.h"

#include <assert.h>
#include <string.h>

enum { PACKED_ROWS = 16, PACKED_COLUMNS = 256 }; /* of rows that are rounded together */

static const struct qkv_attend_bf16_kernels *packed_kernels(const struct qkv_pages *pages) {
    return pages->kernels->attend_bf16;
}

/* A head of a page, for the kernels. */
static struct qkv_attend_bf16_page packed_head(const struct qkv_pages *pages, size_t page, size_t head) {
    const size_t bytes = pages->bytes / pages->heads;
    return (struct qkv_attend_bf16_page){.words = (char *)pages->data + page * pages->bytes + head * bytes,
                                         .side = pages->side,
                                         .columns = pages->columns,
                                         .positions = pages->positions,
                                         .spoilt = qkv_page_mark(pages, page, head)};
}

static size_t packed_max_columns(const struct qkv_kernels *kernels) {
    return kernels->attend_bf16->channels;
}

static size_t packed_bytes(const struct qkv_pages *pages) {
    return pages->heads * packed_kernels(pages)->page_bytes(pages->side, pages->columns, pages->positions);
}

static void packed_put_rounded(const struct qkv_attend_bf16_page *page, const struct qkv_attend_bf16_kernels *kernels,
                               const struct qkv_page_part *part, const float *rows, size_t stride) {
    uint16_t halves[PACKED_ROWS * PACKED_COLUMNS];
    assert(page->columns <= PACKED_COLUMNS);
    for (size_t done = 0, some; done < part->count; done += some) {
        some = qkv_min(part->count - done, PACKED_ROWS);
        for (size_t i = 0; i < some; i++)
            qkv_from_float(halves + i * page->columns, rows + (done + i) * stride, QKV_BF16, page->columns);
        kernels->page_put(page, part->first + done, some, halves, page->columns);
    }
}

static void packed_put(const struct qkv_pages *pages, const struct qkv_page_part *part,
                       const struct qkv_page_rows *rows) {
    const struct qkv_attend_bf16_kernels *kernels = packed_kernels(pages);
    for (size_t i = 0; part->count && i < part->heads; i++) {
        const struct qkv_attend_bf16_page page = packed_head(pages, part->page, part->head + i);
        const size_t at = i * pages->columns;
        if (rows->dtype == QKV_BF16)
            kernels->page_put(&page, part->first, part->count, (const uint16_t *)rows->data + at, rows->stride);
        else
            packed_put_rounded(&page, kernels, part, (const float *)rows->data + at, rows->stride);
    }
}

/* Positions after `count` are copied too, but never read. */
static void packed_copy(const struct qkv_pages *pages, size_t to, size_t from, size_t count) {
    (void)count;
    memcpy((char *)pages->data + to * pages->bytes, (char *)pages->data + from * pages->bytes, pages->bytes);
    memcpy(qkv_page_mark(pages, to, 0), qkv_page_mark(pages, from, 0), qkv_page_stored_bytes(pages) - pages->bytes);
}

static void packed_read(const struct qkv_pages *pages, const struct qkv_page_part *part, size_t columns, float *out) {
    const struct qkv_attend_bf16_page page = packed_head(pages, part->page, part->head);
    packed_kernels(pages)->page_read(&page, part->first, part->count, columns, out);
}

static struct qkv_page_words packed_words(const struct qkv_pages *pages, size_t page, size_t head) {
    const struct qkv_attend_bf16_page x = packed_head(pages, page, head);
    return packed_kernels(pages)->page_words(&x);
}

const struct qkv_page_type qkv_page_type_bf16_packed = {.name = "bf16_packed",
                                                        .help = "bf16, packed for products",
                                                        .dtype = QKV_BF16,
                                                        .usual = 1U << QKV_MIXED_BF16,
                                                        .marks = {[QKV_PAGE_VALUES] = 1},
                                                        .max_columns = packed_max_columns,
                                                        .bytes = packed_bytes,
                                                        .put = packed_put,
                                                        .copy = packed_copy,
                                                        .read = packed_read,
                                                        .words = packed_words};
