/* Quantisers: the errors of ten matrices against those of llama.cpp's quantisers (tests/golden/types, made by
 * golden_types.py), importance, and numbers that no block can hold. */
/* labels: quick */
#include "test.h"

#include "type/type.h"

#include <float.h>

enum { NUMBERS = 16 * 512 };

/* The sum of the square errors, each times its weight, or times x² (weights NULL, squares). */
static double error_of(const float *x, const float *got, const float *weights, bool squares, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)x[i] - (double)got[i], w = squares ? (double)x[i] * (double)x[i] : 1;
        sum += e * e * (weights ? (double)weights[i] : w);
    }
    return sum;
}

static bool is_quantised(const struct qkv_type *type) {
    return type->kind == QKV_CLASS_BLOCKS && type->quantiser;
}

static void quantise(const struct qkv_type *type, const float *x, const float *importance, float *got, size_t n) {
    unsigned char *bytes = malloc(n / type->block * type->bytes + 1);
    qkv_type_quantise(type, bytes + 1, x, n, importance); /* unaligned */
    qkv_type_floats(type, got, bytes + 1, n);
    free(bytes);
}

/* Both errors are at most 1.01 times theirs. */
static void check_matrix(const struct qkv_tensors *file, const struct qkv_array *matrix, const struct qkv_type *type) {
    static float x[NUMBERS], got[NUMBERS];
    char name[64];
    snprintf(name, sizeof name, "%s.%s", matrix->name + strlen("matrix."), type->name);
    const struct qkv_array *theirs = qkv_tensors_find(file, name);
    assert_non_null(theirs);
    assert_int_equal(qkv_array_elements(matrix), NUMBERS);
    qkv_array_floats(matrix, x);
    quantise(type, x, NULL, got, NUMBERS);
    for (size_t i = 0; i < 2; i++) {
        double limit;
        memcpy(&limit, (const char *)theirs->data + i * sizeof limit, sizeof limit);
        const double error = error_of(x, got, NULL, i, NUMBERS);
        if (!(error <= 1.01 * limit)) fail_msg("%s: error %zu is %.3f times theirs", name, i, error / limit);
    }
}

static void errors_are_no_larger_than_those_of_others(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_tensors *file;
    size_t matrices = 0;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_ok(ctx, qkv_tensors_open(ctx, TEST_SOURCE_DIR "/tests/golden/types/errors.safetensors", &file));
    for (size_t i = 0; i < qkv_tensors_count(file); i++) {
        const struct qkv_array *matrix = qkv_tensors_at(file, i);
        if (strncmp(matrix->name, "matrix.", strlen("matrix.")) != 0) continue;
        matrices++;
        check_matrix(file, matrix, &qkv_type_q8_0);
        for (int d = 0; d < QKV_DTYPE_COUNT; d++)
            if (is_quantised(qkv_types[d])) check_matrix(file, matrix, qkv_types[d]);
    }
    assert_int_equal(matrices, 10);
    qkv_tensors_close(file);
    qkv_context_free(ctx);
}

static void important_numbers_have_smaller_errors(void **state) {
    (void)state;
    struct qkv_random random = test_random(1);
    static float x[NUMBERS], importance[NUMBERS], got[NUMBERS], plain[NUMBERS], scaled[NUMBERS];
    test_fill(&random, x, NUMBERS, 1);
    for (size_t i = 0; i < NUMBERS; i++) importance[i] = qkv_random_below(&random, 8) ? 0.01f : 3;
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        const struct qkv_type *type = qkv_types[d];
        if (type->kind != QKV_CLASS_BLOCKS) continue;
        quantise(type, x, NULL, plain, NUMBERS);
        quantise(type, x, importance, got, NUMBERS);
        const double with = error_of(x, got, importance, false, NUMBERS),
                     without = error_of(x, plain, importance, false, NUMBERS);
        if (is_quantised(type) ? !(with < 0.95 * without) : with != without)
            fail_msg("%s: %g with importance, %g without", type->name, with, without);
        for (size_t i = 0; i < NUMBERS; i++) importance[i] *= 0x1p40f; /* only ratios count */
        quantise(type, x, importance, scaled, NUMBERS);
        assert_memory_equal(got, scaled, sizeof got);
        for (size_t i = 0; i < NUMBERS; i++) importance[i] *= 0x1p-40f;
    }
}

