/* Tokenizers: UTF-8 and the byte alphabet, vocabularies of all kinds, training against the reference merges of Stanford
 * CS336 and against counting anew at every merge, round trips of any bytes, and every refusal with its sentence. */
#include "test_text.h"

#include <utf8proc.h>

static const char toy[] = "the cat sat on the mat . the dog sat on the log . the cat and the dog sat .";

/* ---- bytes and characters ------------------------------------------------------------------------------------------ */

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
    /* Overlong, too large, lone continuation, and beginnings that cannot go on. */
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
        struct qkv_buffer text = {0}, normal = {0};
        size_t n = test_between(&random, 1, 300), marks = (size_t)round % 4 * 33;
        for (size_t i = 0; i < n; i++) {
            bool mark = marks > 0 && qkv_random_below(&random, marks) > 0;
            uint32_t code =
                codes[mark ? 3 + qkv_random_below(&random, 9) : qkv_random_below(&random, TEST_COUNT(codes))];
            char s[4];
            assert_ok(ctx, qkv_buffer_append(ctx, &text, s, qkv_utf8_write(code, s)));
        }
        utf8proc_uint8_t *expected = utf8proc_NFC((const utf8proc_uint8_t *)text.data);
        assert_ok(ctx, qkv_normalize(ctx, text.data, text.size, &normal, NULL));
        assert_string_equal(normal.data, (const char *)expected);
        free(expected);
        qkv_buffer_free(&text);
        qkv_buffer_free(&normal);
    }
}

/* ---- pieces -------------------------------------------------------------------------------------------------------- */

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
    assert_message(ctx, "the pattern \"a(b\" is not a regular expression");
    assert_null(pattern);
    assert_status(ctx, qkv_pattern_create(ctx, "\\C", &pattern), QKV_FORMAT);
    /* A pattern that tries without end is stopped, and says where. */
    struct qkv_splitter *splitter;
    char text[40];
    size_t begin, end;
    memset(text, 'a', sizeof text);
    assert_ok(ctx, qkv_pattern_create(ctx, "(?:a|aa|(a+)+)+\\1b(?<!c)|(?:a|aa)+[bc]d?(?<=d|cd)", &pattern));
    assert_ok(ctx, qkv_splitter_create(ctx, pattern, &splitter));
    qkv_splitter_start(splitter, text, sizeof text, false);
    assert_int_equal(qkv_splitter_next(splitter, &begin, &end), QKV_SPLIT_FAILED);
    assert_int_equal(qkv_splitter_fail(ctx, splitter), QKV_FORMAT);
    assert_message(ctx, "gave up at byte 0 of the text: ");
    qkv_splitter_free(splitter);
    qkv_pattern_free(pattern);
    static const char *const back[] = {"^a", "(?<=a)b", "(?<!a)b", "\\bx", "a\\Kb", "\\Aa"};
    static const char *const fresh[] = {"[^a]", "a(?!b)", "[\\b^]", "\\^", "[]^]", "a(?=b)"};
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

/* ---- vocabularies -------------------------------------------------------------------------------------------------- */

static void test_bytes(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BYTES, 0, 3, NULL, 0);
    assert_int_equal(qkv_tokenizer_vocab(t), 259);
    assert_ids(ctx, t, "A\xFFz", true, 65, 255, 122);
    assert_ids(ctx, t, "a<|end|>b", true, 97, 257, 98);
    assert_ids(ctx, t, "<|end|><|end|><|end|>", true, 258, 257); /* the longest first */
    assert_ids(ctx, t, "<|end|>", false, '<', '|', 'e', 'n', 'd', '|', '>');
    assert_int_equal(qkv_tokenizer_special(t, "<|endoftext|>"), 256);
    assert_int_equal(qkv_tokenizer_special(t, "<|other|>"), -1);
    assert_int_equal(qkv_tokenizer_special(t, "a"), -1);
    size_t size;
    assert_string_equal(qkv_tokenizer_token(t, 257, &size), "<|end|>");
    assert_int_equal(size, 7);
    assert_null(qkv_tokenizer_token(t, 259, &size));
    assert_null(qkv_tokenizer_token(t, -1, NULL));
    qkv_tokenizer_free(t);
}

