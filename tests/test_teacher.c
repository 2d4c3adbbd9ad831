/* Learning from a teacher: losses and gradients beside float64 (tests/golden/teacher, which make/teacher_cases.py
 * made), the same bits on ranks and parts, and what is refused. */
/* labels: numeric quick */
#include "rank_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

#define CASES   TEST_SOURCE_DIR "/tests/golden/teacher/"
#define STUDENT TEST_SOURCE_DIR "/tests/golden/preferences/model"

static struct qkv_train_options options_of(void) {
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    fixture_no_validation(&o);
    o.chat = CASES "answers.jsonl";
    o.from = STUDENT;
    o.teacher = CASES "model";
    o.steps = 6, o.batch = 4, o.warmup = 0, o.rate = 1e-3, o.save_every = 3;
    return o;
}

static void check_golden(const json_t *made, size_t i, int64_t accumulate, int64_t groups) {
    struct qkv_train_options o = options_of();
    struct qkv_trainer *trainer;
    o.teacher_temperature = json_number_value(json_object_get(made, "temperature"));
    o.teacher_share = json_number_value(json_object_get(made, "share"));
    o.label_smoothing = json_number_value(json_object_get(made, "smoothing"));
    o.rate = json_number_value(json_object_get(made, "rate"));
    o.optimizer = "sgd", o.momentum = 0, o.schedule = "constant", o.weight_decay = 0, o.clip = 0, o.dropout = 0;
    o.batch = 5, o.steps = 4, o.precision = "fp32", o.accumulate = accumulate, o.groups = groups;
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, fixture_run("golden"), NULL, NULL, &trainer));
    for (size_t step = 0; step < 4; step++) {
        struct qkv_train_report r = {0};
        assert_ok(ctx, qkv_trainer_step(trainer, &r));
        const double loss = json_number_value(json_array_get(json_object_get(made, "losses"), step));
        const double norm = json_number_value(json_array_get(json_object_get(made, "norms"), step));
        if (!(fabs(r.loss - loss) < 2e-5 * (1 + loss)) || !(fabs(r.norm - norm) < 1e-4 * norm))
            fail_msg("case %zu, step %zu: loss %.9g, not %.9g; norm %.9g, not %.9g", i, step, r.loss, loss, r.norm,
                     norm);
    }
    qkv_trainer_free(trainer);
}

static void losses_and_gradients_are_those_of_float64(void **state) {
    (void)state;
    json_t *cases = json_load_file(CASES "cases.json", 0, NULL);
    assert_int_equal(json_array_size(cases), 3);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        check_golden(json_array_get(cases, i), i, 1, 1);
        check_golden(json_array_get(cases, i), i, 2, 5);
    }
    json_decref(cases);
}

/* A model that is its own teacher has no divergence. */
static void a_model_diverges_not_from_itself(void **state) {
    (void)state;
    struct qkv_train_options o = options_of();
    struct qkv_trainer *trainer;
    struct qkv_train_report r = {0};
    o.teacher = STUDENT, o.teacher_share = 1, o.dropout = 0;
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, fixture_run("itself"), NULL, NULL, &trainer));
    assert_ok(ctx, qkv_trainer_step(trainer, &r));
    if (!(fabs(r.loss) < 1e-5 && r.norm < 1e-3)) fail_msg("loss %g, norm %g", r.loss, r.norm);
    qkv_trainer_free(trainer);
}

/* A batch takes all talks that there are: memory is planned for those, not for rows as long as the context. */
static void memory_is_that_of_the_talks(void **state) {
    (void)state;
    struct qkv_train_options o = options_of();
    struct qkv_trainer *trainer;
    o.batch = INT64_C(1) << 24;
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, fixture_run("large"), NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 1);
    qkv_trainer_free(trainer);
}

static void ranks_parts_and_resuming_change_no_bit(void **state) {
    (void)state;
    struct run run = {.options = options_of(), .until = 6};
    run.options.groups = 4;
    make_run_of_one(&run, "several");
    for (int ranks = 2; ranks <= 4; ranks++) {
        run.folder = fixture_run("several");
        expect_run(&run, ranks);
        assert_as_one(ctx, &run);
    }
    run.folder = fixture_run("several");
    run.options.accumulate = 3;
    run.until = 3;
    expect_run(&run, 1);
    run.until = 6, run.again = true;
    expect_run(&run, 2);
    assert_as_one(ctx, &run);
}

