/* The functions of src/base/support.h: JSON in its layouts, characters, the clock, names. test_report checks the
 * strings of JSON against a parser. */
/* labels: quick */
#include <jansson.h>

#include "test.h"

#include "base/utf8.h"

static struct qkv_context *make_context(void) {
    struct qkv_context *ctx = NULL;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    return ctx;
}

static void a_layout_is_commas_spaces_and_lines(void **state) {
    struct qkv_json json = {.style = QKV_JSON_SPACED};
    (void)state;
    qkv_json_begin(&json, '{');
    qkv_json_line(&json, 2);
    qkv_json_put_integer(&json, "a", -1);
    qkv_json_put_bool(&json, "b", true);
    qkv_json_line(&json, 2);
    qkv_json_key(&json, "c");
    qkv_json_begin(&json, '[');
    qkv_json_end(&json, ']');
    qkv_json_key(&json, "d");
    qkv_json_begin(&json, '[');
    qkv_json_count(&json, UINT64_MAX);
    qkv_json_line(&json, 20);
    qkv_json_raw(&json, "{\"x\": 1}");
    qkv_json_end(&json, ']');
    qkv_json_line(&json, 0);
    qkv_json_end(&json, '}');
    qkv_json_line(&json, 0);
    qkv_json_flush(&json);
    assert_int_equal(json.status, QKV_OK);
    assert_string_equal(json.text.data, "{\n  \"a\": -1, \"b\": true,\n  \"c\": [], \"d\": [18446744073709551615,\n"
                                        "                    {\"x\": 1}]\n}\n");
    qkv_json_free(&json);
}

static void numbers_are_rounded_as_asked(void **state) {
    struct qkv_json json = {0};
    (void)state;
    qkv_json_begin(&json, '[');
    qkv_json_number(&json, 0.1, 3);
    qkv_json_number(&json, 2.0 / 3, 4);
    qkv_json_fixed(&json, 2, 3);
    qkv_json_fixed(&json, 1e300, 1);
    qkv_json_real(&json, 0.1);
    qkv_json_real(&json, 1e22);
    qkv_json_fixed(&json, 0.0 / 0.0, 3);
    qkv_json_real(&json, -1.0 / 0.0);
    qkv_json_end(&json, ']');
    json_t *value = json_loads(json.text.data, 0, NULL);
    assert_int_equal(json_array_size(value), 8);
    assert_true(json_number_value(json_array_get(value, 3)) == 1e300);
    assert_true(json_number_value(json_array_get(value, 5)) == 1e22);
    assert_int_equal(strncmp(json.text.data, "[0.1,0.6667,2.000,1", 19), 0);
    assert_non_null(strstr(json.text.data, ",0.1,1e+22,null,null]"));
    json_decref(value);
    qkv_json_free(&json);
}

/* Outside of pages characters stand for themselves, and a byte that is none becomes U+FFFD. */
static void strings_keep_their_characters(void **state) {
    static const char text[] = "a<b>&\n\t\x01\x7f\"\\\xE2\x80\xA8\xFF\xC3\xA9";
    struct qkv_json json = {0};
    (void)state;
    qkv_json_text(&json, text);
    assert_string_equal(json.text.data, "\"a<b>&\\n\\u0009\\u0001\\u007f\\\"\\\\\xE2\x80\xA8\xEF\xBF\xBD\xC3\xA9\"");
    json.text.size = 0;
    json.more = false;
    json.style = QKV_JSON_HEX;
    qkv_json_text(&json, "\n");
    assert_string_equal(json.text.data, "\"\\u000a\"");
    qkv_json_free(&json);
}

static void what_is_written_goes_to_the_file_in_its_order(void **state) {
    struct qkv_context *ctx = make_context();
    const char *path = test_path("support.json");
    struct qkv_json json = {.ctx = ctx, .file = fopen(path, "w"), .name = path};
    (void)state;
    qkv_json_begin(&json, '[');
    for (int i = 0; i < 400000; i++) qkv_json_integer(&json, i);
    qkv_json_end(&json, ']');
    assert_true(json.text.size < (1 << 20) + 32); /* most of it has left */
    qkv_json_line(&json, 0);
    qkv_json_flush(&json);
    assert_int_equal(json.status, QKV_OK);
    assert_int_equal(json.text.size, 0);
    qkv_json_free(&json);
    assert_int_equal(fclose(json.file), 0);
    json_t *value = json_load_file(path, 0, NULL);
    assert_int_equal(json_array_size(value), 400000);
    for (size_t i = 0; i < 400000; i += 997)
        assert_int_equal(json_integer_value(json_array_get(value, i)), (json_int_t)i);
    json_decref(value);
    qkv_context_free(ctx);
}

