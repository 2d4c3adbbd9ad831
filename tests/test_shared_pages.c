/* test_shared_pages: rows of different lengths, shared prefixes, and forks of sessions: scores are those of a pass
 * over each sequence alone, bit for bit in fp32; pages are counted, and a full cache loses nothing. */
/* labels: numeric quick */
#include "search_fixture.h"

enum { V = 29, CONTEXT = 1200, ROWS = 6 };

static struct qkv_context *ctx;

static const char both[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 29, \"source_vocab\": 17, \"d_model\": 16, \"context\": 1200, "
    "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}, "
    "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"kv_heads\": 2}}}";
static const char alone[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 29, \"d_model\": 16, \"context\": 1200, "
                            "\"position\": {\"kind\": \"rope\"}, "
                            "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"kv_heads\": 2}}}";

static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 2));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* The expected contents of a row. */
struct twin {
    size_t length, source;
    int32_t ids[CONTEXT];
};

static void expect_scores(struct qkv_model *m, const struct twin *t, size_t length, const int32_t *source,
                          size_t source_T, const float *got) {
    float want[V];
    assert_non_null(got);
    fixture_scores(ctx, m, source, source_T, t->ids, length, want);
    assert_memory_equal(got, want, sizeof want);
}

/* ---- rows of different lengths ---------------------------------------------------------------------------------- */

struct rows {
    struct qkv_model *model;
    struct qkv_decoder *decoder;
    size_t count;
    struct twin rows[ROWS];
    int32_t sources[2][8], lengths[2];
    bool encoded;
};

static void expect_row(const struct rows *r, size_t row, size_t length, const float *got) {
    const struct twin *t = &r->rows[row];
    expect_scores(r->model, t, length, r->encoded ? r->sources[t->source] : NULL,
                  r->encoded ? (size_t)r->lengths[t->source] : 0, got);
}

/* Some tokens for each row, and scores of the last, of some, or of all of them. */
static void rows_append(struct rows *r, struct qkv_random *random, size_t most) {
    static int32_t ids[ROWS * CONTEXT];
    static size_t scored[ROWS * CONTEXT], of_row[ROWS * CONTEXT], lengths[ROWS * CONTEXT];
    size_t counts[ROWS], tokens = 0, chosen = 0;
    const size_t kind = test_between(random, 0, 2);
    for (size_t row = 0; row < r->count; row++) {
        struct twin *t = &r->rows[row];
        counts[row] = test_between(random, 0, 3) ? test_between(random, 0, most) : 0;
        fixture_ids(random, t->ids + t->length, counts[row], V);
        memcpy(ids + tokens, t->ids + t->length, counts[row] * sizeof *ids);
        for (size_t i = 0; i < counts[row]; i++, tokens++) {
            const bool last = i + 1 == counts[row];
            if (kind == 0 ? !last : kind == 1 && test_between(random, 0, 9)) continue;
            of_row[chosen] = row, lengths[chosen] = t->length + i + 1;
            scored[chosen++] = tokens;
        }
        t->length += counts[row];
    }
    const struct qkv_decoder_input input = {
        .ids = ids, .counts = counts, .scored = kind ? scored : NULL, .scored_count = kind ? chosen : 0};
    assert_ok(ctx, qkv_decoder_append(r->decoder, &input));
    assert_int_equal(qkv_decoder_scored(r->decoder), chosen);
    for (size_t i = 0; i < chosen; i += 1 + (chosen > 20 ? chosen / 7 : 0))
        expect_row(r, of_row[i], lengths[i], qkv_decoder_logits(r->decoder) + i * V);
}

static void rows_select(struct rows *r, struct qkv_random *random) {
    struct rows old = *r;
    size_t from[ROWS];
    r->count = test_between(random, 1, ROWS);
    for (size_t i = 0; i < r->count; i++) {
        from[i] = (size_t)qkv_random_below(random, old.count);
        r->rows[i] = old.rows[from[i]];
    }
    assert_ok(ctx, qkv_decoder_select(r->decoder, from, r->count));
}

static void rows_walk(const char *json, bool encoded, const char *const *settings, size_t setting_count,
                      uint64_t stream) {
    static struct rows r;
    struct qkv_random random = test_random(stream);
    struct qkv_encoded *e = NULL;
    int32_t padded[2 * 8] = {0};
    size_t sources[ROWS] = {0};
    r = (struct rows){.count = ROWS, .encoded = encoded};
    r.model = fixture_model(ctx, json, settings, setting_count, 3, 0.2);
    for (size_t s = 0; s < 2; s++) {
        r.lengths[s] = (int32_t)test_between(&random, 1, 8);
        fixture_ids(&random, r.sources[s], 8, 17);
        memcpy(padded + s * 8, r.sources[s], sizeof r.sources[s]);
    }
    for (size_t i = 0; i < ROWS; i++) r.rows[i].source = sources[i] = (size_t)qkv_random_below(&random, 2);
    if (encoded) assert_ok(ctx, qkv_encode(r.model, padded, r.lengths, 2, 8, &e));
    assert_ok(ctx, qkv_decoder_create(
                       r.model,
                       &QKV_OPTIONS(qkv_decoder_options, .encoded = e, .sources = sources, .rows = ROWS, .chunk = 1),
                       &r.decoder));
    for (size_t i = 0; i < 14; i++) {
        const size_t row = (size_t)qkv_random_below(&random, r.count);
        rows_append(&r, &random, i % 5 == 3 ? 70 : 4);
        if (i % 3 == 1) rows_select(&r, &random);
        if (i % 4 == 2 && row < r.count) {
            const size_t length = test_between(&random, 0, r.rows[row].length);
            qkv_decoder_truncate(r.decoder, row, length);
            r.rows[row].length = length;
        }
        for (size_t k = 0; k < r.count; k++) assert_int_equal(qkv_decoder_row_length(r.decoder, k), r.rows[k].length);
    }
    qkv_decoder_free(r.decoder);
    qkv_encoded_free(e);
    qkv_model_free(r.model);
}

