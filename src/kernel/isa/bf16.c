/* bf16.c: the kernels of the matrix product in bf16, once for each table: on AMX tiles, by AVX-512's dot products, or
 * widened to fp32 if a machine has neither. */
#include "kernel/isa/isa.h"

#if defined(QKV_TABLE_amx)
#include "kernel/isa/bf16_amx.h"
#elif defined(QKV_TABLE_avx512bf16)
#include "kernel/isa/bf16_dot_tile.h"
#else
#include "kernel/isa/bf16_widened.h"
#endif

#if defined(QKV_TABLE_amx)
static void enter(size_t unit) {
    tiles_begin(TILE_ROWS, unit ? unit / 2 : TILE_WORDS);
}
static void leave(void) {
    _tile_release();
}
#else
static void enter(size_t unit) {
    (void)unit;
}
static void leave(void) {}
static void blocks(const struct qkv_bf16_block *list, size_t count) {
    for (size_t i = 0; i < count; i++) block(&list[i]);
}
#endif

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
