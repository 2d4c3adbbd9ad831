/* test_attend_bf16.c: attention with bf16 products, against the reference in double precision, and against itself as
 * fp32 attention is (test_attend.c). A table without bf16 runs the same code on widened numbers here. */
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

#define FOR_BF16_TABLES(f, ctx)                                                                                        \
    for (size_t t_ = 0; qkv_kernels_at(t_) && (ctx = context_bf16(&(f), t_), true); qkv_team_free(ctx), t_++)

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
            struct attend_extras extras = {i % 2, i % 2, i > 0, i > 1, false};
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
            guard_page_free(two), guard_page_free(three);
            attend_case_free(&c);
        }
    }
}

/* A causal case of B 1, H 2, Hkv 1, Tq = Tk = 40 in fp32 tensors. */
static void small_case(struct attend_case *c, uint64_t seed) {
    struct qkv_random random = test_random(seed);
    *c = (struct attend_case){0};
    c->a.B = c->a.Hkv = 1, c->a.H = 2, c->a.Tq = c->a.Tk = 40, c->a.D = 8, c->a.Dv = 12, c->a.scale = 0.3f;
    attend_case_fill(c, &random, 1, (struct attend_extras){0});
}

/* Outputs of the kind, and where they are numbers about the size, that fp32 attention gives. */
static void assert_alike(const float *got, const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(isnan(got[i]), isnan(expected[i]));
        assert_int_equal(isinf(got[i]), isinf(expected[i]));
        if (isfinite(expected[i])) assert_true(fabsf(got[i] - expected[i]) <= 0.05f * (1 + fabsf(expected[i])));
    }
}

/* One channel of a value, or of dy, is no finite number in bf16: it reaches this channel of the rows that attend to
 * it, as in fp32, and no other channel. The largest float rounds to infinity there, but its share of a sum does not. */
static void test_spoilt_channel(void **state) {
    static const float spoilt[] = {INFINITY, NAN, 3.4e38f};
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        for (size_t i = 0; i < 2 * TEST_COUNT(spoilt); i++) {
            struct attend_case c;
            const bool value = i % 2;
            float *out[2];
            size_t floats;
            small_case(&c, 30 + i);
            attend_set(value ? &c.a.v : &c.g.dy, 0, 7, 0, 3, spoilt[i / 2]);
            for (int precision = 0; precision < 2; precision++) {
                ctx->precision = precision ? QKV_MIXED_BF16 : QKV_FP32;
                assert_true(attend_run(ctx, &c, !value));
                out[precision] = attend_outputs(&c, &floats);
            }
            const size_t queries = 2 * 40, dv = queries * (12 + 8) + 40 * 8;
            assert_alike(out[1], out[0], queries * 12);
            if (!value) assert_alike(out[1] + dv, out[0] + dv, 40 * 12);
            guard_page_free(out[0]), guard_page_free(out[1]);
            attend_case_free(&c);
        }
    }
}

/* A row whose scores all overflow to −inf has no weights: y and its gradient are 0, and it adds nothing to the other
 * gradients. */
static void test_hopeless_row(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        struct attend_case c;
        size_t floats;
        small_case(&c, 40);
        for (size_t j = 0; j < 40; j++) attend_set(&c.a.k, 0, j, 0, 0, 1e30f);
        attend_set(&c.a.q, 0, 20, 1, 0, -1e30f);
        assert_true(attend_run(ctx, &c, true));
        float *out = attend_outputs(&c, &floats);
        for (size_t d = 0; d < 12; d++) assert_true(attend_get(&c.a.y, 0, 20, 1, d) == 0);
        for (size_t d = 0; d < 8; d++) assert_true(attend_get(&c.g.dq, 0, 20, 1, d) == 0);
        for (size_t e = 0; e < 80 * (12 + 8) + 40 * (12 + 8); e++) assert_true(isfinite(out[e]));
        guard_page_free(out);
        attend_case_free(&c);
    }
}

/* A row with one key has the weight 1 whatever q and k are, so their gradients are 0: the difference of two numbers
 * that are equal if both use dy as bf16 stores it. With dy in fp32, one of them would be off by up to 2^-9 of
 * |dy||v|. */
