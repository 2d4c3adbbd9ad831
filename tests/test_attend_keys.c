/* test_attend_keys.c: attention over more keys than one piece holds (attend_sums.h): how keys are divided, that bits
 * depend neither on that nor on other rows, and numbers at the edge on both sides of a border. On every kernel table
 * of this machine, in fp32 and in bf16; the oracle is the reference in double precision (attend_reference.h). */
#include <float.h>
#include <stdatomic.h>

#include "attend_precisions.h"
#include "kernel/isa/attend.h"

enum { PIECE = QKV_ATTEND_PIECE };

/* ---- how keys are shared out ------------------------------------------------------------------------------------ */

static atomic_size_t items;
static const struct qkv_attend_kernels *counted;
static const struct qkv_attend_bf16_kernels *counted_bf16;

static void count_forward(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    atomic_fetch_add(&items, 1);
    counted->forward(plan, item, scratch);
}

static void count_forward_bf16(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    atomic_fetch_add(&items, 1);
    counted_bf16->forward(plan, item, scratch);
}

/* In how many items Tq queries of H heads and one kv head go over Tk keys. */
static size_t items_of(struct qkv_context *ctx, int threads, size_t H, size_t Tq, size_t Tk) {
    const struct qkv_kernels *kernels = ctx->kernels;
    struct qkv_kernels counting = *kernels;
    struct qkv_attend_kernels fp32 = *kernels->attend;
    struct qkv_attend_bf16_kernels bf16 = *kernels->attend_bf16;
    struct qkv_random random = test_random(1);
    struct attend_case c = {.a = {.B = 1, .H = H, .Hkv = 1, .Tq = Tq, .Tk = Tk, .D = 32, .Dv = 32, .scale = 0.2f}};
    const int before = ctx->threads;
    counted = kernels->attend, counted_bf16 = kernels->attend_bf16;
    fp32.forward = count_forward, bf16.forward = count_forward_bf16;
    counting.attend = &fp32, counting.attend_bf16 = &bf16;
    attend_case_fill(&c, &random, 0, (struct attend_extras){0});
    ctx->kernels = &counting, ctx->threads = threads;
    atomic_store(&items, 0);
    assert_true(attend_run(ctx, &c, false));
    ctx->kernels = kernels, ctx->threads = before;
    attend_case_free(&c);
    return atomic_load(&items);
}

static void one_query_of_one_kv_head_goes_over_a_long_cache_piece_by_piece(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t H = 4; H <= 16; H += 12) { /* also more heads than a tile has rows */
            assert_int_equal(items_of(ctx, 2, H, 1, 8 * PIECE), 8);
            assert_int_equal(items_of(ctx, 2, H, 1, 8 * PIECE + 1), 9);
        }
    }
}

static void what_is_short_or_has_blocks_enough_or_one_thread_is_not_cut_by_keys(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        assert_int_equal(items_of(ctx, 2, 4, 1, PIECE), 1);
        assert_int_equal(items_of(ctx, 2, 1, 1, 2 * PIECE), 1); /* too little work to wake a thread for */
        assert_int_equal(items_of(ctx, 1, 4, 1, 8 * PIECE), 1);
        const size_t many = items_of(ctx, 2, 16, 80, 2 * PIECE);
        assert_true(many >= 8 && many == items_of(ctx, 1, 16, 80, 2 * PIECE));
    }
}

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

/* Tq queries of 4 heads behind a cache, with everything that scores can have, chosen by `i`. */
static void long_case(struct attend_case *c, struct qkv_random *random, size_t i, size_t Hkv, size_t Tq, size_t Tk) {
    memset(c, 0, sizeof *c);
    c->a.B = 1, c->a.H = 4, c->a.Hkv = Hkv, c->a.Tq = Tq, c->a.Tk = Tk, c->a.D = 32, c->a.Dv = 40;
    c->a.scale = (float)(1 / sqrt(32.0));
    if (i % 4 == 1) c->a.softcap = 2;
    if (i % 4 == 2) c->a.dropout = 0.3f;
    c->a.key[0] = (uint32_t)i;
    attend_case_fill(c, random, i % 5, (struct attend_extras){i % 3 == 1, i % 3 == 2, i % 2, i % 5 == 4, false});
    if (i % 2) attend_case_bias(c, random);
}

