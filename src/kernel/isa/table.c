/* table.c: the kernel table of one ISA. */
#include "kernel/isa/isa.h"

#define TABLE_ENTRY(type, name, parameters) .name = QKV_K(name),

const struct qkv_kernels QKV_K(kernels) = {
    .isa = QKV_TEXT(QKV_ISA_NAME),
    .width = W,
    QKV_KERNEL_LIST(TABLE_ENTRY).gemm = &QKV_K(gemm_kernels),
    .attend = &QKV_K(attend_kernels),
};
