/* simd_avx512.h: the vocabulary of simd.h for AVX-512 F, BW, DQ and VL, 16 lanes. */
#ifndef QKV_SIMD_AVX512_H
#define QKV_SIMD_AVX512_H

#define QKV_ISA_PROCESSORS_avx512 "x86_64|amd64|AMD64"
#define QKV_ISA_NEEDS_avx512      "avx avx2 fma f16c avx512f avx512bw avx512dq avx512vl"
/* Without the last one, gcc uses half vectors for its own loops. */
#define QKV_ISA_OPTIONS_avx512 "-mavx512bw -mavx512dq -mavx512vl -mfma -mavx2 -mf16c -mprefer-vector-width=512"

#if defined(QKV_EMULATE_X86) /* in tests only: the same intrinsics in portable C */
#include "emulate_x86.h"
#else
#include <immintrin.h>
#endif

#define W 16

#define QKV_TILE_MR        14 /* 14 × 2 sums, 2 of B and 1 of A of 32 registers */
#define QKV_TILE_NV        2
#define QKV_FEW_TILE       14
#define QKV_ATTEND_VECTORS 4 /* 6 × 4 sums, 4 of B and 1 of A */

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef struct {
    __m512d low, high;
} vd;

QKV_INLINE vf vf_set(float s) {
    return _mm512_set1_ps(s);
}
QKV_INLINE vi vi_set(uint32_t s) {
    return _mm512_set1_epi32((int)s);
}
QKV_INLINE vi vi_iota(void) {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
QKV_INLINE vm vm_first(size_t n) {
    return (vm)(n < W ? (1u << n) - 1 : 0xffffu);
}
/* True if the byte is not 0. */
QKV_INLINE vm vm_load_bytes(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm_test_epi8_mask(bytes, bytes);
}
/* The lanes as bits, the first one lowest; and back, from the lower W bits. */
QKV_INLINE uint32_t vm_bits(vm m) {
    return m;
}
QKV_INLINE vm vm_from_bits(uint32_t bits) {
    return (vm)bits;
}
QKV_INLINE vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
QKV_INLINE void vf_store(float *p, vf a) {
    _mm512_storeu_ps(p, a);
}
/* Stores past the caches if p is aligned to a vector; vf_stores_end is called once after such stores. */
QKV_INLINE void vf_store_away(float *p, vf a) {
#ifdef __AVX512F__ /* not in emulation */
    if (!((uintptr_t)p & 0x3f)) {
        _mm512_stream_ps(p, a);
        return;
    }
#endif
    vf_store(p, a);
}
QKV_INLINE void vf_stores_end(void) {
    _mm_sfence();
}
QKV_INLINE vf vf_load_n(const float *p, size_t n) {
    if (QKV_WHOLE(n)) return vf_load(p);
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
QKV_INLINE void vf_store_n(float *p, vf a, size_t n) {
    if (QKV_WHOLE(n)) {
        vf_store(p, a);
        return;
    }
    _mm512_mask_storeu_ps(p, vm_first(n), a);
}
QKV_INLINE vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
QKV_INLINE vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
QKV_INLINE vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
QKV_INLINE vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
QKV_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
QKV_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}
QKV_INLINE vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
QKV_INLINE vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
QKV_INLINE vf vf_sqrt(vf a) {
    return _mm512_sqrt_ps(a);
}
#if !defined(QKV_EMULATE_X86)
#define QKV_HAS_SCALE_POWER 1
/* p·2^n for shifted = n + 1.5·2^23 (vector_math.h). */
QKV_INLINE vf vf_scale_power(vf p, vf shifted) {
    return _mm512_scalef_ps(p, _mm512_sub_ps(shifted, _mm512_set1_ps(12582912.0f)));
}
#endif
QKV_INLINE vi vi_from_bits(vf a) {
    return _mm512_castps_si512(a);
}
QKV_INLINE vf vf_from_bits(vi a) {
    return _mm512_castsi512_ps(a);
}
QKV_INLINE vf vf_from_int(vi a) {
    return _mm512_cvtepi32_ps(a);
}
QKV_INLINE vm vf_lt(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
QKV_INLINE vm vf_le(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
QKV_INLINE vm vf_eq(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
QKV_INLINE vf vf_select(vm m, vf a, vf b) {
    return _mm512_mask_blend_ps(m, b, a);
}
QKV_INLINE vi vi_select(vm m, vi a, vi b) {
    return _mm512_mask_blend_epi32(m, b, a);
}
QKV_INLINE vm vm_and(vm a, vm b) {
    return (vm)(a & b);
}
QKV_INLINE vm vm_or(vm a, vm b) {
    return (vm)(a | b);
}
QKV_INLINE vm vm_not(vm a) {
    return (vm)(~a & 0xffff);
}
QKV_INLINE bool vm_any(vm a) {
    return a != 0;
}
QKV_INLINE vi vi_load(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
QKV_INLINE void vi_store(uint32_t *p, vi a) {
    _mm512_storeu_si512(p, a);
}
/* W 16-bit numbers, each in the lower half of a lane, with 0 in the upper halves; and back. */
QKV_INLINE vi vi_load_halves(const uint16_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
QKV_INLINE void vi_store_halves(uint16_t *p, vi a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(a));
}
#if !defined(QKV_EMULATE_X86)
#define QKV_HAS_HALVES_N 1
/* n < W halves; the others are 0. */
QKV_INLINE vi vi_load_halves_n(const uint16_t *p, size_t n) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vm_first(n), p));
}
QKV_INLINE void vi_store_halves_n(uint16_t *p, vi a, size_t n) {
    _mm256_mask_storeu_epi16(p, vm_first(n), _mm512_cvtepi32_epi16(a));
}
/* W words of two halves, of which n < 2W exist. */
QKV_INLINE vi vi_load_words_n(const uint16_t *p, size_t n) {
    return _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), p);
}
#endif
QKV_INLINE vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
QKV_INLINE vi vi_sub(vi a, vi b) {
    return _mm512_sub_epi32(a, b);
}
QKV_INLINE vi vi_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
QKV_INLINE vi vi_or(vi a, vi b) {
    return _mm512_or_si512(a, b);
}
QKV_INLINE vi vi_xor(vi a, vi b) {
    return _mm512_xor_si512(a, b);
}
QKV_INLINE vi vi_shl(vi a, int bits) {
    return _mm512_sllv_epi32(a, _mm512_set1_epi32(bits));
}
QKV_INLINE vi vi_shr(vi a, int bits) {
    return _mm512_srlv_epi32(a, _mm512_set1_epi32(bits));
}
QKV_INLINE vi vi_sar(vi a, int bits) {
    return _mm512_srav_epi32(a, _mm512_set1_epi32(bits));
}
QKV_INLINE vi vi_rotl(vi a, int bits) {
    return _mm512_rolv_epi32(a, _mm512_set1_epi32(bits));
}
QKV_INLINE vm vi_eq(vi a, vi b) {
    return _mm512_cmpeq_epi32_mask(a, b);
}
QKV_INLINE vm vi_ge(vi a, vi b) {
    return _mm512_cmpge_epu32_mask(a, b);
}

