/* test_math: exp, log, pow, sin and cos of src/base/math.h, against the long double functions of the C library and
 * results that mpmath computed, and against bits that are the same on every machine; and the exact functions. */
/* labels: quick */
#include "test.h"

#include <float.h>

#include "base/math.h"
#include "math_known.h"

enum { RANDOM = 100000 };

/* The error of a result in units in the last place of the exact one, which is near high + low. */
static double ulps(double got, long double high, long double low) {
    const double near = (double)high;
    if (isnan(got) || isnan(near) || isinf(got) || isinf(near))
        return got == near || (isnan(got) && isnan(near)) ? 0 : INFINITY;
    int exponent;
    frexpl(high, &exponent);
    if (high == 0 || exponent < DBL_MIN_EXP) exponent = DBL_MIN_EXP;
    return (double)fabsl(ldexpl(((long double)got - high) - low, DBL_MANT_DIG - exponent));
}

/* Where long double is double, the oracle has an error of its own. */
static double bound_of(double bound) {
    return LDBL_MANT_DIG > DBL_MANT_DIG ? bound : bound + 1;
}

static void ulps_within(const char *name, double x, double y, double error, double bound) {
    if (error <= bound) return;
    print_error("%s(%a, %a) has an error of %.4f ulp, more than %.4f\n", name, x, y, error, bound);
    fail();
}

/* ---- random arguments ------------------------------------------------------------------------------------------- */

static double uniform(struct qkv_random *random, double low, double high) {
    return low + (high - low) * qkv_random_uniform(random);
}

/* ±m·2^e with m in [1, 2) and e in [low, high]. */
static double spread(struct qkv_random *random, int low, int high) {
    const double m = uniform(random, 1, 2);
    const double x = ldexp(m, low + (int)test_between(random, 0, (size_t)(high - low)));
    return qkv_random_bits(random) & 1 ? -x : x;
}

struct range {
    double low, high; /* bounds of x; of its exponent, if `spread` */
    double bound;     /* in ulps */
    bool spread;
};

static void ranges_within(const char *name, uint64_t stream, double (*function)(double),
                          long double (*oracle)(long double), const struct range *ranges, size_t count) {
    struct qkv_random random = test_random(stream);
    for (size_t r = 0; r < count; r++) {
        double worst = 0;
        for (size_t i = 0; i < RANDOM; i++) {
            const double x = ranges[r].spread ? spread(&random, (int)ranges[r].low, (int)ranges[r].high)
                                              : uniform(&random, ranges[r].low, ranges[r].high);
            const double error = ulps(function(x), oracle((long double)x), 0);
            ulps_within(name, x, 0, error, bound_of(ranges[r].bound));
            worst = fmax(worst, error);
        }
        printf("%s in [%g, %g]%s: at most %.4f ulp\n", name, ranges[r].low, ranges[r].high,
               ranges[r].spread ? " (exponent)" : "", worst);
    }
}

static void exp_is_within_its_error(void **state) {
    (void)state;
    static const struct range ranges[] = {{-1, 1, 0.54, false},
                                          {-40, 0, 0.54, false},
                                          {-708.3, 709.7, 0.54, false},
                                          {-746, -708.3, 0.77, false},
                                          {-1074, 9, 0.77, true}};
    ranges_within("exp", 1, qkv_exp, expl, ranges, TEST_COUNT(ranges));
}

static double log_of_size(double x) {
    return qkv_log(fabs(x));
}

static long double log_of_size_long(long double x) {
    return logl(fabsl(x));
}

static void log_is_within_its_error(void **state) {
    (void)state;
    static const struct range ranges[] = {
        {0, 1, 0.9, false}, {0.65, 1.5, 0.9, false}, {1, 1e5, 0.9, false}, {-1074, 1023, 0.9, true}};
    ranges_within("log", 2, log_of_size, log_of_size_long, ranges, TEST_COUNT(ranges));
}

static double log_near_one(double x) {
    return qkv_log(1 + x);
}

static long double log_near_one_long(long double x) {
    return logl((long double)(1 + (double)x));
}