/* Windows of a text, whose batches have another shape. */
static void texts_are_learnt_from_a_teacher(void **state) {
    (void)state;
    struct qkv_train_options o = options_of();
    struct qkv_trainer *trainer;
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path("text.txt"));
    fixture_text(path, 4000, 1);
    o.chat = NULL, o.data = path, o.context = 32, o.steps = 30, o.teacher_share = 1, o.dropout = 0;
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, fixture_run("text"), NULL, NULL, &trainer));
    const struct qkv_train_report first = fixture_steps(ctx, trainer, 1), last = fixture_steps(ctx, trainer, 30);
    if (!(last.loss < 0.9 * first.loss)) fail_msg("losses %g, %g", first.loss, last.loss);
    qkv_trainer_free(trainer);
}

/* A run that was begun is that of its model, its teacher and its template, whatever the paths of their files are. */
static void a_run_with_another_teacher_is_another_run(void **state) {
    (void)state;
    const char *folder = fixture_run("match");
    struct qkv_train_options o = options_of(), x;
    struct qkv_trainer *trainer;
    o.chat_template = TEST_SOURCE_DIR "/tests/golden/talks/plain.jinja";
    assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, folder, NULL, NULL, &trainer));
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_copy(ctx, qkv_model_spec(qkv_trainer_model(trainer)), &spec));
    qkv_trainer_free(trainer);
    assert_ok(ctx, qkv_run_match(ctx, folder, &spec, &o));
    x = o, x.teacher = CASES "../teacher/model/", x.from = CASES "../preferences/model";
    assert_ok(ctx, qkv_run_match(ctx, folder, &spec, &x));
    x = o, x.teacher = STUDENT;
    assert_status(ctx, qkv_run_match(ctx, folder, &spec, &x), QKV_ARGUMENT);
    assert_message(ctx, "holds a run with other options: its teacher is ");
    x = o, x.from = CASES "model";
    assert_status(ctx, qkv_run_match(ctx, folder, &spec, &x), QKV_ARGUMENT);
    assert_message(ctx, "holds a run with other options: its from is ");
    x = o, x.chat_template = TEST_SOURCE_DIR "/tests/golden/talks/blocks.jinja";
    assert_status(ctx, qkv_run_match(ctx, folder, &spec, &x), QKV_ARGUMENT);
    assert_message(ctx, "holds a run with other options: its template is ");
}

static void refuse(const struct qkv_train_options *o, enum qkv_status status, const char *message) {
    const char *folder = fixture_run("refused");
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_create(ctx, NULL, o, folder, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
    assert_false(qkv_file_exists(folder));
}

static void teachers_must_suit(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(), x = o;
    x.teacher = TEST_SOURCE_DIR "/tests/golden/hf/gpt2";
    refuse(&x, QKV_SPEC, "has another vocabulary (128 tokens, the model 360)");
    x = o, x.teacher = test_path("nowhere");
    refuse(&x, QKV_FILE, "nowhere");
    x = o, x.chat = NULL, x.preferences = TEST_SOURCE_DIR "/tests/golden/preferences/pairs.jsonl";
    refuse(&x, QKV_ARGUMENT, "teacher is given, but only the next tokens of a text, of lines or of talks");
    x = o, x.teacher = NULL, x.teacher_share = 0.2;
    refuse(&x, QKV_ARGUMENT, "teacher_share is given, but there is no teacher");
    x = o, x.teacher_share = 1, x.label_smoothing = 0.1;
    refuse(&x, QKV_ARGUMENT, "label_smoothing is given, but with teacher_share 1 the loss is the divergence from");
    x = o, x.teacher_temperature = 0;
    refuse(&x, QKV_ARGUMENT, "teacher_temperature is 0");
    x = o, x.teacher_temperature = 101;
    refuse(&x, QKV_ARGUMENT, "teacher_temperature is 101");
    const char *setting = "teacher=other";
    assert_status(ctx, qkv_train_change(ctx, &o, &setting, 1), QKV_ARGUMENT);
    assert_message(ctx, "teacher cannot change when a run goes on: its loss is that of the teacher that it began with");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_those_of_float64),
        cmocka_unit_test(a_model_diverges_not_from_itself),
        cmocka_unit_test(memory_is_that_of_the_talks),
        cmocka_unit_test(ranks_parts_and_resuming_change_no_bit),
        cmocka_unit_test(texts_are_learnt_from_a_teacher),
        cmocka_unit_test(a_run_with_another_teacher_is_another_run),
        cmocka_unit_test(teachers_must_suit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
