/* Files with two fields in a line: what is read, and every line that is refused, with file and number. */
/* labels: quick */
#include "context_fixture.h"

#include "data/tsv.h"

/* Reads a whole file and writes "line:first|second;" for each row. */
static enum qkv_status read_all(const char *text, size_t size, char *out, size_t room) {
    const char *path = test_path("rows.tsv");
    struct qkv_tsv tsv;
    struct qkv_tsv_row row;
    size_t used = 0;
    bool end = false;
    out[0] = 0;
    test_write_file(path, text, size);
    enum qkv_status status = qkv_tsv_open(ctx, path, "source", "target", &tsv);
    while (!status && !(status = qkv_tsv_next(&tsv, &row, &end)) && !end) {
        int n = snprintf(out + used, room - used, "%zu:%.*s|%.*s;", row.line, (int)row.first_size, row.first,
                         (int)row.second_size, row.second);
        used += (size_t)n;
        assert_true(used < room);
    }
    qkv_tsv_close(&tsv);
    return status;
}

static void rows_are_read(void **state) {
    static const struct {
        const char *text, *rows;
    } cases[] = {
        {"a\tb\n", "1:a|b;"},
        {"a\tb", "1:a|b;"},
        {"a\tb\r\nc d\t e \r\n", "1:a|b;2:c d| e ;"},
        {"a\tb\r", "1:a|b;"},
        {"\n\na\tb\n  \n\r\nc\td\n\n", "3:a|b;6:c|d;"},
        {"\xef\xbb\xbf"
         "a\tb\n",
         "1:a|b;"},
        {"\xff\xfd\x80\t\xc3\n", "1:\xff\xfd\x80|\xc3;"},
        {"a\tb\rc\n", "1:a|b\rc;"},
    };
    char out[256];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_ok(ctx, read_all(cases[i].text, strlen(cases[i].text), out, sizeof out));
        assert_string_equal(out, cases[i].rows);
    }
}

static void rewinding_reads_the_same_again(void **state) {
    const char *path = test_path("again.tsv");
    struct qkv_tsv tsv;
    struct qkv_tsv_row row;
    bool end;
    (void)state;
    test_write_file(path, "\xef\xbb\xbf\na\tb\n", 8);
    assert_ok(ctx, qkv_tsv_open(ctx, path, "label", "text", &tsv));
    for (int i = 0; i < 2; i++) {
        assert_ok(ctx, qkv_tsv_next(&tsv, &row, &end));
        assert_false(end);
        assert_int_equal(row.line, 2);
        assert_int_equal(row.first_size, 1);
        assert_ok(ctx, qkv_tsv_next(&tsv, &row, &end));
        assert_true(end);
        qkv_tsv_rewind(&tsv);
    }
    qkv_tsv_close(&tsv);
}

static void bad_lines_are_refused(void **state) {
    static const struct {
        const char *text;
        size_t size;
        const char *message;
    } cases[] = {
        {"", 0, "rows.tsv is empty; give a file with a source, a tab and a target in each line"},
        {"\n \r\n\n", 5, "rows.tsv is empty"},
        {"\xef\xbb\xbf\n", 4, "rows.tsv is empty"},
        {"\xff\xfe"
         "a\0\t\0b\0",
         8, "rows.tsv begins with a byte order mark (BOM) of UTF-16; save it as UTF-8: iconv"},
        {"\xfe\xff"
         "\0a\0\t\0b",
         8, "rows.tsv begins with a byte order mark (BOM) of UTF-16"},
        {"a\tb\nc d\n", 8, "rows.tsv:2: no tab in this line; write a source, a tab and a target"},
        {"a\tb\tc\n", 6, "rows.tsv:1: more than one tab in this line; write a source, one tab and a target"},
        {"a\tb\n\n\tc\n", 8, "rows.tsv:3: the source is empty; write one before the tab, or remove the line"},
        {"a\t \r\n", 5, "rows.tsv:1: the target is empty; write one after the tab"},
        {"a\tb\n\t\n", 6, "rows.tsv:2: the source is empty"},
        {"a\tb\nc\t\0d\n", 9, "rows.tsv:2: byte 6 of the file is NUL, so it is no text; convert it to UTF-8 first"},
    };
    char out[256];
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_status(ctx, read_all(cases[i].text, cases[i].size, out, sizeof out), QKV_FORMAT);
        assert_message(ctx, cases[i].message);
    }
}

static void a_file_that_is_not_there(void **state) {
    struct qkv_tsv tsv;
    (void)state;
    assert_status(ctx, qkv_tsv_open(ctx, test_path("nowhere.tsv"), "label", "text", &tsv), QKV_FILE);
    assert_message(ctx, "nowhere.tsv");
    qkv_tsv_close(&tsv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read),
        cmocka_unit_test(rewinding_reads_the_same_again),
        cmocka_unit_test(bad_lines_are_refused),
        cmocka_unit_test(a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
