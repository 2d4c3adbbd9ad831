/* Training on lines longer than the context: the same run as one on a file whose lines were cut, or left out, by
 * hand. A character is a token. */
/* labels: quick */
#include "lines_fixture.h"

enum { LINES = 80, CONTEXT = 16, MOST_PAIR = CONTEXT - 1, MOST_TEXT = CONTEXT - 2 };

static const struct {
    const char *name;
    enum qkv_long kind;
} kinds[] = {{"skip", QKV_LONG_SKIP}, {"keep-start", QKV_LONG_KEEP_START}, {"keep-end", QKV_LONG_KEEP_END}};

static void long_word(struct qkv_random *random, char *word, size_t n) {
    for (size_t i = 0; i < n; i++) word[i] = (char)('a' + qkv_random_below(random, 5));
    word[n] = 0;
}

/* The rest of a word after the cut. */
static const char *long_left(const char *word, size_t most, enum qkv_long kind, char left[32]) {
    const size_t n = strlen(word), kept = n < most ? n : most;
    snprintf(left, 32, "%.*s", (int)kept, word + (kind == QKV_LONG_KEEP_END ? n - kept : 0));
    return left;
}

/* The lines as they are in `whole`, and in `cut` as `kind` leaves them; how many are too long. */
static size_t long_files(const char *whole, const char *cut, bool labels, enum qkv_long kind) {
    struct qkv_random random = test_random(5);
    struct qkv_buffer a = {0}, b = {0};
    const size_t most = labels ? MOST_TEXT : MOST_PAIR;
    size_t found = 0;
    for (size_t i = 0; i < LINES; i++) {
        char first[32], second[32], left[2][32];
        long_word(&random, first, 1 + (size_t)qkv_random_below(&random, 22));
        long_word(&random, second,
                  i == 0 ? 25 : 1 + (size_t)qkv_random_below(&random, 22)); /* at least one is too long */
        if (labels) snprintf(first, sizeof first, "%s", i % 2 ? "odd" : "even");
        const bool longer = strlen(first) > most || strlen(second) > most;
        found += longer;
        assert_ok(ctx, qkv_buffer_print(ctx, &a, "%s\t%s\n", first, second));
        if (longer && kind == QKV_LONG_SKIP) continue;
        assert_ok(ctx, qkv_buffer_print(ctx, &b, "%s\t%s\n", long_left(first, most, kind, left[0]),
                                        long_left(second, most, kind, left[1])));
    }
    test_write_file(whole, a.data, a.size);
    test_write_file(cut, b.data, b.size);
    qkv_buffer_free(&a);
    qkv_buffer_free(&b);
    return found;
}

/* The run's losses, and both of its token files. */
static double long_run(bool labels, const char *folder, const struct qkv_train_options *o, char sentence[256]) {
    struct qkv_trainer *trainer = begin(labels, folder, o);
    sentence[0] = 0;
    for (size_t i = 0; qkv_trainer_note(trainer, i); i++)
        if (strstr(qkv_trainer_note(trainer, i), "more tokens than the context"))
            snprintf(sentence, 256, "%s", qkv_trainer_note(trainer, i));
    const double loss = fixture_steps(ctx, trainer, o->steps).loss;
    qkv_trainer_free(trainer);
    return loss;
}

static void same_file(const char *a, const char *b, const char *name) {
    size_t n, m;
    char *x = fixture_read(a, name, &n), *y = fixture_read(b, name, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x + 64, y + 64, n - 64); /* the front names the text */
    free(x);
    free(y);
}

static void a_run_on_long_lines_is_one_on_lines_cut_by_hand(void **state) {
    (void)state;
    for (size_t k = 0; k < 2 * TEST_COUNT(kinds); k++) {
        const bool labels = k % 2;
        char whole[1024], cut[1024], folder[1024], other[1024], sentence[256], expected[128];
        struct qkv_train_options o = options_of(labels, "long.tsv", 0);
        snprintf(whole, sizeof whole, "%s", labels ? o.labeled : o.pairs);
        snprintf(cut, sizeof cut, "%s", test_path("cut.tsv"));
        const size_t found = long_files(whole, cut, labels, kinds[k / 2].kind);
        o.tokenizer = "bytes"; /* "chars" would be learnt from the whole lines */
        o.long_lines = kinds[k / 2].name;
        o.steps = 4;
        snprintf(folder, sizeof folder, "%s", fixture_run("long"));
        snprintf(other, sizeof other, "%s", fixture_run("cut"));
        const double loss = long_run(labels, folder, &o, sentence);
        snprintf(expected, sizeof expected, "%zu of %d lines of ", found, LINES);
        assert_non_null(strstr(sentence, expected));
        assert_non_null(strstr(sentence, qkv_long_done(kinds[k / 2].kind)));
        o.long_lines = "error";
        if (labels)
            o.labeled = cut;
        else
            o.pairs = cut;
        assert_true(loss == long_run(labels, other, &o, sentence));
        assert_string_equal(sentence, "");
        same_file(folder, other, "tokens.data.bin");
    }
}

