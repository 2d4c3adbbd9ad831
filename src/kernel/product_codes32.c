/* Products of weights whose blocks are 32 integers with a scale, and x in the same blocks. */
#include "kernel/isa/codes.h"

static bool native(const struct qkv_kernels *kernels) {
    return kernels->codes->native;
}

static bool serves(enum qkv_dtype type) {
    return qkv_types[type]->codes && qkv_types[type]->block == 32;
}

static void rounded(const struct qkv_context *ctx, void *out, const float *x, size_t n) {
    qkv_codes_round(ctx, QKV_I8_32, out, x, n);
}

const struct qkv_product qkv_product_codes32 = {
    .name = "codes32",
    .help = "x and weights are blocks of 32 integers with scales, added exactly",
    .promise = QKV_EXACT_BLOCKS,
    .precision = -1,
    .serves = serves,
    .activation = QKV_F32,
    .form = QKV_I8_32,
    .round = rounded,
    .native = native,
    .packed_bytes = qkv_codes_packed_bytes,
    .pack = qkv_codes_pack,
    .multiply = qkv_gemm_codes};
