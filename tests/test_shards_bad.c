/* Shards of bad input: lines and files that are left out, texts that a tokenizer refuses, an index that lies, and a
 * file that cannot be written. */
/* labels: quick */
#include "shards_fixture.h"

#include <signal.h>
#include <unistd.h>

#include <sys/resource.h>

/* Whatever the index says, shards are made if it lacks them. */
static void an_index_without_shards_is_not_complete(void **state) {
    struct made first = {0}, again = {0};
    const char *folder = test_path("shards-hostile");
    (void)state;
    assert_ok(ctx, make(ctx, folder, false, NULL, &first));
    char *path = strdup(first.shards.paths[0]);
    assert_non_null(path);
    memcpy(strrchr(path, '-'), ".json", sizeof ".json");
    for (int round = 0; round < 2; round++) {
        size_t size = 0;
        char *text = test_read_file(path, &size), *begin, *end;
        text = realloc(text, size + 1);
        assert_non_null(text);
        text[size] = 0;
        begin = strstr(text, round ? "qkv shards" : "\"shards\":[");
        assert_non_null(begin);
        if (round) {
            *begin = 'x'; /* another format */
        } else {          /* no shards, and complete */
            begin = strchr(begin, '[') + 1;
            end = strstr(begin, "]");
            assert_non_null(end);
            memmove(begin, end, size - (size_t)(end - text));
            size -= (size_t)(end - begin);
            assert_non_null(strstr(text, "\"complete\":true"));
        }
        test_write_file(path, text, size);
        free(text);
        calls_left = 1000;
        assert_ok(ctx, make(ctx, folder, false, count_calls, &again));
        assert_true(calls_left < 1000);
        same_shards(&first, &again);
        unmake(&again);
    }
    free(path);
    unmake(&first);
}

/* A failure to write is no file that has changed. */
static void missing_shards_that_cannot_be_written_say_why(void **state) {
    struct made first = {0}, again = {0};
    const char *folder = test_path("shards-full");
    struct rlimit limit;
    (void)state;
    assert_ok(ctx, make(ctx, folder, false, NULL, &first));
    for (size_t i = 0; i < first.shards.count; i++) assert_int_equal(unlink(first.shards.paths[i]), 0);
    char *path = strdup(first.shards.paths[0]);
    assert_non_null(path);
    memcpy(strrchr(path, '-'), ".json", sizeof ".json");
    assert_int_equal(unlink(path), 0);
    free(path);
    again.facts = first.facts;
    assert_ok(ctx, qkv_text_files_copy(ctx, &first.files, &again.files));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 16, limit.rlim_max}), 0);
    const enum qkv_status status = make(ctx, folder, false, NULL, &again);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, QKV_FILE);
    assert_message(ctx, "-00000.bin");
    assert_null(strstr(qkv_message(ctx), "has changed"));
    unmake(&again);
    unmake(&first);
}