#define QKV_HAS_ADD_UNLESS 1
QKV_INLINE vi vi_add_unless(vm m, vi a, vi b) {
    return _mm512_maskz_add_epi32(vm_not(m), a, b);
}
#define QKV_HAS_ANY_ADDRESS 1
QKV_INLINE vf vf_load_any(const void *p) {
    return vf_load(p);
}
#if !defined(QKV_EMULATE_X86)
#define QKV_HAS_SIGNED_BYTES 1
QKV_INLINE vf vf_load_signed_bytes(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
#endif
#define QKV_HAS_FOUR 1
QKV_INLINE vf vf_repeat_four(const float *four) {
    return _mm512_broadcast_f32x4(_mm_loadu_ps(four));
}
QKV_INLINE vf vf_of_four(const float *four, vi which) {
#if defined(QKV_EMULATE_X86) /* SIMDe has no other */
    return _mm512_permutexvar_ps(which, vf_repeat_four(four));
#else
    return _mm512_permutevar_ps(vf_repeat_four(four), which);
#endif
}
#define QKV_HAS_F16 1
QKV_INLINE vf f16_floats(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}
QKV_INLINE void f16_halves(uint16_t *x, vf v) {
    _mm256_storeu_si256((__m256i *)(void *)x, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QKV_INLINE vf f16_of_words(vi words) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}

QKV_INLINE __m256 vf_low_half(vf a) {
    return _mm512_castps512_ps256(a);
}
QKV_INLINE __m256 vf_high_half(vf a) {
    return _mm512_extractf32x8_ps(a, 1);
}
QKV_INLINE float vf_sum(vf a) {
    __m256 h = _mm256_add_ps(vf_low_half(a), vf_high_half(a));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
QKV_INLINE float vf_largest(vf a) {
    __m256 h = _mm256_max_ps(vf_low_half(a), vf_high_half(a));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
QKV_INLINE float vf_first(vf a) {
    return _mm_cvtss_f32(_mm512_castps512_ps128(a));
}
QKV_INLINE void vf_transpose(vf r[W]) {
    vf t[W];
    QKV_UNROLL
    for (int i = 0; i < W; i += 4) {
        vf a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        vf c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    /* t[4g + j] holds, in its quarter q, rows 4g…4g+3 of column 4q + j: a 4×4 transpose of quarters remains. */
    QKV_UNROLL
    for (int j = 0; j < 4; j++) {
        vf a = _mm512_shuffle_f32x4(t[j], t[j + 4], 0x44), b = _mm512_shuffle_f32x4(t[j + 8], t[j + 12], 0x44);
        vf c = _mm512_shuffle_f32x4(t[j], t[j + 4], 0xee), d = _mm512_shuffle_f32x4(t[j + 8], t[j + 12], 0xee);
        r[j] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[j + 4] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[j + 8] = _mm512_shuffle_f32x4(c, d, 0x88);
        r[j + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}
/* The W × W floats whose rows are `stride` apart, transposed: r[i] is column i. */
QKV_INLINE void vf_load_transposed(vf r[W], const float *p, size_t stride) {
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) r[i] = vf_load(p + i * stride);
    vf_transpose(r);
}
/* (a0 a1 a2 …), (b0 b1 b2 …) to (a0 b0 a1 b1 …) in two vectors, and back. */
QKV_INLINE void vf_zip(vf *a, vf *b) {
    vi low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    vi high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    vf c = _mm512_permutex2var_ps(*a, low, *b);
    *b = _mm512_permutex2var_ps(*a, high, *b);
    *a = c;
}
QKV_INLINE void vf_unzip(vf *a, vf *b) {
    vi even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    vi odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    vf c = _mm512_permutex2var_ps(*a, even, *b);
    *b = _mm512_permutex2var_ps(*a, odd, *b);
    *a = c;
}
QKV_INLINE void vi_zip(vi *a, vi *b) {
    vf c = _mm512_castsi512_ps(*a), d = _mm512_castsi512_ps(*b);
    vf_zip(&c, &d);
    *a = _mm512_castps_si512(c);
    *b = _mm512_castps_si512(d);
}

QKV_INLINE vd vd_zero(void) {
    return (vd){_mm512_setzero_pd(), _mm512_setzero_pd()};
}
QKV_INLINE vd vd_add(vd a, vd b) {
    return (vd){_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}
QKV_INLINE vd vd_from_float(vf a) {
    return (vd){_mm512_cvtps_pd(vf_low_half(a)), _mm512_cvtps_pd(vf_high_half(a))};
}
QKV_INLINE vd vd_fma(vd a, vd b, vd c) {
    return (vd){_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
}
QKV_INLINE double vd_sum(vd a) {
    __m512d s = _mm512_add_pd(a.low, a.high);
    __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd(s, 1));
    __m128d t = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(t, _mm_unpackhi_pd(t, t)));
}

/* A sum keeps its place in the order of additions: compilers reorder those of integers until the sums of a tile no
 * longer fit into registers. */
#if defined(QKV_EMULATE_X86)
#define QKV_KEEP(sum) ((void)(sum))
#else
#define QKV_KEEP(sum) __asm__("" : "+v"(sum))
#endif
QKV_INLINE vi codes_load(const unsigned char *p) {
    return _mm512_loadu_si512(p);
}
QKV_INLINE vi codes_load_bytes(const unsigned char *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
QKV_INLINE vi codes_load_twice(const unsigned char *p) {
    const vi bytes = codes_load_bytes(p);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, bytes, _mm512_slli_epi32(bytes, 16));
}
QKV_INLINE vi codes_load_pairs(const unsigned char *p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
QKV_INLINE vi codes_times(vi a, vi b) {
    return _mm512_mullo_epi32(a, b);
}
/* x with the signs of codes. */
QKV_INLINE vi codes_signed(vi x, vi code) {
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(code), _mm512_setzero_si512(), x);
}
#if !defined(QKV_CODES_UNIT)
#define QKV_CODES_UNIT "pairs of 8-bit products"
#define QKV_CODES_TILE 8 /* 8 sums, totals and minimums, a code, a word of x and a mask of 32 registers */
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(code, x));
    QKV_KEEP(sum);
    return sum;
}
QKV_INLINE vi codes_offset(vi sum, vi pair, const int low) {
    return _mm512_add_epi16(sum, _mm512_mullo_epi16(pair, _mm512_set1_epi16((short)low)));
}
QKV_INLINE vi codes_dot_pairs(vi total, vi a, vi b) {
    return _mm512_add_epi32(total, _mm512_madd_epi16(a, b));
}
/* |code| is at most 128, |x| at most 127: two products fit in 16 bits. */
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    const vi pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(code), codes_signed(x, code));
    total = codes_dot_pairs(total, pairs, _mm512_set1_epi16(1));
    QKV_KEEP(total);
    return total;
}
#endif

#endif
