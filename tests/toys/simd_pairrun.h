/* A toy: columns for the instruction set "pair". Its products of bf16 have runs of 128 terms. */
#ifndef QKV_SIMD_PAIRRUN_H
#define QKV_SIMD_PAIRRUN_H

#define QKV_ISA_BASE            pair
#define QKV_ISA_COLUMNS(X)      X(bf16)
#define QKV_ISA_NEEDS_pairrun   ""
#define QKV_ISA_OPTIONS_pairrun ""

#include "kernel/isa/simd_pair.h"

#define QKV_BF16_RUN 128

#endif
