/* test_attention_call.c: attention on plain buffers against the definition, over random shapes and all options
 * together, on every kernel table of this machine; masked numbers do not spread. */
#include <float.h>

#include "attention_case.h"

/* ---- against the definition ------------------------------------------------------------------------------------- */

/* The part of the keys' gradient that belongs to the past, or to the new ones. */
static double *part(const struct formula *f, const double *all, size_t first, size_t count, size_t D) {
    double *x = formula_doubles(f->B * f->Hkv * count * D);
    for (size_t n = 0; n < f->B * f->Hkv; n++)
        memcpy(x + n * count * D, all + (n * f->Tk + first) * D, count * D * sizeof *x);
    return x;
}

/* Each entry sums terms of the size of dy·v, which may cancel. */
static double bias_error(const struct attention_case *c) {
    const struct formula *f = &c->f;
    const struct qkv_pair_shape *s = &c->call.bias_shape;
    double difference = 0, norm = 0, offset = c->g.accumulate ? 7 : 0;
    size_t n = f->B * f->H * f->Tq * f->Tk, most = 0;
    for (size_t p = 0; p < n; p++) {
        if (p % f->Tk >= s->Tk) continue;
        size_t at = case_pair_at(s, p / f->Tk / f->Tq / f->H, p / f->Tk / f->Tq % f->H, p / f->Tk % f->Tq, p % f->Tk);
        if (at >= most) most = at + 1;
    }
    double *sum = formula_doubles(most);
    bool *hit = calloc(most + 1, 1);
    for (size_t p = 0; p < n; p++) {
        if (p % f->Tk >= s->Tk) continue;
        size_t at = case_pair_at(s, p / f->Tk / f->Tq / f->H, p / f->Tk / f->Tq % f->H, p / f->Tk % f->Tq, p % f->Tk);
        sum[at] += f->dscores[p];
        hit[at] = true;
    }
    for (size_t e = 0; e < most; e++) {
        double d = hit[e] ? (double)c->g.dbias[e] - offset - sum[e] : (double)c->g.dbias[e] - 7; /* gaps stay */
        difference += d * d, norm += sum[e] * sum[e];
    }
    double term = (c->call.y.dtype != QKV_F32 ? 0.5 : 0.05) * sqrt((double)f->Dv);
    free(sum), free(hit);
    return isnan(difference) ? INFINITY : sqrt(difference / (norm + term * term * (double)n + 1e-30));
}

static double tolerance_of(const struct qkv_view *v, double fp32) {
    return v->dtype == QKV_BF16 ? 6e-3 : v->dtype == QKV_F16 ? 8e-4 : fp32;
}

/* The relative error that rounding a sum to bf16 or f16 adds: 2^-8 or 2^-11 of 7 + |gradient|, relative to
 * |gradient|. */
static double cut_sum(const struct qkv_view *v, const double *expected, double offset, double floor) {
    double norm = 0, sum = 0;
    size_t n = formula_elements(v);
    if (v->dtype == QKV_F32 || offset == 0) return 0;
    for (size_t e = 0; e < n; e++) {
        norm += expected[e] * expected[e];
        sum += pow(offset + fabs(expected[e]), 2);
    }
    return sqrt(sum / (norm + floor * floor * (double)n + 1e-30)) / (v->dtype == QKV_BF16 ? 256 : 2048);
}

