/* Whole runs: learning, the log, accumulation; resuming, threads and stopping change no bit. */
/* labels: numeric */
#include "train_fixture.h"
#include "train_same.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"
#include "weights.h"

static const char *const *run_settings; /* of the spec; NULL: none */

static struct qkv_trainer *begin(struct qkv_context *in, const char *folder, const struct qkv_train_options *options) {
    OWNED_SPEC struct qkv_spec spec = fixture_spec(in, run_settings);
    struct qkv_trainer *trainer;
    assert_ok(in, qkv_trainer_create(in, &spec, options, folder, NULL, NULL, &trainer));
    return trainer;
}

static struct qkv_trainer *resume(const char *folder, int64_t steps) {
    struct qkv_trainer *trainer;
    assert_ok(ctx,
              qkv_trainer_resume(ctx, folder, &QKV_OPTIONS(qkv_resume_options, .steps = steps), NULL, NULL, &trainer));
    return trainer;
}

/* ---- learning --------------------------------------------------------------------------------------------------- */

static void the_loss_falls(void **state) {
    (void)state;
    const char *folder = fixture_run("falls");
    struct qkv_train_options o = fixture_options(ctx);
    o.steps = 250;
    o.batch = 8;
    o.rate = 1e-2;
    o.dropout = 0;
    o.eval_every = 50;
    o.save_every = 0;
    const double began = qkv_clock();
    struct qkv_trainer *trainer = begin(ctx, folder, &o);
    size_t valid;
    assert_int_equal(qkv_trainer_tokens(trainer, &valid), 2700);
    assert_int_equal(valid, 300);
    assert_true(qkv_trainer_bytes(trainer) > 4 * 4 * 30000);
    struct qkv_train_report first = fixture_steps(ctx, trainer, 1), last = first;
    double in_steps = 0;
    while (last.step < 250) {
        assert_ok(ctx, qkv_trainer_step(trainer, &last));
        in_steps += 8 * 16 / last.tokens_per_second;
    }
    assert_true(first.loss > 2.5 && first.loss < 6); /* about ln 25 */
    assert_true(isnan(first.valid_loss) && !first.evaluated && !first.saved && first.steps == 250);
    assert_true(last.loss < 0.6 && last.valid_loss < 0.6);
    assert_true(last.evaluated && last.saved && last.best_loss <= last.valid_loss);
    assert_true(in_steps > 0 && in_steps <= last.seconds - first.seconds && last.seconds <= qkv_clock() - began);
    struct qkv_costs costs;
    assert_ok(ctx, qkv_measure_costs(ctx, qkv_model_spec(qkv_trainer_model(trainer)), 8, 16, &costs));
    const double share = costs.train_flops * last.tokens_per_second / qkv_trainer_profile(trainer).peak;
    assert_close(last.flops_share / share, 1, 1e-9);
    struct qkv_train_report after;
    assert_ok(ctx, qkv_trainer_step(trainer, &after));
    assert_true(after.step == 250 && !after.evaluated && !after.saved && after.loss == last.loss);
    qkv_trainer_free(trainer);
    struct qkv_model *model; /* the folder is a model folder */
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_non_null(qkv_model_tokenizer(model));
    qkv_model_free(model);
    free(log_numbers(folder));
}

static void thirty_bytes_are_learnt_by_heart(void **state) {
    (void)state;
    static const char text[] = "the quick brown fox jumps over";
    const char *path = test_path("thirty.txt");
    struct qkv_train_options o = fixture_options(ctx);
    test_write_file(path, text, sizeof text - 1);
    o.data = path;
    fixture_no_validation(&o);
    o.steps = 200;
    o.batch = 8;
    o.rate = 1e-2;
    o.dropout = 0;
    struct qkv_trainer *trainer = begin(ctx, fixture_run("thirty"), &o);
    struct qkv_train_report last = fixture_steps(ctx, trainer, 200);
    assert_true(last.loss < 0.05);
    assert_true(isnan(last.valid_loss) && !last.evaluated);
    qkv_trainer_free(trainer);
}

