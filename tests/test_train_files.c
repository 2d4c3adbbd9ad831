/* Training on several files: how they become one text, the record of each, and that a run resumes only with the same
 * files. */
/* labels: quick */
#include "train_fixture.h"

#include <sys/stat.h>

static struct qkv_context *ctx;
static char paths[3][1024]; /* of three texts */
static char folder[900];    /* that they are in */

static int setup(void **state) {
    (void)state;
    ctx = fixture_context(1);
    snprintf(folder, sizeof folder, "%s", test_path("texts"));
    test_remove_tree(folder);
    mkdir(folder, 0777);
    for (size_t i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%c.txt", folder, (char)('a' + i));
        fixture_text(paths[i], 1000 + 700 * i, i);
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

static struct qkv_train_options options_of(const char *tokenizer, size_t count) {
    struct qkv_train_options o = fixture_options_on(ctx, NULL);
    o.tokenizer = tokenizer;
    for (size_t i = 0; i < count; i++) assert_ok(ctx, qkv_train_set(ctx, &o, "data", paths[i]));
    return o;
}

/* Appends the tokens of a file, each encoded for itself. */
static void append_tokens(const struct qkv_tokenizer *tokenizer, const char *path, int32_t *ids, size_t *count) {
    size_t size = 0, n;
    int32_t *more;
    char *text = test_read_file(path, &size);
    assert_non_null(text);
    assert_ok(ctx, qkv_tokenizer_encode(ctx, tokenizer, text, size, true, &more, &n));
    memcpy(ids + *count, more, n * sizeof *ids);
    *count += n;
    qkv_free(more);
    free(text);
}

/* ---- one text of several files ---------------------------------------------------------------------------------- */

static void check_concatenation(const char *tokenizer, bool has_end) {
    enum { ROOM = 8000 };
    struct qkv_train_options o = options_of(tokenizer, 3);
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("joined"), &o);
    const struct qkv_tokenizer *learnt = qkv_model_tokenizer(qkv_trainer_model(t));
    int32_t end = qkv_tokenizer_special(learnt, "<|endoftext|>");
    int32_t *expected = malloc(ROOM * sizeof *expected), *ids = malloc(ROOM * sizeof *ids),
            *next = malloc(ROOM * sizeof *ids);
    size_t count = 0, at[4] = {0};
    assert_int_equal(end >= 0, has_end);
    for (size_t i = 0; i < 3; i++) {
        append_tokens(learnt, paths[i], expected, &count);
        if (has_end && i < 2) expected[count++] = end;
        at[i + 1] = count;
    }
    assert_int_equal(t->data.windows.data_tokens.count, count);
    assert_ok(ctx, qkv_tokens_window(ctx, &t->data.windows.data_tokens, 0, count - 1, ids, next));
    assert_memory_equal(ids, expected, (count - 1) * sizeof *ids);
    assert_int_equal(next[count - 2], expected[count - 1]);
    struct qkv_train_file file;
    for (size_t i = 0; i < 3; i++) {
        assert_true(qkv_trainer_file(t, i, &file));
        assert_int_equal(file.tokens, at[i + 1] - at[i]);
        assert_int_equal(file.bytes, 1000 + 700 * i);
        assert_string_equal(strrchr(file.path, '/'), strrchr(paths[i], '/'));
        assert_false(file.valid);
    }
    assert_false(qkv_trainer_file(t, 3, &file));
    fixture_steps(ctx, t, 3);
    qkv_trainer_free(t);
    free(expected);
    free(ids);
    free(next);
}

static void an_end_token_stands_between_files_where_the_tokenizer_has_one(void **state) {
    (void)state;
    check_concatenation("bpe:300", true);
    check_concatenation("chars", false);
    check_concatenation("bytes", false);
}

static void tokenizers_learn_from_all_files(void **state) {
    (void)state;
    static const char late[] = "a letter that only the last file has: \xc3\xbc, again and again and again, \xc3\xbc\n";
    const char *path = test_path("late.txt");
    test_write_file(path, late, sizeof late - 1);
    struct qkv_train_options o = options_of("chars", 2);
    assert_ok(ctx, qkv_train_set(ctx, &o, "data", path));
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("late"), &o);
    int32_t *ids;
    size_t count;
    assert_ok(ctx,
              qkv_tokenizer_encode(ctx, qkv_model_tokenizer(qkv_trainer_model(t)), "\xc3\xbc", 2, true, &ids, &count));
    assert_int_equal(count, 1);
    qkv_free(ids);
    qkv_trainer_free(t);
}

