/* simd_neon.h: the vocabulary of simd.h for NEON on AArch64, 4 lanes. */
#ifndef QKV_SIMD_NEON_H
#define QKV_SIMD_NEON_H

#define QKV_ISA_PROCESSORS_neon "aarch64|arm64"
#define QKV_ISA_NEEDS_neon      "asimd"
#define QKV_ISA_OPTIONS_neon    ""

#include <arm_neon.h>

#define W 4

#define QKV_TILE_MR        6 /* 6 × 4 sums, 4 of B and 1 of A of 32 registers */
#define QKV_TILE_NV        4
#define QKV_FEW_TILE       6
#define QKV_ATTEND_VECTORS 4 /* the same tile */

typedef float32x4_t vf;
typedef uint32x4_t vi;
typedef uint32x4_t vm;
typedef struct {
    float64x2_t low, high;
} vd;

QKV_INLINE vf vf_set(float s) {
    return vdupq_n_f32(s);
}
QKV_INLINE vi vi_set(uint32_t s) {
    return vdupq_n_u32(s);
}
QKV_INLINE vi vi_iota(void) {
    static const uint32_t iota[W] = {0, 1, 2, 3};
    return vld1q_u32(iota);
}
QKV_INLINE vm vm_first(size_t n) {
    return vcgtq_u32(vdupq_n_u32(n < W ? (uint32_t)n : W), vi_iota());
}
/* True if the byte is not 0. */
QKV_INLINE vm vm_load_bytes(const uint8_t *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    uint32x4_t bytes = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
    return vtstq_u32(bytes, bytes);
}
/* The lanes as bits, the first one lowest; and back, from the lower W bits. */
QKV_INLINE vi vi_lane_bits(void) {
    static const uint32_t bits[W] = {1, 2, 4, 8};
    return vld1q_u32(bits);
}
QKV_INLINE uint32_t vm_bits(vm m) {
    return vaddvq_u32(vandq_u32(m, vi_lane_bits()));
}
QKV_INLINE vm vm_from_bits(uint32_t bits) {
    return vtstq_u32(vdupq_n_u32(bits), vi_lane_bits());
}
QKV_INLINE vf vf_load(const float *p) {
    return vld1q_f32(p);
}
QKV_INLINE void vf_store(float *p, vf a) {
    vst1q_f32(p, a);
}
/* Stores past the caches, if the ISA can. */
QKV_INLINE void vf_store_away(float *p, vf a) {
    vf_store(p, a);
}
QKV_INLINE void vf_stores_end(void) {}
QKV_INLINE vf vf_load_n(const float *p, size_t n) {
    if (n >= W) return vld1q_f32(p);
    vf a = vdupq_n_f32(0);
    if (n > 0) a = vld1q_lane_f32(p, a, 0);
    if (n > 1) a = vld1q_lane_f32(p + 1, a, 1);
    if (n > 2) a = vld1q_lane_f32(p + 2, a, 2);
    return a;
}
QKV_INLINE void vf_store_n(float *p, vf a, size_t n) {
    if (n >= W) {
        vst1q_f32(p, a);
        return;
    }
    if (n > 0) vst1q_lane_f32(p, a, 0);
    if (n > 1) vst1q_lane_f32(p + 1, a, 1);
    if (n > 2) vst1q_lane_f32(p + 2, a, 2);
}
QKV_INLINE vf vf_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
QKV_INLINE vf vf_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
QKV_INLINE vf vf_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
QKV_INLINE vf vf_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
QKV_INLINE vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
QKV_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return vfmsq_f32(c, a, b);
}
/* The instructions of the same names would return NaN if either is NaN. */
QKV_INLINE vf vf_min(vf a, vf b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
QKV_INLINE vf vf_max(vf a, vf b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
QKV_INLINE vf vf_sqrt(vf a) {
    return vsqrtq_f32(a);
}
QKV_INLINE vi vi_from_bits(vf a) {
    return vreinterpretq_u32_f32(a);
}
QKV_INLINE vf vf_from_bits(vi a) {
    return vreinterpretq_f32_u32(a);
}
QKV_INLINE vf vf_from_int(vi a) {
    return vcvtq_f32_s32(vreinterpretq_s32_u32(a));
}
QKV_INLINE vm vf_lt(vf a, vf b) {
    return vcltq_f32(a, b);
}
QKV_INLINE vm vf_le(vf a, vf b) {
    return vcleq_f32(a, b);
}
QKV_INLINE vm vf_eq(vf a, vf b) {
    return vceqq_f32(a, b);
}
QKV_INLINE vf vf_select(vm m, vf a, vf b) {
    return vbslq_f32(m, a, b);
}
QKV_INLINE vi vi_select(vm m, vi a, vi b) {
    return vbslq_u32(m, a, b);
}
QKV_INLINE vm vm_and(vm a, vm b) {
    return vandq_u32(a, b);
}
QKV_INLINE vm vm_or(vm a, vm b) {
    return vorrq_u32(a, b);
}
QKV_INLINE vm vm_not(vm a) {
    return vmvnq_u32(a);
}
QKV_INLINE bool vm_any(vm a) {
    return vmaxvq_u32(a) != 0;
}
QKV_INLINE vi vi_load(const uint32_t *p) {
    return vld1q_u32(p);
}
QKV_INLINE void vi_store(uint32_t *p, vi a) {
    vst1q_u32(p, a);
}
/* W 16-bit numbers, each in the lower half of a lane, with 0 in the upper halves; and back. */
QKV_INLINE vi vi_load_halves(const uint16_t *p) {
    return vmovl_u16(vld1_u16(p));
}
QKV_INLINE void vi_store_halves(uint16_t *p, vi a) {
    vst1_u16(p, vmovn_u32(a));
}
#define QKV_HAS_SIGNED_BYTES 1
QKV_INLINE vf vf_load_signed_bytes(const int8_t *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four)))));
}
QKV_INLINE vi vi_add(vi a, vi b) {
    return vaddq_u32(a, b);
}
QKV_INLINE vi vi_sub(vi a, vi b) {
    return vsubq_u32(a, b);
}
QKV_INLINE vi vi_and(vi a, vi b) {
    return vandq_u32(a, b);
}
QKV_INLINE vi vi_or(vi a, vi b) {
    return vorrq_u32(a, b);
}
QKV_INLINE vi vi_xor(vi a, vi b) {
    return veorq_u32(a, b);
}
QKV_INLINE vi vi_shl(vi a, int bits) {
    return vshlq_u32(a, vdupq_n_s32(bits));
}
QKV_INLINE vi vi_shr(vi a, int bits) {
    return vshlq_u32(a, vdupq_n_s32(-bits));
}
QKV_INLINE vi vi_sar(vi a, int bits) {
    return vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(a), vdupq_n_s32(-bits)));
}
QKV_INLINE vi vi_rotl(vi a, int bits) {
    return vi_or(vi_shl(a, bits), vi_shr(a, 32 - bits));
}
QKV_INLINE vm vi_eq(vi a, vi b) {
    return vceqq_u32(a, b);
}
QKV_INLINE vm vi_ge(vi a, vi b) {
    return vcgeq_u32(a, b);
}

