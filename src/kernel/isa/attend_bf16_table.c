/* attend_bf16_table.c: the table of the attention kernels with products in bf16, for the driver. */
#include "kernel/isa/attend_bf16.h"

static size_t bf16_scratch_floats(const struct qkv_attend_plan *plan) {
    const size_t pack = QKV_T(attend_bf16_pack_scratch)(plan);
    const size_t work = plan->g ? QKV_T(attend_bf16_backward_scratch)(plan) : QKV_T(attend_bf16_forward_scratch)(plan);
    return pack > work ? pack : work;
}

const struct qkv_attend_bf16_kernels QKV_T(attend_bf16_kernels) = {
    .strip = STRIP,
    .backward_rows = BLOCK_ROWS,
    .keys = BLOCK_KEYS,
    .channels = CHANNELS,
    .keys_bytes = QKV_T(attend_bf16_keys_bytes),
    .rows_bytes = QKV_T(attend_bf16_rows_bytes),
    .scratch = bf16_scratch_floats,
    .pack_keys = QKV_T(attend_bf16_pack_keys),
    .page_bytes = QKV_T(attend_bf16_page_bytes),
    .page_put = QKV_T(attend_bf16_page_put),
    .page_read = QKV_T(attend_bf16_page_read),
    .page_words = QKV_T(attend_bf16_page_words),
    .place_rows = QKV_T(attend_bf16_place_rows),
    .pack_rows = QKV_T(attend_bf16_pack_rows),
    .sums_floats = QKV_T(attend_bf16_sums_floats),
    .forward = QKV_T(attend_bf16_forward),
    .combine = QKV_T(attend_bf16_combine),
    .backward = QKV_T(attend_bf16_backward),
#if QKV_BF16_FEW_TILE
    .few_scratch = QKV_T(attend_bf16_few_scratch),
    .forward_few = QKV_T(attend_bf16_forward_few),
    .backward_few = QKV_T(attend_bf16_backward_few),
#endif
};
