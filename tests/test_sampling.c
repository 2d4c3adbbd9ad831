/* test_sampling: choosing tokens: each filter alone and together on cases worked out by hand, frequencies by
 * chi-square, against sorting on large vocabularies, and each refusal with its message. */
/* labels: quick */
#include "context_fixture.h"

static struct qkv_sampling with(struct qkv_sampling s) {
    struct qkv_sampling d = qkv_sampling_defaults();
    if (s.temperature == 0) s.temperature = d.temperature;
    if (s.top_p == 0) s.top_p = d.top_p;
    if (s.repeat_penalty == 0) s.repeat_penalty = d.repeat_penalty;
    return s;
}
#define WITH(...) with((struct qkv_sampling){.seed = 5, __VA_ARGS__})

static int32_t sample(const struct qkv_sampling *s, const float *logits, size_t vocab, uint64_t draw) {
    int32_t id;
    assert_ok(ctx, qkv_sample(ctx, s, logits, vocab, NULL, 0, draw, &id));
    assert_in_range(id, 0, vocab - 1);
    return id;
}

/* ---- distributions ---------------------------------------------------------------------------------------------- */

enum { DRAWS = 20000, TOKENS = 4 };

/* Draws many tokens; those of probability 0 must never come, and the others as often as they should: with at most 3
 * degrees of freedom, chi-square beyond 30 has a probability below two in a million, and the seeds are fixed. */
static void check_frequencies(struct qkv_sampling s, const float logits[TOKENS], const int32_t *history, size_t count,
                              const double weights[TOKENS], int line) {
    size_t seen[TOKENS] = {0};
    double sum = 0, chi = 0;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        int32_t id;
        assert_ok(ctx, qkv_sample(ctx, &s, logits, TOKENS, history, count, draw, &id));
        assert_in_range(id, 0, TOKENS - 1);
        seen[id]++;
    }
    for (size_t i = 0; i < TOKENS; i++) sum += weights[i];
    for (size_t i = 0; i < TOKENS; i++) {
        double expected = DRAWS * weights[i] / sum, off = (double)seen[i] - expected;
        if (weights[i] == 0 && seen[i]) fail_msg("line %d: token %zu came %zu times", line, i, seen[i]);
        if (weights[i] > 0) chi += off * off / expected;
    }
    if (chi > 30) fail_msg("line %d: chi-square %.1f: %zu %zu %zu %zu", line, chi, seen[0], seen[1], seen[2], seen[3]);
}
#define FREQUENCIES(s, logits, ...) check_frequencies(s, logits, NULL, 0, (const double[TOKENS]){__VA_ARGS__}, __LINE__)

/* Log-probabilities of 0.2, 0.4, 0.1, 0.3, not in order. */
static const float known[TOKENS] = {-1.6094379F, -0.91629076F, -2.3025851F, -1.2039728F};

static void test_temperature(void **state) {
    (void)state;
    FREQUENCIES(qkv_sampling_defaults(), known, .2, .4, .1, .3);
    FREQUENCIES(WITH(.temperature = 0.5), known, .04, .16, .01, .09);
    FREQUENCIES(WITH(.temperature = 2), known, sqrt(.2), sqrt(.4), sqrt(.1), sqrt(.3));
    FREQUENCIES(WITH(.temperature = 1e-300), known, 0, 1, 0, 0);
    FREQUENCIES(WITH(.temperature = 1e300), known, 1, 1, 1, 1);
    const float shifted[TOKENS] = {1000 - 1.6094379F, 1000 - 0.91629076F, 1000 - 2.3025851F, 1000 - 1.2039728F};
    FREQUENCIES(qkv_sampling_defaults(), shifted, .2, .4, .1, .3);
}

static void test_filters(void **state) {
    (void)state;
    FREQUENCIES(WITH(.top_k = 1), known, 0, 1, 0, 0);
    FREQUENCIES(WITH(.top_k = 2), known, 0, .4, 0, .3);
    FREQUENCIES(WITH(.top_k = 3), known, .2, .4, 0, .3);
    FREQUENCIES(WITH(.top_k = 4), known, .2, .4, .1, .3);
    FREQUENCIES(WITH(.top_k = 1000), known, .2, .4, .1, .3);
    FREQUENCIES(WITH(.top_p = 1e-9), known, 0, 1, 0, 0);
    FREQUENCIES(WITH(.top_p = 0.4), known, 0, 1, 0, 0); /* as floats these are 0.3999999984 of the whole */
    FREQUENCIES(WITH(.top_p = 0.41), known, 0, .4, 0, .3);
    FREQUENCIES(WITH(.top_p = 0.7), known, 0, .4, 0, .3); /* 0.4 + 0.3 is exactly what is asked for */
    FREQUENCIES(WITH(.top_p = 0.71), known, .2, .4, 0, .3);
    FREQUENCIES(WITH(.top_p = 0.95), known, .2, .4, .1, .3);
    FREQUENCIES(WITH(.min_p = 0.51), known, 0, .4, 0, .3);
    FREQUENCIES(WITH(.min_p = 0.5), known, .2, .4, 0, .3); /* 0.2 is exactly half of 0.4 */
    FREQUENCIES(WITH(.min_p = 1), known, 0, 1, 0, 0);
    FREQUENCIES(WITH(.min_p = 0.01), known, .2, .4, .1, .3);
}

