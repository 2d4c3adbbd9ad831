/* The base of tokenizers: UTF-8, the byte alphabet, NFC against utf8proc, and pieces that end where Hugging Face
 * tokenizers ends them. */
/* labels: quick */
#include "test_text.h"

#include "text/chain.h"

#include <utf8proc.h>

/* ---- bytes and characters --------------------------------------------------------------------------------------- */

static void test_byte_alphabet(void **state) {
    (void)state;
    assert_int_equal(qkv_byte_symbol(' '), 0x120); /* Ġ */
    assert_int_equal(qkv_byte_symbol('\n'), 0x10A);
    assert_int_equal(qkv_byte_symbol('!'), '!');
    assert_int_equal(qkv_byte_symbol(0x7F), 0x121);
    assert_int_equal(qkv_byte_symbol(0xAD), 0x143); /* the last one */
    assert_int_equal(qkv_byte_symbol(0xFF), 0xFF);
    int symbols = 0;
    for (uint32_t code = 0; code < 0x400; code++) {
        int byte = qkv_symbol_byte(code);
        if (byte < 0) continue;
        assert_int_equal(qkv_byte_symbol((unsigned char)byte), code);
        symbols++;
    }
    assert_int_equal(symbols, 256);
}

static void test_utf8(void **state) {
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char s[4];
        uint32_t back = 0;
        size_t n = qkv_utf8_write(code, s);
        bool surrogate = code >= 0xD800 && code < 0xE000;
        assert_int_equal(qkv_utf8_scan(s, n, &back), surrogate ? 0 : (int)n);
        if (surrogate) continue;
        assert_int_equal(back, code);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(qkv_utf8_scan(s, cut, &back), -1);
            assert_int_equal(qkv_utf8_tail(s, cut), cut);
        }
        assert_int_equal(qkv_utf8_tail(s, n), 0);
    }
    /* Overlong, too large, single continuation bytes, and beginnings without continuation. */
    static const char *const wrong[] = {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                                        "\xF5\x80", "\x80",     "\xFF",         "\xE4\x41",         "\xED\xA0"};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        uint32_t code;
        assert_int_equal(qkv_utf8_scan(wrong[i], strlen(wrong[i]), &code), 0);
        assert_int_equal(qkv_utf8_valid(wrong[i], strlen(wrong[i])), 0);
    }
    assert_int_equal(qkv_utf8_valid("0123456789abc\xC3\xA9xyz\xC3(", 20), 18);
    assert_int_equal(qkv_utf8_tail("\xE0\x9F", 2), 0);
    assert_int_equal(qkv_utf8_tail("abc", 3), 0);
}