static void log_near_one_is_within_its_error(void **state) {
    (void)state;
    static const struct range ranges[] = {{-53, -2, 0.9, true}};
    ranges_within("log(1 + x)", 3, log_near_one, log_near_one_long, ranges, TEST_COUNT(ranges));
}

static void sin_and_cos_are_within_their_error(void **state) {
    (void)state;
    static const struct range ranges[] = {{-0.8, 0.8, 0.9, false},
                                          {-7, 7, 0.9, false},
                                          {-1.1e6, 1.1e6, 0.9, false},
                                          {-1e12, 1e12, 0.9, false},
                                          {-1074, 62, 0.9, true}};
    ranges_within("sin", 4, qkv_sin, sinl, ranges, TEST_COUNT(ranges));
    ranges_within("cos", 5, qkv_cos, cosl, ranges, TEST_COUNT(ranges));
}

/* A result that is subnormal is rounded twice. */
static double pow_bound(double result) {
    return bound_of(fabs(result) < DBL_MIN ? 0.77 : 0.51);
}

static void pow_within(double x, double y) {
    const double got = qkv_pow(x, y);
    ulps_within("pow", x, y, ulps(got, powl((long double)x, (long double)y), 0), pow_bound(got));
}

static void pow_is_within_its_error(void **state) {
    (void)state;
    struct qkv_random random = test_random(6);
    for (size_t i = 0; i < RANDOM; i++) {
        const double x = uniform(&random, 0, 10), wide = fabs(spread(&random, -1074, 1023));
        pow_within(10000, -qkv_random_uniform(&random));
        pow_within(x, uniform(&random, -300, 300));
        pow_within(wide, spread(&random, -70, 12));
    }
}

/* ---- known results ---------------------------------------------------------------------------------------------- */

static void known_within(const char *name, const struct known *known, size_t count, double (*function)(double),
                         double bound) {
    for (size_t i = 0; i < count; i++) {
        const double error = ulps(function(known[i].x), (long double)known[i].high, (long double)known[i].low);
        ulps_within(name, known[i].x, 0, error, bound);
    }
}

static void large_and_nearly_right_angles_are_reduced_exactly(void **state) {
    (void)state;
    known_within("sin", sine_known, TEST_COUNT(sine_known), qkv_sin, 0.9);
    known_within("cos", cosine_known, TEST_COUNT(cosine_known), qkv_cos, 0.9);
}

static void hard_powers_are_within_the_error(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(pow_known); i++) {
        const struct known k = pow_known[i];
        const double got = qkv_pow(k.x, k.y);
        ulps_within("pow", k.x, k.y, ulps(got, (long double)k.high, (long double)k.low),
                    fabs(got) < DBL_MIN ? 0.77 : 0.501);
    }
}

static void powers_that_are_doubles_are_exact(void **state) {
    (void)state;
    struct qkv_random random = test_random(7);
    for (int n = -1074; n < 1024; n++) {
        assert_true(qkv_pow(2, n) == ldexp(1, n));
        assert_true(qkv_pow(0.5, -n) == ldexp(1, n));
        if (n % 2 == 0) assert_true(qkv_pow(4, n / 2) == ldexp(1, n));
    }
    for (int base = 3; base < 1000; base++) {
        double power = 1;
        for (int n = 0; power <= 0x1p53; n++, power *= base) {
            assert_true(qkv_pow(base, n) == power);
            assert_true(qkv_pow(-base, n) == (n % 2 ? -power : power));
        }
    }
    for (size_t i = 0; i < RANDOM; i++) {
        const double x = fabs(spread(&random, -1074, 1023)), root = (double)(qkv_random_bits(&random) >> 38);
        assert_true(qkv_pow(x, 1) == x);
        assert_true(qkv_pow(root * root, 0.5) == root);
    }
}

/* ---- special values --------------------------------------------------------------------------------------------- */

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The same bits, or NaN in both. */
static void same(const char *name, double x, double y, double got, double expected) {
    if (bits_of(got) == bits_of(expected) || (isnan(got) && isnan(expected))) return;
    print_error("%s(%a, %a) is %a, not %a\n", name, x, y, got, expected);
    fail();
}

