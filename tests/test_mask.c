/* test_mask.c: masks as intervals against their definition pair by pair, and refusals of the helpers. */
/* labels: quick */
#include "attention_case.h"

static struct qkv_context *ctx;

static int start(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, NULL);
}

static int stop(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

static void test_definition(void **state) {
    (void)state;
    for (size_t n = 0; n < 3000; n++) {
        struct qkv_random r = test_random(n);
        struct attention_case c = {0};
        size_t B = test_between(&r, 0, 3), Tq = test_between(&r, 0, 12), Tk = test_between(&r, 0, 16);
        struct qkv_mask m = case_mask(&c, &r, B, Tq, Tk);
        int32_t *lo = case_memory(&c, B * Tq * sizeof *lo), *hi = case_memory(&c, B * Tq * sizeof *hi);
        uint8_t *dense = case_memory(&c, B * Tq * Tk);
        assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
        assert_ok(ctx, qkv_mask_dense(ctx, &m, dense));
        for (size_t p = 0; p < B * Tq * Tk; p++) {
            size_t j = p % Tk, i = p / Tk % Tq, b = p / Tk / Tq;
            bool open = case_mask_open(&m, b, 0, i, j), inside = lo[p / Tk] <= (int32_t)j && (int32_t)j < hi[p / Tk];
            if (open != inside || open != dense[p])
                fail_msg("case %zu: query %zu and key %zu of batch row %zu: open %d, interval [%d, %d), dense %d", n, i,
                         j, b, open, lo[p / Tk], hi[p / Tk], dense[p]);
        }
        for (size_t row = 0; row < B * Tq; row++)
            assert_true(0 <= lo[row] && lo[row] <= hi[row] && hi[row] <= (int32_t)Tk);
        for (size_t i = 0; i < c.block_count; i++) free(c.blocks[i]);
    }
}

/* The pictures of docs/attention.md. */
static void check_picture(struct qkv_mask m, const char *picture) {
    uint8_t dense[64];
    assert_ok(ctx, qkv_mask_dense(ctx, &m, dense));
    for (size_t p = 0; p < m.Tq * m.Tk; p++)
        if (dense[p] != (picture[p] == '#')) fail_msg("query %zu, key %zu of %s", p / m.Tk, p % m.Tk, picture);
}

static void test_pictures(void **state) {
    (void)state;
    const int32_t length = 3, prefix = 3;
    int32_t documents[5];
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .causal = true}, "#...."
                                                                               "##..."
                                                                               "###.."
                                                                               "####."
                                                                               "#####");
    check_picture((struct qkv_mask){.B = 1, .Tq = 2, .Tk = 5, .causal = true, .offset = 3}, "####."
                                                                                            "#####");
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .causal = true, .window = 2}, "#...."
                                                                                            "##..."
                                                                                            ".##.."
                                                                                            "..##."
                                                                                            "...##");
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .window = 2}, "##..."
                                                                            "###.."
                                                                            ".###."
                                                                            "..###"
                                                                            "...##");
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .sides = true, .left = 2, .right = 1}, "##..."
                                                                                                     "###.."
                                                                                                     "####."
                                                                                                     ".####"
                                                                                                     "..###");
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .sides = true, .left = 0, .right = -1}, "#####"
                                                                                                      ".####"
                                                                                                      "..###"
                                                                                                      "...##"
                                                                                                      "....#");
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .lengths = &length}, "###.."
                                                                                   "###.."
                                                                                   "###.."
                                                                                   "###.."
                                                                                   "###..");
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .causal = true, .prefix = &prefix}, "###.."
                                                                                                  "###.."
                                                                                                  "###.."
                                                                                                  "####."
                                                                                                  "#####");
    assert_ok(ctx, qkv_mask_documents(ctx, (const size_t[]){2, 2}, 2, 5, documents));
    check_picture((struct qkv_mask){.B = 1, .Tq = 5, .Tk = 5, .causal = true, .key_documents = documents}, "#...."
                                                                                                           "##..."
                                                                                                           "..#.."
                                                                                                           "..##."
                                                                                                           ".....");
}

