/* test_attend_edges.c: attention at the edge of what floats represent, without keys to attend to, and refusals. On
 * every kernel table of this machine. */
/* labels: quick */
#include "attend_tables.h"

#include <float.h>

/* ---- numbers at the edge ---------------------------------------------------------------------------------------- */

/* One head, one channel: query values q, key values k, values v; all keys. Returns y of the first row. */
static float edge(struct qkv_context *ctx, float q, const float *k, const float *v, size_t Tk, float *lse) {
    int32_t lo = 0, hi = (int32_t)Tk;
    float y = 7, dq, dy = 1, *dk = attend_memory(Tk, 4), *dv = attend_memory(Tk, 4);
    struct qkv_arena scratch;
    struct qkv_attend a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 1, .Tk = Tk, .D = 1, .Dv = 1, .scale = 1};
    float *keys = attend_memory(Tk, 4), *values = attend_memory(Tk, 4);
    memcpy(keys, k, Tk * 4), memcpy(values, v, Tk * 4);
    a.q = (struct qkv_heads){&q, 1, 1, 1, QKV_F32}, a.k = (struct qkv_heads){keys, Tk, 1, 1, QKV_F32};
    a.v = (struct qkv_heads){values, Tk, 1, 1, QKV_F32}, a.y = (struct qkv_heads){&y, 1, 1, 1, QKV_F32};
    a.lo = &lo, a.hi = &hi, a.lse = lse;
    struct qkv_attend_gradients g = {.dy = {&dy, 1, 1, 1, QKV_F32},
                                     .dq = {&dq, 1, 1, 1, QKV_F32},
                                     .dk = {dk, Tk, 1, 1, QKV_F32},
                                     .dv = {dv, Tk, 1, 1, QKV_F32}};
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, 1 << 24, "scratch"));
    assert_ok(ctx, qkv_attend_forward(ctx, &scratch, &a));
    assert_ok(ctx, qkv_attend_backward(ctx, &scratch, &a, &g));
    for (size_t j = 0; j < Tk; j++) assert_true(!isnan(dv[j]) || isnan(y));
    qkv_arena_free(&scratch);
    guard_page_free(keys), guard_page_free(values), guard_page_free(dk), guard_page_free(dv);
    return y;
}

static void test_edges(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        float lse, v[200], k[200];
        for (size_t j = 0; j < 200; j++) v[j] = (float)j, k[j] = j == 150 ? 1e30f : 1.0f;
        assert_true(edge(&ctx, 1, k, v, 200, &lse) == 150 && lse == 1e30f); /* far apart */
        assert_true(edge(&ctx, -1, k, v, 150, &lse) == 74.5f);
        assert_true(edge(&ctx, 1e30f, k, v, 200, &lse) == 150 && lse == FLT_MAX); /* +inf wins */
        for (size_t j = 0; j < 200; j++) k[j] = 1e30f;
        assert_true(fabsf(edge(&ctx, 1, k, v, 200, &lse) - 99.5f) < 1e-3f);        /* all the same and huge */
        assert_true(fabsf(edge(&ctx, 1e30f, k, v, 200, &lse) - 99.5f) < 1e-3f);    /* all +inf share */
        assert_true(edge(&ctx, -1e30f, k, v, 200, &lse) == 0 && lse == -INFINITY); /* all −inf weigh nothing */
        k[7] = -1;
        assert_true(edge(&ctx, -1e30f, k, v, 200, &lse) == 7);
        k[100] = NAN;
        assert_true(isnan(edge(&ctx, 1, k, v, 200, &lse)) && isnan(lse));
        for (size_t j = 0; j < 200; j++) k[j] = NAN;
        assert_true(isnan(edge(&ctx, 1, k, v, 200, &lse)) && isnan(lse));
        for (size_t j = 0; j < 200; j++) k[j] = -1e-30f * (float)j, v[j] = -0.0f;
        assert_true(edge(&ctx, 1, k, v, 3, &lse) == 0 && fabsf(lse - logf(3)) < 1e-6f);
    }
}

