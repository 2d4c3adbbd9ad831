/* simd.h: the vector vocabulary of all kernels, defined for the current ISA.
 *
 *   vf   W floats            vi   W 32-bit integers (unsigned arithmetic)
 *   vm   W truth values      vd   W doubles (for sums that must not lose bits)
 *
 * Loads and stores need no alignment. The ..._n forms touch the first n lanes of memory only (n >= W: all), other lanes
 * load as 0; they use the same vector arithmetic, so a tail gives the same bits as the body. min, max and the
 * comparisons mean the same in every ISA: min(a, b) = a < b ? a : b, so b is returned if either is NaN. The scalar
 * version has no fused multiply-add: its fma rounds twice.
 *
 * One file for each ISA defines the primitives; functions built from them (reductions, exp, tanh, erf) are in
 * math.h. */
#ifndef QKV_SIMD_H
#define QKV_SIMD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QKV_JOIN3(a, b, c)     a##b##_##c
#define QKV_JOIN(a, name, isa) QKV_JOIN3(a, name, isa)
/* QKV_K(add) is qkv_add_avx2 if the ISA is avx2. */
#define QKV_K(name) QKV_JOIN(qkv_, name, QKV_ISA_NAME)
/* The ISA's name as a string. */
#define QKV_TEXT2(a) #a
#define QKV_TEXT(a)  QKV_TEXT2(a)

#if defined(__clang__)
#define QKV_INLINE      static inline __attribute__((always_inline))
#define QKV_UNROLL_LOOP _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define QKV_INLINE      static inline __attribute__((always_inline))
#define QKV_UNROLL_LOOP _Pragma("GCC unroll 16")
#else
#define QKV_INLINE static inline
#define QKV_UNROLL_LOOP
#endif
#ifdef QKV_SANITIZE /* checks around every access of every copy would take minutes to compile */
#define QKV_UNROLL
#else
#define QKV_UNROLL QKV_UNROLL_LOOP
#endif

/* Runs the block for every vector of [0, n): `i` is its first element and `m` its number of elements: W (a constant, so
 * that the ..._n forms become whole loads and stores), and fewer in a last iteration for the rest. */
#define QKV_EACH(i, m, n, ...)                                                                                         \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        for (; (n)-i >= W; i += W) {                                                                                   \
            const size_t m = W;                                                                                        \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            const size_t m = (n)-i;                                                                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    } while (0)
#if defined(__GNUC__)
#define QKV_WHOLE(n) (__builtin_constant_p(n) && (n) >= W)
#else
#define QKV_WHOLE(n) false
#endif

/* Prefetches memory that will be read soon. */
#if defined(__GNUC__)
#define QKV_PREFETCH(address) __builtin_prefetch((address), 0, 2)
#else
#define QKV_PREFETCH(address) ((void)(address))
#endif

#if defined(QKV_ISA_avx2)
#include "kernel/isa/simd_avx2.h"
#elif defined(QKV_ISA_avx512)
#include "kernel/isa/simd_avx512.h"
#elif defined(QKV_ISA_neon)
#include "kernel/isa/simd_neon.h"
#elif defined(QKV_ISA_scalar)
#include "kernel/isa/simd_scalar.h"
#else
#error "define QKV_ISA_NAME and QKV_ISA_<name>"
#endif

#if !defined(QKV_HALVES_N) /* no masks for 16 bits */
/* n < W halves; the others are 0. */
QKV_INLINE vi vi_load_halves_n(const uint16_t *p, size_t n) {
    uint16_t lanes[W];
    for (size_t i = 0; i < W; i++) lanes[i] = i < n ? p[i] : 0;
    return vi_load_halves(lanes);
}
QKV_INLINE void vi_store_halves_n(uint16_t *p, vi a, size_t n) {
    uint16_t lanes[W];
    vi_store_halves(lanes, a);
    for (size_t i = 0; i < n; i++) p[i] = lanes[i];
}
/* W words of two halves, of which n < 2W exist. */
QKV_INLINE vi vi_load_words_n(const uint16_t *p, size_t n) {
    uint32_t lanes[W] = {0};
    memcpy(lanes, p, n * sizeof *p);
    return vi_load(lanes);
}
#endif

/* W words of two halves, at any address. */
QKV_INLINE vi vi_load_words(const uint16_t *p) {
    vi words;
    memcpy(&words, p, sizeof words);
    return words;
}

#include "kernel/isa/bf16_cells.h"
#include "kernel/isa/f16_cells.h"
#include "kernel/isa/math.h"

#endif
