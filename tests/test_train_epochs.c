/* The option epochs: the number of steps that it sets for each kind of data, on one rank and on several, in resumed
 * runs, and together with steps. */
/* labels: numeric quick */
#include "rank_fixture.h"
#include "train_fixture.h"
#include "train_same.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

#define STACK "{\"layers\":1,\"attention\":{\"heads\":2}}"
#define START "{\"format\":\"qkv\",\"version\":1,\"d_model\":16,\"context\":24,"
static const char text_json[] = START "\"decoder\":" STACK "}";
static const char encoder_json[] = START "\"encoder\":" STACK "}";
static const char pair_json[] = START "\"tie\":\"head\",\"encoder\":" STACK ",\"decoder\":" STACK "}";
static const char class_json[] = START "\"head\":{\"kind\":\"classify\"},\"encoder\":" STACK "}";
static const char vectors_json[] = "{\"format\":\"qkv\",\"version\":2,\"d_model\":16,\"context\":16,\"embed\":{"
                                   "\"input\":{\"kind\":\"vectors\",\"channels\":5}},"
                                   "\"head\":{\"kind\":\"classify\"},\"encoder\":" STACK "}";

enum { LINES = 61, EXAMPLES = 29 };

/* Lines of 1 to 9 letters; `second`: what stands behind a tab, or, in front of one, a label. */
static const char *write_lines(const char *name, bool labels, bool second) {
    static char paths[4][1024];
    static size_t next;
    char *path = paths[next++ % 4];
    struct qkv_buffer text = {0};
    for (int i = 0; i < LINES; i++) {
        if (labels) assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t", i % 2 ? "odd" : "even"));
        for (int k = 0; k <= i * 7 % 9; k++) assert_ok(ctx, qkv_buffer_print(ctx, &text, "%c", 'a' + (i + k) % 6));
        if (second) assert_ok(ctx, qkv_buffer_print(ctx, &text, "\t%c%c", 'a' + i % 5, 'a' + i % 3));
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "\n"));
    }
    snprintf(path, sizeof paths[0], "%s", test_path(name));
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
    return path;
}

static const char *write_vectors(void) {
    static char path[1024];
    static float x[EXAMPLES * 3 * 5];
    static int32_t classes[EXAMPLES];
    for (size_t i = 0; i < EXAMPLES; i++) classes[i] = (int32_t)(i % 3);
    for (size_t i = 0; i < TEST_COUNT(x); i++) x[i] = (float)(i % 11) / 11;
    const struct qkv_array arrays[] = {
        {.name = "in.vectors", .dtype = QKV_F32, .rank = 3, .shape = {EXAMPLES, 3, 5}, .data = x, .bytes = sizeof x},
        {.name = "in.targets",
         .dtype = QKV_I32,
         .rank = 1,
         .shape = {EXAMPLES},
         .data = classes,
         .bytes = sizeof classes}};
    snprintf(path, sizeof path, "%s", test_path("vectors.safetensors"));
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, 2, NULL, 0));
    return path;
}

static struct qkv_spec parse(const char *json) {
    struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), NULL, 0));
    return spec;
}

static struct qkv_trainer *start(const char *json, const struct qkv_train_options *o, const char *folder) {
    struct qkv_trainer *trainer;
    OWNED_SPEC struct qkv_spec spec = parse(json);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, o, folder, NULL, NULL, &trainer));
    return trainer;
}

/* Short runs that leave the number of steps open. */
static struct qkv_train_options open_options(const char *data) {
    struct qkv_train_options o = fixture_options_on(ctx, data);
    qkv_train_unset(&o, "steps");
    return o;
}

static struct qkv_train_options text_options(double epochs) {
    fixture_text(test_path("text.txt"), 3000, 1);
    static char path[1024];
    snprintf(path, sizeof path, "%s", test_path("text.txt"));
    struct qkv_train_options o = open_options(path);
    o.epochs = epochs;
    o.warmup = 2;
    return o;
}

/* ---- each kind of data ------------------------------------------------------------------------------------------ */

/* The steps until each example was in a batch once, counted batch by batch; none is there twice before. */
static int64_t count_steps(struct qkv_trainer *t, size_t examples) {
    size_t seen = 0;
    int64_t steps = 0;
    while (seen < examples) {
        struct qkv_dataset_step step;
        assert_ok(ctx, t->data.dataset->begin(&t->data, (uint64_t)steps++, &step));
        seen += step.rows;
    }
    assert_int_equal(seen, examples);
    return steps;
}