/* A NaN with every bit set would round to a zero: it stays a NaN in bf16. */
static void test_nan_stored(void **state) {
    static const uint32_t payloads[] = {0x7fffffff, 0xffffffff, 0x7f800001, 0x7fc00000};
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < TEST_COUNT(payloads); i++) {
            float one = 1, value, stored;
            uint16_t y[2] = {0, 42};
            int32_t lo = 0, hi = 1;
            struct qkv_arena scratch;
            struct qkv_heads x = {&one, 1, 1, 1, QKV_F32};
            memcpy(&value, &payloads[i], 4);
            struct qkv_attend a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 1, .Tk = 1, .D = 1, .Dv = 1, .scale = 1};
            a.q = a.k = a.v = a.y = x, a.lo = &lo, a.hi = &hi;
            a.v.data = &value, a.y.data = y, a.y.dtype = QKV_BF16;
            assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, 1 << 20, "scratch"));
            assert_ok(&ctx, qkv_attend_forward(&ctx, &scratch, &a));
            qkv_to_float(&stored, y, QKV_BF16, 1);
            assert_true(isnan(stored) && y[1] == 42);
            qkv_arena_free(&scratch);
        }
    }
}

/* One key has weight 1, so y is v: every f16 is read exactly, and fp32 of all sizes, midpoints too, is written as
 * qkv_from_float does. Zeros of y are positive. */
static void test_halves(void **state) {
    enum { N = 65536 };
    static uint16_t halves[N], written[N];
    static float floats[N], read[N];
    struct qkv_context ctx;
    const int32_t lo = 0, hi = 1;
    float one = 1;
    (void)state;
    struct qkv_random random = test_random(77);
    for (size_t i = 0; i < N; i++) {
        const uint32_t low = i % 3 == 0 ? 0x1000 : i % 3 == 1 ? 0 : (uint32_t)qkv_random_below(&random, 0x2000);
        const uint32_t bits = (uint32_t)(90 + qkv_random_below(&random, 60)) << 23 |
                              (uint32_t)qkv_random_below(&random, 1024) << 13 | low | (i % 2 ? 0x80000000u : 0);
        memcpy(&floats[i], &bits, sizeof bits);
        halves[i] = (uint16_t)i;
    }
    floats[0] = INFINITY, floats[1] = -INFINITY, floats[2] = NAN, floats[3] = 65519, floats[4] = 65520;
    FOR_TABLES(ctx) {
        struct qkv_arena scratch;
        const struct qkv_heads plain = {&one, 1, 1, 1, QKV_F32};
        struct qkv_attend a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 1, .Tk = 1, .D = 1, .Dv = N, .scale = 1};
        a.q = a.k = plain, a.lo = &lo, a.hi = &hi;
        assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, (size_t)256 << 20, "scratch"));
        a.v = (struct qkv_heads){halves, N, N, N, QKV_F16}, a.y = (struct qkv_heads){read, N, N, N, QKV_F32};
        assert_ok(&ctx, qkv_attend_forward(&ctx, &scratch, &a));
        a.v = (struct qkv_heads){floats, N, N, N, QKV_F32}, a.y = (struct qkv_heads){written, N, N, N, QKV_F16};
        assert_ok(&ctx, qkv_attend_forward(&ctx, &scratch, &a));
        for (size_t i = 0; i < N; i++) {
            float number;
            uint16_t half;
            qkv_to_float(&number, &halves[i], QKV_F16, 1);
            qkv_from_float(&half, &floats[i], QKV_F16, 1);
            if (isnan(number) ? !isnan(read[i]) : read[i] != number)
                fail_msg("%s: f16 %04zx is read as %g", ctx.kernels->isa, i, (double)read[i]);
            const bool nan = (half & 0x7fff) > 0x7c00, got_nan = (written[i] & 0x7fff) > 0x7c00;
            if (nan != got_nan || (!nan && written[i] != half && (half & 0x7fff)))
                fail_msg("%s: %a is written as %04x, not %04x", ctx.kernels->isa, (double)floats[i], written[i], half);
        }
        qkv_arena_free(&scratch);
    }
}

