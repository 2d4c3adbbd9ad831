/* test_attend_bf16.c: attention whose products are those of bf16: against the reference in double precision, and against itself
 * as fp32 attention is (test_attend.c). A table without bf16 of its own runs the same code on widened numbers here. */
#include "attend_tables.h"

#include "check_attend_bf16.h"

struct fixture {
    struct qkv_kernels kernels;
    struct qkv_context ctx;
};

static struct qkv_context *context_bf16(struct fixture *f, size_t table) {
    f->ctx = context_of(table, 2);
    attend_bf16_context(&f->ctx, &f->kernels);
    return &f->ctx;
}

#define FOR_BF16_TABLES(f, ctx) for (size_t t_ = 0; qkv_kernels_at(t_) && (ctx = context_bf16(&(f), t_), true); t_++)

static void test_random_cases(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        struct attend_error worst = {0};
        assert_true(attend_bf16_check_random(ctx, test_seed(), cases(150), &worst));
        print_message("%s: largest errors of exact inputs: y %.2g, gradients %.2g, lse %.2g\n", ctx->kernels->isa,
                      worst.y, worst.gradient, worst.lse);
    }
}

static void test_threads(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) assert_true(attend_check_threads(ctx, test_seed() + 1, cases(40)));
}

static void test_parts(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) assert_true(attend_check_parts(ctx, test_seed() + 2, cases(60)));
}

static void test_poison(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) assert_true(attend_check_poisons(ctx, test_seed() + 3, cases(60)));
}

static void test_twins(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) assert_true(attend_check_twins(ctx, test_seed() + 4, cases(60)));
}

/* Long enough for several blocks of rows and keys, chunks, and heads that share a strip; few and many channels. */
static void test_long(void **state) {
    static const size_t shapes[][6] = {
        {1, 1, 700, 700, 16, 16}, {2, 3, 301, 517, 24, 48}, {1, 2, 97, 1200, 64, 64}, {1, 1, 150, 333, 256, 200}};
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            struct qkv_random random = test_random(10 + i);
            struct attend_case c = {0};
            c.a.B = 1, c.a.Hkv = shapes[i][0], c.a.H = c.a.Hkv * shapes[i][1];
            c.a.Tq = shapes[i][2], c.a.Tk = shapes[i][3], c.a.D = shapes[i][4], c.a.Dv = shapes[i][5];
            c.a.scale = (float)(1 / sqrt((double)c.a.D));
            struct attend_extras extras = {i % 2, i % 2, i > 0, i > 1};
            attend_case_fill(&c, &random, i % 2 ? 4 : 1, extras);
            assert_true(attend_bf16_check_case(ctx, &c, true, NULL));
            size_t floats, again;
            float *two = attend_outputs(&c, &floats);
            ctx->threads = 3;
            assert_true(attend_run(ctx, &c, true));
            float *three = attend_outputs(&c, &again);
            assert_memory_equal(two, three, floats * sizeof(float));
            for (size_t part = 0; part < 3; part++) assert_true(attend_check_part(ctx, &c, &random));
            ctx->threads = 2;
            free(two), free(three);
            attend_case_free(&c);
        }
    }
}

/* Which kernels run is decided by precision, table and shape: bits differ from fp32 where they should, and only there. */
static void test_choice(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        for (size_t Tq = 15; Tq <= 16; Tq++) {
            struct qkv_random random = test_random(20);
            struct attend_case c = {0};
            c.a.B = c.a.Hkv = c.a.H = 1, c.a.Tq = Tq, c.a.Tk = 40, c.a.D = c.a.Dv = 8, c.a.scale = 0.3f;
            attend_case_fill(&c, &random, 0, (struct attend_extras){0});
            size_t floats;
            assert_true(attend_run(ctx, &c, true));
            float *mixed = attend_outputs(&c, &floats);
            ctx->precision = QKV_FP32;
            assert_true(attend_run(ctx, &c, true));
            float *single = attend_outputs(&c, &floats);
            ctx->precision = QKV_MIXED_BF16;
            assert_int_equal(attend_same(mixed, single, floats), Tq < 16);
            free(mixed), free(single);
            attend_case_free(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_cases), cmocka_unit_test(test_threads), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_poison),       cmocka_unit_test(test_twins),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
