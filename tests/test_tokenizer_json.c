/* tokenizer.json: ids of Hugging Face tokenizers 0.23 for the same files, saving a loaded file, everything that a
 * reader must refuse with its message, and broken files. */
/* labels: quick */
#include "test_text.h"

#include "text/chain.h"

static const char toy[] = "the cat sat on the mat. The caf\xC3\xA9's cat isn't on the mat; that's 2024!\n\nthe the\n";

static struct qkv_tokenizer *make(struct qkv_context *ctx, enum qkv_tokenizer_kind kind) {
    return test_train(ctx, kind, kind == QKV_TOKENIZER_BPE ? 290 : 0, 1, toy, sizeof toy - 1);
}

static struct qkv_tokenizer *reload(struct qkv_context *ctx, struct qkv_tokenizer *t) {
    char *file = test_print(ctx, t, NULL, NULL);
    qkv_tokenizer_free(t);
    t = test_parse(ctx, file);
    free(file);
    return t;
}

/* ---- what others say -------------------------------------------------------------------------------------------- */

static const char text_a[] = "the cat's mat.\n\n  The caf\xC3\xA9", text_b[] = "<|endoftext|>that isn't\n";
static const char text_c[] = "\xC3\xA9"
                             "e\xCC\x81 \xC2\xBD \xE4\xB8\xAD \t<0x41>";

static void test_others(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t = reload(ctx, make(ctx, QKV_TOKENIZER_BYTES));
    assert_ids(ctx, t, text_b, true, 256, 116, 104, 97, 116, 32, 105, 115, 110, 39, 116, 10);
    qkv_tokenizer_free(t);

    t = reload(ctx, make(ctx, QKV_TOKENIZER_CHARS_BYTES));
    assert_ids(ctx, t, text_a, true, 20, 14, 12, 1, 11, 10, 20, 3, 19, 1, 16, 10, 20, 4, 0, 0, 1, 1, 9, 14, 12, 1, 11,
               10, 13, 21);
    assert_ids(ctx, t, text_b, true, 278, 20, 14, 10, 20, 1, 15, 19, 17, 3, 20, 0);
    assert_ids(ctx, t, text_c, true, 21, 12, 226, 151, 1, 216, 211, 1, 250, 206, 195, 1, 31, 82, 5, 142, 7, 71, 84);
    qkv_tokenizer_free(t);

    t = reload(ctx, make(ctx, QKV_TOKENIZER_CHARS)); /* the same characters, and 22 for all others */
    assert_int_equal(qkv_tokenizer_unknown(t), 22);
    assert_ids(ctx, t, text_a, true, 20, 14, 12, 1, 11, 10, 20, 3, 19, 1, 16, 10, 20, 4, 0, 0, 1, 1, 9, 14, 12, 1, 11,
               10, 13, 21);
    assert_ids(ctx, t, text_b, true, 23, 20, 14, 10, 20, 1, 15, 19, 17, 3, 20, 0);
    assert_ids(ctx, t, text_c, true, 21, 12, 22, 1, 22, 1, 22, 1, 22, 22, 5, 22, 7, 22, 22);
    qkv_tokenizer_free(t);

    t = reload(ctx, make(ctx, QKV_TOKENIZER_WORDS));
    assert_ids(ctx, t, text_a, true, 257, 258, 261, 260, 46, 10, 10, 32, 263, 264);
    assert_ids(ctx, t, text_b, true, 269, 116, 104, 97, 116, 265, 266, 10);
    qkv_tokenizer_free(t);

    t = reload(ctx, make(ctx, QKV_TOKENIZER_BPE));
    assert_ids(ctx, t, text_a, true, 258, 264, 263, 266, 46, 10, 10, 32, 284, 280);
    assert_ids(ctx, t, text_b, true, 286, 268, 283, 279, 10);
    assert_ids(ctx, t, text_c, true, 267, 101, 204, 129, 32, 194, 189, 32, 228, 184, 173, 32, 9, 60, 48, 120, 52, 49,
               62);
    qkv_tokenizer_free(t);
}

