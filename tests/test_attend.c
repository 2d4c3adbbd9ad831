/* test_attend.c: attention against golden cases made elsewhere, against a reference in double precision, against itself
 * (a row's bits do not depend on what surrounds it), with numbers that are not finite, and what it refuses. Everything
 * runs on every kernel table of this machine. */
#include "test.h"

#include <float.h>

#include "check_attend.h"

static struct qkv_context context_of(size_t table, int threads) {
    struct qkv_context ctx = {.threads = threads, .kernels = qkv_kernels_at(table)};
    return ctx;
}

#define FOR_TABLES(ctx) for (size_t t_ = 0; qkv_kernels_at(t_) && (ctx = context_of(t_, 2), true); t_++)

/* ---- golden cases ---------------------------------------------------------------------------------------------------- */

static const char *const golden_names[] = {
    "alibi", "bidirectional_window", "causal", "causal_cached",    "cross", "cross_padding", "gqa",          "long",
    "mha",   "long_cross",           "mqa",    "one_query_cached", "scale", "softcap",       "values_wider", "window"};

static double golden_number(const struct qkv_tensors *file, const char *name) {
    const char *text = qkv_tensors_metadata(file, "attributes"), *at;
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    assert_non_null(text);
    assert_non_null(at = strstr(text, quoted));
    at += strlen(quoted);
    return *at == 't' ? 1 : strtod(at, NULL);
}

/* A (B,H,T,D) tensor as floats. */
static struct qkv_heads golden_heads(const struct qkv_tensors *file, const char *name, size_t shape[4]) {
    const struct qkv_array *array = qkv_tensors_find(file, name);
    assert_non_null(array);
    assert_int_equal(array->rank, 4);
    memcpy(shape, array->shape, 4 * sizeof *shape);
    struct qkv_heads x = {attend_memory(qkv_array_elements(array), sizeof(float)), shape[1] * shape[2] * shape[3],
                          shape[3], shape[2] * shape[3], QKV_F32};
    qkv_array_floats(array, x.data);
    return x;
}

static void golden_masks(const struct qkv_tensors *file, struct qkv_attend *a) {
    const struct qkv_array *lengths = qkv_tensors_find(file, "in.kv_lengths");
    const struct qkv_array *slopes = qkv_tensors_find(file, "in.alibi_slopes");
    int32_t *lo = attend_memory(a->B * a->Tq, 4), *hi = attend_memory(a->B * a->Tq, 4);
    int32_t *position = attend_memory(a->B * a->Tq, 4), window = (int32_t)golden_number(file, "window");
    bool causal = golden_number(file, "causal") > 0;
    for (size_t r = 0; r < a->B * a->Tq; r++) {
        int32_t self = (int32_t)(r % a->Tq) + (int32_t)golden_number(file, "offset"), length;
        position[r] = self;
        lo[r] = window ? self - window + 1 : 0;
        hi[r] = causal ? self + 1 : window ? self + window : (int32_t)a->Tk;
        if (!lengths) continue;
        memcpy(&length, (const char *)lengths->data + r / a->Tq * 4, 4);
        if (hi[r] > length) hi[r] = length;
    }
    a->lo = lo, a->hi = hi, a->position = position;
    if (!slopes) return;
    float *slope = attend_memory(a->H, 4), *bias = attend_memory(a->H * (a->Tq + a->Tk), 4);
    qkv_array_floats(slopes, slope);
    a->bias_row = a->Tq + a->Tk, a->bias_zero = a->Tk;
    for (size_t i = 0; i < a->H * a->bias_row; i++)
        bias[i] = -slope[i / a->bias_row] * fabsf((float)(i % a->bias_row) - (float)a->bias_zero);
    a->bias = bias;
    free(slope);
}

static void golden_compare(const struct qkv_tensors *file, const char *name, const float *got, double tolerance) {
    const struct qkv_array *array = qkv_tensors_find(file, name);
    assert_non_null(array);
    size_t n = qkv_array_elements(array);
    float *expected = attend_memory(n, sizeof(float));
    qkv_array_floats(array, expected);
    double error = test_relative_error(got, expected, n);
    if (!(error <= tolerance)) fail_msg("%s: relative error %g", name, error);
    free(expected);
}

