/* simd_neondot.h: NEON with sums of four products of 8 bits (FEAT_DotProd). */
#ifndef QKV_SIMD_NEONDOT_H
#define QKV_SIMD_NEONDOT_H

#define QKV_ISA_BASE            neon
#define QKV_ISA_COLUMNS(X)      X(codes)
#define QKV_ISA_NEEDS_neondot   "asimddp"
#define QKV_ISA_OPTIONS_neondot "-march=armv8.2-a+dotprod"

#define QKV_CODES_UNIT  "8-bit dot products"
#define QKV_CODES_WHOLE 1
#define QKV_CODES_TILE  8
#include "kernel/isa/simd_neon.h"

/* Sums are integers of 32 bits. */
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    return vreinterpretq_u32_s32(
        vdotq_s32(vreinterpretq_s32_u32(sum), vreinterpretq_s8_u32(code), vreinterpretq_s8_u32(x)));
}
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    return codes_dot(total, code, x);
}

#endif
