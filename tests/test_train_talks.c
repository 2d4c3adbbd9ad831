/* Training on talks: only the assistant's tokens have a loss, and runs are the same bit for bit on any number of ranks,
 * threads and parts of a batch, and when they are resumed. test_talks.c tests ids and marks. */
/* labels: numeric quick */
#include "rank_fixture.h"

#include <time.h>

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

#include "data/talk.h"

#define CASES TEST_SOURCE_DIR "/tests/golden/talks/"

static const char json[] = "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":64,"
                           "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}";

static struct qkv_spec spec_of(const char *setting) {
    struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), &setting, setting ? 1 : 0));
    return spec;
}

/* Sums with their results, in each schema. */
static void write_talks(const char *path, size_t count, uint64_t seed) {
    struct qkv_random random = qkv_random_start(seed, 5);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        const int a = (int)qkv_random_below(&random, 9), b = (int)qkv_random_below(&random, 9);
        const char *format =
            i % 3 == 0 ? "{\"messages\":[{\"role\":\"user\",\"content\":\"%d+%d\"},{\"role\":\"assistant\",\"content\":"
                         "\"%d\"}]}\n"
            : i % 3 == 1
                ? "{\"conversations\":[{\"from\":\"human\",\"value\":\"%d+%d\"},{\"from\":\"gpt\",\"value\":\"%d\"}]}\n"
                : "{\"prompt\":\"%d and %d are\",\"completion\":\" %d\"}\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        assert_ok(ctx, qkv_buffer_print(ctx, &text, format, a, b, a + b));
#pragma GCC diagnostic pop
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static struct qkv_train_options options_of(size_t talks) {
    static char path[1024];
    struct qkv_train_options o;
    snprintf(path, sizeof path, "%s", test_path("talks.jsonl"));
    if (talks) write_talks(path, talks, test_seed());
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.chat = path;
    o.chat_template = CASES "plain.jinja";
    o.tokenizer = CASES "tokenizer.json";
    o.steps = 8;
    o.batch = 8;
    o.warmup = 2;
    o.eval_every = 2;
    o.eval_batches = 2;
    o.save_every = 4;
    o.dropout = 0.1;
    return o;
}

static void refuse(const struct qkv_train_options *o, const char *setting, enum qkv_status status,
                   const char *message) {
    const char *folder = fixture_run("refused");
    OWNED_SPEC struct qkv_spec spec = spec_of(setting);
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, o, folder, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
    assert_false(qkv_file_exists(folder));
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void bad_lines_are_refused_with_their_number(void **state) {
    (void)state;
    static const char good[] = "{\"prompt\":\"a\",\"completion\":\"b\"}\n";
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{}\n", "talks.jsonl:2: there is no key \"messages\""},
        {"{\"messages\": [{\"role\":\"user\",\"content\":\"a\"}]}\n", "talks.jsonl:2: no turn of the assistant counts"},
        {"{\"prompt\": \"a\"\n", "talks.jsonl:2: the line"},
        {"\n\nnonsense\n", "talks.jsonl:4: the line"},
        {"{\"prompt\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"completion\":\"b\"}"
         "\n",
         "more than the context of 64; shorten or remove the line"},
    };
    struct qkv_train_options o = options_of(1);
    fixture_no_validation(&o);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", good, bad[i].text);
        test_write_file(o.chat, text, strlen(text));
        refuse(&o, NULL, QKV_FORMAT, bad[i].message);
    }
}

static void options_must_suit(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(40), x = o;
    x.tokenizer = "chars";
    refuse(&x, NULL, QKV_ARGUMENT, "talks do not train a tokenizer; begin with a model (option from)");
    x = o, x.chat_template = NULL;
    refuse(&x, NULL, QKV_FORMAT, "talks.jsonl:1: a talk needs a chat template, and the model has none");
    x = o, x.chat_template = test_path("nowhere.jinja");
    refuse(&x, NULL, QKV_FILE, "nowhere.jinja");
    x = o, x.chat_template = test_path("empty.jinja");
    test_write_file(x.chat_template, "", 0);
    refuse(&x, NULL, QKV_FORMAT, "empty.jinja is empty");
    x = o, x.chat_template = test_path("bad.jinja");
    test_write_file(x.chat_template, "{% if %}", 8);
    refuse(&x, NULL, QKV_FORMAT, "bad.jinja, line 1");
    x = o, x.data = o.chat;
    refuse(&x, NULL, QKV_ARGUMENT, "data and chat exclude each other");
    x = o, x.chat = NULL, x.data = o.chat;
    refuse(&x, NULL, QKV_ARGUMENT, "template is given, but only talks (chat, preferences) are written by a template");
    x = o, x.task = "mlm";
    refuse(&x, NULL, QKV_ARGUMENT, "task mlm learns from a text (data) or lines, not from talks");
    refuse(&o, "decoder.attention.causal=false", QKV_SPEC, "causal");
}

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