static void golden_case(struct qkv_context *ctx, const char *name) {
    char path[512];
    struct qkv_tensors *file;
    size_t q[4], k[4], v[4], dy[4];
    snprintf(path, sizeof path, "%s/tests/golden/attention/%s.safetensors", TEST_SOURCE_DIR, name);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    struct qkv_attend a = {.q = golden_heads(file, "in.q", q),
                           .k = golden_heads(file, "in.k", k),
                           .v = golden_heads(file, "in.v", v),
                           .scale = (float)golden_number(file, "scale"),
                           .softcap = (float)golden_number(file, "softcap")};
    struct qkv_attend_gradients g = {.dy = golden_heads(file, "in.output_gradient", dy)};
    a.B = q[0], a.H = q[1], a.Tq = q[2], a.D = q[3], a.Hkv = k[1], a.Tk = k[2], a.Dv = v[3];
    golden_masks(file, &a);
    a.y = g.dy, g.dq = a.q, g.dk = a.k, g.dv = a.v; /* the same shapes */
    a.y.data = attend_memory(a.B * a.H * a.Tq * a.Dv, 4), a.lse = attend_memory(a.B * a.H * a.Tq, 4);
    g.dq.data = attend_memory(a.B * a.H * a.Tq * a.D, 4);
    g.dk.data = attend_memory(a.B * a.Hkv * a.Tk * a.D, 4), g.dv.data = attend_memory(a.B * a.Hkv * a.Tk * a.Dv, 4);
    float *w = attend_memory(a.B * a.H * a.Tq * a.Tk, 4);
    struct qkv_arena scratch;
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "scratch"));
    assert_ok(ctx, qkv_attend_forward(ctx, &scratch, &a));
    assert_ok(ctx, qkv_attend_backward(ctx, &scratch, &a, &g));
    for (size_t h = 0; h < a.B * a.H; h++)
        assert_ok(ctx, qkv_attend_weights(ctx, &scratch, &a, QKV_ATTENTION_WEIGHTS, h / a.H, h % a.H, 0, a.Tq,
                                          w + h * a.Tq * a.Tk));
    print_message("%s: %s\n", ctx->kernels->isa, name);
    golden_compare(file, "out.y", a.y.data, 1e-5);
    golden_compare(file, "out.weights", w, 1e-5);
    golden_compare(file, "grad.q", g.dq.data, 1e-4);
    golden_compare(file, "grad.k", g.dk.data, 1e-4);
    golden_compare(file, "grad.v", g.dv.data, 1e-4);
    qkv_arena_free(&scratch);
    float *blocks[] = {a.q.data, a.k.data, a.v.data, a.y.data, a.lse, g.dy.data, g.dq.data, g.dk.data, g.dv.data, w};
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) free(blocks[i]);
    free((void *)(uintptr_t)a.lo), free((void *)(uintptr_t)a.hi), free((void *)(uintptr_t)a.position);
    free((void *)(uintptr_t)a.bias);
    qkv_tensors_close(file);
}

static void test_golden(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < TEST_COUNT(golden_names); i++) golden_case(&ctx, golden_names[i]);
    }
}

/* ---- random cases ------------------------------------------------------------------------------------------------------ */

/* $QKV_TEST_CASES multiplies the number of random cases. */
static size_t cases(size_t n) {
    const char *text = getenv("QKV_TEST_CASES");
    return text ? n * strtoul(text, NULL, 10) : n;
}

static void test_random_cases(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        struct attend_error worst = {0};
        assert_true(attend_check_random(&ctx, test_seed(), cases(200), &worst));
        print_message("%s: largest errors: y %.2g, gradients %.2g\n", ctx.kernels->isa, worst.y, worst.gradient);
    }
}

static void test_threads(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_threads(&ctx, test_seed() + 1, cases(40)));
}

static void test_parts(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_parts(&ctx, test_seed() + 2, cases(50)));
}

static void test_poison(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_poisons(&ctx, test_seed() + 3, cases(60)));
}

