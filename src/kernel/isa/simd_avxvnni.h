/* simd_avxvnni.h: AVX2 with sums of four products of 8 bits (AVX-VNNI). */
#ifndef QKV_SIMD_AVXVNNI_H
#define QKV_SIMD_AVXVNNI_H

#define QKV_ISA_BASE            avx2
#define QKV_ISA_COLUMNS(X)      X(codes)
#define QKV_ISA_NEEDS_avxvnni   "avx_vnni"
#define QKV_ISA_OPTIONS_avxvnni "-mavxvnni"

#define QKV_CODES_UNIT  "8-bit dot products"
#define QKV_CODES_WHOLE 1
#define QKV_CODES_TILE  4
#if defined(QKV_EMULATE_X86) /* in tests only */
#include "emulate_x86.h"
#endif
#include "kernel/isa/simd_avx2.h"

/* Sums are integers of 32 bits. */
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    sum = _mm256_dpbusd_avx_epi32(sum, code, x);
    QKV_KEEP(sum);
    return sum;
}
QKV_INLINE vi codes_dot_pairs(vi total, vi a, vi b) {
    return _mm256_dpwssd_avx_epi32(total, a, b);
}
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    return codes_dot(total, _mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
}

#endif