/* NFC against utf8proc alone, with runs of marks short enough for it and long enough to be sorted first. */
static void test_normalize(void **state) {
    struct qkv_context *ctx = *state;
    static const uint32_t codes[] = {'a',   'e',   0xE9,  0x301,  0x316,   0x327,  0x344,  0x345,
                                     0xF71, 0xF73, 0xF75, 0xF81,  0x1112,  0x1161, 0x11AB, 0x212A,
                                     0x5D0, 0x5B8, 0x93C, 0x4E2D, 0x1D15E, 0x338};
    struct qkv_random random = test_random(4);
    for (int round = 0; round < 400; round++) {
        struct qkv_buffer text = {0};
        struct chain_run run = {.ctx = ctx};
        size_t n = test_between(&random, 1, 300), marks = (size_t)round % 4 * 33;
        for (size_t i = 0; i < n; i++) {
            bool mark = marks > 0 && qkv_random_below(&random, marks) > 0;
            uint32_t code =
                codes[mark ? 3 + qkv_random_below(&random, 9) : qkv_random_below(&random, TEST_COUNT(codes))];
            char s[4];
            assert_ok(ctx, qkv_buffer_append(ctx, &text, s, qkv_utf8_write(code, s)));
        }
        utf8proc_uint8_t *expected = utf8proc_NFC((const utf8proc_uint8_t *)text.data);
        qkv_chain_load(&run, text.data, 0, text.size);
        assert_ok(ctx, qkv_chain_form(&run, false, true));
        assert_int_equal(run.text.bytes.size, strlen((const char *)expected));
        assert_memory_equal(run.text.bytes.data, expected, run.text.bytes.size);
        free(expected);
        qkv_buffer_free(&text);
        qkv_chain_run_free(&run);
    }
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

struct pieces_case {
    const char *text;
    size_t gpt2[16], llama[16]; /* where pieces end, by the tokenizers package (0.23) */
};
static const struct pieces_case pieces_cases[] = {
    {"Hello, world! It's 2024.\012\012  The end",
     {5, 6, 12, 13, 16, 18, 23, 24, 27, 31, 35},
     {5, 6, 12, 13, 16, 18, 19, 22, 23, 26, 27, 31, 35}},
    {"  a\302\240 b\012\012\012c\011\011d  ",
     {1, 3, 5, 7, 9, 10, 11, 12, 13, 14, 16},
     {1, 3, 5, 7, 10, 11, 12, 14, 16}},
    {"don't DON'T we'll x'y", {3, 5, 9, 10, 11, 14, 17, 19, 20, 21}, {3, 5, 9, 11, 14, 17, 19, 21}},
    {"na\303\257ve caf\303\251 \344\270\255\346\226\207\345\255\227 \360\237\230\200!! \302\275\302\2623",
     {6, 12, 22, 29, 35},
     {6, 12, 22, 29, 30, 35}},
    {"a\341\240\216b \342\200\213 c\343\200\200\343\200\200d", {1, 4, 5, 9, 11, 14, 17, 18}, {1, 5, 9, 11, 14, 18}},
    {"\015\012 x\015\012\015\012y", {2, 4, 7, 8, 9}, {2, 4, 8, 9}},
    {"a\xFF\xFF b\xE4\xB8", {1, 2, 3, 5, 6, 7}, {1, 2, 3, 5, 6, 7}}, /* ours: a byte that is no UTF-8 is a piece */
};

static void check_pieces(struct qkv_context *ctx, const char *source, const char *text, const size_t *ends) {
    struct qkv_pattern *pattern;
    struct qkv_splitter *splitter;
    assert_ok(ctx, qkv_pattern_create(ctx, source, &pattern));
    assert_ok(ctx, qkv_splitter_create(ctx, pattern, &splitter));
    qkv_splitter_start(splitter, text, strlen(text), false);
    size_t begin, end, last = 0, n = 0;
    while (qkv_splitter_next(splitter, &begin, &end) == QKV_SPLIT_PIECE) {
        assert_int_equal(begin, last);
        assert_int_equal(end, ends[n++]);
        last = end;
    }
    assert_int_equal(last, strlen(text));
    qkv_splitter_free(splitter);
    qkv_pattern_free(pattern);
}

static void test_pieces(void **state) {
    for (size_t i = 0; i < TEST_COUNT(pieces_cases); i++) {
        check_pieces(*state, qkv_pattern_gpt2, pieces_cases[i].text, pieces_cases[i].gpt2);
        check_pieces(*state, TEST_GPT2_LIKE, pieces_cases[i].text, pieces_cases[i].llama);
    }
    check_pieces(*state, "b+", "aabbabc", (size_t[]){2, 4, 5, 6, 7}); /* what lies between matches is a piece too */
    check_pieces(*state, "[]\\s]+", "a] \u180e]b", (size_t[]){1, 3, 6, 7, 8});
    check_pieces(*state, "x*", "axx", (size_t[]){1, 3}); /* empty matches are none */
}

static void test_pattern_refusals(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_pattern *pattern;
    assert_status(ctx, qkv_pattern_create(ctx, "a(b", &pattern), QKV_FORMAT);
    assert_message(ctx, "the pattern \"a(b\" has at byte 1 \"(b\", a group without its )");
    assert_null(pattern);
    assert_status(ctx, qkv_pattern_create(ctx, "\\C", &pattern), QKV_FORMAT);
    /* A pattern that tries without end is stopped, and says where. */
    struct qkv_splitter *splitter;
    char text[40];
    size_t begin, end;
    memset(text, 'a', sizeof text);
    assert_ok(ctx, qkv_pattern_create(ctx, "(?:a|aa|(a+)+)+b(?<!c)|(?:a|aa)+[bc]d?(?<=d|cd)", &pattern));
    assert_ok(ctx, qkv_splitter_create(ctx, pattern, &splitter));
    qkv_splitter_start(splitter, text, sizeof text, false);
    assert_int_equal(qkv_splitter_next(splitter, &begin, &end), QKV_SPLIT_FAILED);
    assert_int_equal(qkv_splitter_fail(ctx, splitter), QKV_FORMAT);
    assert_message(ctx, "gave up at byte 0 of the text: ");
    qkv_splitter_free(splitter);
    qkv_pattern_free(pattern);
    static const char *const back[] = {"^a", "(?<=a)b", "(?<!a)b", "\\bx", "a\\Bb", "\\Aa", "x*"};
    static const char *const fresh[] = {"[^a]", "a(?!b)", "[\\b^]", "\\^", "[]^]", "a(?=b)", "[a&&[^b]]"};
    for (size_t i = 0; i < TEST_COUNT(back); i++) {
        assert_ok(ctx, qkv_pattern_create(ctx, back[i], &pattern));
        assert_true(qkv_pattern_looks_back(pattern));
        qkv_pattern_free(pattern);
    }
    for (size_t i = 0; i < TEST_COUNT(fresh); i++) {
        assert_ok(ctx, qkv_pattern_create(ctx, fresh[i], &pattern));
        assert_false(qkv_pattern_looks_back(pattern));
        qkv_pattern_free(pattern);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_alphabet),    cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_normalize),        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_pattern_refusals),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
