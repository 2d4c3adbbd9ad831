/* Notes report texts that look like something else, and training goes on: JSONL, byte order marks, CR LF, other
 * encodings. */
/* labels: quick */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

/* Trains a step on lines of a text; the i-th note has `expected[i]` in it, and there are no others. */
static void check_notes(const char *line, size_t lines, const char *tokenizer, const char *const *expected) {
    struct qkv_train_options o = fixture_options_on(ctx, NULL);
    char *text = NULL;
    size_t size, i = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t k = 0; k < lines; k++) fputs(line, out);
    fclose(out);
    const char *path = test_path("looked.txt");
    test_write_file(path, text, size);
    free(text);
    o.data = path;
    o.tokenizer = tokenizer;
    fixture_no_validation(&o);
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("looked"), &o);
    for (; expected[i]; i++) {
        const char *note = qkv_trainer_note(t, i);
        if (!note || !strstr(note, expected[i]))
            print_error("no \"%s\" in: %s\n", expected[i], note ? note : "no note");
        assert_non_null(note);
        assert_non_null(strstr(note, expected[i]));
        assert_non_null(strstr(note, "looked.txt"));
    }
    if (qkv_trainer_note(t, i)) print_error("besides: %s\n", qkv_trainer_note(t, i));
    assert_null(qkv_trainer_note(t, i));
    fixture_steps(ctx, t, 1);
    qkv_trainer_free(t);
}
#define CHECK(line, lines, tokenizer, ...) check_notes(line, lines, tokenizer, (const char *const[]){__VA_ARGS__ NULL})

static void plain_texts_have_no_notes(void **state) {
    (void)state;
    CHECK("a plain text, na\xc3\xafve and \xe2\x82\xac\n", 40, "chars", );
    CHECK("{ this is a poem in braces }\n", 40, "chars", );
    CHECK("{\"a\": 1}\nand then no JSON any more\n", 40, "chars", );
    CHECK("[\"a list\", \"is no object\"]\n", 40, "chars", );
}

static void lines_of_json_are_noticed(void **state) {
    (void)state;
    CHECK("{\"id\": 7, \"body\": \"a text that is long\", \"by\": \"me\"}\n", 20, "chars",
          "looks like JSONL: its first 5 lines are JSON objects, and all of it is learnt as it stands", );
    CHECK("{\"id\": 7, \"body\": \"a text that is long\", \"by\": \"me\"}\n", 20, "chars", "jq -r .body", );
    CHECK("  {\"n\": 1}\n\n \t \n", 40, "bpe:260", "jq -r .KEY", );
    CHECK(
        "{\"text\": \"an only line, which is the whole of the file, without its end\", \"pad\": \"................\"}",
        1, "bytes", "its first 1 line is JSON", );
}

static void byte_order_marks_and_line_ends_are_noticed(void **state) {
    (void)state;
    CHECK("\xef\xbb\xbfone long line after a mark, with which the file begins and nothing else does so", 1, "bpe:260",
          "begins with a byte order mark (BOM)", );
    CHECK("lines with\r\nother ends\n", 30, "chars", "Windows line ends (CR LF: 30 of 60 lines)", );
    CHECK("lines with\r\nother ends\r\n", 30, "bytes", "CR LF: 60 of 60 lines", );
}

static void other_encodings_are_noticed(void **state) {
    (void)state;
    CHECK("na\xefve caf\xe9s\n", 30, "chars",
          "not UTF-8: 60 bytes are part of no character, the first at offset 2; it reads as "
          "Latin-1; to convert it: iconv -f ISO-8859-1 -t UTF-8", );
    CHECK("\x84so\x93 sagt er f\xfcr sich\n", 30, "chars",
          "it reads as Windows-1252; to convert it: iconv -f WINDOWS-1252", );
    CHECK("\x81\x8d\x8f\x90 is nothing\n", 30, "chars", "it is damaged or mixes encodings", );
    CHECK("\xc3\xa9\xc3\xa9\xc3\xa9 and \xe9\n", 30, "chars",
          "30 bytes are part of no character, the first at offset 11; it is damaged", );
    CHECK("na\xefve caf\xe9s\n", 30, "bytes", ); /* which takes any file */
    CHECK("{\"t\": \"caf\xe9\"}\n", 30, "chars", "not UTF-8", );
}

static void every_kind_has_one_note_for_all_files(void **state) {
    (void)state;
    struct qkv_train_options o = fixture_options(ctx);
    for (size_t i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "dos%zu.txt", i);
        const char *path = test_path(name);
        test_write_file(path, "some\r\nlines\r\n", 13);
        o.data_files[i + 1] = path;
    }
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("kinds"), &o);
    assert_non_null(qkv_trainer_note(t, 0));
    assert_non_null(
        strstr(qkv_trainer_note(t, 0), "dos0.txt (and 2 other files) has Windows line ends (CR LF: 2 of 2"));
    assert_null(qkv_trainer_note(t, 1));
    qkv_trainer_free(t);
}

static void pieces_are_checked_as_one_text(void **state) {
    (void)state;
    static const char text[] = "a\r\nb\nc\r\n\r\n\xe9";
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        struct qkv_text_check c = {0};
        qkv_text_check_piece(&c, text, cut, false, false);
        qkv_text_check_piece(&c, text + cut, sizeof text - 1 - cut, true, false);
        assert_int_equal(c.lines, 4);
        assert_int_equal(c.crlf, 3);
        assert_int_equal(c.invalid, 1);
        assert_int_equal(c.first_invalid, 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_texts_have_no_notes),
        cmocka_unit_test(lines_of_json_are_noticed),
        cmocka_unit_test(byte_order_marks_and_line_ends_are_noticed),
        cmocka_unit_test(other_encodings_are_noticed),
        cmocka_unit_test(every_kind_has_one_note_for_all_files),
        cmocka_unit_test(pieces_are_checked_as_one_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
