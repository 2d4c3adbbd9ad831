/* test_text.h: shared by the tests of tokenizers: difficult random texts, and encoding and decoding in one line. */
#ifndef QKV_TEST_TEXT_H
#define QKV_TEST_TEXT_H

#include "test.h"
#include "text/text.h"

#define TEST_GPT2_LIKE                                                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" /* the pattern of Llama 3 */

static const char *const test_specials[] = {"<|endoftext|>", "<|end|>", "<|end|><|end|>", "  \n"};

/* Bits of text between which pieces, characters and special tokens begin and end. */
static const char *const test_bits[] = {
    "a",
    "b",
    "ab",
    "aa",
    "the",
    " the",
    " cat",
    "'s",
    "'ll",
    "'",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "1",
    "23",
    "4567",
    "!",
    "...",
    "-",
    "<",
    "<|",
    "|>",
    "<|end",
    "<|endoftext|>",
    "<|end|>",
    "<0x41>",
    "\xC3\xA9",
    "e\xCC\x81",
    "\xCC\x81",
    "\xCC\xB8",
    "\xC2\xA0",
    "\xE2\x80\x83",
    "\xE3\x80\x80",
    "\xE1\xA0\x8E",
    "\xE4\xB8\xAD",
    "\xE6\x96\x87",
    "\xF0\x9F\x98\x80",
    "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
    "\xE2\x84\xAA",
    "\xC3",
    "\xE4\xB8",
    "\xF0\x9F\x98",
    "\x80",
    "\xFF",
    "\xED\xA0\x80",
    "\xC0\x80",
};

/* A text of up to `bits` bits, random bytes among them (a zero byte too). The caller frees it. */
static inline char *test_text(struct qkv_random *random, size_t bits, size_t *size) {
    struct qkv_buffer text = {0};
    size_t n = test_between(random, 0, bits);
    qkv_buffer_append(NULL, &text, "", 0);
    for (size_t i = 0; i < n; i++) {
        char byte = (char)qkv_random_below(random, 256);
        size_t k = (size_t)qkv_random_below(random, TEST_COUNT(test_bits) + 2);
        const char *bit = k < TEST_COUNT(test_bits) ? test_bits[k] : &byte;
        if (qkv_buffer_append(NULL, &text, bit, bit == &byte ? 1 : strlen(bit))) abort();
    }
    *size = text.size;
    return text.data;
}

static inline struct qkv_tokenizer *test_train(struct qkv_context *ctx, enum qkv_tokenizer_kind kind, int vocab,
                                               size_t specials, const char *text, size_t size) {
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = kind, .vocab = vocab, .specials = test_specials, .special_count = specials};
    struct qkv_tokenizer *t = NULL;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, size, &t));
    assert_non_null(t);
    return t;
}

/* A tokenizer from the text of a tokenizer.json. */
static inline struct qkv_tokenizer *test_parse(struct qkv_context *ctx, const char *json) {
    struct qkv_tokenizer *t = NULL;
    assert_ok(ctx, qkv_tokenizer_parse(ctx, json, strlen(json), "tokenizer.json", &t));
    return t;
}

/* The file of a tokenizer as text; with `from` replaced by `to` if given (it must be there). The caller frees it. */
static inline char *test_print(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *from,
                               const char *to) {
    struct qkv_buffer out = {0};
    assert_ok(ctx, qkv_tokenizer_print(ctx, t, &out));
    if (!from) return out.data;
    char *at = strstr(out.data, from);
    if (!at) fail_msg("\"%s\" is not in the file", from);
    size_t size = out.size + strlen(to) + 1;
    char *changed = malloc(size);
    if (!changed) abort();
    snprintf(changed, size, "%.*s%s%s", (int)(at - out.data), out.data, to, at + strlen(from));
    qkv_buffer_free(&out);
    return changed;
}

/* The tokenizer of the file of a tokenizer, which this frees, with `from` replaced by `to`. */
static inline struct qkv_tokenizer *test_altered(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *from,
                                                 const char *to) {
    char *file = test_print(ctx, t, from, to);
    qkv_tokenizer_free(t);
    t = test_parse(ctx, file);
    free(file);
    return t;
}

/* A pattern as a text of JSON; free() it. */
static inline char *test_pattern_json(const char *pattern) {
    char *out = malloc(2 * strlen(pattern) + 3), *at = out;
    if (!out) abort();
    *at++ = '"';
    for (const char *s = pattern; *s; s++) {
        if (*s == '\\' || *s == '"' || *s == '\n') *at++ = '\\';
        *at++ = (char)(*s == '\n' ? 'n' : *s);
    }
    snprintf(at, 2, "\"");
    return out;
}

/* Encodes, decodes and checks that the bytes are the same, for texts without unknown tokens whose white space is
 * preserved; the caller frees the ids. */
static inline int32_t *test_round_trip(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                       size_t size, bool specials, size_t *count) {
    int32_t *ids = NULL;
    char *back = NULL;
    size_t n = 0;
    assert_ok(ctx, qkv_tokenizer_encode(ctx, t, text, size, specials, &ids, count));
    assert_ok(ctx, qkv_tokenizer_decode(ctx, t, ids, *count, &back, &n));
    bool spelt = !t->whole_words;
    for (size_t i = 0; i < *count; i++) spelt = spelt && ids[i] != qkv_tokenizer_unknown(t);
    if (spelt) assert_int_equal(n, size);
    if (spelt) assert_memory_equal(back, text, size);
    assert_int_equal(back[n], 0);
    qkv_free(back);
    return ids;
}

static inline void test_ids_are(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, bool specials,
                                const int32_t *expected, size_t expected_count) {
    size_t count;
    int32_t *ids = test_round_trip(ctx, t, text, strlen(text), specials, &count);
    if (count != expected_count || memcmp(ids, expected, count * sizeof *ids) != 0) {
        print_error("\"%s\" gave", text);
        for (size_t i = 0; i < count; i++) print_error(" %d", (int)ids[i]);
        print_error(", expected");
        for (size_t i = 0; i < expected_count; i++) print_error(" %d", (int)expected[i]);
        print_error("\n");
        fail();
    }
    qkv_free(ids);
}

/* The call gives that status, and a sentence with that part. */
#define assert_fails(ctx, call, expected, part)                                                                        \
    do {                                                                                                               \
        assert_status(ctx, call, expected);                                                                            \
        assert_message(ctx, part);                                                                                     \
    } while (0)

/* assert_ids(ctx, t, "text", specials, 1, 2, 3) */
#define assert_ids(ctx, t, text, specials, ...)                                                                        \
    test_ids_are(ctx, t, text, specials, (const int32_t[]){__VA_ARGS__},                                               \
                 sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static inline int test_context(void **state) {
    return (int)qkv_context_create((struct qkv_context **)state, NULL);
}

static inline int test_context_done(void **state) {
    qkv_context_free(*state);
    return 0;
}

/* A file of ../shared/data, or NULL where it is absent; free() it. */
static inline char *test_shared_file(const char *name, size_t *size) {
    const char *folder = getenv("QKV_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : TEST_SOURCE_DIR "/../shared/data", name);
    return test_read_file(path, size);
}

#endif
