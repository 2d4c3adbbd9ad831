/* Metrics against the values of sacreBLEU, edit distance against its recursion, classification against counts by
 * hand. */
/* labels: quick */
#include "context_fixture.h"

#include "metric/metric.h"
#include "metric_cases.h"

#define assert_near(a, b) assert_true(fabs((double)(a) - (double)(b)) <= 1e-6)

/* ---- BLEU and chrF ---------------------------------------------------------------------------------------------- */

static void corpora_score_as_sacrebleu_says(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(metric_cases); i++) {
        const struct metric_case *c = &metric_cases[i];
        const char *hypotheses[4];
        const char *const *references[4];
        size_t counts[4] = {0}, n = 0;
        for (; n < 4 && c->segments[n][0]; n++) {
            hypotheses[n] = c->segments[n][0];
            references[n] = c->segments[n] + 1;
            while (counts[n] < 4 && references[n][counts[n]]) counts[n]++;
        }
        double bleu, chrf;
        assert_ok(ctx, qkv_bleu(ctx, hypotheses, references, counts, n, &bleu));
        assert_ok(ctx, qkv_chrf(ctx, hypotheses, references, counts, n, &chrf));
        if (fabs(bleu - c->bleu) > 1e-6 || fabs(chrf - c->chrf) > 1e-6)
            print_error("case %zu, \"%s\": BLEU %.9f and chrF %.9f, sacreBLEU has %.9f and %.9f\n", i, hypotheses[0],
                        bleu, chrf, c->bleu, c->chrf);
        assert_near(bleu, c->bleu);
        assert_near(chrf, c->chrf);
    }
}

static void scoring_nothing_is_refused(void **state) {
    const char *hypothesis = "a", *reference = "a";
    const char *const *references[2] = {&reference, &reference};
    const char *hypotheses[2] = {hypothesis, hypothesis};
    size_t counts[2] = {1, 0};
    double value = 7;
    (void)state;
    assert_status(ctx, qkv_bleu(ctx, hypotheses, references, counts, 0, &value), QKV_ARGUMENT);
    assert_message(ctx, "BLEU needs at least one text");
    assert_near(value, 0);
    assert_status(ctx, qkv_chrf(ctx, hypotheses, references, counts, 0, &value), QKV_ARGUMENT);
    assert_message(ctx, "chrF needs at least one text");
    assert_status(ctx, qkv_bleu(ctx, hypotheses, references, counts, 2, &value), QKV_ARGUMENT);
    assert_message(ctx, "BLEU: text 2 of 2 has no reference; give each text at least one");
    assert_status(ctx, qkv_chrf(ctx, hypotheses, references, counts, 2, &value), QKV_ARGUMENT);
}

/* A line of a million characters, and lines of random bytes: every score is a number from 0 to 100; the text itself
 * gets 100. */
static void any_bytes_have_a_score(void **state) {
    struct qkv_random random = test_random(1);
    size_t size = 1000000;
    char *text = malloc(size + 1);
    double bleu, chrf;
    (void)state;
    for (int i = 0; i < 40; i++) {
        size_t n = i == 0 ? size : test_between(&random, 10, 300);
        for (size_t k = 0; k < n; k++)
            text[k] = i == 0 ? "ab, c.9-"[k % 8] : (char)test_between(&random, 1, i % 2 ? 255 : 64);
        text[n] = 0;
        const char *hypotheses[1] = {text}, *other = "a b c d", *references[2] = {other, text};
        const char *const *lists[1] = {references};
        assert_ok(ctx, qkv_bleu(ctx, hypotheses, lists, &(size_t){1}, 1, &bleu));
        assert_ok(ctx, qkv_chrf(ctx, hypotheses, lists, &(size_t){1}, 1, &chrf));
        assert_true(bleu >= 0 && bleu < 100 && chrf >= 0 && chrf < 100);
        assert_ok(ctx, qkv_bleu(ctx, hypotheses, lists, &(size_t){2}, 1, &bleu));
        assert_ok(ctx, qkv_chrf(ctx, hypotheses, lists, &(size_t){2}, 1, &chrf));
        assert_true(chrf > 100 - 1e-6 && chrf < 100 + 1e-6);
        assert_true(bleu == 0 || fabs(bleu - 100) < 1e-6); /* 0: fewer than four tokens */
    }
    free(text);
}

/* ---- edit distance ---------------------------------------------------------------------------------------------- */

static size_t recursion(const int32_t *a, size_t n, const int32_t *b, size_t m) {
    if (n == 0 || m == 0) return n + m;
    size_t change = recursion(a + 1, n - 1, b + 1, m - 1) + (*a != *b);
    size_t drop = recursion(a + 1, n - 1, b, m) + 1, insert = recursion(a, n, b + 1, m - 1) + 1;
    size_t least = drop < insert ? drop : insert;
    return change < least ? change : least;
}

static void edits_are_the_fewest(void **state) {
    struct qkv_random random = test_random(2);
    (void)state;
    for (int i = 0; i < 300; i++) {
        int32_t a[7], b[7];
        size_t n = test_between(&random, 0, 6), m = test_between(&random, 0, 6);
        for (size_t k = 0; k < n; k++) a[k] = (int32_t)test_between(&random, 0, 2);
        for (size_t k = 0; k < m; k++) b[k] = (int32_t)test_between(&random, 0, 2);
        assert_int_equal(qkv_edit_distance(a, n, b, m), recursion(a, n, b, m));
    }
    static const int32_t kitten[] = {'k', 'i', 't', 't', 'e', 'n'}, sitting[] = {'s', 'i', 't', 't', 'i', 'n', 'g'};
    assert_int_equal(qkv_edit_distance(kitten, 6, sitting, 7), 3);
    assert_int_equal(qkv_edit_distance(NULL, 0, sitting, 7), 7);
    assert_int_equal(qkv_edit_distance(NULL, 0, NULL, 0), 0);
}

/* ---- classification --------------------------------------------------------------------------------------------- */

static void classes_that_do_not_occur_do_not_count(void **state) {
    /* labels a a a b, predictions a a b c; d occurs nowhere */
    static const size_t confusion[16] = {2, 1, 0, 0, /**/ 0, 0, 1, 0, /**/ 0, 0, 0, 0, /**/ 0, 0, 0, 0};
    static const size_t nothing[4] = {0};
    (void)state;
    assert_near(qkv_accuracy(confusion, 4), 0.5);
    assert_near(qkv_macro_f1(confusion, 4), (2.0 * 2 / 5 + 0 + 0) / 3); /* as sklearn.metrics.f1_score has it */
    assert_near(qkv_accuracy(nothing, 2), 0);
    assert_near(qkv_macro_f1(nothing, 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpora_score_as_sacrebleu_says),
        cmocka_unit_test(scoring_nothing_is_refused),
        cmocka_unit_test(any_bytes_have_a_score),
        cmocka_unit_test(edits_are_the_fewest),
        cmocka_unit_test(classes_that_do_not_occur_do_not_count),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