static bool check_backward(const struct attention_case *c) {
    const struct formula *f = &c->f;
    size_t past = c->call.past_k.T, T = f->Tk - past;
    double offset = c->g.accumulate ? 7 : 0, steep = fabs(f->scale) * sqrt((double)f->Dv),
           rounded = offset > 0 ? 10 : 1;
    bool cut = c->call.y.dtype != QKV_F32; /* backward reads y, in Σ dy·y */
    double floor = (cut ? 0.5 : 0.05) * (steep > 1 ? steep : 1), exact = cut ? 3e-2 : 1e-4;
    const struct {
        const char *name;
        const struct qkv_view *view;
        const double *all;
        size_t first, count, D;
        double floor, exact;
    } views[] = {{"dk", &c->g.dk, f->dk, past, T, f->D, floor, exact},
                 {"dv", &c->g.dv, f->dv, past, T, f->Dv, 0.05, 1e-4},
                 {"dpast_k", &c->g.dpast_k, f->dk, 0, past, f->D, floor, exact},
                 {"dpast_v", &c->g.dpast_v, f->dv, 0, past, f->Dv, 0.05, 1e-4}};
    double dq = formula_error(&c->g.dq, f->dq, offset, floor);
    bool good = dq <= rounded * (exact > 1e-4 ? exact : tolerance_of(&c->g.dq, exact)) +
                          cut_sum(&c->g.dq, f->dq, offset, floor);
    if (!good) print_error("dq: error %g\n", dq);
    for (size_t i = 0; i < TEST_COUNT(views); i++) {
        double *expected = part(f, views[i].all, views[i].first, views[i].count, views[i].D);
        double error = formula_error(views[i].view, expected, offset, views[i].floor), most = views[i].exact;
        if (most < 1e-3) most = tolerance_of(views[i].view, most);
        double allowed = cut_sum(views[i].view, expected, offset, views[i].floor);
        free(expected);
        if (error <= rounded * most + allowed) continue;
        print_error("%s: error %g\n", views[i].name, error);
        good = false;
    }
    double dbias = c->g.dbias ? bias_error(c) : 0;
    if (dbias > exact * rounded) print_error("dbias: error %g\n", dbias);
    return good && dbias <= exact * rounded;
}

static bool check_stages(struct qkv_context *ctx, const struct attention_case *c, struct qkv_random *r) {
    const struct formula *f = &c->f;
    if (!f->B || !f->Tq) return true;
    size_t b = test_between(r, 0, f->B - 1), h = test_between(r, 0, f->H - 1), first = test_between(r, 0, f->Tq - 1);
    size_t rows = test_between(r, 1, f->Tq - first), n = rows * f->Tk, at = formula_pair(f, b, h, first, 0);
    const struct {
        enum qkv_attention_stage stage;
        const double *expected;
    } stages[] = {{QKV_ATTENTION_WEIGHTS, f->weights},
                  {QKV_ATTENTION_SCORES, f->scores},
                  {QKV_ATTENTION_CAPPED, f->capped},
                  {QKV_ATTENTION_PRODUCTS, f->products}};
    float *got = calloc(n + 1, sizeof *got), *expected = calloc(n + 1, sizeof *expected);
    bool good = true;
    for (size_t s = 0; s < TEST_COUNT(stages); s++) {
        assert_ok(ctx, qkv_attention_weights(ctx, &c->call, stages[s].stage, b, h, first, rows, got));
        for (size_t e = 0; e < n; e++) expected[e] = (float)stages[s].expected[at + e];
        double difference = 0, norm = 1e-30 + 0.25 * (double)n; /* products of N(0,1) may cancel */
        for (size_t e = 0; e < n; e++) {
            double d = got[e] == expected[e] ? 0 : (double)got[e] - (double)expected[e]; /* both may be -inf */
            difference += isfinite(d) ? d * d : (double)INFINITY;
            norm += isfinite(expected[e]) ? (double)expected[e] * (double)expected[e] : 0;
        }
        double error = sqrt(difference / norm);
        if (error <= 1e-5) continue;
        print_error("stage %zu of head %zu, rows %zu and %zu more: error %g\n", s, h, first, rows, error);
        good = false;
    }
    free(got), free(expected);
    return good;
}

static bool check_lse(const struct attention_case *c) {
    for (size_t row = 0; row < c->f.B * c->f.H * c->f.Tq; row++) {
        double got = (double)c->call.lse[row], expected = c->f.lse[row];
        if (got == expected || fabs(got - expected) <= 3e-5) continue;
        print_error("lse[%zu] is %g, not %g\n", row, got, expected);
        return false;
    }
    return true;
}

static void test_definition(void **state) {
    (void)state;
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = open_context(t, 2);
        for (size_t i = 0; i < cases(1500); i++) {
            struct qkv_random r = test_random(1000000 + i);
            struct attention_case c;
            case_random(&c, &r, false);
            formula_run(&c.f);
            run(ctx, &c);
            double y = formula_error(&c.call.y, c.f.y, 0, 0.05);
            bool good = y <= tolerance_of(&c.call.y, 1e-5) && check_lse(&c);
            if (!good) print_error("y: error %g\n", y);
            good = good && check_backward(&c) && check_stages(ctx, &c, &r);
            if (!good) fail_msg("%s, random case %zu: %s", qkv_context_isa(ctx), i, c.text);
            case_free(&c);
        }
        qkv_context_free(ctx);
    }
}