static void test_rows_of_different_lengths_have_the_bits_that_they_have_alone(void **state) {
    (void)state;
    static const char *const settings[] = {"decoder.attention.window=40", "decoder.attention.softcap=2",
                                           "position.kind=alibi"};
    for (uint64_t i = 0; i < 3; i++) {
        rows_walk(alone, false, settings, i, 100 + i);
        rows_walk(both, true, settings, i, 200 + i);
    }
    rows_walk(both, true, settings, 3, 300);
}

/* ---- a shared prefix -------------------------------------------------------------------------------------------- */

static void test_a_prefix_of_1000_tokens_is_stored_once_for_50_continuations(void **state) {
    (void)state;
    enum { MANY = 50, PREFIX = 1000 };
    struct qkv_model *m = fixture_model(ctx, alone, NULL, 0, 1, 0.2);
    struct qkv_random random = test_random(4);
    static struct twin t[MANY];
    static int32_t next[MANY];
    struct qkv_decoder *d;
    size_t from[MANY] = {0};
    const size_t length = PREFIX;
    const struct qkv_decoder_options options = {.size = sizeof options, .rows = MANY, .pages = 7 + 2 * MANY};
    assert_ok(ctx, qkv_decoder_create(m, &options, &d));
    assert_ok(ctx, qkv_decoder_select(d, from, 1));
    fixture_ids(&random, t[0].ids, PREFIX, V);
    t[0].length = PREFIX;
    assert_ok(ctx, qkv_decoder_append(d, &(struct qkv_decoder_input){.ids = t[0].ids, .counts = &length}));
    struct qkv_cache_pages pages = qkv_decoder_pages(d);
    assert_int_equal(pages.positions, 128);
    assert_int_equal(pages.count, 7 + 2 * MANY);
    assert_int_equal(pages.used, 8); /* 7 whole ones and 104 positions */
    assert_int_equal(pages.bytes, 128 * 2 * (2 * 4 + 2 * 4) * sizeof(float));
    assert_ok(ctx, qkv_decoder_select(d, from, MANY));
    assert_int_equal(qkv_decoder_pages(d).used, 8);
    assert_int_equal(qkv_decoder_scored(d), MANY);
    for (size_t i = 0; i < MANY; i++) t[i] = t[0];
    for (size_t i = 0; i < 30; i++) {
        fixture_ids(&random, next, MANY, V);
        for (size_t k = 0; k < MANY; k++) t[k].ids[t[k].length++] = next[k];
        assert_ok(ctx, qkv_decoder_step(d, next));
        /* The last page of the prefix has become one for each; at 1024 positions each has another. */
        assert_int_equal(qkv_decoder_pages(d).used, i < 24 ? 7 + MANY : 7 + 2 * MANY);
    }
    for (size_t k = 0; k < MANY; k += 7) expect_scores(m, &t[k], t[k].length, NULL, 0, qkv_decoder_logits(d) + k * V);
    qkv_decoder_free(d);
    qkv_model_free(m);
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

static void test_forks_of_sessions_go_their_own_way(void **state) {
    (void)state;
    enum { SESSIONS = 5 };
    struct qkv_model *m = fixture_model(ctx, alone, NULL, 0, 2, 0.2);
    struct qkv_random random = test_random(5);
    static struct twin t[SESSIONS];
    struct qkv_session *s[SESSIONS] = {0};
    memset(t, 0, sizeof t);
    assert_ok(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .pages = 24), &s[0]));
    for (size_t i = 0; i < 60; i++) {
        const size_t a = (size_t)qkv_random_below(&random, SESSIONS), b = (size_t)qkv_random_below(&random, SESSIONS);
        if (!s[a]) continue;
        if (!s[b]) {
            assert_ok(ctx, qkv_session_fork(s[a], &s[b]));
            t[b] = t[a];
            if (qkv_session_logits(s[a]))
                assert_memory_equal(qkv_session_logits(s[b]), qkv_session_logits(s[a]), V * sizeof(float));
        } else if (a != b && i % 7 == 0) {
            qkv_session_free(s[a]);
            s[a] = NULL;
            continue;
        } else if (i % 5 == 0) {
            t[a].length = test_between(&random, 0, t[a].length);
            qkv_session_truncate(s[a], t[a].length);
        }
        size_t n = test_between(&random, 1, i % 4 ? 6 : 300);
        if (n > 400 - t[a].length % 400) n = 400 - t[a].length % 400;
        if (t[a].length + n > 500) continue;
        fixture_ids(&random, t[a].ids + t[a].length, n, V);
        assert_ok(ctx, qkv_session_append(s[a], t[a].ids + t[a].length, n));
        t[a].length += n;
        expect_scores(m, &t[a], t[a].length, NULL, 0, qkv_session_logits(s[a]));
    }
    size_t pages = 0;
    for (size_t i = 0; i < SESSIONS; i++) {
        if (s[i]) assert_int_equal(qkv_session_length(s[i]), t[i].length);
        if (s[i]) pages = qkv_session_pages(s[i]).count;
    }
    assert_int_equal(pages, 24);
    for (size_t i = 0; i < SESSIONS; i++) qkv_session_free(s[i]);
    qkv_model_free(m);
}

