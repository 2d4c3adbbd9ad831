/* Distance biases and sinks of a public call against the same call without them, written out: a bias for each pair,
 * and one more key whose score is the sink and whose value is 0. test_attention_golden anchors dense biases. */
/* labels: quick */
#include "test.h"

enum { B = 2, H = 4, HKV = 2, TQ = 7, TK = 9, D = 5, DV = 6, OFFSET = 2, ZERO = 8, DISTANCES = 15 };

struct both {
    struct qkv_context *ctx;
    struct qkv_random random;
    float q[B * H * TQ * D], k[B * HKV * (TK + 1) * D], v[B * HKV * (TK + 1) * DV], dy[B * H * TQ * DV];
    float table[H * DISTANCES], sinks[H], bias[H * TQ * (TK + 1)];
    float y[2][B * H * TQ * DV], lse[2][B * H * TQ], dq[2][B * H * TQ * D], dbias[H * TQ * (TK + 1)];
    float ddistances[H * DISTANCES], dsinks[H];
    struct qkv_attention_call call[2];
    struct qkv_attention_gradients g[2];
};

static struct qkv_view view(float *x, size_t heads, size_t T, size_t columns, size_t room) {
    return (struct qkv_view){.data = x,
                             .dtype = QKV_F32,
                             .B = B,
                             .H = heads,
                             .T = T,
                             .D = columns,
                             .batch = heads * room * columns,
                             .head = room * columns,
                             .row = columns};
}

/* One key more has no value, and its product with every query is 0. */
static void clear_last(float *x, size_t columns) {
    for (size_t n = 0; n < (size_t)B * HKV; n++) memset(x + (n * (TK + 1) + TK) * columns, 0, columns * sizeof *x);
}

static void both_start(struct both *c, bool distances, bool sinks) {
    memset(c, 0, sizeof *c);
    assert_int_equal(qkv_context_create(&c->ctx, NULL), QKV_OK);
    c->random = test_random(distances + 2 * (uint64_t)sinks);
    test_fill(&c->random, c->q, TEST_COUNT(c->q), 1);
    test_fill(&c->random, c->k, TEST_COUNT(c->k), 1);
    test_fill(&c->random, c->v, TEST_COUNT(c->v), 1);
    test_fill(&c->random, c->dy, TEST_COUNT(c->dy), 1);
    test_fill(&c->random, c->table, TEST_COUNT(c->table), 1);
    test_fill(&c->random, c->sinks, TEST_COUNT(c->sinks), 2);
    clear_last(c->k, D), clear_last(c->v, DV);
    for (size_t n = 0; n < TEST_COUNT(c->bias); n++) {
        const size_t j = n % (TK + 1), i = n / (TK + 1) % TQ, h = n / (TK + 1) / TQ;
        c->bias[n] = j == TK ? c->sinks[h] : distances ? c->table[h * DISTANCES + j + ZERO - (i + OFFSET)] : 0;
    }
    for (size_t one = 0; one < 2; one++) { /* 0: as it is meant; 1: written out */
        struct qkv_attention_call *call = &c->call[one];
        const size_t keys = one && sinks ? TK + 1 : TK;
        *call = qkv_attention_call_defaults();
        call->q = view(c->q, H, TQ, D, TQ), call->y = view(c->y[one], H, TQ, DV, TQ), call->lse = c->lse[one];
        call->k = view(c->k, HKV, keys, D, TK + 1), call->v = view(c->v, HKV, keys, DV, TK + 1);
        call->mask.offset = OFFSET;
        c->g[one] = qkv_attention_gradients_defaults();
        c->g[one].dy = view(c->dy, H, TQ, DV, TQ), c->g[one].dq = view(c->dq[one], H, TQ, D, TQ);
    }
    if (distances) c->call[0].distance_bias = c->table, c->g[0].ddistance_bias = c->ddistances;
    if (sinks) c->call[0].sinks = c->sinks, c->g[0].dsinks = c->dsinks;
    c->call[0].distances = DISTANCES, c->call[0].distance_zero = ZERO;
    c->call[1].bias = c->bias, c->g[1].dbias = c->dbias;
    c->call[1].bias_shape = (struct qkv_pair_shape){.B = 1, .H = H, .Tq = TQ, .Tk = sinks ? TK + 1 : TK};
    c->call[1].bias_shape.head = TQ * (TK + 1), c->call[1].bias_shape.row = TK + 1;
}

static void check_same(const float *x, const float *y, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= tolerance))
            fail_msg("number %zu is %g, but %g written out", i, (double)x[i], (double)y[i]);
}

