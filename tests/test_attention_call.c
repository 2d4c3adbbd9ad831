/* test_attention_call.c: attention on plain buffers against the definition, over random shapes and all options together, on every
 * kernel table of this machine; what must not change the result; what is masked does not leak. */
#include "attention_case.h"

static struct qkv_context *open_context(size_t table, int threads) {
    struct qkv_context_options options = {.isa = qkv_isa_at(table), .threads = threads};
    struct qkv_context *ctx;
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

/* $QKV_TEST_CASES multiplies the number of random cases. */
static size_t cases(size_t n) {
    const char *text = getenv("QKV_TEST_CASES");
#ifdef QKV_SANITIZE
    n /= 5;
#endif
    return text ? n * strtoul(text, NULL, 10) : n;
}

static void fill(const struct qkv_view *v, double number) {
    for (size_t e = 0; e < formula_elements(v); e++) formula_set(v, e, number);
}

static void run(struct qkv_context *ctx, struct attention_case *c) {
    const struct qkv_view *outs[] = {&c->g.dq, &c->g.dk, &c->g.dv, &c->g.dpast_k, &c->g.dpast_v};
    for (size_t i = 0; i < TEST_COUNT(outs); i++) fill(outs[i], 7);
    fill(&c->call.y, 7);
    if (qkv_attention_forward(ctx, &c->call) || qkv_attention_backward(ctx, &c->call, &c->g))
        fail_msg("%s: %s", c->text, qkv_message(ctx));
}

/* ---- against the definition ---------------------------------------------------------------------------------------------- */

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
        size_t at = case_pair_at(s, p / f->Tk / f->Tq / f->H, p / f->Tk / f->Tq % f->H, p / f->Tk % f->Tq, p % f->Tk);
        if (at >= most) most = at + 1;
    }
    double *sum = formula_doubles(most);
    bool *hit = calloc(most + 1, 1);
    for (size_t p = 0; p < n; p++) {
        size_t at = case_pair_at(s, p / f->Tk / f->Tq / f->H, p / f->Tk / f->Tq % f->H, p / f->Tk % f->Tq, p % f->Tk);
        sum[at] += f->dscores[p];
        hit[at] = true;
    }
    for (size_t e = 0; e < most; e++) {
        double d = hit[e] ? (double)c->g.dbias[e] - offset - sum[e] : (double)c->g.dbias[e] - 7; /* gaps stay */
        difference += d * d, norm += sum[e] * sum[e];
    }
    double term = (c->call.y.dtype == QKV_BF16 ? 0.5 : 0.05) * sqrt((double)f->Dv);
    free(sum), free(hit);
    return isnan(difference) ? INFINITY : sqrt(difference / (norm + term * term * (double)n + 1e-30));
}

static double tolerance_of(const struct qkv_view *v, double fp32) {
    return v->dtype == QKV_BF16 ? 6e-3 : fp32;
}

static bool check_backward(const struct attention_case *c) {
    const struct formula *f = &c->f;
    size_t past = c->call.past_k.T, T = f->Tk - past;
    double offset = c->g.accumulate ? 7 : 0, steep = fabs(f->scale) * sqrt((double)f->Dv),
           rounded = offset > 0 ? 10 : 1;
    bool cut = c->call.y.dtype == QKV_BF16; /* backward reads y, in Σ dy·y */
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
    bool good = dq <= rounded * (exact > 1e-4 ? exact : tolerance_of(&c->g.dq, exact)) || (c->half && offset > 0);
    if (!good) print_error("dq: error %g\n", dq);
    for (size_t i = 0; i < TEST_COUNT(views); i++) {
        double *expected = part(f, views[i].all, views[i].first, views[i].count, views[i].D);
        double error = formula_error(views[i].view, expected, offset, views[i].floor), most = views[i].exact;
        if (most < 1e-3) most = tolerance_of(views[i].view, most);
        free(expected);
        if (error <= rounded * most || (c->half && offset > 0)) continue;
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
            if (!good) fail_msg("%s, random case %zu: %s", qkv_isa(ctx), i, c.text);
            case_free(&c);
        }
        qkv_context_free(ctx);
    }
}

/* ---- the same bits ---------------------------------------------------------------------------------------------------------- */

static float *packed(const struct qkv_view *v) {
    float *x = calloc(formula_elements(v) + 1, sizeof *x);
    for (size_t e = 0; e < formula_elements(v); e++) x[e] = (float)formula_get(v, e);
    return x;
}

static void same_view(const struct qkv_view *v, const float *expected, const struct attention_case *c,
                      const char *what) {
    float *got = packed(v);
    if (memcmp(got, expected, formula_elements(v) * sizeof(float))) fail_msg("%s gives other bits: %s", what, c->text);
    free(got);
}