static void a_folder_stands_for_its_files_in_order(void **state) {
    (void)state;
    char inner[1100], hidden[1100];
    struct qkv_train_options o = options_of("chars", 0);
    struct qkv_train_file file;
    snprintf(inner, sizeof inner, "%s/inner", folder);
    snprintf(hidden, sizeof hidden, "%s/.hidden", folder);
    mkdir(inner, 0777);
    test_write_file(hidden, "not\0text", 8);
    o.data = folder;
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("of-folder"), &o);
    for (size_t i = 0; i < 3; i++) {
        assert_true(qkv_trainer_file(t, i, &file));
        assert_string_equal(strrchr(file.path, '/'), strrchr(paths[i], '/'));
    }
    assert_false(qkv_trainer_file(t, 3, &file));
    assert_non_null(qkv_trainer_note(t, 0));
    assert_non_null(strstr(qkv_trainer_note(t, 0), "texts/inner is left out: it is a folder"));
    assert_null(qkv_trainer_note(t, 1));
    qkv_trainer_free(t);
    o.data = inner;
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("of-empty"), NULL, NULL, &t), QKV_FILE);
    assert_message(ctx, "texts/inner holds no files");
    rmdir(inner);
    unlink(hidden);
}

static void the_last_part_of_all_is_held_out_and_its_files_are_recorded(void **state) {
    (void)state;
    struct qkv_train_options o = options_of("bytes", 3); /* 1000, 1700 and 2400 tokens */
    struct qkv_train_file file;
    const uint64_t held[][3] = {{0, 0, 510}, {0, 150, 2400}, {0, 0, 0}};
    const double fractions[] = {0.1, 0.5, 0};
    for (size_t k = 0; k < 3; k++) {
        o.valid_fraction = fractions[k];
        if (fractions[k] == 0) fixture_no_validation(&o);
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("held"), &o);
        for (size_t i = 0; i < 3; i++) {
            assert_true(qkv_trainer_file(t, i, &file));
            assert_int_equal(file.held_out, held[k][i]);
        }
        qkv_trainer_free(t);
    }
    o = options_of("bytes", 2);
    o.valid_files[0] = paths[2];
    o.valid_files[1] = paths[0];
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("held"), &o);
    size_t valid;
    assert_int_equal(qkv_trainer_tokens(t, &valid), 2700);
    assert_int_equal(valid, 3400);
    assert_true(qkv_trainer_file(t, 1, &file));
    assert_false(file.valid || file.held_out);
    assert_true(qkv_trainer_file(t, 3, &file));
    assert_true(file.valid);
    assert_int_equal(file.bytes, 1000);
    qkv_trainer_free(t);
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

