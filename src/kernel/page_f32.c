/* f32: rows of fp32, the usual pages of fp32. */
#include "kernel/page_rows.h"

const struct qkv_page_type qkv_page_type_f32 = {
    .name = "f32", .help = "rows of fp32", .dtype = QKV_F32, .usual = 1U << QKV_FP32, QKV_PAGE_ROWS};
