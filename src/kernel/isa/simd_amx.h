/* simd_amx.h: AVX-512 with tiles of bf16 (AMX). A tile adds products in an order of its own, so attention over few keys
 * would not have the bits of the passes for any length: there is no such kernel. */
#ifndef QKV_SIMD_AMX_H
#define QKV_SIMD_AMX_H

#define QKV_ISA_BASE        avx512
#define QKV_ISA_COLUMNS(X)  X(bf16) X(attend_bf16)
#define QKV_ISA_NEEDS_amx   "avx512_bf16 amx_bf16 amx_tile"
#define QKV_ISA_OPTIONS_amx "-mavx512bf16 -mamx-tile -mamx-bf16"

#include "kernel/isa/avx512_bf16.h"

#define QKV_BF16_PRODUCTS "kernel/isa/bf16_amx.h"
#define QKV_BF16_FEW_TILE 0
#define QKV_BF16_STRIP    32 /* two tiles */

#endif
