/* Routers: the choice of experts, and the losses that spread rows over experts, whose gradients are compared with
 * differences of the formula in double. */
/* labels: numeric quick */
#include "op_fixture.h"

enum { N = 9, E = 4, K = 2, SEQUENCES = 3 };
static const int32_t starts[] = {0, 4, 4, N}, places[] = {0, 1, 2, 3, 12, 13, 14, 15, 16};
static const struct qkv_rows rows = {
    .N = N, .B = SEQUENCES, .T = 6, .most = N, .ragged = true, .start = starts, .place = places};

/* balance·E/(k·T)·Σ count·mean q + z·mean (log Σ exp)², over the sequences; chosen: (N,K). */
static double losses_of(const float *logits, const int32_t *chosen, bool sigmoid, double balance, double z) {
    double sum = 0;
    for (size_t s = 0; s < SEQUENCES; s++) {
        const double T = starts[s + 1] - starts[s];
        double count[E] = {0}, q[E] = {0}, square = 0;
        for (int32_t n = starts[s]; n < starts[s + 1]; n++) {
            double p[E], all = 0, exps = 0;
            for (size_t k = 0; k < K; k++) count[chosen[n * K + (int)k]]++;
            for (size_t e = 0; e < E; e++) {
                const double x = (double)logits[n * E + (int)e];
                exps += exp(x);
                all += p[e] = sigmoid ? 1 / (1 + exp(-x)) : exp(x);
            }
            for (size_t e = 0; e < E; e++) q[e] += p[e] / all / T;
            square += log(exps) * log(exps) / T;
        }
        for (size_t e = 0; e < E && T > 0; e++) sum += balance * E / (K * T) * count[e] * q[e];
        sum += z * square;
    }
    return sum;
}

static void losses_of_routers_have_their_gradients(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        struct fixture f;
        const struct qkv_routing *routing;
        const enum qkv_expert_scores scores = (enum qkv_expert_scores)(i % 4);
        const double balance = i < 4 ? 0.7 : 0, z = i % 2 ? 0.3 : 0.2;
        const struct qkv_route_options o = {.top_k = K,
                                            .groups = 1,
                                            .top_groups = 1,
                                            .scores = scores,
                                            .scale = 1,
                                            .balance = (float)balance,
                                            .z = (float)z,
                                            .rows = &rows};
        float zeros[N * K] = {0};
        int32_t chosen[N * K];
        struct qkv_loss loss;
        start(&f, 950 + i);
        leaf(&f, N, E, 0);
        qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, true);
        struct qkv_tensor *y = qkv_op_route(&f.tape, &f.leaves[0], NULL, &o, &routing);
        memcpy(chosen, routing->chosen, sizeof chosen);
        qkv_op_inner_product(&f.tape, y, zeros, 1, &loss); /* no other gradient */
        assert_int_equal(qkv_tape_backward(&f.tape), QKV_OK);
        for (size_t k = 0; k < N * E; k++) {
            const float x = f.values[0][k], step = 1e-3F;
            f.values[0][k] = x + step;
            const double up = losses_of(f.values[0], chosen, scores == QKV_EXPERT_SCORES_SIGMOID, balance, z);
            f.values[0][k] = x - step;
            const double down = losses_of(f.values[0], chosen, scores == QKV_EXPERT_SCORES_SIGMOID, balance, z);
            f.values[0][k] = x;
            const double slope = (up - down) / ((double)(x + step) - (double)(x - step));
            if (fabs(slope - (double)f.leaves[0].learning.gradient[k]) > 1e-4 * (1 + fabs(slope)))
                fail_msg("logit %zu of case %d: %g, not %g", k, (int)i, (double)f.leaves[0].learning.gradient[k],
                         slope);
        }
        finish(&f);
    }
}

/* Σ g·w over the weights w of sparsemixer: the j-th is the softmax of its logit among those that are not chosen before
 * it and not too far below it, which the logits `at` decide. */
