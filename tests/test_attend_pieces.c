/* test_attend_pieces.c: single gradients of attention against differences of its reference, and against each other;
 * and the stages before the weights. On every kernel table of this machine. */
#include "attend_tables.h"

/* Σ dy·y of the reference, and Σ dlse·lse where lse has a gradient and a key. */
static double objective(const struct attend_case *c) {
    struct attend_answer r;
    double sum = 0;
    attend_reference(c, false, &r);
    for (size_t e = 0; e < c->a.B * c->a.H * c->a.Tq * c->a.Dv; e++) {
        size_t row = e / c->a.Dv, i = row % c->a.Tq, h = row / c->a.Tq % c->a.H;
        sum += r.y[e] * (double)attend_get(&c->g.dy, row / c->a.Tq / c->a.H, i, h, e % c->a.Dv);
    }
    for (size_t row = 0; c->dlse && row < c->a.B * c->a.H * c->a.Tq; row++)
        if (r.lse[row] > -INFINITY) sum += r.lse[row] * (double)c->dlse[row];
    attend_answer_free(&r);
    return sum;
}

/* Numbers in gathered order: of a tensor without its gaps, or of the attention_bias where it is finite. */
static float **gathered(struct attend_case *c, size_t which, size_t *n) {
    struct attend_shape s = attend_shape_of(&c->a, which);
    const struct qkv_heads *x = attend_tensor(c, which);
    *n = c->a.B * s.T * s.heads * s.channels;
    float **at = attend_memory(*n, sizeof *at);
    for (size_t e = 0; e < *n; e++)
        at[e] = attend_place(x, e / s.channels / s.heads / s.T, e / s.channels / s.heads % s.T,
                             e / s.channels % s.heads, e % s.channels);
    return at;
}

static float **gathered_addend(struct attend_case *c, float *of, size_t *n) {
    float **at = attend_memory(c->addend_floats, sizeof *at);
    *n = 0;
    for (size_t e = 0; e < c->addend_floats; e++)
        if (isfinite(c->attention_bias[e])) at[(*n)++] = of + e;
    return at;
}

/* The gradient along a random direction is the slope of the reference's forward pass, by central differences. This does
 * not use the gradient's formula. */
static void directional(struct qkv_context *ctx, struct attend_case *c, struct qkv_random *random, size_t which,
                        size_t gradient) {
    size_t n;
    float **x = which == ATTEND_TENSORS ? gathered_addend(c, c->attention_bias, &n) : gathered(c, which, &n);
    float **dx = which == ATTEND_TENSORS ? gathered_addend(c, c->g.dattention_bias, &n) : gathered(c, gradient, &n);
    float *saved = attend_memory(n, 4), *direction = attend_memory(n, 4);
    double value[2], slope = 0, size = 0;
    test_fill(random, direction, n, 2e-4);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++) {
            if (side == 0) saved[i] = *x[i];
            *x[i] = side ? saved[i] - direction[i] : saved[i] + direction[i];
            slope += (double)*dx[i] * (side ? -(double)*x[i] : (double)*x[i]);
            if (side == 0) size += fabs((double)*dx[i]) * 2e-4;
        }
        value[side] = objective(c);
    }
    for (size_t i = 0; i < n; i++) *x[i] = saved[i];
    double difference = value[0] - value[1];
    if (fabs(difference - slope) > 1e-4 * (fabs(difference) + size) + 1e-6)
        fail_msg("%s: %s: along gradient %zu it says %g, differences %g", ctx->kernels->isa, c->text, gradient, slope,
                 difference);
    guard_page_free(saved), guard_page_free(direction), guard_page_free(x), guard_page_free(dx);
}

static void test_directional(void **state) {
    static const size_t pairs[][2] = {{ATTEND_Q, ATTEND_DQ},           {ATTEND_K, ATTEND_DK},
                                      {ATTEND_V, ATTEND_DV},           {ATTEND_PAST_K, ATTEND_DPAST_K},
                                      {ATTEND_PAST_V, ATTEND_DPAST_V}, {ATTEND_TENSORS, ATTEND_TENSORS}};
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < cases(25); i++) {
            struct qkv_random random = test_random(1000 + i);
            struct attend_case c;
            attend_case_random(&c, &random, false);
            c.g.accumulate = false;
            assert_true(attend_run(&ctx, &c, true));
            for (size_t p = 0; p < TEST_COUNT(pairs); p++) directional(&ctx, &c, &random, pairs[p][0], pairs[p][1]);
            attend_case_free(&c);
        }
    }
}

