/* Results in fp32 have the same bits on every kernel table as in plain C: kernels, and attention with its gradients.
 * Products are in test_gemm.c, whole models in test_model_tables.c. */
/* labels: numeric */
#include "attend_tables.h"
#include "check_tables.h"

static void kernels_have_the_bits_of_scalar(void **state) {
    (void)state;
    for (size_t i = 0; qkv_kernels_at(i); i++) {
        struct qkv_random random = test_random(i);
        const int before = check_failures;
        check_tables(qkv_kernels_at(i), &random);
        if (check_failures > before) fail_msg("table %s", qkv_kernels_at(i)->isa);
    }
}

static void attention_has_the_bits_of_scalar(void **state) {
    (void)state;
    struct qkv_context ctx;
    FOR_TABLES(ctx) assert_true(attend_check_tables(&ctx, test_seed(), cases(80)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_have_the_bits_of_scalar),
                                       cmocka_unit_test(attention_has_the_bits_of_scalar)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