static void test_chars(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] = "b\xC3\xA9"
                               "a\0c\xFF"
                               "ab<|endoftext|>";
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_CHARS, 0, 1, text, sizeof text - 1);
    /* a b c é, then the bytes, then the special; not the zero character, nor what only the special has */
    assert_int_equal(qkv_tokenizer_vocab(t), 4 + 256 + 1);
    assert_ids(ctx, t,
               "\xC3\xA9"
               "cab",
               true, 3, 2, 0, 1);
    assert_ids(ctx, t, "xA", true, 4 + 'x', 4 + 'A');
    assert_ids(ctx, t,
               "\xC3"
               "a\xE4\xB8\xAD",
               true, 4 + 0xC3, 0, 4 + 0xE4, 4 + 0xB8, 4 + 0xAD);
    assert_ids(ctx, t, "<|endoftext|>a", true, 260, 0);
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_CHARS, 0, 0, "<0x41>", 6);
    assert_ids(ctx, t, "<0x41>", true, 3, 0, 5, 2, 1, 4); /* the text, not the byte token */
    assert_ids(ctx, t, "A", true, 6 + 'A');
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_CHARS, 258, 0, "zzzyyyxw", 8); /* the two most frequent, in order */
    assert_int_equal(qkv_tokenizer_vocab(t), 258);
    assert_ids(ctx, t, "zyx", true, 1, 0, 2 + 'x');
    qkv_tokenizer_free(t);
}

static void test_words(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_WORDS, 0, 1, toy, sizeof toy - 1);
    /* " the" 5, " sat" 3, " ." 3, " cat" 2, " on" 2, " dog" 2, "the", " mat", " log", " and" */
    assert_int_equal(qkv_tokenizer_vocab(t), 256 + 10 + 1);
    assert_ids(ctx, t, "the cat sat on the mat .", true, 262, 259, 257, 260, 256, 263, 258);
    assert_ids(ctx, t, " the cot", true, 256, ' ', 'c', 'o', 't');
    assert_int_equal(qkv_tokenizer_special(t, "<|endoftext|>"), 266);
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_WORDS, 260, 1, toy, sizeof toy - 1); /* room for three words */
    assert_int_equal(qkv_tokenizer_vocab(t), 260);
    assert_ids(ctx, t, " the sat . on", true, 256, 257, 258, ' ', 'o', 'n');
    qkv_tokenizer_free(t);
}

static void test_bpe_small(void **state) {
    struct qkv_context *ctx = *state;
    /* The example of Sennrich et al. 2016; ties go to the greatest pair: s t, e st, then o w, l ow, w est, n e. */
    static const char text[] =
        "low low low low low lower lower widest widest widest newest newest newest newest newest newest";
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BPE, 0, 0, text, sizeof text - 1);
    size_t size;
    assert_string_equal(qkv_tokenizer_token(t, 256, &size), "st");
    assert_string_equal(qkv_tokenizer_token(t, 257, &size), "est");
    assert_string_equal(qkv_tokenizer_token(t, 258, &size), "ow");
    assert_true(qkv_tokenizer_vocab(t) < 1024); /* the merges ran out */
    int ran_out = qkv_tokenizer_vocab(t);
    qkv_tokenizer_free(t);
    t = test_train(ctx, QKV_TOKENIZER_BPE, 100000, 1, text, sizeof text - 1);
    assert_int_equal(qkv_tokenizer_vocab(t), ran_out + 1);
    assert_int_equal(qkv_tokenizer_special(t, "<|endoftext|>"), ran_out);
    qkv_tokenizer_free(t);
    t = test_train(ctx, QKV_TOKENIZER_BPE, 258, 1, text, sizeof text - 1);
    assert_int_equal(qkv_tokenizer_vocab(t), 258);
    assert_ids(ctx, t, "newest<|endoftext|>", true, 'n', 'e', 'w', 'e', 256, 257);
    qkv_tokenizer_free(t);
}