static void token_files_are_made_again_and_a_changed_file_is_named(void **state) {
    (void)state;
    const char *run = fixture_run("again");
    char tokens[1100];
    struct qkv_train_options o = options_of("bpe:300", 3);
    struct qkv_trainer *t = fixture_begin(ctx, run, &o);
    fixture_steps(ctx, t, 3);
    qkv_trainer_free(t);
    size_t size = 0, again = 0;
    char *before = fixture_read(run, QKV_TOKENS_DATA_FILE, &size);
    snprintf(tokens, sizeof tokens, "%s/%s", run, QKV_TOKENS_DATA_FILE);
    unlink(tokens);
    assert_ok(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t));
    assert_null(qkv_trainer_note(t, 0));
    qkv_trainer_free(t);
    char *after = fixture_read(run, QKV_TOKENS_DATA_FILE, &again);
    assert_int_equal(size, again);
    assert_memory_equal(before, after, size);
    free(after);
    free(before);

    size_t n = 0;
    char *text = test_read_file(paths[1], &n);
    text[n / 2] ^= 1;
    test_write_file(paths[1], text, n);
    unlink(tokens);
    assert_status(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "b.txt has changed since the run began");
    text[n / 2] ^= 1;
    test_write_file(paths[1], text, n);
    free(text);
    assert_ok(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t));
    fixture_steps(ctx, t, o.steps);
    qkv_trainer_free(t);
}

/* A train.json as it was written before files were recorded: "files" and all in it are taken out. */
static void forget_files(const char *run) {
    char *json = fixture_read(run, QKV_TRAIN_FILE, NULL), *begin;
    while ((begin = strstr(json, ", \"files\": ["))) {
        char *end = strchr(begin, ']');
        assert_non_null(end);
        memmove(begin, end + 1, strlen(end + 1) + 1);
    }
    assert_null(strstr(json, "held_out"));
    fixture_write(run, QKV_TRAIN_FILE, json, strlen(json));
    free(json);
}

static void runs_from_before_files_were_recorded_go_on(void **state) {
    (void)state;
    struct qkv_train_options o = options_of("chars", 1);
    double losses[2];
    for (int old = 0; old < 2; old++) {
        const char *run = fixture_run("old");
        char tokens[1100];
        struct qkv_trainer *t = fixture_begin(ctx, run, &o);
        fixture_steps(ctx, t, 3);
        qkv_trainer_free(t);
        if (old) forget_files(run);
        snprintf(tokens, sizeof tokens, "%s/%s", run, QKV_TOKENS_DATA_FILE);
        unlink(tokens);
        assert_ok(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t));
        losses[old] = fixture_steps(ctx, t, o.steps).loss;
        qkv_trainer_free(t);
    }
    assert_true(losses[0] == losses[1]);
}

static void records_of_files_that_do_not_add_up_are_refused(void **state) {
    (void)state;
    const char *run = fixture_run("sums");
    struct qkv_train_options o = options_of("bytes", 2);
    struct qkv_trainer *t = fixture_begin(ctx, run, &o);
    qkv_trainer_free(t);
    char *json = fixture_read(run, QKV_TRAIN_FILE, NULL), *at = strstr(json, "\"tokens\": 1700");
    assert_non_null(at);
    memcpy(at, "\"tokens\": 1701", 14);
    fixture_write(run, QKV_TRAIN_FILE, json, strlen(json));
    assert_status(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "train.json: texts.*.files must be a list of files that have the bytes and tokens");
    forget_files(run); /* two names, and nothing is known of either */
    assert_status(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "texts.*.files");
    free(json);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static void write_rows(const char *path, size_t begin, size_t end) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = begin; i < end; i++) fprintf(out, "%s\tw%zu is %zu\n", i % 2 ? "odd" : "even", i, i * i);
    fclose(out);
    test_write_file(path, text, size);
    free(text);
}