static void test_documents(void **state) {
    (void)state;
    int32_t numbers[7];
    assert_ok(ctx, qkv_mask_documents(ctx, (const size_t[]){3, 0, 2}, 3, 7, numbers));
    assert_memory_equal(numbers, ((const int32_t[]){0, 0, 0, 2, 2, -1, -1}), sizeof numbers);
    assert_ok(ctx, qkv_mask_documents(ctx, NULL, 0, 1, numbers));
    assert_int_equal(numbers[0], -1);
    assert_status(ctx, qkv_mask_documents(ctx, (const size_t[]){3, 5}, 2, 7, numbers), QKV_SHAPE);
    assert_message(ctx, "document 1 of 2 has 5 positions, but only 4 of 7 are left");
    assert_status(ctx, qkv_mask_documents(ctx, (const size_t[]){3, SIZE_MAX}, 2, 7, numbers), QKV_SHAPE);
}

static void refuse(struct qkv_mask m, enum qkv_status status, const char *part) {
    int32_t lo[64], hi[64];
    uint8_t dense[64];
    assert_status(ctx, qkv_mask_intervals(ctx, &m, lo, hi), status);
    assert_message(ctx, part);
    assert_status(ctx, qkv_mask_dense(ctx, &m, dense), status);
    assert_message(ctx, part);
}

static void test_refusals(void **state) {
    (void)state;
    const int32_t negative[] = {1, -1}, high[] = {1, 5}, falling[] = {0, 1, 0, 0, 0, 0, 0, 0},
                  late[] = {0, -1, 1, 1, 1, 1, 1, 1};
    const struct qkv_mask m = {.B = 2, .Tq = 4, .Tk = 4};
    struct qkv_mask bad;
    refuse((bad = m, bad.window = -1, bad), QKV_ARGUMENT, "window is -1");
    refuse((bad = m, bad.sides = true, bad.left = -2, bad), QKV_ARGUMENT,
           "left is -2; give how many keys a query sees there, or -1 for all");
    refuse((bad = m, bad.sides = true, bad.right = INT64_MIN, bad), QKV_ARGUMENT, "right is -9223372036854775808");
    refuse((bad = m, bad.left = 3, bad), QKV_ARGUMENT, "left is 3 without sides");
    refuse((bad = m, bad.right = -1, bad), QKV_ARGUMENT, "right is -1 without sides");
    refuse((bad = m, bad.offset = INT64_MAX, bad), QKV_ARGUMENT, "offset is 9223372036854775807");
    refuse((bad = m, bad.offset = INT64_MIN, bad), QKV_ARGUMENT, "offset is");
    refuse((bad = m, bad.lengths = negative, bad), QKV_ARGUMENT, "lengths[1] is -1, but there are 0 to 4 keys");
    refuse((bad = m, bad.lengths = high, bad), QKV_ARGUMENT, "lengths[1] is 5, but there are 0 to 4 keys");
    refuse((bad = m, bad.causal = true, bad.prefix = high, bad), QKV_ARGUMENT, "prefix[1] is 5");
    refuse((bad = m, bad.prefix = high, bad), QKV_ARGUMENT, "prefix is given without causal");
    refuse((bad = m, bad.lengths = (const int32_t *)(const void *)((const char *)high + 1), bad), QKV_ARGUMENT,
           "mask.lengths is at");
    refuse((bad = m, bad.key_documents = falling, bad), QKV_ARGUMENT, "go from 1 down to 0 at key 2");
    refuse((bad = m, bad.key_documents = late, bad), QKV_ARGUMENT, "document 1 at key 2 behind padding");
    refuse((bad = m, bad.query_documents = late, bad), QKV_ARGUMENT, "without key_documents");
    refuse((bad = m, bad.Tk = SIZE_MAX, bad), QKV_SHAPE, "exceeds");
    refuse((bad = m, bad.B = INT32_MAX, bad.Tq = INT32_MAX, bad.Tk = INT32_MAX, bad), QKV_SHAPE, "address");
}