/* A row that is NaN because of one key: another key that it may not attend to still has no weight and no gradient. */
static void test_nan_beside_mask(void **state) {
    static const uint8_t mask[3] = {1, 0, 1};
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        float q = 1, y, lse, dq, k[3] = {NAN, 1, 2}, v[3] = {3, 4, 5}, dk[3], dv[3], w[3];
        int32_t lo = 0, hi = 3;
        struct qkv_arena scratch;
        struct qkv_heads one = {&q, 1, 1, 1, QKV_F32}, three = {k, 3, 1, 1, QKV_F32};
        struct qkv_attend a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 1, .Tk = 3, .D = 1, .Dv = 1, .scale = 1};
        a.q = a.y = one, a.k = a.v = three, a.lo = &lo, a.hi = &hi, a.lse = &lse, a.mask = mask;
        a.y.data = &y, a.v.data = v;
        struct qkv_attend_gradients g = {.dy = one, .dq = one, .dk = three, .dv = three};
        g.dq.data = &dq, g.dk.data = dk, g.dv.data = dv;
        assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, 1 << 20, "scratch"));
        assert_ok(&ctx, qkv_attend_forward(&ctx, &scratch, &a));
        assert_ok(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g));
        assert_ok(&ctx, qkv_attend_weights(&ctx, &scratch, &a, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, w));
        assert_true(isnan(y) && isnan(lse) && isnan(dq) && isnan(dk[0]) && isnan(dv[2]) && isnan(w[0]));
        assert_true(dk[1] == 0 && dv[1] == 0 && w[1] == 0);
        qkv_arena_free(&scratch);
    }
}

/* No batch, no queries, no keys: what is left is zero. */
static void test_nothing(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < 3; i++) {
            struct qkv_random random = test_random(30 + i);
            struct attend_case c = {0};
            c.a.B = i == 0 ? 0 : 2, c.a.Tq = i == 1 ? 0 : 3, c.a.Tk = i == 2 ? 0 : 5;
            c.a.Hkv = 1, c.a.H = 2, c.a.D = 3, c.a.Dv = 2, c.a.scale = 1;
            attend_case_fill(&c, &random, 0, (struct attend_extras){true, true, true, true, false});
            assert_true(attend_check_case(&ctx, &c, NULL));
            attend_case_free(&c);
        }
    }
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void refused(struct qkv_attend a, enum qkv_status status, const char *part) {
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_arena scratch;
    qkv_arena_measure(&ctx, &scratch, "scratch");
    assert_status(&ctx, qkv_attend_forward(&ctx, &scratch, &a), status);
    assert_message(&ctx, part);
    qkv_arena_free(&scratch);
}

static float numbers[64];
static const int32_t zero[4], four[4] = {4, 4, 4, 4};
static const struct qkv_heads heads = {numbers, 16, 4, 2, QKV_F32};

/* A call with nothing wrong. */
static struct qkv_attend good_call(void) {
    return (struct qkv_attend){.B = 1,
                               .H = 2,
                               .Hkv = 1,
                               .Tq = 4,
                               .Tk = 4,
                               .D = 2,
                               .Dv = 2,
                               .q = heads,
                               .k = heads,
                               .v = heads,
                               .y = heads,
                               .lo = zero,
                               .hi = four,
                               .scale = 1};
}

