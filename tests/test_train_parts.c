/* Separate parts of training: random draws, hash, log, train.json, token files. */
/* labels: numeric */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(2)
#include "context_fixture.h"

/* ---- draws ------------------------------------------------------------------------------------------------------ */

static void windows_are_pure_and_cover_the_text(void **state) {
    (void)state;
    enum { WINDOWS = 50, STEPS = 400, ROWS = 25 };
    size_t hits[WINDOWS] = {0}, same_as_neighbour = 0;
    uint64_t seed = test_seed();
    for (uint64_t s = 0; s < STEPS; s++)
        for (uint64_t r = 0; r < ROWS; r++) {
            size_t start = qkv_draw_window(seed, s, r, WINDOWS);
            assert_true(start < WINDOWS);
            assert_int_equal(start, qkv_draw_window(seed, s, r, WINDOWS));
            same_as_neighbour += start == qkv_draw_window(seed, s, r + 1, WINDOWS);
            hits[start]++;
        }
    double chi = 0, expected = (double)STEPS * ROWS / WINDOWS;
    for (size_t i = 0; i < WINDOWS; i++) chi += ((double)hits[i] - expected) * ((double)hits[i] - expected) / expected;
    assert_true(chi < 110); /* 49 degrees of freedom: p < 1e-6 */
    assert_true(same_as_neighbour < STEPS * ROWS / WINDOWS * 2);
    assert_int_equal(qkv_draw_window(seed, 3, 4, 1), 0);
}

static void dropout_seeds_differ(void **state) {
    (void)state;
    uint64_t seeds[64];
    for (uint64_t s = 0; s < 8; s++)
        for (uint64_t k = 0; k < 8; k++) seeds[s * 8 + k] = qkv_draw_dropout(7, s, k);
    for (size_t i = 0; i < 64; i++)
        for (size_t j = 0; j < i; j++) assert_true(seeds[i] != seeds[j]);
    assert_true(qkv_draw_dropout(7, 2, 3) == seeds[19] && qkv_draw_dropout(8, 2, 3) != seeds[19]);
}