static void special_values_are_those_of_annex_f(void **state) {
    (void)state;
    static const double exps[][2] = {{0, 1},
                                     {-0.0, 1},
                                     {INFINITY, INFINITY},
                                     {-INFINITY, 0},
                                     {NAN, NAN},
                                     {710, INFINITY},
                                     {DBL_MAX, INFINITY},
                                     {-746, 0},
                                     {-DBL_MAX, 0},
                                     {0x1p-60, 1},
                                     {-0x1p-60, 1},
                                     {0x1p-1074, 1},
                                     {709.79, INFINITY}};
    static const double logs[][2] = {{0, -INFINITY}, {-0.0, -INFINITY}, {1, 0},     {INFINITY, INFINITY},
                                     {-1, NAN},      {-INFINITY, NAN},  {NAN, NAN}, {-0x1p-1074, NAN}};
    static const double sines[][2] = {{0, 0},     {-0.0, -0.0},           {INFINITY, NAN},      {-INFINITY, NAN},
                                      {NAN, NAN}, {0x1p-1074, 0x1p-1074}, {-0x1p-30, -0x1p-30}, {0x1p-1022, 0x1p-1022}};
    static const double cosines[][2] = {{0, 1},     {-0.0, 1},      {INFINITY, NAN}, {-INFINITY, NAN},
                                        {NAN, NAN}, {0x1p-1074, 1}, {0x1p-30, 1},    {-0x1p-28, 1}};
    for (size_t i = 0; i < TEST_COUNT(exps); i++) same("exp", exps[i][0], 0, qkv_exp(exps[i][0]), exps[i][1]);
    for (size_t i = 0; i < TEST_COUNT(logs); i++) same("log", logs[i][0], 0, qkv_log(logs[i][0]), logs[i][1]);
    for (size_t i = 0; i < TEST_COUNT(sines); i++) same("sin", sines[i][0], 0, qkv_sin(sines[i][0]), sines[i][1]);
    for (size_t i = 0; i < TEST_COUNT(cosines); i++)
        same("cos", cosines[i][0], 0, qkv_cos(cosines[i][0]), cosines[i][1]);
}

/* C11, F.10.4.4, and every pair of the values below as in the C library, which must follow it as well. */
static void special_powers_are_those_of_annex_f(void **state) {
    (void)state;
    static const double annex[][3] = {{0, -3, INFINITY},
                                      {-0.0, -3, -INFINITY},
                                      {0, -2, INFINITY},
                                      {-0.0, -2, INFINITY},
                                      {0, -INFINITY, INFINITY},
                                      {-0.0, -0.5, INFINITY},
                                      {0, 3, 0},
                                      {-0.0, 3, -0.0},
                                      {-0.0, 2, 0},
                                      {-0.0, 0.5, 0},
                                      {-1, INFINITY, 1},
                                      {-1, -INFINITY, 1},
                                      {1, NAN, 1},
                                      {1, INFINITY, 1},
                                      {NAN, 0, 1},
                                      {NAN, -0.0, 1},
                                      {-8, 1 / 3.0, NAN},
                                      {0.5, -INFINITY, INFINITY},
                                      {2, -INFINITY, 0},
                                      {-0.5, INFINITY, 0},
                                      {-2, INFINITY, INFINITY},
                                      {-INFINITY, -3, -0.0},
                                      {-INFINITY, -2, 0},
                                      {-INFINITY, 3, -INFINITY},
                                      {-INFINITY, 2, INFINITY},
                                      {INFINITY, -1, 0},
                                      {INFINITY, 0.5, INFINITY},
                                      {NAN, 1, NAN},
                                      {2, NAN, NAN},
                                      {-2, 1025, -INFINITY},
                                      {-2, -1077, -0.0},
                                      {10, 309, INFINITY}};
    static const double values[] = {0,         -0.0,       1,           -1,           0.5,        -0.5,     2,
                                    -2,        3,          -3,          0x1p-1074,    -0x1p-70,   1e20,     -1e20,
                                    0x1p53,    0x1p53 - 1, 1 - 0x1p-53, -1 - 0x1p-52, DBL_MAX,    -DBL_MAX, INFINITY,
                                    -INFINITY, NAN,        2.5,         0x1p52 + 1,   -0x1p53 - 2};
    for (size_t i = 0; i < TEST_COUNT(annex); i++)
        same("pow", annex[i][0], annex[i][1], qkv_pow(annex[i][0], annex[i][1]), annex[i][2]);
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        for (size_t k = 0; k < TEST_COUNT(values); k++) {
            const double x = values[i], y = values[k], got = qkv_pow(x, y), expected = pow(x, y);
            if (got == 0 || !isfinite(got) || expected == 0)
                same("pow", x, y, got, expected);
            else
                ulps_within("pow", x, y, ulps(got, (long double)expected, 0), 1);
        }
    }
}

