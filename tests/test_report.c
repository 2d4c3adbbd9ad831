/* The report room: JSON that is safe inside a page, and pages without foreign elements. */
/* labels: quick */
#include "report_fixture.h"

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static char *json_of(const char *text, size_t size) {
    struct qkv_json json = {.style = QKV_JSON_SCRIPT};
    qkv_json_string(&json, text, size);
    assert_int_equal(json.status, QKV_OK);
    return json.text.data;
}

static void strings_are_escaped(void **state) {
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"</script><script>", "\"\\u003c/script\\u003e\\u003cscript\\u003e\""},
        {"<!--", "\"\\u003c!--\""},
        {"a&b", "\"a\\u0026b\""},
        {"\"\\", "\"\\\"\\\\\""},
        {"\n\t\x01\x7f", "\"\\n\\u0009\\u0001\\u007f\""},
        {"Größe \xE2\x82\xAC", "\"Größe \xE2\x82\xAC\""},
        {"\xE2\x80\xA8|\xE2\x80\xA9", "\"\\u2028|\\u2029\""},
        {"\xFF", "\"\\ufffd\""},
        {"\xE2\x82", "\"\\ufffd\\ufffd\""},            /* cut off */
        {"\xC0\xBC", "\"\\ufffd\\ufffd\""},            /* an overlong '<' */
        {"\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* half of a surrogate pair */
        {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char *json = json_of(cases[i].text, strlen(cases[i].text));
        assert_string_equal(json, cases[i].json);
        free(json);
    }
    char *json = json_of("a\0b", 3);
    assert_string_equal(json, "\"a\\u0000b\"");
    free(json);
}

/* A parser reads a string of any bytes, and nothing in it can end an element. */
static void any_bytes_are_a_string(void **state) {
    struct qkv_random random = test_random(1);
    static const char favoured[] = "<>&\"\\/\n\xE2\x80\xA8script!-";
    (void)state;
    for (int round = 0; round < 500; round++) {
        char text[64];
        size_t n = test_between(&random, 0, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = qkv_random_below(&random, 2) ? favoured[qkv_random_below(&random, sizeof favoured - 1)]
                                                   : (char)qkv_random_below(&random, 256);
        char *json = json_of(text, n);
        assert_null(strpbrk(json, "<>&\n\r"));
        assert_null(strstr(json, "\xE2\x80\xA8"));
        json_t *value = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        assert_true(json_is_string(value));
        json_decref(value);
        free(json);
    }
}

static void commas_and_numbers(void **state) {
    struct qkv_json json = {.style = QKV_JSON_SCRIPT};
    (void)state;
    qkv_json_begin(&json, '{');
    qkv_json_put_text(&json, "a", NULL);
    qkv_json_put_number(&json, "b", 0.1, 6);
    qkv_json_put_number(&json, "c", NAN, 6);
    qkv_json_put_number(&json, "d", -INFINITY, 6);
    qkv_json_put_number(&json, "e", 1e-9, 6);
    qkv_json_put_integer(&json, "f", INT64_MIN);
    qkv_json_key(&json, "g");
    qkv_json_begin(&json, '[');
    qkv_json_begin(&json, '[');
    qkv_json_end(&json, ']');
    qkv_json_bool(&json, true);
    qkv_json_bool(&json, false);
    qkv_json_end(&json, ']');
    qkv_json_put_number(&json, "h", 1234567, 3);
    qkv_json_end(&json, '}');
    assert_int_equal(json.status, QKV_OK);
    assert_string_equal(json.text.data, "{\"a\":null,\"b\":0.1,\"c\":null,\"d\":null,\"e\":1e-09,"
                                        "\"f\":-9223372036854775808,\"g\":[[],true,false],\"h\":1.23e+06}");
    qkv_buffer_free(&json.text);
}

static void base64_as_in_rfc_4648(void **state) {
    static const char *const cases[][2] = {{"", "\"\""},
                                           {"f", "\"Zg==\""},
                                           {"fo", "\"Zm8=\""},
                                           {"foo", "\"Zm9v\""},
                                           {"foob", "\"Zm9vYg==\""},
                                           {"fooba", "\"Zm9vYmE=\""},
                                           {"foobar", "\"Zm9vYmFy\""}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_json json = {.style = QKV_JSON_SCRIPT};
        qkv_json_base64(&json, (const unsigned char *)cases[i][0], strlen(cases[i][0]));
        assert_string_equal(json.text.data, cases[i][1]);
        qkv_buffer_free(&json.text);
    }
    struct qkv_json json = {.style = QKV_JSON_SCRIPT};
    unsigned char many[3000] = {0};
    qkv_json_base64(&json, many, sizeof many);
    assert_int_equal(json.text.size, 4002);
    qkv_buffer_free(&json.text);
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

static size_t count_of(const char *text, const char *part) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

static void assets_cannot_end_their_element(void **state) {
    (void)state;
    assert_true(qkv_asset_count >= 6);
    for (size_t i = 0; i < qkv_asset_count; i++) {
        char *text = qkv_copy_bytes(NULL, qkv_assets[i].data, qkv_assets[i].size);
        assert_null(strstr(text, "</script"));
        assert_null(strstr(text, "</style"));
        assert_null(strstr(text, "<!--"));
        assert_null(strstr(text, "innerHTML"));
        assert_null(strstr(text, "@import"));
        assert_null(strstr(text, "url("));
        free(text);
    }
    assert_null(qkv_asset_find("nothing.js"));
}

static void a_page_holds_what_it_was_given(void **state) {
    struct qkv_context *ctx = make_context();
    static const char *const scripts[] = {"chart.js", NULL};
    const char *path = test_path("page.html");
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SCRIPT};
    (void)state;
    qkv_json_text(&json, "</script><script>alert(1)</script>");
    struct qkv_page page = {.title = "<b>\"t\" & \xFF</b>",
                            .summary = "</p><script>",
                            .scripts = scripts,
                            .data = json.text.data,
                            .data_size = json.text.size};
    assert_ok(ctx, qkv_page_write(ctx, &page, path));
    char *text = read_text(path);
    assert_int_equal(count_of(text, "<script"), 3); /* data, page.js, chart.js */
    assert_int_equal(count_of(text, "</script>"), 3);
    assert_non_null(strstr(text, "<h1>&lt;b&gt;&quot;t&quot; &amp; \xEF\xBF\xBD&lt;/b&gt;</h1>"));
    assert_non_null(strstr(text, "Content-Security-Policy\" content=\"default-src 'none';"));
    assert_null(strstr(text, "http-equiv=\"refresh\""));
    assert_null(strstr(text, "unsafe-"));
    free(text);
    page.refresh = 7;
    assert_ok(ctx, qkv_page_write(ctx, &page, path));
    text = read_text(path);
    assert_non_null(strstr(text, "<meta http-equiv=\"refresh\" content=\"7\">"));
    free(text);
    page.scripts = (const char *const[]){"nothing.js", NULL};
    assert_fails(ctx, qkv_page_write(ctx, &page, path), QKV_ARGUMENT, "nothing.js");
    text = read_text(path); /* the old one is still there */
    assert_non_null(strstr(text, "content=\"7\""));
    free(text);
    qkv_buffer_free(&json.text);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(any_bytes_are_a_string),
        cmocka_unit_test(commas_and_numbers),
        cmocka_unit_test(base64_as_in_rfc_4648),
        cmocka_unit_test(assets_cannot_end_their_element),
        cmocka_unit_test(a_page_holds_what_it_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