static void hash_is_fnv_1a(void **state) { /* vectors from the authors' test suite */
    (void)state;
    assert_true(qkv_hash(QKV_HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(qkv_hash(QKV_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(qkv_hash(QKV_HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_true(qkv_hash(qkv_hash(QKV_HASH_START, "foo", 3), "bar", 3) == UINT64_C(0x85944171f73967e8));
}

/* ---- log -------------------------------------------------------------------------------------------------------- */

static void write_lines(const char *folder, int64_t cut, int64_t first, int64_t last) {
    struct qkv_log log;
    struct qkv_log_strays strays;
    assert_ok(ctx, qkv_log_open(ctx, &log, folder));
    assert_ok(ctx, qkv_log_cut(ctx, &log, cut, &strays));
    for (int64_t s = first; s <= last; s++) {
        struct qkv_train_report report = {.step = s, .loss = 1.0 / (double)s, .norm = 2, .rate = 1e-3};
        report.evaluated = s % 2 == 0;
        report.valid_loss = 0.25;
        assert_ok(ctx, qkv_log_write(ctx, &log, &report, (uint64_t)s * 64));
    }
    assert_ok(ctx, qkv_log_sync(ctx, &log));
    qkv_log_close(&log);
}

static void log_is_cut_and_goes_on(void **state) {
    (void)state;
    const char *folder = fixture_run("log");
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    write_lines(folder, 0, 1, 5);
    size_t whole, size;
    char *first = fixture_read(folder, "log.jsonl", &whole), *again;
    assert_non_null(strstr(first, "{\"step\":1,\"loss\":1,\"norm\":2,\"rate\":0.001,\"tokens\":64,"));
    assert_non_null(strstr(first, "\"seconds\":0,\"valid_loss\":0.25}\n{\"step\":3,"));
    write_lines(folder, 3, 4, 5);
    again = fixture_read(folder, "log.jsonl", &size);
    assert_string_equal(again, first);
    free(again);
    static const char *const tails[] = {"{\"step\":6,\"lo", "{\"st", "{\"step\":9}\n",
                                        "{ \"loss\": 1, \"step\": 6 }\n"};
    for (size_t i = 0; i < TEST_COUNT(tails); i++) {
        char broken[4096];
        size_t n = whole + strlen(tails[i]);
        memcpy(broken, first, whole);
        memcpy(broken + whole, tails[i], strlen(tails[i]));
        fixture_write(folder, "log.jsonl", broken, n);
        write_lines(folder, 5, 6, 5);
        again = fixture_read(folder, "log.jsonl", &size);
        assert_string_equal(again, first);
        free(again);
    }
    free(first);
}

static void a_log_loses_only_lines_of_steps_past_the_checkpoint(void **state) {
    (void)state;
    static const struct {
        const char *before, *after;
        size_t strays, first;
    } cases[] = {
        {"", "", 0, 0},
        {"{\"step\":5,\"loss\":1}\n", "{\"step\":5,\"loss\":1}\n", 0, 0},
        {"{ \"loss\": 2, \"step\": 4}\n{\"step\":6}\n", "{ \"loss\": 2, \"step\": 4}\n", 0, 0},
        {"mine\n{\"step\":6}\n\n{\"step\":3}\n{\"step\":7}\n", "mine\n\n{\"step\":3}\n", 2, 1},
        {"{\"step\":1}\n{\"step\":2,,}\n{\"step\":9}\nend", "{\"step\":1}\n{\"step\":2,,}\nend\n", 2, 2},
        {"{\"step\":4,\"lo", "{\"step\":4,\"lo\n", 1, 1},
        {"{\"step\":5}", "{\"step\":5}\n", 0, 0},
        {"{\"step\":6}", "", 0, 0},
        {"[6]\n{\"step\":\"6\"}\n", "[6]\n{\"step\":\"6\"}\n", 2, 1},
    };
    const char *folder = fixture_run("strays");
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_log log, second;
        struct qkv_log_strays strays;
        size_t size;
        fixture_write(folder, "log.jsonl", cases[i].before, strlen(cases[i].before));
        assert_ok(ctx, qkv_log_open(ctx, &log, folder));
        assert_ok(ctx, qkv_log_cut(ctx, &log, 5, &strays));
        assert_int_equal(strays.count, cases[i].strays);
        assert_int_equal(strays.first, cases[i].first);
        char *text = fixture_read(folder, "log.jsonl", &size);
        assert_int_equal(size, strlen(cases[i].after));
        assert_memory_equal(text, cases[i].after, size);
        free(text);
        assert_int_equal(log.size, size);
        assert_status(ctx, qkv_log_open(ctx, &second, folder), QKV_FILE); /* whether it was replaced or not */
        qkv_log_close(&second);
        qkv_log_close(&log);
    }
}

static void log_is_locked(void **state) {
    (void)state;
    const char *folder = fixture_run("locked");
    struct qkv_log first, second;
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    assert_ok(ctx, qkv_log_open(ctx, &first, folder));
    assert_status(ctx, qkv_log_open(ctx, &second, folder), QKV_FILE);
    assert_message(ctx, "another process is training in this folder");
    qkv_log_close(&second);
    qkv_log_close(&first);
    assert_ok(ctx, qkv_log_open(ctx, &second, folder));
    qkv_log_close(&second);
}

/* ---- train.json ------------------------------------------------------------------------------------------------- */

static void train_json_comes_back(void **state) {
    (void)state;
    const char *folder = fixture_run("json");
    struct qkv_train_options o = fixture_options(ctx), back;
    struct qkv_run_facts facts = {.texts.data = {3000, UINT64_C(0x8123456789abcdef), 2000, 77, 300}}, found;
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    o.data = "a \"quoted\" \\ näme.txt";
    o.rate = 1.0 / 3;
    assert_ok(ctx, qkv_train_json_write(ctx, folder, &o, &facts));
    assert_ok(ctx, qkv_train_json_read(ctx, folder, &back, &found));
    assert_string_equal(back.data, o.data);
    assert_null(back.valid);
    assert_true(back.rate == o.rate && back.eps == o.eps && back.steps == 6 && back.dropout == 0.1);
    assert_memory_equal(&found.texts.data, &facts.texts.data, sizeof facts.texts.data);
    assert_int_equal(found.texts.data_files.count,
                     1); /* no files were recorded: the one that is named is all of the text */
    assert_string_equal(found.texts.data_files.items[0].path, o.data);
    assert_int_equal(found.texts.data_files.items[0].tokens, 2000);
    qkv_text_files_free(&found.texts.data_files);
    qkv_train_release(&back);
    o.data = "caf\xe9";
    assert_status(ctx, qkv_train_json_write(ctx, folder, &o, &facts), QKV_ARGUMENT);
    assert_message(ctx, "data is not valid UTF-8");
}

static void replace_once(char *text, const char *from, const char *to) {
    char *at = strstr(text, from);
    assert_non_null(at);
    char *rest = strdup(at + strlen(from));
    memcpy(at, to, strlen(to));
    memcpy(at + strlen(to), rest, strlen(rest) + 1);
    free(rest);
}

static void damaged_train_json_is_refused(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"\"steps\": 6", "\"steps\": 0", "steps is 0"},
        {"\"steps\": 6", "\"steps\": \"6\"", "steps must be a whole number"},
        {"\"steps\": 6", "\"stepz\": 6", "no training option \"stepz\""},
        {"\"rate\": 0.001", "\"rate\": null", "rate must be a number"},
        {"\"optimizer\": \"adamw\"", "\"optimizer\": 3", "optimizer must be a text or null"},
        {"\"valid\": null", "\"valid\": \"v\"", "texts.valid must be"},
        {"\"qkv-train\"", "\"qkv\"", "format must be"},
        {"\"version\": 1", "\"version\": 2", "version must be 1"},
        {"\"options\": {", "\"option\": {", "options must be an object"},
        {"\"bytes\": 3000", "\"bytes\": -1", "texts.data must be"},
        {"\"hash\": \"", "\"hash\": \"x", "texts.data must be"},
        {"\"vocab\": 300", "\"vocab\": 0", "texts.data must be"},
        {"{", "[", "is not valid JSON: line "},
        {"\"steps\": 6", "\"rate\": 6", "duplicate object key"},
    };
    const char *folder = fixture_run("damaged");
    struct qkv_train_options o = fixture_options(ctx), back;
    struct qkv_run_facts facts = {.texts.data = {3000, 5, 2000, 77, 300}}, found;
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    assert_status(ctx, qkv_train_json_read(ctx, folder, &back, &found), QKV_FILE);
    assert_message(ctx, "holds no training run");
    assert_ok(ctx, qkv_train_json_write(ctx, folder, &o, &facts));
    size_t size = 0;
    char *good = fixture_read(folder, "train.json", &size);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char text[8192];
        memcpy(text, good, size + 1);
        replace_once(text, bad[i][0], bad[i][1]);
        fixture_write(folder, "train.json", text, strlen(text));
        assert_int_not_equal(qkv_train_json_read(ctx, folder, &back, &found), QKV_OK);
        assert_message(ctx, bad[i][2]);
        assert_message(ctx, "train.json");
    }
    for (size_t n = 0; n < size - 1; n += 7) { /* cut off */
        fixture_write(folder, "train.json", good, n);
        assert_status(ctx, qkv_train_json_read(ctx, folder, &back, &found), QKV_FORMAT);
        assert_message(ctx, n ? "train.json is not valid JSON: line " : "train.json is empty");
        assert_message(ctx, "; restore the file or start a new run");
    }
    free(good);
}

/* ---- token files ------------------------------------------------------------------------------------------------ */

static struct qkv_tokenizer *train_tokenizer(enum qkv_tokenizer_kind kind, int vocab, const char *text, size_t size) {
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = kind, .vocab = vocab};
    struct qkv_tokenizer *tokenizer;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, size, &tokenizer));
    return tokenizer;
}