static void test_filters_together(void **state) {
    (void)state;
    /* of the three that top-k keeps, 0.7 / 0.9 = 0.777 holds 0.75; without it 0.7 of all would not */
    FREQUENCIES(WITH(.top_k = 3, .top_p = 0.75), known, 0, .4, 0, .3);
    FREQUENCIES(WITH(.top_p = 0.75), known, .2, .4, 0, .3);
    /* at temperature 0.5 the shares are 0.133, 0.533, 0.033, 0.3 */
    FREQUENCIES(WITH(.temperature = 0.5, .top_p = 0.8), known, 0, .16, 0, .09);
    FREQUENCIES(WITH(.temperature = 0.5, .min_p = 0.3), known, 0, .16, 0, .09);
    FREQUENCIES(WITH(.temperature = 2, .min_p = 0.6), known, sqrt(.2), sqrt(.4), 0, sqrt(.3));
    FREQUENCIES(WITH(.top_p = 0.95, .min_p = 0.6), known, 0, .4, 0, .3);
    FREQUENCIES(WITH(.top_k = 3, .top_p = 0.99, .min_p = 0.2), known, .2, .4, 0, .3);
}

static void test_penalty(void **state) {
    (void)state;
    const float logits[TOKENS] = {1, -0.5F, 0.25F, 0};
    const int32_t history[] = {1, 0, 0, 1, 0}; /* each counts once */
    const double both[TOKENS] = {exp(0.5), exp(-1), exp(0.25), 1}, none[TOKENS] = {exp(1), exp(-0.5), exp(0.25), 1};
    const double last[TOKENS] = {exp(0.5), exp(-0.5), exp(0.25), 1},
                 boosted[TOKENS] = {exp(2), exp(-0.25), exp(.25), 1};
    check_frequencies(WITH(.repeat_penalty = 2), logits, history, 5, both, __LINE__);
    check_frequencies(WITH(.repeat_penalty = 1), logits, history, 5, none, __LINE__);
    check_frequencies(WITH(.repeat_penalty = 2), logits, history, 0, none, __LINE__);
    check_frequencies(WITH(.repeat_penalty = 2, .repeat_last = 1), logits, history, 5, last, __LINE__);
    check_frequencies(WITH(.repeat_penalty = 2, .repeat_last = 2), logits, history, 5, both, __LINE__);
    check_frequencies(WITH(.repeat_penalty = 2, .repeat_last = 99), logits, history, 5, both, __LINE__);
    check_frequencies(WITH(.repeat_penalty = 0.5), logits, history, 5, boosted, __LINE__);
    /* before top-k: token 0 falls behind token 3 */
    const double behind[TOKENS] = {0, 0, exp(0.25), 0};
    check_frequencies(WITH(.repeat_penalty = 5, .top_k = 1), logits, history, 5, behind, __LINE__);
}

static void test_infinite_scores(void **state) {
    (void)state;
    const float some[TOKENS] = {-INFINITY, 1, -INFINITY, 1}, one[TOKENS] = {-INFINITY, -INFINITY, -3e38F, -INFINITY};
    const float high[TOKENS] = {INFINITY, 3, INFINITY, -INFINITY};
    FREQUENCIES(qkv_sampling_defaults(), some, 0, 1, 0, 1);
    FREQUENCIES(WITH(.top_k = 3, .min_p = 0.1, .top_p = 0.99), some, 0, 1, 0, 1);
    FREQUENCIES(WITH(.top_k = 4), one, 0, 0, 1, 0);
    FREQUENCIES(WITH(.temperature = 1e-300), one, 0, 0, 1, 0);
    FREQUENCIES(qkv_sampling_defaults(), high, 1, 0, 1, 0);
    const int32_t history[] = {0, 1};
    const double both[TOKENS] = {1, 0, 1, 0};
    check_frequencies(WITH(.repeat_penalty = 2), high, history, 2, both, __LINE__);
    /* an extreme penalty does not make a score infinite */
    const float low[TOKENS] = {-1, -1, -1, -1};
    const int32_t all[] = {0, 1, 2, 3};
    const double even[TOKENS] = {1, 1, 1, 1};
    check_frequencies(WITH(.repeat_penalty = 1e300), low, all, 4, even, __LINE__);
}