/* The mean over all tokens that count of the golden cases, one by one. */
static double loss_one_by_one(struct qkv_model *model, const char *template, size_t *tokens) {
    size_t size = 0, counted;
    double sum = 0;
    char *text = test_read_file(CASES "cases.jsonl", &size);
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 64), &pass));
    *tokens = 0;
    for (char *line = text; line < text + size; line = strchr(line, '\n') + 1) {
        int32_t ids[128], targets[128];
        json_t *made = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        const json_t *list = json_object_get(made, "ids"), *marks = json_object_get(made, "marks");
        const char *name = json_string_value(json_object_get(made, "template"));
        const size_t n = json_array_size(list);
        for (size_t i = 0; i < n; i++) {
            ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
            if (i) targets[i - 1] = json_integer_value(json_array_get(marks, i)) ? ids[i] : QKV_IGNORE;
        }
        if (n <= 64 && (!name || !strcmp(name, template))) {
            const struct qkv_batch batch = {.B = 1, .T = n - 1, .ids = ids, .targets = targets};
            assert_ok(ctx, qkv_pass_forward(pass, &batch));
            const double mean = qkv_pass_loss(pass, &counted);
            sum += mean * (double)counted;
            *tokens += counted;
        }
        json_decref(made);
    }
    qkv_pass_free(pass);
    free(text);
    return sum / (double)*tokens;
}

/* The lines of the golden cases of a template. */
static void write_golden(const char *path, const char *template) {
    size_t size = 0;
    struct qkv_buffer lines = {0};
    char *text = test_read_file(CASES "cases.jsonl", &size);
    for (char *line = text; line < text + size; line = strchr(line, '\n') + 1) {
        json_t *made = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        const char *name = json_string_value(json_object_get(made, "template"));
        char *own = json_dumps(json_object_get(made, "line"), JSON_COMPACT);
        if (!name || !strcmp(name, template)) assert_ok(ctx, qkv_buffer_print(ctx, &lines, "%s\n", own));
        free(own);
        json_decref(made);
    }
    test_write_file(path, lines.data, lines.size);
    qkv_buffer_free(&lines);
    free(text);
}

static void the_loss_is_that_of_the_tokens_that_count(void **state) {
    (void)state;
    const char *folder = fixture_run("loss");
    char path[1024];
    struct qkv_train_options o = options_of(60);
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct qkv_trainer *trainer;
    struct qkv_chat_template *templates;
    struct qkv_talks_evaluation found;
    size_t tokens;
    snprintf(path, sizeof path, "%s", test_path("golden.jsonl"));
    write_golden(path, "plain");
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 2);
    struct qkv_model *model = qkv_trainer_model(trainer);
    assert_ok(ctx, qkv_chat_template_open(ctx, folder, NULL, &templates)); /* that the run has kept */
    assert_ok(ctx, qkv_evaluate_talks(model, templates, &(const char *){path}, 1, QKV_LONG_SKIP, NULL, NULL, &found));
    const double expected = loss_one_by_one(model, "plain", &tokens);
    assert_int_equal(found.tokens, tokens);
    const double bound = qkv_context_precision(ctx) == QKV_FP32 ? 1e-5 : 2e-2;
    if (!(fabs(found.loss - expected) < bound)) fail_msg("loss %.9g, not %.9g", found.loss, expected);
    assert_status(ctx, qkv_evaluate_talks(model, NULL, &(const char *){path}, 1, QKV_LONG_SKIP, NULL, NULL, &found),
                  QKV_FORMAT);
    assert_message(ctx, "golden.jsonl:1: a talk needs a chat template");
    qkv_chat_template_free(templates);
    qkv_trainer_free(trainer);
}

/* Appends talks; the one at `large` is some hundred tokens long. */
static void add_numbers(struct qkv_buffer *text, size_t count, size_t large, uint64_t stream) {
    struct qkv_random random = qkv_random_start(test_seed(), stream);
    for (size_t i = 0; i < count; i++) {
        const int letters = i == large ? 400 : 1 + (int)qkv_random_below(&random, 12);
        assert_ok(ctx, qkv_buffer_print(ctx, text, "{\"prompt\":\"%0*d\",\"completion\":\" %d\"}\n", letters, 7,
                                        (int)qkv_random_below(&random, 90)));
    }
}