/* Heads that share keys, and heads that each have a copy of them, or the same memory through a stride of 0. */
static void check_groups(struct qkv_context *ctx, struct attention_case *c, const float *y) {
    struct attention_case copy = *c;
    size_t group = c->f.H / c->f.Hkv, T = c->call.k.T;
    if (c->call.past_k.T) return;
    struct qkv_view *views[] = {&copy.call.k, &copy.call.v};
    for (size_t i = 0; i < 2; i++) {
        struct qkv_view from = *views[i];
        *views[i] = qkv_view_bhtd(calloc(c->f.B * c->f.H * T * from.D + 1, 4), QKV_F32, c->f.B, c->f.H, T, from.D);
        for (size_t e = 0; e < formula_elements(views[i]); e++) {
            size_t one = T * from.D, h = e / one % c->f.H, b = e / one / c->f.H;
            formula_set(views[i], e, formula_get(&from, (b * c->f.Hkv + h / group) * one + e % one));
        }
    }
    assert_ok(ctx, qkv_attention_forward(ctx, &copy.call));
    same_view(&c->call.y, y, c, "a copy of keys and values for every head");
    free(copy.call.k.data), free(copy.call.v.data);
    if (c->f.Hkv != 1) return;
    copy.call.k = c->call.k, copy.call.v = c->call.v;
    copy.call.k.H = copy.call.v.H = c->f.H, copy.call.k.head = copy.call.v.head = 0;
    assert_ok(ctx, qkv_attention_forward(ctx, &copy.call));
    same_view(&c->call.y, y, c, "a head stride of 0");
}

/* Some positions of one batch row, alone. */
static void check_part(struct qkv_context *ctx, const struct attention_case *c, struct qkv_random *r, const float *y) {
    struct qkv_attention_call a = c->call;
    size_t b = test_between(r, 0, c->f.B - 1), first = test_between(r, 0, c->f.Tq - 1);
    size_t rows = test_between(r, 1, c->f.Tq - first), Dv = c->f.Dv;
    struct qkv_view *views[] = {&a.q, &a.k, &a.v, &a.past_k, &a.past_v};
    for (size_t i = 0; i < TEST_COUNT(views); i++) {
        if (!views[i]->data) continue;
        views[i]->data = (unsigned char *)views[i]->data + b * views[i]->batch * (views[i]->dtype == QKV_F32 ? 4 : 2);
        views[i]->B = 1;
    }
    a.q = qkv_view_rows(a.q, first, rows);
    a.lse = NULL, a.dropout = 0;
    a.mask.B = a.mask.Tq = a.mask.Tk = 0;
    a.mask.offset += (int64_t)first + (a.mask.offsets ? a.mask.offsets[b] : 0);
    a.mask.offsets = NULL;
    if (a.mask.lengths) a.mask.lengths += b;
    if (a.mask.prefix) a.mask.prefix += b;
    if (a.mask.key_documents) a.mask.key_documents += b * c->f.Tk;
    if (a.mask.query_documents) a.mask.query_documents += b * c->f.Tq + first;
    if (a.dense) a.dense += case_pair_at(&a.dense_shape, b, 0, first, 0);
    if (a.bias) a.bias += case_pair_at(&a.bias_shape, b, 0, first, 0);
    struct qkv_pair_shape *shapes[] = {&a.dense_shape, &a.bias_shape};
    for (size_t i = 0; i < 2; i++) { /* a part of a packed array has strides of its own */
        struct qkv_pair_shape *s = shapes[i];
        if (!s->batch && !s->head && !s->row) s->row = s->Tk, s->head = s->Tq * s->Tk, s->batch = s->H * s->head;
        s->B = 1;
        if (s->Tq != 1) s->Tq = rows;
    }
    a.y = qkv_view_bthd(calloc(c->f.H * rows * Dv, 4), QKV_F32, 1, rows, c->f.H, Dv);
    assert_ok(ctx, qkv_attention_forward(ctx, &a));
    for (size_t e = 0; e < formula_elements(&a.y); e++) {
        size_t d = e % Dv, i = first + e / Dv % rows, h = e / Dv / rows;
        float got = (float)formula_get(&a.y, e), expected = y[((b * c->f.H + h) * c->f.Tq + i) * Dv + d];
        if (memcmp(&got, &expected, 4))
            fail_msg("rows %zu and %zu more of batch row %zu alone give other bits: %s", first, rows, b, c->text);
    }
    free(a.y.data);
}