#define GPT2_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}"
#define BARE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SPLIT(pattern, behavior)                                                                                       \
    "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": \"" behavior "\", \"invert\": false}"
#define SEQUENCE(first, second)                                                                                        \
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" first ", " second "]}"

/* Loads the file of a tokenizer with some text replaced. */
static struct qkv_tokenizer *changed(struct qkv_context *ctx, enum qkv_tokenizer_kind kind, const char *from,
                                     const char *to) {
    struct qkv_tokenizer *t = make(ctx, kind);
    char *file = test_print(ctx, t, from, to);
    qkv_tokenizer_free(t);
    t = test_parse(ctx, file);
    free(file);
    return t;
}

/* Llama 3's pattern, and NFC as in Qwen. */
static void test_split(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t =
        changed(ctx, QKV_TOKENIZER_BPE, "\"pre_tokenizer\": " GPT2_LEVEL,
                SEQUENCE(SPLIT("{\"Regex\": \"\\\\p{N}{1,2}|[^\\\\p{N}]\"}", "Isolated"), BARE_LEVEL));
    assert_ids(ctx, t, "the 2024", true, 't', 'h', 'e', ' ', 277, 276);
    t = reload(ctx, t);
    assert_string_equal(qkv_pattern_source(t->chain->pattern), "\\p{N}{1,2}|[^\\p{N}]");
    char *pattern = test_pattern_json(TEST_GPT2_LIKE);
    t = test_altered(ctx, t, "\"\\\\p{N}{1,2}|[^\\\\p{N}]\"", pattern);
    t = test_altered(ctx, t, "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    t = test_altered(ctx, t, "\"ignore_merges\": false", "\"ignore_merges\": true");
    free(pattern);
    t = reload(ctx, t);
    assert_true(t->chain->plain && t->chain->normalizers.count == 1 && t->chain->ignore_merges);
    int32_t *ids;
    size_t count;
    static const int32_t expected[] = {267, 267, 32, 194, 189, 32, 228, 184, 173, 32, 9, 60, 48, 120, 52, 49, 62};
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text_c, sizeof text_c - 1, true, &ids, &count));
    assert_int_equal(count, TEST_COUNT(expected));
    assert_memory_equal(ids, expected, sizeof expected);
    qkv_free(ids);
    assert_ids(ctx, t, text_a, true, 258, 264, 263, 266, 46, 10, 10, 32, 284, 280);
    qkv_tokenizer_free(t);
}