/* Files of more talks than are sorted at a time: the next ones are short again, and more of them fit into a pass. */
static void files_are_evaluated_in_pieces(void **state) {
    (void)state;
    enum { WINDOW = 1024, REST = 76 };
    struct qkv_train_options o = options_of(60);
    OWNED_SPEC struct qkv_spec spec = spec_of("context=512");
    struct qkv_trainer *trainer;
    struct qkv_talks_evaluation whole, first, rest;
    struct qkv_buffer text = {0};
    const char *path = test_path("pieces.jsonl");
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("pieces"), NULL, NULL, &trainer));
    struct qkv_model *model = qkv_trainer_model(trainer);
    add_numbers(&text, WINDOW, 500, 1);
    const size_t size = text.size;
    add_numbers(&text, REST, REST, 2);
    test_write_file(path, text.data, text.size);
    assert_ok(ctx, qkv_evaluate_talks(model, NULL, &(const char *){path}, 1, QKV_LONG_ERROR, NULL, NULL, &whole));
    test_write_file(path, text.data, size);
    assert_ok(ctx, qkv_evaluate_talks(model, NULL, &(const char *){path}, 1, QKV_LONG_ERROR, NULL, NULL, &first));
    test_write_file(path, text.data + size, text.size - size);
    assert_ok(ctx, qkv_evaluate_talks(model, NULL, &(const char *){path}, 1, QKV_LONG_ERROR, NULL, NULL, &rest));
    assert_int_equal(whole.lines, WINDOW + REST);
    assert_int_equal(whole.tokens, first.tokens + rest.tokens);
    const double sum = first.loss * (double)first.tokens + rest.loss * (double)rest.tokens;
    assert_close(whole.loss, sum / (double)whole.tokens, 1e-6);
    /* Two files are the lines of one. */
    const char *paths[] = {test_path("first.jsonl"), path};
    test_write_file(paths[0], text.data, size);
    struct qkv_talks_evaluation both;
    assert_ok(ctx, qkv_evaluate_talks(model, NULL, paths, 2, QKV_LONG_ERROR, NULL, NULL, &both));
    assert_true(both.loss == whole.loss && both.lines == whole.lines && both.tokens == whole.tokens);
    assert_status(ctx, qkv_evaluate_talks(model, NULL, paths, 0, QKV_LONG_ERROR, NULL, NULL, &both), QKV_ARGUMENT);
    assert_message(ctx, "no file of talks to evaluate is named");
    qkv_buffer_free(&text);
    qkv_trainer_free(trainer);
}

/* The loss falls far below that of an untrained model. */
static void answers_are_learnt(void **state) {
    (void)state;
    const char *folder = fixture_run("learns");
    struct qkv_train_options o = options_of(200);
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct qkv_trainer *trainer;
    o.steps = 60, o.rate = 5e-3, o.dropout = 0, o.eval_every = 60;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer));
    const struct qkv_train_report first = fixture_steps(ctx, trainer, 1), last = fixture_steps(ctx, trainer, 60);
    assert_true(first.loss > 4);
    if (!(last.loss < 2.5 && last.valid_loss < 2.5)) fail_msg("losses %g, %g", last.loss, last.valid_loss);
    size_t valid;
    assert_int_equal(qkv_trainer_lines(trainer, &valid), 180);
    assert_int_equal(valid, 20);
    qkv_trainer_free(trainer);
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static void ranks_and_resuming_change_no_bit(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct run run = {.spec = &spec, .options = options_of(90), .until = 8};
    run.options.groups = 4;
    make_run_of_one(&run, "several");
    for (int ranks = 2; ranks <= 4; ranks++) {
        run.folder = fixture_run("several");
        expect_run(&run, ranks);
        assert_as_one(ctx, &run);
    }
    run.folder = fixture_run("several");
    run.until = 3;
    expect_run(&run, 2);
    run.until = 8, run.again = true;
    expect_run(&run, 3);
    assert_as_one(ctx, &run);
}

/* A file of tokens that is gone is made again; another template is not the one of the run. */
static void missing_tokens_are_made_again(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct run run = {.spec = &spec, .options = options_of(90), .until = 8};
    char path[1100];
    size_t size;
    make_run_of_one(&run, "again");
    run.until = 3;
    expect_run(&run, 1);
    snprintf(path, sizeof path, "%s/tokens.data.beside.bin", run.folder);
    unlink(path);
    run.until = 8, run.again = true;
    expect_run(&run, 1);
    assert_as_one(ctx, &run);
    char *config = fixture_read(run.folder, "tokenizer_config.json", &size);
    *strstr(config, "im_start") = 'x';
    fixture_write(run.folder, "tokenizer_config.json", config, size);
    free(config);
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer), QKV_FORMAT);
    assert_message(ctx, "does not hold the chat template that this run was trained with");
}

