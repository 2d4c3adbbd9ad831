/* f16: rows of f16, which callers of attention on plain buffers may have. */
#include "kernel/page_rows.h"

const struct qkv_page_type qkv_page_type_f16 = {.name = "f16", .help = "rows of f16", .dtype = QKV_F16, QKV_PAGE_ROWS};
