/* simd.h: the vector vocabulary of all kernels, defined for the current ISA.
 *
 *   vf   W floats            vi   W 32-bit integers (unsigned arithmetic)
 *   vm   W truth values      vd   W doubles (for sums that must not lose bits)
 *
 * Loads and stores need no alignment. The ..._n forms touch the first n lanes of memory only (n >= W: all), other lanes
 * load as 0; they use the same vector arithmetic, so a tail gives the same bits as the body. min, max and the
 * comparisons mean the same in every ISA: min(a, b) = a < b ? a : b, so b is returned if either is NaN. fma and
 * fnma round once; those of vd take factors whose product is exact, as that of two floats is. So a kernel in fp32 has
 * the same bits on every table, if its sums over a row have LANES parts.
 *
 * One file for each table, simd_NAME.h, defines the primitives. It also says what the instruction set has (QKV_HAS_…)
 * and which sizes fit its registers; all other files ask that, and never for a name. What a file need not define has a
 * default below. docs/design.md describes how to add one. Functions built from the primitives (reductions, exp, tanh,
 * erf) are in vector_math.h. */
#ifndef QKV_SIMD_H
#define QKV_SIMD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QKV_PASTE2(a, b) a##b
#define QKV_PASTE(a, b)  QKV_PASTE2(a, b)
#define QKV_TEXT2(a)     #a
#define QKV_TEXT(a)      QKV_TEXT2(a)

#define QKV_JOIN3(a, b, c)     a##b##_##c
#define QKV_JOIN(a, name, isa) QKV_JOIN3(a, name, isa)
/* QKV_K(add) is qkv_add_avx2 if the instruction set is avx2. */
#define QKV_K(name) QKV_JOIN(qkv_, name, QKV_ISA_NAME)

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

/* QKV_EACH for sums over a row: `part` is the vector of the sums to which elements i … belong. `turn` turns the sums by
 * one part (vf_parts_turn): behind the last whole LANES, elements are always added to the first part. */
#define QKV_EACH_PART(i, m, part, n, turn, ...)                                                                        \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        while ((n)-i >= LANES) {                                                                                       \
            QKV_UNROLL_LOOP                                                                                            \
            for (size_t part = 0; part < PARTS; part++, i += W) {                                                      \
                const size_t m = W;                                                                                    \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < (n); i += W) {                                                                                      \
            enum { part = 0 };                                                                                         \
            const size_t m = (n)-i;                                                                                    \
            __VA_ARGS__                                                                                                \
            turn;                                                                                                      \
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
#define QKV_PREFETCH_NEAR(address) __builtin_prefetch((address), 0, 3) /* into the first level, too */
#else
#define QKV_PREFETCH(address) ((void)(address))
#define QKV_PREFETCH_NEAR(address) ((void)(address))
#endif

/* The build defines QKV_TABLE_NAME, an entry of QKV_ISA_LIST. A table is an instruction set, or it adds columns to the
 * kernels of one, its QKV_ISA_BASE, or replaces them all (QKV_ISA_WHOLE). */
#if !defined(QKV_TABLE_NAME)
#error "define QKV_TABLE_NAME, a name of QKV_ISA_LIST"
#endif
#define QKV_SIMD_FILE(name) QKV_TEXT(name.h)
#include QKV_SIMD_FILE(QKV_PASTE(simd_, QKV_TABLE_NAME))
#if defined(QKV_ISA_BASE) && !defined(QKV_ISA_WHOLE)
#define QKV_ISA_NAME QKV_ISA_BASE
#else
#define QKV_ISA_NAME QKV_TABLE_NAME
#endif

/* ---- defaults ----------------------------------------------------------------------------------------------------
 * Sizes that every table defines, in registers of W floats:
 *   QKV_TILE_MR, QKV_TILE_NV   a tile of the matrix product has MR rows of NV vectors of sums; MR is even, 4 to 14
 *   QKV_FEW_TILE               attention over few keys: rows of two vectors of sums; 4, 6 or 14
 *   QKV_ATTEND_VECTORS         attention: vectors of a tile of 6 rows; 2 or 4 */

/* Products of bf16: the file that has them; rows of a tile of attention over few keys, 4, 6 or 14, or 0 if the products
 * do not add term by term; rows of a strip of attention, at least a group of the products; terms of a run of widened
 * products, at most QKV_GEMM_RUN_MAX. */
#if !defined(QKV_BF16_PRODUCTS)
#define QKV_BF16_PRODUCTS "kernel/isa/bf16_widened.h"
#define QKV_BF16_FEW_TILE 4
#endif
#if !defined(QKV_BF16_STRIP)
#define QKV_BF16_STRIP 28
#endif
#if !defined(QKV_BF16_RUN)
#define QKV_BF16_RUN 256
#endif

/* Sums over a row have LANES parts on every table: element i is added to part i % LANES, in rising order, and the parts
 * are added in one tree: l to l + 8, then l to l + 4, to l + 2, to l + 1. So a sum has the same bits whatever W is. The
 * tree has the same bits if all parts are turned by some places; adding 0 changes nothing. */
enum { LANES = 16, PARTS = LANES / W };
#define QKV_PARTS(v, number, zero)                                                                                     \
    typedef struct {                                                                                                   \
        v part[PARTS];                                                                                                 \
    } v##_parts;                                                                                                       \
    QKV_INLINE v##_parts v##_parts_zero(void) {                                                                        \
        v##_parts sum;                                                                                                 \
        QKV_UNROLL_LOOP                                                                                                \
        for (size_t p = 0; p < PARTS; p++) sum.part[p] = zero;                                                         \
        return sum;                                                                                                    \
    }                                                                                                                  \
    /* The first part becomes the last one. */                                                                         \
    QKV_INLINE void v##_parts_turn(v##_parts *sum) {                                                                   \
        const v first = sum->part[0];                                                                                  \
        QKV_UNROLL_LOOP                                                                                                \
        for (size_t p = 1; p < PARTS; p++) sum->part[p - 1] = sum->part[p];                                            \
        sum->part[PARTS - 1] = first;                                                                                  \
    }                                                                                                                  \
    /* The parts in one vector, and their sum. */                                                                      \
    QKV_INLINE v v##_parts_folded(v##_parts sum) {                                                                     \
        QKV_UNROLL_LOOP                                                                                                \
        for (size_t half = PARTS / 2; half; half /= 2) {                                                               \
            QKV_UNROLL_LOOP                                                                                            \
            for (size_t p = 0; p < half; p++) sum.part[p] = v##_add(sum.part[p], sum.part[p + half]);                  \
        }                                                                                                              \
        return sum.part[0];                                                                                            \
    }                                                                                                                  \
    QKV_INLINE number v##_parts_sum(v##_parts sum) {                                                                   \
        return v##_sum(v##_parts_folded(sum));                                                                         \
    }