static void test_empty(void **state) {
    struct qkv_context *ctx = *state;
    for (int kind = QKV_TOKENIZER_BYTES; kind <= QKV_TOKENIZER_BPE; kind++) {
        struct qkv_tokenizer *t = test_train(ctx, (enum qkv_tokenizer_kind)kind, 0, 0, NULL, 0);
        assert_int_equal(qkv_tokenizer_vocab(t), 256);
        int32_t *ids;
        char *text;
        size_t count, size;
        assert_ok(ctx, qkv_tokenizer_encode(ctx, t, NULL, 0, true, &ids, &count));
        assert_int_equal(count, 0);
        assert_ok(ctx, qkv_tokenizer_decode(ctx, t, ids, 0, &text, &size));
        assert_int_equal(size, 0);
        assert_string_equal(text, "");
        qkv_free(ids);
        qkv_free(text);
        assert_ids(ctx, t, "hi", true, 'h', 'i');
        qkv_tokenizer_free(t);
    }
}

/* ---- training against others --------------------------------------------------------------------------------------- */

static void test_reference_merges(void **state) {
    struct qkv_context *ctx = *state;
    size_t size, reference_size, at = 0;
    char *text = test_shared_file("bpe/corpus.en", &size);
    char *reference = test_shared_file("bpe/train-bpe-reference-merges.txt", &reference_size);
    if (!text || !reference) {
        free(text);
        free(reference);
        skip();
    }
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BPE, 500, 1, text, size);
    assert_int_equal(qkv_tokenizer_vocab(t), 500);
    struct qkv_buffer line = {0};
    for (size_t i = 0; i < t->merges.count; i++) {
        line.size = 0;
        assert_ok(ctx, qkv_tokenizer_key(ctx, t, (size_t)t->merges.list[i].left, &line));
        assert_ok(ctx, qkv_buffer_append(ctx, &line, " ", 1));
        assert_ok(ctx, qkv_tokenizer_key(ctx, t, (size_t)t->merges.list[i].right, &line));
        assert_ok(ctx, qkv_buffer_append(ctx, &line, "\n", 1));
        assert_true(at + line.size <= reference_size);
        assert_memory_equal(reference + at, line.data, line.size);
        at += line.size;
    }
    assert_int_equal(at, reference_size);
    size_t count;
    qkv_free(test_round_trip(ctx, t, text, size, true, &count));
    qkv_buffer_free(&line);
    qkv_tokenizer_free(t);
    free(text);
    free(reference);
}

/* One step of training by the definition: counts all pairs, returns the best, merges it in place. */
struct naive {
    const struct qkv_tokenizer *t;
    int32_t *symbols; /* pieces one after the other, each followed by -1 */
    size_t n;
};

static int naive_compare(const struct qkv_tokenizer *t, int32_t a, int32_t b) {
    size_t m = t->tokens[a].size, n = t->tokens[b].size;
    int order = memcmp(qkv_token_bytes(t, (size_t)a), qkv_token_bytes(t, (size_t)b), m < n ? m : n);
    return order ? order : (m > n) - (m < n);
}

static bool naive_best(const struct naive *v, int32_t *left, int32_t *right) {
    size_t most = 0;
    for (size_t i = 0; i + 1 < v->n; i++) {
        int32_t a = v->symbols[i], b = v->symbols[i + 1];
        size_t count = 0;
        if (a < 0 || b < 0) continue;
        for (size_t k = 0; k + 1 < v->n; k++) count += v->symbols[k] == a && v->symbols[k + 1] == b;
        int order = count == most ? naive_compare(v->t, a, *left) : 0;
        if (count == most && order == 0) order = naive_compare(v->t, b, *right);
        if (count > most || (count == most && order > 0)) {
            most = count;
            *left = a;
            *right = b;
        }
    }
    return most > 0;
}

static void naive_merge(struct naive *v, int32_t left, int32_t right, int32_t result) {
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        bool both = i + 1 < v->n && v->symbols[i] == left && v->symbols[i + 1] == right;
        v->symbols[n++] = both ? result : v->symbols[i];
        i += both;
    }
    v->n = n;
}

