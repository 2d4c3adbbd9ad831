/* Averaged weights (option average): their formula, the model that is evaluated and saved, and the bits of runs that
 * are cut, have several ranks, or train an adapter. */
/* labels: numeric */
#include "rank_fixture.h"
#include "weights.h"

#include "io/adapter_files.h"
#include "io/safetensors.h"

enum { STEPS = 7 };

static struct qkv_train_options average_options(struct qkv_context *ctx, double average) {
    struct qkv_train_options options = fixture_options(ctx);
    options.average = average;
    options.rate = 1e-2;
    options.steps = STEPS;
    options.eval_every = 3;
    options.eval_batches = 0;
    options.batch = 8, options.groups = 4;
    return options;
}

static struct qkv_trainer *average_run(struct qkv_context *ctx, const char *folder,
                                       const struct qkv_train_options *options, int64_t steps) {
    struct qkv_trainer *t = fixture_begin(ctx, folder, options);
    fixture_steps(ctx, t, steps);
    return t;
}

/* The numbers of a tensor of a run's file, a heap array. */
static float *numbers_of(struct qkv_context *ctx, const char *folder, const char *file, const char *name,
                         size_t *count) {
    struct qkv_tensors *tensors;
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &tensors));
    const struct qkv_array *array = qkv_tensors_find(tensors, name);
    if (!array) fail_msg("%s has no %s", path, name);
    *count = qkv_array_elements(array);
    float *numbers = malloc(*count * sizeof *numbers);
    assert_ok(ctx, qkv_tensors_floats(tensors, array, numbers));
    qkv_tensors_close(tensors);
    return numbers;
}

/* Each step's average, in double, from the weights after it. */
static void averages_follow_the_formula(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options = average_options(ctx, 0.3);
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("formula"), &options);
    struct qkv_model *model = qkv_trainer_model(t);
    const size_t P = qkv_model_parameters(model);
    double **sums = calloc(P, sizeof *sums);
    for (int step = 1; step <= STEPS; step++) {
        const double early = (step - 1.0) / (step + 9.0), d = early < 0.3 ? early : 0.3;
        fixture_steps(ctx, t, step);
        for (size_t i = 0; i < P; i++) {
            const size_t n = qkv_array_elements(qkv_model_parameter(model, i));
            if (!sums[i]) sums[i] = calloc(n, sizeof **sums);
            for (size_t k = 0; k < n; k++)
                sums[i][k] = d * sums[i][k] + (1 - d) * (double)model->weights.list[i].data[k];
        }
    }
    assert_ok(ctx, qkv_trainer_save(t));
    for (size_t i = 0; i < P; i++) {
        char name[256];
        size_t n;
        snprintf(name, sizeof name, "optimizer.average.%s", qkv_model_parameter(model, i)->name);
        float *average = numbers_of(ctx, test_path("formula"), "checkpoint.safetensors", name, &n);
        for (size_t k = 0; k < n; k++) assert_close(average[k], sums[i][k], 1e-6);
        free(average);
        free(sums[i]);
    }
    free(sums);
    qkv_trainer_free(t);
    qkv_context_free(ctx);
}

/* Training is that of a run without averages; the folder's model has the averages, and they are evaluated. */
static void the_model_of_a_run_is_the_average(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    char plain[1024], folder[1024];
    snprintf(plain, sizeof plain, "%s", fixture_run("plain"));
    snprintf(folder, sizeof folder, "%s", fixture_run("averaged"));
    struct qkv_train_options options = average_options(ctx, 0);
    options.eval_every = 0; /* at the end alone, when both models are the best so far */
    char valid[1024];
    snprintf(valid, sizeof valid, "%s", test_path("valid.txt"));
    fixture_text(valid, 1000, 5);
    options.valid = valid;
    qkv_trainer_free(average_run(ctx, plain, &options, STEPS));
    options.average = 0.9;
    struct qkv_trainer *t = average_run(ctx, folder, &options, STEPS);
    const size_t P = qkv_model_parameters(qkv_trainer_model(t));
    struct qkv_train_report report = t->report;
    size_t different = 0;
    for (size_t i = 0; i < P; i++) {
        const char *name = qkv_model_parameter(qkv_trainer_model(t), i)->name;
        char averaged[256];
        size_t n;
        snprintf(averaged, sizeof averaged, "optimizer.average.%s", name);
        float *latest = numbers_of(ctx, folder, "checkpoint.safetensors", name, &n);
        float *as_plain = numbers_of(ctx, plain, "checkpoint.safetensors", name, &n);
        float *average = numbers_of(ctx, folder, "checkpoint.safetensors", averaged, &n);
        float *saved = numbers_of(ctx, folder, "model.safetensors", name, &n);
        assert_memory_equal(latest, as_plain, n * sizeof *latest);
        assert_memory_equal(average, saved, n * sizeof *average);
        different += memcmp(average, latest, n * sizeof *average) != 0;
        free(latest), free(as_plain), free(average), free(saved);
    }
    assert_int_equal(different, P);
    qkv_trainer_free(t);
    /* the model of the folder has the loss that was logged, the latest weights another one */
    double losses[2];
    for (int i = 0; i < 2; i++) {
        enum qkv_precision precision;
        struct qkv_model *model;
        struct qkv_evaluation evaluation;
        const char *texts[] = {options.valid};
        assert_ok(ctx, qkv_model_precision(ctx, folder, &precision));
        qkv_context_set_precision(ctx, precision);
        assert_ok(ctx, qkv_model_load(ctx, i ? plain : folder, &model));
        assert_ok(ctx, qkv_evaluate_text(model, texts, 1, NULL, NULL, NULL, &evaluation));
        losses[i] = evaluation.loss;
        qkv_model_free(model);
    }
    assert_close(losses[0], report.valid_loss, 1e-4);
    assert_true(fabs(losses[0] - losses[1]) > 1e-3);
    qkv_context_free(ctx);
}