#define QKV_HAS_FOUR 1
QKV_INLINE vf vf_repeat_four(const float *four) {
    return vf_load(four);
}
QKV_INLINE vf vf_of_four(const float *four, vi which) {
    const vi bytes = vaddq_u32(vmulq_n_u32(which, 0x04040404), vi_set(0x03020100));
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(vf_load(four)), vreinterpretq_u8_u32(bytes)));
}

QKV_INLINE float vf_sum(vf a) {
    float32x2_t s = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}
QKV_INLINE float vf_first(vf a) {
    return vgetq_lane_f32(a, 0);
}
QKV_INLINE float vf_largest(vf a) {
    a = vf_max(a, vextq_f32(a, a, 2));
    return vf_first(vf_max(a, vextq_f32(a, a, 1)));
}
QKV_INLINE void vf_transpose(vf r[W]) {
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])), b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])), d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
/* The W × W floats whose rows are `stride` apart, transposed: r[i] is column i. */
QKV_INLINE void vf_load_transposed(vf r[W], const float *p, size_t stride) {
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) r[i] = vf_load(p + i * stride);
    vf_transpose(r);
}
/* (a0 a1 a2 …), (b0 b1 b2 …) to (a0 b0 a1 b1 …) in two vectors, and back. */
QKV_INLINE void vf_zip(vf *a, vf *b) {
    vf c = vzip1q_f32(*a, *b);
    *b = vzip2q_f32(*a, *b);
    *a = c;
}
QKV_INLINE void vf_unzip(vf *a, vf *b) {
    vf c = vuzp1q_f32(*a, *b);
    *b = vuzp2q_f32(*a, *b);
    *a = c;
}
QKV_INLINE void vi_zip(vi *a, vi *b) {
    vi c = vzip1q_u32(*a, *b);
    *b = vzip2q_u32(*a, *b);
    *a = c;
}

