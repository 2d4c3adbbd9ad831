/* avx512_bf16.h: the instructions of AVX-512 BF16, for tables that add them to AVX-512. They read and write subnormal
 * numbers as 0, and round sums to nearest, whatever the program has set. */
#ifndef QKV_AVX512_BF16_H
#define QKV_AVX512_BF16_H

#include "kernel/isa/simd_avx512.h"

#define QKV_HAS_BF16_ROUND 1
QKV_INLINE vi rounded_words(vf a, vf b) {
    return (vi)_mm512_cvtne2ps_pbh(b, a);
}
QKV_INLINE vi words_of(vf even, vf odd) {
    const vi lanes = vi_iota();
    return _mm512_permutexvar_epi16(vi_or(lanes, vi_shl(vi_add(lanes, vi_set(W)), 16)),
                                    (vi)_mm512_cvtne2ps_pbh(odd, even));
}

#define QKV_HAS_BF16_DOT 1
QKV_INLINE vf dot_words(vf sum, vi a, vi b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

#endif