/* ---- greedy, determinism ---------------------------------------------------------------------------------------- */

static void test_greedy(void **state) {
    (void)state;
    struct qkv_sampling s = qkv_sampling_defaults();
    s.temperature = 0;
    const float tied[] = {1, 3, -2, 3, 3};
    for (uint64_t draw = 0; draw < 50; draw++) assert_int_equal(sample(&s, tied, 5, draw), 1);
    s.top_k = 2, s.top_p = 0.1, s.min_p = 1;
    assert_int_equal(sample(&s, tied, 5, 7), 1);
    s = WITH(.top_k = 1); /* the lower id of equals here too */
    for (uint64_t draw = 0; draw < 50; draw++) assert_int_equal(sample(&s, tied, 5, draw), 1);
    s = qkv_sampling_defaults();
    s.temperature = 0, s.repeat_penalty = 1.5;
    int32_t id, history[] = {1};
    assert_ok(ctx, qkv_sample(ctx, &s, tied, 5, history, 1, 0, &id));
    assert_int_equal(id, 3);
    const float single = -7;
    assert_int_equal(sample(&s, &single, 1, 0), 0);
}

static void test_draws(void **state) {
    (void)state;
    struct qkv_sampling s = qkv_sampling_defaults(), other = s;
    size_t differ_draw = 0, differ_seed = 0;
    other.seed = 1;
    for (uint64_t draw = 0; draw < 1000; draw++) {
        int32_t id = sample(&s, known, TOKENS, draw);
        assert_int_equal(id, sample(&s, known, TOKENS, draw));
        struct qkv_random random = qkv_random_start(0, draw);
        double u = qkv_random_uniform(&random);
        assert_int_equal(id, u < .2 ? 0 : u < .6 ? 1 : u < .7 ? 2 : 3); /* inverse of the cumulative distribution */
        differ_draw += id != sample(&s, known, TOKENS, draw + 1);
        differ_seed += id != sample(&other, known, TOKENS, draw);
    }
    assert_in_range(differ_draw, 600, 800); /* 0.7 of 1000 */
    assert_in_range(differ_seed, 600, 800);
}

/* ---- large vocabularies: by sorting ----------------------------------------------------------------------------- */

static const float *sort_scores;

static int compare_ids(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sort_scores[i] != sort_scores[j]) return sort_scores[i] > sort_scores[j] ? -1 : 1;
    return (i > j) - (i < j);
}

/* The same choice from the definitions: softmax, sort, cut, renormalise. Shares that differ by less than a millionth
 * count as equal here, too: among thousands of equal scores, a sum can come that close to top_p. */
static int32_t sample_by_sorting(const struct qkv_sampling *s, const float *logits, size_t V, double uniform) {
    int32_t *order = malloc(V * sizeof *order);
    double *p = malloc(V * sizeof *p), sum = 0, below = 0, kept_sum = 0;
    for (size_t i = 0; i < V; i++) order[i] = (int32_t)i;
    sort_scores = logits;
    qsort(order, V, sizeof *order, compare_ids);
    size_t kept = s->top_k && (size_t)s->top_k < V ? (size_t)s->top_k : V, n = 0;
    for (size_t i = 0; i < kept; i++)
        sum += p[i] = exp(((double)logits[order[i]] - (double)logits[order[0]]) / s->temperature);
    for (size_t i = 0; i < kept; i++) p[i] /= sum;
    while (n < kept && (n == 0 || below < s->top_p * (1 - 1e-6))) below += p[n++];
    if (s->top_p == 1) n = kept;
    while (n > 1 && p[n - 1] < s->min_p * (1 - 1e-6) * p[0]) n--;
    for (size_t i = 0; i < n; i++) kept_sum += p[i];
    size_t i = 0;
    for (below = p[0]; below <= uniform * kept_sum && i + 1 < n;) below += p[++i];
    int32_t id = order[i];
    free(order);
    free(p);
    return id;
}