#define OPTIMIZER_NAME(name, text, help) text,
static const char *const optimizers[] = {QKV_OPTIMIZER_LIST(OPTIMIZER_NAME)};
enum { OPTIMIZERS = TEST_COUNT(optimizers) };

static void every_optimizer_and_tokenizer_learns(void **state) {
    (void)state;
    static const char *const tokenizers[] = {"bytes", "words", "bpe:300"};
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        const char *folder = fixture_run("kinds");
        struct qkv_train_options o = fixture_options(ctx);
        o.optimizer = optimizers[i];
        o.tokenizer = tokenizers[i % TEST_COUNT(tokenizers)];
        o.steps = 40;
        o.weight_decay = 0.01;
        /* changes of adafactor are shares of the weights */
        o.rate = i == QKV_OPTIMIZER_SGD ? 0.3 : i == QKV_OPTIMIZER_ADAFACTOR ? 5e-2 : 5e-3;
        struct qkv_trainer *trainer = begin(ctx, folder, &o);
        double first = fixture_steps(ctx, trainer, 1).loss, last = fixture_steps(ctx, trainer, 40).loss;
        assert_true(last < 0.7 * first);
        qkv_trainer_free(trainer);
    }
}

/* ---- accumulation ----------------------------------------------------------------------------------------------- */

static float *gradients_after_one_step(int64_t accumulate, size_t *count) {
    struct qkv_train_options o = fixture_options(ctx);
    o.batch = 7;
    o.accumulate = accumulate;
    o.dropout = 0;
    struct qkv_trainer *trainer = begin(ctx, fixture_run("accumulate"), &o);
    struct qkv_train_report report = fixture_steps(ctx, trainer, 1);
    struct qkv_model *model = qkv_trainer_model(trainer);
    float *all = NULL;
    *count = 0;
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        size_t n = qkv_array_elements(qkv_model_parameter(model, i));
        all = realloc(all, (*count + n + 2) * sizeof *all);
        memcpy(all + *count, test_gradient(model, i), n * sizeof *all);
        *count += n;
    }
    all[(*count)++] = (float)report.loss;
    all[(*count)++] = (float)report.norm;
    qkv_trainer_free(trainer);
    return all;
}

static void accumulation_gives_the_same_gradient(void **state) {
    (void)state;
    size_t n, m;
    float *whole = gradients_after_one_step(1, &n);
    for (int64_t parts = 2; parts <= 7; parts++) {
        float *sum = gradients_after_one_step(parts, &m);
        assert_int_equal(n, m);
        assert_floats_close(sum, whole, n, 1e-6);
        free(sum);
    }
    free(whole);
}

/* Plain gradient descent moves by rate times the gradient, whose norm is the clip's where it was greater. */
static double distance_of_one_step(double clip, double *norm) {
    struct qkv_train_options o = fixture_options(ctx);
    o.optimizer = "sgd";
    o.momentum = o.weight_decay = 0;
    o.warmup = 0;
    o.rate = 0.5;
    o.clip = clip;
    struct qkv_trainer *trainer = begin(ctx, fixture_run("clip"), &o);
    struct qkv_model *model = qkv_trainer_model(trainer), *before;
    *norm = fixture_steps(ctx, trainer, 1).norm;
    assert_ok(ctx, qkv_model_create(ctx, qkv_model_spec(model), (uint64_t)o.seed, &before));
    double squares = 0;
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        for (size_t j = 0; j < qkv_array_elements(qkv_model_parameter(model, i)); j++) {
            double d = (double)test_weights(model, i)[j] - (double)test_weights(before, i)[j];
            squares += d * d;
        }
    qkv_model_free(before);
    qkv_trainer_free(trainer);
    return sqrt(squares);
}

