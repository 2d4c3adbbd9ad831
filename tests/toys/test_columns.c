/* test_columns.c: the table of the toy "pair" has its own kernels, and the products of bf16 from the columns of
 * "pairrun", which is no table. Products are compared with chains of fmaf and with sums in double precision, as in
 * test_gemm.c, which would take long with a table without instructions. */
#include "test.h"

#include "check_bf16.h"
#include "check_gemm.h"

static const struct qkv_kernels *table(const char *name) {
    for (size_t i = 0; qkv_kernels_at(i); i++)
        if (!strcmp(qkv_kernels_at(i)->isa, name)) return qkv_kernels_at(i);
    return NULL;
}

static void columns_are_chosen_one_by_one(void **state) {
    (void)state;
    const struct qkv_kernels *pair = table("pair"), *scalar = table("scalar");
    assert_non_null(pair);
    assert_non_null(scalar);
    assert_int_equal(pair->width, 2);
    assert_int_equal(pair->bf16->run, 128);
    assert_int_equal(scalar->bf16->run, 256);
    assert_non_null(pair->attend_bf16);
    assert_null(table("pairrun"));
}

static void the_last_table_that_runs_is_the_best(void **state) {
    (void)state;
    assert_string_equal(qkv_isa_at(0), "pair");
    assert_string_equal(qkv_isa_at(1), "scalar");
    assert_null(qkv_isa_at(2));
}

#define COLUMNS_CHECK(name) {check_##name, strstr(#name, "_ragged") || strstr(#name, "_rows") || strstr(#name, "_nan")},

static void products_are_right(void **state) {
    (void)state;
    const struct {
        void (*check)(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random);
        bool quick;
    } checks[] = {GEMM_CHECKS(COLUMNS_CHECK) BF16_CHECKS(COLUMNS_CHECK)};
    struct qkv_random random = test_random(__LINE__);
    struct qkv_context_options options = {.size = sizeof options, .threads = 2, .isa = "pair"};
    struct qkv_context *ctx;
    struct qkv_arena scratch;
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "scratch"));
    for (size_t i = 0; i < TEST_COUNT(checks); i++)
        if (checks[i].quick) checks[i].check(ctx, &scratch, &random);
    qkv_arena_free(&scratch);
    qkv_context_free(ctx);
    assert_int_equal(check_failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_chosen_one_by_one),
        cmocka_unit_test(the_last_table_that_runs_is_the_best),
        cmocka_unit_test(products_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
