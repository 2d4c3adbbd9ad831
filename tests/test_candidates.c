/* The step `candidates` of a search against a list of all continuations that is sorted: many scores are equal, tokens
 * are barred or would repeat, hypotheses begin with one token, and scores are not finite. */
/* labels: quick */
enum { THREADS = 3 };
#define FIXTURE_OPTIONS .threads = THREADS
#include "context_fixture.h"

#include "backend/backends.h"

enum { V = 40, VOCAB = 37, ROWS = 4, LENGTH = 6, SOURCES = 3, MOST = 10 };

static float changed[THREADS * V];

struct source {
    float scores[ROWS * V];
    double sums[ROWS];
    int32_t ids[ROWS * LENGTH];
    struct qkv_candidate best[MOST];
};

/* Few different scores, so that many log-probabilities are equal; equal sums in two rows. */
static void fill_source(struct source *s, struct qkv_random *random) {
    for (size_t n = 0; n < ROWS * V; n++) s->scores[n] = (float)qkv_random_below(random, 4);
    for (size_t v = 0; v < V; v++) s->scores[V + v] = s->scores[v]; /* row 1 has the scores of row 0 */
    for (size_t r = 0; r < ROWS; r++) s->sums[r] = -(double)(r / 2);
    for (size_t n = 0; n < ROWS * LENGTH; n++) s->ids[n] = (int32_t)qkv_random_below(random, 3);
}

/* Whether the token would repeat n tokens of a row. */
static bool repeats(const int32_t *ids, size_t length, size_t n, int32_t id) {
    for (size_t at = 0; n && at + n <= length; at++) {
        bool same = ids[at + n - 1] == id;
        for (size_t k = 0; k + 1 < n; k++) same = same && ids[at + k] == ids[length - (n - 1) + k];
        if (same) return true;
    }
    return false;
}

static int compare(const void *x, const void *y) {
    const struct qkv_candidate *a = x, *b = y;
    if (a->log_probability != b->log_probability) return a->log_probability > b->log_probability ? -1 : 1;
    return a->row != b->row ? a->row - b->row : a->id - b->id;
}

/* All continuations, the best first; returns how many there are. */
static size_t expect(const struct qkv_continuation *s, struct qkv_candidate all[ROWS * V]) {
    const size_t no_repeat = s->rules ? s->rules->tokens.no_repeat : 0;
    size_t count = 0;
    for (size_t r = 0; r < s->rows; r++) {
        const float *scores = s->scores + r * V;
        const double lse = (double)ctx->kernels->log_sum_exp(scores, V);
        for (int32_t id = 0; id < (int32_t)s->vocab; id++) {
            bool barred = repeats(s->text.ids + r * s->stride, s->text.count, no_repeat, id);
            for (size_t i = 0; i < s->barred.count; i++) barred = barred || s->barred.ids[i] == id;
            if (!barred) all[count++] = (struct qkv_candidate){s->sums[r] - lse + (double)scores[id], (int32_t)r, id};
        }
    }
    qsort(all, count, sizeof *all, compare);
    return count;
}

/* Each source has rules, barred tokens, a vocabulary and a number of continuations of its own. */
static void test_likeliest(void **state) {
    (void)state;
    static struct source sources[SOURCES];
    static const int32_t barred[] = {0, 7, 36};
    struct qkv_continuation found[SOURCES];
    struct qkv_score_rules rules[SOURCES];
    struct qkv_candidate all[ROWS * V];
    struct qkv_random random = qkv_random_start(test_seed(), 0);
    for (size_t round = 0; round < 200; round++) {
        const struct qkv_step_candidates step = {.sources = found, .count = SOURCES, .V = V, .changed = changed};
        for (size_t i = 0; i < SOURCES; i++) {
            struct source *s = &sources[i];
            const size_t no_repeat = (round + i) % 4;
            fill_source(s, &random);
            rules[i] = (struct qkv_score_rules){.tokens = qkv_token_rules_defaults(), .penalty = 1};
            rules[i].tokens.no_repeat = no_repeat;
            found[i] = (struct qkv_continuation){.scores = s->scores,
                                                 .rows = 1 + (round + i) % ROWS,
                                                 .sums = s->sums,
                                                 .text = {.ids = s->ids, .count = 1 + round % LENGTH, .prompt = 1},
                                                 .stride = LENGTH,
                                                 .rules = no_repeat ? &rules[i] : NULL,
                                                 .barred = {barred, (round + i) % 3},
                                                 .vocab = i ? VOCAB : V,
                                                 .most = MOST - i,
                                                 .best = s->best};
        }
        assert_ok(ctx, QKV_STEP_OF(ctx, candidates, &step));
        for (size_t i = 0; i < SOURCES; i++) {
            const size_t count = expect(&found[i], all);
            assert_int_equal(found[i].count, qkv_min(count, MOST - i));
            assert_false(found[i].broken);
            for (size_t c = 0; c < found[i].count; c++) {
                assert_int_equal(found[i].best[c].row, all[c].row);
                assert_int_equal(found[i].best[c].id, all[c].id);
                assert_true(found[i].best[c].log_probability == all[c].log_probability);
            }
        }
    }
}

/* A hypothesis without tokens begins with `first`; a row whose scores are not finite breaks its source alone. */
static void test_edges(void **state) {
    (void)state;
    static struct source sources[2];
    struct qkv_random random = qkv_random_start(3, 0);
    struct qkv_continuation found[2];
    struct qkv_score_rules rules = {.tokens = qkv_token_rules_defaults(), .penalty = 1};
    rules.tokens.first = 9;
    for (size_t i = 0; i < 2; i++) {
        fill_source(&sources[i], &random);
        found[i] = (struct qkv_continuation){.scores = sources[i].scores,
                                             .rows = 1,
                                             .sums = sources[i].sums,
                                             .text = {.ids = sources[i].ids, .count = 1, .prompt = 1},
                                             .stride = LENGTH,
                                             .rules = &rules,
                                             .vocab = VOCAB,
                                             .most = MOST,
                                             .best = sources[i].best};
    }
    sources[1].scores[5] = NAN;
    assert_ok(ctx, QKV_STEP(ctx, candidates, .sources = found, .count = 2, .V = V, .changed = changed));
    assert_int_equal(found[0].count, 1);
    assert_int_equal(found[0].best[0].id, 9);
    assert_true(found[0].best[0].log_probability == sources[0].sums[0] && !found[0].broken);
    assert_true(found[1].broken);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_likeliest), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
