/* simd_scalarfma.h: the kernels of simd_scalar.h, compiled for x86 processors that fuse multiply-adds: the same bits,
 * sooner. */
#ifndef QKV_SIMD_SCALARFMA_H
#define QKV_SIMD_SCALARFMA_H

#define QKV_ISA_BASE                 scalar
#define QKV_ISA_WHOLE                1
#define QKV_ISA_PROCESSORS_scalarfma "x86_64|amd64|AMD64"
#define QKV_ISA_NEEDS_scalarfma      "avx fma"
#define QKV_ISA_OPTIONS_scalarfma    "-mavx -mfma"

#include "kernel/isa/simd_scalar.h"

#endif