/* Two documents of 2 and 3 queries on 3 and 4 keys: the second one has no position that fits both all keys and its
 * own keys. Without causal masks and windows, positions do not count. */
static void test_documents_of_other_lengths(void **state) {
    (void)state;
    const int32_t queries[] = {0, 0, 1, 1, 1}, keys[] = {0, 0, 0, 1, 1, 1, 1}, strangers[] = {0, 0, 5, -1, 1};
    const struct qkv_mask m = {.B = 1, .Tq = 5, .Tk = 7, .key_documents = keys, .query_documents = queries};
    static const char sentence[] = "query 2 of batch row 0 stands at position 2, but its document 1 has keys 3 to 6";
    struct qkv_mask bad;
    check_picture(m, "###...."
                     "###...."
                     "...####"
                     "...####"
                     "...####");
    refuse((bad = m, bad.causal = true, bad), QKV_ARGUMENT, sentence);
    refuse((bad = m, bad.window = 2, bad), QKV_ARGUMENT, sentence);
    refuse((bad = m, bad.sides = true, bad.left = 1, bad), QKV_ARGUMENT, sentence);
    refuse((bad = m, bad.causal = true, bad.offset = 2, bad.query_documents = strangers, bad), QKV_ARGUMENT,
           "query 1 of batch row 0 stands at position 3, but its document 0 has keys 0 to 2");
    check_picture((bad = m, bad.causal = true, bad.query_documents = strangers, bad), "#......"
                                                                                      "##....."
                                                                                      "......."
                                                                                      "......."
                                                                                      "...##..");
}

static void test_null(void **state) {
    (void)state;
    const struct qkv_mask m = {.B = 2, .Tq = 4, .Tk = 4};
    int32_t lo[8];
    assert_status(ctx, qkv_mask_intervals(ctx, NULL, lo, lo), QKV_ARGUMENT);
    assert_status(ctx, qkv_mask_intervals(ctx, &m, lo, NULL), QKV_ARGUMENT);
    assert_message(ctx, "lo and hi must both be given");
    assert_status(ctx, qkv_mask_dense(ctx, &m, NULL), QKV_ARGUMENT);
    assert_status(ctx, qkv_mask_documents(ctx, NULL, 1, 4, lo), QKV_ARGUMENT);
    assert_message(ctx, "lengths is NULL");
}

/* Windows and offsets as large as they may be do not wrap. */
static void test_extremes(void **state) {
    (void)state;
    const int32_t far[] = {INT32_MAX, INT32_MIN};
    int32_t lo[2], hi[2];
    struct qkv_mask m = {.B = 2, .Tq = 1, .Tk = 9, .causal = true, .offset = INT32_MAX, .offsets = far};
    assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
    assert_true(lo[0] == 0 && hi[0] == 9 && lo[1] == hi[1]);
    m.window = INT64_MAX;
    assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
    assert_true(lo[0] == 0 && hi[0] == 9 && lo[1] == hi[1]);
    m.window = 0, m.sides = true, m.left = INT64_MAX, m.right = INT64_MAX;
    assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
    assert_true(lo[0] == 0 && hi[0] == 9 && lo[1] == hi[1]);
    m.left = 2 * (int64_t)INT32_MAX - 8;
    assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
    assert_true(lo[0] == 8 && hi[0] == 9);
    m.sides = false, m.left = m.right = 0, m.window = INT32_MAX;
    assert_ok(ctx, qkv_mask_intervals(ctx, &m, lo, hi));
    assert_true(lo[0] == hi[0] && lo[1] == hi[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),
                                       cmocka_unit_test(test_pictures),
                                       cmocka_unit_test(test_documents),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_null),
                                       cmocka_unit_test(test_documents_of_other_lengths)};
    return cmocka_run_group_tests(tests, start, stop);
}
