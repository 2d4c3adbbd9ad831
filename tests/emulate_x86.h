/* emulate_x86.h: AVX-512, AVX-512 BF16 and AMX in portable C, so that their kernels can run, slowly, on other
 * machines (scripts/test-x86). AVX-512 is SIMDe's (https://github.com/simd-everywhere/simde); what SIMDe lacks, and
 * the eight tiles of AMX, follow Intel's Intrinsics Guide. */
#ifndef QKV_EMULATE_X86_H
#define QKV_EMULATE_X86_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- AVX-512: what SIMDe 0.7 lacks ------------------------------------------------------------------------------ */

static inline __m256i emulated_cvtepi32_epi16(__m512i a) {
    uint32_t words[16];
    uint16_t halves[16];
    memcpy(words, &a, sizeof words);
    for (int i = 0; i < 16; i++) halves[i] = (uint16_t)words[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)halves);
}
static inline __m512i emulated_cvtepu16_epi32(__m256i a) {
    uint16_t halves[16];
    uint32_t words[16];
    memcpy(halves, &a, sizeof halves);
    for (int i = 0; i < 16; i++) words[i] = halves[i];
    return _mm512_loadu_si512(words);
}
static inline __m512i emulated_cvtepi8_epi32(__m128i a) {
    int8_t bytes[16];
    int32_t words[16];
    memcpy(bytes, &a, sizeof bytes);
    for (int i = 0; i < 16; i++) words[i] = bytes[i];
    return _mm512_loadu_si512(words);
}
/* In each word, a + b0·c0 + b1·c1 of halves with signs. */
static inline __m512i emulated_dpwssd(__m512i a, __m512i b, __m512i c) {
    int32_t words[16];
    int16_t left[32], right[32];
    memcpy(words, &a, sizeof words), memcpy(left, &b, sizeof left), memcpy(right, &c, sizeof right);
    for (int i = 0; i < 16; i++)
        words[i] = (int32_t)((uint32_t)words[i] + (uint32_t)(left[2 * i] * right[2 * i]) +
                             (uint32_t)(left[2 * i + 1] * right[2 * i + 1]));
    return _mm512_loadu_si512(words);
}
static inline __m512i emulated_madd_epi16(__m512i b, __m512i c) {
    return emulated_dpwssd(_mm512_setzero_si512(), b, c);
}
/* In each word, a and the four products of bytes: without signs in b, with signs in c. */
static inline __m512i emulated_dpbusd(__m512i a, __m512i b, __m512i c) {
    int32_t words[16];
    uint8_t left[64];
    int8_t right[64];
    memcpy(words, &a, sizeof words), memcpy(left, &b, sizeof left), memcpy(right, &c, sizeof right);
    for (int i = 0; i < 64; i++) words[i / 4] = (int32_t)((uint32_t)words[i / 4] + (uint32_t)(left[i] * right[i]));
    return _mm512_loadu_si512(words);
}
static inline __m256i emulated_dpbusd_avx(__m256i a, __m256i b, __m256i c) {
    return _mm512_castsi512_si256(
        emulated_dpbusd(_mm512_castsi256_si512(a), _mm512_castsi256_si512(b), _mm512_castsi256_si512(c)));
}
static inline __m256i emulated_dpwssd_avx(__m256i a, __m256i b, __m256i c) {
    return _mm512_castsi512_si256(
        emulated_dpwssd(_mm512_castsi256_si512(a), _mm512_castsi256_si512(b), _mm512_castsi256_si512(c)));
}
static inline __m512 emulated_cvtph_ps(__m256i a) {
    _Float16 halves[16];
    float floats[16];
    memcpy(halves, &a, sizeof halves);
    for (int i = 0; i < 16; i++) floats[i] = (float)halves[i];
    return _mm512_loadu_ps(floats);
}
static inline __m256i emulated_cvtps_ph(__m512 a, int rounding) { /* to nearest even, as is asked for everywhere */
    float floats[16];
    _Float16 halves[16];
    (void)rounding;
    memcpy(floats, &a, sizeof floats);
    for (int i = 0; i < 16; i++) halves[i] = (_Float16)floats[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)halves);
}
static inline __m512 emulated_cvtepi32_ps(__m512i a) {
    int32_t words[16];
    float floats[16];
    memcpy(words, &a, sizeof words);
    for (int i = 0; i < 16; i++) floats[i] = (float)words[i];
    return _mm512_loadu_ps(floats);
}
static inline __m512d emulated_cvtps_pd(__m256 a) {
    float floats[8];
    double doubles[8];
    memcpy(floats, &a, sizeof floats);
    for (int i = 0; i < 8; i++) doubles[i] = (double)floats[i];
    return _mm512_loadu_pd(doubles);
}
static inline __m256 emulated_extractf32x8_ps(__m512 a, int half) {
    float floats[16];
    memcpy(floats, &a, sizeof floats);
    return _mm256_loadu_ps(floats + 8 * half);
}
static inline void emulated_mask_storeu_ps(void *p, uint16_t mask, __m512 a) {
    float floats[16];
    memcpy(floats, &a, sizeof floats);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)p + 4 * i, floats + i, 4);
}
static inline __m512 emulated_maskz_loadu_ps(uint16_t mask, const void *p) {
    float floats[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(floats + i, (const char *)p + 4 * i, 4);
    return _mm512_loadu_ps(floats);
}
static inline __m512 emulated_shuffle_f32x4(__m512 a, __m512 b, int order) {
    float from[32], to[16];
    memcpy(from, &a, 64);
    memcpy(from + 16, &b, 64);
    for (int i = 0; i < 4; i++) memcpy(to + 4 * i, from + (i < 2 ? 0 : 16) + 4 * (order >> 2 * i & 3), 16);
    return _mm512_loadu_ps(to);
}
static inline __m512i emulated_srav_epi32(__m512i a, __m512i b) {
    int32_t words[16], counts[16];
    memcpy(words, &a, sizeof words);
    memcpy(counts, &b, sizeof counts);
    for (int i = 0; i < 16; i++) words[i] >>= (uint32_t)counts[i] > 31 ? 31 : counts[i];
    return _mm512_loadu_si512(words);
}
static inline uint16_t emulated_test_epi8_mask(__m128i a, __m128i b) {
    uint8_t x[16], y[16];
    uint16_t mask = 0;
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < 16; i++) mask |= (uint16_t)((x[i] & y[i]) != 0) << i;
    return mask;
}

