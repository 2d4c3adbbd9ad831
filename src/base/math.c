/* math: exp, log and pow (math.h); sin and cos are in sine.c.
 *
 * exp follows Tang 1989 ("Table-driven implementation of the exponential function in IEEE floating-point arithmetic"),
 * log is the series of the inverse hyperbolic tangent, and pow computes with pairs of doubles. The coefficients are
 * those of minimax polynomials, computed with 200 bits (Remez); a comment says the polynomial's largest error, relative
 * to the result of the function. */
#include "base/math.h"

#include <float.h>
#include <string.h>

#include "base/pair.h"

_Static_assert(FLT_EVAL_METHOD == 0, "results have the same bits everywhere only if double arithmetic is of doubles");

/* ---- bits of doubles -------------------------------------------------------------------------------------------- */

static uint64_t math_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double math_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^exponent for -1022 <= exponent <= 1023. */
static double math_power_of_two(int exponent) {
    return math_double((uint64_t)(exponent + 1023) << 52);
}

/* x · 2^exponent for 0.5 < x < 4 and |exponent| < 2000. It rounds once, because the first product is exact. */
static double math_scale(double x, int exponent) {
    if (exponent > -1020 && exponent < 1020) return x * math_power_of_two(exponent);
    const int half = exponent / 2;
    return x * math_power_of_two(half) * math_power_of_two(exponent - half);
}

/* x = m · 2^exponent with sqrt(1/2) <= m < sqrt(2), for finite x > 0; returns m. */
static double math_split(double x, int *exponent) {
    const uint64_t root = UINT64_C(0x3fe6a09e667f3bcd), offset = (uint64_t)1024 << 52; /* root: bits of sqrt(1/2) */
    const bool subnormal = x < DBL_MIN;
    const uint64_t bits = math_bits(subnormal ? x * 0x1p54 : x);
    const int power = (int)((bits + offset - root) >> 52) - 1024;
    *exponent = subnormal ? power - 54 : power;
    return math_double(bits - ((uint64_t)(int64_t)power << 52));
}

/* ---- fma -------------------------------------------------------------------------------------------------------- */

/* The product is exact in double, and so is the error of its sum with c (Knuth's two-sum). A sum that is not exact is
 * rounded to the neighbour with an odd last bit, which the second rounding, to float, cannot take for a tie (Boldo &
 * Melquiond 2008). */