/* The past in one piece with the new keys, followed by padding of NaN that lengths hide. */
static void check_past(struct qkv_context *ctx, const struct attention_case *c, const float *y) {
    struct qkv_attention_call a = c->call;
    size_t past = a.past_k.T, T = c->f.Tk, more = T + 5;
    if (a.dense || a.bias || a.dropout > 0 || a.mask.key_documents) return;
    const struct qkv_view *from[2][2] = {{&c->call.past_k, &c->call.k}, {&c->call.past_v, &c->call.v}};
    struct qkv_view *to[2] = {&a.k, &a.v};
    int32_t *lengths = calloc(c->f.B + 1, sizeof *lengths);
    for (size_t b = 0; b < c->f.B; b++) lengths[b] = a.mask.lengths ? a.mask.lengths[b] : (int32_t)T;
    for (size_t i = 0; i < 2; i++) {
        size_t D = from[i][1]->D;
        *to[i] = qkv_view_bhtd(calloc(c->f.B * c->f.Hkv * more * D + 1, 4), QKV_F32, c->f.B, c->f.Hkv, more, D);
        for (size_t e = 0; e < formula_elements(to[i]); e++) {
            size_t d = e % D, j = e / D % more, n = e / D / more;
            const struct qkv_view *v = from[i][j >= past];
            formula_set(to[i], e,
                        j >= T ? (double)NAN : formula_get(v, (n * v->T + j - (j >= past ? past : 0)) * D + d));
        }
    }
    a.past_k = a.past_v = (struct qkv_view){0};
    a.mask.lengths = lengths;
    a.mask.Tk = 0;
    a.mask.offset += (int64_t)past;
    assert_ok(ctx, qkv_attention_forward(ctx, &a));
    same_view(&c->call.y, y, c, "one array of past and new keys, with padding");
    free(a.k.data), free(a.v.data), free(lengths);
}

static void test_same_bits(void **state) {
    (void)state;
    for (size_t t = 0; qkv_isa_at(t); t++) {
        struct qkv_context *ctx = open_context(t, 2);
        for (size_t i = 0; i < cases(400); i++) {
            struct qkv_random r = test_random(2000000 + i);
            struct attention_case c;
            case_random(&c, &r, true);
            c.call.dropout = 0; /* its mask is numbered by the whole shape */
            run(ctx, &c);
            float *y = packed(&c.call.y);
            if (c.f.B && c.f.Tq) {
                check_part(ctx, &c, &r, y);
                check_groups(ctx, &c, y);
                check_past(ctx, &c, y);
            }
            free(y);
            case_free(&c);
        }
        qkv_context_free(ctx);
    }
}

static void test_threads(void **state) {
    (void)state;
    for (size_t i = 0; i < cases(150); i++) {
        struct qkv_random r = test_random(3000000 + i);
        struct attention_case c;
        case_random(&c, &r, false);
        const struct qkv_view *views[] = {&c.call.y, &c.g.dq, &c.g.dk, &c.g.dv, &c.g.dpast_k, &c.g.dpast_v};
        float *one[TEST_COUNT(views)], *dbias = NULL;
        size_t pairs = c.call.bias_shape.Tk; /* its first row is there in any shape */
        for (int threads = 1; threads <= 3; threads++) {
            struct qkv_context *ctx = open_context(0, threads);
            for (size_t e = 0; c.g.dbias && c.f.B && c.f.Tq && e < pairs; e++) c.g.dbias[e] = 7;
            run(ctx, &c);
            for (size_t v = 0; v < TEST_COUNT(views); v++)
                if (threads == 1)
                    one[v] = packed(views[v]);
                else
                    same_view(views[v], one[v], &c, "another number of threads");
            if (c.g.dbias && c.f.B && c.f.Tq && !dbias)
                memcpy(dbias = calloc(pairs + 1, 4), c.g.dbias, pairs * 4);
            else if (dbias)
                assert_memory_equal(dbias, c.g.dbias, pairs * 4);
            qkv_context_free(ctx);
        }
        for (size_t v = 0; v < TEST_COUNT(views); v++) free(one[v]);
        free(dbias);
        case_free(&c);
    }
}

/* ---- what is masked does not leak --------------------------------------------------------------------------------------------- */

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

/* Row by row: a key that is masked for one query and open for another; a bias that is NaN or infinite where it is masked. */
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

/* Scores far beyond what exp can take, equal ones share the weight. */
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
        qkv_context_free(ctx);
    }
}

/* ---- other --------------------------------------------------------------------------------------------------------------------- */

/* Nothing of size T×T: twice the positions need at most about twice the scratch. */
static void test_memory(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context(0, 2);
    static float somewhere[4];
    size_t forward[2], backward[2];
    for (size_t n = 0; n < 2; n++) {
        size_t T = (size_t)16384 << n;
        struct qkv_view x = qkv_view_bhtd(somewhere, QKV_F32, 1, 4, T, 64);
        struct qkv_attention_call c = {.q = x, .k = x, .v = x, .y = x, .lse = somewhere, .mask.causal = true};
        struct qkv_attention_gradients g = {.dy = x, .dq = x, .dk = x, .dv = x};
        assert_ok(ctx, qkv_attention_measure(ctx, &c, NULL, &forward[n]));
        assert_ok(ctx, qkv_attention_measure(ctx, &c, &g, &backward[n]));
    }
    assert_true(forward[1] < 2 * forward[0] + 100000 && backward[1] < 2 * backward[0] + 100000);
    assert_true(backward[1] < (size_t)32768 * 32768); /* one byte a pair */
    qkv_context_free(ctx);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),    cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_threads),       cmocka_unit_test(test_poison),
                                       cmocka_unit_test(test_poison_by_row), cmocka_unit_test(test_large_scores),
                                       cmocka_unit_test(test_memory),        cmocka_unit_test(test_dropout_seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