/* Checks each merge of a tokenizer trained on a text without patterns' help: the naive pieces come from the splitter. */
static void check_naive(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size) {
    struct naive v = {.t = t, .symbols = qkv_allocate(ctx, 2 * size + 1, sizeof(int32_t))};
    struct qkv_splitter *splitter;
    size_t begin, end;
    assert_ok(ctx, qkv_splitter_create(ctx, t->pattern, &splitter));
    qkv_splitter_start(splitter, text, size, false);
    while (qkv_splitter_next(splitter, &begin, &end) == QKV_SPLIT_PIECE) {
        for (size_t i = begin; i < end; i++) v.symbols[v.n++] = (unsigned char)text[i];
        v.symbols[v.n++] = -1;
    }
    for (size_t i = 0; i < t->merges.count; i++) {
        int32_t left = 0, right = 0;
        assert_true(naive_best(&v, &left, &right));
        assert_int_equal(t->merges.list[i].left, left);
        assert_int_equal(t->merges.list[i].right, right);
        naive_merge(&v, left, right, t->merges.list[i].result);
    }
    qkv_splitter_free(splitter);
    free(v.symbols);
}

static void test_naive_training(void **state) {
    struct qkv_random random = test_random(1);
    for (int round = 0; round < 150; round++) {
        size_t size = test_between(&random, 0, 400), letters = test_between(&random, 1, 5);
        char *text = malloc(size + 1);
        if (!text) abort();
        for (size_t i = 0; i < size; i++) text[i] = "ab cd"[qkv_random_below(&random, letters)];
        struct qkv_tokenizer *t =
            test_train(*state, QKV_TOKENIZER_BPE, (int)test_between(&random, 256, 330), 0, text, size);
        check_naive(*state, t, text, size);
        qkv_tokenizer_free(t);
        free(text);
    }
}

/* ---- encoding against the definition ------------------------------------------------------------------------------- */

static void test_naive_encoding(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_random random = test_random(2);
    for (int round = 0; round < 60; round++) {
        size_t size;
        char *text = test_text(&random, 400, &size);
        struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BPE, 330, 0, text, size);
        qkv_pattern_free(t->pattern); /* one long piece: the heap against merging rank by rank */
        t->pattern = NULL;
        size_t n = test_between(&random, 0, 300), count;
        char *s = qkv_allocate(ctx, n + 1, 1);
        for (size_t i = 0; i < n; i++) s[i] = text[size ? qkv_random_below(&random, size) : 0];
        int32_t *ids = test_round_trip(ctx, t, s, n, true, &count);
        struct naive v = {.t = t, .symbols = qkv_allocate(ctx, n + 1, sizeof(int32_t)), .n = n};
        for (size_t i = 0; i < n; i++) v.symbols[i] = (unsigned char)s[i];
        for (size_t i = 0; i < t->merges.count; i++) {
            naive_merge(&v, t->merges.list[i].left, t->merges.list[i].right, t->merges.list[i].result);
        }
        assert_int_equal(count, v.n);
        if (count > 0) assert_memory_equal(ids, v.symbols, count * sizeof *ids);
        free(v.symbols);
        qkv_free(ids);
        free(s);
        qkv_tokenizer_free(t);
        free(text);
    }
}

static void test_round_trips(void **state) {
    struct qkv_random random = test_random(3);
    for (int kind = QKV_TOKENIZER_BYTES; kind <= QKV_TOKENIZER_BPE; kind++) {
        for (int round = 0; round < 40; round++) {
            size_t size, n, count;
            char *text = test_text(&random, 300, &size);
            int vocab = round % 2 && kind != QKV_TOKENIZER_BPE ? 0 : 280;
            struct qkv_tokenizer *t = test_train(*state, (enum qkv_tokenizer_kind)kind, vocab, 4, text, size);
            for (int i = 0; i < 50; i++) {
                char *s = test_text(&random, 60, &n);
                qkv_free(test_round_trip(*state, t, s, n, i % 2, &count));
                free(s);
            }
            qkv_tokenizer_free(t);
            free(text);
        }
    }
}