static const size_t lengths[] = {PIECE - 1,     PIECE,         PIECE + 1,      2 * PIECE - 1,
                                 2 * PIECE,     2 * PIECE + 1, 2 * PIECE + 77, 3 * PIECE - 64,
                                 3 * PIECE + 1, 4 * PIECE,     5 * PIECE + 130};

static void bits_over_a_long_cache_do_not_depend_on_threads(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
            struct qkv_random random = test_random(100 + i);
            struct attend_case c;
            size_t floats;
            float *first = NULL;
            long_case(&c, &random, i, 1 + i / 5 % 2, ctx->precision ? 4 + i % 3 : 1 + i % 3,
                      lengths[i % TEST_COUNT(lengths)]);
            for (ctx->threads = 1; ctx->threads <= 3; ctx->threads++) {
                assert_true(attend_run(ctx, &c, true));
                float *all = attend_outputs(&c, &floats);
                if (first && memcmp(first, all, floats * sizeof *all))
                    fail_msg("%s: %s: %d threads give other bits", ctx->kernels->isa, c.text, ctx->threads);
                guard_page_free(first);
                first = all;
            }
            guard_page_free(first);
            attend_case_free(&c);
        }
        ctx->threads = 2;
    }
}

/* Rows of a prompt, alone or few at a time, behind keys of the past and before more that they may not see. */
static void a_row_has_the_same_bits_in_a_prompt_and_over_the_cache(void **state) {
    static const size_t firsts[] = {0, PIECE - 2, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 3, 2 * PIECE, 2 * PIECE + 5};
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t i = 0; i < 4; i++) {
            const size_t T = 2 * PIECE + 12, rows = i == 3 ? 5 : 1 + i % 2;
            struct qkv_random random = test_random(200 + i);
            struct attend_case c;
            long_case(&c, &random, i, 1, T, T);
            c.a.dropout = 0; /* whose mask counts the rows of the call */
            assert_true(attend_run(ctx, &c, false));
            for (size_t n = 0; n < TEST_COUNT(firsts); n++)
                assert_true(attend_check_rows(ctx, &c, 0, firsts[n], rows, n * 40, (firsts[n] + n) % T));
            attend_case_free(&c);
        }
    }
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static void results_over_several_pieces_are_those_of_the_reference(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
            struct qkv_random random = test_random(300 + i);
            struct attend_case c;
            long_case(&c, &random, i, 1 + i % 2, ctx->precision ? 8 : 1 + i % 4, lengths[i % TEST_COUNT(lengths)]);
            assert_true(ctx->precision ? attend_bf16_check_case(ctx, &c, true, NULL)
                                       : attend_check_case(ctx, &c, NULL));
            attend_case_free(&c);
        }
    }
}

static void what_is_not_finite_stays_with_the_rows_that_meet_it(void **state) {
    struct fixture f;
    struct qkv_context *ctx;
    (void)state;
    FOR_PRECISIONS(f, ctx) {
        for (size_t i = 0; i < 6; i++) {
            struct qkv_random random = test_random(400 + i);
            struct attend_case c;
            long_case(&c, &random, i, 1, ctx->precision ? 5 : 1 + i % 4, 2 * PIECE + 40 * i);
            assert_true(attend_check_poison(ctx, &c, &random));
            attend_case_free(&c);
        }
    }
}

enum { EDGE_KEYS = 3 * PIECE, EDGE_CHANNELS = 32 };

/* The output for a query of ones in the first channel, and keys and values in that channel; the other channels are
 * 0. */