static void test_refused(void **state) {
    struct qkv_attend a;
    (void)state;
#define REFUSED(change, status, part) (a = good_call(), change, refused(a, status, part))
    REFUSED((a.H = 3, a.Hkv = 2), QKV_SHAPE,
            "q (1,3,4,2) has 3 heads and k (1,2,4,2) has 2; the heads of k and v must divide those of q");
    REFUSED(a.Hkv = 0, QKV_SHAPE, "k (1,0,4,2) has 0");
    REFUSED(a.D = 0, QKV_SHAPE, "q has 0 channels a head and v has 2");
    REFUSED(a.Tk = (size_t)1 << 40, QKV_SHAPE, "exceeds");
    REFUSED((a.B = a.Tk = a.Tq = INT32_MAX), QKV_SHAPE, "more than this machine can address");
    REFUSED(a.dropout = 1, QKV_ARGUMENT, "dropout is 1");
    REFUSED(a.dropout = NAN, QKV_ARGUMENT, "dropout is");
    REFUSED(a.softcap = -1, QKV_ARGUMENT, "softcap is -1");
    REFUSED(a.softcap = INFINITY, QKV_ARGUMENT, "softcap is inf");
    REFUSED(a.softcap = 1e-40f, QKV_ARGUMENT, "softcap is 9.99");
    REFUSED(a.q.data = NULL, QKV_ARGUMENT, "q must be given");
    REFUSED(a.k.data = NULL, QKV_ARGUMENT, "k must be given");
    REFUSED(a.v.data = NULL, QKV_ARGUMENT, "v must be given");
    REFUSED(a.hi = NULL, QKV_ARGUMENT, "lo and hi must be given");
    REFUSED(a.past = 5, QKV_SHAPE, "5 keys are in the past, but there are only 4");
    REFUSED(a.past = 4, QKV_ARGUMENT, "past_k must be given");
    REFUSED((a.past = 1, a.past_k = heads), QKV_ARGUMENT, "past_v must be given");
    REFUSED(a.q.dtype = QKV_U16, QKV_ARGUMENT, "q is none of fp32, bf16 and f16");
    REFUSED(a.k.dtype = QKV_I8, QKV_ARGUMENT, "k is none of fp32, bf16 and f16");
    REFUSED(a.v.dtype = QKV_F64, QKV_ARGUMENT, "v is none of fp32, bf16 and f16");
    REFUSED(a.y.dtype = QKV_DTYPE_COUNT, QKV_ARGUMENT, "y is none of fp32, bf16 and f16");
    REFUSED((a.past = 1, a.past_k = heads, a.past_k.dtype = QKV_I16), QKV_ARGUMENT, "past_k is none of");
    REFUSED((a.past = 1, a.past_k = a.past_v = heads, a.past_v.dtype = QKV_F64), QKV_ARGUMENT, "past_v is none of");
    REFUSED(a.mask_strides.missing = 5, QKV_SHAPE, "lacks more keys than the 4 that there are");
    REFUSED(a.attention_bias_strides.missing = SIZE_MAX, QKV_SHAPE, "lacks more keys than the 4 that there are");
    REFUSED(a.y.data = NULL, QKV_ARGUMENT, "y must be given");
    REFUSED((a.distance_bias = (struct qkv_distance_bias){numbers, 8, 0}), QKV_ARGUMENT, "positions");
    REFUSED((a.distance_bias = (struct qkv_distance_bias){numbers, 8, 3}, a.position = four), QKV_SHAPE,
            "make it longer");
    REFUSED((a.distance_bias = (struct qkv_distance_bias){numbers, 6, 3}, a.position = zero), QKV_SHAPE,
            "distances -3 to 2");
#undef REFUSED
}

static void test_refused_gradients(void **state) {
    struct qkv_attend a = good_call();
    (void)state;
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_attend_gradients g = {.dq = heads};
    struct qkv_arena scratch;
    qkv_arena_measure(&ctx, &scratch, "scratch");
    assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
    assert_message(&ctx, "the gradient needs lse");
    a.lse = numbers;
    g.dy = heads, g.dq.dtype = QKV_F64;
    assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
    assert_message(&ctx, "dq is none of fp32, bf16 and f16");
    g.dq.dtype = QKV_F32, g.dattention_bias = numbers;
    assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
    assert_message(&ctx, "needs the attention_bias");
    const struct qkv_pairs overlapping[] = {{0, 0, 3, 0}, {0, 4, 4, 0}, {0, 2, 0, 0}, {0, 15, 4, 0}};
    const struct qkv_pairs apart[] = {{0, 0, 4, 0}, {5, 16, 4, 0}, {0, 4, 0, 0}, {0, 4, 8, 0}};
    for (size_t i = 0; i < TEST_COUNT(overlapping); i++) {
        a.attention_bias = numbers, a.attention_bias_strides = overlapping[i];
        assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
        assert_message(&ctx, "overlap");
        a.attention_bias_strides = apart[i];
        const struct qkv_planning had = qkv_planning_begin(&ctx);
        assert_ok(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g));
        qkv_planning_end(&ctx, had);
    }
    qkv_arena_free(&scratch);
}