QKV_INLINE vd vd_zero(void) {
    return (vd){vdupq_n_f64(0), vdupq_n_f64(0)};
}
QKV_INLINE vd vd_add(vd a, vd b) {
    return (vd){vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high)};
}
QKV_INLINE vd vd_from_float(vf a) {
    return (vd){vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a)};
}
QKV_INLINE vd vd_fma(vd a, vd b, vd c) {
    return (vd){vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high)};
}
QKV_INLINE double vd_sum(vd a) {
    float64x2_t s = vaddq_f64(a.low, a.high);
    return vgetq_lane_f64(s, 0) + vgetq_lane_f64(s, 1);
}

QKV_INLINE vi codes_load(const unsigned char *p) {
    return vreinterpretq_u32_u8(vld1q_u8(p));
}
/* W bytes with signs, as integers of 16 bits in the lower half. */
QKV_INLINE int16x8_t codes_load_halves(const unsigned char *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)));
}
QKV_INLINE vi codes_load_bytes(const unsigned char *p) {
    return vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(codes_load_halves(p))));
}
QKV_INLINE vi codes_load_twice(const unsigned char *p) {
    const int16x8_t halves = codes_load_halves(p);
    return vreinterpretq_u32_s16(vzip1q_s16(halves, halves));
}
QKV_INLINE vi codes_load_pairs(const unsigned char *p) {
    return vreinterpretq_u32_s16(vmovl_s8(vld1_s8((const int8_t *)p)));
}
QKV_INLINE vi codes_times(vi a, vi b) {
    return vmulq_u32(a, b);
}
QKV_INLINE vi codes_dot_pairs(vi total, vi a, vi b) {
    const int16x8_t c = vreinterpretq_s16_u32(a), d = vreinterpretq_s16_u32(b);
    const int32x4_t low = vmull_s16(vget_low_s16(c), vget_low_s16(d)), high = vmull_high_s16(c, d);
    return vaddq_u32(total, vreinterpretq_u32_s32(vpaddq_s32(low, high)));
}
#if !defined(QKV_CODES_UNIT)
#define QKV_CODES_UNIT "pairs of 8-bit products"
#define QKV_CODES_TILE 4
QKV_INLINE vi codes_dot(vi sum, vi code, vi x) {
    const int8x16_t c = vreinterpretq_s8_u32(code), d = vreinterpretq_s8_u32(x);
    const int16x8_t pairs = vpaddq_s16(vmull_s8(vget_low_s8(c), vget_low_s8(d)), vmull_high_s8(c, d));
    return vreinterpretq_u32_s16(vaddq_s16(vreinterpretq_s16_u32(sum), pairs));
}
QKV_INLINE vi codes_offset(vi sum, vi pair, const int low) {
    return vreinterpretq_u32_s16(vmlaq_n_s16(vreinterpretq_s16_u32(sum), vreinterpretq_s16_u32(pair), (int16_t)low));
}
/* A pair is at most 128 · 127 · 2, which fits in 16 bits. */
QKV_INLINE vi codes_dot_bytes(vi total, vi code, vi x) {
    const int16x8_t pairs = vreinterpretq_s16_u32(codes_dot(vi_set(0), code, x));
    return vreinterpretq_u32_s32(vpadalq_s16(vreinterpretq_s32_u32(total), pairs));
}
#endif

#endif