/* The file holds exactly what encoding the whole text at once gives, also over many pieces. */
static void check_tokens(enum qkv_tokenizer_kind kind, const char *path, const char *text, size_t size) {
    struct qkv_tokenizer *tokenizer = train_tokenizer(kind, 300, text, size < 100000 ? size : 100000);
    struct qkv_text_facts facts = {.tokenizer = 9, .vocab = (uint64_t)qkv_tokenizer_vocab(tokenizer)};
    struct qkv_tokens tokens;
    const char *file = test_path("tokens.bin");
    int32_t *ids, one[2], next[2];
    size_t count;
    assert_ok(ctx, qkv_tokenizer_encode(ctx, tokenizer, text, size, true, &ids, &count));
    assert_ok(ctx, fixture_tokens(ctx, file, path, tokenizer, &facts, NULL, NULL));
    assert_int_equal(facts.bytes, size);
    assert_int_equal(facts.tokens, count);
    assert_true(facts.hash == qkv_hash(QKV_HASH_START, text, size));
    assert_ok(ctx, qkv_tokens_open(ctx, file, &facts, &tokens));
    assert_int_equal(tokens.count, count);
    for (size_t i = 0; i + 2 < count; i += 2) {
        assert_ok(ctx, qkv_tokens_window(ctx, &tokens, i, 2, one, next));
        assert_true(one[0] == ids[i] && one[1] == ids[i + 1] && next[0] == one[1] && next[1] == ids[i + 2]);
    }
    qkv_tokens_close(&tokens);
    qkv_free(ids);
    qkv_tokenizer_free(tokenizer);
}

