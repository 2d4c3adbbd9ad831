/* simd_avx512bf16.h: AVX-512 with products of bf16 (AVX-512 BF16). */
#ifndef QKV_SIMD_AVX512BF16_H
#define QKV_SIMD_AVX512BF16_H

#define QKV_ISA_BASE               avx512
#define QKV_ISA_COLUMNS(X)         X(bf16) X(attend_bf16)
#define QKV_ISA_NEEDS_avx512bf16   "avx512_bf16"
#define QKV_ISA_OPTIONS_avx512bf16 "-mavx512bf16"
/* A dot product of words (vdpbf16ps) takes two cycles there, in which two FMAs a cycle do twice as many FLOPs; it has
 * the FLOPs of FMAs or twice as many on processors of AMD. */
#define QKV_ISA_SLOWER "GenuineIntel"

#include "kernel/isa/avx512_bf16.h"

#define QKV_BF16_PRODUCTS "kernel/isa/bf16_dot_tile.h"
#define QKV_BF16_FEW_TILE 14

#endif