static double mixed_weights(const float *logits, const float *at, const int32_t *chosen, const float *g, double margin,
                            double scale) {
    double total = 0;
    for (size_t n = 0; n < N; n++)
        for (size_t j = 0; j < K; j++) {
            const size_t own = (size_t)chosen[n * K + j];
            const double best = (double)at[n * E + own];
            double sum = 0;
            for (size_t e = 0; e < E; e++) {
                const double x = (double)at[n * E + e];
                bool counts = e == own || (best - x) / fmax(fabs(x), best) <= margin;
                for (size_t i = 0; i < j; i++) counts = counts && (size_t)chosen[n * K + i] != e;
                if (counts) sum += exp((double)logits[n * E + e] - (double)logits[n * E + own]);
            }
            total += (double)g[n * K + j] * scale / sum;
        }
    return total;
}

static void weights_of_sparsemixer_have_their_gradients(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        struct fixture f;
        const struct qkv_routing *routing;
        const double margin = i % 2 ? 2.5 : 0.4, scale = i < 4 ? 1 : 1.7;
        const struct qkv_route_options o = {.top_k = K,
                                            .groups = 1,
                                            .top_groups = 1,
                                            .scores = QKV_EXPERT_SCORES_SPARSEMIXER,
                                            .scale = (float)scale,
                                            .margin = (float)margin,
                                            .rows = &rows};
        float g[N * K], at[N * E];
        int32_t chosen[N * K];
        struct qkv_loss loss;
        start(&f, 970 + i);
        leaf(&f, N, E, 0);
        memcpy(at, f.values[0], sizeof at);
        test_fill(&f.random, g, N * K, 1);
        qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, true);
        struct qkv_tensor *y = qkv_op_route(&f.tape, &f.leaves[0], NULL, &o, &routing);
        memcpy(chosen, routing->chosen, sizeof chosen);
        qkv_op_inner_product(&f.tape, y, g, 1, &loss);
        const double expected = mixed_weights(f.values[0], at, chosen, g, margin, scale);
        if (fabs(loss.sum - expected) > 1e-5 * (1 + fabs(expected))) fail_msg("%g, not %g", loss.sum, expected);
        assert_int_equal(qkv_tape_backward(&f.tape), QKV_OK);
        for (size_t k = 0; k < N * E; k++) {
            const float x = f.values[0][k], step = 1e-3F;
            double ends[2];
            for (int side = 0; side < 2; side++) {
                f.values[0][k] = side ? x + step : x - step;
                ends[side] = mixed_weights(f.values[0], at, chosen, g, margin, scale);
            }
            f.values[0][k] = x;
            const double slope = (ends[1] - ends[0]) / ((double)(x + step) - (double)(x - step));
            const double gradient = (double)f.leaves[0].learning.gradient[k];
            if (fabs(slope - gradient) > 1e-4 * (1 + fabs(slope)))
                fail_msg("logit %zu of case %d: %g, not %g", k, (int)i, gradient, slope);
        }
        finish(&f);
    }
}

/* Of equal scores the lower index is chosen, in groups, too, and each expert's rows are in order. */
static void of_equal_experts_the_lower_is_chosen(void **state) {
    (void)state;
    struct fixture f;
    const struct qkv_routing *r;
    start(&f, 960);
    leaf(&f, N, E, 0);
    for (size_t i = 0; i < N * E; i++) f.values[0][i] = 0.25F;
    for (int grouped = 0; grouped < 2; grouped++) {
        const struct qkv_route_options o = {.top_k = K, .groups = grouped ? 2 : 1, .top_groups = 1, .scale = 1};
        qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
        assert_non_null(qkv_op_route(&f.tape, &f.leaves[0], NULL, &o, &r));
        for (size_t n = 0; n < N; n++) {
            assert_int_equal(r->chosen[n * K], 0);
            assert_int_equal(r->chosen[n * K + 1], 1);
            assert_int_equal(r->row[n], n);
            assert_int_equal(r->row[N + n], n);
            assert_int_equal(r->slot[n * K + 1], N + n);
        }
        assert_int_equal(r->start[1], N);
        assert_int_equal(r->start[E], N * K);
    }
    finish(&f);
}

