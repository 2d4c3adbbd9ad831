/* Translating lines of text: blank ones, one of many and one alone, stopping, and refusals. test_search tests the
 * results of the search. */
/* labels: numeric quick */
#include "search_fixture.h"

static struct qkv_context *ctx;

static const char text[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 258, \"source_vocab\": 258, \"d_model\": 16, \"context\": 20, "
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

static void give_tokenizer(struct qkv_model *m, size_t specials) {
    static const char *const names[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};
    struct qkv_tokenizer *t;
    struct qkv_tokenizer_options o = {
        .size = sizeof o, .kind = QKV_TOKENIZER_BYTES, .specials = names, .special_count = specials};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &o, NULL, 0, &t));
    assert_ok(ctx, qkv_model_set_tokenizer(m, t));
}

struct page {
    char lines[1500][4][100];
    size_t ranks[1500], count, limit, calls;
    double scores[1500][4];
};

static bool take_line(void *user, size_t line, size_t rank, const char *translated, size_t size, double score) {
    struct page *p = user;
    assert_true(line == p->count || (line + 1 == p->count && rank == p->ranks[line]));
    assert_true(rank < 4 && size < 100);
    memcpy(p->lines[line][rank], translated, size);
    p->scores[line][rank] = score;
    p->ranks[line] = rank + 1;
    p->count = line + 1;
    return ++p->calls != p->limit;
}

static void lines_are_translated_as_they_would_be_alone(void **state) {
    (void)state;
    static struct page page, other;
    struct qkv_model *m = fixture_model(ctx, text, NULL, 0, 5, 0.2);
    static char store[1300][16];
    static const char *lines[1300];
    struct qkv_random random = test_random(7);
    give_tokenizer(m, 2);
    for (size_t i = 0; i < 1300; i++) {
        size_t n = i % 7 == 3 ? 0 : test_between(&random, 1, 15);
        memset(store[i], 0, 16);
        for (size_t k = 0; k < n; k++) store[i][k] = (char)test_between(&random, 33, 126);
        lines[i] = i == 20 ? " \t " : store[i];
    }
    struct qkv_search_options o = qkv_search_defaults();
    o.beam = 3, o.n_best = 2, o.max_tokens = 4;
    assert_ok(ctx, qkv_translate(m, lines, 1300, &o, take_line, &page));
    assert_int_equal(page.count, 1300);
    for (size_t i = 0; i < 1300; i++) {
        bool blank = i % 7 == 3 || i == 20;
        assert_int_equal(page.ranks[i], blank ? 1 : 2);
        if (blank) assert_true(page.lines[i][0][0] == 0 && page.scores[i][0] == 0);
        if (!blank) assert_true(page.scores[i][0] >= page.scores[i][1] && page.scores[i][0] < 0);
    }
    for (size_t i = 700; i < 720; i++) { /* a line alone */
        memset(&other, 0, sizeof other);
        assert_ok(ctx, qkv_translate(m, lines + i, 1, &o, take_line, &other));
        assert_memory_equal(page.lines[i], other.lines[0], sizeof page.lines[i]);
        assert_memory_equal(page.scores[i], other.scores[0], sizeof page.scores[i]);
    }
    memset(&other, 0, sizeof other);
    other.limit = 5;
    assert_fails(ctx, qkv_translate(m, lines, 1300, &o, take_line, &other), QKV_STOPPED, "stopped by the caller");
    assert_int_equal(other.calls, 5);
    assert_ok(ctx, qkv_translate(m, NULL, 0, &o, take_line, &other));
    memset(&other, 0, sizeof other);
    assert_ok(ctx, qkv_translate(m, (const char *const[]){"", "  "}, 2, &o, take_line, &other));
    assert_int_equal(other.count, 2);
    lines[1] = "this one is longer than that";
    assert_fails(ctx, qkv_translate(m, lines, 3, &o, take_line, &page), QKV_ARGUMENT,
                 "line 2 has 29 tokens, but the model's context is 20; shorten it");
    qkv_model_free(m);
}

static void what_cannot_translate_is_refused(void **state) {
    (void)state;
    const struct qkv_search_options good = qkv_search_defaults();
    struct qkv_model *m = fixture_model(ctx, text, NULL, 0, 5, 0.2);
    give_tokenizer(m, 1);
    assert_fails(ctx, qkv_translate(m, (const char *const[]){"a"}, 1, &good, take_line, NULL), QKV_ARGUMENT,
                 "no special token </s>");
    qkv_model_free(m);
    static const char *const alone[] = {"encoder=null"};
    m = fixture_model(ctx, text, alone, 1, 5, 0.2);
    assert_fails(ctx, qkv_translate(m, NULL, 0, &good, take_line, NULL), QKV_ARGUMENT,
                 "translate needs an encoder and a decoder; this model has a decoder alone; use generate");
    qkv_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_translated_as_they_would_be_alone),
        cmocka_unit_test(what_cannot_translate_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
