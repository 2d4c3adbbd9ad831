/* isa.h: declares what the files of this folder define for the kernel table of the current ISA, and for each other. */
#ifndef QKV_ISA_H
#define QKV_ISA_H

#include "kernel/isa/simd.h"
#include "kernel/tables.h"

/* An entry of QKV_ISA_LIST may have a base: it adds columns to the kernels of another one, or replaces them all.
 * QKV_T(name) is the entry's own; QKV_K(name) is that of the base if only columns are added, else also its own. */
#define QKV_T(name) QKV_JOIN(qkv_, name, QKV_TABLE_NAME)

#define QKV_KERNEL_PROTOTYPE(type, name, parameters) type QKV_K(name) parameters;
QKV_KERNEL_LIST(QKV_KERNEL_PROTOTYPE)

extern const struct qkv_gemm_kernels QKV_K(gemm_kernels);                  /* gemm_tiles.c */
extern const struct qkv_type_kernels QKV_K(type_kernels)[QKV_DTYPE_COUNT]; /* unpack.c */
extern const struct qkv_attend_kernels QKV_K(attend_kernels);              /* attend_table.c */
extern const struct qkv_bf16_kernels QKV_T(bf16_kernels);                  /* bf16.c */
extern const struct qkv_attend_bf16_kernels QKV_T(attend_bf16_kernels);    /* attend_bf16_table.c */
extern const struct qkv_codes_kernels QKV_T(codes_kernels);                /* codes.c */
extern const struct qkv_isa QKV_T(isa);                                    /* table.c */

#endif