static void test_long_piece(void **state) {
    struct qkv_tokenizer *t = test_train(*state, QKV_TOKENIZER_BPE, 300, 0, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 35);
    size_t n = (size_t)1 << 20, count;
    char *s = malloc(n);
    if (!s) abort();
    memset(s, 'a', n);
    int32_t *ids = test_round_trip(*state, t, s, n, true, &count);
    assert_true(count <= n / 16);
    qkv_free(ids);
    free(s);
    qkv_tokenizer_free(t);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static void refuse(struct qkv_context *ctx, struct qkv_tokenizer_options options, const char *sentence) {
    struct qkv_tokenizer *t = (struct qkv_tokenizer *)&options;
    assert_status(ctx, qkv_tokenizer_train(ctx, &options, "text", 4, &t), QKV_ARGUMENT);
    assert_message(ctx, sentence);
    assert_null(t);
}

static void test_refusals(void **state) {
    struct qkv_context *ctx = *state;
    static const char *const twice[] = {"<|a|>", "<|b|>", "<|a|>"}, *const empty[] = {"<|a|>", ""};
    static const char *const not_text[] = {"\xFF"}, *const byte[] = {"t"}, *const fallback[] = {"<0x41>"};
    refuse(ctx, (struct qkv_tokenizer_options){.kind = (enum qkv_tokenizer_kind)7}, "there is no kind 7");
    refuse(ctx, (struct qkv_tokenizer_options){.kind = QKV_TOKENIZER_BPE, .vocab = 255},
           "bpe cannot have a vocabulary of 255; it must hold 256 bytes and 0 special tokens");
    refuse(ctx, (struct qkv_tokenizer_options){.kind = QKV_TOKENIZER_WORDS, .vocab = -5},
           "words cannot have a vocabulary of -5");
    refuse(ctx,
           (struct qkv_tokenizer_options){
               .kind = QKV_TOKENIZER_CHARS, .vocab = 258, .specials = twice, .special_count = 3},
           "it must hold 256 bytes and 3 special tokens");
    refuse(ctx, (struct qkv_tokenizer_options){.specials = NULL, .special_count = 1},
           "special_count is 1 but specials is NULL");
    refuse(ctx, (struct qkv_tokenizer_options){.specials = twice, .special_count = 3}, "\"<|a|>\" is given twice");
    refuse(ctx, (struct qkv_tokenizer_options){.specials = empty, .special_count = 2}, "special token 1 is empty");
    refuse(ctx, (struct qkv_tokenizer_options){.specials = not_text, .special_count = 1},
           "special token 0 is not UTF-8");
    refuse(ctx, (struct qkv_tokenizer_options){.specials = byte, .special_count = 1},
           "special token \"t\" is written like ordinary token 116");
    refuse(ctx, (struct qkv_tokenizer_options){.kind = QKV_TOKENIZER_CHARS, .specials = fallback, .special_count = 1},
           "special token \"<0x41>\" is written like ordinary token");

    struct qkv_tokenizer *t = NULL;
    struct qkv_tokenizer_options options = {.kind = QKV_TOKENIZER_BPE};
    assert_status(ctx, qkv_tokenizer_train(ctx, &options, NULL, 4, &t), QKV_ARGUMENT);
    assert_message(ctx, "the text is NULL but its size is 4");
    assert_status(ctx, qkv_tokenizer_train(ctx, NULL, "text", 4, &t), QKV_ARGUMENT);

    t = test_train(ctx, QKV_TOKENIZER_BYTES, 0, 1, NULL, 0);
    int32_t *ids;
    char *text;
    size_t n;
    assert_status(ctx, qkv_tokenizer_decode(ctx, t, (const int32_t[]){65, 257}, 2, &text, &n), QKV_ARGUMENT);
    assert_message(ctx, "ids[1] is 257, and there is no such token; ids are in [0, 257)");
    assert_null(text);
    assert_status(ctx, qkv_tokenizer_decode(ctx, t, (const int32_t[]){-1}, 1, &text, &n), QKV_ARGUMENT);
    assert_status(ctx, qkv_tokenizer_encode(ctx, t, NULL, 3, true, &ids, &n), QKV_ARGUMENT);
    assert_message(ctx, "the text is NULL but its size is 3");
    qkv_tokenizer_free(t);
    qkv_tokenizer_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_alphabet),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_pattern_refusals),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_chars),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_bpe_small),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_reference_merges),
        cmocka_unit_test(test_naive_training),
        cmocka_unit_test(test_naive_encoding),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_long_piece),
        cmocka_unit_test(test_refusals),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
