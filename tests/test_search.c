/* test_search: search over small encoder-decoders, against passes one by one and against enumerating every target; a
 * result does not depend on its neighbours; and each refusal with its message. test_translate.c tests lines of text. */
/* labels: numeric quick */
#include "search_fixture.h"
#include "weights.h"

#include "generate/search.h"

enum { MOST = 64, BEGIN = 1, END = 2 };

static struct qkv_context *ctx;

static const char tiny[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 5, \"source_vocab\": 9, \"d_model\": 16, \"context\": 24, "
    "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}}, "
    "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2}}}";
static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* ---- what searches gave ----------------------------------------------------------------------------------------- */

struct found {
    int32_t ids[MOST];
    size_t count;
    double log_probability, score;
    bool ended;
};
struct results {
    size_t sources, limit; /* limit: stop there; 0: never */
    size_t counts[100];    /* of each source */
    struct found of[100][16];
};

static bool take(void *user, size_t source, const struct qkv_hypothesis *h, size_t count) {
    struct results *r = user;
    assert_int_equal(source, r->sources);
    assert_true(r->sources < 100);
    r->counts[source] = count;
    for (size_t i = 0; i < count && i < 16; i++) {
        struct found *f = &r->of[source][i];
        assert_true(h[i].count <= MOST);
        *f = (struct found){
            .count = h[i].count, .log_probability = h[i].log_probability, .score = h[i].score, .ended = h[i].ended};
        memcpy(f->ids, h[i].ids, h[i].count * sizeof *f->ids);
    }
    return ++r->sources != r->limit;
}

/* Targets that begin with one token, which does not come again, and end with another. */
static struct qkv_search_ids ids_of(int32_t begin, int32_t end) {
    static int32_t ends[2], barred[2];
    static size_t used;
    int32_t *to = ends + used % 2, *bar = barred + used % 2;
    used++;
    *to = end, *bar = begin;
    return (struct qkv_search_ids){.begin = begin, .ends = {to, 1}, .barred = {bar, 1}};
}

static enum qkv_status search(struct qkv_model *m, const int32_t *const *sources, const size_t *lengths, size_t count,
                              const struct qkv_search_options *o, struct results *r) {
    struct qkv_search_job job = {.ids = ids_of(BEGIN, END),
                                 .vocab = SIZE_MAX,
                                 .sources = sources,
                                 .lengths = lengths,
                                 .what = "source",
                                 .count = count,
                                 .options = o,
                                 .take = take,
                                 .user = r};
    memset(r, 0, sizeof *r);
    return qkv_search_run(m, &job);
}

struct sources {
    int32_t ids[100][24];
    const int32_t *at[100];
    size_t lengths[100];
};

static void make_sources(struct qkv_random *random, struct sources *s, size_t count, size_t longest, int vocab) {
    for (size_t i = 0; i < count; i++) {
        s->at[i] = s->ids[i];
        s->lengths[i] = test_between(random, 1, longest);
        fixture_ids(random, s->ids[i], s->lengths[i], vocab);
    }
}

/* ---- greedy ----------------------------------------------------------------------------------------------------- */

static void expect_greedy(struct qkv_model *m, const int32_t *source, size_t n, size_t most, const struct found *f) {
    int V = qkv_model_spec(m)->vocab;
    int32_t target[MOST + 1] = {BEGIN};
    float scores[512];
    double p[512], sum = 0;
    for (size_t T = 1;; T++) {
        int best = END;
        fixture_scores(ctx, m, source, n, target, T, scores);
        fixture_log_softmax(scores, (size_t)V, p);
        for (int i = 0; i < V; i++)
            if (i != BEGIN && scores[i] > scores[best]) best = i;
        bool end = best == END;
        if (end || T == most) {
            target[T] = best;
            assert_int_equal(f->count, T - end);
            assert_memory_equal(f->ids, target + 1, (T - end) * sizeof *target);
            assert_int_equal(f->ended, end);
            sum += p[best];
            assert_true(fabs(f->log_probability - sum) < 1e-4 * (1 + fabs(sum)));
            assert_true(fabs(f->score - f->log_probability / pow((double)T, 0.6)) < 1e-9);
            return;
        }
        sum += p[best];
        target[T] = best;
    }
}

static void test_greedy_golden(void **state) {
    (void)state;
    static const char *const folders[] = {"tiny_seq2seq", "vaswani"};
    static struct results r;
    static struct sources s;
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        struct qkv_model *m;
        struct qkv_random random = test_random(i);
        snprintf(path, sizeof path, "%s/tests/golden/%s", TEST_SOURCE_DIR, folders[i]);
        assert_ok(ctx, qkv_model_load(ctx, path, &m));
        const struct qkv_spec *spec = qkv_model_spec(m);
        size_t context = (size_t)spec->context;
        make_sources(&random, &s, 12, context < 24 ? context : 24, spec->source_vocab);
        struct qkv_search_options o = qkv_search_defaults();
        o.batch = 5;
        assert_ok(ctx, search(m, s.at, s.lengths, 12, &o, &r));
        assert_int_equal(r.sources, 12);
        for (size_t k = 0; k < 12; k++) expect_greedy(m, s.at[k], s.lengths[k], context - 1, &r.of[k][0]);
        qkv_model_free(m);
    }
}