static void tokens_in_pieces_are_tokens_at_once(void **state) {
    (void)state;
    const char *path = test_path("long.txt");
    size_t size = 0;
    fixture_text(path, 2500000, 3);
    char *text = test_read_file(path, &size);
    static const enum qkv_tokenizer_kind kinds[] = {QKV_TOKENIZER_BYTES, QKV_TOKENIZER_CHARS, QKV_TOKENIZER_WORDS,
                                                    QKV_TOKENIZER_BPE};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) check_tokens(kinds[i], path, text, size);
    free(text);
}

static void wide_vocabularies_take_four_bytes(void **state) {
    (void)state;
    struct qkv_tokenizer *tokenizer = train_tokenizer(QKV_TOKENIZER_BYTES, 0, "", 0);
    struct qkv_text_facts facts = {.tokenizer = 9, .vocab = 65537};
    const char *file = test_path("wide.bin"), *text = test_path("wide.txt");
    struct qkv_tokens tokens;
    int32_t ids[4], targets[4];
    test_write_file(text, "hello", 5);
    assert_ok(ctx, fixture_tokens(ctx, file, text, tokenizer, &facts, NULL, NULL));
    assert_ok(ctx, qkv_tokens_open(ctx, file, &facts, &tokens));
    assert_int_equal(tokens.file.size, 64 + 5 * 4);
    assert_ok(ctx, qkv_tokens_window(ctx, &tokens, 0, 4, ids, targets));
    assert_true(ids[0] == 'h' && ids[3] == 'l' && targets[3] == 'o');
    qkv_tokens_close(&tokens);
    qkv_tokenizer_free(tokenizer);
}

