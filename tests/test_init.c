/* The initial weights: the statistics of each kind against the formulas of the papers and of PyTorch's
 * documentation. */
/* labels: quick */
#include "test.h"
#include "weights.h"

#include "model/model.h"
#include "model/spec.h"

static const char json[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 700, \"d_model\": 96, \"context\": 200, \"tie\": \"none\", "
    "\"head\": {\"kind\": \"lm\", \"bias\": true}, \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}, "
    "\"decoder\": {\"layers\": 3, \"attention\": {\"heads\": 4, \"kv_heads\": 2}, \"ffn\": {\"kind\": \"swiglu\", "
    "\"d_ff\": 200}}}";

static struct qkv_model *model_of(struct qkv_context *ctx, const char *const *settings, size_t count, uint64_t seed) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "init", json, strlen(json), settings, count));
    assert_ok(ctx, qkv_model_create(ctx, &spec, seed, &model));
    return model;
}

struct moments {
    double mean, std, largest, past_two; /* past_two: the share further than two deviations from zero */
};

static struct moments moments_of(const float *x, size_t n, double std) {
    struct moments m = {0};
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i];
        m.mean += v;
        m.std += v * v;
        m.largest = fmax(m.largest, fabs(v));
        m.past_two += fabs(v) > 2 * std;
    }
    m.mean /= (double)n;
    m.std = sqrt(m.std / (double)n);
    m.past_two /= (double)n;
    return m;
}

static void is_normal(const char *name, const float *x, size_t n, double std) {
    const struct moments m = moments_of(x, n, std);
    const double slack = 6 / sqrt((double)n); /* of means, in deviations: six of theirs */
    if (fabs(m.mean) > slack * std || fabs(m.std / std - 1) > slack || fabs(m.past_two - 0.0455) > slack)
        fail_msg("%s: mean %g, deviation %g (not %g), %g past two deviations", name, m.mean, m.std, std, m.past_two);
}

/* Of n >= 90 numbers the largest is past 0.85 times the bound, except once in two million times. */
static void is_uniform(const char *name, const float *x, size_t n, double bound) {
    const struct moments m = moments_of(x, n, bound);
    const double slack = 6 / sqrt((double)n), std = bound / sqrt(3);
    if (m.largest > bound * (1 + 1e-6) || m.largest < 0.85 * bound || fabs(m.mean) > slack * std ||
        fabs(m.std / std - 1) > slack)
        fail_msg("%s: mean %g, deviation %g (not %g), at most %g (not %g)", name, m.mean, m.std, std, m.largest, bound);
}

static void is_constant(const char *name, const float *x, size_t n, float value) {
    for (size_t i = 0; i < n; i++)
        if (x[i] != value) fail_msg("%s: number %zu is %g, not %g", name, i, (double)x[i], (double)value);
}

static bool has(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

/* Matrices that add to the residual stream: 2 in a layer of the encoder, 3 in one of a decoder with cross attention. */
static double branches_of(const char *name) {
    if (!has(name, ".o.weight") && !has(name, ".down.weight")) return 1;
    return has(name, "encoder.") ? 2 * 1 : 3 * 3;
}

static size_t inputs_of(const struct qkv_model *model, size_t i) {
    const struct qkv_array *a = qkv_model_parameter(model, i);
    char name[128];
    if (a->rank == 2) return a->shape[1];
    snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(a->name) - strlen(".bias")), a->name);
    for (size_t k = 0; k < qkv_model_parameters(model); k++)
        if (!strcmp(qkv_model_parameter(model, k)->name, name)) return qkv_model_parameter(model, k)->shape[1];
    fail_msg("%s stands beside nothing", a->name);
    return 0;
}

static void check_weights(const struct qkv_model *model, enum qkv_init_kind kind, double std) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *a = qkv_model_parameter(model, i);
        const float *x = test_weights(model, i);
        const size_t n = qkv_array_elements(a);
        if (has(a->name, "norm"))
            is_constant(a->name, x, n, has(a->name, ".bias") ? 0 : 1);
        else if (kind == QKV_INIT_TORCH && has(a->name, ".embed."))
            is_normal(a->name, x, n, std);
        else if (kind == QKV_INIT_TORCH)
            is_uniform(a->name, x, n, 1 / sqrt((double)inputs_of(model, i)));
        else if (a->rank == 1)
            is_constant(a->name, x, n, 0);
        else if (kind == QKV_INIT_XAVIER)
            is_uniform(a->name, x, n, sqrt(6.0 / (double)(a->shape[0] + a->shape[1])));
        else
            is_normal(a->name, x, n, std / sqrt(branches_of(a->name)));
    }
}