static void clipping_limits_the_norm(void **state) {
    (void)state;
    double norm;
    double moved = distance_of_one_step(0, &norm);
    assert_true(norm > 0.2);
    assert_close(moved, 0.5 * norm, 1e-4 * norm);
    assert_close(distance_of_one_step(2 * norm, &norm), 0.5 * norm, 1e-4 * norm);
    assert_close(distance_of_one_step(0.1, &norm), 0.05, 1e-5);
    assert_true(norm > 0.2); /* reported as it was */
}

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

static void threads_change_no_bit(void **state) {
    (void)state;
    const char *folders[] = {fixture_run("threads1"), fixture_run("threads2"), fixture_run("threads3")};
    for (int threads = 1; threads <= 3; threads++) {
        struct qkv_context *own = fixture_context(threads);
        struct qkv_train_options o = fixture_options(own);
        o.accumulate = 2;
        struct qkv_trainer *trainer = begin(own, folders[threads - 1], &o);
        fixture_steps(own, trainer, 6);
        qkv_trainer_free(trainer);
        qkv_context_free(own);
    }
    assert_same_runs(ctx, folders[0], folders[1]);
    assert_same_runs(ctx, folders[0], folders[2]);
}

static void seeds_make_different_runs(void **state) {
    (void)state;
    double loss[3];
    for (int i = 0; i < 3; i++) {
        struct qkv_train_options o = fixture_options(ctx);
        o.seed = i % 2;
        struct qkv_trainer *trainer = begin(ctx, fixture_run("seeds"), &o);
        loss[i] = fixture_steps(ctx, trainer, 3).loss;
        qkv_trainer_free(trainer);
    }
    assert_true(loss[0] == loss[2] && loss[0] != loss[1]);
}

static void check_resume(const struct qkv_train_options *options, int64_t save_at) {
    const char *whole = fixture_run("whole"), *parts = fixture_run("parts");
    struct qkv_trainer *trainer = begin(ctx, whole, options);
    fixture_steps(ctx, trainer, options->steps);
    qkv_trainer_free(trainer);
    trainer = begin(ctx, parts, options);
    fixture_steps(ctx, trainer, save_at);
    assert_ok(ctx, qkv_trainer_save(trainer));
    if (save_at + 1 < options->steps) fixture_steps(ctx, trainer, save_at + 1); /* lost, and its line cut away */
    qkv_trainer_free(trainer);
    trainer = resume(parts, 0);
    fixture_steps(ctx, trainer, options->steps);
    qkv_trainer_free(trainer);
    assert_same_runs(ctx, whole, parts);
}

static void resuming_changes_no_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        struct qkv_train_options o = fixture_options(ctx);
        o.optimizer = optimizers[i];
        o.save_every = 100;
        o.accumulate = (int64_t)i % 3 + 1;
        check_resume(&o, 3);
        check_resume(&o, 4);
    }
}

static void resuming_changes_no_bit_with_kinds_of_layers(void **state) {
    (void)state;
    static const char *const kinds[] = {
        "decoder.kinds.local.attention.window=4",    "decoder.kinds.local.attention.position.kind=rope",
        "decoder.kinds.global.attention.kv_heads=1", "decoder.kinds.global.ffn.kind=swiglu",
        "decoder.pattern=[\"local\", \"global\"]",   NULL};
    struct qkv_train_options o = fixture_options(ctx);
    o.save_every = 100;
    run_settings = kinds;
    check_resume(&o, 3);
    run_settings = NULL;
}

/* Corrections of routers learn by no gradient: they are weights of the checkpoint all the same. */
static void resuming_changes_no_bit_with_experts(void **state) {
    (void)state;
    static const char *const experts[] = {
        "decoder.ffn.experts={\"count\": 6, \"top_k\": 2, \"scores\": \"sigmoid\", \"correction\": true, "
        "\"correction_rate\": 0.05}",
        NULL};
    struct qkv_train_options o = fixture_options(ctx);
    o.save_every = 100;
    run_settings = experts;
    check_resume(&o, 3);
    check_resume(&o, 4);
    run_settings = NULL;
}