static void test_refused_weights(void **state) {
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_attend good = good_call();
    struct qkv_arena scratch;
    (void)state;
    qkv_arena_measure(&ctx, &scratch, "scratch");
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 4, NULL),
                  QKV_ARGUMENT);
    assert_message(&ctx, "a place to go");
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 4, numbers),
                  QKV_ARGUMENT);
    assert_message(&ctx, "lse of the forward pass");
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 2, 0, 1, numbers),
                  QKV_SHAPE);
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 0, 2, 3, numbers),
                  QKV_SHAPE);
    assert_message(&ctx, "do not exist");
    qkv_arena_free(&scratch);
    assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, 4096, "too little"));
    assert_status(&ctx, qkv_attend_forward(&ctx, &scratch, &good), QKV_MEMORY);
    assert_message(&ctx, "too little");
    assert_int_equal(scratch.used, 0);
    qkv_arena_free(&scratch);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* Every array is at an address of a measuring arena: a touch is a fault. */
static void a_plan_reads_no_numbers(void **state) {
    (void)state;
    for (int mixed = 0; mixed <= 1; mixed++) {
        struct qkv_context ctx = context_of(0, 2);
        struct qkv_arena scratch;
        ctx.precision = mixed ? QKV_MIXED_BF16 : QKV_FP32;
        qkv_arena_measure(&ctx, &scratch, "scratch");
        void *nowhere = qkv_arena_take(&scratch, 1 << 20, 1);
        const struct qkv_heads x = {nowhere, 800, 40, 20, QKV_F32};
        struct qkv_attend a = {
            .B = 3, .H = 2, .Hkv = 1, .Tq = 20, .Tk = 40, .D = 20, .Dv = 20, .past = 20, .scale = 1, .dropout = 0.5F};
        a.q = a.k = a.v = a.y = a.past_k = a.past_v = x;
        a.q_start = a.k_start = a.pasts = a.lo = a.hi = a.position = nowhere;
        a.lse = nowhere, a.sinks = nowhere, a.mask = nowhere, a.attention_bias = nowhere;
        a.distance_bias = (struct qkv_distance_bias){nowhere, 80, 40};
        const struct qkv_attend_gradients g = {.dy = x,
                                               .dq = x,
                                               .dk = x,
                                               .dv = x,
                                               .dpast_k = x,
                                               .dpast_v = x,
                                               .dattention_bias = nowhere,
                                               .ddistance_bias = nowhere,
                                               .dsinks = nowhere};
        const struct qkv_planning had = qkv_planning_begin(&ctx);
        assert_ok(&ctx, qkv_attend_forward(&ctx, &scratch, &a));
        a.attention_bias_strides = (struct qkv_pairs){1600, 800, 40, 0};
        assert_ok(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g));
        assert_ok(&ctx, qkv_attend_weights(&ctx, &scratch, &a, QKV_ATTENTION_DROPPED, 1, 1, 2, 18, nowhere));
        a.pages = (struct qkv_page_table){nowhere, 16, 8, &qkv_page_type_f32, &qkv_page_type_f32, false};
        assert_ok(&ctx, qkv_attend_forward(&ctx, &scratch, &a));
        assert_ok(&ctx, qkv_attend_weights(&ctx, &scratch, &a, QKV_ATTENTION_SCORES, 2, 0, 0, 20, nowhere));
        qkv_planning_end(&ctx, had);
        qkv_arena_free(&scratch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_nan_stored),
        cmocka_unit_test(test_nan_beside_mask),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_gradients),
        cmocka_unit_test(test_refused_weights),
        cmocka_unit_test(a_plan_reads_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