/* The template writes the time at which the run begins, also where its tokens are made again later. */
static void the_time_is_that_of_the_beginning(void **state) {
    (void)state;
    static const char source[] = "{{ strftime_now('%H:%M:%S') }}{% for m in messages %}{{ m.content }};{% endfor %}";
    const char *folder = fixture_run("time");
    struct qkv_train_options o = options_of(30);
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct qkv_trainer *trainer;
    char path[1100];
    size_t size, again_size;
    o.chat_template = test_path("time.jinja");
    test_write_file(o.chat_template, source, sizeof source - 1);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 1);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    char *tokens = fixture_read(folder, "tokens.data.bin", &size);
    snprintf(path, sizeof path, "%s/tokens.data.bin", folder);
    assert_int_equal(unlink(path), 0);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
    char *again = fixture_read(folder, "tokens.data.bin", &again_size);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, tokens, size);
    free(tokens);
    free(again);
}

static void run_with(const char *name, int threads, const struct qkv_train_options *o) {
    struct qkv_context *own = fixture_context(threads);
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct qkv_trainer *trainer;
    assert_ok(own, qkv_trainer_create(own, &spec, o, fixture_run(name), NULL, NULL, &trainer));
    fixture_steps(own, trainer, 8);
    assert_ok(own, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    qkv_context_free(own);
}

static void threads_and_parts_change_no_bit(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(90);
    char one[1024], other[1024];
    snprintf(one, sizeof one, "%s", test_path("one"));
    snprintf(other, sizeof other, "%s", test_path("other"));
    o.groups = 4;
    run_with("one", 1, &o);
    run_with("other", 3, &o);
    assert_same_runs(ctx, one, other);
    o.accumulate = 3;
    run_with("other", 1, &o);
    assert_same_runs(ctx, one, other);
}

/* ---- long talks -------------------------------------------------------------------------------------------------- */

/* A talk that is long in its prompt has nothing that counts once its end is cut off. */
static void expect_none_left(const struct qkv_train_options *options, const char *line) {
    struct qkv_train_options o = *options;
    OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
    struct qkv_trainer *trainer;
    struct qkv_talks_evaluation found;
    const char *path = test_path("none.jsonl");
    test_write_file(path, line, strlen(line));
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("some"), NULL, NULL, &trainer));
    assert_status(ctx,
                  qkv_evaluate_talks(qkv_trainer_model(trainer), NULL, &(const char *){path}, 1, QKV_LONG_KEEP_START,
                                     NULL, NULL, &found),
                  QKV_ARGUMENT);
    assert_message(ctx, "none.jsonl has more tokens than the context of 64, so long keep-start leaves none");
    qkv_trainer_free(trainer);
    o.chat = path;
    o.long_lines = "keep-start";
    refuse(&o, NULL, QKV_ARGUMENT, "none.jsonl has more tokens than the context of 64, so long keep-start leaves none");
}

static void long_talks_are_skipped_or_cut(void **state) {
    (void)state;
    static const char *const kinds[] = {"skip", "keep-start", "keep-end"};
    static const size_t left[] = {1, 2, 3}; /* lines; a cut may leave nothing that counts */
    struct qkv_train_options o = options_of(1);
    struct qkv_buffer text = {0};
    char filler[200];
    memset(filler, 'x', sizeof filler);
    for (int kind = 0; kind < 3; kind++) { /* fits; is long in its answer; is long in its prompt */
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "{\"prompt\":\"a%.*s\",\"completion\":\"b%.*s\"}\n",
                                        kind == 2 ? 150 : 0, filler, kind == 1 ? 150 : 0, filler));
    }
    test_write_file(o.chat, text.data, text.size);
    fixture_no_validation(&o);
    o.batch = 1;
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        OWNED_SPEC struct qkv_spec spec = spec_of(NULL);
        struct qkv_trainer *trainer;
        o.long_lines = kinds[i];
        assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("long"), NULL, NULL, &trainer));
        assert_int_equal(qkv_trainer_lines(trainer, NULL), left[i]);
        assert_non_null(strstr(qkv_trainer_note(trainer, 0), "2 of 3 lines"));
        fixture_steps(ctx, trainer, 2);
        qkv_trainer_free(trainer);
    }
    expect_none_left(&o, strstr(text.data, "{\"prompt\":\"axx"));
    qkv_buffer_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_lines_are_refused_with_their_number),
        cmocka_unit_test(options_must_suit),
        cmocka_unit_test(the_loss_is_that_of_the_tokens_that_count),
        cmocka_unit_test(answers_are_learnt),
        cmocka_unit_test(ranks_and_resuming_change_no_bit),
        cmocka_unit_test(missing_tokens_are_made_again),
        cmocka_unit_test(threads_and_parts_change_no_bit),
        cmocka_unit_test(long_talks_are_skipped_or_cut),
        cmocka_unit_test(files_are_evaluated_in_pieces),
        cmocka_unit_test(the_time_is_that_of_the_beginning),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