/* Long enough for several blocks of rows, chunks of keys, and blocks that hold rows of two heads. */
static void test_long(void **state) {
    static const size_t shapes[][5] = {{1, 1, 700, 700, 16}, {2, 3, 301, 517, 24}, {1, 2, 97, 1200, 64}};
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
            struct qkv_random random = test_random(10 + i);
            struct attend_case c = {0};
            c.a.B = 1, c.a.Hkv = shapes[i][0], c.a.H = c.a.Hkv * shapes[i][1];
            c.a.Tq = shapes[i][2], c.a.Tk = shapes[i][3], c.a.D = c.a.Dv = shapes[i][4], c.a.scale = 0.2f;
            attend_case_fill(&c, &random, i % 2 ? 4 : 1);
            assert_true(attend_check_case(&ctx, &c, NULL));
            size_t floats, again;
            float *two = attend_outputs(&c, &floats);
            ctx.threads = 3;
            assert_true(attend_run(&ctx, &c, true));
            float *three = attend_outputs(&c, &again);
            assert_memory_equal(two, three, floats * sizeof(float));
            for (size_t part = 0; part < 3; part++) assert_true(attend_check_part(&ctx, &c, &random));
            ctx.threads = 2;
            free(two), free(three);
            attend_case_free(&c);
        }
    }
}

/* Σ dy·y of the reference. */
static double objective(const struct attend_case *c) {
    struct attend_answer r;
    double sum = 0;
    attend_reference(&c->a, NULL, &r);
    for (size_t row = 0; row < c->a.B * c->a.H * c->a.Tq; row++) {
        const float *dy = attend_at(&c->g.dy, row / c->a.Tq / c->a.H, row % c->a.Tq, row / c->a.Tq % c->a.H);
        for (size_t d = 0; d < c->a.Dv; d++) sum += r.y[row * c->a.Dv + d] * (double)dy[d];
    }
    attend_answer_free(&r);
    return sum;
}

/* The gradient along a random direction is the slope of the reference's forward pass, by central differences. This does
 * not use the gradient's formula. */
static void directional(struct qkv_context *ctx, struct attend_case *c, struct qkv_random *random, size_t which) {
    const struct qkv_heads *x = which == 0 ? &c->a.q : which == 1 ? &c->a.k : &c->a.v;
    const struct qkv_heads *dx = which == 0 ? &c->g.dq : which == 1 ? &c->g.dk : &c->g.dv;
    size_t T = which ? c->a.Tk : c->a.Tq, heads = which ? c->a.Hkv : c->a.H, D = which == 2 ? c->a.Dv : c->a.D;
    size_t n = c->a.B * T * heads * D;
    float *saved = attend_memory(n, 4), *direction = attend_memory(n, 4);
    double value[2], slope = 0, size = 0;
    test_fill(random, direction, n, 2e-4);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++) {
            size_t r = i / D;
            float *at = attend_at(x, r / heads / T, r / heads % T, r % heads) + i % D;
            if (side == 0) saved[i] = *at;
            double d = (double)attend_at(dx, r / heads / T, r / heads % T, r % heads)[i % D];
            *at = side ? saved[i] - direction[i] : saved[i] + direction[i];
            slope += d * (side ? -(double)*at : (double)*at);
            if (side == 0) size += fabs(d) * 2e-4;
        }
        value[side] = objective(c);
    }
    for (size_t i = 0; i < n; i++) {
        size_t r = i / D;
        attend_at(x, r / heads / T, r / heads % T, r % heads)[i % D] = saved[i];
    }
    double difference = value[0] - value[1];
    if (fabs(difference - slope) > 1e-4 * (fabs(difference) + size) + 1e-6)
        fail_msg("%s: %s: along d%c the gradient says %g, differences %g", ctx->kernels->isa, c->text, "qkv"[which],
                 slope, difference);
    free(saved), free(direction);
}

static void test_directional(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < cases(25); i++) {
            struct qkv_random random = test_random(1000 + i);
            struct attend_case c;
            attend_case_random(&c, &random);
            c.g.accumulate = false;
            assert_true(attend_run(&ctx, &c, true));
            for (size_t which = 0; which < 3; which++) directional(&ctx, &c, &random, which);
            attend_case_free(&c);
        }
    }
}

