/* bf16.c: the kernels of the matrix product in bf16, once for each table: QKV_BF16_PRODUCTS is the file that has them,
 * bf16_widened.h if the table has no instructions for such products. */
#include "kernel/isa/isa.h"

#include QKV_BF16_PRODUCTS

const struct qkv_bf16_kernels QKV_T(bf16_kernels) = {
    .unit = UNIT,
    .native = NATIVE,
    .in_place = IN_PLACE,
    .mr = MR,
    .group = GROUP,
    .nr = NR,
    .step = STEP,
    .run = RUN,
    .a_size = A_SIZE,
    .few_rows = FEW,
    .pack_b = pack_b,
    .pack_a = pack_a,
    .pack_b_at = pack_b_at,
    .pack_a_at = pack_a_at,
    .order_step = ORDER_STEP,
    .order_unit = ORDER_UNIT,
    .enter = enter,
    .leave = leave,
    .block = block,
    .blocks = blocks,
    .few_a = few_a,
    .few = few,
    .peak = peak,
};
