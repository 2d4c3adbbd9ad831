/* Products in fp32. */
#include "kernel/product.h"

static bool native(const struct qkv_kernels *kernels) {
    (void)kernels;
    return true;
}

const struct qkv_product qkv_product_f32 = {.name = "fp32",
                                            .help = "x and weights are multiplied and added in fp32",
                                            .promise = QKV_AS_FP32,
                                            .precision = QKV_FP32,
                                            .activation = QKV_F32,
                                            .form = QKV_F32,
                                            .native = native,
                                            .multiply = qkv_gemm,
                                            .sum = qkv_gemm_ordered,
                                            .carries = qkv_gemm_carries};