/* Gradients asked for one by one are those asked for together; weights are the reference's, in any range of rows. */
static void test_pieces(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) {
        for (size_t i = 0; i < cases(20); i++) {
            struct qkv_random random = test_random(2000 + i);
            struct attend_case c;
            struct qkv_arena scratch;
            size_t floats;
            attend_case_random(&c, &random);
            c.g.accumulate = false;
            assert_true(attend_run(&ctx, &c, true));
            float *all = attend_outputs(&c, &floats), *again;
            struct qkv_attend_gradients g = c.g;
            assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, (size_t)256 << 20, "scratch"));
            for (size_t which = 0; which < 3; which++) {
                struct qkv_attend_gradients one = {.dy = g.dy};
                if (which == 0) one.dq = g.dq;
                if (which == 1) one.dk = g.dk;
                if (which == 2) one.dv = g.dv;
                float *x = c.buffer[5 + which];
                for (size_t e = 0; e < c.floats[5 + which]; e++)
                    if (!isnan(x[e])) x[e] = 3;
                assert_ok(&ctx, qkv_attend_backward(&ctx, &scratch, &c.a, &one));
            }
            again = attend_outputs(&c, &floats);
            assert_memory_equal(all, again, floats * sizeof(float));
            free(all), free(again);
            if (c.a.Tq && c.a.Tk) {
                size_t b = test_between(&random, 0, c.a.B - 1), h = test_between(&random, 0, c.a.H - 1);
                size_t first = test_between(&random, 0, c.a.Tq - 1), rows = test_between(&random, 0, c.a.Tq - first);
                float *w = attend_memory(rows * c.a.Tk + 1, 4);
                double *p = attend_memory(c.a.Tk, 8), *slope = attend_memory(c.a.Tk, 8);
                w[rows * c.a.Tk] = 42;
                assert_ok(&ctx, qkv_attend_weights(&ctx, &scratch, &c.a, QKV_ATTENTION_WEIGHTS, b, h, first, rows, w));
                assert_true(w[rows * c.a.Tk] == 42);
                for (size_t r = 0; r < rows; r++) {
                    attend_row(&c.a, b, h, first + r, p, slope);
                    for (size_t j = 0; j < c.a.Tk; j++)
                        assert_true(p[j] > 0 ? fabs(p[j] - (double)w[r * c.a.Tk + j]) < 1e-5 : w[r * c.a.Tk + j] == 0);
                }
                free(w), free(p), free(slope);
            }
            qkv_arena_free(&scratch);
            attend_case_free(&c);
        }
    }
}

/* ---- numbers at the edge ------------------------------------------------------------------------------------------------- */

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
    free(keys), free(values), free(dk), free(dv);
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
            attend_case_fill(&c, &random, 0);
            assert_true(attend_check_case(&ctx, &c, NULL));
            attend_case_free(&c);
        }
    }
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

static void refused(struct qkv_attend a, enum qkv_status status, const char *part) {
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_arena scratch;
    qkv_arena_measure(&ctx, &scratch, "scratch");
    assert_status(&ctx, qkv_attend_forward(&ctx, &scratch, &a), status);
    assert_message(&ctx, part);
    qkv_arena_free(&scratch);
}

