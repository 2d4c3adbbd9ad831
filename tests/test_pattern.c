/* Patterns of tokenizer.json: pieces end where Hugging Face tokenizers ends them (pattern_cases.h, which that
 * package wrote); patterns that would cut otherwise are refused by name. */
/* labels: quick */
#include "test_text.h"

#include "pattern_cases.h"

static void pieces_end_where_the_tokenizers_package_ends_them(void **state) {
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(pattern_cases); i++) {
        struct qkv_pattern *pattern;
        struct qkv_splitter *splitter;
        assert_ok(ctx, qkv_pattern_create(ctx, pattern_cases[i].pattern, &pattern));
        assert_ok(ctx, qkv_splitter_create(ctx, pattern, &splitter));
        for (size_t k = 0; k < TEST_COUNT(pattern_texts); k++) {
            const unsigned char *ends = pattern_cases[i].ends[k];
            size_t begin, end, n = 0;
            qkv_splitter_start(splitter, pattern_texts[k], strlen(pattern_texts[k]), false);
            while (qkv_splitter_next(splitter, &begin, &end) == QKV_SPLIT_PIECE) {
                if (end != ends[n])
                    fail_msg("%s: piece %zu of text %zu ends at %zu, expected %u", pattern_cases[i].pattern, n, k, end,
                             (unsigned)ends[n]);
                n++;
            }
            assert_int_equal(ends[n], 0);
        }
        qkv_splitter_free(splitter);
        qkv_pattern_free(pattern);
    }
}

static void what_is_not_translated_is_refused_by_name(void **state) {
    static const char *const refused[][2] = {
        {"a\\Kb", "at byte 1 \"\\K\", which drops what was matched before it"},
        {"\\X", "\"\\X\", which matches a cluster"},
        {"\\y", "\"\\y\", which matches between clusters"},
        {"(?~ab)", "\"(?~\", an absent group"},
        {"(a)\\1", "\"\\1\", a back reference"},
        {"(?<n>a)\\k<n>", "\"\\k\", a back reference"},
        {"(?<n>a)\\g<n>", "\"\\g\", a call of a group"},
        {"\\G.", "\"\\G\", which matches where the search began"},
        {"\\pL", "\"\\p\", without {"},
        {"\\p{Nonsense}", "unknown property"},
        {"\\p{Script=Han}", "which is not a known property"},
        {"\\Qa\\E", "\"\\Q\", an escape that means other things"},
        {"\\C", "\"\\C\", a control or meta character"},
        {"\\xe9", "\"\\xe9\", which names no character"},
        {"\\x{110000}", "which names no character"},
        {"\\x{D800}", "which names no character"},
        {"(?x)a b", "the option that skips spaces"},
        {"a(?i)b|c", "an option after the beginning of its group"},
        {"(?W:\\w)", "a group of an unknown kind"},
        {"(?P<n>a)", "a group of an unknown kind"},
        {"(?#c)a", "a comment"},
        {"(?(1)a|b)", "a condition or a callout"},
        {"(*FAIL)", "a callout"},
        {"(?i)tra\xC3\x9F", "which may have other cases, where case is ignored"},
        {"(?i)\xC5\xBF", "which may have other cases, where case is ignored"},
        {"(?i)ss", "after \"s\" where case is ignored"},
        {"(?i:s(?:t))", "after \"s\" where case is ignored"},
        {"(?i:[\\p{L}])", "\"\\p{L}\", in a class that ignores case"},
        {"(?i:[\xC3\xA0-\xC3\xBD])", "in a class that ignores case"},
        {"(?i:[a-z&&[^b]])", "an intersection in a class that ignores case"},
        {"(?i:[[^a]b])", "a negated class in a class that ignores case"},
        {"[^[^\\W\\d[\\w]]_]", "a negated class in another one, which may be empty"},
        {"[a-c-e]", "a - that is neither between two characters nor at an end"},
        {"[\\w-x]", "a - that is neither between two characters nor at an end"},
        {"[a-\\d]", "a range that ends in a class"},
        {"[z-a]", "a range whose end comes before its begin"},
        {"[a&&]", "a class with nothing next to &&"},
        {"[[:foo:]]", "which is not a known POSIX class"},
        {"[\\R]", "\"\\R\", in a class"},
        {"[a", "a class without its ]"},
        {"(a", "a group without its )"},
        {"a)", "the end of a group that has no beginning"},
        {"*a", "a repeat of nothing"},
        {"a**", "a repeat of a repeat"},
        {"^*", "a repeat of what matches no character"},
        {"(?:a?)*b", "\"*\", a repeat of what may match nothing"},
        {"(?:$a*){2}", "a repeat of what may match nothing"},
        {"a{0,3}+", "a repeat of what may match nothing"},
        {"a{3,1}", "a repeat whose bounds are swapped"},
        {"a{99999}", "more than 65535 repeats"},
        {"(?<=a+)b", "is not a regular expression: lookbehind"},
    };
    struct qkv_context *ctx = *state;
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        struct qkv_pattern *pattern;
        if (qkv_pattern_create(ctx, refused[i][0], &pattern) != QKV_FORMAT) fail_msg("%s is accepted", refused[i][0]);
        assert_null(pattern);
        assert_message(ctx, refused[i][1]);
    }
}

