/* table.c: one entry of QKV_ISA_LIST: the kernels of an instruction set, or some or all columns for one. */
#include "kernel/isa/isa.h"

#define TABLE_KERNEL(type, name, parameters) .name = QKV_K(name),
#define TABLE_COLUMN(name)                   .name = &QKV_T(name##_kernels),

static const struct qkv_kernels kernels = {
#if defined(QKV_ISA_BASE) && !defined(QKV_ISA_WHOLE)
    QKV_ISA_COLUMNS(TABLE_COLUMN)
#else
    .width = W,
    .gemm = &QKV_K(gemm_kernels),
    .attend = &QKV_K(attend_kernels),
    .types = QKV_K(type_kernels),
    QKV_KERNEL_LIST(TABLE_KERNEL) QKV_COLUMN_LIST(TABLE_COLUMN)
#endif
};

const struct qkv_isa QKV_T(isa) = {
    .name = QKV_TEXT(QKV_TABLE_NAME),
#if defined(QKV_ISA_BASE)
    .base = QKV_TEXT(QKV_ISA_BASE),
#endif
#if defined(QKV_ISA_SLOWER)
    .slower = QKV_ISA_SLOWER,
#endif
    .needs = QKV_PASTE(QKV_ISA_NEEDS_, QKV_TABLE_NAME),
    .kernels = &kernels,
};