/* ---- shape ------------------------------------------------------------------------------------------------------ */

static void functions_are_monotone_near_zero_and_symmetric(void **state) {
    (void)state;
    struct qkv_random random = test_random(8);
    for (int i = -3000; i < 3000; i++) {
        const double x = i * 0x1p-54, next = (i + 1) * 0x1p-54;
        assert_true(qkv_exp(x) <= qkv_exp(next));
        assert_true(qkv_log(1 + x) <= qkv_log(1 + next));
        assert_true(qkv_sin(x) < qkv_sin(next));
        assert_true(qkv_cos(x) == 1);
        assert_true(i < 0 ? qkv_exp(x) <= 1 : qkv_exp(x) >= 1);
    }
    for (size_t i = 0; i < RANDOM; i++) {
        const double x = spread(&random, -30, 1023);
        assert_true(qkv_sin(-x) == -qkv_sin(x) && qkv_cos(-x) == qkv_cos(x));
        assert_true(fabs(qkv_sin(x)) <= 1 && fabs(qkv_cos(x)) <= 1);
    }
}

/* ---- bits ------------------------------------------------------------------------------------------------------- */

/* The sums are those of x86-64; the tests above say that the results are right. A change of a coefficient or of the
 * order of operations changes them, and so does a compiler that contracts operations. */
static void every_machine_computes_the_same_bits(void **state) {
    (void)state;
    struct qkv_random random = qkv_random_start(20170612, 9);
    uint64_t sums[5] = {QKV_HASH_START, QKV_HASH_START, QKV_HASH_START, QKV_HASH_START, QKV_HASH_START};
    static const uint64_t expected[5] = {UINT64_C(0x08bc9f0de080b00c), UINT64_C(0xc31dea153817cc4e),
                                         UINT64_C(0x5d94cb80cbae195a), UINT64_C(0x452156defdcaa428),
                                         UINT64_C(0xf8208acf9c676be9)};
    for (size_t i = 0; i < 20000; i++) {
        const double power = uniform(&random, -745, 709), size = fabs(spread(&random, -1060, 1020));
        const double near_one = uniform(&random, 0.5, 2), angle = spread(&random, -30, i % 2 ? 4 : 1000);
        const double exponent = uniform(&random, -1, 1);
        const double results[5] = {qkv_exp(power), qkv_log(i % 2 ? size : near_one), qkv_sin(angle), qkv_cos(angle),
                                   qkv_pow(size, exponent)};
        for (size_t k = 0; k < 5; k++) {
            const uint64_t bits = bits_of(results[k]);
            sums[k] = qkv_hash(sums[k], &bits, sizeof bits);
        }
    }
    for (size_t k = 0; k < 5; k++) {
        if (sums[k] != expected[k])
            print_error("the sum of function %zu is 0x%016llx, not 0x%016llx\n", k, (unsigned long long)sums[k],
                        (unsigned long long)expected[k]);
    }
    assert_memory_equal(sums, expected, sizeof sums);
}

/* ---- exact functions -------------------------------------------------------------------------------------------- */

static void whole_same(double x) {
    same("floor", x, 0, qkv_floor(x), floor(x));
    same("ceil", x, 0, qkv_ceil(x), ceil(x));
    same("round", x, 0, qkv_round(x), round(x));
    same("rint", x, 0, qkv_rint(x), nearbyint(x));
}

