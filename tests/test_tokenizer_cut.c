/* Cutting a stream: random texts in random chunks give the ids of the whole text, for every kind of tokenizer, with
 * and without special tokens; a cut does not depend on what follows; and cutting makes progress. */
/* labels: quick */
#include "test_text.h"

#include "text/chain.h"

static void append(struct qkv_buffer *out, const void *data, size_t n) {
    if (qkv_buffer_append(NULL, out, data, n)) abort();
}

static void encode_to(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                      bool specials, struct qkv_buffer *out) {
    int32_t *ids;
    size_t count;
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, size, specials, &ids, &count));
    append(out, ids, count * sizeof *ids);
    qkv_free(ids);
}

/* The ids of a text that comes in chunks of up to `chunk` bytes. */
static void stream(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_random *random, const char *text,
                   size_t size, size_t chunk, bool specials, struct qkv_buffer *out) {
    size_t done = 0, have = 0;
    while (done < size) {
        have += test_between(random, 1, chunk);
        if (have > size) have = size;
        size_t n = qkv_tokenizer_cut(t, text + done, have - done, have == size);
        assert_true(n <= have - done);
        if (have == size) assert_int_equal(n, have - done);
        encode_to(ctx, t, text + done, n, specials, out);
        done += n;
    }
}

/* A text of up to `bits` bits in chunks of up to `most` bytes. */
static void check_stream(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_random *random, size_t bits,
                         size_t most) {
    size_t size;
    char *text = test_text(random, bits, &size);
    for (int specials = 0; specials < 2; specials++) {
        struct qkv_buffer whole = {0}, parts = {0};
        encode_to(ctx, t, text, size, specials, &whole);
        stream(ctx, t, random, text, size, test_between(random, 1, most), specials, &parts);
        bool same = whole.size == parts.size && (whole.size == 0 || memcmp(whole.data, parts.data, whole.size) == 0);
        if (!same) {
            print_error("specials %d, text:", specials);
            for (size_t i = 0; i < size; i++) print_error("\\%03o", (unsigned char)text[i]);
            fail_msg("the ids of the parts are not those of the whole");
        }
        qkv_buffer_free(&whole);
        qkv_buffer_free(&parts);
    }
    free(text);
}

static void check_streams(struct qkv_context *ctx, const struct qkv_tokenizer *t, uint64_t seed) {
    struct qkv_random random = test_random(seed);
    const char *rounds = getenv("QKV_TEST_ROUNDS"); /* for a long search */
    for (long i = rounds ? atol(rounds) : 300; i > 0; i--) check_stream(ctx, t, &random, 40, 30);
}

/* A tokenizer with words of many bits, so that merges reach far. */
static struct qkv_tokenizer *make(struct qkv_context *ctx, enum qkv_tokenizer_kind kind, size_t specials) {
    struct qkv_random random = test_random(1);
    size_t size;
    char *text = test_text(&random, 4000, &size);
    struct qkv_tokenizer *t = test_train(ctx, kind,
                                         kind == QKV_TOKENIZER_BPE          ? 700
                                         : kind == QKV_TOKENIZER_WHITESPACE ? 100000
                                                                            : 0,
                                         specials, text, size);
    free(text);
    return t;
}

static void test_kinds(void **state) {
    for (int kind = QKV_TOKENIZER_BYTES; kind < TEST_KINDS; kind++) {
        for (size_t specials = 0; specials <= 4; specials += 2) {
            struct qkv_tokenizer *t = make(*state, (enum qkv_tokenizer_kind)kind, specials);
            check_streams(*state, t, 10 + (uint64_t)kind);
            qkv_tokenizer_free(t);
        }
    }
}

#define GPT2_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}"
#define BARE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"

static struct qkv_tokenizer *with_pre_tokenizer(struct qkv_context *ctx, const char *json) {
    struct qkv_tokenizer *t = make(ctx, QKV_TOKENIZER_BPE, 4);
    char *file = test_print(ctx, t, "\"pre_tokenizer\": " GPT2_LEVEL, json);
    qkv_tokenizer_free(t);
    t = test_parse(ctx, file);
    free(file);
    return t;
}

static struct qkv_tokenizer *with_pattern(struct qkv_context *ctx, const char *pattern) {
    struct qkv_buffer json = {0};
    char *text = test_pattern_json(pattern);
    assert_ok(ctx, qkv_buffer_print(ctx, &json,
                                    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
                                    "\"Split\", \"pattern\": {\"Regex\": %s}, \"behavior\": \"Isolated\", "
                                    "\"invert\": false}, " BARE_LEVEL "]}",
                                    text));
    struct qkv_tokenizer *t = with_pre_tokenizer(ctx, json.data);
    assert_string_equal(qkv_pattern_source(t->chain->pattern), pattern);
    qkv_buffer_free(&json);
    free(text);
    return t;
}

static void test_patterns(void **state) {
    static const char *const patterns[] = {
        TEST_GPT2_LIKE,
        "\\p{L}+",                                       /* gaps */
        "a(?=.*b)|[^ab]+|.|\\n",                         /* looks ahead without end */
        "\\s?\\p{L}{1,3}(?!the)",                        /* gaps and looking ahead */
        "(?<=a)the|.|\\n",                               /* looks back: never cut */
        "(?:ab)+|a+(?!b)|\\s+$|\n",                      /* depends on the end */
        "[\\w&&[^ab]]+|[a-b[0-9]]+(?!the)|[^\\S\\n]+|.", /* classes that become groups */
        "\\h{2}+|[^[:alpha:]&&[^!]]+|(?i:'ll|'s)|\\R|[^[^t]]{1,2}?",
        "a*|\\b", /* matches nothing: never cut */
    };
    for (size_t i = 0; i < TEST_COUNT(patterns); i++) {
        struct qkv_tokenizer *t = with_pattern(*state, patterns[i]);
        check_streams(*state, t, 20 + i);
        qkv_tokenizer_free(t);
    }
}