/* Forms that mean the same: "a b" merges, an added token listed in the vocabulary, a post-processor, other defaults. */
static void test_forms(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *w = test_train(ctx, QKV_TOKENIZER_WHITESPACE, 0, 1, toy, sizeof toy - 1);
    char *file = test_print(ctx, w, "\"unk_token\": \"<unk>\"", "\"unk_token\": \"the\""); /* any word may be it */
    qkv_tokenizer_free(w);
    w = reload(ctx, test_parse(ctx, file));
    free(file);
    const int the = qkv_tokenizer_unknown(w);
    assert_true(the >= 0 && the < qkv_tokenizer_vocab(w));
    assert_ids(ctx, w, "the the-other <pad>", true, the, the, 0);
    assert_int_equal(qkv_tokenizer_special(w, "<|endoftext|>"), 1);
    qkv_tokenizer_free(w);
    struct qkv_tokenizer *t = changed(ctx, QKV_TOKENIZER_BPE, "[\"a\", \"t\"]", "\"a t\"");
    assert_ids(ctx, t, text_b, true, 286, 268, 283, 279, 10);
    qkv_tokenizer_free(t);
    t = changed(ctx, QKV_TOKENIZER_BPE, "\"!\": 33", "\"!\": 33, \"<|endoftext|>\": 286");
    assert_ids(ctx, t, text_b, true, 286, 268, 283, 279, 10);
    t = reload(ctx, t);
    assert_true(t->tokens[286].in_model && t->tokens[286].added);
    assert_ids(ctx, t, "<|endoftext|>", true, 286);
    assert_int_equal(qkv_tokenizer_special(t, "<|endoftext|>"), 286);
    qkv_tokenizer_free(t);
    static const char *const post[] = {
        "{\"type\": \"ByteLevel\"}",
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]}",
        "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}]}"};
    for (size_t i = 0; i < TEST_COUNT(post); i++) {
        char to[256];
        snprintf(to, sizeof to, "\"post_processor\": %s", post[i]);
        t = changed(ctx, QKV_TOKENIZER_BPE, "\"post_processor\": null", to);
        assert_ids(ctx, t, text_b, true, 286, 268, 283, 279, 10);
        qkv_tokenizer_free(t);
    }
    t = changed(ctx, QKV_TOKENIZER_BPE, "\"special\": true",
                "\"special\": false"); /* added but ordinary: always found */
    assert_ids(ctx, t, text_b, false, 286, 268, 283, 279, 10);
    assert_int_equal(qkv_tokenizer_special(t, "<|endoftext|>"), -1);
    qkv_tokenizer_free(t);
    t = changed(ctx, QKV_TOKENIZER_WORDS, "\"id\": 269", "\"id\": 300"); /* holes */
    assert_int_equal(qkv_tokenizer_vocab(t), 301);
    assert_null(qkv_tokenizer_token(t, 280, NULL));
    char *text;
    size_t size;
    assert_status(ctx, qkv_tokenizer_decode(ctx, t, (const int32_t[]){280}, 1, &text, &size), QKV_ARGUMENT);
    assert_message(ctx, "ids[0] is 280, which is not a token");
    qkv_tokenizer_free(t);
}

