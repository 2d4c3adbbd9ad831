/* simd_avx2.h: the vocabulary of simd.h for AVX2 with FMA, 8 lanes. */
#ifndef QKV_SIMD_AVX2_H
#define QKV_SIMD_AVX2_H

#define QKV_ISA_PROCESSORS_avx2 "x86_64|amd64|AMD64"
#define QKV_ISA_NEEDS_avx2      "avx avx2 fma f16c"
#define QKV_ISA_OPTIONS_avx2    "-mavx2 -mfma -mf16c"

#include <immintrin.h>

#define W 8

#define QKV_TILE_MR        6 /* 6 × 2 sums, 2 of B and 1 of A of 16 registers */
#define QKV_TILE_NV        2
#define QKV_FEW_TILE       6
#define QKV_ATTEND_VECTORS 2 /* the same tile */

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
typedef struct {
    __m256d low, high;
} vd;

QKV_INLINE vf vf_set(float s) {
    return _mm256_set1_ps(s);
}
QKV_INLINE vi vi_set(uint32_t s) {
    return _mm256_set1_epi32((int)s);
}
QKV_INLINE vi vi_iota(void) {
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
QKV_INLINE vm vm_first(size_t n) {
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n < W ? (int)n : W), vi_iota()));
}
/* True if the byte is not 0. */
QKV_INLINE vm vm_load_bytes(const uint8_t *p) {
    vi bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(bytes, _mm256_setzero_si256()));
}
/* The lanes as bits, the first one lowest; and back, from the lower W bits. */
QKV_INLINE uint32_t vm_bits(vm m) {
    return (uint32_t)_mm256_movemask_ps(m);
}
QKV_INLINE vm vm_from_bits(uint32_t bits) {
    const vi lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(vi_set(bits), lanes), lanes));
}
QKV_INLINE vf vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
QKV_INLINE void vf_store(float *p, vf a) {
    _mm256_storeu_ps(p, a);
}
/* Stores past the caches if p is aligned to a vector; vf_stores_end is called once after such stores. */
QKV_INLINE void vf_store_away(float *p, vf a) {
    if ((uintptr_t)p & 0x1f)
        vf_store(p, a);
    else
        _mm256_stream_ps(p, a);
}
QKV_INLINE void vf_stores_end(void) {
    _mm_sfence();
}
QKV_INLINE vf vf_load_n(const float *p, size_t n) {
    if (QKV_WHOLE(n)) return vf_load(p);
    return _mm256_maskload_ps(p, _mm256_castps_si256(vm_first(n)));
}
QKV_INLINE void vf_store_n(float *p, vf a, size_t n) {
    if (QKV_WHOLE(n)) {
        vf_store(p, a);
        return;
    }
    _mm256_maskstore_ps(p, _mm256_castps_si256(vm_first(n)), a);
}
QKV_INLINE vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
QKV_INLINE vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
QKV_INLINE vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
QKV_INLINE vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
QKV_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
QKV_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
QKV_INLINE vf vf_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
QKV_INLINE vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
QKV_INLINE vf vf_sqrt(vf a) {
    return _mm256_sqrt_ps(a);
}
QKV_INLINE vi vi_from_bits(vf a) {
    return _mm256_castps_si256(a);
}
QKV_INLINE vf vf_from_bits(vi a) {
    return _mm256_castsi256_ps(a);
}
QKV_INLINE vf vf_from_int(vi a) {
    return _mm256_cvtepi32_ps(a);
}
QKV_INLINE vm vf_lt(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
QKV_INLINE vm vf_le(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
QKV_INLINE vm vf_eq(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
QKV_INLINE vf vf_select(vm m, vf a, vf b) {
    return _mm256_blendv_ps(b, a, m);
}
QKV_INLINE vi vi_select(vm m, vi a, vi b) {
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}
QKV_INLINE vm vm_and(vm a, vm b) {
    return _mm256_and_ps(a, b);
}
QKV_INLINE vm vm_or(vm a, vm b) {
    return _mm256_or_ps(a, b);
}
QKV_INLINE vm vm_not(vm a) {
    return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}
QKV_INLINE bool vm_any(vm a) {
    return _mm256_movemask_ps(a) != 0;
}
QKV_INLINE vi vi_load(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
QKV_INLINE void vi_store(uint32_t *p, vi a) {
    _mm256_storeu_si256((__m256i *)(void *)p, a);
}
/* W 16-bit numbers, each in the lower half of a lane, with 0 in the upper halves; and back. */
QKV_INLINE vi vi_load_halves(const uint16_t *p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
QKV_INLINE void vi_store_halves(uint16_t *p, vi a) {
    __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storeu_si128((__m128i *)(void *)p, halves);
}
QKV_INLINE vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
QKV_INLINE vi vi_sub(vi a, vi b) {
    return _mm256_sub_epi32(a, b);
}
QKV_INLINE vi vi_and(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
QKV_INLINE vi vi_or(vi a, vi b) {
    return _mm256_or_si256(a, b);
}
QKV_INLINE vi vi_xor(vi a, vi b) {
    return _mm256_xor_si256(a, b);
}
QKV_INLINE vi vi_shl(vi a, int bits) {
    return _mm256_slli_epi32(a, bits);
}
QKV_INLINE vi vi_shr(vi a, int bits) {
    return _mm256_srli_epi32(a, bits);
}
QKV_INLINE vi vi_sar(vi a, int bits) {
    return _mm256_srai_epi32(a, bits);
}
QKV_INLINE vi vi_rotl(vi a, int bits) {
    return vi_or(vi_shl(a, bits), vi_shr(a, 32 - bits));
}
QKV_INLINE vm vi_eq(vi a, vi b) {
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
}
QKV_INLINE vm vi_ge(vi a, vi b) {
    return vi_eq(_mm256_max_epu32(a, b), a);
}

#define QKV_HAS_ANY_ADDRESS 1
QKV_INLINE vf vf_load_any(const void *p) {
    return vf_load(p);
}
#define QKV_HAS_SIGNED_BYTES 1
QKV_INLINE vf vf_load_signed_bytes(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
#define QKV_HAS_FOUR 1
QKV_INLINE vf vf_repeat_four(const float *four) {
    return _mm256_broadcast_ps((const __m128 *)(const void *)four);
}
QKV_INLINE vf vf_of_four(const float *four, vi which) {
    return _mm256_permutevar_ps(vf_repeat_four(four), which);
}
#define QKV_HAS_F16 1
QKV_INLINE vf f16_floats(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}
QKV_INLINE void f16_halves(uint16_t *x, vf v) {
    _mm_storeu_si128((__m128i *)(void *)x, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QKV_INLINE vf f16_of_words(vi words) {
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

/* A sum keeps its place in the order of additions: compilers reorder those of integers until the sums of a tile no
 * longer fit into registers. */
#define QKV_KEEP(sum) __asm__("" : "+x"(sum))
QKV_INLINE vi codes_load(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
QKV_INLINE vi codes_load_bytes(const unsigned char *p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
QKV_INLINE vi codes_load_twice(const unsigned char *p) {
    const vi bytes = codes_load_bytes(p);
    return _mm256_blend_epi16(bytes, _mm256_slli_epi32(bytes, 16), 0xaa);
}
QKV_INLINE vi codes_load_pairs(const unsigned char *p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}
QKV_INLINE vi codes_times(vi a, vi b) {
    return _mm256_mullo_epi32(a, b);
}
#if !defined(QKV_CODES_UNIT)
#define QKV_CODES_UNIT "pairs of 8-bit products"
#define QKV_CODES_TILE 4 /* 4 sums, totals and minimums, a code, a word of x and a mask of 16 registers */
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(code, x));
    QKV_KEEP(sum);
    return sum;
}
QKV_INLINE vi codes_offset(vi sum, vi pair, const int low) {
    return _mm256_add_epi16(sum, _mm256_mullo_epi16(pair, _mm256_set1_epi16((short)low)));
}
QKV_INLINE vi codes_dot_pairs(vi total, vi a, vi b) {
    return _mm256_add_epi32(total, _mm256_madd_epi16(a, b));
}
/* |code| is at most 128, |x| at most 127: two products fit in 16 bits. */
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    const vi pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
    total = codes_dot_pairs(total, pairs, _mm256_set1_epi16(1));
    QKV_KEEP(total);
    return total;
}
#endif

QKV_INLINE float vf_sum(vf a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
QKV_INLINE float vf_largest(vf a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
QKV_INLINE float vf_first(vf a) {
    return _mm_cvtss_f32(_mm256_castps256_ps128(a));
}
QKV_INLINE void vf_transpose(vf r[W]) {
    vf t[W];
    QKV_UNROLL
    for (int i = 0; i < W; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    vf u[W];
    QKV_UNROLL
    for (int i = 0; i < W; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    QKV_UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
/* The W × W floats whose rows are `stride` apart, transposed: r[i] is column i. A load combines rows i and i + 4 in one
 * vector, which saves a third of the shuffles. */
QKV_INLINE void vf_load_transposed(vf r[W], const float *p, size_t stride) {
    QKV_UNROLL
    for (size_t half = 0; half < W; half += 4) {
        vf a[4];
        QKV_UNROLL
        for (size_t i = 0; i < 4; i++)
            a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + i * stride + half)),
                                        _mm_loadu_ps(p + (i + 4) * stride + half), 1);
        vf b = _mm256_unpacklo_ps(a[0], a[1]), c = _mm256_unpackhi_ps(a[0], a[1]);
        vf d = _mm256_unpacklo_ps(a[2], a[3]), e = _mm256_unpackhi_ps(a[2], a[3]);
        r[half] = _mm256_shuffle_ps(b, d, 0x44);
        r[half + 1] = _mm256_shuffle_ps(b, d, 0xee);
        r[half + 2] = _mm256_shuffle_ps(c, e, 0x44);
        r[half + 3] = _mm256_shuffle_ps(c, e, 0xee);
    }
}
/* (a0 a1 a2 …), (b0 b1 b2 …) to (a0 b0 a1 b1 …) in two vectors, and back. */
QKV_INLINE void vf_zip(vf *a, vf *b) {
    vf low = _mm256_unpacklo_ps(*a, *b), high = _mm256_unpackhi_ps(*a, *b);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}
QKV_INLINE void vf_unzip(vf *a, vf *b) {
    vf low = _mm256_permute2f128_ps(*a, *b, 0x20), high = _mm256_permute2f128_ps(*a, *b, 0x31);
    *a = _mm256_shuffle_ps(low, high, 0x88);
    *b = _mm256_shuffle_ps(low, high, 0xdd);
}
QKV_INLINE void vi_zip(vi *a, vi *b) {
    vf c = _mm256_castsi256_ps(*a), d = _mm256_castsi256_ps(*b);
    vf_zip(&c, &d);
    *a = _mm256_castps_si256(c);
    *b = _mm256_castps_si256(d);
}

QKV_INLINE vd vd_zero(void) {
    return (vd){_mm256_setzero_pd(), _mm256_setzero_pd()};
}
QKV_INLINE vd vd_add(vd a, vd b) {
    return (vd){_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
}
QKV_INLINE vd vd_from_float(vf a) {
    return (vd){_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))};
}
QKV_INLINE vd vd_fma(vd a, vd b, vd c) {
    return (vd){_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
QKV_INLINE double vd_sum(vd a) {
    __m256d s = _mm256_add_pd(a.low, a.high);
    __m128d t = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
    return _mm_cvtsd_f64(_mm_add_sd(t, _mm_unpackhi_pd(t, t)));
}
#endif
