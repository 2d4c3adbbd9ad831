/* test_attend_ragged.c: sequences of different lengths in one call of attention (q_start, k_start): each has the
 * same bits as in a call of its own, which test_attend.c compares with the reference in double precision. On every
 * kernel table of this machine, in fp32 and in bf16. */
#include "attend_precisions.h"
#include "check_attend_ragged.h"

static void each_sequence_has_the_bits_of_a_call_of_its_own(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) assert_true(ragged_check_alone(ctx, test_seed(), cases(80)));
}

static void sequences_of_one_length_have_the_bits_of_the_rectangle(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) assert_true(ragged_check_equal(ctx, test_seed() + 1, cases(60)));
}

static void sequences_have_the_numbers_of_a_padded_call_with_dropout_and_a_shared_bias(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(ragged_check_padded(&ctx, test_seed() + 2, cases(80)));
}

/* Longer than a piece of keys and than a block of rows, on one thread and on three, which share out the keys. */
static void long_and_short_sequences_go_together(void **state) {
    static const int32_t q_start[] = {0, 1, 1, 302, 305, 305}, k_start[] = {0, 1100, 1103, 1803, 1803, 2400};
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t group = 1; group <= 4; group *= 4) {
            struct qkv_random random = test_random(group);
            struct attend_case c = {.a = {.B = 5, .H = group, .Hkv = 1, .Tq = 301, .Tk = 1100, .D = 24, .Dv = 40}};
            struct attend_case alone;
            struct ragged_case r;
            c.a.scale = 0.2f;
            attend_case_fill(&c, &random, 0, (struct attend_extras){0});
            ragged_make(&r, &c, &random, true);
            memcpy(r.q_start, q_start, sizeof q_start), memcpy(r.k_start, k_start, sizeof k_start);
            for (ctx->threads = 1; ctx->threads <= 3; ctx->threads += 2) {
                assert_true(attend_run(ctx, &r.packed, false));
                for (size_t b = 0; b < 5; b++) {
                    const size_t rows = (size_t)(q_start[b + 1] - q_start[b]);
                    if (ctx->precision && rows * group < 16) continue; /* by itself it stays with fp32 */
                    ragged_alone(&r, b, &alone);
                    assert_true(attend_run(ctx, &alone, false));
                    assert_memory_equal(attend_place(&r.packed.a.y, 0, (size_t)q_start[b], 0, 0), alone.a.y.data,
                                        rows * group * 40 * sizeof(float));
                    for (size_t which = ATTEND_Y; which < ATTEND_TENSORS; which++) guard_page_free(alone.buffer[which]);
                    guard_page_free(alone.lse);
                }
            }
            ragged_free(&r);
            attend_case_free(&c);
        }
    }
}

/* qkv_attend_weights gives the same weights for a sequence of the call as for the sequence alone. */
static void weights_of_a_sequence_are_those_of_a_call_of_its_own(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        struct qkv_random random = test_random(7);
        struct attend_case c = {.a = {.B = 3, .H = 4, .Hkv = 2, .Tq = 60, .Tk = 90, .D = 8, .Dv = 8}}, alone;
        struct ragged_case r;
        struct qkv_arena scratch;
        c.a.scale = 0.3f;
        attend_case_fill(&c, &random, 1, (struct attend_extras){.mask = true});
        ragged_make(&r, &c, &random, false);
        assert_true(attend_run(&ctx, &r.packed, false));
        assert_int_equal(qkv_arena_create(&ctx, &scratch, 1 << 20, "scratch"), QKV_OK);
        for (size_t b = 0; b < 3; b++) {
            ragged_alone(&r, b, &alone);
            assert_true(attend_run(&ctx, &alone, false));
            const size_t Tq = alone.a.Tq, Tk = alone.a.Tk;
            float *got = attend_memory(Tq * Tk, sizeof(float)), *expected = attend_memory(Tq * Tk, sizeof(float));
            for (size_t h = 0; h < 4; h++) {
                assert_int_equal(
                    qkv_attend_weights(&ctx, &scratch, &r.packed.a, QKV_ATTENTION_WEIGHTS, b, h, 0, Tq, got), QKV_OK);
                assert_int_equal(
                    qkv_attend_weights(&ctx, &scratch, &alone.a, QKV_ATTENTION_WEIGHTS, 0, h, 0, Tq, expected), QKV_OK);
                assert_memory_equal(got, expected, Tq * Tk * sizeof(float));
            }
            assert_int_equal(
                qkv_attend_weights(&ctx, &scratch, &r.packed.a, QKV_ATTENTION_WEIGHTS, b, 0, 0, Tq + 1, got),
                QKV_SHAPE);
            guard_page_free(got), guard_page_free(expected);
            for (size_t which = ATTEND_Y; which < ATTEND_TENSORS; which++) guard_page_free(alone.buffer[which]);
            guard_page_free(alone.lse);
        }
        qkv_arena_free(&scratch);
        ragged_free(&r);
        attend_case_free(&c);
    }
}

static void starts_that_make_no_sense_are_refused(void **state) {
    static const struct {
        int32_t start[3];
        const char *says;
    } bad[] = {
        {{1, 2, 4}, "begins at 1"}, {{0, 5, 4}, "falls from 5 to 4"}, {{0, 8, 9}, "8 rows, but there are at most 7"}};
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_random random = test_random(9);
    struct attend_case c = {.a = {.B = 2, .H = 1, .Hkv = 1, .Tq = 7, .Tk = 7, .D = 4, .Dv = 4, .scale = 1}};
    struct qkv_arena scratch;
    (void)state;
    attend_case_fill(&c, &random, 0, (struct attend_extras){0});
    assert_int_equal(qkv_arena_create(&ctx, &scratch, 1 << 20, "scratch"), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        for (int side = 0; side < 2; side++) {
            c.a.q_start = side ? NULL : bad[i].start, c.a.k_start = side ? bad[i].start : NULL;
            assert_int_not_equal(qkv_attend_forward(&ctx, &scratch, &c.a), QKV_OK);
            assert_non_null(strstr(ctx.message, side ? "k_start" : "q_start"));
            assert_non_null(strstr(ctx.message, bad[i].says));
        }
    qkv_arena_free(&scratch);
    attend_case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sequence_has_the_bits_of_a_call_of_its_own),
        cmocka_unit_test(sequences_of_one_length_have_the_bits_of_the_rectangle),
        cmocka_unit_test(sequences_have_the_numbers_of_a_padded_call_with_dropout_and_a_shared_bias),
        cmocka_unit_test(long_and_short_sequences_go_together),
        cmocka_unit_test(weights_of_a_sequence_are_those_of_a_call_of_its_own),
        cmocka_unit_test(starts_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