static void test_refused(void **state) {
    float x[64] = {0};
    int32_t zero[4] = {0}, four[4] = {4, 4, 4, 4};
    struct qkv_heads heads = {x, 16, 4, 2, QKV_F32};
    const struct qkv_attend good = {.B = 1,
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
    struct qkv_attend a;
    (void)state;
#define REFUSED(change, status, part) (a = good, change, refused(a, status, part))
    REFUSED((a.H = 3, a.Hkv = 2), QKV_SHAPE, "3 query heads cannot share 2 key heads");
    REFUSED(a.Hkv = 0, QKV_SHAPE, "cannot share");
    REFUSED(a.D = 0, QKV_SHAPE, "at least one channel");
    REFUSED(a.Tk = (size_t)1 << 40, QKV_SHAPE, "exceeds");
    REFUSED((a.B = a.Tk = a.Tq = INT32_MAX), QKV_SHAPE, "more than this machine can address");
    REFUSED(a.dropout = 1, QKV_ARGUMENT, "dropout is 1");
    REFUSED(a.dropout = NAN, QKV_ARGUMENT, "dropout is");
    REFUSED(a.softcap = -1, QKV_ARGUMENT, "softcap is -1");
    REFUSED(a.softcap = INFINITY, QKV_ARGUMENT, "softcap is inf");
    REFUSED(a.q.data = NULL, QKV_ARGUMENT, "q must be given");
    REFUSED(a.k.data = NULL, QKV_ARGUMENT, "k must be given");
    REFUSED(a.v.data = NULL, QKV_ARGUMENT, "v must be given");
    REFUSED(a.hi = NULL, QKV_ARGUMENT, "lo and hi must be given");
    REFUSED(a.past = 5, QKV_SHAPE, "5 keys are in the past, but there are only 4");
    REFUSED(a.past = 4, QKV_ARGUMENT, "past_k must be given");
    REFUSED((a.past = 1, a.past_k = heads), QKV_ARGUMENT, "past_v must be given");
    REFUSED(a.q.dtype = QKV_F16, QKV_ARGUMENT, "q is neither fp32 nor bf16");
    REFUSED(a.k.dtype = QKV_I8, QKV_ARGUMENT, "k is neither fp32 nor bf16");
    REFUSED(a.v.dtype = QKV_F64, QKV_ARGUMENT, "v is neither fp32 nor bf16");
    REFUSED(a.y.dtype = QKV_DTYPE_COUNT, QKV_ARGUMENT, "y is neither fp32 nor bf16");
    REFUSED((a.past = 1, a.past_k = heads, a.past_k.dtype = QKV_F16), QKV_ARGUMENT, "past_k is neither");
    REFUSED((a.past = 1, a.past_k = a.past_v = heads, a.past_v.dtype = QKV_F16), QKV_ARGUMENT, "past_v is neither");
    REFUSED(a.y.data = NULL, QKV_ARGUMENT, "y must be given");
    REFUSED((a.bias = x, a.bias_row = 8), QKV_ARGUMENT, "positions");
    REFUSED((a.bias = x, a.bias_row = 8, a.bias_zero = 3, a.position = four), QKV_SHAPE, "make it longer");
    REFUSED((a.bias = x, a.bias_row = 6, a.bias_zero = 3, a.position = zero), QKV_SHAPE, "distances -3 to 2");
#undef REFUSED
    struct qkv_context ctx = context_of(0, 1);
    struct qkv_attend_gradients g = {.dq = heads};
    struct qkv_arena scratch;
    qkv_arena_measure(&ctx, &scratch, "scratch");
    assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &good, &g), QKV_ARGUMENT);
    assert_message(&ctx, "needs dy, and y and lse");
    a = good, a.lse = x;
    g.dy = heads, g.dq.dtype = QKV_F16;
    assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
    assert_message(&ctx, "dq is neither fp32 nor bf16");
    g.dq.dtype = QKV_F32, g.daddend = x;
    assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
    assert_message(&ctx, "needs the addend");
    const struct qkv_pairs overlapping[] = {{0, 0, 3}, {0, 4, 4}, {0, 2, 0}, {0, 15, 4}};
    const struct qkv_pairs apart[] = {{0, 0, 4}, {5, 16, 4}, {0, 4, 0}, {0, 4, 8}};
    for (size_t i = 0; i < TEST_COUNT(overlapping); i++) {
        a.addend = x, a.addend_pairs = overlapping[i];
        assert_status(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g), QKV_ARGUMENT);
        assert_message(&ctx, "overlap");
        a.addend_pairs = apart[i];
        ctx.dry = true;
        assert_ok(&ctx, qkv_attend_backward(&ctx, &scratch, &a, &g));
        ctx.dry = false;
    }
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 4, NULL),
                  QKV_ARGUMENT);
    assert_message(&ctx, "a place to go");
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 4, x), QKV_ARGUMENT);
    assert_message(&ctx, "lse of the forward pass");
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 2, 0, 1, x), QKV_SHAPE);
    assert_status(&ctx, qkv_attend_weights(&ctx, &scratch, &good, QKV_ATTENTION_WEIGHTS, 0, 0, 2, 3, x), QKV_SHAPE);
    assert_message(&ctx, "do not exist");
    qkv_arena_free(&scratch);
    assert_ok(&ctx, qkv_arena_create(&ctx, &scratch, 4096, "too little"));
    assert_status(&ctx, qkv_attend_forward(&ctx, &scratch, &good), QKV_MEMORY);
    assert_message(&ctx, "too little");
    assert_int_equal(scratch.used, 0);
    qkv_arena_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_random_cases), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_poison),       cmocka_unit_test(test_long),
        cmocka_unit_test(test_pieces),  cmocka_unit_test(test_directional),  cmocka_unit_test(test_edges),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
