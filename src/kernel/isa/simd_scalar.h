/* simd_scalar.h: the vocabulary of simd.h in plain C, one lane wide. Tests compare every other table with it. On x86,
 * simd_scalarfma.h replaces its kernels where the processor fuses multiply-adds. */
#ifndef QKV_SIMD_SCALAR_H
#define QKV_SIMD_SCALAR_H

/* At -O3, gcc unrolls the loops so far that sums no longer fit into registers. */
#define QKV_ISA_PROCESSORS_scalar "."
#define QKV_ISA_NEEDS_scalar      ""
#define QKV_ISA_OPTIONS_scalar    "-O2"

#include "base/math.h"

#define W 1

#define QKV_TILE_MR        4
#define QKV_TILE_NV        8
#define QKV_FEW_TILE       6
#define QKV_ATTEND_VECTORS 4

typedef float vf;
typedef uint32_t vi;
typedef bool vm;
typedef double vd;

QKV_INLINE vf vf_set(float s) {
    return s;
}
/* True if the byte is not 0. */
QKV_INLINE vm vm_load_bytes(const uint8_t *p) {
    return *p != 0;
}
/* The lanes as bits, the first one lowest; and back, from the lower W bits. */
QKV_INLINE uint32_t vm_bits(vm m) {
    return m;
}
QKV_INLINE vm vm_from_bits(uint32_t bits) {
    return bits & 1;
}
QKV_INLINE vf vf_load(const float *p) {
    return *p;
}
QKV_INLINE void vf_store(float *p, vf a) {
    *p = a;
}
/* Stores past the caches, if the ISA can. */
QKV_INLINE void vf_store_away(float *p, vf a) {
    vf_store(p, a);
}
QKV_INLINE void vf_stores_end(void) {}
QKV_INLINE vf vf_load_n(const float *p, size_t n) {
    return n ? *p : 0.0f;
}
QKV_INLINE void vf_store_n(float *p, vf a, size_t n) {
    if (n) *p = a;
}
QKV_INLINE vf vf_add(vf a, vf b) {
    return a + b;
}
QKV_INLINE vf vf_sub(vf a, vf b) {
    return a - b;
}
QKV_INLINE vf vf_mul(vf a, vf b) {
    return a * b;
}
QKV_INLINE vf vf_div(vf a, vf b) {
    return a / b;
}
/* a·b + c, rounded once. */
QKV_INLINE vf vf_fma(vf a, vf b, vf c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return qkv_fma(a, b, c);
#endif
}
QKV_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return vf_fma(-a, b, c);
}
QKV_INLINE vf vf_min(vf a, vf b) {
    return a < b ? a : b;
}
QKV_INLINE vf vf_max(vf a, vf b) {
    return a > b ? a : b;
}
QKV_INLINE vf vf_sqrt(vf a) {
    return sqrtf(a);
}
QKV_INLINE vi vi_from_bits(vf a) {
    vi b;
    memcpy(&b, &a, sizeof b);
    return b;
}
QKV_INLINE vf vf_from_bits(vi a) {
    vf b;
    memcpy(&b, &a, sizeof b);
    return b;
}
QKV_INLINE vf vf_from_int(vi a) {
    return (float)(int32_t)a;
}
QKV_INLINE vm vf_lt(vf a, vf b) {
    return a < b;
}
QKV_INLINE vm vf_le(vf a, vf b) {
    return a <= b;
}
QKV_INLINE vm vf_eq(vf a, vf b) {
    return a == b;
}
QKV_INLINE vf vf_select(vm m, vf a, vf b) {
    return m ? a : b;
}
QKV_INLINE vi vi_select(vm m, vi a, vi b) {
    return m ? a : b;
}
QKV_INLINE vm vm_first(size_t n) {
    return n != 0;
}
QKV_INLINE vm vm_and(vm a, vm b) {
    return a && b;
}
QKV_INLINE vm vm_or(vm a, vm b) {
    return a || b;
}
QKV_INLINE vm vm_not(vm a) {
    return !a;
}
QKV_INLINE bool vm_any(vm a) {
    return a;
}
QKV_INLINE vi vi_set(uint32_t s) {
    return s;
}
QKV_INLINE vi vi_iota(void) {
    return 0;
}
QKV_INLINE vi vi_load(const uint32_t *p) {
    return *p;
}
QKV_INLINE void vi_store(uint32_t *p, vi a) {
    *p = a;
}
QKV_INLINE vi vi_load_halves(const uint16_t *p) {
    return *p;
}
QKV_INLINE void vi_store_halves(uint16_t *p, vi a) {
    *p = (uint16_t)a;
}
QKV_INLINE vi vi_add(vi a, vi b) {
    return a + b;
}
QKV_INLINE vi vi_sub(vi a, vi b) {
    return a - b;
}
QKV_INLINE vi vi_and(vi a, vi b) {
    return a & b;
}
QKV_INLINE vi vi_or(vi a, vi b) {
    return a | b;
}
QKV_INLINE vi vi_xor(vi a, vi b) {
    return a ^ b;
}
QKV_INLINE vi vi_shl(vi a, int bits) {
    return a << bits;
}
QKV_INLINE vi vi_shr(vi a, int bits) {
    return a >> bits;
}
QKV_INLINE vi vi_sar(vi a, int bits) {
    return a >> bits | (a >> 31 ? ~(UINT32_MAX >> bits) : 0);
}
QKV_INLINE vi vi_rotl(vi a, int bits) {
    return a << bits | a >> (32 - bits);
}
QKV_INLINE vm vi_eq(vi a, vi b) {
    return a == b;
}
QKV_INLINE vm vi_ge(vi a, vi b) {
    return a >= b;
}

QKV_INLINE float vf_sum(vf a) {
    return a;
}
QKV_INLINE float vf_largest(vf a) {
    return a;
}
QKV_INLINE float vf_first(vf a) {
    return a;
}
QKV_INLINE void vf_transpose(vf r[W]) {
    (void)r;
}
/* The W × W floats whose rows are `stride` apart, transposed: r[i] is column i. */
QKV_INLINE void vf_load_transposed(vf r[W], const float *p, size_t stride) {
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) r[i] = vf_load(p + i * stride);
    vf_transpose(r);
}
/* (a0 a1 a2 …), (b0 b1 b2 …) to (a0 b0 a1 b1 …) in two vectors, and back. */
QKV_INLINE void vf_zip(vf *a, vf *b) {
    (void)a, (void)b;
}
QKV_INLINE void vf_unzip(vf *a, vf *b) {
    (void)a, (void)b;
}
QKV_INLINE void vi_zip(vi *a, vi *b) {
    (void)a, (void)b;
}

QKV_INLINE vd vd_zero(void) {
    return 0;
}
QKV_INLINE vd vd_add(vd a, vd b) {
    return a + b;
}
QKV_INLINE vd vd_from_float(vf a) {
    return a;
}
QKV_INLINE vd vd_fma(vd a, vd b, vd c) {
    return a * b + c;
}
QKV_INLINE double vd_sum(vd a) {
    return a;
}
#endif