float qkv_fma(float a, float b, float c) {
    const double product = (double)a * (double)b, addend = (double)c, sum = product + addend;
    const double part = sum - product, error = (product - (sum - part)) + (addend - part);
    const uint64_t bits = math_bits(sum);
    if (!(error > 0 || error < 0) || bits % 2) return (float)sum;
    return (float)math_double((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

/* ---- exp -------------------------------------------------------------------------------------------------------- */

/* ln(2)/32 in three parts. The first two have 36 bits, so a product with an integer of 17 bits is exact. */
#define LN2_32_HIGH   0x1.62e42fefap-6
#define LN2_32_MIDDLE 0x1.cf79abc9ep-45
#define LN2_32_LOW    0x1.d9cc01f97b57ap-84

/* 2^(i/32) as sums of two doubles. */
static const struct qkv_pair math_powers[32] = {
    {0x1p0, 0},
    {0x1.059b0d3158574p0, 0x1.d73e2a475b465p-55},
    {0x1.0b5586cf9890fp0, 0x1.8a62e4adc610bp-54},
    {0x1.11301d0125b51p0, -0x1.6c51039449b3ap-54},
    {0x1.172b83c7d517bp0, -0x1.19041b9d78a76p-55},
    {0x1.1d4873168b9aap0, 0x1.e016e00a2643cp-54},
    {0x1.2387a6e756238p0, 0x1.9b07eb6c70573p-54},
    {0x1.29e9df51fdee1p0, 0x1.612e8afad1255p-55},
    {0x1.306fe0a31b715p0, 0x1.6f46ad23182e4p-55},
    {0x1.371a7373aa9cbp0, -0x1.63aeabf42eae2p-54},
    {0x1.3dea64c123422p0, 0x1.ada0911f09ebcp-55},
    {0x1.44e086061892dp0, 0x1.89b7a04ef80dp-59},
    {0x1.4bfdad5362a27p0, 0x1.d4397afec42e2p-56},
    {0x1.5342b569d4f82p0, -0x1.07abe1db13cadp-55},
    {0x1.5ab07dd485429p0, 0x1.6324c054647adp-54},
    {0x1.6247eb03a5585p0, -0x1.383c17e40b497p-54},
    {0x1.6a09e667f3bcdp0, -0x1.bdd3413b26456p-54},
    {0x1.71f75e8ec5f74p0, -0x1.16e4786887a99p-55},
    {0x1.7a11473eb0187p0, -0x1.41577ee04992fp-55},
    {0x1.82589994cce13p0, -0x1.d4c1dd41532d8p-54},
    {0x1.8ace5422aa0dbp0, 0x1.6e9f156864b27p-54},
    {0x1.93737b0cdc5e5p0, -0x1.75fc781b57ebcp-57},
    {0x1.9c49182a3f09p0, 0x1.c7c46b071f2bep-56},
    {0x1.a5503b23e255dp0, -0x1.d2f6edb8d41e1p-54},
    {0x1.ae89f995ad3adp0, 0x1.7a1cd345dcc81p-54},
    {0x1.b7f76f2fb5e47p0, -0x1.5584f7e54ac3bp-56},
    {0x1.c199bdd85529cp0, 0x1.11065895048ddp-55},
    {0x1.cb720dcef9069p0, 0x1.503cbd1e949dbp-56},
    {0x1.d5818dcfba487p0, 0x1.2ed02d75b3707p-55},
    {0x1.dfc97337b9b5fp0, -0x1.1a5cd4f184b5cp-54},
    {0x1.ea4afa2a490dap0, -0x1.e9c23179c2893p-54},
    {0x1.f50765b6e454p0, 0x1.9d3e12dd8a18bp-54},
};

/* The integer n that is nearest to x · 32/ln(2), for |x| < 1000. */
static double math_exp_nearest(double x) {
    const double shift = 0x1.8p52; /* at this size the last bit of a double is 1 */
    return (x * 0x1.71547652b82fep+5 + shift) - shift;
}

/* x = n·ln(2)/32 + r, e^x = 2^(n/32) · e^r with |r| <= ln(2)/64. With T = 2^((n mod 32)/32) from the table,
 * T·e^r = T + T·(e^r - 1), where the second term is small, and so is its error. */
double qkv_exp(double x) {
    if (!(fabs(x) < 746)) return isnan(x) ? NAN : x > 0 ? INFINITY : 0;
    const double nearest = math_exp_nearest(x);
    const int n = (int)nearest, i = n & 31;
    const double r = (x - nearest * LN2_32_HIGH) - nearest * (LN2_32_MIDDLE + LN2_32_LOW), r2 = r * r;
    /* 2^-63 */
    const double p = (0.5 + r * 0x1.5555555548f73p-3) +
                     r2 * ((0x1.5555555545ee7p-5 + r * 0x1.11115b7c7c1cap-7) + r2 * 0x1.6c17288649b01p-10);
    const double high = math_powers[i].high, low = math_powers[i].low;
    return math_scale(high + (low + high * (r + r2 * p)), (n - i) / 32);
}

/* ---- log -------------------------------------------------------------------------------------------------------- */

/* ln(2) in two parts. The first one has 36 bits, so a product with an exponent is exact. */
#define LN2_HIGH (32 * LN2_32_HIGH)
#define LN2_LOW  (32 * (LN2_32_MIDDLE + LN2_32_LOW))

/* ln(1 + f) + e·ln(2) for sqrt(1/2) <= 1 + f < sqrt(2).
 *
 * With s = f/(2 + f), ln(1 + f) = 2·atanh(s) = 2s + s·q, where q = 2s²/3 + 2s⁴/5 + …. The quotient s is rounded, so 2s
 * is replaced: s·(2 + f) = f gives 2s = f - s·f = f - f²/2 + s·f²/2, in which f is exact and the rest is smaller. */
static double math_log_near(double f, double e) {
    const double s = f / (2 + f), z = s * s, z2 = z * z, half = 0.5 * f * f;
    /* 2^-59 */
    const double even =
        0x1.5555555555592p-1 + z2 * (0x1.24924941f5p-2 + z2 * (0x1.74663fa2fa3e8p-3 + z2 * 0x1.2f063554eaf9p-3));
    const double odd = 0x1.999999997fd77p-2 + z2 * (0x1.c71c520603f6dp-3 + z2 * 0x1.39a1a6e228863p-3);
    const double q = z * (even + z * odd);
    return e * LN2_HIGH - ((half - (s * (half + q) + e * LN2_LOW)) - f);
}

double qkv_log(double x) {
    if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
    if (isinf(x)) return x;
    int exponent;
    const double m = math_split(x, &exponent);
    return math_log_near(m - 1, (double)exponent);
}

/* ---- pow: logarithms and powers of e as pairs ------------------------------------------------------------------- */

/* e^r - 1 for |r| <= ln(2)/64, with a relative error of about 2^-70. Terms from r⁴/24 on are so small that a double is
 * enough for their sum. */
static struct qkv_pair math_exp_minus_one(struct qkv_pair r) {
    const struct qkv_pair third = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
    const double x = r.high, x2 = x * x;
    struct qkv_pair square = qkv_pair_multiply(r, r);
    square.high *= 0.5;
    square.low *= 0.5;
    const struct qkv_pair cube = qkv_pair_multiply(qkv_pair_multiply(square, r), third);
    const double upper = 1 / 5040.0 + x * (1 / 40320.0 + x * (1 / 362880.0));
    const double rest = x2 * x2 * (1 / 24.0 + x * (1 / 120.0 + x * (1 / 720.0 + x * upper)));
    return qkv_pair_add(r, qkv_pair_add(square, qkv_pair_sum(cube.high, cube.low + rest)));
}

/* x = n·ln(2)/32 + r with |r| <= ln(2)/64, for |x| < 1000; returns n. */
static int math_exp_reduce(struct qkv_pair x, struct qkv_pair *r) {
    const double n = math_exp_nearest(x.high);
    const struct qkv_pair rest = qkv_pair_sum(x.high - n * LN2_32_HIGH, -n * LN2_32_MIDDLE);
    *r = qkv_pair_sum(rest.high, rest.low + (x.low - n * LN2_32_LOW));
    return (int)n;
}

/* ln(x) for finite x > 0, x = m·2^exponent. One step of Newton's method improves a, the logarithm of m as a double: it
 * adds m·e^-a - 1. With e^-a = P·e^r, where P is a power of 2^(1/32), the step is (m·P - 1) + m·P·(e^r - 1). Near
 * m = 1, P is 1 and m - 1 is exact, so that the relative error stays as small as elsewhere. */
static struct qkv_pair math_log_pair(double x) {
    int exponent;
    const double m = math_split(x, &exponent), a = math_log_near(m - 1, 0), e = (double)exponent;
    struct qkv_pair r;
    const int n = math_exp_reduce((struct qkv_pair){-a, 0}, &r), i = n & 31;
    const double scale = math_power_of_two((n - i) / 32);
    const struct qkv_pair power = {math_powers[i].high * scale, math_powers[i].low * scale};
    const struct qkv_pair product = qkv_pair_multiply((struct qkv_pair){m, 0}, power);
    const struct qkv_pair difference = qkv_pair_add(product, (struct qkv_pair){-1, 0});
    const struct qkv_pair step = qkv_pair_add(difference, qkv_pair_multiply(product, math_exp_minus_one(r)));
    const struct qkv_pair log_m = qkv_pair_add((struct qkv_pair){a, 0}, step);
    return qkv_pair_add(qkv_pair_sum(e * LN2_HIGH, e * LN2_LOW), log_m);
}

/* x^y for finite x > 0 and 2^-65 <= |y| < 2^65. The result is rounded from a pair: if x^y is a double, it is exact. */
static double math_pow_positive(double x, double y) {
    const struct qkv_pair product = qkv_pair_multiply((struct qkv_pair){y, 0}, math_log_pair(x));
    if (!(fabs(product.high) < 746)) return product.high > 0 ? INFINITY : 0;
    struct qkv_pair r;
    const int n = math_exp_reduce(product, &r), i = n & 31;
    const struct qkv_pair power = math_powers[i];
    const struct qkv_pair result = qkv_pair_add(power, qkv_pair_multiply(power, math_exp_minus_one(r)));
    return math_scale(result.high, (n - i) / 32);
}

double qkv_pow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (isnan(x) || isnan(y)) return NAN;
    const double size = fabs(x), y_size = fabs(y);
    const bool whole = y_size >= 0x1p53 || y == qkv_floor(y);
    const bool odd = y_size < 0x1p53 && whole && ((int64_t)y & 1);
    const double sign = signbit(x) && odd ? -1 : 1;
    if (size == 0 || isinf(size)) return (size == 0) == (y < 0) ? sign * INFINITY : sign * 0;
    if (x < 0 && !whole) return NAN;
    if (size == 1) return sign;
    /* |ln(size)| is between 2^-53 and 2^10, so a result for such y is beyond the doubles, or rounds to 1. */
    if (y_size >= 0x1p65) return (size > 1) == (y > 0) ? INFINITY : 0;
    if (y_size < 0x1p-65) return 1;
    return sign * math_pow_positive(size, y);
}