/* Lines of text, each between <s> and </s>. */
static void long_lines_of_text_are_cut_too(void **state) {
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
        struct qkv_random random = test_random(6);
        struct qkv_buffer text[2] = {{0}, {0}};
        char paths[2][1024], folders[2][1024];
        double loss[2];
        size_t found = 0;
        for (size_t i = 0; i < LINES; i++) {
            char word[32], left[32];
            long_word(&random, word, i == 0 ? 25 : 1 + (size_t)qkv_random_below(&random, 22));
            const bool longer = strlen(word) > MOST_TEXT;
            found += longer;
            assert_ok(ctx, qkv_buffer_print(ctx, &text[0], "%s\n", word));
            if (!longer || kinds[k].kind != QKV_LONG_SKIP)
                assert_ok(ctx,
                          qkv_buffer_print(ctx, &text[1], "%s\n", long_left(word, MOST_TEXT, kinds[k].kind, left)));
        }
        for (size_t i = 0; i < 2; i++) {
            struct qkv_train_options o = fixture_options(ctx);
            OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
            struct qkv_trainer *trainer;
            snprintf(paths[i], sizeof paths[i], "%s", test_path(i ? "cut.txt" : "long.txt"));
            snprintf(folders[i], sizeof folders[i], "%s", fixture_run(i ? "cut" : "long"));
            test_write_file(paths[i], text[i].data, text[i].size);
            qkv_buffer_free(&text[i]);
            o.data = NULL;
            o.lines = paths[i];
            o.tokenizer = "bytes";
            if (i == 0) o.long_lines = kinds[k].name;
            assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folders[i], NULL, NULL, &trainer));
            loss[i] = fixture_steps(ctx, trainer, o.steps).loss;
            qkv_trainer_free(trainer);
        }
        assert_true(found > 0 && loss[0] == loss[1]);
        same_file(folders[0], folders[1], "tokens.data.bin");
    }
}

/* The option is the run's: token files that are missing are made again by it, and it cannot become another. */
static void a_run_goes_on_with_what_it_did_to_long_lines(void **state) {
    (void)state;
    char whole[1024], folder[1024], tokens[1100];
    struct qkv_train_options o = options_of(false, "long.tsv", 0);
    snprintf(whole, sizeof whole, "%s", o.pairs);
    const size_t found = long_files(whole, test_path("cut.tsv"), false, QKV_LONG_KEEP_END);
    o.long_lines = "keep-end";
    o.steps = 8;
    snprintf(folder, sizeof folder, "%s", fixture_run("again"));
    struct qkv_trainer *trainer = begin(false, folder, &o);
    fixture_steps(ctx, trainer, 4);
    qkv_trainer_free(trainer);
    size_t n, m;
    char *record = fixture_read(folder, "train.json", NULL), *before = fixture_read(folder, "tokens.data.bin", &n);
    char expected[64];
    assert_non_null(strstr(record, "\"long\": \"keep-end\""));
    snprintf(expected, sizeof expected, "\"long\": %zu", found);
    assert_non_null(strstr(record, expected));
    snprintf(tokens, sizeof tokens, "%s/tokens.data.bin", folder);
    assert_int_equal(unlink(tokens), 0);
    trainer = resume(folder);
    char *after = fixture_read(folder, "tokens.data.bin", &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    fixture_steps(ctx, trainer, 8);
    qkv_trainer_free(trainer);
    const char *why;
    assert_false(qkv_train_may_change("long", &why));
    free(record);
    free(before);
    free(after);
}

static void long_is_refused_where_it_means_nothing(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "long.tsv", 0);
    assert_ok(ctx, qkv_train_set(ctx, &o, "long", "sometimes"));
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "long is \"sometimes\"; it must be error, skip, keep-start or keep-end");
    o.long_lines = "skip";
    assert_ok(ctx, qkv_train_check(ctx, &o));
    struct qkv_train_options t = fixture_options(ctx);
    assert_ok(ctx, qkv_train_set(ctx, &t, "long", "skip"));
    assert_status(ctx, qkv_train_check(ctx, &t), QKV_ARGUMENT);
    assert_message(ctx, "long is given, but the windows of a text are all as long as the context");
    test_write_file(o.pairs, "abcdefghijklmnopqrst\tb\nab\tabcdefghijklmnopqrst\n", 47);
    OWNED_SPEC struct qkv_spec spec = spec_of(pair_json, NULL);
    struct qkv_trainer *trainer;
    fixture_no_validation(&o);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("none"), NULL, NULL, &trainer), QKV_ARGUMENT);
    assert_message(ctx, "long.tsv has more tokens than the context of 16, so long skip leaves none");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_on_long_lines_is_one_on_lines_cut_by_hand),
        cmocka_unit_test(long_lines_of_text_are_cut_too),
        cmocka_unit_test(a_run_goes_on_with_what_it_did_to_long_lines),
        cmocka_unit_test(long_is_refused_where_it_means_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