static void whole_numbers_are_those_of_the_c_library(void **state) {
    (void)state;
    struct qkv_random random = test_random(10);
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, DBL_MAX, -DBL_MAX, 0x1p-1074, -0x1p-1074};
    for (size_t i = 0; i < TEST_COUNT(special); i++) whole_same(special[i]);
    for (int i = -400; i <= 400; i++) {
        whole_same(i / 4.0);
        whole_same(nextafter(i / 4.0, INFINITY));
        whole_same(nextafter(i / 4.0, -INFINITY));
        for (int power = 50; power < 64; power++) whole_same(ldexp(1, power) + i / 4.0);
    }
    for (size_t i = 0; i < RANDOM; i++) whole_same(spread(&random, i % 2 ? -5 : -1074, i % 2 ? 65 : 1023));
}

static void the_larger_and_smaller_number_are_those_of_the_c_library(void **state) {
    (void)state;
    static const double values[] = {0, 1, -1, 2.5, INFINITY, -INFINITY, NAN, DBL_MAX, 0x1p-1074, -0x1p-1074};
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        for (size_t k = 0; k < TEST_COUNT(values); k++) {
            same("fmax", values[i], values[k], qkv_fmax(values[i], values[k]), fmax(values[i], values[k]));
            same("fmin", values[i], values[k], qkv_fmin(values[i], values[k]), fmin(values[i], values[k]));
        }
    }
}

/* ---- fma -------------------------------------------------------------------------------------------------------- */

static float any_float(struct qkv_random *random) {
    const uint32_t bits = (uint32_t)qkv_random_bits(random);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void fma_same(float a, float b, float c) {
    const float got = qkv_fma(a, b, c), expected = fmaf(a, b, c);
    if (memcmp(&got, &expected, sizeof got) && !(isnan(got) && isnan(expected)))
        fail_msg("fma of %a, %a, %a: %a, not %a", (double)a, (double)b, (double)c, (double)got, (double)expected);
}

/* The squares of 1 + m/4096 with odd m lie half-way between two floats. What is added is so small that a sum in double
 * rounds it off: then only its sign says to which of the two. */
static void fma_rounds_once(void **state) {
    (void)state;
    struct qkv_random random = test_random(__LINE__);
    for (int m = 1; m < 1024; m += 2) {
        for (int power = -140; power <= 60; power += 20) {
            const float x = 1 + (float)m / 4096, y = x * exp2f((float)power);
            for (int e = 20; e < 90; e++) {
                const float small = exp2f((float)(power - e));
                fma_same(x, y, small), fma_same(x, y, -small);
                fma_same(-x, y, small), fma_same(-x, y, -small);
            }
        }
    }
    for (int i = 0; i < 200000; i++) {
        const float a = any_float(&random), b = any_float(&random);
        fma_same(a, b, any_float(&random));
        fma_same(a, b, -a * b); /* what the product lost */
        fma_same(a, b, a * (float)qkv_random_uniform(&random));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_its_error),
        cmocka_unit_test(log_is_within_its_error),
        cmocka_unit_test(log_near_one_is_within_its_error),
        cmocka_unit_test(sin_and_cos_are_within_their_error),
        cmocka_unit_test(pow_is_within_its_error),
        cmocka_unit_test(large_and_nearly_right_angles_are_reduced_exactly),
        cmocka_unit_test(hard_powers_are_within_the_error),
        cmocka_unit_test(powers_that_are_doubles_are_exact),
        cmocka_unit_test(special_values_are_those_of_annex_f),
        cmocka_unit_test(special_powers_are_those_of_annex_f),
        cmocka_unit_test(functions_are_monotone_near_zero_and_symmetric),
        cmocka_unit_test(every_machine_computes_the_same_bits),
        cmocka_unit_test(whole_numbers_are_those_of_the_c_library),
        cmocka_unit_test(the_larger_and_smaller_number_are_those_of_the_c_library),
        cmocka_unit_test(fma_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
