/* test_stream: text written in whole characters and without stop texts, however it is cut into pieces. The borders
 * of characters are those of utf8proc. */
/* labels: quick */
#include <utf8proc.h>

#include "generate/generate.h"
#include "context_fixture.h"

/* ---- what was given out ----------------------------------------------------------------------------------------- */

enum { MOST = 512 };

struct heard {
    char text[MOST];
    size_t size, calls;
    size_t ends[MOST]; /* where each call ended */
    size_t limit;      /* calls after which to say stop; 0: never */
};

static bool hear(void *user, const char *text, size_t size) {
    struct heard *h = user;
    assert_true(size > 0 && h->size + size <= MOST);
    memcpy(h->text + h->size, text, size);
    h->size += size;
    h->ends[h->calls++] = h->size;
    return h->limit == 0 || h->calls < h->limit;
}

static struct qkv_text_stream start(struct heard *h, const char *const *stops, size_t count) {
    memset(h, 0, sizeof *h);
    return (struct qkv_text_stream){.ctx = ctx, .stops = stops, .stop_count = count, .write = hear, .user = h};
}

static void put(struct qkv_text_stream *s, const char *text) {
    assert_ok(ctx, qkv_text_stream_put(s, text, strlen(text)));
}

static void assert_heard(const struct heard *h, const char *expected) {
    assert_int_equal(h->size, strlen(expected));
    assert_memory_equal(h->text, expected, h->size);
}

/* ---- by hand ---------------------------------------------------------------------------------------------------- */

static void test_characters(void **state) {
    (void)state;
    struct heard h;
    struct qkv_text_stream s = start(&h, NULL, 0);
    put(&s, "a\xc3");
    assert_heard(&h, "a");
    put(&s, "\xa9");
    assert_heard(&h, "a\xc3\xa9");
    put(&s, "\xf0"), put(&s, "\x9f"), put(&s, "\x98");
    assert_heard(&h, "a\xc3\xa9");
    put(&s, "\x80");
    assert_heard(&h, "a\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(h.calls, 3);
    qkv_text_stream_free(&s);
    /* invalid bytes pass as soon as they are known to be: */
    s = start(&h, NULL, 0);
    put(&s, "\xff");
    assert_heard(&h, "\xff");
    put(&s, "\x80\xc0");
    assert_heard(&h, "\xff\x80\xc0");
    put(&s, "\xe2\x82");
    assert_heard(&h, "\xff\x80\xc0");
    put(&s, "x");
    assert_heard(&h, "\xff\x80\xc0\xe2\x82x");
    put(&s, "\xe0\x9f"); /* too long a form */
    assert_heard(&h, "\xff\x80\xc0\xe2\x82x\xe0\x9f");
    put(&s, "\xed\xa0"); /* half of a surrogate pair */
    assert_heard(&h, "\xff\x80\xc0\xe2\x82x\xe0\x9f\xed\xa0");
    put(&s, "\xf4\x90"); /* past the last character */
    put(&s, "\xf4\x8f\xbf");
    assert_heard(&h, "\xff\x80\xc0\xe2\x82x\xe0\x9f\xed\xa0\xf4\x90");
    assert_ok(ctx, qkv_text_stream_end(&s)); /* what remains comes at the end */
    assert_heard(&h, "\xff\x80\xc0\xe2\x82x\xe0\x9f\xed\xa0\xf4\x90\xf4\x8f\xbf");
    qkv_text_stream_free(&s);
}

static void test_stops(void **state) {
    (void)state;
    const char *const stops[] = {"</end>", "\n\n"};
    struct heard h;
    struct qkv_text_stream s = start(&h, stops, 2);
    put(&s, "one\n");
    assert_heard(&h, "one"); /* the newline may be half of a stop */
    put(&s, "two</e");
    assert_heard(&h, "one\ntwo");
    put(&s, "ver<");
    assert_heard(&h, "one\ntwo</ever");
    put(&s, "/en");
    put(&s, "d>never");
    assert_true(s.stopped);
    put(&s, "more");
    assert_ok(ctx, qkv_text_stream_end(&s));
    assert_heard(&h, "one\ntwo</ever");
    qkv_text_stream_free(&s);
    s = start(&h, stops, 2);
    put(&s, "a</en");
    assert_ok(ctx, qkv_text_stream_end(&s)); /* it never became one */
    assert_heard(&h, "a</en");
    qkv_text_stream_free(&s);
    s = start(&h, stops, 2);
    put(&s, "\n\n");
    assert_true(s.stopped);
    assert_int_equal(h.calls, 0);
    qkv_text_stream_free(&s);
}

/* The stop that is complete first counts; of those that end together, the longest. */
static void test_overlapping_stops(void **state) {
    (void)state;
    const char *const stops[] = {"abcd", "bc", "xbc", "aab"};
    static const struct {
        const char *text, *expected;
    } cases[] = {{"1abcd", "1a"}, {"1xbcd", "1"}, {"aaab", "a"}, {"ab ac", "ab ac"}, {"aaxbc", "aa"}, {"abab", "abab"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        for (size_t cut = 0; cut <= strlen(cases[i].text); cut++) {
            struct heard h;
            struct qkv_text_stream s = start(&h, stops, 4);
            assert_ok(ctx, qkv_text_stream_put(&s, cases[i].text, cut));
            put(&s, cases[i].text + cut);
            assert_ok(ctx, qkv_text_stream_end(&s));
            assert_heard(&h, cases[i].expected);
            qkv_text_stream_free(&s);
        }
    }
}

static void test_caller_stops(void **state) {
    (void)state;
    struct heard h;
    struct qkv_text_stream s = start(&h, NULL, 0);
    h.limit = 2;
    put(&s, "a");
    assert_status(ctx, qkv_text_stream_put(&s, "b", 1), QKV_STOPPED);
    assert_message(ctx, "stopped by the caller");
    qkv_text_stream_free(&s);
    s = start(&h, NULL, 0);
    s.write = NULL;
    put(&s, "nobody listens");
    assert_int_equal(s.held.size, 0);
    qkv_text_stream_free(&s);
}

/* ---- random texts, stops and cuts ------------------------------------------------------------------------------- */

static const char *const parts[] = {
    "a",    "b",    "ab",   "\n",       "\xc3\xa9",     "\xe2\x82\xac", "\xf0\x9f\x98\x80",
    "\xff", "\xe2", "\x82", "\xf0\x9f", "\xed\xa0\x80", "\xc3"};

static size_t random_text(struct qkv_random *r, char *text, size_t pieces) {
    text[0] = 0;
    for (size_t i = 0; i < pieces; i++) strcat(text, parts[qkv_random_below(r, TEST_COUNT(parts))]);
    return strlen(text);
}

/* The length of the text before the first complete stop text. */
static size_t expected_size(const char *text, size_t size, const char *const *stops, size_t count, bool *stopped) {
    *stopped = false;
    for (size_t end = 1; end <= size; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < count; i++) {
            size_t n = strlen(stops[i]);
            if (n <= end && n > longest && !memcmp(text + end - n, stops[i], n)) longest = n;
        }
        *stopped = longest > 0;
        if (*stopped) return end - longest;
    }
    return size;
}

/* Whether a character of the text spans the byte at `at`. */
static bool within_character(const char *text, size_t size, size_t at) {
    for (size_t i = 0; i < at;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(size - i), &code);
        i += n > 0 ? (size_t)n : 1;
        if (i > at) return true;
    }
    return false;
}

