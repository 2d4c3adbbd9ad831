/* The row and vector kernels of every kernel table of this machine, and the choice of table and threads. */
#include "test.h"

#include "check_cuts.h"
#include "kernel/cpu.h"

#define KERNEL_TEST(name)                                                                                              \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        struct qkv_random random = test_random(__LINE__);                                                              \
        const int before = check_failures;                                                                             \
        for (size_t i = 0; qkv_kernels_at(i); i++) {                                                                   \
            check_##name(qkv_kernels_at(i), &random);                                                                  \
            if (check_failures > before) fail_msg("%s, table %s", #name, qkv_kernels_at(i)->isa);                      \
        }                                                                                                              \
    }
KERNEL_CHECKS(KERNEL_TEST)

static void test_tables(void **state) {
    (void)state;
    size_t count = 0;
    for (; qkv_kernels_at(count); count++) {
        const struct qkv_kernels *k = qkv_kernels_at(count);
        assert_string_equal(qkv_isa_at(count), k->isa);
        struct qkv_context_options options = {.size = sizeof options, .isa = k->isa};
        struct qkv_context *ctx;
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        assert_ptr_equal(ctx->kernels, k);
        assert_string_equal(qkv_context_isa(ctx), k->isa);
        assert_true(qkv_measure_peak(ctx) > 1e7);
        struct qkv_reading reading;
        if (count == 0) {
            assert_ok(ctx, qkv_reading_start(ctx, &reading));
            assert_true(qkv_reading_measure(ctx, &reading) > 1e7);
            assert_true(reading.best > 1e7);
            qkv_reading_end(&reading);
        }
        qkv_context_free(ctx);
    }
    assert_true(count >= 1);
    assert_string_equal(qkv_isa_at(count - 1), "scalar");
    assert_int_equal(qkv_kernels_at(count - 1)->width, 1);
    assert_null(qkv_isa_at(count));
    assert_null(qkv_isa_at(SIZE_MAX));
}

/* Processors of Intel multiply bf16 at half the speed of fp32, unless they have AMX. */
static void test_order(void **state) {
    (void)state;
    size_t fp32 = SIZE_MAX, bf16 = SIZE_MAX;
    for (size_t i = 0; qkv_isa_at(i); i++) {
        if (!strcmp(qkv_isa_at(i), "avx512")) fp32 = i;
        if (!strcmp(qkv_isa_at(i), "avx512bf16")) bf16 = i;
        assert_true(i == 0 || strcmp(qkv_isa_at(i), "amx") != 0);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(qkv_isa_at(i), qkv_isa_at(k));
    }
    if (bf16 == SIZE_MAX) return;
    assert_true(fp32 != SIZE_MAX);
    assert_true((bf16 > fp32) == qkv_cpu_is("GenuineIntel"));
}

static void test_context(void **state) {
    (void)state;
    struct qkv_context *ctx;
    unsetenv("QKV_ISA");
    unsetenv("QKV_THREADS");
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_string_equal(qkv_context_isa(ctx), qkv_isa_at(0));
    assert_int_equal(qkv_context_threads(ctx), qkv_cpu_count());
    assert_string_equal(qkv_message(ctx), "");
    qkv_context_free(ctx);
    qkv_context_free(NULL);

    setenv("QKV_ISA", "scalar", 1);
    setenv("QKV_THREADS", "3", 1);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_string_equal(qkv_context_isa(ctx), "scalar");
    assert_int_equal(qkv_context_threads(ctx), 3);
    qkv_context_free(ctx);
    struct qkv_context_options options = {
        .size = sizeof options, .threads = 2, .isa = qkv_isa_at(0)}; /* options come before variables */
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    assert_string_equal(qkv_context_isa(ctx), qkv_isa_at(0));
    assert_int_equal(qkv_context_threads(ctx), 2);
    qkv_context_free(ctx);
    unsetenv("QKV_ISA");
    unsetenv("QKV_THREADS");
}

static void refuse(const struct qkv_context_options *options, const char *part) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, options), QKV_ARGUMENT);
    assert_non_null(ctx);
    assert_message(ctx, part);
    qkv_context_free(ctx);
}

static void test_context_refusals(void **state) {
    (void)state;
    struct qkv_context_options options = {.size = sizeof options, .isa = "sse9"};
    refuse(&options, "option isa is \"sse9\"");
    refuse(&options, "scalar");
    options.isa = NULL;
    setenv("QKV_ISA", "riscv", 1);
    refuse(NULL, "QKV_ISA is \"riscv\"");
    setenv("QKV_ISA", "", 1); /* set to nothing is not set */
    options.threads = -1;
    refuse(&options, "threads is -1");
    options.threads = 1 << 20;
    refuse(&options, "threads is 1048576");
    static const char *const bad[] = {"0", "-2", "2x", "x", "99999999999999999999", "1025"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        setenv("QKV_THREADS", bad[i], 1);
        refuse(NULL, bad[i]);
    }
    unsetenv("QKV_ISA");
    unsetenv("QKV_THREADS");
}

int main(void) {
#define KERNEL_UNIT_TEST(name) cmocka_unit_test(test_##name),
    const struct CMUnitTest tests[] = {KERNEL_CHECKS(KERNEL_UNIT_TEST) cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_order), cmocka_unit_test(test_context),
                                       cmocka_unit_test(test_context_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