QKV_PARTS(vf, float, vf_set(0.0f))
QKV_PARTS(vd, double, vd_zero())

/* name(x): lane r is vf_sum(x[r]), or vf_largest(x[r]), of W vectors; x is overwritten. */
#define QKV_FOLD_EACH(name, combine)                                                                                   \
    QKV_INLINE vf name(vf x[W]) {                                                                                      \
        vf_transpose(x);                                                                                               \
        QKV_UNROLL_LOOP                                                                                                \
        for (size_t half = W / 2; half; half /= 2) {                                                                   \
            QKV_UNROLL_LOOP                                                                                            \
            for (size_t i = 0; i < half; i++) x[i] = combine(x[i], x[i + half]);                                       \
        }                                                                                                              \
        return x[0];                                                                                                   \
    }
QKV_FOLD_EACH(vf_sum_each, vf_add)
QKV_FOLD_EACH(vf_largest_each, vf_max)

#if !defined(QKV_HAS_ANY_ADDRESS)
/* W words at any address: those of vf_load are aligned as floats. */
QKV_INLINE vf vf_load_any(const void *p) {
    float words[W];
    memcpy(words, p, sizeof words);
    return vf_load(words);
}
#endif

#if !defined(QKV_HAS_SIGNED_BYTES)
/* W signed bytes as floats. */
QKV_INLINE vf vf_load_signed_bytes(const int8_t *p) {
    float lanes[W];
    for (size_t i = 0; i < W; i++) lanes[i] = (float)p[i];
    return vf_load(lanes);
}
#endif

#if !defined(QKV_HAS_ADD_UNLESS)
/* a + b; 0 where m. */
QKV_INLINE vi vi_add_unless(vm m, vi a, vi b) {
    return vi_from_bits(vf_select(m, vf_set(0.0f), vf_from_bits(vi_add(a, b))));
}
#endif

#if !defined(QKV_HAS_FOUR)
/* Lane i: four[which[i]]. */
QKV_INLINE vf vf_of_four(const float *four, vi which) {
    uint32_t lanes[W];
    float chosen[W];
    vi_store(lanes, which);
    for (size_t i = 0; i < W; i++) chosen[i] = four[lanes[i]];
    return vf_load(chosen);
}
/* Lane i: four[i % 4]. */
QKV_INLINE vf vf_repeat_four(const float *four) {
    return vf_of_four(four, vi_and(vi_iota(), vi_set(3)));
}
#endif

#if !defined(QKV_HAS_HALVES_N)
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

#if !defined(QKV_CODES_UNIT)
/* Products of codes (codes.c), where a vector is W words of four bytes, or of two integers of 16 bits, a pair. Sums of
 * pairs wrap around. */