/* A pattern of one text before, one text many times, one text after. */
static char *repeated(const char *before, const char *middle, size_t times, const char *after) {
    size_t n = strlen(middle);
    char *text = malloc(strlen(before) + n * times + strlen(after) * times + 1), *end = text;
    if (!text) abort();
    end = stpcpy(end, before);
    for (size_t i = 0; i < times; i++) end = stpcpy(end, middle);
    for (size_t i = 0; i < times; i++) end = stpcpy(end, after);
    return text;
}

static void hostile_patterns_end_with_a_sentence(void **state) {
    struct qkv_context *ctx = *state;
    static const struct {
        const char *before, *middle, *after;
        size_t times;
        const char *sentence;
    } hostile[] = {
        {"a", "(", ")", 61, "more than 60 nested groups"},
        {"", "[a", "]", 21, "more than 20 nested classes"},
        {"", "(", "", 10000, "more than 60 nested groups"},
        {"", "[", "", 10000, "more than 20 nested classes"},
        {"", "a", "", 16385, "the pattern has 16385 bytes; at most 16384 are read"},
        {"", "\\b", "", 8000, "where the pattern becomes too long"},
        {"(?:(?:a{1000}){1000}){1000}", "", "", 0, "is not a regular expression: "},
    };
    for (size_t i = 0; i < TEST_COUNT(hostile); i++) {
        struct qkv_pattern *pattern;
        char *source = repeated(hostile[i].before, hostile[i].middle, hostile[i].times, hostile[i].after);
        assert_status(ctx, qkv_pattern_create(ctx, source, &pattern), QKV_FORMAT);
        assert_message(ctx, hostile[i].sentence);
        free(source);
    }
    struct qkv_pattern *pattern;
    struct qkv_splitter *splitter;
    size_t begin, end;
    char text[64];
    memset(text, 'a', sizeof text);
    assert_ok(ctx, qkv_pattern_create(ctx, "(?:a|aa|(a+)+)+b(?<!c)|(?:[a-z&&[^b]]|aa)+[bc]d?(?<=d|cd)", &pattern));
    assert_ok(ctx, qkv_splitter_create(ctx, pattern, &splitter));
    qkv_splitter_start(splitter, text, sizeof text, false);
    assert_int_equal(qkv_splitter_next(splitter, &begin, &end), QKV_SPLIT_FAILED);
    assert_int_equal(qkv_splitter_fail(ctx, splitter), QKV_FORMAT);
    assert_message(ctx, "gave up at byte 0 of the text: ");
    qkv_splitter_free(splitter);
    qkv_pattern_free(pattern);
}

/* Bits of patterns, put together at random: whatever comes out is a pattern or a sentence. */
static void random_patterns_are_translated_or_refused(void **state) {
    static const char *const bits[] = {"a",     "(",   ")",    "[",   "]",   "^",        "-",    "&&",  "\\",     "{",
                                       "2",     ",",   "}",    "?",   "*",   "+",        "|",    "(?i", ":",      "(?<",
                                       "\\p{L", "[:a", "\\x{", "\\b", "\\w", "\xC3\x9F", "\xC3", "s",   "(?<!a)", "[^"};
    struct qkv_context *ctx = *state;
    struct qkv_random random = test_random(60);
    size_t made = 0;
    for (int round = 0; round < 4000; round++) {
        char source[256] = "";
        size_t n = test_between(&random, 1, 14);
        for (size_t i = 0; i < n; i++) strcat(source, bits[qkv_random_below(&random, TEST_COUNT(bits))]);
        struct qkv_pattern *pattern;
        enum qkv_status status = qkv_pattern_create(ctx, source, &pattern);
        assert_true(status == QKV_OK || status == QKV_FORMAT);
        assert_true((pattern != NULL) == (status == QKV_OK));
        made += status == QKV_OK;
        qkv_pattern_free(pattern);
    }
    assert_true(made > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_end_where_the_tokenizers_package_ends_them),
        cmocka_unit_test(what_is_not_translated_is_refused_by_name),
        cmocka_unit_test(hostile_patterns_end_with_a_sentence),
        cmocka_unit_test(random_patterns_are_translated_or_refused),
    };
    test_seed();
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