static void a_router_without_numbers_is_named(void **state) {
    (void)state;
    struct fixture f;
    const struct qkv_routing *r;
    const struct qkv_route_options o = {
        .top_k = K, .groups = 1, .top_groups = 1, .scale = 1, .name = "a.router.weight"};
    start(&f, 961);
    leaf(&f, N, E, 0);
    f.values[0][5 * E + 1] = NAN;
    f.values[0][7 * E] = INFINITY;
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, false);
    assert_null(qkv_op_route(&f.tape, &f.leaves[0], NULL, &o, &r));
    assert_int_equal(f.tape.status, QKV_NUMBER);
    assert_non_null(strstr(qkv_message(f.ctx), "a.router.weight: row 5"));
    finish(&f);
}

/* y, dx and dw of x·wᵀ one after the other, from the same numbers in every precision; x in bf16, or the same numbers
 * in fp32. The caller frees them. */
enum { ROUTED_ROWS = 37, ROUTED_IN = 300, ROUTED_ALL = ROUTED_ROWS * E + ROUTED_ROWS * ROUTED_IN + E * ROUTED_IN };
static float *products(enum qkv_precision precision, bool of_fp32, bool x_in_bf16) {
    struct fixture f;
    struct qkv_loss loss;
    uint16_t x_stored[ROUTED_ROWS * ROUTED_IN];
    float dy[ROUTED_ROWS * E], *out = malloc(ROUTED_ALL * sizeof *out);
    start(&f, 962);
    qkv_context_set_precision(f.ctx, precision);
    struct qkv_tensor *x = leaf(&f, ROUTED_ROWS, ROUTED_IN, 0), *w = leaf(&f, E, ROUTED_IN, 0);
    test_fill(&f.random, dy, ROUTED_ROWS * E, 1);
    qkv_from_float(x_stored, f.values[0], QKV_BF16, ROUTED_ROWS * ROUTED_IN);
    qkv_to_float(f.values[0], x_stored, QKV_BF16, ROUTED_ROWS * ROUTED_IN);
    if (x_in_bf16) x->data = x_stored, x->dtype = QKV_BF16;
    w->operand.fp32 = of_fp32;
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, true);
    struct qkv_tensor *y = qkv_op_linear(&f.tape, x, w, NULL, QKV_RESULT_FP32);
    memcpy(out, y->data, sizeof dy);
    qkv_op_inner_product(&f.tape, y, dy, 1, &loss);
    assert_int_equal(qkv_tape_backward(&f.tape), QKV_OK);
    memcpy(out + ROUTED_ROWS * E, x->learning.gradient, ROUTED_ROWS * ROUTED_IN * sizeof *out);
    memcpy(out + ROUTED_ROWS * (E + ROUTED_IN), w->learning.gradient, E * ROUTED_IN * sizeof *out);
    finish(&f);
    return out;
}

/* A router's weight is one of fp32. The formulas are those of linear, which test_op holds against differences. */
static void products_with_a_weight_of_fp32_are_fp32_in_mixed_precision(void **state) {
    (void)state;
    float *fp32 = products(QKV_FP32, false, false), *rounded = products(QKV_MIXED_BF16, false, true);
    for (int x_in_bf16 = 0; x_in_bf16 < 2; x_in_bf16++) {
        float *mixed = products(QKV_MIXED_BF16, true, x_in_bf16);
        assert_memory_equal(mixed, fp32, ROUTED_ALL * sizeof *fp32);
        free(mixed);
    }
    assert_memory_not_equal(rounded, fp32, ROUTED_ROWS * E * sizeof *fp32);
    free(fp32), free(rounded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_routers_have_their_gradients),
        cmocka_unit_test(weights_of_sparsemixer_have_their_gradients),
        cmocka_unit_test(of_equal_experts_the_lower_is_chosen),
        cmocka_unit_test(a_router_without_numbers_is_named),
        cmocka_unit_test(products_with_a_weight_of_fp32_are_fp32_in_mixed_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
