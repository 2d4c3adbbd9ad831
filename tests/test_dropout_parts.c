/* test_dropout_parts.c: the separate dropouts of parts of a spec: of the embedding, of attention weights, and of
 * what sublayers add to the residual stream. The test finds the masks from what a pass of one parallel layer adds
 * up: x1 = m·x0 + m·attention + m·ffn, where every m is 0 or 1/(1 − p). */
/* labels: numeric quick */
#define FIXTURE_CONTEXT fixture_context()
#include "test.h"
static struct qkv_context *fixture_context(void);
#include "context_fixture.h"

#include "model/spec.h"

#include <math.h>

enum { B = 3, T = 20, C = 24, N = B * T * C };

static struct qkv_context *fixture_context(void) {
    struct qkv_context *made;
    const struct qkv_context_options options = {.size = sizeof options, .threads = 1, .precision = QKV_PRECISION_AUTO};
    assert_int_equal(qkv_context_create(&made, &options), QKV_OK);
    return made;
}

static struct qkv_spec spec_with(const char *embed, const char *attention, const char *layer, double whole) {
    char json[700];
    struct qkv_spec spec = {0};
    const int size = snprintf(json, sizeof json,
                              "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": %d, \"context\": %d,"
                              " \"dropout\": %g, \"embed\": {%s},"
                              " \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 3%s},"
                              " \"norm\": {\"placement\": \"parallel\"}%s}}",
                              C, T, whole, embed, attention, layer);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "the spec", json, (size_t)size, NULL, 0));
    return spec;
}

/* The hook points of a pass, copied. */
struct looked {
    float embedding[N], attention[N], ffn[N], stream[N], weights[T * T], dropped[T * T];
};

static void look(void *user, const struct qkv_hook_point *point) {
    struct looked *l = user;
    float *to = point->kind == QKV_HOOK_EMBEDDING   ? l->embedding
                : point->kind == QKV_HOOK_ATTENTION ? l->attention
                : point->kind == QKV_HOOK_FFN       ? l->ffn
                : point->kind == QKV_HOOK_RESIDUAL  ? l->stream
                                                    : NULL;
    if (to) memcpy(to, point->values, N * sizeof *to);
}

static void run(const struct qkv_spec *spec, uint64_t seed, struct looked *l) {
    struct qkv_model *model;
    struct qkv_pass *pass;
    int32_t ids[B * T];
    const struct qkv_pass_options o = {.size = sizeof o,
                                       .B = B,
                                       .T = T,
                                       .train = true,
                                       .dropout = true,
                                       .logits = true,
                                       .weights = true,
                                       .hook = look,
                                       .hook_user = l};
    const struct qkv_batch batch = {.B = B, .T = T, .ids = ids, .dropout_seed = seed};
    for (size_t i = 0; i < (size_t)B * T; i++) ids[i] = (int32_t)(7 * i % 40);
    assert_ok(ctx, qkv_model_create(ctx, spec, 5, &model));
    assert_ok(ctx, qkv_pass_create(model, &o, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    assert_ok(ctx, qkv_pass_weights(pass, 0, QKV_ATTENTION_WEIGHTS, 1, 2, 0, T, l->weights));
    assert_ok(ctx, qkv_pass_weights(pass, 0, QKV_ATTENTION_DROPPED, 1, 2, 0, T, l->dropped));
    qkv_pass_free(pass);
    qkv_model_free(model);
}

/* Whether `sum` is one of the values that a part of it, kept (times 1/(1 − p)) or dropped, and the others make. */
static bool is_near(double sum, double want) {
    return fabs(sum - want) <= 2e-5 * (1 + fabs(want));
}

/* The share of the elements of `part` that the sum lacks, when it is kept + m·part; −1: it is no such sum. */
static double share_dropped(const float *sum, const double *kept, const float *part, double p, size_t n) {
    size_t dropped = 0;
    for (size_t e = 0; e < n; e++) {
        const bool without = is_near((double)sum[e], kept[e]);
        if (!without && !is_near((double)sum[e], kept[e] + (double)part[e] / (1 - p))) return -1;
        dropped += without;
    }
    return (double)dropped / (double)n;
}

/* Six deviations of a binomial. */
static void expect_share(double share, double p, size_t n) {
    if (!(fabs(share - p) <= 6 * sqrt(p * (1 - p) / (double)n) + 1e-12))
        fail_msg("a share of %g is dropped, not %g", share, p);
}

static void expect_weights(const struct looked *l, double p) {
    const double none[T * T] = {0};
    float causal[T * T], kept[T * T];
    size_t n = 0;
    for (size_t e = 0; e < (size_t)T * T; e++)
        if (l->weights[e] > 0) causal[n] = l->weights[e], kept[n++] = l->dropped[e];
    assert_int_equal(n, T * (T + 1) / 2);
    const double share = share_dropped(kept, none, causal, p, n);
    expect_share(share, p, n);
}

/* The sum of the stream's parts that are not dropped. */
static void sum_of(double sum[N], const float *a, const float *b) {
    for (size_t e = 0; e < N; e++) sum[e] = (a ? (double)a[e] : 0) + (b ? (double)b[e] : 0);
}

static void an_embedding_has_a_dropout_of_its_own(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        OWNED_SPEC struct qkv_spec spec = whole ? spec_with("", ", \"dropout\": 0", ", \"residual_dropout\": 0", 0.3)
                                                : spec_with("\"dropout\": 0.3", "", "", 0);
        static struct looked l;
        double kept[N];
        run(&spec, 3, &l);
        sum_of(kept, l.attention, l.ffn);
        expect_share(share_dropped(l.stream, kept, l.embedding, 0.3, N), 0.3, N);
        expect_weights(&l, 0);
        assert_true(qkv_spec_drops(&spec));
    }
}

static void attention_weights_have_a_dropout_of_their_own(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        OWNED_SPEC struct qkv_spec spec = whole ? spec_with("\"dropout\": 0", "", ", \"residual_dropout\": 0", 0.4)
                                                : spec_with("", ", \"dropout\": 0.4", "", 0);
        static struct looked l;
        double all[N];
        run(&spec, 4, &l);
        sum_of(all, l.attention, l.ffn);
        for (size_t e = 0; e < N; e++) assert_true(is_near((double)l.stream[e], all[e] + (double)l.embedding[e]));
        expect_weights(&l, 0.4);
        assert_true(qkv_spec_drops(&spec));
    }
}