static void test_save(void **state) {
    struct qkv_context *ctx = *state;
    for (int kind = QKV_TOKENIZER_BYTES; kind < TEST_KINDS; kind++) {
        struct qkv_tokenizer *t = make(ctx, (enum qkv_tokenizer_kind)kind), *back;
        const char *first = test_path("first.json"), *second = test_path("second.json");
        size_t a_size, b_size;
        assert_ok(ctx, qkv_tokenizer_save(ctx, t, first));
        assert_ok(ctx, qkv_tokenizer_load(ctx, first, &back));
        assert_ok(ctx, qkv_tokenizer_save(ctx, back, second));
        char *a = test_read_file(first, &a_size), *b = test_read_file(second, &b_size);
        assert_true(a && b);
        assert_int_equal(a_size, b_size);
        assert_memory_equal(a, b, a_size);
        assert_int_equal(qkv_tokenizer_vocab(t), qkv_tokenizer_vocab(back));
        free(a);
        free(b);
        qkv_tokenizer_free(t);
        qkv_tokenizer_free(back);
    }
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

struct refusal {
    enum qkv_tokenizer_kind kind;
    const char *from, *to, *sentence;
};
static const struct refusal refusals[] = {
    {QKV_TOKENIZER_BPE, "\"truncation\": null", "\"truncation\": {}",
     "truncation is {}; this reader knows an object with max_length"},
    {QKV_TOKENIZER_BPE, "\"padding\": null", "\"padding\": 1", "padding is 1; this reader knows null"},
    {QKV_TOKENIZER_BPE, "\"post_processor\": null", "\"post_processor\": {\"type\": \"BertProcessing\"}",
     "post_processor.cls is not [token, id] of a token"},
    {QKV_TOKENIZER_BPE, "\"use_regex\": true", "\"use_regex\": 3", "pre_tokenizer.use_regex is 3"},
    {QKV_TOKENIZER_BPE, "\"pre_tokenizer\": " GPT2_LEVEL,
     SEQUENCE(SPLIT("{\"Regex\": \"(a\"}", "Isolated"), BARE_LEVEL),
     "pre_tokenizer: the pattern \"(a\" has at byte 0 \"(a\", a group without its )"},
    {QKV_TOKENIZER_CHARS, "\"unk_token\": \"<unk>\"", "\"unk_token\": \"?\"",
     "model.unk_token is \"?\", which is not in model.vocab"},
    {QKV_TOKENIZER_BPE, "\"dropout\": null", "\"dropout\": 0.5", "model.dropout is 0.5; this reader knows null"},
    {QKV_TOKENIZER_BPE, "\"continuing_subword_prefix\": null", "\"continuing_subword_prefix\": \"##\"",
     "which is not in model.vocab"},
    {QKV_TOKENIZER_BPE, "\"ignore_merges\": false", "\"ignore_merges\": \"no\"", "model.ignore_merges is \"no\""},
    {QKV_TOKENIZER_BPE, "\"vocab\": {", "\"vocab\": [], \"v\": {", "model.vocab is []; this reader knows an object"},
    {QKV_TOKENIZER_BPE, "\"merges\": [", "\"merges\": 7, \"m\": [", "model.merges is 7; this reader knows a list"},
    {QKV_TOKENIZER_BPE, "[\"a\", \"t\"]", "[\"a\", \"t\", \"s\"]", "is neither \"a b\" nor [\"a\", \"b\"]"},
    {QKV_TOKENIZER_BPE, "[\"a\", \"t\"]", "\"a t s\"", "is neither \"a b\" nor [\"a\", \"b\"]"},
    {QKV_TOKENIZER_BPE, "[\"a\", \"t\"]", "\"a zz\"", "needs the token \"zz\", which is not in model.vocab"},
    {QKV_TOKENIZER_BPE, "[\"a\", \"t\"]", "\"a q\"", "needs the token \"aq\", which is not in model.vocab"},
    {QKV_TOKENIZER_BPE, "\"!\": 33", "\"!\": 34", "both have id 34; ids must differ"},
    {QKV_TOKENIZER_BPE, "\"!\": 33", "\"!\": -1", "the id of \"!\" in model.vocab is not an integer in [0, "},
    {QKV_TOKENIZER_BPE, "\"!\": 33", "\"!\": 99999999999", "the id of \"!\" in model.vocab is not an integer in [0, "},
    {QKV_TOKENIZER_BPE, "\"!\": 33", "\"!\": \"x\"", "the id of \"!\" in model.vocab is not an integer"},
    {QKV_TOKENIZER_CHARS_BYTES, "\"merges\": []", "\"merges\": [[\"<0x41>\", \"a\"]]", "which is not in model.vocab"},
    {QKV_TOKENIZER_CHARS_BYTES, "\"merges\": []", "\"merges\": [], \"merges\": []", "not valid JSON: line"},
    {QKV_TOKENIZER_WHITESPACE, "\"type\": \"WordLevel\"", "\"type\": \"BPE\"",
     "model.unk_token is \"<unk>\", which is not in model.vocab"},
    {QKV_TOKENIZER_WHITESPACE, "\"unk_token\": \"<unk>\"", "\"unk_token\": 5",
     "model.unk_token is 5; this reader knows a text"},
    {QKV_TOKENIZER_BPE, "\"added_tokens\": [", "\"added_tokens\": {}, \"a\": [",
     "added_tokens is {}; this reader knows a list"},
    {QKV_TOKENIZER_BPE, "\"content\": \"<|endoftext|>\"", "\"content\": 5",
     "this reader knows an object with a content and an id"},
    {QKV_TOKENIZER_BPE, "\"content\": \"<|endoftext|>\"", "\"content\": \"\"",
     "this reader knows an object with a content and an id"},
    {QKV_TOKENIZER_BPE, "\"content\": \"<|endoftext|>\"", "\"content\": \"a\"",
     "added_tokens: the id of \"a\" is 286, which model.vocab contradicts"},
    {QKV_TOKENIZER_BPE, "\"id\": 286", "\"id\": 5",
     "added_tokens: the id of \"<|endoftext|>\" is 5, which model.vocab"},
    {QKV_TOKENIZER_BPE, "\"id\": 286", "\"id\": 1e3", "the id of \"<|endoftext|>\" is not an integer in [0, "},
    {QKV_TOKENIZER_BPE, "\"added_tokens\": [", "\"added_tokens\": [{\"id\": 286, \"content\": \"x!\"},",
     "added_tokens: \"<|endoftext|>\" has the id 286 of another one"},
};

static void test_refusals(void **state) {
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        struct qkv_tokenizer *t = make(ctx, refusals[i].kind);
        char *file = test_print(ctx, t, refusals[i].from, refusals[i].to);
        qkv_tokenizer_free(t);
        if (qkv_tokenizer_parse(ctx, file, strlen(file), "tokenizer.json", &t) != QKV_FORMAT) {
            fail_msg("%s -> %s was accepted", refusals[i].from, refusals[i].to);
        }
        assert_null(t);
        assert_int_equal(strncmp(qkv_message(ctx), "tokenizer.json", 14), 0);
        assert_message(ctx, refusals[i].sentence);
        free(file);
    }
}

