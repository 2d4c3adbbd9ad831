/* bf16: rows of bf16, the usual pages of mixed precision for heads that page_bf16_packed.c does not hold. */
#include "kernel/page_rows.h"

const struct qkv_page_type qkv_page_type_bf16 = {
    .name = "bf16", .help = "rows of bf16", .dtype = QKV_BF16, .usual = 1U << QKV_MIXED_BF16, QKV_PAGE_ROWS};