static void importance_of_any_kind_leaves_numbers_finite(void **state) {
    (void)state;
    static const float odd[] = {0, -1, NAN, INFINITY, FLT_MAX, FLT_TRUE_MIN};
    struct qkv_random random = test_random(2);
    float x[256], importance[256], got[256];
    test_fill(&random, x, 256, 1);
    for (int d = 0; d < QKV_DTYPE_COUNT; d++)
        for (size_t k = 0; k < 2 * TEST_COUNT(odd) && is_quantised(qkv_types[d]); k++) {
            for (size_t i = 0; i < 256; i++) importance[i] = k % 2 || i % 3 ? odd[k / 2] : 1;
            quantise(qkv_types[d], x, importance, got, 256);
            for (size_t i = 0; i < 256; i++) assert_true(isfinite(got[i]));
        }
}

/* A number that is not finite, or is too large for the scale, is not lost in silence: its whole block is not finite. */
static void numbers_that_are_not_finite_make_their_block_so(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e12f};
    struct qkv_random random = test_random(3);
    float x[512], got[512];
    for (int d = 0; d < QKV_DTYPE_COUNT; d++)
        for (size_t k = 0; k < TEST_COUNT(odd); k++) {
            const struct qkv_type *type = qkv_types[d];
            if (!is_quantised(type) && type != &qkv_type_q8_0) continue;
            test_fill(&random, x, 512, 1);
            x[256 + qkv_random_below(&random, type->block)] = odd[k];
            quantise(type, x, NULL, got, 512);
            for (size_t i = 0; i < 512; i++)
                if (!isfinite(got[i]) != (i >= 256 && i < 256 + type->block))
                    fail_msg("%s: %g became %g beside %g", type->name, (double)x[i], (double)got[i], (double)odd[k]);
        }
}

static void numbers_of_any_size_stay_near(void **state) {
    (void)state;
    struct qkv_random random = test_random(4);
    float x[256], got[256];
    for (int d = 0; d < QKV_DTYPE_COUNT; d++)
        for (int exponent = -149; exponent < 14; exponent++) {
            const struct qkv_type *type = qkv_types[d];
            if (!is_quantised(type) && type != &qkv_type_q8_0) continue;
            test_fill(&random, x, 256, 1);
            float largest = 0;
            for (size_t i = 0; i < 256; i++) x[i] = ldexpf(x[i], exponent), largest = fmaxf(largest, fabsf(x[i]));
            quantise(type, x, NULL, got, 256);
            /* Half a step of 2 bits; the smallest number of f16 times the largest integers of a part and of a code. */
            for (size_t i = 0; i < 256; i++)
                if (!(fabsf(got[i] - x[i]) <= 0.6f * largest + 0x1p-25f * 128 * 128))
                    fail_msg("%s: %g became %g", type->name, (double)x[i], (double)got[i]);
        }
    memset(x, 0, sizeof x);
    for (int d = 0; d < QKV_DTYPE_COUNT; d++)
        if (qkv_types[d]->kind == QKV_CLASS_BLOCKS) {
            quantise(qkv_types[d], x, NULL, got, 256);
            for (size_t i = 0; i < 256; i++) assert_true(got[i] == 0);
        }
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_no_larger_than_those_of_others),
        cmocka_unit_test(important_numbers_have_smaller_errors),
        cmocka_unit_test(importance_of_any_kind_leaves_numbers_finite),
        cmocka_unit_test(numbers_that_are_not_finite_make_their_block_so),
        cmocka_unit_test(numbers_of_any_size_stay_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
