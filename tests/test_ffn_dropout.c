/* Dropout inside feed-forwards, between the activation and the last matrix: y = W2·(m ∘ act(W1·x)), where every m is
 * 0 or 1/(1 − p). The test finds the masks: if W2 is the identity, y is m ∘ act. With these masks, the outputs and
 * gradients of any weights are those of the formula, in doubles. */
/* labels: numeric quick */
#include "module_fixture.h"
#include "reference_act.h"
#include "weights.h"

enum { N = B * T };
static const double p = 0.35;

/* ---- the formula ------------------------------------------------------------------------------------------------ */

/* A feed-forward as wide inside as outside, its weights by name. */
struct sublayer {
    struct qkv_module *m;
    enum qkv_ffn_kind kind;
    const float *gate, *gate_bias, *up, *up_bias, *down, *down_bias;
};

static struct sublayer sublayer_of(enum qkv_ffn_kind kind, double dropout) {
    static const char *const kinds[] = {
#define KIND(name, text, help, activation, gated) text,
        QKV_FFN_LIST(KIND)
#undef KIND
    };
    char json[200];
    snprintf(
        json, sizeof json,
        "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":3},\"ffn\":{\"kind\":\"%s\",\"d_ff\":%d,\"dropout\":%g}}",
        kinds[kind], C, dropout);
    OWNED_SPEC struct qkv_spec spec = spec_of(json);
    struct sublayer s = {.m = create(QKV_MODULE_FFN, &spec), .kind = kind};
    for (size_t i = 0; i < qkv_module_parameters(s.m); i++) {
        const char *name = qkv_module_parameter(s.m, i)->name;
        const float **place = !strcmp(name, "gate.weight")   ? &s.gate
                              : !strcmp(name, "gate.bias")   ? &s.gate_bias
                              : !strcmp(name, "up.weight")   ? &s.up
                              : !strcmp(name, "up.bias")     ? &s.up_bias
                              : !strcmp(name, "down.weight") ? &s.down
                                                             : &s.down_bias;
        *place = test_module_weights(s.m, i);
    }
    assert_true(s.up && s.down && s.down_bias && !s.gate == !qkv_ffn_gated(kind));
    return s;
}

/* The last matrix becomes the identity, its bias 0. */
static void show_hidden(struct sublayer *s) {
    for (size_t i = 0; i < qkv_module_parameters(s->m); i++) {
        const struct qkv_array *a = qkv_module_parameter(s->m, i);
        if (strncmp(a->name, "down.", 5) != 0) continue;
        float *w = test_module_weights(s->m, i);
        for (size_t e = 0; e < qkv_array_elements(a); e++) w[e] = a->rank == 2 && e / C == e % C;
    }
}

static double affine(const float *w, const float *bias, const double *x, size_t row) {
    double sum = bias ? (double)bias[row] : 0;
    for (size_t c = 0; c < C; c++) sum += (double)w[row * C + c] * x[c];
    return sum;
}

/* The formula for one row, with the mask of that row. */
static void formula(const struct sublayer *s, const double *x, const double *mask, double *y) {
    double hidden[C];
    for (size_t f = 0; f < C; f++) {
        const double up = affine(s->up, s->up_bias, x, f);
        hidden[f] = mask[f] * (s->gate ? reference_gate(s->kind, 7, affine(s->gate, s->gate_bias, x, f), up, NULL)
                                       : reference_act(s->kind, up));
    }
    for (size_t c = 0; c < C; c++) y[c] = affine(s->down, s->down_bias, hidden, c);
}

/* Whether fp32 and doubles may find a unit on different sides of relu's kink. */
static bool near_kink(const struct sublayer *s, const double *x) {
    for (size_t f = 0; f < C; f++)
        if (fabs(s->gate ? affine(s->gate, s->gate_bias, x, f) : affine(s->up, s->up_bias, x, f)) < 1e-5) return true;
    return false;
}

static void run(struct qkv_module *m, const float *x, bool train, uint64_t seed, float *y) {
    struct qkv_module_input in = {.x = {(float *)(uintptr_t)x, B, T, C}, .train = train, .seed = seed};
    assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){y, B, T, C}));
}

static void fill_inputs(struct qkv_random *r, float x[N * C]) {
    test_fill(r, x, N * C, 1);
}

