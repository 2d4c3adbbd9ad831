/* Tokenizers: vocabularies of all kinds, training against the reference merges of Stanford CS336 and against a new
 * count at every merge, round trips of any bytes, and every refusal with its message. */
/* labels: quick */
#include "test_text.h"

#include "text/chain.h"

static const char toy[] = "the cat sat on the mat . the dog sat on the log . the cat and the dog sat .";

/* ---- vocabularies ----------------------------------------------------------------------------------------------- */

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

static void test_chars_and_bytes(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] = "b\xC3\xA9"
                               "a\0c\xFF"
                               "ab<|endoftext|>";
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_CHARS_BYTES, 0, 1, text, sizeof text - 1);
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

    t = test_train(ctx, QKV_TOKENIZER_CHARS_BYTES, 0, 0, "<0x41>", 6);
    assert_ids(ctx, t, "<0x41>", true, 3, 0, 5, 2, 1, 4); /* the text, not the byte token */
    assert_ids(ctx, t, "A", true, 6 + 'A');
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_CHARS_BYTES, 258, 0, "zzzyyyxw", 8); /* the two most frequent, in order */
    assert_int_equal(qkv_tokenizer_vocab(t), 258);
    assert_ids(ctx, t, "zyx", true, 1, 0, 2 + 'x');
    qkv_tokenizer_free(t);
}

/* Characters of the text, one token for all others, and no bytes. */
static void test_chars(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] = "b\xC3\xA9"
                               "a\0c\xFF"
                               "ab<|endoftext|>";
    static const char *const specials[] = {"<unk>", "<|end|>"};
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_CHARS, 0, 1, text, sizeof text - 1);
    assert_int_equal(qkv_tokenizer_vocab(t), 4 + 1 + 1); /* a b c é <unk> <|endoftext|> */
    assert_int_equal(qkv_tokenizer_unknown(t), 4);
    assert_int_equal(qkv_tokenizer_special(t, "<unk>"), 4);
    for (int again = 0; again < 2; again++) { /* short pieces are remembered: not by tokens that do not spell them */
        assert_ids(ctx, t,
                   "\xC3\xA9"
                   "cab",
                   true, 3, 2, 0, 1);
        assert_ids(ctx, t, "xA", true, 4, 4);
        assert_ids(ctx, t,
                   "\xC3"
                   "a\xE4\xB8\xAD\xF0\x9F\x98\x80",
                   true, 4, 0, 4, 4);
        assert_ids(ctx, t, "x<|endoftext|>y<|endoftext|>x<|endoftext|>a<unk>", true, 4, 5, 4, 5, 4, 5, 0, 4);
        assert_ids(ctx, t, "a<unk>", false, 0, 4, 4, 4, 4, 4);
    }
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_CHARS, 0, 0, "<0x41>", 6);
    assert_ids(ctx, t, "<0x41>A", true, 3, 0, 5, 2, 1, 4, 6); /* no byte tokens */
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_CHARS, 3, 0, "zzzyyyxw", 8); /* the two most frequent, in order */
    assert_int_equal(qkv_tokenizer_vocab(t), 3);
    assert_ids(ctx, t, "zyx", true, 1, 0, 2);
    qkv_tokenizer_free(t);

    /* asked for besides: it is there once */
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_CHARS, .vocab = 4, .specials = specials, .special_count = 2};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "abc<unk><|end|>", 15, &t));
    assert_int_equal(qkv_tokenizer_vocab(t), 4);
    assert_ids(ctx, t, "ab<unk><|end|>", true, 0, 1, 2, 3);
    qkv_tokenizer_free(t);
}

/* Words apart by white space, whatever it is; no bytes. Without a size there is no word but those of the text. */
static void test_whitespace(void **state) {
    struct qkv_context *ctx = *state;
    static const char text[] = "the cat\tsat \n on\xE3\x80\x80the mat<|endoftext|>x the\xC2\xA0rug. \xFF";
    static const char *const asked[] = {"<s>", "<pad>"};
    struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_WHITESPACE, 0, 1, text, sizeof text - 1);
    char *back;
    size_t size;
    int32_t *ids;
    /* <pad> <|endoftext|>, then the 3 times, cat sat on mat x rug. */
    assert_int_equal(qkv_tokenizer_vocab(t), 9);
    assert_int_equal(qkv_tokenizer_unknown(t), -1);
    assert_ids(ctx, t, "  rug.\rthe<|endoftext|> cat", true, 8, 2, 1, 3);
    assert_string_equal(qkv_tokenizer_token(t, 3, &size), " cat"); /* as it stands in a text */
    assert_int_equal(size, 4);
    assert_ok(ctx, qkv_tokenizer_decode(ctx, t, (const int32_t[]){2, 3, 1, 4}, 4, &back, &size));
    assert_string_equal(back, "the cat <|endoftext|> sat");
    assert_int_equal(size, strlen(back));
    qkv_free(back);
    assert_status(ctx, qkv_tokenizer_encode(ctx, t, "the bird sat", 12, true, &ids, &size), QKV_FORMAT);
    assert_message(ctx, "\"bird\" is no word of the vocabulary");
    assert_null(ids);
    qkv_tokenizer_free(t);

    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_WHITESPACE, .vocab = 5, .specials = asked, .special_count = 2};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "b a a b c", 9, &t)); /* <s> <pad> <unk> b a */
    assert_int_equal(qkv_tokenizer_vocab(t), 5);
    assert_ids(ctx, t, "a b c <pad> \xFF", true, 4, 3, 2, 1, 2);
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
    for (int kind = QKV_TOKENIZER_BYTES; kind < TEST_KINDS; kind++) {
        if (kind == QKV_TOKENIZER_WHITESPACE) continue; /* it has one token more, and refuses words */
        struct qkv_tokenizer *t = test_train(ctx, (enum qkv_tokenizer_kind)kind, 0, 0, NULL, 0);
        const bool bytes = kind != QKV_TOKENIZER_CHARS;
        assert_int_equal(qkv_tokenizer_vocab(t), bytes ? 256 : 1);
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
        assert_ids(ctx, t, "hi", true, bytes ? 'h' : 0, bytes ? 'i' : 0);
        qkv_tokenizer_free(t);
    }
}