static const struct qkv_array *run_parameter(const struct qkv_model *model, const char *name, const float **numbers) {
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *array = qkv_model_parameter(model, i);
        if (strcmp(array->name, name) != 0) continue;
        *numbers = test_weights(model, i);
        return array;
    }
    fail_msg("there is no %s", name);
    return NULL;
}

/* A step moves each correction by the rate or not at all, and the log has what moved them. */
static void loads_of_experts_move_corrections_and_are_logged(void **state) {
    (void)state;
    enum { EXPERTS = 5, STEPS = 4 };
    static const char *const experts[] = {
        "decoder.ffn.experts={\"count\": 5, \"top_k\": 1, \"correction\": true, \"correction_rate\": 0.25}", NULL};
    const char *const name = "decoder.layers.1.ffn.correction.weight";
    struct qkv_train_options o = fixture_options(ctx);
    const char *folder = fixture_run("loads");
    float before[EXPERTS] = {0};
    size_t size;
    o.steps = STEPS;
    run_settings = experts;
    struct qkv_trainer *trainer = begin(ctx, folder, &o);
    run_settings = NULL;
    for (int64_t step = 1; step <= STEPS; step++) {
        const struct qkv_train_report report = fixture_steps(ctx, trainer, step);
        const float *now = NULL;
        bool up = false, down = false;
        assert_int_equal(qkv_array_elements(run_parameter(qkv_trainer_model(trainer), name, &now)), EXPERTS);
        for (size_t e = 0; e < EXPERTS; e++) {
            const float moved = now[e] - before[e];
            assert_true(fabsf(moved) < 1e-5F || fabsf(fabsf(moved) - 0.25F) < 1e-5F);
            up = up || moved > 0, down = down || moved < 0;
            before[e] = now[e];
        }
        assert_true(up == down); /* somebody has more than the mean if and only if somebody has less */
        assert_true(report.expert_load >= 1 && report.expert_load <= EXPERTS);
        double most = 0;
        assert_int_equal(report.expert_load_count, 2); /* layers */
        for (size_t i = 0; i < 2; i++) most = fmax(most, report.expert_loads[i]);
        assert_true(most == report.expert_load);
        assert_true(report.experts_unused >= 0 && report.experts_unused <= 2 * (EXPERTS - 1));
        assert_true(report.experts_unused < 2 * (EXPERTS - 1) || report.expert_load == EXPERTS);
    }
    qkv_trainer_free(trainer);
    char *log = fixture_read(folder, "log.jsonl", &size);
    size_t loads = 0, unused = 0, lists = 0;
    for (const char *at = log; (at = strstr(at, "\"expert_loads\":[")); at++) lists++;
    assert_true(lists == STEPS);
    for (const char *at = log; (at = strstr(at, "\"expert_load\":")); at++) loads++;
    for (const char *at = log; (at = strstr(at, "\"experts_unused\":")); at++) unused++;
    assert_true(loads == STEPS && unused == STEPS);
    free(log);
}

static void resuming_changes_no_bit_with_a_validation_file(void **state) {
    (void)state;
    struct qkv_train_options o = fixture_options(ctx);
    const char *path = test_path("valid.txt");
    fixture_text(path, 700, 2);
    o.valid = path;
    o.tokenizer = "bpe:290";
    o.save_every = 100;
    o.eval_batches = 0;
    check_resume(&o, 3);
    o.valid = NULL;
    fixture_no_validation(&o);
    check_resume(&o, 3);
}

