/* math: functions of real numbers whose results have the same bits on every processor, with every compiler and C
 * library. The library calls them instead of those of <math.h>; of those it uses sqrt, fabs and copysign, which are
 * exact or correctly rounded everywhere, and which compilers replace by instructions.
 *
 * The functions use operations on doubles that IEEE 754 defines to the last bit (+ - * / and comparisons) and integers,
 * in one order: the build does not contract a product and a sum (-ffp-contract=off). They expect rounding to nearest.
 * Any thread may call them. They do not set errno, and floating-point exceptions are unspecified. */
#ifndef QKV_MATH_H
#define QKV_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- exp, log, pow (math.c), sin, cos (sine.c) -----------------------------------------------------------------
 * Every argument is allowed; sin and cos are as exact for large arguments as for small ones. Special values have the
 * results of C11, Annex F; a NaN, or an argument outside of the domain, gives NAN. Largest errors that were measured,
 * in units in the last place (a correctly rounded result has 0.5), are next to the functions. If x^y is a double,
 * qkv_pow is exact; it takes about 0.2 µs, the others about 10 ns. */
double qkv_exp(double x);           /* 0.54; 0.76 if the result is subnormal */
double qkv_log(double x);           /* 0.87 */
double qkv_pow(double x, double y); /* 0.501; 0.76 if the result is subnormal */
double qkv_sin(double x);           /* 0.87 */
double qkv_cos(double x);           /* 0.87 */

/* a·b + c, rounded once, for kernels of processors without an instruction for it. */
float qkv_fma(float a, float b, float c);

/* ---- exact functions, as those of C ---------------------------------------------------------------------------- */

/* The larger and the smaller number; if one of them is NaN, the other one. */
static inline double qkv_fmax(double a, double b) {
    return a > b || b != b ? a : b;
}

static inline double qkv_fmin(double a, double b) {
    return a < b || b != b ? a : b;
}

/* Whole numbers: rounded down, up, to nearest with halves away from 0, and to nearest with halves to even. Doubles from
 * 2^52 on are whole. Results of 0 have the sign of x. */
static inline double qkv_floor(double x) {
    if (!(fabs(x) < 0x1p52)) return x;
    const double whole = (double)(int64_t)x;
    return copysign(whole > x ? whole - 1 : whole, x);
}

static inline double qkv_ceil(double x) {
    return -qkv_floor(-x);
}

static inline double qkv_round(double x) {
    const double size = fabs(x), whole = qkv_floor(size);
    return copysign(size - whole >= 0.5 ? whole + 1 : whole, x);
}

static inline double qkv_rint(double x) {
    const double size = fabs(x);
    return size < 0x1p52 ? copysign((size + 0x1p52) - 0x1p52, x) : x;
}

#endif
