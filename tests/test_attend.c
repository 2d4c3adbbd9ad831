/* test_attend.c: attention against golden cases made elsewhere, against a reference in double precision, and against
 * itself: a row's bits do not depend on what surrounds it, how it is stored, or what it may not attend to. Everything runs
 * on every kernel table of this machine. */
#include "attend_tables.h"

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

static void test_twins(void **state) {
    struct qkv_context ctx;
    (void)state;
    FOR_TABLES(ctx) assert_true(attend_check_twins(&ctx, test_seed() + 4, cases(60)));
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
            struct attend_extras extras = {i % 2, i % 2, i > 0, i > 1};
            attend_case_fill(&c, &random, i % 2 ? 4 : 1, extras);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_random_cases), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_parts),  cmocka_unit_test(test_poison),       cmocka_unit_test(test_twins),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
