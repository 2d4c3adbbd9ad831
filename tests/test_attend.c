/* test_attend.c: attention against a reference in double precision and against itself: the bits of a row do not
 * depend on other rows, on storage, or on masked keys. Everything runs on every kernel table of this machine. */
#include "attend_tables.h"

/* ---- random cases ----------------------------------------------------------------------------------------------- */

static void test_random_cases(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        struct attend_error worst = {0};
        assert_true(attend_check_random(&ctx, test_seed(), cases(200), &worst));
        print_message("%s: largest errors: y %.2g, gradients %.2g\n", ctx.kernels->isa, worst.y, worst.gradient);
    }
}

static void test_threads(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_threads(&ctx, test_seed() + 1, cases(40)));
}

static void test_parts(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_parts(&ctx, test_seed() + 2, cases(50)));
}

static void test_poison(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_poisons(&ctx, test_seed() + 3, cases(60)));
}

static void test_twins(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_twins(&ctx, test_seed() + 4, cases(60)));
}

/* Long enough for several blocks of rows, chunks of keys, and blocks that hold rows of two heads. */
static void test_long(void **state) {
    static const size_t shapes[][5] = {{1, 1, 700, 700, 16}, {2, 3, 301, 517, 24}, {1, 2, 97, 1200, 64}};
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            struct qkv_random random = test_random(10 + i);
            struct attend_case c = {0};
            c.a.B = 1, c.a.Hkv = shapes[i][0], c.a.H = c.a.Hkv * shapes[i][1];
            c.a.Tq = shapes[i][2], c.a.Tk = shapes[i][3], c.a.D = c.a.Dv = shapes[i][4], c.a.scale = 0.2f;
            struct attend_extras extras = {i % 2, i % 2, i > 0, i > 1, false};
            attend_case_fill(&c, &random, i % 2 ? 4 : 1, extras);
            assert_true(attend_check_case(&ctx, &c, NULL));
            size_t floats, again;
            float *two = attend_outputs(&c, &floats);
            ctx.threads = 3;
            assert_true(attend_run(&ctx, &c, true));
            float *three = attend_outputs(&c, &again);
            assert_memory_equal(two, three, floats * sizeof(float));
            for (size_t part = 0; part < 3; part++) assert_true(attend_check_part(&ctx, &c, &random));
            ctx.threads = 2;
            guard_page_free(two), guard_page_free(three);
            attend_case_free(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_cases), cmocka_unit_test(test_threads), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_poison),       cmocka_unit_test(test_twins),   cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