static void damaged_token_files_are_refused(void **state) {
    (void)state;
    struct qkv_tokenizer *tokenizer = train_tokenizer(QKV_TOKENIZER_BYTES, 0, "", 0);
    struct qkv_text_facts facts = {.tokenizer = 9, .vocab = 200}, other;
    const char *file = test_path("damaged.bin"), *text = test_path("damaged.txt");
    struct qkv_tokens tokens;
    int32_t ids[8], targets[8];
    size_t size = 0;
    test_write_file(text, "hello \xff!", 8);
    assert_ok(ctx, fixture_tokens(ctx, file, text, tokenizer, &facts, NULL, NULL));
    char *good = test_read_file(file, &size);
    assert_ok(ctx, qkv_tokens_open(ctx, file, &facts, &tokens));
    assert_ok(ctx, qkv_tokens_window(ctx, &tokens, 0, 5, ids, targets));
    assert_status(ctx, qkv_tokens_window(ctx, &tokens, 0, 6, ids, targets), QKV_FORMAT);
    assert_message(ctx, "token 6 is outside the vocabulary of 200");
    qkv_tokens_close(&tokens);
    for (size_t n = 0; n < size; n++) {
        test_write_file(file, good, n);
        assert_status(ctx, qkv_tokens_open(ctx, file, &facts, &tokens), QKV_FORMAT);
        assert_message(ctx, "damaged.bin");
    }
    for (size_t i = 0; i < 64; i++) {
        good[i] ^= 1;
        test_write_file(file, good, size);
        assert_status(ctx, qkv_tokens_open(ctx, file, &facts, &tokens), QKV_FORMAT);
        good[i] ^= 1;
    }
    test_write_file(file, good, size);
    other = facts;
    other.tokenizer++;
    assert_status(ctx, qkv_tokens_open(ctx, file, &other, &tokens), QKV_FORMAT);
    assert_message(ctx, "another text's or another tokenizer's tokens");
    free(good);
    qkv_tokenizer_free(tokenizer);
}

static bool stop_at_once(void *user, const char *what, double done, double total) {
    (void)what, (void)total;
    ++*(int *)user;
    return done < 1;
}

static void texts_that_are_none_are_refused(void **state) {
    (void)state;
    struct qkv_tokenizer *bytes = train_tokenizer(QKV_TOKENIZER_BYTES, 0, "", 0);
    struct qkv_tokenizer *chars = train_tokenizer(QKV_TOKENIZER_CHARS, 0, "abc", 3);
    struct qkv_text_facts facts = {.tokenizer = 9, .vocab = 300};
    const char *file = test_path("none.bin"), *text = test_path("none.txt");
    int calls = 0;
    test_write_file(text, "ab\0c", 4);
    assert_status(ctx, fixture_tokens(ctx, file, text, chars, &facts, NULL, NULL), QKV_FORMAT);
    assert_message(ctx, "none.txt is not a text: byte 2 is NUL");
    assert_ok(ctx, fixture_tokens(ctx, file, text, bytes, &facts, NULL, NULL));
    assert_int_equal(facts.tokens, 4);
    unlink(file);
    test_write_file(text, "", 0);
    assert_status(ctx, fixture_tokens(ctx, file, text, chars, &facts, NULL, NULL), QKV_FORMAT);
    assert_message(ctx, "none.txt is empty");
    unlink(text);
    assert_status(ctx, fixture_tokens(ctx, file, text, chars, &facts, NULL, NULL), QKV_FILE);
    assert_message(ctx, "none.txt");
    fixture_text(text, 3000000, 4);
    assert_status(ctx, fixture_tokens(ctx, file, text, chars, &facts, stop_at_once, &calls), QKV_STOPPED);
    assert_int_equal(calls, 2);
    assert_false(qkv_file_exists(file));
    qkv_tokenizer_free(bytes);
    qkv_tokenizer_free(chars);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_pure_and_cover_the_text),
        cmocka_unit_test(dropout_seeds_differ),
        cmocka_unit_test(hash_is_fnv_1a),
        cmocka_unit_test(log_is_cut_and_goes_on),
        cmocka_unit_test(a_log_loses_only_lines_of_steps_past_the_checkpoint),
        cmocka_unit_test(log_is_locked),
        cmocka_unit_test(train_json_comes_back),
        cmocka_unit_test(damaged_train_json_is_refused),
        cmocka_unit_test(tokens_in_pieces_are_tokens_at_once),
        cmocka_unit_test(wide_vocabularies_take_four_bytes),
        cmocka_unit_test(damaged_token_files_are_refused),
        cmocka_unit_test(texts_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