static void test_no_pattern(void **state) {
    struct qkv_tokenizer *t = with_pre_tokenizer(*state, "\"pre_tokenizer\": " BARE_LEVEL);
    assert_null(t->chain->pattern);
    check_streams(*state, t, 30);
    t->chain->ignore_merges = true;
    check_streams(*state, t, 31);
    qkv_tokenizer_free(t);
}

static void test_nfc(void **state) {
    struct qkv_context *ctx = *state;
    for (int normalized = 0; normalized < 2; normalized++) {
        struct qkv_tokenizer *t = make(ctx, QKV_TOKENIZER_BPE, 4);
        char *file = test_print(ctx, t, "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
        qkv_tokenizer_free(t);
        t = test_parse(ctx, file);
        free(file);
        for (int i = 0; i < 2 * normalized; i++)
            t = test_altered(ctx, t, "\"normalized\": false", "\"normalized\": true");
        check_streams(ctx, t, 40 + (uint64_t)normalized);
        qkv_tokenizer_free(t);
    }
}

/* ---- how far ---------------------------------------------------------------------------------------------------- */

static size_t cut(const struct qkv_tokenizer *t, const char *text) {
    return qkv_tokenizer_cut(t, text, strlen(text), false);
}

static void test_places(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t = make(ctx, QKV_TOKENIZER_BPE, 1);
    assert_int_equal(cut(t, ""), 0);
    assert_int_equal(cut(t, "hello"), 0);
    assert_int_equal(cut(t, "hello world"), 5);
    assert_int_equal(cut(t, "hello world "), 11);
    assert_int_equal(cut(t, "a  b"), 2);   /* "a", " ", " b" goes on */
    assert_int_equal(cut(t, "a\n\nb"), 2); /* before both newlines "a\n" would be fine, after them not */
    assert_int_equal(cut(t, "hi <|endoft"), 2);
    assert_int_equal(cut(t, "hi<|endoftext|>"), 2);
    assert_int_equal(cut(t, "hi<|endoftext|>yo"), 15);
    assert_int_equal(cut(t, "hi<|endoftext|>!"), 2); /* spelled out, |>! is one piece */
    assert_int_equal(cut(t, "hi yo\xC3"), 2);
    assert_int_equal(cut(t, "hi\xFF"), 3);
    assert_int_equal(qkv_tokenizer_cut(t, "hello", 5, true), 5);
    qkv_tokenizer_free(t);

    t = make(ctx, QKV_TOKENIZER_BYTES, 3);
    assert_int_equal(cut(t, "hello"), 5);
    assert_int_equal(cut(t, "hello\xC3"), 6);
    assert_int_equal(cut(t, "hello<"), 5);
    assert_int_equal(cut(t, "hello<|end"), 5);
    assert_int_equal(cut(t, "hello<|end|>"), 5); /* a longer one may follow */
    assert_int_equal(cut(t, "hello<|end|>x"), 13);
    qkv_tokenizer_free(t);

    t = make(ctx, QKV_TOKENIZER_CHARS, 1);
    assert_int_equal(cut(t, "h\xC3\xA9"), 3);
    assert_int_equal(cut(t, "h\xC3"), 1);
    assert_int_equal(cut(t, "h\xF0\x9F\x98"), 1);
    assert_int_equal(cut(t, "h\xC3\xA9<|e"), 3);
    qkv_tokenizer_free(t);
}

/* Ordinary text is never held back for long. */
static void test_headway(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] =
        "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n";
    for (int kind = QKV_TOKENIZER_BYTES; kind < TEST_KINDS; kind++) {
        struct qkv_tokenizer *t = make(ctx, (enum qkv_tokenizer_kind)kind, 2);
        for (size_t n = 16; n < sizeof text; n++) assert_true(qkv_tokenizer_cut(t, text, n, false) + 9 >= n);
        qkv_tokenizer_free(t);
    }
}

/* In a long text with a built-in pattern, only the end is examined: the text is so long that this begins in its
 * middle. */
static void cuts_of_long_texts_are_looked_for_at_their_ends(void **state) {
    static const enum qkv_tokenizer_kind kinds[] = {QKV_TOKENIZER_WORDS, QKV_TOKENIZER_BPE, QKV_TOKENIZER_WHITESPACE};
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
        for (size_t specials = 0; specials <= 4; specials += 2) {
            struct qkv_tokenizer *t = make(*state, kinds[k], specials);
            struct qkv_random random = test_random(40 + k);
            for (int i = 0; i < 8; i++) check_stream(*state, t, &random, 12000, 12000);
            qkv_tokenizer_free(t);
        }
    }
    struct qkv_tokenizer *t = with_pattern(*state, TEST_GPT2_LIKE);
    struct qkv_random random = test_random(43);
    assert_true(qkv_pattern_is_local(t->chain->pattern));
    for (int i = 0; i < 24; i++) check_stream(*state, t, &random, 12000, 12000);
    qkv_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_no_pattern),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_headway),
        cmocka_unit_test(cuts_of_long_texts_are_looked_for_at_their_ends),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
