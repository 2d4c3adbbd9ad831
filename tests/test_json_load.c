/* The reader of JSON and its messages about bad files: no constant of jansson's interface, the byte order mark by
 * its name; numbers as text; folders without permission. */
/* labels: quick */
#include <unistd.h>

#include <sys/stat.h>

#include "base/json_load.h"
#include "generate/generate.h"
#include "context_fixture.h"

static enum qkv_status load(const char *bytes, size_t size, size_t max_size) {
    json_t *root;
    const struct qkv_json_text text = {
        .name = "my.json", .help = "restore it", .data = size ? bytes : NULL, .size = size, .max_size = max_size};
    enum qkv_status status = qkv_json_load(ctx, &text, &root);
    assert_true((root != NULL) == (status == QKV_OK));
    json_decref(root);
    return status;
}

static void bad_json_is_named_in_our_words(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } cases[] = {
        {"", 0, "my.json is empty; restore it"},
        {"{\n \"a\": ?}", 10, "my.json is not valid JSON: line 2, column 7: invalid token near '?'; restore it"},
        {"{\"a\": \"\\u0000\"}", 15, "my.json is not valid JSON: line 1, column 14: a text holds the character U+0000"},
        {"{\"\\u0000\": 1}", 13, "a text holds the character U+0000"},
        {"{\"a\": 1, \"a\": 2}", 16, "duplicate object key"},
        {"{\"a\": \"\xff\"}", 10, "there is a byte that is not UTF-8"},
        {"{\"a\": [", 7, "my.json is not valid JSON: line 1"},
        {"{} {}", 5, "end of file expected"},
        {"\xef\xbb\xbf{}", 5, "my.json begins with a byte order mark (BOM); remove that: sed -i"},
        {"\xff\xfe{\0}\0", 6,
         "my.json begins with a byte order mark (BOM) of UTF-16; save it as UTF-8: iconv -f UTF-16"},
        {"\xfe\xff\0{\0}", 6, "my.json begins with a byte order mark (BOM) of UTF-16"},
        {"\xff\xfe\0\0{\0\0\0", 8, "my.json begins with a byte order mark (BOM) of UTF-32"},
        {"{\"a\": \"long enough\"}                    ", 40,
         "my.json is too large: it has 40 bytes, and at most 32 are read; restore it"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_status(ctx, load(cases[i].bytes, cases[i].size, 32), QKV_FORMAT);
        assert_message(ctx, cases[i].message);
        assert_null(strstr(qkv_message(ctx), "JSON_"));
    }
    assert_ok(ctx, load("{\"a\": [1, 2.5, null]}", 21, 32));
    assert_ok(ctx, load("[]", 2, 2));
}

/* Those that transformers writes for "no bound", too: they come close to what Python reads; all others stay whole
 * numbers. */
static void integers_of_any_size_are_read(void **state) {
    static const char bytes[] =
        "{\"model_max_length\": 1000000000000000019884624838656, \"1\\\"99999999999999999999\": "
        "\"99999999999999999999\", \"list\": [9223372036854775807,-9223372036854775808,\n"
        "9223372036854775808, -9223372036854775809, 0.12345678901234567890, 1e3,7]}";
    json_t *root, *list;
    (void)state;
    const struct qkv_json_text text = {.name = "a.json", .data = bytes, .size = sizeof bytes - 1, .max_size = 1000};
    assert_ok(ctx, qkv_json_load(ctx, &text, &root));
    assert_true(json_real_value(json_object_get(root, "model_max_length")) == 1e30);
    assert_string_equal(json_string_value(json_object_get(root, "1\"99999999999999999999")), "99999999999999999999");
    list = json_object_get(root, "list");
    assert_int_equal(json_array_size(list), 7);
    assert_true(json_integer_value(json_array_get(list, 0)) == INT64_MAX);
    assert_true(json_integer_value(json_array_get(list, 1)) == INT64_MIN);
    assert_true(json_real_value(json_array_get(list, 2)) == 0x1p63);
    assert_true(json_real_value(json_array_get(list, 3)) == -0x1p63);
    assert_true(json_real_value(json_array_get(list, 4)) == 0.12345678901234567890);
    assert_true(json_real_value(json_array_get(list, 5)) == 1e3);
    assert_int_equal(json_integer_value(json_array_get(list, 6)), 7);
    json_decref(root);
    assert_status(ctx, load("{\"a\": [1e999]}", 14, 32), QKV_FORMAT);
    assert_message(ctx, "real number overflow");
    assert_status(ctx, load("[99999999999999999999", 21, 32), QKV_FORMAT);
    assert_status(ctx, load("[99999999999999999999, \"", 24, 32), QKV_FORMAT);
    assert_status(ctx, load("[99999999999999999999, \"\\", 25, 32), QKV_FORMAT);
}

static void nested_too_deeply_is_refused(void **state) {
    char deep[1 << 16];
    (void)state;
    memset(deep, '[', sizeof deep);
    assert_status(ctx, load(deep, sizeof deep, sizeof deep), QKV_FORMAT);
    assert_message(ctx, "objects and lists are nested too deeply");
}

static void numbers_are_shown_as_they_were_written(void **state) {
    static const char *const written[] = {"0.1", "1.0000001", "-3", "1e-40", "16777216", "0.30000000000000004"};
    char text[QKV_REAL_TEXT];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(written); i++) {
        double x;
        assert_true(qkv_real_parse(written[i], &x));
        assert_string_equal(qkv_real_text(text, x), written[i]);
    }
    struct qkv_sampling s = qkv_sampling_defaults();
    s.top_p = 1.0000001; /* which %g rounds to 1 */
    assert_status(ctx, qkv_sampling_check(ctx, &s), QKV_ARGUMENT);
    assert_message(ctx, "top_p is 1.0000001; it must be greater than 0 and at most 1");
}

/* Root may read everything, so it becomes nobody meanwhile. */
static void what_may_not_be_looked_at_is_not_called_missing(void **state) {
    struct qkv_model *model;
    enum qkv_precision precision;
    bool root = geteuid() == 0, found;
    (void)state;
    assert_ok(ctx, qkv_make_folder(ctx, test_path("closed/run")));
    test_write_file(test_path("closed/run/config.json"), "{}", 2);
    assert_int_equal(chmod(test_path("closed"), 0), 0);
    if (root && seteuid(65534) != 0) skip();
    enum qkv_status loaded = qkv_model_load(ctx, test_path("closed/run"), &model);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", qkv_message(ctx));
    enum qkv_status read = qkv_model_precision(ctx, test_path("closed/run"), &precision);
    enum qkv_status looked = qkv_file_find(ctx, test_path("closed/run/config.json"), &found);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(test_path("closed"), 0700), 0);
    assert_int_equal(loaded, QKV_FILE);
    assert_int_equal(read, QKV_FILE);
    assert_int_equal(looked, QKV_FILE);
    assert_non_null(strstr(sentence, "no permission; check the permissions of the file and its folder"));
    assert_null(strstr(sentence, "is not a model folder"));
    assert_ok(ctx, qkv_file_find(ctx, test_path("closed/none"), &found));
    assert_false(found);
    assert_ok(ctx, qkv_file_find(ctx, test_path("closed/run/config.json"), &found));
    assert_true(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_json_is_named_in_our_words),
        cmocka_unit_test(integers_of_any_size_are_read),
        cmocka_unit_test(nested_too_deeply_is_refused),
        cmocka_unit_test(numbers_are_shown_as_they_were_written),
        cmocka_unit_test(what_may_not_be_looked_at_is_not_called_missing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
