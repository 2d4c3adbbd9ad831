/* isa.h: declares what the files of this folder define for the kernel table of the current ISA, and for each other. */
#ifndef QKV_ISA_H
#define QKV_ISA_H

#include "kernel/kernel.h"
#include "kernel/isa/simd.h"

/* One instruction set may have several tables, which differ in how they multiply bf16: QKV_T(bf16_kernels) is that of
 * the table. */
#define QKV_T(name) QKV_JOIN(qkv_, name, QKV_TABLE_NAME)

#define QKV_KERNEL_PROTOTYPE(type, name, parameters) type QKV_K(name) parameters;
QKV_KERNEL_LIST(QKV_KERNEL_PROTOTYPE)

extern const struct qkv_gemm_kernels QKV_K(gemm_kernels);                       /* gemm.c */
extern const struct qkv_type_kernels QKV_K(type_kernels)[QKV_DTYPE_COUNT]; /* unpack.c */
extern const struct qkv_attend_kernels QKV_K(attend_kernels);                   /* attend.c */
extern const struct qkv_bf16_kernels QKV_T(bf16_kernels);                       /* bf16.c */
extern const struct qkv_attend_bf16_kernels QKV_T(attend_bf16_kernels);         /* attend_bf16_pack.c */
extern const struct qkv_kernels QKV_T(kernels);                                 /* table.c */

#endif