static void an_epoch_of_a_text_has_the_steps_that_hold_its_tokens(void **state) {
    (void)state;
    static const char *const tasks[] = {NULL, "mlm"};
    for (size_t i = 0; i < TEST_COUNT(tasks); i++) {
        struct qkv_train_options o = text_options(2.5);
        o.task = tasks[i];
        struct qkv_trainer *t = start(tasks[i] ? encoder_json : text_json, &o, fixture_run("run"));
        const size_t tokens = qkv_trainer_tokens(t, NULL);
        assert_close(qkv_trainer_epoch(t), (double)tokens / (4 * 24), 1e-12);
        const int64_t steps = (int64_t)((5 * tokens + 2 * 4 * 24 - 1) / (2 * 4 * 24)); /* 2.5 times, rounded up */
        assert_true(steps > 60 && steps < 80);
        assert_int_equal(qkv_trainer_options(t)->steps, steps);
        assert_true(qkv_trainer_options(t)->epochs == 2.5);
        assert_int_equal(fixture_steps(ctx, t, 1).steps, steps);
        qkv_trainer_free(t);
    }
}

static void an_epoch_of_lines_has_the_batches_that_are_made_of_them(void **state) {
    (void)state;
    const struct {
        const char *json, *option, *path, *task;
    } cases[] = {{pair_json, "pairs", write_lines("pairs.tsv", false, true), NULL},
                 {class_json, "labeled", write_lines("labels.tsv", true, false), NULL},
                 {text_json, "lines", write_lines("lines.txt", false, false), NULL},
                 {encoder_json, "lines", write_lines("masks.txt", false, false), "mlm"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        for (int ragged = 0; ragged < 2; ragged++) {
            struct qkv_train_options o = open_options(NULL);
            assert_ok(ctx, qkv_train_set(ctx, &o, cases[i].option, cases[i].path));
            assert_ok(ctx, qkv_train_set(ctx, &o, "epochs", "3"));
            o.task = cases[i].task;
            o.batch = ragged ? 0 : 4;
            o.batch_tokens = ragged ? 30 : 0;
            struct qkv_trainer *t = start(cases[i].json, &o, fixture_run("run"));
            const int64_t each = count_steps(t, qkv_trainer_lines(t, NULL));
            assert_true(each > 10 && each < LINES);
            assert_true(qkv_trainer_epoch(t) == (double)each);
            assert_int_equal(qkv_trainer_options(t)->steps, 3 * each);
            qkv_trainer_free(t);
        }
}

static void an_epoch_of_examples_has_their_whole_batches(void **state) {
    (void)state;
    struct qkv_train_options o = open_options(NULL);
    o.examples = write_vectors();
    o.epochs = 3;
    o.batch = 4;
    struct qkv_trainer *t = start(vectors_json, &o, fixture_run("run"));
    assert_int_equal(qkv_trainer_lines(t, NULL), EXAMPLES - 2);
    assert_true(qkv_trainer_epoch(t) == (EXAMPLES - 2) / 4);
    assert_int_equal(qkv_trainer_options(t)->steps, 3 * ((EXAMPLES - 2) / 4));
    qkv_trainer_free(t);
}

static void parts_of_an_epoch_are_rounded_up_and_warmup_follows(void **state) {
    (void)state;
    static const struct {
        double epochs;
        int64_t steps;
    } cases[] = {{1e-9, 1}, {0.1, 1}, {1.0 / 6, 1}, {0.2, 2}, {0.5, 3}, {7.0 / 6, 7}, {100, 600}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_train_options o = open_options(NULL);
        o.examples = write_vectors();
        o.epochs = cases[i].epochs;
        qkv_train_unset(&o, "warmup"); /* 100 */
        struct qkv_trainer *t = start(vectors_json, &o, fixture_run("run"));
        assert_true(qkv_trainer_epoch(t) == 6);
        assert_int_equal(qkv_trainer_options(t)->steps, cases[i].steps);
        assert_int_equal(qkv_trainer_options(t)->warmup, cases[i].steps > 100 ? 100 : cases[i].steps / 10);
        assert_true((qkv_trainer_note(t, 0) != NULL) == (cases[i].steps <= 100));
        qkv_trainer_free(t);
    }
    /* A chosen option is not adjusted. */
    struct qkv_train_options o = open_options(NULL);
    struct qkv_trainer *t;
    OWNED_SPEC struct qkv_spec spec = parse(vectors_json);
    o.examples = write_vectors();
    o.epochs = 1;
    o.warmup = 6;
    const char *folder = fixture_run("run");
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "warmup is 6, but steps is 6");
    assert_false(fixture_has(folder, "train.json"));
}

/* ---- beside steps ----------------------------------------------------------------------------------------------- */

static void steps_and_epochs_exclude_each_other(void **state) {
    (void)state;
    struct qkv_train_options o = text_options(2);
    char *texts = NULL;
    assert_ok(ctx, qkv_train_check(ctx, &o));
    o.steps = 10;
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "steps and epochs exclude each other");
    o = text_options(2);
    assert_ok(ctx, qkv_train_set(ctx, &o, "steps", "2000"));
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    static const char *const bad[] = {"0", "-2", "nan", "1e10"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        o = text_options(-1);
        assert_status(ctx, qkv_train_set(ctx, &o, "epochs", bad[i]), QKV_ARGUMENT);
        assert_message(ctx, "epochs is ");
    }
    /* The steps of a preset are a default. */
    assert_ok(ctx, qkv_train_defaults(ctx, "g2p", &o));
    assert_ok(ctx, qkv_train_set(ctx, &o, "epochs", "2"));
    o.pairs = "pairs.tsv";
    assert_ok(ctx, qkv_train_check(ctx, &o));
    /* So are those of another run, and its epochs, which become the steps of the new one. */
    const char *folder = fixture_run("recorded");
    char path[1024];
    o = text_options(0.5);
    qkv_trainer_free(start(text_json, &o, folder));
    snprintf(path, sizeof path, "%s/train.json", folder);
    for (int chosen = 0; chosen < 2; chosen++) {
        assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
        assert_ok(ctx, qkv_train_read_options(ctx, path, &o, &texts));
        if (chosen) assert_ok(ctx, qkv_train_set(ctx, &o, "steps", "7"));
        if (!chosen) o.batch = 8; /* half as many steps */
        struct qkv_trainer *t = start(text_json, &o, fixture_run("again"));
        assert_int_equal(qkv_trainer_options(t)->steps, chosen ? 7 : 8);
        assert_true(qkv_trainer_options(t)->epochs == (chosen ? -1 : 0.5));
        qkv_trainer_free(t);
        qkv_free(texts);
    }
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

static enum qkv_status go_on(const char *folder, const struct qkv_resume_options *o, struct qkv_trainer **trainer) {
    return qkv_trainer_resume(ctx, folder, o, NULL, NULL, trainer);
}

static void going_on_keeps_the_steps_and_more_epochs_are_a_new_end(void **state) {
    (void)state;
    const char *folders[] = {fixture_run("by-epochs"), fixture_run("by-steps"), fixture_run("by-setting")};
    static const char *const setting = "epochs=0.5", *const both[] = {"epochs=1", "steps=900"};
    struct qkv_train_options o = text_options(0.25);
    struct qkv_trainer *t;
    const int64_t steps = 8, end = 15; /* 2700 tokens, 4 x 24 a step: 7.03 and 14.06 */
    for (size_t i = 0; i < 3; i++) {
        t = start(text_json, &o, folders[i]);
        fixture_steps(ctx, t, steps);
        qkv_trainer_free(t);
        assert_ok(ctx, go_on(folders[i], NULL, &t));
        assert_int_equal(qkv_trainer_options(t)->steps, steps);
        assert_true(qkv_trainer_options(t)->epochs == 0.25);
        qkv_trainer_free(t);
        const struct qkv_resume_options ends[] = {{.size = sizeof *ends, .epochs = 0.5},
                                                  {.size = sizeof *ends, .steps = end},
                                                  {.size = sizeof *ends, .settings = &setting, .setting_count = 1}};
        assert_ok(ctx, go_on(folders[i], &ends[i], &t));
        assert_int_equal(qkv_trainer_options(t)->steps, end);
        assert_true(qkv_trainer_options(t)->epochs == (i == 1 ? -1 : 0.5));
        assert_non_null(strstr(qkv_trainer_note(t, 0), "the run ends at step"));
        fixture_steps(ctx, t, end);
        qkv_trainer_free(t);
        if (i) assert_same_runs(ctx, folders[0], folders[i]);
    }
    /* It is in train.json, and the same again changes nothing. */
    const struct qkv_resume_options same = {.size = sizeof same, .epochs = 0.5},
                                    less = {.size = sizeof less, .epochs = 0.1},
                                    none = {.size = sizeof none, .epochs = -3};
    assert_ok(ctx, go_on(folders[0], &same, &t));
    assert_null(qkv_trainer_note(t, 0));
    assert_int_equal(qkv_trainer_options(t)->steps, end);
    qkv_trainer_free(t);
    assert_status(ctx, go_on(folders[0], &less, &t), QKV_ARGUMENT);
    assert_message(ctx, "epochs is 0.1, which are 3 steps, but the run has done 15 already; choose more");
    assert_status(ctx, go_on(folders[0], &none, &t), QKV_ARGUMENT);
    assert_status(ctx, go_on(folders[0], &QKV_OPTIONS(qkv_resume_options, .epochs = 2, .steps = 900), &t),
                  QKV_ARGUMENT);
    assert_message(ctx, "steps and epochs exclude each other");
    assert_status(ctx, go_on(folders[0], &QKV_OPTIONS(qkv_resume_options, .settings = both, .setting_count = 2), &t),
                  QKV_ARGUMENT);
    assert_message(ctx, "steps and epochs exclude each other");
}

static void a_run_matches_epochs_of_as_many_or_fewer(void **state) {
    (void)state;
    const char *of_epochs = fixture_run("epochs"), *of_steps = fixture_run("steps");
    struct qkv_train_options o = text_options(0.5), steps = text_options(-1);
    OWNED_SPEC struct qkv_spec spec = parse(text_json);
    steps.steps = 10;
    qkv_trainer_free(start(text_json, &o, of_epochs));
    qkv_trainer_free(start(text_json, &steps, of_steps));
    assert_ok(ctx, qkv_run_match(ctx, of_epochs, &spec, &o));
    o.epochs = 1;
    assert_ok(ctx, qkv_run_match(ctx, of_epochs, &spec, &o));
    o.epochs = 0.25;
    assert_status(ctx, qkv_run_match(ctx, of_epochs, &spec, &o), QKV_ARGUMENT);
    assert_message(ctx, "its epochs is 0.5, not 0.25");
    assert_status(ctx, qkv_run_match(ctx, of_steps, &spec, &o), QKV_ARGUMENT);
    steps.steps = 9;
    assert_status(ctx, qkv_run_match(ctx, of_steps, &spec, &steps), QKV_ARGUMENT);
    assert_message(ctx, "its steps is 10, not 9");
    steps.steps = 14; /* epochs have 15 */
    assert_status(ctx, qkv_run_match(ctx, of_epochs, &spec, &steps), QKV_ARGUMENT);
    steps.steps = 15;
    assert_ok(ctx, qkv_run_match(ctx, of_epochs, &spec, &steps));
    assert_ok(ctx, qkv_run_match(ctx, of_steps, &spec, &steps));
}

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

static void every_rank_has_the_same_steps(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = parse(pair_json);
    struct run run = {.spec = &spec, .options = open_options(NULL)};
    run.options.pairs = write_lines("pairs.tsv", false, true);
    run.options.epochs = 0.5;
    run.options.batch = 0;
    run.options.batch_tokens = 30;
    struct qkv_trainer *t = start(pair_json, &run.options, fixture_run("alone"));
    run.until = qkv_trainer_options(t)->steps;
    qkv_trainer_free(t);
    make_run_of_one(&run, "several");
    expect_run(&run, 2);
    assert_as_one(ctx, &run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_of_a_text_has_the_steps_that_hold_its_tokens),
        cmocka_unit_test(an_epoch_of_lines_has_the_batches_that_are_made_of_them),
        cmocka_unit_test(an_epoch_of_examples_has_their_whole_batches),
        cmocka_unit_test(parts_of_an_epoch_are_rounded_up_and_warmup_follows),
        cmocka_unit_test(steps_and_epochs_exclude_each_other),
        cmocka_unit_test(going_on_keeps_the_steps_and_more_epochs_are_a_new_end),
        cmocka_unit_test(a_run_matches_epochs_of_as_many_or_fewer),
        cmocka_unit_test(every_rank_has_the_same_steps),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