static void files_of_lines_are_read_one_after_the_other(void **state) {
    (void)state;
    char first[1024], second[1024];
    snprintf(first, sizeof first, "%s", test_path("first.tsv"));
    snprintf(second, sizeof second, "%s", test_path("second.tsv"));
    write_rows(first, 0, 20);
    write_rows(second, 20, 50);
    for (int pairs = 0; pairs < 2; pairs++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        struct qkv_train_options o = fixture_options_on(ctx, NULL);
        const char *small[] = {"d_model=16", "context=40"};
        assert_ok(ctx, qkv_spec_preset(ctx, &spec, pairs ? "g2p" : "text-classifier", small, 2));
        const char **names = pairs ? o.pairs_files : o.labeled_files;
        names[0] = first;
        names[1] = second;
        o.valid_fraction = 0.7;
        const char *run = fixture_run("lines");
        struct qkv_trainer *t;
        assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, run, NULL, NULL, &t));
        size_t valid;
        struct qkv_train_file file;
        assert_int_equal(qkv_trainer_lines(t, &valid), 15);
        assert_int_equal(valid, 35);
        assert_true(qkv_trainer_file(t, 0, &file));
        assert_int_equal(file.lines, 20);
        assert_int_equal(file.held_out, 5);
        assert_true(qkv_trainer_file(t, 1, &file));
        assert_int_equal(file.lines, 30);
        assert_int_equal(file.held_out, 30);
        fixture_steps(ctx, t, 3);
        qkv_trainer_free(t);
        char tokens[1100];
        snprintf(tokens, sizeof tokens, "%s/%s", run, QKV_BESIDE_DATA_FILE);
        unlink(tokens);
        assert_ok(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t));
        qkv_trainer_free(t);
        write_rows(second, 20, 51);
        unlink(tokens);
        assert_status(ctx, qkv_trainer_resume(ctx, run, NULL, NULL, NULL, &t), QKV_FORMAT);
        assert_message(ctx, "second.tsv has changed");
        write_rows(second, 20, 50);
    }
}

/* ---- one reading ------------------------------------------------------------------------------------------------ */

/* Takes a file away as soon as texts are tokenized, when the tokenizer has learnt from it. */
static bool take_away(void *user, const char *what, double done, double total) {
    (void)done, (void)total;
    if (!strcmp(what, "tokenizing")) unlink(user);
    return true;
}

static void a_new_run_reads_its_texts_once(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_train_options o = options_of("chars", 3);
    struct qkv_trainer *t;
    struct qkv_train_file before, after;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("twice"), NULL, NULL, &t));
    assert_true(qkv_trainer_file(t, 2, &before));
    uint64_t hash = before.hash, tokens = before.tokens;
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("once"), take_away, paths[2], &t));
    assert_int_equal(access(paths[2], F_OK), -1);
    assert_true(qkv_trainer_file(t, 2, &after));
    assert_int_equal(after.hash, hash);
    assert_int_equal(after.tokens, tokens);
    for (size_t i = 0; i < 3; i++) assert_null(t->facts.texts.data_files.items[i].kept.data);
    qkv_trainer_free(t);
    fixture_text(paths[2], 1000 + 700 * 2, 2);
}

static void a_new_run_reads_its_lines_once(void **state) {
    (void)state;
    char first[1024], second[1024];
    snprintf(first, sizeof first, "%s", test_path("first.tsv"));
    snprintf(second, sizeof second, "%s", test_path("second.tsv"));
    for (int pairs = 0; pairs < 2; pairs++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        struct qkv_train_options o = fixture_options_on(ctx, NULL);
        struct qkv_trainer *t;
        struct qkv_train_file file;
        write_rows(first, 0, 20);
        write_rows(second, 20, 50);
        assert_ok(ctx, qkv_spec_preset(ctx, &spec, pairs ? "g2p" : "text-classifier",
                                       (const char *const[]){"d_model=16", "context=40"}, 2));
        const char **names = pairs ? o.pairs_files : o.labeled_files;
        names[0] = first;
        names[1] = second;
        o.valid_fraction = 0.7;
        assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("once"), take_away, second, &t));
        assert_int_equal(access(second, F_OK), -1);
        assert_true(qkv_trainer_file(t, 1, &file));
        assert_int_equal(file.lines, 30);
        qkv_trainer_free(t);
    }
}

/* ---- options and evaluation ------------------------------------------------------------------------------------- */