/* ---- what is masked does not leak ------------------------------------------------------------------------------- */

/* Element (n, t) of a view's rows becomes NaN. */
static void poison_row(const struct qkv_view *v, size_t n, size_t t) {
    for (size_t d = 0; d < v->D; d++) formula_set(v, (n * v->T + t) * v->D + d, (double)NAN);
}

static void poison(struct attention_case *c) {
    const struct formula *f = &c->f;
    size_t group = f->H / f->Hkv, past = c->call.past_k.T;
    for (size_t n = 0; n < f->B * f->Hkv * f->Tk; n++) { /* keys that nobody attends to */
        size_t j = n % f->Tk, kv = n / f->Tk % f->Hkv, b = n / f->Tk / f->Hkv;
        bool used = false;
        for (size_t i = 0; i < group * f->Tq && !used; i++)
            used = f->open[formula_pair(f, b, kv * group + i / f->Tq, i % f->Tq, j)];
        if (used) continue;
        poison_row(j < past ? &c->call.past_k : &c->call.k, n / f->Tk, j < past ? j : j - past);
        poison_row(j < past ? &c->call.past_v : &c->call.v, n / f->Tk, j < past ? j : j - past);
    }
    for (size_t row = 0; row < f->B * f->H * f->Tq; row++) { /* queries that attend to nothing */
        bool used = false;
        for (size_t j = 0; j < f->Tk && !used; j++) used = f->open[row * f->Tk + j];
        if (used) continue;
        poison_row(&c->call.q, row / f->Tq, row % f->Tq);
        poison_row(&c->g.dy, row / f->Tq, row % f->Tq);
    }
}

static void test_poison(void **state) {
    (void)state;
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = open_context(t, 2);
        for (size_t i = 0; i < cases(400); i++) {
            struct qkv_random r = test_random(4000000 + i);
            struct attention_case c;
            case_random(&c, &r, false);
            run(ctx, &c);
            const struct qkv_view *views[] = {&c.call.y, &c.g.dq, &c.g.dk, &c.g.dv, &c.g.dpast_k, &c.g.dpast_v};
            float *clean[TEST_COUNT(views)];
            for (size_t v = 0; v < TEST_COUNT(views); v++) clean[v] = packed(views[v]);
            poison(&c);
            run(ctx, &c);
            for (size_t v = 0; v < TEST_COUNT(views); v++) {
                same_view(views[v], clean[v], &c, "NaN where nobody looks");
                free(clean[v]);
            }
            case_free(&c);
        }
        qkv_context_free(ctx);
    }
}

/* Row by row: a key that is masked for one query and visible for another; a bias that is NaN or infinite where it is
 * masked. */
static void test_poison_by_row(void **state) {
    (void)state;
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = open_context(t, 2);
        enum { T = 70, D = 5 };
        float q[T * D], k[T * D], v[T * D], y[T * D], clean[T * D], bias[T * T], lse[T];
        uint8_t open[T * T];
        struct qkv_random r = test_random(5);
        test_fill(&r, q, T * D, 1), test_fill(&r, k, T * D, 1), test_fill(&r, v, T * D, 1),
            test_fill(&r, bias, T * T, 1);
        for (size_t e = 0; e < (size_t)T * T; e++) open[e] = e % T != 3 || e / T % 2; /* even rows do not see key 3 */
        struct qkv_attention_call c = {.q = qkv_view_bhtd(q, QKV_F32, 1, 1, T, D),
                                       .k = qkv_view_bhtd(k, QKV_F32, 1, 1, T, D),
                                       .v = qkv_view_bhtd(v, QKV_F32, 1, 1, T, D),
                                       .y = qkv_view_bhtd(y, QKV_F32, 1, 1, T, D),
                                       .lse = lse,
                                       .dense = open,
                                       .dense_shape = {.B = 1, .H = 1, .Tq = T, .Tk = T},
                                       .bias = bias,
                                       .bias_shape = {.B = 1, .H = 1, .Tq = T, .Tk = T}};
        assert_ok(ctx, qkv_attention_forward(ctx, &c));
        memcpy(clean, y, sizeof y);
        for (size_t d = 0; d < D; d++) k[3 * D + d] = NAN, v[3 * D + d] = INFINITY;
        for (size_t i = 0; i < T; i += 2) bias[i * T + 3] = i % 4 ? NAN : INFINITY;
        assert_ok(ctx, qkv_attention_forward(ctx, &c));
        for (size_t i = 0; i < T; i++) {
            if (i % 2 == 0) assert_memory_equal(y + i * D, clean + i * D, D * sizeof(float));
            if (i % 2 == 1) assert_true(isnan(y[i * D]));
        }
        qkv_context_free(ctx);
    }
}