static void a_finished_run_can_be_prolonged(void **state) {
    (void)state;
    const char *folder = fixture_run("longer");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer = begin(ctx, folder, &o), *again;
    struct qkv_train_report report;
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    trainer = resume(folder, 0);
    assert_ok(ctx, qkv_trainer_step(trainer, &report));
    assert_true(report.step == 6 && report.steps == 6);
    qkv_trainer_free(trainer);
    trainer = resume(folder, 9);
    assert_ok(ctx, qkv_trainer_step(trainer, &report));
    assert_true(report.step == 7 && report.steps == 9);
    qkv_trainer_free(trainer);
    trainer = resume(folder, 0); /* the new end is kept */
    assert_int_equal(qkv_trainer_options(trainer)->steps, 9);
    fixture_steps(ctx, trainer, 9);
    qkv_trainer_free(trainer);
    free(log_numbers(folder));
    assert_status(ctx,
                  qkv_trainer_resume(ctx, folder, &QKV_OPTIONS(qkv_resume_options, .steps = 8), NULL, NULL, &again),
                  QKV_ARGUMENT);
    assert_message(ctx, "steps is 8 but the run has done 9 already");
    assert_null(again);
}

/* ---- stopping --------------------------------------------------------------------------------------------------- */

struct stopper {
    const char *what;
    int calls_left;
};

static bool stop(void *user, const char *what, double done, double total) {
    struct stopper *s = user;
    assert_true(done <= total || total == 0);
    return strcmp(what, s->what) != 0 || s->calls_left-- > 0;
}

static void stopping_at_the_start_leaves_nothing(void **state) {
    (void)state;
    static const char *const work[] = {"training the tokenizer", "tokenizing"};
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_train_options o = fixture_options(ctx);
    for (size_t i = 0; i < 2; i++) {
        const char *folder = fixture_run("stopped");
        struct stopper s = {work[i], 0};
        struct qkv_trainer *trainer;
        assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, stop, &s, &trainer), QKV_STOPPED);
        assert_message(ctx, work[i]);
        assert_null(trainer);
        assert_false(qkv_file_exists(folder));
    }
}

/* Stopped in an evaluation, saved, resumed: the evaluation is made up for, and no bit differs. */
static void check_stopping(const char *whole, const char *parts) {
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, run_settings);
    struct qkv_train_options o = fixture_options(ctx);
    struct stopper s = {"validating", 1};
    struct qkv_trainer *trainer = begin(ctx, whole, &o);
    struct qkv_train_report report;
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, parts, stop, &s, &trainer));
    assert_ok(ctx, qkv_trainer_step(trainer, &report));
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_STOPPED);
    assert_int_equal(report.step, 2);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    trainer = resume(parts, 0);
    assert_ok(ctx, qkv_trainer_step(trainer, &report));
    assert_true(report.step == 2 && report.evaluated);
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    assert_same_runs(ctx, whole, parts);
}

/* The line of the step that was being evaluated is written when the run goes on, with the loads of its experts too. */
static void stopping_in_an_evaluation_changes_no_bit(void **state) {
    (void)state;
    static const char *const experts[] = {"decoder.kinds={\"dense\": {\"ffn\": {\"experts\": null}}, \"sparse\": {}}",
                                          "decoder.pattern=[\"dense\", \"sparse\"]",
                                          "decoder.ffn.experts={\"count\": 5, \"top_k\": 2}", NULL};
    check_stopping(fixture_run("undisturbed"), fixture_run("disturbed"));
    run_settings = experts;
    check_stopping(fixture_run("undisturbed experts"), fixture_run("disturbed experts"));
    run_settings = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_falls),
        cmocka_unit_test(thirty_bytes_are_learnt_by_heart),
        cmocka_unit_test(every_optimizer_and_tokenizer_learns),
        cmocka_unit_test(accumulation_gives_the_same_gradient),
        cmocka_unit_test(clipping_limits_the_norm),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(seeds_make_different_runs),
        cmocka_unit_test(resuming_changes_no_bit),
        cmocka_unit_test(resuming_changes_no_bit_with_kinds_of_layers),
        cmocka_unit_test(resuming_changes_no_bit_with_experts),
        cmocka_unit_test(loads_of_experts_move_corrections_and_are_logged),
        cmocka_unit_test(resuming_changes_no_bit_with_a_validation_file),
        cmocka_unit_test(a_finished_run_can_be_prolonged),
        cmocka_unit_test(stopping_at_the_start_leaves_nothing),
        cmocka_unit_test(stopping_in_an_evaluation_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
