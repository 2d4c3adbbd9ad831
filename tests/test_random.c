/* test_random: Threefry against the known answers of Random123, and the distributions drawn from it. */
/* labels: quick */
#include "test.h"

static void known_answers(void **state) {
    (void)state;
    /* threefry2x32 20 of Random123 1.14, tests/kat_vectors: counter, key, result */
    static const uint32_t known[3][3][2] = {
        {{0x00000000, 0x00000000}, {0x00000000, 0x00000000}, {0x6b200159, 0x99ba4efe}},
        {{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
        {{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}},
    };
    for (size_t i = 0; i < TEST_COUNT(known); i++) {
        uint32_t out[2];
        qkv_threefry(known[i][1], known[i][0], out);
        assert_int_equal(out[0], known[i][2][0]);
        assert_int_equal(out[1], known[i][2][1]);
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The Kolmogorov-Smirnov statistic of a sample whose cumulative probabilities are p; sorts it. One sample in ten
 * million is beyond 2.9 / sqrt(n). */
static double kolmogorov_smirnov(double *p, size_t n) {
    double worst = 0;
    qsort(p, n, sizeof *p, compare_doubles);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fmax((double)(i + 1) / (double)n - p[i], p[i] - (double)i / (double)n));
    }
    return worst;
}

enum { SAMPLE = 1000000 };

static void uniform(void **state) {
    (void)state;
    struct qkv_random random = test_random(1);
    double *p = malloc(SAMPLE * sizeof *p);
    double serial = 0;
    for (size_t i = 0; i < SAMPLE; i++) {
        p[i] = qkv_random_uniform(&random);
        assert_true(p[i] >= 0 && p[i] < 1);
        if (i) serial += (p[i] - 0.5) * (p[i - 1] - 0.5);
    }
    assert_true(fabs(serial * 12 / sqrt(SAMPLE)) < 5.5); /* a normal of deviation 1 */
    assert_true(kolmogorov_smirnov(p, SAMPLE) < 2.9 / sqrt(SAMPLE));
    free(p);
}

static void normal(void **state) {
    (void)state;
    struct qkv_random random = test_random(2);
    double *p = malloc(SAMPLE * sizeof *p);
    double moments[4] = {0};
    for (size_t i = 0; i < SAMPLE; i++) {
        double x = qkv_random_normal(&random), power = 1;
        assert_true(isfinite(x));
        for (int k = 0; k < 4; k++) moments[k] += (power *= x) / SAMPLE;
        p[i] = 0.5 * erfc(-x / sqrt(2));
    }
    /* moments 0, 1, 0, 3 with variances 1, 2, 15, 96 over the size of the sample */
    static const double mean[4] = {0, 1, 0, 3}, variance[4] = {1, 2, 15, 96};
    for (int k = 0; k < 4; k++) assert_true(fabs(moments[k] - mean[k]) < 5.5 * sqrt(variance[k] / SAMPLE));
    assert_true(kolmogorov_smirnov(p, SAMPLE) < 2.9 / sqrt(SAMPLE));
    free(p);
}

static void below(void **state) {
    (void)state;
    struct qkv_random random = test_random(3);
    static const uint64_t bounds[] = {1, 2, 3, 10, 97, 1000};
    for (size_t b = 0; b < TEST_COUNT(bounds); b++) {
        size_t seen[1000] = {0};
        double expected = (double)SAMPLE / (double)bounds[b], chi = 0, freedom = (double)bounds[b] - 1;
        for (size_t i = 0; i < SAMPLE; i++) {
            uint64_t x = qkv_random_below(&random, bounds[b]);
            assert_true(x < bounds[b]);
            seen[x]++;
        }
        for (size_t i = 0; i < bounds[b]; i++) chi += pow((double)seen[i] - expected, 2) / expected;
        assert_true(chi <= freedom + 6 * sqrt(2 * freedom) + 30);
    }
    /* A remainder of 64 bits would give the lower third of this range half of the time. */
    uint64_t bound = (uint64_t)3 << 62;
    size_t lower = 0;
    for (size_t i = 0; i < SAMPLE; i++) lower += qkv_random_below(&random, bound) < bound / 3;
    assert_true(fabs((double)lower / SAMPLE - 1.0 / 3) < 5.5 * sqrt(2.0 / 9 / SAMPLE));
    assert_int_equal(qkv_random_below(&random, 0), 0);
}

static void streams(void **state) {
    (void)state;
    /* The same pair gives the same numbers; any other pair gives others, also with its halves exchanged. */
    static const uint64_t words[] = {0, 1, 2, 0xffffffff, (uint64_t)1 << 32, UINT64_MAX};
    uint64_t first[TEST_COUNT(words) * TEST_COUNT(words)];
    size_t n = 0;
    for (size_t s = 0; s < TEST_COUNT(words); s++) {
        for (size_t t = 0; t < TEST_COUNT(words); t++) {
            struct qkv_random a = qkv_random_start(words[s], words[t]), b = qkv_random_start(words[s], words[t]);
            first[n] = qkv_random_bits(&a);
            assert_true(first[n] == qkv_random_bits(&b));
            assert_true(qkv_random_bits(&a) != first[n]);
            for (size_t i = 0; i < n; i++) assert_true(first[i] != first[n]);
            n++;
        }
    }
    struct qkv_random random = qkv_random_start(7, 9);
    uint64_t sequence[5];
    for (size_t i = 0; i < 5; i++) sequence[i] = qkv_random_bits(&random);
    for (size_t i = 5; i-- > 0;) { /* any element again, in any order */
        random.counter = i;
        assert_true(qkv_random_bits(&random) == sequence[i]);
    }
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers), cmocka_unit_test(uniform), cmocka_unit_test(normal),
        cmocka_unit_test(below),         cmocka_unit_test(streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