static float edge(struct qkv_context *ctx, float q, const float *k, const float *v, int32_t lo, float *lse) {
    static float query[EDGE_CHANNELS], keys[EDGE_KEYS][EDGE_CHANNELS], values[EDGE_KEYS][EDGE_CHANNELS];
    float y[EDGE_CHANNELS];
    const int32_t hi = EDGE_KEYS;
    struct qkv_arena scratch;
    query[0] = q;
    for (size_t j = 0; j < EDGE_KEYS; j++) keys[j][0] = k[j], values[j][0] = v[j];
    struct qkv_attend a = {.B = 1, .H = 1, .Hkv = 1, .Tq = 1, .Tk = EDGE_KEYS, .D = EDGE_CHANNELS, .Dv = EDGE_CHANNELS};
    a.q = (struct qkv_heads){query, EDGE_CHANNELS, EDGE_CHANNELS, EDGE_CHANNELS, QKV_F32};
    a.k = a.v = a.y = a.q;
    a.k.data = keys, a.v.data = values, a.y.data = y;
    a.scale = 1, a.lo = &lo, a.hi = &hi, a.lse = lse;
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, 1 << 24, "scratch"));
    for (size_t c = 0; c < EDGE_CHANNELS; c++) y[c] = 7;
    assert_ok(ctx, qkv_attend_forward(ctx, &scratch, &a));
    qkv_arena_free(&scratch);
    return y[0];
}

static void pieces_of_scores_far_apart_infinite_or_not_numbers_are_merged(void **state) {
    static float k[EDGE_KEYS], v[EDGE_KEYS];
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (ctx.threads = 1; ctx.threads <= 2; ctx.threads++) {
            float lse;
            for (size_t j = 0; j < EDGE_KEYS; j++) v[j] = (float)(j / PIECE), k[j] = j == 2 * PIECE + 9 ? 1e30f : 1;
            assert_true(edge(&ctx, 1, k, v, 0, &lse) == 2 && lse == 1e30f);          /* the last piece alone */
            assert_true(fabsf(edge(&ctx, 0, k, v, 0, &lse) - 1) < 1e-5f);            /* all alike */
            assert_true(fabsf(edge(&ctx, -1, k, v, 2 * PIECE, &lse) - 2) < 1e-5f);   /* pieces without keys */
            assert_true(fabsf(edge(&ctx, -3000, k, v, PIECE, &lse) - 1.5f) < 2e-3f); /* |lse| in the thousands */
            assert_true(fabsf(lse + 3000 - logf(2 * PIECE - 1)) < 1e-3f);
            for (size_t j = 0; j < EDGE_KEYS; j++) k[j] = j < PIECE ? 1e30f : j < 2 * PIECE ? -1e30f : 1;
            assert_true(edge(&ctx, 1e30f, k, v, 0, &lse) == 0 && lse == FLT_MAX); /* +inf wins, a piece of −inf */
            assert_true(edge(&ctx, -1e30f, k, v, 0, &lse) == 1);
            for (size_t j = 0; j < EDGE_KEYS; j++) k[j] = 1e30f;
            assert_true(edge(&ctx, -1e30f, k, v, 0, &lse) == 0 && lse == -INFINITY); /* all −inf weigh nothing */
            k[PIECE + 3] = NAN;
            assert_true(isnan(edge(&ctx, 1, k, v, 0, &lse)) && isnan(lse));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_query_of_one_kv_head_goes_over_a_long_cache_piece_by_piece),
        cmocka_unit_test(what_is_short_or_has_blocks_enough_or_one_thread_is_not_cut_by_keys),
        cmocka_unit_test(bits_over_a_long_cache_do_not_depend_on_threads),
        cmocka_unit_test(a_row_has_the_same_bits_in_a_prompt_and_over_the_cache),
        cmocka_unit_test(results_over_several_pieces_are_those_of_the_reference),
        cmocka_unit_test(what_is_not_finite_stays_with_the_rows_that_meet_it),
        cmocka_unit_test(pieces_of_scores_far_apart_infinite_or_not_numbers_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