static void test_files(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t;
    assert_status(ctx, qkv_tokenizer_load(ctx, test_path("absent.json"), &t), QKV_FILE);
    assert_message(ctx, "absent.json");
    assert_null(t);
    static const char *const broken[] = {"", "[]", "{", "null", "{}", "{\"model\": 3}", "\xFF", "{\"a\": 1} x"};
    for (size_t i = 0; i < TEST_COUNT(broken); i++) {
        const char *path = test_path("broken.json");
        test_write_file(path, broken[i], strlen(broken[i]));
        assert_status(ctx, qkv_tokenizer_load(ctx, path, &t), QKV_FORMAT);
        assert_message(ctx, "broken.json");
    }
    t = make(ctx, QKV_TOKENIZER_BPE);
    assert_status(ctx, qkv_tokenizer_save(ctx, t, test_path("no/such/folder/t.json")), QKV_FILE);
    qkv_tokenizer_free(t);
}

/* ---- broken files ----------------------------------------------------------------------------------------------- */

/* A file either is refused with a sentence or makes a tokenizer that keeps its promise. */
static void try_file(struct qkv_context *ctx, const char *file, size_t size, bool *loaded) {
    struct qkv_tokenizer *t;
    size_t count;
    enum qkv_status status = qkv_tokenizer_parse(ctx, file, size, "tokenizer.json", &t);
    *loaded = !status;
    if (status) {
        assert_null(t);
        assert_message(ctx, "tokenizer.json");
        return;
    }
    for (int specials = 0; specials < 2 && t->chain->plain; specials++) {
        qkv_free(test_round_trip(ctx, t, text_a, sizeof text_a - 1, specials, &count));
        qkv_free(test_round_trip(ctx, t, text_b, sizeof text_b - 1, specials, &count));
        qkv_free(test_round_trip(ctx, t, text_c, sizeof text_c - 1, specials, &count));
    }
    (void)qkv_tokenizer_cut(t, text_a, sizeof text_a - 1, false);
    qkv_tokenizer_free(t);
}

static void test_truncated(void **state) {
    struct qkv_tokenizer *t = make(*state, QKV_TOKENIZER_BPE);
    char *file = test_print(*state, t, NULL, NULL);
    size_t size = strlen(file);
    bool loaded;
    for (size_t n = 0; n + 2 < size; n += n < 1500 || n + 500 > size ? 1 : 13) {
        try_file(*state, file, n, &loaded);
        assert_false(loaded);
    }
    try_file(*state, file, size, &loaded);
    assert_true(loaded);
    free(file);
    qkv_tokenizer_free(t);
}

