/* page: the table of page types. */
#include "kernel/page.h"

#define PAGE_ROW(name) &qkv_page_type_##name,
static const struct qkv_page_type *const page_types[] = {QKV_PAGE_LIST(PAGE_ROW)};

const struct qkv_page_type *qkv_page_type_at(size_t i) {
    return i < sizeof page_types / sizeof *page_types ? page_types[i] : NULL;
}

const struct qkv_page_type *qkv_page_type_of_rows(enum qkv_dtype dtype) {
    const struct qkv_page_type *type;
    size_t i = 0;
    while ((type = qkv_page_type_at(i)) && !(type->rows && type->dtype == dtype)) i++;
    return type;
}