/* Scores far beyond the range of exp, products and biases: equal ones share the weight, forward, backward and in the
 * stages. */
static void check_large(struct qkv_context *ctx, float product, float bias) {
    enum { TQ = 3, TK = 4 };
    float q[TQ], k[TK], v[TK] = {1, 3, 5, 7}, y[TQ], lse[TQ], dy[TQ] = {1, 1, 1}, dv[TK], dk[TK], dq[TQ], w[TQ * TK];
    float biases[TK] = {bias, bias, bias, bias}, dbias[TK];
    for (size_t i = 0; i < TQ; i++) q[i] = 1;
    for (size_t j = 0; j < TK; j++) k[j] = product;
    struct qkv_attention_call c = {.q = qkv_view_bhtd(q, QKV_F32, 1, 1, TQ, 1),
                                   .k = qkv_view_bhtd(k, QKV_F32, 1, 1, TK, 1),
                                   .v = qkv_view_bhtd(v, QKV_F32, 1, 1, TK, 1),
                                   .y = qkv_view_bhtd(y, QKV_F32, 1, 1, TQ, 1),
                                   .lse = lse,
                                   .bias = biases,
                                   .bias_shape = {.B = 1, .H = 1, .Tq = 1, .Tk = TK}};
    struct qkv_attention_gradients g = {.dy = qkv_view_bhtd(dy, QKV_F32, 1, 1, TQ, 1),
                                        .dq = qkv_view_bhtd(dq, QKV_F32, 1, 1, TQ, 1),
                                        .dk = qkv_view_bhtd(dk, QKV_F32, 1, 1, TK, 1),
                                        .dv = qkv_view_bhtd(dv, QKV_F32, 1, 1, TK, 1),
                                        .dbias = dbias};
    assert_ok(ctx, qkv_attention_forward(ctx, &c));
    assert_ok(ctx, qkv_attention_backward(ctx, &c, &g));
    assert_ok(ctx, qkv_attention_weights(ctx, &c, QKV_ATTENTION_WEIGHTS, 0, 0, 0, TQ, w));
    for (size_t e = 0; e < TQ * TK; e++) assert_true(fabsf(w[e] - 0.25f) < 1e-6f);
    for (size_t i = 0; i < TQ; i++) assert_true(fabsf(y[i] - 4) < 1e-5f);
    for (size_t j = 0; j < TK; j++) { /* dA = P·(v − mean of v) */
        assert_true(fabsf(dv[j] - 0.75f) < 1e-5f);
        assert_true(fabsf(dbias[j] - 0.75f * (v[j] - 4)) < 1e-4f);
        assert_true(fabsf(dk[j] - 0.75f * (v[j] - 4)) < 1e-4f);
    }
}