static void names_of_files_are_a_list(void **state) {
    (void)state;
    struct qkv_train_options o, back;
    struct qkv_run_facts facts = {.texts.data = {3000, 5, 2000, 77, 300}}, found;
    const char *at = test_folder();
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    for (size_t i = 0; i < QKV_FILES_MAX; i++) {
        assert_null(o.data_files[i]);
        assert_ok(ctx, qkv_train_set(ctx, &o, "data", i ? "more" : "first \"quoted\""));
    }
    assert_status(ctx, qkv_train_set(ctx, &o, "data", "one too many"), QKV_ARGUMENT);
    assert_message(ctx, "data names more than 64 files; put them into a folder");
    assert_string_equal(o.data, "first \"quoted\"");
    const struct qkv_text_file one = {.path = (char[]){"one.txt"}, .bytes = 1000, .hash = 7, .tokens = 900};
    const struct qkv_text_file two = {
        .path = (char[]){"two.txt"}, .bytes = 2000, .hash = 8, .tokens = 1100, .held_out = 9};
    assert_ok(ctx, qkv_text_files_add(ctx, &facts.texts.data_files, &one));
    assert_ok(ctx, qkv_text_files_add(ctx, &facts.texts.data_files, &two));
    assert_ok(ctx, qkv_train_json_write(ctx, at, &o, &facts));
    assert_ok(ctx, qkv_train_json_read(ctx, at, &back, &found));
    for (size_t i = 0; i < QKV_FILES_MAX; i++) assert_string_equal(back.data_files[i], o.data_files[i]);
    assert_int_equal(found.texts.data_files.count, 2);
    assert_string_equal(found.texts.data_files.items[1].path, "two.txt");
    assert_int_equal(found.texts.data_files.items[1].hash, 8);
    assert_null(back.valid);
    qkv_train_release(&back);
    qkv_text_files_free(&found.texts.data_files);
    qkv_text_files_free(&facts.texts.data_files);
}

static void texts_are_evaluated_as_one(void **state) {
    (void)state;
    struct qkv_train_options o = options_of("bpe:300", 3);
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("evaluated"), &o);
    struct qkv_model *model = qkv_trainer_model(t);
    struct qkv_evaluation several, one, of_folder;
    const char *names[] = {paths[0], paths[1], paths[2]}, *joined = test_path("joined.txt");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < 3; i++) {
        size_t n = 0;
        char *part = test_read_file(paths[i], &n);
        fwrite(part, 1, n, out);
        if (i < 2) fputs("<|endoftext|>", out);
        free(part);
    }
    fclose(out);
    test_write_file(joined, text, size);
    free(text);
    assert_ok(ctx, qkv_evaluate_text(model, names, 3, NULL, NULL, NULL, &several));
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){joined}, 1, NULL, NULL, NULL, &one));
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){folder}, 1, NULL, NULL, NULL, &of_folder));
    assert_int_equal(several.tokens, one.tokens);
    assert_int_equal(several.tokens, t->data.windows.data_tokens.count - 1);
    assert_true(several.loss == one.loss && several.loss == of_folder.loss);
    qkv_trainer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_token_stands_between_files_where_the_tokenizer_has_one),
        cmocka_unit_test(tokenizers_learn_from_all_files),
        cmocka_unit_test(a_folder_stands_for_its_files_in_order),
        cmocka_unit_test(the_last_part_of_all_is_held_out_and_its_files_are_recorded),
        cmocka_unit_test(token_files_are_made_again_and_a_changed_file_is_named),
        cmocka_unit_test(runs_from_before_files_were_recorded_go_on),
        cmocka_unit_test(records_of_files_that_do_not_add_up_are_refused),
        cmocka_unit_test(files_of_lines_are_read_one_after_the_other),
        cmocka_unit_test(a_new_run_reads_its_texts_once),
        cmocka_unit_test(a_new_run_reads_its_lines_once),
        cmocka_unit_test(names_of_files_are_a_list),
        cmocka_unit_test(texts_are_evaluated_as_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