static void test_flipped(void **state) {
    struct qkv_random random = test_random(1);
    size_t refused = 0, accepted = 0;
    for (int round = 0; round < 1500; round++) {
        struct qkv_tokenizer *t = make(*state, round % 2 ? QKV_TOKENIZER_BPE : QKV_TOKENIZER_CHARS);
        char *file =
            round % 4 < 2 ? test_print(*state, t, NULL, NULL)
            : round % 2
                ? test_print(*state, t, "\"pre_tokenizer\": " GPT2_LEVEL,
                             SEQUENCE(SPLIT("{\"Regex\": \"'s| ?\\\\p{L}+|\\\\s+(?!\\\\S)|\\\\S{1,3}\"}", "Isolated"),
                                      BARE_LEVEL))
                : test_print(*state, t, "\"merges\": []", "\"merges\": [\"a t\", \"t h\"]");
        size_t size = strlen(file), half = round % 8 < 4 ? size : 1400 < size ? 1400 : size;
        bool loaded;
        for (size_t flips = test_between(&random, 1, 3); flips > 0; flips--) {
            static const char likely[] = "\"{}[],:0123456789truefalsenull\\ab \xC3\xFF";
            file[qkv_random_below(&random, half)] = likely[qkv_random_below(&random, sizeof likely)];
        }
        try_file(*state, file, size, &loaded);
        accepted += loaded;
        refused += !loaded;
        free(file);
        qkv_tokenizer_free(t);
    }
    assert_true(refused > 0 && accepted > 0);
}

/* ---- spans ------------------------------------------------------------------------------------------------------ */

/* Encoding with spans gives the ids of encoding, for texts that are not UTF-8 too; spans are in order. */
static void test_spans(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_random random = test_random(7);
    for (int round = 0; round < 600; round++) {
        struct qkv_tokenizer *t = make(ctx, (enum qkv_tokenizer_kind)(round % (TEST_KINDS - 1)));
        if (round % 3) t = test_altered(ctx, t, "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
        size_t size, count, plain_count, *spans;
        char *text = test_text(&random, 60, &size);
        int32_t *ids, *plain;
        assert_true(t->chain->plain);
        assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, size, round % 2, &plain, &plain_count));
        assert_ok(ctx, qkv_tokenizer_encode_spans(ctx, t, text, size, round % 2, &ids, &spans, &count));
        assert_int_equal(count, plain_count);
        if (count) assert_memory_equal(ids, plain, count * sizeof *ids);
        for (size_t i = 0; i < count; i++) {
            assert_true(spans[2 * i] <= spans[2 * i + 1] && spans[2 * i + 1] <= size);
            if (round % 3) continue; /* NFC sorts marks */
            assert_true(spans[2 * i] < spans[2 * i + 1]);
            if (i) assert_true(spans[2 * i] >= spans[2 * i - 2]);
        }
        qkv_free(ids);
        qkv_free(plain);
        qkv_free(spans);
        free(text);
        qkv_tokenizer_free(t);
    }
}

/* A span leaves out all white space of its token, however much that is. */
static void test_blanks(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] = "a                                        b"; /* forty */
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BPE, 262, 0, text, sizeof text - 1);
    t = test_altered(
        ctx, t, "\"post_processor\": null",
        "\"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true}");
    int32_t *ids;
    size_t *spans, count, size;
    assert_ok(ctx, qkv_tokenizer_encode_spans(ctx, t, text, sizeof text - 1, false, &ids, &spans, &count));
    bool long_one = false;
    for (size_t i = 0; i < count; i++) {
        const char *token = qkv_tokenizer_token(t, ids[i], &size);
        if (token[0] != ' ' || token[size - 1] != ' ') continue;
        long_one = long_one || size > 16;
        assert_int_equal(spans[2 * i], spans[2 * i + 1]);
    }
    assert_true(long_one);
    qkv_free(ids);
    qkv_free(spans);
    qkv_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others),    cmocka_unit_test(test_split),    cmocka_unit_test(test_forms),
        cmocka_unit_test(test_save),      cmocka_unit_test(test_refusals), cmocka_unit_test(test_files),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_flipped),  cmocka_unit_test(test_spans),
        cmocka_unit_test(test_blanks),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