/* m, of a call with that seed. */
static void find_mask(enum qkv_ffn_kind kind, const float *x, uint64_t seed, double mask[N * C]) {
    struct sublayer s = sublayer_of(kind, p);
    float all[N * C], some[N * C];
    show_hidden(&s);
    run(s.m, x, false, seed, all);
    run(s.m, x, true, seed, some);
    size_t kept = 0, clear = 0;
    for (size_t e = 0; e < N * C; e++) {
        const double ratio = (double)some[e] / (double)all[e];
        mask[e] = some[e] != 0 ? 1 / (1 - p) : 0;
        if (all[e] == 0) continue; /* relu */
        kept += some[e] != 0, clear++;
        if (!(fabs(ratio - mask[e]) < 1e-5)) fail_msg("element %zu is multiplied by %g", e, ratio);
    }
    /* Six deviations of a binomial. */
    const double share = (double)kept / (double)clear, deviation = sqrt(p * (1 - p) / (double)clear);
    if (!(fabs(share - (1 - p)) < 6 * deviation)) fail_msg("%g of %zu are kept", share, clear);
    qkv_module_free(s.m);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void outputs_and_gradients_are_those_of_the_formula(void **state) {
    (void)state;
    for (int kind = 0; kind < QKV_FFN_COUNT; kind++) {
        if (isnan(reference_act((enum qkv_ffn_kind)kind, 1))) continue;
        struct qkv_random r = test_random(3100 + (uint64_t)kind);
        float x[N * C], y[N * C], dy[N * C], dx[N * C];
        double mask[N * C];
        fill_inputs(&r, x);
        test_fill(&r, dy, N * C, 1);
        find_mask((enum qkv_ffn_kind)kind, x, 11, mask);
        struct sublayer s = sublayer_of((enum qkv_ffn_kind)kind, p);
        struct qkv_module_input in = {.x = {x, B, T, C}, .train = true, .seed = 11};
        struct qkv_vectors out = {y, B, T, C}, in_gradient = {dy, B, T, C};
        struct qkv_module_gradients g = {.x = {dx, B, T, C}};
        assert_ok(ctx, qkv_module_forward(s.m, &in, out));
        assert_ok(ctx, qkv_module_backward(s.m, in_gradient, &g));
        for (size_t n = 0; n < N; n++) {
            double row[C], expected[C];
            for (size_t c = 0; c < C; c++) row[c] = (double)x[n * C + c];
            formula(&s, row, mask + n * C, expected);
            for (size_t c = 0; c < C; c++)
                if (!(fabs((double)y[n * C + c] - expected[c]) < 1e-4))
                    fail_msg("kind %d: y is %g, the formula says %g", kind, (double)y[n * C + c], expected[c]);
            if (!strcmp(reference_name((enum qkv_ffn_kind)kind), "relu") && near_kink(&s, row)) continue;
            /* The derivative along one channel, in doubles. */
            for (size_t c = 0; c < C; c++) {
                const double h = 1e-8, at = row[c];
                double plus[C], minus[C], slope = 0;
                row[c] = at + h, formula(&s, row, mask + n * C, plus);
                row[c] = at - h, formula(&s, row, mask + n * C, minus);
                row[c] = at;
                for (size_t i = 0; i < C; i++) slope += (plus[i] - minus[i]) / (2 * h) * (double)dy[n * C + i];
                if (!(fabs((double)dx[n * C + c] - slope) < 2e-4))
                    fail_msg("kind %d: dx is %g, the formula says %g", kind, (double)dx[n * C + c], slope);
            }
        }
        /* The last matrix is multiplied by what dropout left: dW[c,f] = Σ dy[c]·m[f]·hidden[f]. */
        float shown[N * C];
        struct sublayer t = sublayer_of((enum qkv_ffn_kind)kind, p);
        show_hidden(&t);
        run(t.m, x, true, 11, shown);
        for (size_t i = 0; i < qkv_module_parameters(s.m); i++) {
            if (strcmp(qkv_module_parameter(s.m, i)->name, "down.weight") != 0) continue;
            const float *dw = test_module_gradient(s.m, i);
            for (size_t e = 0; e < C * C; e++) {
                double sum = 0;
                for (size_t n = 0; n < N; n++) sum += (double)dy[n * C + e / C] * (double)shown[n * C + e % C];
                if (!(fabs((double)dw[e] - sum) < 1e-4)) fail_msg("dW is %g, the formula says %g", (double)dw[e], sum);
            }
        }
        qkv_module_free(t.m);
        qkv_module_free(s.m);
    }
}

static void masks_go_by_the_seed_and_are_off_without_training(void **state) {
    (void)state;
    struct qkv_random r = test_random(3200);
    float x[N * C], y[4][N * C];
    fill_inputs(&r, x);
    struct sublayer with = sublayer_of(QKV_FFN_GELU, p), without = sublayer_of(QKV_FFN_GELU, 0);
    run(with.m, x, true, 1, y[0]);
    run(with.m, x, true, 1, y[1]);
    run(with.m, x, true, 2, y[2]);
    assert_memory_equal(y[0], y[1], sizeof *y);
    assert_true(memcmp(y[0], y[2], sizeof *y) != 0);
    run(with.m, x, false, 1, y[2]);
    run(without.m, x, true, 1, y[3]);
    assert_memory_equal(y[2], y[3], sizeof *y);
    qkv_module_free(with.m);
    qkv_module_free(without.m);
}

/* In bf16 too, where what the activation gives is stored rounded: dropout keeps the same elements. */
static void masks_do_not_go_by_the_precision(void **state) {
    (void)state;
    struct qkv_context *exact = ctx, *mixed;
    struct qkv_context_options options = {.size = sizeof options, .precision = QKV_MIXED_BF16};
    struct qkv_random r = test_random(3300);
    float x[N * C], all[N * C], some[N * C];
    double mask[N * C];
    fill_inputs(&r, x);
    find_mask(QKV_FFN_SWIGLU, x, 5, mask);
    assert_int_equal(qkv_context_create(&mixed, &options), QKV_OK);
    ctx = mixed;
    struct sublayer s = sublayer_of(QKV_FFN_SWIGLU, p);
    show_hidden(&s);
    run(s.m, x, false, 5, all);
    run(s.m, x, true, 5, some);
    for (size_t e = 0; e < N * C; e++)
        if (!(fabs((double)some[e] - mask[e] * (double)all[e]) <= 0.01 * fabs((double)all[e])))
            fail_msg("element %zu is %g, without dropout %g, the mask says %g", e, (double)some[e], (double)all[e],
                     mask[e]);
    qkv_module_free(s.m);
    ctx = exact;
    qkv_context_free(mixed);
}

/* The spec says it where it is not 0, and nothing where it is: then text and digest are those of before. */
static void the_key_is_written_where_it_says_something(void **state) {
    (void)state;
    static const char json[] = "{\"format\":\"qkv\",\"version\":1,\"vocab\":9,\"d_model\":8,\"context\":4,"
                               "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}";
    static const char *const zero[] = {"decoder.ffn.dropout=0"}, *const some[] = {"decoder.ffn.dropout=0.1"};
    OWNED_SPEC struct qkv_spec plain = {0}, none = {0}, drops = {0}, back = {0};
    char *text[3];
    assert_ok(ctx, qkv_spec_parse(ctx, &plain, "test", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_spec_parse(ctx, &none, "test", json, strlen(json), zero, 1));
    assert_ok(ctx, qkv_spec_parse(ctx, &drops, "test", json, strlen(json), some, 1));
    assert_ok(ctx, qkv_spec_print(ctx, &plain, &text[0]));
    assert_ok(ctx, qkv_spec_print(ctx, &none, &text[1]));
    assert_ok(ctx, qkv_spec_print(ctx, &drops, &text[2]));
    assert_string_equal(text[0], text[1]);
    assert_true(strcmp(text[0], text[2]) != 0 && strstr(text[2], "\"dropout\": 0.1"));
    assert_ok(ctx, qkv_spec_parse(ctx, &back, "test", text[2], strlen(text[2]), NULL, 0));
    assert_true(back.decoder.kinds[0].ffn.dropout == 0.1 && back.dropout == 0);
    for (int i = 0; i < 3; i++) qkv_free(text[i]);
    static const char *const wrong[] = {"decoder.ffn.dropout=1"};
    qkv_spec_free(&back);
    assert_status(ctx, qkv_spec_parse(ctx, &back, "test", json, strlen(json), wrong, 1), QKV_SPEC);
    assert_non_null(strstr(qkv_message(ctx), "dropout is 1; it must be a number from 0 to less than 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_the_formula),
        cmocka_unit_test(masks_go_by_the_seed_and_are_off_without_training),
        cmocka_unit_test(masks_do_not_go_by_the_precision),
        cmocka_unit_test(the_key_is_written_where_it_says_something),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
