/* Products of weights whose blocks are integers with scales, and x in blocks of 256: parts in blocks of 256, and beside
 * them parts in blocks of 32. */
#include "kernel/isa/codes.h"

static bool native(const struct qkv_kernels *kernels) {
    return kernels->codes->native;
}

static bool serves(enum qkv_dtype type) {
    return qkv_types[type]->codes;
}

static void rounded(const struct qkv_context *ctx, void *out, const float *x, size_t n) {
    qkv_codes_round(ctx, QKV_I8_256, out, x, n);
}

const struct qkv_product qkv_product_codes256 = {
    .name = "codes256",
    .help = "x is blocks of 256 integers with scales, weights are blocks of 256 or 32, added exactly",
    .promise = QKV_EXACT_BLOCKS,
    .precision = -1,
    .serves = serves,
    .activation = QKV_F32,
    .form = QKV_I8_256,
    .round = rounded,
    .native = native,
    .packed_bytes = qkv_codes_packed_bytes,
    .pack = qkv_codes_pack,
    .multiply = qkv_gemm_codes};