/* ---- AVX-512 BF16: rounding to nearest even, what is subnormal becoming 0 --------------------------------------- */

static inline uint16_t emulated_round_bf16(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
    if ((bits & 0x7f800000u) == 0) return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/* b in the lower half, a in the upper one. */
static inline __m512i emulated_cvtne2ps_pbh(__m512 a, __m512 b) {
    uint32_t words[32];
    uint16_t halves[32];
    memcpy(words, &b, 64);
    memcpy(words + 16, &a, 64);
    for (int i = 0; i < 32; i++) halves[i] = emulated_round_bf16(words[i]);
    return _mm512_loadu_si512(halves);
}
static inline __m512i emulated_permutexvar_epi16(__m512i order, __m512i a) {
    uint16_t places[32], from[32], to[32];
    memcpy(places, &order, 64);
    memcpy(from, &a, 64);
    for (int i = 0; i < 32; i++) to[i] = from[places[i] & 31];
    return _mm512_loadu_si512(to);
}

/* ---- AMX: eight tiles of up to 16 rows of 64 bytes, for each thread --------------------------------------------- */

struct emulated_tiles {
    uint8_t bytes[8][16][64];
    uint8_t rows[8];
    uint16_t columns[8]; /* bytes */
    int configured;
};
static _Thread_local struct emulated_tiles emulated;

static inline void emulated_tile_check(int t) {
    if (!emulated.configured || t < 0 || t > 7 || !emulated.rows[t]) __builtin_trap();
}
static inline void emulated_loadconfig(const void *config) {
    const uint8_t *bytes = config;
    if (bytes[0] != 1) __builtin_trap();
    memset(&emulated, 0, sizeof emulated);
    for (int t = 0; t < 8; t++) {
        memcpy(&emulated.columns[t], bytes + 16 + 2 * t, 2);
        emulated.rows[t] = bytes[48 + t];
        if (emulated.rows[t] > 16 || emulated.columns[t] > 64) __builtin_trap();
    }
    emulated.configured = 1;
}
static inline void emulated_release(void) {
    memset(&emulated, 0, sizeof emulated);
}
static inline void emulated_zero(int t) {
    emulated_tile_check(t);
    memset(emulated.bytes[t], 0, sizeof emulated.bytes[t]);
}
static inline void emulated_loadd(int t, const void *base, size_t stride) {
    emulated_tile_check(t);
    memset(emulated.bytes[t], 0, sizeof emulated.bytes[t]);
    for (int r = 0; r < emulated.rows[t]; r++)
        memcpy(emulated.bytes[t][r], (const char *)base + (size_t)r * stride, emulated.columns[t]);
}
static inline void emulated_stored(int t, void *base, size_t stride) {
    emulated_tile_check(t);
    for (int r = 0; r < emulated.rows[t]; r++)
        memcpy((char *)base + (size_t)r * stride, emulated.bytes[t][r], emulated.columns[t]);
}
static inline float emulated_bf16(const uint8_t *at) {
    uint16_t half;
    memcpy(&half, at, 2);
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
/* The products of even terms are one chain of fused multiply-adds from zero, those of odd terms another; the two are
 * added, and then added to the sum. Subnormal numbers count as 0. */
static inline void emulated_dpbf16ps(int c, int a, int b) {
    emulated_tile_check(c), emulated_tile_check(a), emulated_tile_check(b);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    for (int m = 0; m < emulated.rows[c]; m++) {
        for (int n = 0; n < emulated.columns[c] / 4; n++) {
            float sum, chain[2] = {0};
            for (int k = 0; k < emulated.columns[a] / 4; k++)
                for (int i = 0; i < 2; i++)
                    chain[i] = fmaf(emulated_bf16(&emulated.bytes[a][m][4 * k + 2 * i]),
                                    emulated_bf16(&emulated.bytes[b][k][4 * n + 2 * i]), chain[i]);
            memcpy(&sum, &emulated.bytes[c][m][4 * n], 4);
            sum += chain[0] + chain[1];
            memcpy(&emulated.bytes[c][m][4 * n], &sum, 4);
        }
    }
    _mm_setcsr(before);
}

/* The compiler has these names too, some of them as macros. */
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 emulated_cvtepi32_epi16
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 emulated_madd_epi16
#undef _mm512_dpwssd_epi32
#define _mm512_dpwssd_epi32 emulated_dpwssd
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32 emulated_dpbusd
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd_avx
#undef _mm256_dpwssd_avx_epi32
#define _mm256_dpwssd_avx_epi32 emulated_dpwssd_avx
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emulated_cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph emulated_cvtps_ph
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#undef _mm512_cvtps_pd
#define _mm512_cvtps_pd emulated_cvtps_pd
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps emulated_extractf32x8_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#undef _mm512_srav_epi32
#define _mm512_srav_epi32 emulated_srav_epi32
#undef _mm512_cvtne2ps_pbh
#define _mm512_cvtne2ps_pbh emulated_cvtne2ps_pbh
#undef _mm512_permutexvar_epi16
#define _mm512_permutexvar_epi16 emulated_permutexvar_epi16
#undef _mm_test_epi8_mask
#define _mm_test_epi8_mask emulated_test_epi8_mask
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_loadconfig
#define _tile_release    emulated_release
#define _tile_zero       emulated_zero
#define _tile_loadd      emulated_loadd
#define _tile_stored     emulated_stored
#define _tile_dpbf16ps   emulated_dpbf16ps

#endif
