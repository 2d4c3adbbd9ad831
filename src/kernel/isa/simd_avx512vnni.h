/* simd_avx512vnni.h: AVX-512 with sums of four products of 8 bits (AVX-512 VNNI). */
#ifndef QKV_SIMD_AVX512VNNI_H
#define QKV_SIMD_AVX512VNNI_H

#define QKV_ISA_BASE               avx512
#define QKV_ISA_COLUMNS(X)         X(codes)
#define QKV_ISA_NEEDS_avx512vnni   "avx512_vnni"
#define QKV_ISA_OPTIONS_avx512vnni "-mavx512vnni"

#define QKV_CODES_UNIT  "8-bit dot products"
#define QKV_CODES_WHOLE 1
#define QKV_CODES_TILE  8
#include "kernel/isa/simd_avx512.h"

/* Sums are integers of 32 bits. */
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    sum = _mm512_dpbusd_epi32(sum, code, x);
    QKV_KEEP(sum);
    return sum;
}
QKV_INLINE vi codes_dot_pairs(vi total, vi a, vi b) {
    return _mm512_dpwssd_epi32(total, a, b);
}
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    return codes_dot(total, _mm512_abs_epi8(code), codes_signed(x, code));
}

#endif
