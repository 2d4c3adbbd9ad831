/* table.c: one kernel table. */
#include "kernel/isa/isa.h"

#define TABLE_ENTRY(type, name, parameters) .name = QKV_K(name),

const struct qkv_kernels QKV_T(kernels) = {
    .isa = QKV_TEXT(QKV_TABLE_NAME),
    .width = W,
    QKV_KERNEL_LIST(TABLE_ENTRY).gemm = &QKV_K(gemm_kernels),
    .bf16 = &QKV_T(bf16_kernels),
    .attend = &QKV_K(attend_kernels),
    .attend_bf16 = &QKV_T(attend_bf16_kernels),
    .types = QKV_K(type_kernels),
};
