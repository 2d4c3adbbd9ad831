/* The matrix product, with every kernel table of this machine. */
#include "test.h"

#include "check_bf16.h"
#include "check_gemm.h"

typedef void gemm_checker(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random);

static void each_table(gemm_checker *checker, const char *name, uint64_t stream) {
    struct qkv_random random = test_random(stream);
    for (size_t i = 0; qkv_isa_at(i); i++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            struct qkv_context_options options = {.size = sizeof options, .threads = threads, .isa = qkv_isa_at(i)};
            struct qkv_context *ctx;
            struct qkv_arena scratch;
            const int before = check_failures;
            assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
            assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "scratch"));
            checker(ctx, &scratch, &random);
            qkv_arena_free(&scratch);
            qkv_context_free(ctx);
            if (check_failures > before) fail_msg("%s, table %s, %d threads", name, qkv_isa_at(i), threads);
        }
    }
}

#define GEMM_TEST(name)                                                                                                \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        each_table(check_##name, #name, __LINE__);                                                                     \
    }
GEMM_CHECKS(GEMM_TEST)
BF16_CHECKS(GEMM_TEST)

int main(void) {
#define GEMM_UNIT_TEST(name) cmocka_unit_test(test_##name),
    const struct CMUnitTest tests[] = {GEMM_CHECKS(GEMM_UNIT_TEST) BF16_CHECKS(GEMM_UNIT_TEST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