static void test_scores_behind_any_tokens_are_those_of_steps(void **state) {
    (void)state;
    struct qkv_model *m = fixture_model(ctx, alone, NULL, 0, 2, 0.2);
    struct qkv_random random = test_random(6);
    static struct twin t;
    static const size_t scored[] = {0, 1, 255, 256, 300, 599};
    struct qkv_session *s;
    assert_ok(ctx, qkv_session_create(m, NULL, &s));
    fixture_ids(&random, t.ids, 600, V);
    assert_ok(ctx, qkv_session_score(s, t.ids, 600, scored, TEST_COUNT(scored)));
    for (size_t i = 0; i < TEST_COUNT(scored); i++)
        expect_scores(m, &t, scored[i] + 1, NULL, 0, qkv_session_logits(s) + i * V);
    assert_fails(ctx, qkv_session_score(s, t.ids, 3, (const size_t[]){3}, 1), QKV_ARGUMENT, "token 3 of 3");
    assert_fails(ctx, qkv_session_score(s, t.ids, 3, (const size_t[]){1, 1}, 2), QKV_ARGUMENT, "each once, in order");
    assert_fails(ctx, qkv_session_score(s, t.ids, 3, NULL, 0), QKV_ARGUMENT, "name the tokens");
    assert_int_equal(qkv_session_length(s), 600);
    qkv_session_free(s);
    qkv_model_free(m);
}

/* ---- a full cache ----------------------------------------------------------------------------------------------- */

static void test_a_full_cache_says_what_is_missing_and_loses_nothing(void **state) {
    (void)state;
    struct qkv_model *m = fixture_model(ctx, alone, NULL, 0, 2, 0.2);
    struct qkv_random random = test_random(7);
    static struct twin t;
    struct qkv_session *s, *fork;
    float before[V];
    fixture_ids(&random, t.ids, 600, V);
    assert_ok(ctx, qkv_session_create(m, &QKV_OPTIONS(qkv_session_options, .pages = 3), &s));
    assert_ok(ctx, qkv_session_append(s, t.ids, 200));
    assert_ok(ctx, qkv_session_fork(s, &fork));
    memcpy(before, qkv_session_logits(s), sizeof before);
    assert_fails(
        ctx, qkv_session_append(s, t.ids + 200, 300), QKV_FULL,
        "the KV cache is full: 2 pages are missing (3 more are needed, and 1 of its 3 pages, of 128 positions each, "
        "are free)");
    assert_int_equal(qkv_session_length(s), 200);
    assert_int_equal(qkv_session_pages(s).used, 2);
    assert_memory_equal(qkv_session_logits(s), before, sizeof before);
    assert_ok(ctx, qkv_session_append(fork, t.ids + 200, 10));
    assert_int_equal(qkv_session_pages(s).used, 3);
    expect_scores(m, &t, 210, NULL, 0, qkv_session_logits(fork));
    assert_ok(ctx, qkv_session_append(s, t.ids + 200, 20)); /* its page is its own again */
    expect_scores(m, &t, 220, NULL, 0, qkv_session_logits(s));
    assert_fails(ctx, qkv_session_append(s, t.ids + 220, 100), QKV_FULL, "1 pages are missing");
    qkv_session_free(fork);
    assert_ok(ctx, qkv_session_append(s, t.ids + 220, 100));
    expect_scores(m, &t, 320, NULL, 0, qkv_session_logits(s));
    qkv_session_free(s);
    qkv_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_different_lengths_have_the_bits_that_they_have_alone),
        cmocka_unit_test(test_a_prefix_of_1000_tokens_is_stored_once_for_50_continuations),
        cmocka_unit_test(test_forks_of_sessions_go_their_own_way),
        cmocka_unit_test(test_scores_behind_any_tokens_are_those_of_steps),
        cmocka_unit_test(test_a_full_cache_says_what_is_missing_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