static void a_file_that_cannot_be_written_is_named(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_json json = {.ctx = ctx, .file = fopen("/dev/full", "w"), .name = "my.json"};
    (void)state;
    setvbuf(json.file, NULL, _IONBF, 0);
    qkv_json_text(&json, "a");
    qkv_json_flush(&json);
    assert_int_equal(json.status, QKV_FILE);
    assert_non_null(strstr(qkv_message(ctx), "my.json"));
    qkv_json_text(&json, "b"); /* does nothing any more */
    assert_int_equal(json.status, QKV_FILE);
    fclose(json.file);
    qkv_json_free(&json);
    qkv_context_free(ctx);
}

static void a_cut_is_never_within_a_character(void **state) {
    static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    (void)state;
    for (size_t n = 0; n < TEST_COUNT(cuts); n++) assert_int_equal(qkv_utf8_cut(text, n), cuts[n]);
    assert_int_equal(qkv_utf8_length("\xE2\x82\xAC", 3), 3);
    assert_int_equal(qkv_utf8_length("\xE2\x82\xAC", 2), 0);
}

static void the_clock_goes_forward(void **state) {
    (void)state;
    double before = qkv_clock();
    for (int i = 0; i < 1000; i++) {
        double now = qkv_clock();
        assert_true(now >= before);
        before = now;
    }
}

static const char *name_at(const void *list, size_t i) {
    return ((const char *const *)list)[i];
}

static void the_name_that_was_meant_is_found(void **state) {
    static const char *const names[] = {"generate", "translate", "eval-every", "train"};
    (void)state;
    assert_string_equal(qkv_closest_name("genrate", name_at, names, 4), "generate");
    assert_string_equal(qkv_closest_name("trian", name_at, names, 4), "train"); /* two letters swapped */
    assert_string_equal(qkv_closest_name("eval_evry", name_at, names, 4), "eval-every");
    assert_string_equal(qkv_closest_name("transl", name_at, names, 4), "translate"); /* abbreviated */
    assert_null(qkv_closest_name("xyzzy", name_at, names, 4));
    assert_int_equal(qkv_name_distance("kitten", "sitting"), 3);
    assert_int_equal(qkv_name_distance("ab", "ba"), 1);
}

static void a_list_grows_until_sizes_end(void **state) {
    struct qkv_context *ctx = make_context();
    size_t capacity = 0, moved = 0;
    uint32_t *items = NULL;
    (void)state;
    for (size_t i = 0; i < 100000; i++) {
        size_t before = capacity;
        uint32_t *grown = qkv_list_room(ctx, items, &capacity, i, 1, sizeof *grown);
        assert_non_null(grown);
        items = grown;
        items[i] = (uint32_t)i;
        moved += capacity != before;
    }
    for (size_t i = 0; i < 100000; i++) assert_int_equal(items[i], i);
    assert_true(moved < 20);
    assert_null(qkv_list_room(ctx, items, &capacity, 100000, SIZE_MAX - 5, sizeof *items));
    assert_null(qkv_list_room(ctx, items, &capacity, 100000, SIZE_MAX / 8, sizeof *items));
    assert_true(capacity >= 100000 && capacity < 300000);
    free(items);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_is_commas_spaces_and_lines),
        cmocka_unit_test(numbers_are_rounded_as_asked),
        cmocka_unit_test(strings_keep_their_characters),
        cmocka_unit_test(what_is_written_goes_to_the_file_in_its_order),
        cmocka_unit_test(a_file_that_cannot_be_written_is_named),
        cmocka_unit_test(a_cut_is_never_within_a_character),
        cmocka_unit_test(the_clock_goes_forward),
        cmocka_unit_test(the_name_that_was_meant_is_found),
        cmocka_unit_test(a_list_grows_until_sizes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
