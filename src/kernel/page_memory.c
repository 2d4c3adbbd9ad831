/* page_memory: the bytes of pages and of their marks. */
#include "kernel/page.h"

struct qkv_pages qkv_pages_of(const struct qkv_kernels *kernels, const struct qkv_page_type *type,
                              enum qkv_page_side side, size_t heads, size_t columns, size_t positions) {
    struct qkv_pages pages = {
        .type = type, .kernels = kernels, .side = side, .heads = heads, .columns = columns, .positions = positions};
    pages.bytes = type->bytes(&pages);
    return pages;
}

static size_t page_mark_bytes(const struct qkv_pages *pages) {
    return pages->heads * pages->type->marks[pages->side];
}

size_t qkv_page_stored_bytes(const struct qkv_pages *pages) {
    return pages->bytes + page_mark_bytes(pages);
}

uint8_t *qkv_page_mark(const struct qkv_pages *pages, size_t page, size_t head) {
    return (uint8_t *)pages->data + pages->count * pages->bytes + page * page_mark_bytes(pages) +
           head * pages->type->marks[pages->side];
}