static void check_both(bool distances, bool sinks) {
    struct both *c = malloc(sizeof *c);
    float expected[H * DISTANCES] = {0}, sums[H] = {0};
    both_start(c, distances, sinks);
    for (size_t one = 0; one < 2; one++) {
        if (qkv_attention_forward(c->ctx, &c->call[one]) || qkv_attention_backward(c->ctx, &c->call[one], &c->g[one]))
            fail_msg("%s", qkv_message(c->ctx));
    }
    const double tolerance = c->ctx->precision == QKV_FP32 ? 1e-5 : 5e-2;
    check_same(c->y[0], c->y[1], TEST_COUNT(c->y[0]), tolerance);
    check_same(c->lse[0], c->lse[1], TEST_COUNT(c->lse[0]), tolerance);
    check_same(c->dq[0], c->dq[1], TEST_COUNT(c->dq[0]), 10 * tolerance);
    for (size_t n = 0; n < TEST_COUNT(c->bias); n++) {
        const size_t j = n % (TK + 1), i = n / (TK + 1) % TQ, h = n / (TK + 1) / TQ;
        if (j < TK) expected[h * DISTANCES + j + ZERO - (i + OFFSET)] += c->dbias[n];
        if (j == TK) sums[h] += c->dbias[n];
    }
    if (distances) check_same(c->ddistances, expected, TEST_COUNT(expected), 20 * tolerance);
    if (sinks) check_same(c->dsinks, sums, H, 20 * tolerance);
    /* Gradients are added to what is there where that is asked for. */
    c->g[0].accumulate = true;
    assert_int_equal(qkv_attention_backward(c->ctx, &c->call[0], &c->g[0]), QKV_OK);
    for (size_t n = 0; n < TEST_COUNT(expected); n++) expected[n] *= 2;
    for (size_t h = 0; h < H; h++) sums[h] *= 2;
    if (distances) check_same(c->ddistances, expected, TEST_COUNT(expected), 40 * tolerance);
    if (sinks) check_same(c->dsinks, sums, H, 40 * tolerance);
    qkv_context_free(c->ctx);
    free(c);
}

static void a_bias_by_distance_is_a_bias_for_each_pair(void **state) {
    (void)state;
    check_both(true, false);
}

static void a_sink_is_a_key_without_a_value(void **state) {
    (void)state;
    check_both(false, true);
}

static void both_go_together(void **state) {
    (void)state;
    check_both(true, true);
}

/* A dropout that drops nothing runs the kernels for any scores: the same products, weights and order of sums, pair
 * by pair. */
static void many_rows_have_the_bits_of_sums_pair_by_pair(void **state) {
    (void)state;
    struct qkv_random random = test_random(9);
    for (int round = 0; round < 6; round++) {
        struct qkv_context_options options = qkv_context_defaults();
        struct qkv_context *ctx;
        options.precision = round % 3 ? QKV_MIXED_BF16 : QKV_FP32;
        assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
        const size_t Tq = test_between(&random, 1, 300), Tk = test_between(&random, 1, 300), all = Tq + Tk;
        const size_t heads = B * H * Tq * DV, keys = B * HKV * Tk * DV, gradients = heads + 2 * keys + H * all;
        float *x = malloc((2 * heads + 2 * keys + H * all) * sizeof *x), *k = x + heads, *v = k + keys, *dy = v + keys;
        float *lse = malloc(B * H * Tq * sizeof *lse), *y[2], *g[2];
        test_fill(&random, x, 2 * heads + 2 * keys + H * all, 1);
        struct qkv_attention_call call = qkv_attention_call_defaults();
        call.q = view(x, H, Tq, DV, Tq), call.k = view(k, HKV, Tk, DV, Tk), call.v = view(v, HKV, Tk, DV, Tk);
        call.distance_bias = dy + heads, call.distances = all, call.distance_zero = Tq, call.lse = lse;
        call.mask.causal = test_between(&random, 0, 1), call.mask.window = (int64_t)test_between(&random, 0, Tk);
        for (size_t one = 0; one < 2; one++) {
            y[one] = malloc(heads * sizeof *x), g[one] = calloc(gradients, sizeof *x);
            struct qkv_attention_gradients to = qkv_attention_gradients_defaults();
            call.y = view(y[one], H, Tq, DV, Tq), to.dy = view(dy, H, Tq, DV, Tq);
            to.dq = view(g[one], H, Tq, DV, Tq), to.dk = view(g[one] + heads, HKV, Tk, DV, Tk);
            to.dv = view(g[one] + heads + keys, HKV, Tk, DV, Tk), to.ddistance_bias = g[one] + heads + 2 * keys;
            call.dropout = one ? 1e-12 : 0;
            if (qkv_attention_forward(ctx, &call) || qkv_attention_backward(ctx, &call, &to))
                fail_msg("%s", qkv_message(ctx));
        }
        check_same(y[0], y[1], heads, 0);
        check_same(g[0], g[1], gradients, 0);
        free(x), free(lse);
        for (size_t one = 0; one < 2; one++) free(y[one]), free(g[one]);
        qkv_context_free(ctx);
    }
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct both *c = malloc(sizeof *c);
    both_start(c, true, true);
    struct qkv_attention_call call = c->call[0];
    call.alibi = c->sinks;
    assert_int_equal(qkv_attention_forward(c->ctx, &call), QKV_ARGUMENT);
    assert_message(c->ctx, "alibi and distance_bias are given");
    call = c->call[0], call.distances = DISTANCES - 1;
    assert_int_equal(qkv_attention_forward(c->ctx, &call), QKV_SHAPE);
    assert_message(c->ctx, "make it longer");
    call = c->call[0], c->sinks[1] = NAN;
    assert_int_equal(qkv_attention_forward(c->ctx, &call), QKV_ARGUMENT);
    assert_message(c->ctx, "the sink of head 1 is nan");
    call.sinks = NULL;
    assert_int_equal(qkv_attention_backward(c->ctx, &call, &c->g[0]), QKV_ARGUMENT);
    assert_message(c->ctx, "dsinks is asked for");
    qkv_context_free(c->ctx);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bias_by_distance_is_a_bias_for_each_pair),
        cmocka_unit_test(a_sink_is_a_key_without_a_value),
        cmocka_unit_test(both_go_together),
        cmocka_unit_test(many_rows_have_the_bits_of_sums_pair_by_pair),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