/* Every output back to what is not NaN in it. */
static void clear_outputs(struct attend_case *c, size_t which) {
    struct attend_shape s = attend_shape_of(&c->a, which);
    for (size_t r = 0; r < c->a.B * s.T * s.heads; r++)
        attend_fill_row(attend_tensor(c, which), r / s.heads / s.T, r / s.heads % s.T, r % s.heads, s.channels, 3);
}

/* Gradients asked for one by one are those asked for together. */
static void check_one_by_one(struct qkv_context *ctx, struct qkv_arena *scratch, struct attend_case *c) {
    size_t floats;
    float *all = attend_outputs(c, &floats);
    for (size_t which = ATTEND_DQ; which <= ATTEND_TENSORS; which++) {
        struct attend_case one = *c;
        one.g = (struct qkv_attend_gradients){.dy = c->g.dy, .dlse = c->g.dlse};
        if (which < ATTEND_TENSORS) {
            clear_outputs(c, which);
            *attend_tensor(&one, which) = *attend_tensor(c, which);
        } else if (c->g.dattention_bias) {
            one.g.dattention_bias = c->g.dattention_bias;
            for (size_t e = 0; e < c->addend_floats; e++)
                if (!isnan(c->attention_bias[e])) c->g.dattention_bias[e] = 3;
        }
        assert_ok(ctx, qkv_attend_backward(ctx, scratch, &one.a, &one.g));
    }
    float *again = attend_outputs(c, &floats);
    assert_memory_equal(all, again, floats * sizeof(float));
    guard_page_free(all), guard_page_free(again);
}

/* A stage of one head is the reference's, in any range of rows; nothing behind it is written. */
static void check_stage(struct qkv_context *ctx, struct qkv_arena *scratch, const struct attend_case *c,
                        struct qkv_random *random, enum qkv_attention_stage stage) {
    const struct qkv_attend *a = &c->a;
    struct qkv_attend call = *a;
    size_t b = test_between(random, 0, a->B - 1), h = test_between(random, 0, a->H - 1);
    size_t first = test_between(random, 0, a->Tq - 1), rows = test_between(random, 0, a->Tq - first);
    float *w = attend_memory(rows * a->Tk + 1, 4);
    double *p = attend_memory(a->Tk, 8), slope, bound, *slopes = attend_memory(a->Tk, 8);
    w[rows * a->Tk] = 42;
    const bool dropped = stage == QKV_ATTENTION_DROPPED, weights = stage == QKV_ATTENTION_WEIGHTS || dropped;
    if (!weights) call.lse = NULL;
    assert_ok(ctx, qkv_attend_weights(ctx, scratch, &call, stage, b, h, first, rows, w));
    assert_true(w[rows * a->Tk] == 42);
    for (size_t r = 0; r < rows; r++) {
        double most = 0;
        for (size_t j = 0; j < a->Tk; j++) {
            double x = attend_stage(a, stage, b, h, first + r, j, &slope, &bound), got = (double)w[r * a->Tk + j];
            if (bound > most) most = bound;
            if (!weights && !(x == -INFINITY ? got == x : fabs(got - x) <= bound + 1e-30))
                fail_msg("%s: %s: stage %d of row %zu, key %zu is %g, not %g", ctx->kernels->isa, c->text, (int)stage,
                         first + r, j, got, x);
        }
        attend_row(a, b, h, first + r, p, slopes);
        for (size_t j = 0; weights && j < a->Tk; j++) {
            const double keep = dropped ? attend_keep(a, b, h, first + r, j) : 1, got = (double)w[r * a->Tk + j];
            const bool left = attend_may(a, b, h, first + r, j) && keep > 0;
            assert_true(left ? fabs(keep * p[j] - got) <= keep * (1e-5 + 2 * most) : got == 0);
        }
    }
    guard_page_free(w), guard_page_free(p), guard_page_free(slopes);
}

static void test_pieces(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < cases(20); i++) {
            struct qkv_random random = test_random(2000 + i);
            struct attend_case c;
            struct qkv_arena scratch;
            attend_case_random(&c, &random, true);
            c.g.accumulate = false;
            assert_true(attend_run(&ctx, &c, true));
            assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, (size_t)256 << 20, "scratch"));
            check_one_by_one(&ctx, &scratch, &c);
            for (int stage = 0; c.a.Tq && c.a.Tk && stage <= QKV_ATTENTION_DROPPED; stage++)
                check_stage(&ctx, &scratch, &c, &random, (enum qkv_attention_stage)stage);
            qkv_arena_free(&scratch);
            attend_case_free(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_directional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
