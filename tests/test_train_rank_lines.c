/* Files of lines that several ranks tokenize together: the same token files and facts as on one rank; before the
 * first step, the other ranks send their share of the ids to rank 0, and nothing else. */
#include "rank_fixture.h"

#include "lines_fixture.h"

enum { LINES = 60000 };

static const char words_json[] = START "\"head\":{\"kind\":\"classify_tokens\"},"
                                       "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
static const char text_json[] = START "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";

static size_t sent_before[RANKS_MOST]; /* to rank 0, before the first step */

static void note_sent(struct qkv_trainer *trainer, int64_t step, int rank) {
    (void)trainer;
    if (step == 0) sent_before[rank] = rank_sent[rank];
}

/* Words and their labels, sentences of one to four; or the same as lines of text. */
static void write_words(const char *path, bool labels) {
    struct qkv_random random = qkv_random_start(test_seed(), 9);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < LINES; i++) {
        for (size_t words = 1 + (size_t)qkv_random_below(&random, 4); words; words--) {
            const int n = 2 + (int)qkv_random_below(&random, 3);
            char word[8] = "";
            for (int k = 0; k < n; k++) word[k] = (char)('a' + qkv_random_below(&random, 5));
            assert_ok(ctx, labels ? qkv_buffer_print(ctx, &text, "%s\t%s\n", word, n % 2 ? "odd" : "even")
                                  : qkv_buffer_print(ctx, &text, "%s%s", word, words > 1 ? " " : ""));
        }
        assert_ok(ctx, qkv_buffer_append(ctx, &text, "\n", 1));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static void assert_same_file(const char *a, const char *b, const char *name, size_t *size) {
    size_t other;
    char *x = fixture_read(a, name, size), *y = fixture_read(b, name, &other);
    assert_int_equal(*size, other);
    assert_memory_equal(x, y, other);
    free(x);
    free(y);
}

/* With 2 and 3 ranks as with one. */
static void expect_shared(struct run *run, const char *name) {
    char folders[4][1024];
    run->until = run->options.steps = 1;
    run->options.batch = 6, run->options.groups = 3, run->options.warmup = 0;
    run->options.precision = "fp32", run->options.tokenizer = "bytes", run->options.long_lines = "skip";
    fixture_no_validation(&run->options);
    run->disturbs = note_sent;
    for (int ranks = 1; ranks <= 3; ranks++) {
        size_t size, beside;
        snprintf(folders[ranks], sizeof folders[0], "%s %d", test_path(name), ranks);
        test_remove_tree(folders[ranks]);
        run->folder = folders[ranks];
        expect_run(run, ranks);
        assert_same_file(folders[1], folders[ranks], "tokens.data.bin", &size);
        assert_same_file(folders[1], folders[ranks], "tokens.data.beside.bin", &beside);
        assert_same_runs(ctx, folders[1], folders[ranks]);
        /* Half of an equal share; ids have two bytes in the file and four in a message; with the option mask_each
         * the file repeats lines. */
        const size_t ids = run->options.mask_each ? LINES : size / 2;
        for (int r = 1; r < ranks; r++)
            if (sent_before[r] < 4 * ids / (size_t)ranks / 2)
                fail_msg("rank %d of %d has sent %zu bytes of %zu ids", r, ranks, sent_before[r], ids);
    }
}

static void pairs_are_shared(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(pair_json, NULL);
    struct run run = {.spec = &spec, .options = options_of(false, "pairs.tsv", 2 * LINES)};
    expect_shared(&run, "pairs");
    run.options.source_tokenizer = "shared";
    expect_shared(&run, "one tokenizer");
}

static void labelled_lines_are_shared(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(class_json, NULL);
    struct run run = {.spec = &spec, .options = options_of(true, "labels.tsv", 2 * LINES)};
    expect_shared(&run, "labels");
}

static void labelled_words_are_shared_by_whole_sentences(void **state) {
    (void)state;
    char path[1024];
    OWNED_SPEC struct qkv_spec spec = spec_of(words_json, NULL);
    struct run run = {.spec = &spec, .options = options_of(true, "words.tsv", 0)};
    snprintf(path, sizeof path, "%s", test_path("words.tsv"));
    write_words(path, true);
    expect_shared(&run, "words");
}

static void lines_of_text_are_shared(void **state) {
    (void)state;
    char path[1024];
    OWNED_SPEC struct qkv_spec spec = spec_of(text_json, NULL);
    struct run run = {.spec = &spec, .options = options_of(true, "text.txt", 0)};
    snprintf(path, sizeof path, "%s", test_path("text.txt"));
    write_words(path, false);
    run.options.labeled = NULL, run.options.lines = path;
    expect_shared(&run, "text");
    static const char *const both_sides = "decoder.attention.causal=false";
    qkv_spec_free(&spec);
    spec = spec_of(text_json, both_sides);
    run.options.task = "mlm", run.options.mask_each = true;
    run.options.precision = "fp32";
    expect_shared(&run, "each");
}

static void a_bad_line_on_any_rank_is_the_sentence_of_one_rank(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(text_json, NULL);
    struct run run = {.spec = &spec, .options = options_of(true, "text.txt", 0), .until = 1};
    char path[1024], messages[4][1024];
    size_t size;
    snprintf(path, sizeof path, "%s", test_path("text.txt"));
    write_words(path, false);
    char *text = fixture_read(test_path("."), "text.txt", &size);
    struct qkv_random random = qkv_random_start(test_seed(), 11);
    run.options.labeled = NULL, run.options.lines = path, run.options.tokenizer = "bytes";
    run.options.batch = 6, run.options.groups = 3, run.options.steps = 1, run.options.warmup = 0;
    for (int place = 0; place < 4; place++) { /* in each of three pieces, and anywhere */
        const size_t from = place < 3 ? (size_t)place << 18 : 0, room = place < 3 ? (1 << 18) - 64 : size - 64;
        const size_t at = from + (size_t)qkv_random_below(&random, qkv_min(room, size - from - 64));
        char kept[40];
        memcpy(kept, text + at, sizeof kept);
        for (size_t i = 0; i < sizeof kept; i++)
            if (text[at + i] == '\n') text[at + i] = 'x';
        test_write_file(path, text, size);
        for (int ranks = 1; ranks <= 3; ranks++) {
            run.folder = fixture_run("refused");
            assert_int_equal(run_ranks(&run, ranks, messages[ranks]), QKV_FORMAT);
            assert_string_equal(messages[ranks], messages[1]);
            assert_non_null(strstr(messages[ranks], "text.txt:"));
            assert_false(fixture_has(run.folder, "train.json"));
        }
        memcpy(text + at, kept, sizeof kept);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_shared),
        cmocka_unit_test(labelled_lines_are_shared),
        cmocka_unit_test(labelled_words_are_shared_by_whole_sentences),
        cmocka_unit_test(lines_of_text_are_shared),
        cmocka_unit_test(a_bad_line_on_any_rank_is_the_sentence_of_one_rank),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