static void test_greedy_random(void **state) {
    (void)state;
    static struct results r;
    static struct sources s;
    size_t ended = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct qkv_random random = test_random(seed);
        struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, seed + test_seed() % 1000, 0.4);
        make_sources(&random, &s, 8, 9, 9);
        struct qkv_search_options o = qkv_search_defaults();
        o.max_tokens = seed % 2 ? 4 : 0;
        assert_ok(ctx, search(m, s.at, s.lengths, 8, &o, &r));
        for (size_t k = 0; k < 8; k++) {
            assert_int_equal(r.counts[k], 1);
            expect_greedy(m, s.at[k], s.lengths[k], seed % 2 ? 4 : 23, &r.of[k][0]);
            ended += r.of[k][0].ended;
        }
        qkv_model_free(m);
    }
    printf("%zu of 48 ended\n", ended);
}

/* ---- every target ----------------------------------------------------------------------------------------------- */

/* Most tokens of a target: 3^0 + … + 3^3 = 40 targets end, as nothing begins twice, and 3^4 = 81 are cut. */
enum { SHORT = 4, ENDED = 40, CUT = 81 };

struct enumeration {
    struct qkv_model *m;
    const int32_t *source;
    size_t n, count;
    double penalty;
    struct found of[128];
    int32_t target[SHORT + 2];
};

static void enumerate(struct enumeration *e, size_t T, double sum) {
    float scores[5];
    double p[5];
    fixture_scores(ctx, e->m, e->source, e->n, e->target, T, scores);
    fixture_log_softmax(scores, 5, p);
    struct found *f = &e->of[e->count++];
    *f = (struct found){.count = T - 1, .log_probability = sum + p[END], .ended = true};
    memcpy(f->ids, e->target + 1, (T - 1) * sizeof *f->ids);
    f->score = f->log_probability / pow((double)T, e->penalty);
    for (int id = 0; id < 5; id++) {
        if (id == END || id == BEGIN) continue;
        e->target[T] = id;
        if (T < SHORT) {
            enumerate(e, T + 1, sum + p[id]);
            continue;
        }
        f = &e->of[e->count++];
        *f = (struct found){.count = T, .log_probability = sum + p[id]};
        memcpy(f->ids, e->target + 1, T * sizeof *f->ids);
        f->score = f->log_probability / pow((double)T, e->penalty);
    }
}

static int by_score(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return x->score < y->score ? 1 : x->score > y->score ? -1 : 0;
}