static void test_large_scores(void **state) {
    (void)state;
    float q[4] = {1e30f, 1e38f, -1e38f, 0}, k[3] = {1e30f, 1e30f, -1e30f}, v[3] = {1, 3, 100}, y[4], lse[4];
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = open_context(t, 1);
        struct qkv_attention_call c = {.q = qkv_view_bhtd(q, QKV_F32, 1, 1, 4, 1),
                                       .k = qkv_view_bhtd(k, QKV_F32, 1, 1, 3, 1),
                                       .v = qkv_view_bhtd(v, QKV_F32, 1, 1, 3, 1),
                                       .y = qkv_view_bhtd(y, QKV_F32, 1, 1, 4, 1),
                                       .lse = lse};
        assert_ok(ctx, qkv_attention_forward(ctx, &c));
        const float expected[4] = {2, 2, 100, 104.0f / 3};
        assert_floats_close(y, expected, 4, 1e-6);
        const float sizes[] = {0, 50, 100, 1e4f, -1e4f, 1e7f, -1e9f, -3e38f};
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            check_large(ctx, sizes[i] > -1e9f ? sizes[i] : 0, 0);
            check_large(ctx, 0, sizes[i]);
        }
        check_large(ctx, 0, -FLT_MAX);
        qkv_context_free(ctx);
    }
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

/* The largest distance from 1 of the sum of a row's weights and its sink; rows without keys sum to 0. */
static double looked_apart(struct qkv_context *ctx, const struct qkv_attention_call *c) {
    const size_t keys = c->past_k.T + c->k.T;
    float *w = malloc(c->q.T * keys * sizeof *w);
    double worst = 0;
    for (size_t row = 0; row < c->q.B * c->q.H; row++) {
        const size_t b = row / c->q.H, h = row % c->q.H;
        assert_ok(ctx, qkv_attention_weights(ctx, c, QKV_ATTENTION_WEIGHTS, b, h, 0, c->q.T, w));
        for (size_t i = 0; i < c->q.T; i++) {
            const float lse = c->lse[row * c->q.T + i];
            double sum = c->sinks && lse > -INFINITY ? exp((double)c->sinks[h] - (double)lse) : 0;
            for (size_t j = 0; j < keys; j++) sum += (double)w[i * keys + j];
            const double apart = fabs(sum - (lse > -INFINITY));
            if (!(apart <= worst)) worst = apart;
        }
    }
    free(w);
    return worst;
}

/* Fills a view of any type. */
static void looked_fill(struct qkv_random *r, const struct qkv_view *v, double size) {
    for (size_t e = 0; e < formula_elements(v); e++) formula_set(v, e, size * (2 * qkv_random_uniform(r) - 1));
}

static void weights_of_a_row_sum_to_one_in_every_context(void **state) {
    (void)state;
    enum { B = 2, H = 4, HKV = 2, PAST = 5, MOST = 300 * 300 };
    static const enum qkv_dtype types[] = {QKV_F32, QKV_BF16, QKV_F16};
    static const size_t sizes[][3] = {{16, 16, 64}, {7, 40, 24}, {150, 150, 32}, {3, 70, 257}}; /* Tq, Tk, D */
    static float arrays[5][B * H * MOST], lse[B * H * 300];
    const float sinks[H] = {0, 3, -20, 60};
    for (size_t i = 0; qkv_isa_at(i / 2); i++) {
        struct qkv_context *ctx = open_context(i / 2, 2);
        qkv_context_set_precision(ctx, i % 2 ? QKV_MIXED_BF16 : QKV_FP32);
        for (size_t k = 0; k < 12 * TEST_COUNT(sizes); k++) {
            const size_t Tq = sizes[k / 12][0], Tk = sizes[k / 12][1], D = sizes[k / 12][2];
            const enum qkv_dtype type = types[k % 3];
            const bool past = k % 12 / 6, usual = k % 6 / 3;
            struct qkv_random r = test_random(4000 + k);
            struct qkv_attention_call c = {.q = qkv_view_bhtd(arrays[0], type, B, H, Tq, D),
                                           .k = qkv_view_bhtd(arrays[1], type, B, HKV, Tk, D),
                                           .v = qkv_view_bhtd(arrays[2], type, B, HKV, Tk, 8),
                                           .y = qkv_view_bhtd(arrays[3], QKV_F32, B, H, Tq, 8),
                                           .lse = lse,
                                           .sinks = k % 2 ? sinks : NULL,
                                           .softcap = k % 5 ? 0 : 30,
                                           .mask = {.causal = usual, .offset = past ? PAST : 0}};
            if (past) {
                c.past_k = qkv_view_bhtd(arrays[4], type, B, HKV, PAST, D);
                c.past_v = qkv_view_bhtd(arrays[4] + B * HKV * PAST * D, type, B, HKV, PAST, 8);
                looked_fill(&r, &c.past_k, 6), looked_fill(&r, &c.past_v, 1);
            }
            looked_fill(&r, &c.q, usual ? 1 : 6), looked_fill(&r, &c.k, 6), looked_fill(&r, &c.v, 1);
            assert_ok(ctx, qkv_attention_forward(ctx, &c));
            const double apart = looked_apart(ctx, &c);
            if (!(apart <= 5e-5))
                fail_msg("%s, bf16 %zu, case %zu: a row and its sink sum to 1 but for %g", qkv_context_isa(ctx), i % 2,
                         k, apart);
        }
        qkv_context_free(ctx);
    }
}