static void test_against_sorting(void **state) {
    (void)state;
    struct qkv_random r = test_random(1);
    for (int round = 0; round < 400; round++) {
        size_t V = test_between(&r, 2, 3000);
        float *logits = malloc(V * sizeof *logits);
        test_fill(&r, logits, V, 3);
        if (qkv_random_below(&r, 2)) /* many equal scores */
            for (size_t i = 0; i < V; i++) logits[i] = rintf(logits[i]);
        struct qkv_sampling s = qkv_sampling_defaults();
        s.seed = qkv_random_bits(&r);
        s.temperature = 0.2 + 2 * qkv_random_uniform(&r);
        s.top_k = (int)test_between(&r, qkv_random_below(&r, 2) ? 0 : 1, V + 5);
        if (qkv_random_below(&r, 2)) s.top_p = 0.05 + 0.94 * qkv_random_uniform(&r);
        if (qkv_random_below(&r, 2) || s.top_k == 0) s.min_p = 0.3 * qkv_random_uniform(&r) + 1e-9;
        for (uint64_t draw = 0; draw < 5; draw++) {
            struct qkv_random random = qkv_random_start(s.seed, draw);
            assert_int_equal(sample(&s, logits, V, draw),
                             sample_by_sorting(&s, logits, V, qkv_random_uniform(&random)));
        }
        free(logits);
    }
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refuse(struct qkv_sampling s, const char *sentence) {
    int32_t id = 7;
    assert_status(ctx, qkv_sample(ctx, &s, known, TOKENS, NULL, 0, 0, &id), QKV_ARGUMENT);
    assert_message(ctx, sentence);
    assert_int_equal(id, -1);
}

static void test_refusals(void **state) {
    (void)state;
    refuse(WITH(.temperature = -1), "temperature is -1; it must be from 0 (always the likeliest token) to 1.7e308");
    refuse(WITH(.temperature = NAN), "temperature is nan;");
    refuse(WITH(.temperature = INFINITY), "temperature is inf;");
    refuse(WITH(.top_k = -1), "top_k is -1; it must be from 0 (all) to 2147483647");
    refuse(WITH(.top_p = -0.5), "top_p is -0.5; it must be greater than 0 and at most 1");
    refuse(WITH(.top_p = 1.5), "top_p is 1.5;");
    refuse(WITH(.top_p = NAN), "top_p is nan;");
    refuse(WITH(.min_p = -0.1), "min_p is -0.1; it must be from 0 (all) to 1");
    refuse(WITH(.min_p = 1.1), "min_p is 1.1;");
    refuse(WITH(.min_p = NAN), "min_p is nan;");
    refuse(WITH(.repeat_penalty = -2), "repeat_penalty is -2; it must be greater than 0 and at most 1.7e308 (1: off)");
    refuse(WITH(.repeat_penalty = INFINITY), "repeat_penalty is inf;");
    refuse(WITH(.repeat_last = -1), "repeat_last is -1; it must be from 0 (all) to 2147483647");
    struct qkv_sampling s = qkv_sampling_defaults();
    s.top_p = 0;
    refuse(s, "top_p is 0;");
    s = qkv_sampling_defaults();
    s.repeat_penalty = 0;
    refuse(s, "repeat_penalty is 0;");
    s = WITH(.repeat_penalty = 2);
    int32_t id;
    assert_status(ctx, qkv_sample(ctx, &s, known, 0, NULL, 0, 0, &id), QKV_ARGUMENT);
    assert_message(ctx, "cannot choose among 0 tokens");
    assert_status(ctx, qkv_sample(ctx, &s, known, TOKENS, (const int32_t[]){1, 4}, 2, 0, &id), QKV_ARGUMENT);
    assert_message(ctx, "history[1] is 4, but ids are 0 to 3");
    assert_status(ctx, qkv_sample(ctx, &s, known, TOKENS, (const int32_t[]){-1}, 1, 0, &id), QKV_ARGUMENT);
    const float broken[] = {1, NAN, 2}, nans[] = {NAN, NAN}, none[] = {-INFINITY, -INFINITY};
    assert_status(ctx, qkv_sample(ctx, &s, broken, 3, NULL, 0, 0, &id), QKV_NUMBER);
    assert_message(ctx, "the score of token 1 is not a number");
    assert_status(ctx, qkv_sample(ctx, &s, nans, 2, NULL, 0, 0, &id), QKV_NUMBER);
    assert_status(ctx, qkv_sample(ctx, &s, none, 2, NULL, 0, 0, &id), QKV_NUMBER);
    assert_message(ctx, "the scores of all 2 tokens are -inf");
    s.temperature = 0;
    assert_status(ctx, qkv_sample(ctx, &s, none, 2, NULL, 0, 0, &id), QKV_NUMBER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_filters_together),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_infinite_scores),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_against_sorting),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