/* A beam as wide as there are targets finds the best of all, in order, under any penalty. */
static void test_exhaustive(void **state) {
    (void)state;
    static const double penalties[] = {0, 0.6, 2, -1};
    static struct results r;
    static struct sources s;
    static struct enumeration e;
    for (size_t i = 0; i < TEST_COUNT(penalties); i++) {
        struct qkv_random random = test_random(i);
        struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, i + test_seed() % 1000, 0.4);
        make_sources(&random, &s, 3, 5, 9);
        struct qkv_search_options o = qkv_search_defaults();
        o.beam = 400, o.n_best = 8, o.max_tokens = SHORT, o.length_penalty = penalties[i];
        assert_ok(ctx, search(m, s.at, s.lengths, 3, &o, &r));
        for (size_t k = 0; k < 3; k++) {
            e = (struct enumeration){.m = m, .source = s.at[k], .n = s.lengths[k], .penalty = penalties[i]};
            e.target[0] = BEGIN;
            enumerate(&e, 1, 0);
            assert_int_equal(e.count, ENDED + CUT);
            qsort(e.of, e.count, sizeof *e.of, by_score);
            assert_int_equal(r.counts[k], 8);
            for (size_t n = 0; n < 8; n++) {
                const struct found *got = &r.of[k][n], *want = &e.of[n];
                assert_true(fabs(got->score - want->score) < 1e-4);
                if (n < 7 && want->score - e.of[n + 1].score > 1e-3 &&
                    (n == 0 || e.of[n - 1].score - want->score > 1e-3)) {
                    assert_int_equal(got->count, want->count);
                    assert_int_equal(got->ended, want->ended);
                    assert_memory_equal(got->ids, want->ids, want->count * sizeof *want->ids);
                }
            }
        }
        qkv_model_free(m);
    }
}

/* ---- what holds for every search -------------------------------------------------------------------------------- */

static bool repeats(const struct found *f, size_t n) {
    for (size_t a = 0; a + n <= f->count; a++)
        for (size_t b = a + 1; b + n <= f->count; b++)
            if (!memcmp(f->ids + a, f->ids + b, n * sizeof *f->ids)) return true;
    return false;
}

static void expect_order(const struct results *r, size_t count, size_t n_best) {
    for (size_t k = 0; k < count; k++) {
        assert_in_range(r->counts[k], 1, n_best);
        for (size_t n = 1; n < r->counts[k]; n++) {
            const struct found *a = &r->of[k][n - 1], *b = &r->of[k][n];
            assert_true(a->score >= b->score);
            for (size_t j = 0; j < n; j++) {
                const struct found *c = &r->of[k][j];
                assert_false(c->count == b->count && !memcmp(c->ids, b->ids, b->count * sizeof *b->ids));
            }
        }
    }
}

static void expect_same(const struct results *a, const struct results *b, size_t k, size_t of) {
    assert_int_equal(a->counts[k], b->counts[of]);
    assert_memory_equal(a->of[k], b->of[of], sizeof a->of[k]);
}

/* Beams, sampling and blocks: sorted, distinct, without repeats; and the same bits for every batch, and alone. */
static void test_properties(void **state) {
    (void)state;
    static struct results all, other;
    static struct sources s;
    for (size_t i = 0; i < 8; i++) {
        struct qkv_random random = test_random(i + 50);
        struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, i + test_seed() % 1000, 0.3);
        struct qkv_search_options o = qkv_search_defaults();
        size_t count = 40;
        make_sources(&random, &s, count, 12, 9);
        o.beam = i < 5 ? 1 + i : 1;
        o.n_best = i < 5 ? (o.beam + 1) / 2 : 3;
        o.no_repeat = i % 4;
        o.sample = i >= 5;
        o.sampling.seed = i;
        o.max_tokens = i % 3 ? 0 : 9;
        if (i == 6) o.sampling.top_k = 3, o.sampling.temperature = 0.7, o.sampling.repeat_penalty = 1.2;
        assert_ok(ctx, search(m, s.at, s.lengths, count, &o, &all));
        assert_int_equal(all.sources, count);
        if (!o.sample) expect_order(&all, count, o.n_best);
        for (size_t k = 0; k < count; k++) {
            if (o.sample) assert_int_equal(all.counts[k], 3);
            for (size_t n = 0; n < all.counts[k]; n++) {
                assert_true(all.of[k][n].count <= (o.max_tokens ? o.max_tokens : 23));
                assert_true(!o.no_repeat || !repeats(&all.of[k][n], o.no_repeat));
            }
        }
        for (o.batch = 1; o.batch < 40; o.batch = o.batch * 3 + 1) {
            assert_ok(ctx, search(m, s.at, s.lengths, count, &o, &other));
            for (size_t k = 0; k < count; k++) expect_same(&all, &other, k, k);
        }
        for (size_t k = 0; k < 5 && !o.sample; k++) { /* a sample's seed is that of its place */
            assert_ok(ctx, search(m, s.at + k, s.lengths + k, 1, &o, &other));
            expect_same(&all, &other, k, 0);
        }
        if (o.sample) { /* another seed, another text, where no token is nearly certain */
            o.sampling.temperature = 5;
            assert_ok(ctx, search(m, s.at, s.lengths, count, &o, &all));
            o.sampling.seed = 1000 + i;
            assert_ok(ctx, search(m, s.at, s.lengths, count, &o, &other));
            assert_true(memcmp(&all, &other, sizeof all) != 0);
        }
        qkv_model_free(m);
    }
}

