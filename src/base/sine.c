/* sine: sin and cos (math.h).
 *
 * x = k·π/2 + r with |r| <= π/4, where r is a pair; then sin(x) is one of ±sin(r), ±cos(r). For |x| < 2^20, parts of
 * π/2 are subtracted (Cody & Waite 1980). Else 2/π times x is computed with integers, as far as its fraction needs it
 * (Payne & Hanek 1983). The coefficients are those of minimax polynomials, computed with 200 bits (Remez); a comment
 * says the polynomial's largest error, relative to the result. */
#include <string.h>

#include "base/math.h"
#include "base/pair.h"

/* π/2 in four parts. The first three have 33 bits, so a product with an integer of 20 bits is exact. */
#define PI_2_1 0x1.921fb544p+0
#define PI_2_2 0x1.0b4611a6p-34
#define PI_2_3 0x1.3198a2ep-69
#define PI_2_4 0x1.b839a252049c1p-104

/* The bits of 2/π after the point, 32 in a limb, after 64 zeros. */
static const uint32_t sine_two_over_pi[] = {
    0,          0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b,
    0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d,
    0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};

enum { SINE_LIMBS = 7 };

/* Sets limbs, the first one being the highest, to the lowest SINE_LIMBS limbs of the product of m and SINE_LIMBS limbs
 * of 2/π. */
static void sine_multiply(const uint32_t *two_over_pi, uint64_t m, uint32_t limbs[SINE_LIMBS]) {
    const uint64_t low = m & UINT32_MAX, high = m >> 32;
    uint64_t carry = 0, sum;
    for (int i = SINE_LIMBS - 1; i >= 0; i--) { /* times the lower limb of m */
        sum = low * two_over_pi[i] + carry;
        limbs[i] = (uint32_t)sum;
        carry = sum >> 32;
    }
    carry = 0;
    for (int i = SINE_LIMBS - 2; i >= 0; i--) { /* plus the upper one, a limb further up */
        sum = high * two_over_pi[i + 1] + limbs[i] + carry;
        limbs[i] = (uint32_t)sum;
        carry = sum >> 32;
    }
}

/* The number in [-1/2, 1/2) whose bits after the point, in two's complement, are in limbs. */
static struct qkv_pair sine_fraction(const uint32_t limbs[SINE_LIMBS]) {
    const bool negative = limbs[0] >> 31;
    struct qkv_pair sum = {0, negative ? -0x1p-224 : 0}; /* -x is ~x + 1 */
    double unit = 0x1p-224;
    for (int i = SINE_LIMBS - 1; i >= 0; i--, unit *= 0x1p32) {
        const double part = unit * (double)(negative ? ~limbs[i] : limbs[i]);
        const struct qkv_pair next = qkv_pair_sum(sum.high, negative ? -part : part);
        sum = (struct qkv_pair){next.high, sum.low + next.low};
    }
    return qkv_pair_sum(sum.high, sum.low);
}

/* Shifts limbs to the left by 0 <= n < 32 bits. */
static void sine_shift(uint32_t limbs[SINE_LIMBS], int n) {
    for (int i = 0; i < SINE_LIMBS; i++) {
        const uint64_t next = i + 1 < SINE_LIMBS ? limbs[i + 1] : 0;
        limbs[i] = (uint32_t)((((uint64_t)limbs[i] << 32 | next) << n) >> 32);
    }
}

/* x = k·π/2 + r for finite |x| >= 2^20; returns k modulo 4.
 *
 * |x| = m·2^e with an integer m. Bits of 2/π from 2^(2-e) on give multiples of 4 in k, so the limbs that have only such
 * bits are left out. The limbs that follow the used ones would add less than 2^-137 to r. */
static unsigned sine_reduce_large(double x, struct qkv_pair *r) {
    const struct qkv_pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int e = (int)(bits >> 52 & 0x7ff) - 1075, skipped = e + 64 - 2;
    const uint64_t hidden = UINT64_C(1) << 52, m = (bits & (hidden - 1)) | hidden;
    uint32_t limbs[SINE_LIMBS];
    sine_multiply(sine_two_over_pi + skipped / 32, m, limbs);
    sine_shift(limbs, skipped % 32); /* now the first two bits are k modulo 4 */
    unsigned k = limbs[0] >> 30;
    sine_shift(limbs, 2);
    k += limbs[0] >> 31; /* k is rounded to nearest */
    *r = qkv_pair_multiply(sine_fraction(limbs), half_pi);
    if (x > 0) return k & 3;
    *r = (struct qkv_pair){-r->high, -r->low};
    return -k & 3;
}

/* The same for any finite x. */
static unsigned sine_reduce(double x, struct qkv_pair *r) {
    const double shift = 0x1.8p52; /* at this size the last bit of a double is 1 */
    if (fabs(x) >= 0x1p20) return sine_reduce_large(x, r);
    const double k = (x * 0x1.45f306dc9c883p-1 + shift) - shift;
    /* The first difference is exact: its terms are near each other. */
    const struct qkv_pair second = qkv_pair_sum(x - k * PI_2_1, -k * PI_2_2);
    const struct qkv_pair third = qkv_pair_sum(second.high, -k * PI_2_3);
    *r = qkv_pair_sum(third.high, (second.low + third.low) - k * PI_2_4);
    return (unsigned)(int)k & 3;
}

/* sin(r) for |r| <= π/4: r - r³/6 + …; the slope of the sine at r is about 1 - r²/2. */
static double sine_near(struct qkv_pair r) {
    const double x = r.high, z = x * x, z2 = z * z;
    /* 2^-57 */
    const double even = -0x1.5555555555548p-3 + z2 * (-0x1.a01a019bfd186p-13 + z2 * -0x1.ae5e59f5c0a86p-26);
    const double odd = 0x1.111111110f7cap-7 + z2 * (0x1.71de35671298bp-19 + z2 * 0x1.5d8fa32ab9bf7p-33);
    return x + (x * z * (even + z * odd) + r.low * (1 - 0.5 * z));
}

/* cos(r) for |r| <= π/4: 1 - r²/2 + r⁴/24 - …. The rounding error of 1 - r²/2 is added to the terms after it. */
static double cosine_near(struct qkv_pair r) {
    const double x = r.high, z = x * x, z2 = z * z, half = 0.5 * z, first = 1 - half;
    /* 2^-63 */
    const double even = 0x1.555555555554bp-5 + z2 * (0x1.a01a019c83914p-16 + z2 * 0x1.1ee9d752a9788p-29);
    const double odd = -0x1.6c16c16c14f8ap-10 + z2 * (-0x1.27e4f7ea37c0ap-22 + z2 * -0x1.8fa465f907bcp-37);
    return first + (((1 - first) - half) + (z2 * (even + z * odd) - x * r.low));
}

/* sin(x + quarters·π/2) for finite x. */
static double sine_of_turn(double x, unsigned quarters) {
    struct qkv_pair r;
    const unsigned k = sine_reduce(x, &r) + quarters;
    const double y = k & 1 ? cosine_near(r) : sine_near(r);
    return k & 2 ? -y : y;
}

double qkv_sin(double x) {
    if (fabs(x) < 0x1p-27) return x; /* also the sign of 0 */
    return isfinite(x) ? sine_of_turn(x, 0) : NAN;
}

double qkv_cos(double x) {
    return isfinite(x) ? sine_of_turn(x, 1) : NAN;
}