/* A program exchanges weights and averages itself, twice. */
static void exchanging_twice_changes_nothing(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(2);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"vocab=20", NULL});
    struct qkv_optimizer_options options = qkv_optimizer_defaults();
    struct qkv_random random = test_random(31);
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_optimizer *optimizer;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4, .train = true), &pass));
    options.average = 1;
    assert_status(ctx, qkv_optimizer_create(model, &options, &optimizer), QKV_ARGUMENT);
    assert_message(ctx, "average is 1");
    options.average = 0;
    assert_ok(ctx, qkv_optimizer_create(model, &options, &optimizer));
    assert_status(ctx, qkv_optimizer_exchange(optimizer), QKV_ARGUMENT);
    assert_message(ctx, "has no averages");
    qkv_optimizer_free(optimizer);
    options.average = 0.9;
    assert_ok(ctx, qkv_optimizer_create(model, &options, &optimizer));
    float *weights = model->weights.list[0].data, first[8], latest[8];
    memcpy(first, weights, sizeof first);
    assert_ok(ctx, qkv_optimizer_exchange(optimizer)); /* before a step both are the same */
    assert_memory_equal(first, weights, sizeof first);
    assert_ok(ctx, qkv_optimizer_exchange(optimizer));
    for (int t = 0; t < 4; t++) {
        for (size_t i = 0; i < model->weights.count; i++)
            test_fill(&random, test_gradient(model, i), qkv_array_elements(qkv_model_parameter(model, i)), 0.1);
        assert_ok(ctx, qkv_optimizer_step(optimizer, 0.01, 1));
    }
    memcpy(latest, weights, sizeof latest);
    assert_ok(ctx, qkv_optimizer_exchange(optimizer));
    assert_memory_not_equal(latest, weights, sizeof latest);
    assert_ok(ctx, qkv_optimizer_exchange(optimizer));
    assert_memory_equal(latest, weights, sizeof latest);
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static void assert_as_one_average(struct qkv_context *ctx, const struct run *run) {
    char *one = log_numbers(test_path("one")), *own = log_numbers(run->folder);
    assert_same_logs(one, own);
    free(one);
    free(own);
    assert_same_tensors(ctx, test_path("one"), run->folder, "checkpoint.safetensors");
    assert_same_tensors(ctx, test_path("one"), run->folder,
                        run->options.lora ? QKV_ADAPTER_WEIGHTS_FILE : "model.safetensors");
}

/* On any number of ranks, and of ranks that take over from others; an adapter too. */
static void ranks_and_cuts_change_no_bit(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    char base[1024];
    snprintf(base, sizeof base, "%s", fixture_run("base"));
    struct qkv_train_options made = average_options(ctx, 0);
    qkv_trainer_free(average_run(ctx, base, &made, 3));
    for (int form = 0; form < 4; form++) {
        struct run run = {.spec = &spec, .options = average_options(ctx, 0.9), .until = STEPS};
        run.options.precision = form % 2 ? "bf16" : "fp32";
        run.options.save_every = 2;
        if (form == 1) run.options.optimizer = "muon";
        if (form >= 2) {
            run.spec = NULL;
            qkv_train_unset(&run.options, "dropout");
            assert_ok(ctx, qkv_train_set(ctx, &run.options, "from", base));
            assert_ok(ctx, qkv_train_set(ctx, &run.options, "lora", "rank=4"));
        }
        make_run_of_one(&run, "several");
        for (int ranks = 1; ranks <= 4; ranks++) {
            run.folder = fixture_run("several");
            run.again = false, run.until = 3;
            expect_run(&run, 5 - ranks);
            run.again = true, run.until = STEPS;
            expect_run(&run, ranks);
            print_message("form %d, %d ranks\n", form, ranks);
            assert_as_one_average(ctx, &run);
        }
    }
    qkv_context_free(ctx);
}

/* An average is one more moment, in what is planned and in what is taken. */
static void plans_count_averages(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    size_t planned[2], taken[2];
    for (int i = 0; i < 2; i++) {
        struct qkv_train_options options = average_options(ctx, i ? 0.9 : 0);
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("planned"), &options);
        struct qkv_model *plan;
        struct qkv_rank_plan ranks;
        assert_ok(ctx, qkv_model_plan(ctx, qkv_model_spec(qkv_trainer_model(t)), &plan));
        assert_ok(ctx, qkv_rank_plan(plan, &options, (size_t)options.batch, 16, 1, 0, &ranks));
        planned[i] = ranks.optimizer_bytes;
        taken[i] = qkv_optimizer_bytes(t->optimizer);
        assert_int_equal(taken[i], planned[i]);
        qkv_model_free(plan);
        qkv_trainer_free(t);
    }
    assert_int_equal(2 * planned[1], 3 * planned[0]);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_follow_the_formula),
        cmocka_unit_test(the_model_of_a_run_is_the_average),
        cmocka_unit_test(exchanging_twice_changes_nothing),
        cmocka_unit_test(ranks_and_cuts_change_no_bit),
        cmocka_unit_test(plans_count_averages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