/* Stopping early changes nothing: the same hypotheses as in a search that must find one more than there are. */
static void test_early_end(void **state) {
    (void)state;
    static struct results r, longer;
    static struct sources s;
    for (uint64_t i = 0; i < 6; i++) {
        struct qkv_random random = test_random(i + 90);
        struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, i + test_seed() % 1000, 0.4);
        struct qkv_search_options o = qkv_search_defaults();
        make_sources(&random, &s, 10, 9, 9);
        o.beam = 4, o.length_penalty = (double)i - 1, o.max_tokens = 12;
        assert_ok(ctx, search(m, s.at, s.lengths, 10, &o, &r));
        o.n_best = 4;
        assert_ok(ctx, search(m, s.at, s.lengths, 10, &o, &longer));
        for (size_t k = 0; k < 10; k++) assert_memory_equal(&r.of[k][0], &longer.of[k][0], sizeof r.of[k][0]);
        qkv_model_free(m);
    }
}

/* The same bits on two threads as on one. */
static void test_threads(void **state) {
    (void)state;
    static struct results one, two;
    static struct sources s;
    struct qkv_context *single = ctx;
    struct qkv_random random = test_random(9);
    struct qkv_search_options o = qkv_search_defaults();
    make_sources(&random, &s, 20, 12, 9);
    o.beam = 4, o.n_best = 4;
    for (int threads = 1; threads <= 2; threads++) {
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads)), QKV_OK);
        struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, 4, 0.3);
        assert_ok(ctx, search(m, s.at, s.lengths, 20, &o, threads == 1 ? &one : &two));
        qkv_model_free(m);
        qkv_context_free(ctx);
    }
    ctx = single;
    assert_memory_equal(&one, &two, sizeof one);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void test_refusals(void **state) {
    (void)state;
    static struct results r;
    static struct sources s;
    struct qkv_random random = test_random(3);
    struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, 1, 0.2);
    const struct qkv_search_options good = qkv_search_defaults();
    struct qkv_search_options o;
    make_sources(&random, &s, 4, 9, 9);
#define REFUSES(change, part)                                                                                          \
    o = good;                                                                                                          \
    change;                                                                                                            \
    assert_fails(ctx, search(m, s.at, s.lengths, 4, &o, &r), QKV_ARGUMENT, part)
    REFUSES(o.beam = 0, "beam is 0; it must be from 1 (greedy)");
    REFUSES(o.n_best = 0, "n_best is 0");
    REFUSES(o.n_best = 2, "n_best is 2, but a beam of 1 has at most 1 results; widen the beam");
    REFUSES(o.length_penalty = NAN, "length_penalty is nan");
    REFUSES(o.max_tokens = 24, "max_tokens is 24, but the model's context of 24 holds 23");
    REFUSES(o.batch = 100000, "batch is 100000");
    REFUSES((o.sample = true, o.beam = 2), "sampling has no beam");
    REFUSES((o.sample = true, o.sampling.top_p = 2), "top_p is 2");
    REFUSES(o.stopping = (enum qkv_stopping)7, "stopping is 7; it must be never, false or true");
    REFUSES(o.sampling.repeat_penalty = 0, "repeat_penalty is 0");
    struct qkv_token_rules rules;