#define QKV_CODES_PLAIN 1
#define QKV_CODES_UNIT  "plain C"
#define QKV_CODES_TILE  4
struct codes_words {
    uint32_t lane[W];
};
QKV_INLINE struct codes_words codes_words_of(vi v) {
    struct codes_words words;
    vi_store(words.lane, v);
    return words;
}
QKV_INLINE int codes_byte(uint32_t word, size_t i) {
    return (int8_t)(word >> (8 * i));
}
QKV_INLINE int codes_half(uint32_t word, size_t i) {
    return (int16_t)(word >> (16 * i));
}
QKV_INLINE uint32_t codes_pair(int first, int second) {
    return ((uint32_t)first & 0xffff) | (uint32_t)second << 16;
}
/* W words, or W bytes as integers, or each as a pair of twice the same, or 2W bytes as pairs. */
QKV_INLINE vi codes_load(const unsigned char *p) {
    struct codes_words words;
    memcpy(words.lane, p, sizeof words.lane);
    return vi_load(words.lane);
}
QKV_INLINE vi codes_load_bytes(const unsigned char *p) {
    struct codes_words words;
    for (size_t i = 0; i < W; i++) words.lane[i] = (uint32_t)(int8_t)p[i];
    return vi_load(words.lane);
}
QKV_INLINE vi codes_load_twice(const unsigned char *p) {
    struct codes_words words;
    for (size_t i = 0; i < W; i++) words.lane[i] = codes_pair((int8_t)p[i], (int8_t)p[i]);
    return vi_load(words.lane);
}
QKV_INLINE vi codes_load_pairs(const unsigned char *p) {
    struct codes_words words;
    for (size_t i = 0; i < W; i++) words.lane[i] = codes_pair((int8_t)p[2 * i], (int8_t)p[2 * i + 1]);
    return vi_load(words.lane);
}
/* Adds the products of four codes without a sign and four of x, in pairs. */
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    struct codes_words s = codes_words_of(sum), c = codes_words_of(code), y = codes_words_of(x);
    for (size_t i = 0; i < W; i++) {
        int half[2];
        for (size_t h = 0; h < 2; h++)
            half[h] = codes_half(s.lane[i], h) + codes_byte(c.lane[i], 2 * h) * codes_byte(y.lane[i], 2 * h) +
                      codes_byte(c.lane[i], 2 * h + 1) * codes_byte(y.lane[i], 2 * h + 1);
        s.lane[i] = codes_pair(half[0], half[1]);
    }
    return vi_load(s.lane);
}
/* Adds `low` times a pair to such sums. */
QKV_INLINE vi codes_offset(vi sum, vi pair, const int low) {
    struct codes_words s = codes_words_of(sum), p = codes_words_of(pair);
    for (size_t i = 0; i < W; i++)
        s.lane[i] = codes_pair(codes_half(s.lane[i], 0) + codes_half(p.lane[i], 0) * low,
                               codes_half(s.lane[i], 1) + codes_half(p.lane[i], 1) * low);
    return vi_load(s.lane);
}
/* Adds the products of two pairs to an integer. */
QKV_INLINE vi codes_dot_pairs(vi total, vi a, vi b) {
    struct codes_words t = codes_words_of(total), c = codes_words_of(a), d = codes_words_of(b);
    for (size_t i = 0; i < W; i++)
        t.lane[i] += (uint32_t)(codes_half(c.lane[i], 0) * codes_half(d.lane[i], 0)) +
                     (uint32_t)(codes_half(c.lane[i], 1) * codes_half(d.lane[i], 1));
    return vi_load(t.lane);
}
/* Adds the products of four codes with signs and four of x. */
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    struct codes_words t = codes_words_of(total), c = codes_words_of(code), y = codes_words_of(x);
    for (size_t i = 0; i < W; i++)
        for (size_t b = 0; b < 4; b++) t.lane[i] += (uint32_t)(codes_byte(c.lane[i], b) * codes_byte(y.lane[i], b));
    return vi_load(t.lane);
}
QKV_INLINE vi codes_times(vi a, vi b) {
    struct codes_words c = codes_words_of(a), d = codes_words_of(b);
    for (size_t i = 0; i < W; i++) c.lane[i] *= d.lane[i];
    return vi_load(c.lane);
}
#endif

/* Sums of codes_dot are pairs or, where it adds all four products of a word, integers (QKV_CODES_WHOLE). A scale is the
 * same for all rows, or one of W bytes. codes_scaled adds sums times a scale to integers. */
QKV_INLINE vi codes_twice(const int value) {
    return vi_set(((uint32_t)value & 0xffff) | (uint32_t)value << 16);
}
#if defined(QKV_CODES_WHOLE)
QKV_INLINE vi codes_offset(vi sum, vi pair, const int low) {
    return codes_dot_pairs(sum, pair, codes_twice(low));
}
QKV_INLINE vi codes_scale(const int scale) {
    return vi_set((uint32_t)scale);
}
QKV_INLINE vi codes_load_scale(const unsigned char *p) {
    return codes_load_bytes(p);
}
QKV_INLINE vi codes_scaled(vi total, vi sum, vi scale) {
    return vi_add(total, codes_times(sum, scale));
}
#else
QKV_INLINE vi codes_scale(const int scale) {
    return codes_twice(scale);
}
QKV_INLINE vi codes_load_scale(const unsigned char *p) {
    return codes_load_twice(p);
}
QKV_INLINE vi codes_scaled(vi total, vi sum, vi scale) {
    return codes_dot_pairs(total, sum, scale);
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
#include "kernel/isa/vector_math.h"

#endif