static void test_single_keys(void **state) {
    static const size_t shapes[][4] = {
        {2, 1, 12, 32}, {1, 1, 40, 64}, {1, 2, 40, 16}, {1, 3, 300, 24}, {2, 1, 130, 48}};
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            struct qkv_random random = test_random(50 + i);
            struct attend_case c = {0};
            c.a.B = 1, c.a.Hkv = shapes[i][0], c.a.H = c.a.Hkv * shapes[i][1];
            c.a.Tq = c.a.Tk = shapes[i][2], c.a.D = c.a.Dv = shapes[i][3], c.a.scale = 0.3f;
            attend_case_fill(&c, &random, 1, (struct attend_extras){0});
            c.g.accumulate = false, c.g.dlse = NULL;
            for (size_t j = 0; j < c.a.Tq; j++) c.lo[j] = (int32_t)j, c.hi[j] = (int32_t)j + 1;
            assert_true(attend_run(ctx, &c, true));
            for (size_t h = 0; h < c.a.H; h++)
                for (size_t e = 0; e < c.a.Tq * c.a.D; e++) {
                    const size_t kv = h / shapes[i][1];
                    assert_true(fabsf(attend_get(&c.g.dq, 0, e / c.a.D, h, e % c.a.D)) < 1e-4f);
                    assert_true(fabsf(attend_get(&c.g.dk, 0, e / c.a.D, kv, e % c.a.D)) < 1e-4f);
                }
            attend_case_free(&c);
        }
    }
}

/* The gradient of the attention bias is 0 there, too: fp32 products make it, with v as bf16 stores it. */
static void test_single_keys_with_a_bias(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        struct attend_case c;
        small_case(&c, 60);
        const size_t T = c.a.Tq, pairs = c.a.H * T * T;
        for (size_t e = 0; e < T * c.a.Dv; e++) {
            float v = attend_get(&c.a.v, 0, e / c.a.Dv, 0, e % c.a.Dv);
            uint16_t half;
            qkv_from_float(&half, &v, QKV_BF16, 1);
            qkv_to_float(&v, &half, QKV_BF16, 1);
            attend_set(&c.a.v, 0, e / c.a.Dv, 0, e % c.a.Dv, v);
        }
        for (size_t j = 0; j < T; j++) c.lo[j] = (int32_t)j, c.hi[j] = (int32_t)j + 1;
        c.a.attention_bias = c.attention_bias = attend_memory(pairs, sizeof(float));
        c.a.attention_bias_strides = (struct qkv_pairs){c.a.H * T * T, T * T, T, 0};
        c.g.dattention_bias = attend_memory(pairs, sizeof(float)), c.addend_floats = pairs;
        c.g.accumulate = false, c.g.dlse = NULL;
        assert_true(attend_run(ctx, &c, true));
        for (size_t e = 0; e < pairs; e++) assert_true(fabsf(c.g.dattention_bias[e]) < 1e-4f);
        attend_case_free(&c);
    }
}

/* Precision, table and channels decide which kernels run, not the number of rows: bits differ from fp32 where they
 * should, and only there. */
static void test_choice(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_BF16_TABLES(f, ctx) {
        for (size_t i = 0; i < 4; i++) {
            const size_t Tq = i / 2 ? 16 : 1, D = i % 2 ? 257 : 256;
            struct qkv_random random = test_random(20);
            struct attend_case c = {0};
            c.a.B = c.a.Hkv = c.a.H = 1, c.a.Tq = Tq, c.a.Tk = 40, c.a.D = D, c.a.Dv = 8, c.a.scale = 0.3f;
            attend_case_fill(&c, &random, 0, (struct attend_extras){0});
            size_t floats;
            assert_true(attend_run(ctx, &c, true));
            float *mixed = attend_outputs(&c, &floats);
            ctx->precision = QKV_FP32;
            assert_true(attend_run(ctx, &c, true));
            float *single = attend_outputs(&c, &floats);
            ctx->precision = QKV_MIXED_BF16;
            assert_int_equal(attend_same(mixed, single, floats), D > 256);
            guard_page_free(mixed), guard_page_free(single);
            attend_case_free(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_cases),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_spoilt_channel),
        cmocka_unit_test(test_hopeless_row),
        cmocka_unit_test(test_single_keys),
        cmocka_unit_test(test_single_keys_with_a_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