/* ---- training against others ------------------------------------------------------------------------------------ */

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

/* Checks each merge of a tokenizer trained on a text, without the help of patterns: the splitter makes the naive
 * pieces. */
static void check_naive(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size) {
    struct naive v = {.t = t, .symbols = qkv_allocate(ctx, 2 * size + 1, sizeof(int32_t))};
    struct qkv_splitter *splitter;
    size_t begin, end;
    assert_ok(ctx, qkv_splitter_create(ctx, t->chain->pattern, &splitter));
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

/* ---- encoding against the definition ---------------------------------------------------------------------------- */

static void test_naive_encoding(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_random random = test_random(2);
    for (int round = 0; round < 60; round++) {
        size_t size;
        char *text = test_text(&random, 400, &size);
        struct qkv_tokenizer *t = test_train(ctx, QKV_TOKENIZER_BPE, 330, 0, text, size);
        /* one long piece: the heap against merging rank by rank */
        t->chain->splitters.at[0].flags[BYTES_REGEX] = false;
        t->chain->pattern = NULL;
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
    for (int kind = QKV_TOKENIZER_BYTES; kind < TEST_KINDS; kind++) {
        for (int round = 0; round < 40; round++) {
            size_t size, n, count;
            char *text = test_text(&random, 300, &size);
            const bool sized = kind == QKV_TOKENIZER_BPE || kind == QKV_TOKENIZER_WHITESPACE;
            int vocab = round % 2 && !sized ? 0 : 280;
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

/* ---- refusals --------------------------------------------------------------------------------------------------- */

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
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .kind = (enum qkv_tokenizer_kind)7), "7 is not a kind");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .kind = QKV_TOKENIZER_BPE, .vocab = 255),
           "bpe cannot have a vocabulary of 255; it must hold 256 bytes and 0 special tokens");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .kind = QKV_TOKENIZER_WORDS, .vocab = -5),
           "words cannot have a vocabulary of -5");
    refuse(ctx,
           QKV_OPTIONS(qkv_tokenizer_options, .kind = QKV_TOKENIZER_CHARS_BYTES, .vocab = 258,
                       .specials = test_specials, .special_count = 3),
           "it must hold 256 bytes and 3 special tokens");
    refuse(ctx,
           QKV_OPTIONS(qkv_tokenizer_options, .kind = QKV_TOKENIZER_CHARS, .vocab = 3, .specials = test_specials,
                       .special_count = 3),
           "chars cannot have a vocabulary of 3; it must hold <unk> and 3 special tokens");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .specials = NULL, .special_count = 1),
           "special_count is 1 but specials is NULL");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .specials = twice, .special_count = 3), "\"<|a|>\" is given twice");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .specials = empty, .special_count = 2), "special token 1 is empty");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .specials = not_text, .special_count = 1),
           "special token 0 is not UTF-8");
    refuse(ctx, QKV_OPTIONS(qkv_tokenizer_options, .specials = byte, .special_count = 1),
           "special token \"t\" is written like ordinary token 116");
    refuse(
        ctx,
        QKV_OPTIONS(qkv_tokenizer_options, .kind = QKV_TOKENIZER_CHARS_BYTES, .specials = fallback, .special_count = 1),
        "special token \"<0x41>\" is written like ordinary token");

    struct qkv_tokenizer *t = NULL;
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BPE};
    assert_status(ctx, qkv_tokenizer_train(ctx, &options, NULL, 4, &t), QKV_ARGUMENT);
    assert_message(ctx, "the text is NULL but its size is 4");
    assert_ok(ctx, qkv_tokenizer_train(ctx, NULL, "text", 4, &t)); /* the defaults */
    qkv_tokenizer_free(t);

    t = test_train(ctx, QKV_TOKENIZER_BYTES, 0, 1, NULL, 0);
    int32_t *ids;
    char *text;
    size_t n;
    assert_status(ctx, qkv_tokenizer_decode(ctx, t, (const int32_t[]){65, 257}, 2, &text, &n), QKV_ARGUMENT);
    assert_message(ctx, "ids[1] is 257, which is not a token; ids are in [0, 257)");
    assert_null(text);
    assert_status(ctx, qkv_tokenizer_decode(ctx, t, (const int32_t[]){-1}, 1, &text, &n), QKV_ARGUMENT);
    assert_status(ctx, qkv_tokenizer_encode(ctx, t, NULL, 3, true, &ids, &n), QKV_ARGUMENT);
    assert_message(ctx, "the text is NULL but its size is 3");
    qkv_tokenizer_free(t);
    qkv_tokenizer_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(test_bytes),           cmocka_unit_test(test_chars),
        cmocka_unit_test(test_chars_and_bytes), cmocka_unit_test(test_whitespace),
        cmocka_unit_test(test_words),           cmocka_unit_test(test_bpe_small),
        cmocka_unit_test(test_empty),           cmocka_unit_test(test_reference_merges),
        cmocka_unit_test(test_naive_training),  cmocka_unit_test(test_naive_encoding),
        cmocka_unit_test(test_round_trips),     cmocka_unit_test(test_long_piece),
        cmocka_unit_test(test_refusals),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