static void test_random_cuts(void **state) {
    (void)state;
    struct qkv_random r = test_random(1);
    size_t stopped_count = 0;
    for (int round = 0; round < 20000; round++) {
        char text[MOST], texts[3][64];
        const char *stops[3] = {texts[0], texts[1], texts[2]};
        size_t size = random_text(&r, text, test_between(&r, 0, 30)), count = test_between(&r, 0, 3);
        for (size_t i = 0; i < 3; i++) random_text(&r, texts[i], test_between(&r, 1, 4));
        bool stopped;
        size_t expected = expected_size(text, size, stops, count, &stopped);
        struct heard h;
        struct qkv_text_stream s = start(&h, stops, count);
        for (size_t at = 0; at < size;) {
            size_t n = test_between(&r, 1, size - at < 6 ? size - at : 6);
            char *copy = malloc(n); /* of exactly this size, for the sanitizer */
            memcpy(copy, text + at, n);
            assert_ok(ctx, qkv_text_stream_put(&s, copy, n));
            free(copy);
            at += n;
            if (count == 0) assert_true(h.size + 3 >= at); /* no more is held than a character's beginning */
        }
        size_t calls = h.calls;
        assert_ok(ctx, qkv_text_stream_end(&s));
        assert_int_equal(s.stopped, stopped);
        assert_int_equal(h.size, expected);
        assert_memory_equal(h.text, text, expected);
        for (size_t i = 0; i < calls; i++)
            if (h.ends[i] < expected) assert_false(within_character(text, size, h.ends[i]));
        stopped_count += stopped;
        qkv_text_stream_free(&s);
    }
    assert_true(stopped_count > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters),        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_overlapping_stops), cmocka_unit_test(test_caller_stops),
        cmocka_unit_test(test_random_cuts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
