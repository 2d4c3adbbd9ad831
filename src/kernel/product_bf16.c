/* Products of numbers rounded to bf16, added in fp32. */
#include "kernel/isa/bf16.h"

static bool native(const struct qkv_kernels *kernels) {
    return kernels->bf16->native;
}

static void rounded(const struct qkv_context *ctx, void *out, const float *x, size_t n) {
    qkv_bf16_round(ctx, out, x, n);
}

static const struct qkv_attend_bf16_kernels *attend(const struct qkv_kernels *kernels) {
    return kernels->attend_bf16;
}

const struct qkv_product qkv_product_bf16 = {.name = "bf16",
                                             .help = "x and weights are rounded to bf16, multiplied, and added in fp32",
                                             .promise = QKV_AS_FP32,
                                             .precision = QKV_MIXED_BF16,
                                             .activation = QKV_BF16,
                                             .form = QKV_BF16,
                                             .rounds = true,
                                             .round = rounded,
                                             .native = native,
                                             .packed_bytes = qkv_bf16_packed_bytes,
                                             .pack = qkv_bf16_pack,
                                             .multiply = qkv_gemm_bf16,
                                             .sum = qkv_gemm_bf16_ordered,
                                             .carries = qkv_gemm_bf16_carries,
                                             .attend = attend};