static void bad_lines_and_files_are_named_or_left_out(void **state) {
    static const char good[] = "{\"text\": \"a good line\"}\n";
    const int lines = 150000;
    struct qkv_buffer text = {0};
    struct made made = {0};
    (void)state;
    for (int i = 0; i < lines; i++) /* of several blocks, with a bad line in the first and in the last of them */
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s",
                                        i == 15000        ? "{\"body\": 1}\n"
                                        : i == lines - 10 ? "{\"text\": \"never ends\n"
                                                          : good));
    assert_true(text.size > 3 << 20);
    const struct qkv_texts had = corpus;
    corpus = (struct qkv_texts){0};
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("bad.jsonl")));
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("zero.txt")));
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("fine.txt")));
    test_write_file(test_path("bad.jsonl"), text.data, text.size);
    test_write_file(test_path("zero.txt"), "one\ntwo\0three\n", 14);
    test_write_file(test_path("fine.txt"), "fine\n", 5);
    assert_status(ctx, make(ctx, test_path("shards-bad"), false, NULL, &made), QKV_FORMAT);
    assert_message(ctx, "bad.jsonl:15001: the object has no key text; it has body; name the key of the text with "
                        "text_key");
    unmake(&made);
    assert_ok(ctx, make(ctx, test_path("shards-bad"), true, NULL, &made));
    assert_int_equal(made.notes.count, 2);
    assert_non_null(strstr(made.notes.items[0], "skip_bad: 2 lines are left out, the first one because "));
    assert_non_null(strstr(made.notes.items[0], "bad.jsonl:15001: "));
    assert_non_null(strstr(made.notes.items[1], "skip_bad: 1 file is left out, the first one because "));
    assert_non_null(strstr(made.notes.items[1], "zero.txt:2: there is a NUL byte"));
    uint64_t documents = 0;
    for (size_t i = 0; i < made.shards.count; i++) documents += made.shards.items[i].documents;
    assert_int_equal(documents, lines - 2 + 1);
    /* A shard that is made again leaves the notes as they were. */
    char *note = strdup(made.notes.items[0]);
    assert_non_null(note);
    assert_true(made.shards.count > 2);
    assert_int_equal(unlink(made.shards.paths[made.shards.count - 1]), 0);
    unmake(&made);
    assert_ok(ctx, make(ctx, test_path("shards-bad"), true, NULL, &made));
    assert_int_equal(made.notes.count, 3);
    assert_string_equal(made.notes.items[1], note);
    free(note);
    unmake(&made);
    qkv_texts_free(&corpus);
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("empty.txt")));
    test_write_file(test_path("empty.txt"), "", 0);
    assert_status(ctx, make(ctx, test_path("shards-empty"), false, NULL, &made), QKV_FORMAT);
    assert_message(ctx, "there is no document in");
    unmake(&made);
    qkv_texts_free(&corpus);
    corpus = had;
    qkv_buffer_free(&text);
}

/* A NUL byte behind the first block of a plain file: the text before it is a document of its own, wherever the byte is
 * in its block. */
static void the_text_before_a_nul_byte_is_a_document(void **state) {
    static const size_t places[] = {(1 << 20) + 1, (1 << 20) + 77, 1500000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1};
    const struct qkv_texts had = corpus;
    enum { SIZE = (5 << 20) / 2 };
    char *text = malloc(SIZE);
    (void)state;
    assert_non_null(text);
    test_write_file(test_path("after.txt"), "after\n", 6);
    for (size_t i = 0; i < TEST_COUNT(places); i++) {
        struct made made = {0};
        corpus = (struct qkv_texts){0};
        for (size_t k = 0; k < SIZE; k++) text[k] = k % 5 == 4 ? '\n' : 'a';
        text[places[i]] = 0;
        test_write_file(test_path("nul.txt"), text, SIZE);
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("nul.txt")));
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("after.txt")));
        char name[32];
        snprintf(name, sizeof name, "shards-nul%zu", i);
        assert_status(ctx, make(ctx, test_path(name), false, NULL, &made), QKV_FORMAT);
        assert_message(ctx, "there is a NUL byte");
        unmake(&made);
        assert_ok(ctx, make(ctx, test_path(name), true, NULL, &made));
        assert_int_equal(made.notes.count, 1);
        uint64_t documents = 0, bytes = 0;
        for (size_t k = 0; k < made.shards.count; k++) {
            documents += made.shards.items[k].documents;
            bytes += made.shards.items[k].bytes;
        }
        assert_int_equal(documents, 2);
        assert_int_equal(bytes, places[i] + 6);
        unmake(&made);
        test_write_file(test_path("nul.txt"), text, SIZE); /* all its bytes are compared */
        calls_left = 1000;
        assert_ok(ctx, make(ctx, test_path(name), true, only_comparing, &made));
        unmake(&made);
        qkv_texts_free(&corpus);
    }
    corpus = had;
    free(text);
}