static void each_kind_has_the_statistics_of_its_formula(void **state) {
    (void)state;
    static const struct {
        enum qkv_init_kind kind;
        double std;
        const char *settings[2];
        size_t count;
    } cases[] = {{QKV_INIT_GPT2, 0.02, {NULL}, 0},
                 {QKV_INIT_GPT2, 0.1, {"init.std=0.1"}, 1},
                 {QKV_INIT_TORCH, 1, {"init.kind=torch"}, 1},
                 {QKV_INIT_TORCH, 0.05, {"init.kind=torch", "init.std=0.05"}, 2},
                 {QKV_INIT_XAVIER, 0, {"init.kind=xavier"}, 1}};
    struct qkv_random random = test_random(1);
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_model *model = model_of(ctx, cases[i].settings, cases[i].count, qkv_random_bits(&random));
        check_weights(model, cases[i].kind, cases[i].std);
        qkv_model_free(model);
    }
    qkv_context_free(ctx);
}

static void the_default_is_gpt2_with_a_deviation_of_0_02(void **state) {
    (void)state;
    static const char *const settings[] = {"init.kind=gpt2", "init.std=0.02"};
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    struct qkv_model *a = model_of(ctx, NULL, 0, 5), *b = model_of(ctx, settings, 2, 5);
    for (size_t i = 0; i < qkv_model_parameters(a); i++)
        assert_memory_equal(test_weights(a, i), test_weights(b, i), qkv_model_parameter(a, i)->bytes);
    qkv_model_free(a);
    qkv_model_free(b);
    qkv_context_free(ctx);
}

/* The initialisation of a spec is written and read back, and is not part of the digest of weights. */
static void the_start_is_printed_where_it_is_said_and_in_no_digest(void **state) {
    (void)state;
    static const char *const settings[] = {"init.kind=torch", "init.std=0.5"};
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec plain = {0}, spec = {0}, back = {0};
    char *text, digest[2][QKV_DIGEST_TEXT];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_ok(ctx, qkv_spec_parse(ctx, &plain, "init", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_spec_print(ctx, &plain, &text));
    assert_null(strstr(text, "init"));
    qkv_free(text);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "init", json, strlen(json), settings, 2));
    assert_ok(ctx, qkv_spec_print(ctx, &spec, &text));
    assert_ok(ctx, qkv_spec_parse(ctx, &back, "back", text, strlen(text), NULL, 0));
    assert_int_equal(back.init.kind, QKV_INIT_TORCH);
    assert_true(back.init.std == 0.5);
    qkv_free(text);
    assert_ok(ctx, qkv_spec_digest(ctx, &plain, digest[0]));
    assert_ok(ctx, qkv_spec_digest(ctx, &spec, digest[1]));
    assert_string_equal(digest[0], digest[1]);
    qkv_context_free(ctx);
}

static void impossible_starts_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *settings[2];
        size_t count;
        const char *sentence;
    } cases[] = {{{"init.kind=he"}, 1, "init.kind"},
                 {{"init.std=-1"}, 1, "init.std"},
                 {{"init.std=0"}, 1, "init.std"},
                 {{"init.mean=1"}, 1, "init.mean"},
                 {{"init.kind=xavier", "init.std=0.1"}, 2, "init.std"}};
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        qkv_spec_free(&spec);
        assert_status(ctx, qkv_spec_parse(ctx, &spec, "init", json, strlen(json), cases[i].settings, cases[i].count),
                      QKV_SPEC);
        assert_non_null(strstr(qkv_message(ctx), cases[i].sentence));
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_the_statistics_of_its_formula),
        cmocka_unit_test(the_default_is_gpt2_with_a_deviation_of_0_02),
        cmocka_unit_test(the_start_is_printed_where_it_is_said_and_in_no_digest),
        cmocka_unit_test(impossible_starts_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