/* ---- other ------------------------------------------------------------------------------------------------------ */

/* No scratch of size T×T. Scratch that grows with the rows: forward, two ends of an interval, and in bf16 the packed
 * keys and values, as large as q in fp32; backward, at most 16 shares of dq (BACKWARD_CHUNKS in kernel/attend.c:
 * their number depends on how many keys a table takes at a time, so twice the rows may need more than twice as
 * much), a few numbers for each row, less than one share more, and q and dy packed, in bf16 in two ways each, which
 * tables that emulate bf16 store in fp32. The rest is below 4 MiB. */
static void scratch_grows_with_the_rows_and_not_with_the_pairs(void **state) {
    (void)state;
    enum { H = 4, D = 64, FIXED = 4 << 20 };
    static float somewhere[4];
    for (size_t i = 0; qkv_isa_at(i / 2); i++) {
        struct qkv_context *ctx = open_context(i / 2, 2);
        qkv_context_set_precision(ctx, i % 2 ? QKV_MIXED_BF16 : QKV_FP32);
        for (size_t T = 16384; T <= 131072; T *= 2) {
            const size_t share = H * T * D * sizeof(float),
                         pairs = H * T * T; /* one byte for each of these is too much */
            struct qkv_view x = qkv_view_bhtd(somewhere, QKV_F32, 1, H, T, D);
            struct qkv_attention_call c = {.q = x, .k = x, .v = x, .y = x, .lse = somewhere, .mask.causal = true};
            struct qkv_attention_gradients g = {.dy = x, .dq = x, .dk = x, .dv = x};
            size_t forward, backward;
            assert_ok(ctx, qkv_attention_measure(ctx, &c, NULL, &forward));
            assert_ok(ctx, qkv_attention_measure(ctx, &c, &g, &backward));
            if (forward > 2 * T * sizeof(int32_t) + (i % 2 ? share : 0) + FIXED ||
                backward > (size_t)(i % 2 ? 16 + 1 + 4 : 16 + 1 + 2) * share + FIXED)
                fail_msg("%s, bf16 %zu, T %zu: %zu bytes forward, %zu backward", qkv_context_isa(ctx), i % 2, T,
                         forward, backward);
            assert_true(forward < pairs / 8 && backward < pairs / 2);
        }
        qkv_context_free(ctx);
    }
}

static void test_dropout_seed(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(0, 2);
    enum { T = 50 };
    float x[T * 4], y[3][T * 4];
    struct qkv_random r = test_random(6);
    test_fill(&r, x, T * 4, 1);
    struct qkv_view in = qkv_view_bhtd(x, QKV_F32, 1, 1, T, 4);
    for (uint64_t n = 0; n < 3; n++) {
        struct qkv_attention_call c = {.q = in,
                                       .k = in,
                                       .v = in,
                                       .y = qkv_view_bhtd(y[n], QKV_F32, 1, 1, T, 4),
                                       .dropout = 0.5,
                                       .seed = n == 2 ? 8 : 9};
        assert_ok(ctx, qkv_attention_forward(ctx, &c));
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_not_equal(y[0], y[2], sizeof y[0]);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),
                                       cmocka_unit_test(test_poison),
                                       cmocka_unit_test(test_poison_by_row),
                                       cmocka_unit_test(test_large_scores),
                                       cmocka_unit_test(weights_of_a_row_sum_to_one_in_every_context),
                                       cmocka_unit_test(scratch_grows_with_the_rows_and_not_with_the_pairs),
                                       cmocka_unit_test(test_dropout_seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