/* A word that a tokenizer does not know fails with its place, or its texts are left out, and no others. */
static void texts_that_the_tokenizer_refuses_are_named_or_left_out(void **state) {
    static const char *const specials[] = {QKV_TOKEN_TEXT_END};
    const struct qkv_texts had = corpus;
    struct qkv_tokenizer *learnt = tokenizer;
    struct made made = {0};
    (void)state;
    test_write_file(test_path("known.txt"), "one two three\n", 14);
    const char *files[] = {test_path("known.txt")};
    assert_ok(ctx, qkv_tokenizer_learn(ctx, "whitespace", files, 1, NULL, specials, 1, NULL, NULL, &tokenizer));
    for (int json = 0; json < 2; json++) {
        corpus = (struct qkv_texts){0};
        const char *path = test_path(json ? "words.jsonl" : "words.txt"),
                   *text = json ? "{\"text\": \"one two\"}\n{\"text\": \"one four\"}\n{\"text\": \"three\"}\n"
                                : "one two\nfour three\n";
        test_write_file(path, text, strlen(text));
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", path));
        assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", test_path("known.txt")));
        assert_status(ctx, make(ctx, test_path("shards-words"), false, NULL, &made), QKV_FORMAT);
        assert_message(ctx, json ? "words.jsonl:2: \"four\" is no word" : ", at lines 1 to 2 of ");
        assert_message(ctx, "\"four\" is no word of the vocabulary");
        unmake(&made);
        assert_ok(ctx, make(ctx, test_path("shards-words"), true, NULL, &made));
        assert_int_equal(made.notes.count, 1);
        assert_non_null(strstr(made.notes.items[0], json ? "skip_bad: 1 line is left out, the first one because "
                                                         : "skip_bad: 2 lines are left out, the first one because "));
        assert_non_null(strstr(made.notes.items[0], "\"four\" is no word"));
        assert_int_equal(made.shards.items[0].documents, json ? 3 : 1);
        assert_int_equal(made.facts.tokens, json ? 2 + 1 + 1 + 1 + 3 + 1 : 3 + 1);
        unmake(&made);
        qkv_texts_free(&corpus);
    }
    qkv_tokenizer_free(tokenizer);
    tokenizer = learnt;
    corpus = had;
}

/* Shards that are made again of a text that has changed, in place and with its size, are those of no run. */
static void shards_of_another_text_are_not_left_behind(void **state) {
    const struct qkv_texts had = corpus;
    struct made made = {0};
    char before[] = "{\"text\": \"one two\"}\n{\"text\": \"three\"}\n";
    const char *folder = test_path("shards-changed"), *path = test_path("changed.jsonl");
    (void)state;
    test_remove_tree(folder);
    corpus = (struct qkv_texts){0};
    test_write_file(path, before, strlen(before));
    assert_ok(ctx, qkv_texts_add(ctx, &corpus, "%s", path));
    assert_ok(ctx, make(ctx, folder, false, NULL, &made));
    char *shard = qkv_copy_string(ctx, made.shards.paths[0]);
    qkv_shards_close(&made.shards);
    char *index = qkv_copy_string(ctx, shard);
    snprintf(strrchr(index, '-'), 6, ".json");
    assert_true(qkv_file_exists(index));
    for (int same = 0; same < 2; same++) { /* first the other text, then the one that it was */
        before[10] = same ? 'o' : 'u';
        assert_int_equal(unlink(shard), 0);
        test_write_file(path, before, strlen(before));
        if (same) {
            assert_ok(ctx, make(ctx, folder, false, NULL, &made));
        } else {
            assert_status(ctx, make(ctx, folder, false, NULL, &made), QKV_FORMAT);
            assert_message(ctx, "changed.jsonl has changed since the run began");
        }
        assert_int_equal(qkv_file_exists(index), same);
        qkv_shards_close(&made.shards);
    }
    free(index);
    free(shard);
    unmake(&made);
    qkv_texts_free(&corpus);
    corpus = had;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_without_shards_is_not_complete),
        cmocka_unit_test(missing_shards_that_cannot_be_written_say_why),
        cmocka_unit_test(bad_lines_and_files_are_named_or_left_out),
        cmocka_unit_test(the_text_before_a_nul_byte_is_a_document),
        cmocka_unit_test(texts_that_the_tokenizer_refuses_are_named_or_left_out),
        cmocka_unit_test(shards_of_another_text_are_not_left_behind),
    };
    return cmocka_run_group_tests(tests, corpus_setup, corpus_teardown);
}