#define REFUSES_RULE(change, part)                                                                                     \
    rules = qkv_token_rules_defaults();                                                                                \
    change;                                                                                                            \
    REFUSES(o.rules = &rules, part)
    REFUSES_RULE(rules.source_penalty = NAN, "source_penalty is nan; it must be greater than 0");
    REFUSES_RULE(rules.first = 5, "first is 5; it must be a token, 0 to 4, or -1 for any");
    REFUSES_RULE(rules.last.count = 2, "last has 2 ids, but its list is NULL");
    REFUSES_RULE(rules.suppressed.count = 1, "suppressed has 1 ids, but its list is NULL");
    REFUSES_RULE(rules.bad_words.count = 1, "bad_words has 1 ids, but its list is NULL");
    REFUSES_RULE(rules.size = 0, "qkv_token_rules says that it has 0 bytes");
    REFUSES(s.lengths[2] = 25, "source 3 has 25 tokens with its end, but the model's context holds 24");
    REFUSES(s.lengths[2] = 0, "source 3 is empty");
    s.lengths[2] = 1;
    o = good;
    s.ids[1][0] = 9;
    assert_fails(ctx, search(m, s.at, s.lengths, 4, &o, &r), QKV_ARGUMENT, "9");
    s.ids[1][0] = 0;
    struct qkv_search_job job = {.ids = ids_of(5, 1), .options = &good, .what = "source", .take = take, .user = &r};
    assert_fails(ctx, qkv_search_run(m, &job), QKV_ARGUMENT, "targets begin with 5 and end with 1, but ids are 0 to 4");
    assert_fails(ctx, qkv_search(m, s.at, s.lengths, 4, &good, take, &r), QKV_ARGUMENT, "no tokenizer");
    memset(&r, 0, sizeof r);
    test_weights_mutable(m, 0)[0] = NAN; /* some weight that everything depends on */
    for (size_t i = 0; i < qkv_model_parameters(m); i++) test_weights_mutable(m, i)[0] = NAN;
    assert_fails(ctx, search(m, s.at, s.lengths, 4, &good, &r), QKV_NUMBER, "are not finite");
    qkv_model_free(m);
    static const char reader[] =
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 9, \"d_model\": 16, \"context\": 20, "
        "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}}}";
    m = fixture_model(ctx, reader, NULL, 0, 5, 0.2);
    assert_fails(ctx, qkv_search(m, NULL, NULL, 0, &good, take, NULL), QKV_ARGUMENT, "an encoder alone");
    qkv_model_free(m);
}

static void test_stop(void **state) {
    (void)state;
    static struct results r;
    static struct sources s;
    struct qkv_random random = test_random(3);
    struct qkv_model *m = fixture_model(ctx, tiny, NULL, 0, 1, 0.2);
    const struct qkv_search_options o = qkv_search_defaults();
    make_sources(&random, &s, 4, 9, 9);
    struct qkv_search_job job = {.ids = ids_of(BEGIN, END),
                                 .vocab = 5,
                                 .sources = s.at,
                                 .lengths = s.lengths,
                                 .what = "source",
                                 .count = 4,
                                 .options = &o,
                                 .take = take,
                                 .user = &r};
    memset(&r, 0, sizeof r);
    r.limit = 2;
    assert_fails(ctx, qkv_search_run(m, &job), QKV_STOPPED, "stopped by the caller");
    assert_int_equal(r.sources, 2);
    qkv_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_golden), cmocka_unit_test(test_greedy_random), cmocka_unit_test(test_exhaustive),
        cmocka_unit_test(test_properties),    cmocka_unit_test(test_early_end),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
