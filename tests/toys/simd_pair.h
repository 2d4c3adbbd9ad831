/* A toy: an instruction set of two lanes, in the vectors of gcc and clang. */
#ifndef QKV_SIMD_PAIR_H
#define QKV_SIMD_PAIR_H

#define QKV_ISA_PROCESSORS_pair "."
#define QKV_ISA_NEEDS_pair      ""
#define QKV_ISA_OPTIONS_pair    "-O1"

#define W 2

#define QKV_TILE_MR        8
#define QKV_TILE_NV        4
#define QKV_FEW_TILE       4
#define QKV_ATTEND_VECTORS 2

typedef float vf __attribute__((vector_size(8)));
typedef uint32_t vi __attribute__((vector_size(8)));
typedef int32_t vm __attribute__((vector_size(8)));
typedef double vd __attribute__((vector_size(16)));

QKV_INLINE vf vf_set(float s) {
    return (vf){s, s};
}
QKV_INLINE vi vi_set(uint32_t s) {
    return (vi){s, s};
}
QKV_INLINE vi vi_iota(void) {
    return (vi){0, 1};
}
QKV_INLINE vm vm_first(size_t n) {
    return (vm){-(n > 0), -(n > 1)};
}
QKV_INLINE vm vm_load_bytes(const uint8_t *p) {
    return (vm){-(p[0] != 0), -(p[1] != 0)};
}
QKV_INLINE uint32_t vm_bits(vm m) {
    return (uint32_t)(m[0] & 1) | (uint32_t)(m[1] & 2);
}
QKV_INLINE vm vm_from_bits(uint32_t bits) {
    return (vm){-(int32_t)(bits & 1), -(int32_t)(bits >> 1 & 1)};
}
QKV_INLINE vf vf_load(const float *p) {
    return (vf){p[0], p[1]};
}
QKV_INLINE void vf_store(float *p, vf a) {
    p[0] = a[0];
    p[1] = a[1];
}
QKV_INLINE void vf_store_away(float *p, vf a) {
    vf_store(p, a);
}
QKV_INLINE void vf_stores_end(void) {}
QKV_INLINE vf vf_load_n(const float *p, size_t n) {
    return (vf){n > 0 ? p[0] : 0, n > 1 ? p[1] : 0};
}
QKV_INLINE void vf_store_n(float *p, vf a, size_t n) {
    for (size_t i = 0; i < n && i < W; i++) p[i] = a[i];
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
QKV_INLINE vf vf_fma(vf a, vf b, vf c) {
    return (vf){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1])};
}
QKV_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return vf_fma(-a, b, c);
}
QKV_INLINE vi vi_from_bits(vf a) {
    return (vi)a;
}
QKV_INLINE vf vf_from_bits(vi a) {
    return (vf)a;
}
QKV_INLINE vf vf_from_int(vi a) {
    return (vf){(float)(int32_t)a[0], (float)(int32_t)a[1]};
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
QKV_INLINE vi vi_select(vm m, vi a, vi b) {
    return ((vi)m & a) | (~(vi)m & b);
}
QKV_INLINE vf vf_select(vm m, vf a, vf b) {
    return (vf)vi_select(m, (vi)a, (vi)b);
}
QKV_INLINE vf vf_min(vf a, vf b) {
    return vf_select(a < b, a, b);
}
QKV_INLINE vf vf_max(vf a, vf b) {
    return vf_select(a > b, a, b);
}
QKV_INLINE vf vf_sqrt(vf a) {
    return (vf){sqrtf(a[0]), sqrtf(a[1])};
}
QKV_INLINE vm vm_and(vm a, vm b) {
    return a & b;
}
QKV_INLINE vm vm_or(vm a, vm b) {
    return a | b;
}
QKV_INLINE vm vm_not(vm a) {
    return ~a;
}
QKV_INLINE bool vm_any(vm a) {
    return a[0] || a[1];
}
QKV_INLINE vi vi_load(const uint32_t *p) {
    return (vi){p[0], p[1]};
}
QKV_INLINE void vi_store(uint32_t *p, vi a) {
    p[0] = a[0];
    p[1] = a[1];
}
QKV_INLINE vi vi_load_halves(const uint16_t *p) {
    return (vi){p[0], p[1]};
}
QKV_INLINE void vi_store_halves(uint16_t *p, vi a) {
    p[0] = (uint16_t)a[0];
    p[1] = (uint16_t)a[1];
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
    return a << (uint32_t)bits;
}
QKV_INLINE vi vi_shr(vi a, int bits) {
    return a >> (uint32_t)bits;
}
QKV_INLINE vi vi_sar(vi a, int bits) {
    return (vi)((vm)a >> bits);
}
QKV_INLINE vi vi_rotl(vi a, int bits) {
    return vi_or(vi_shl(a, bits), vi_shr(a, 32 - bits));
}
QKV_INLINE vm vi_eq(vi a, vi b) {
    return (vm)(a == b);
}
QKV_INLINE vm vi_ge(vi a, vi b) {
    return (vm)(a >= b);
}

QKV_INLINE float vf_sum(vf a) {
    return a[0] + a[1];
}
QKV_INLINE float vf_largest(vf a) {
    return a[0] > a[1] ? a[0] : a[1];
}
QKV_INLINE float vf_first(vf a) {
    return a[0];
}
QKV_INLINE void vf_zip(vf *a, vf *b) {
    const vf x = *a, y = *b;
    *a = (vf){x[0], y[0]};
    *b = (vf){x[1], y[1]};
}
QKV_INLINE void vf_unzip(vf *a, vf *b) {
    vf_zip(a, b);
}
QKV_INLINE void vi_zip(vi *a, vi *b) {
    const vi x = *a, y = *b;
    *a = (vi){x[0], y[0]};
    *b = (vi){x[1], y[1]};
}
QKV_INLINE void vf_transpose(vf r[W]) {
    vf_zip(&r[0], &r[1]);
}
QKV_INLINE void vf_load_transposed(vf r[W], const float *p, size_t stride) {
    r[0] = vf_load(p);
    r[1] = vf_load(p + stride);
    vf_transpose(r);
}

QKV_INLINE vd vd_zero(void) {
    return (vd){0, 0};
}
QKV_INLINE vd vd_add(vd a, vd b) {
    return a + b;
}
QKV_INLINE vd vd_from_float(vf a) {
    return (vd){a[0], a[1]};
}
QKV_INLINE vd vd_fma(vd a, vd b, vd c) {
    return a * b + c;
}
QKV_INLINE double vd_sum(vd a) {
    return a[0] + a[1];
}
#endif