static void sublayers_have_a_dropout_of_their_own(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        OWNED_SPEC struct qkv_spec spec = whole ? spec_with("\"dropout\": 0", ", \"dropout\": 0", "", 0.25)
                                                : spec_with("", "", ", \"residual_dropout\": 0.25", 0);
        static struct looked l;
        size_t attention = 0, ffn = 0;
        run(&spec, 5, &l);
        for (size_t e = 0; e < N; e++) {
            const double x = (double)l.embedding[e], a = (double)l.attention[e] / 0.75, f = (double)l.ffn[e] / 0.75;
            const double sum = (double)l.stream[e];
            const bool no_a = is_near(sum, x) || is_near(sum, x + f), no_f = is_near(sum, x) || is_near(sum, x + a);
            if (!no_a && !no_f && !is_near(sum, x + a + f)) fail_msg("element %zu is %g", e, sum);
            attention += no_a, ffn += no_f;
        }
        expect_share((double)attention / N, 0.25, N);
        expect_share((double)ffn / N, 0.25, N);
        expect_weights(&l, 0);
        assert_true(qkv_spec_drops(&spec));
    }
}

/* One way to say a thing has the bits, and the digest, of every other. */
static void what_is_said_twice_is_said_once(void **state) {
    (void)state;
    static struct looked a, b;
    char digests[2][QKV_DIGEST_TEXT];
    OWNED_SPEC struct qkv_spec once = spec_with("", "", "", 0.2);
    OWNED_SPEC struct qkv_spec twice =
        spec_with("\"dropout\": 0.2", ", \"dropout\": 0.2", ", \"residual_dropout\": 0.2", 0.2);
    run(&once, 6, &a), run(&twice, 6, &b);
    assert_memory_equal(&a, &b, sizeof a);
    assert_ok(ctx, qkv_spec_digest(ctx, &once, digests[0]));
    assert_ok(ctx, qkv_spec_digest(ctx, &twice, digests[1]));
    assert_string_equal(digests[0], digests[1]);
    OWNED_SPEC struct qkv_spec none = spec_with("\"dropout\": 0", ", \"dropout\": 0", ", \"residual_dropout\": 0", 0.2);
    assert_false(qkv_spec_drops(&none));
}

/* 0 and null are not the same, and both come back. */
static void rates_are_printed_as_they_are_read(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec back = {0};
    OWNED_SPEC struct qkv_spec spec =
        spec_with("\"dropout\": 0", ", \"dropout\": 0.5", ", \"residual_dropout\": null", 0.1);
    assert_true(spec.decoder.embed.dropout < 0);
    assert_true(spec.decoder.kinds[0].attention.dropout == 0.5);
    assert_true(spec.decoder.kinds[0].residual_dropout == 0);
    char *text;
    assert_ok(ctx, qkv_spec_print(ctx, &spec, &text));
    assert_non_null(strstr(text, "\"dropout\": 0.5"));
    assert_null(strstr(text, "residual_dropout"));
    assert_ok(ctx, qkv_spec_parse(ctx, &back, "printed", text, strlen(text), NULL, 0));
    assert_true(back.decoder.embed.dropout < 0 && back.decoder.kinds[0].attention.dropout == 0.5);
    free(text);
    const char *const wrong[] = {"decoder.attention.dropout=1", "decoder.residual_dropout=-0.1", "embed.dropout=-1"};
    qkv_spec_free(&back);
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        assert_status(ctx, qkv_spec_preset(ctx, &back, "nano-gpt", &wrong[i], 1), QKV_SPEC);
    const char *const right[] = {"decoder.attention.dropout=0.1", "decoder.residual_dropout=0", "embed.dropout=null"};
    qkv_spec_free(&back);
    assert_ok(ctx, qkv_spec_preset(ctx, &back, "nano-gpt", right, 3));
    assert_true(back.decoder.kinds[0].residual_dropout < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_embedding_has_a_dropout_of_its_own),
        cmocka_unit_test(attention_weights_have_a_dropout_of_their_own),
        cmocka_unit_test(sublayers_have_a_dropout_of_their_own),
        cmocka_unit_test(what_is_said_twice_is_said_once),
        cmocka_unit_test(rates_are_printed_as_they_are_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
