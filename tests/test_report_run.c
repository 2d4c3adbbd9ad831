/* Runs read from untrusted folders. */
/* labels: quick */
#include "report_fixture.h"

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static const char *make_run(const char *name, const char *log, const char *train) {
    const char *folder = test_path(name);
    char path[1024];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    test_write_file(path, log, strlen(log));
    snprintf(path, sizeof path, "%s/train.json", folder);
    if (train) test_write_file(path, train, strlen(train));
    return folder;
}

static void a_log_is_read_as_far_as_it_goes(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_run *run;
    (void)state;
    const char *folder = make_run("hostile",
                                  "{\"step\":1,\"loss\":5.5,\"norm\":1,\"rate\":0.1,\"tokens\":7,\"seconds\":0.5}\n"
                                  "{\"step\":2,\"loss\":\"x\",\"norm\":[],\"valid_loss\":4.5,\"accuracy\":0.25}\n"
                                  "not json\n"
                                  "\n"
                                  "[1]\n"
                                  "{\"loss\":3}\n"
                                  "{\"step\":-4,\"loss\":3}\n"
                                  "{\"step\":1.5,\"loss\":3}\n"
                                  "{\"step\":2,\"loss\":3}\n"
                                  "{\"step\":9,\"loss\":3}\n"
                                  "{\"step\":10,\"lo",
                                  "{\"options\":{\"steps\":9,\"metric\":\"accuracy\",\"patience\":0}}");
    assert_ok(ctx, qkv_run_read(ctx, folder, &run));
    assert_int_equal(qkv_run_steps(run), 3);
    assert_int_equal(qkv_run_damaged(run), 7);
    assert_int_equal(qkv_run_planned(run), 9);
    assert_string_equal(qkv_run_name(run), "hostile");
    assert_string_equal(qkv_run_metric(run), "accuracy");
    assert_true(qkv_run_ended(run));
    assert_true(qkv_run_step(run, 0)->loss == 5.5);
    assert_true(isnan(qkv_run_step(run, 1)->loss) && isnan(qkv_run_step(run, 1)->norm));
    assert_true(qkv_run_step(run, 1)->metric == 0.25);
    assert_null(qkv_run_step(run, 3));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 0, test_path("run.html")));
    json_t *root = page_data(test_path("run.html"));
    json_t *curves = json_object_get(json_array_get(json_object_get(root, "runs"), 0), "curves");
    assert_int_equal(json_array_size(json_object_get(curves, "loss")), 3);
    assert_true(json_is_null(json_array_get(json_object_get(curves, "loss"), 1)));
    json_decref(root);
    struct qkv_run *twins[] = {run, run}; /* of one name: they go by their folders */
    assert_ok(ctx, qkv_runs_write_page(ctx, twins, 2, 0, test_path("run.html")));
    root = page_data(test_path("run.html"));
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(root, "runs"), 1), "name")),
                        folder);
    json_decref(root);
    qkv_run_free(run);
    folder = make_run("foolish", "", "[]");
    assert_ok(ctx, qkv_run_read(ctx, folder, &run));
    assert_int_equal(qkv_run_steps(run), 0);
    assert_false(qkv_run_ended(run));
    assert_null(qkv_run_machine(run));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 3, test_path("run.html")));
    qkv_run_free(run);
    char fifo[1024];
    snprintf(fifo, sizeof fifo, "%s/samples.jsonl", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0); /* nobody writes to it */
    assert_fails(ctx, qkv_run_read(ctx, folder, &run), QKV_FILE, "samples.jsonl is no file");
    assert_fails(ctx, qkv_run_read(ctx, test_path("nowhere"), &run), QKV_FILE, "holds no training run");
    assert_fails(ctx, qkv_runs_write_page(ctx, NULL, 0, 0, test_path("run.html")), QKV_ARGUMENT, "no run");
    qkv_context_free(ctx);
}

/* A long run is shown by fewer points, which keep its mean, its extremes and its last step. */
static void long_runs_are_thinned(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_buffer log = {0};
    struct qkv_run *run;
    (void)state;
    for (int i = 1; i <= 20000; i++)
        assert_ok(ctx, qkv_buffer_print(ctx, &log, "{\"step\":%d,\"loss\":%d,\"seconds\":%d}\n", i,
                                        i == 777 ? 100 : i % 2, i));
    const char *folder = make_run("long", log.data, "{\"options\":{\"steps\":30000}}");
    assert_ok(ctx, qkv_run_read(ctx, folder, &run));
    assert_int_equal(qkv_run_steps(run), 20000);
    assert_false(qkv_run_ended(run));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 0, test_path("long.html")));
    json_t *root = page_data(test_path("long.html"));
    json_t *curves = json_object_get(json_array_get(json_object_get(root, "runs"), 0), "curves");
    json_t *steps = json_object_get(curves, "step"), *high = json_object_get(curves, "high");
    size_t points = json_array_size(steps);
    assert_true(points > 1000 && points < 2000);
    assert_int_equal(json_integer_value(json_array_get(steps, points - 1)), 20000);
    double most = 0, mean = 0;
    for (size_t p = 0; p < points; p++) {
        most = fmax(most, json_number_value(json_array_get(high, p)));
        mean += json_number_value(json_array_get(json_object_get(curves, "loss"), p)) / (double)points;
    }
    assert_true(most == 100);
    assert_true(fabs(mean - 0.505) < 0.01);
    json_decref(root);
    qkv_run_free(run);
    qkv_buffer_free(&log);
    qkv_context_free(ctx);
}

/* Loads of experts: a list a step, until a step that has none or another number of layers. */
static void loads_of_experts_are_read_as_far_as_they_go(void **state) {
    static const char log[] =
        "{\"step\":1,\"loss\":3}\n"
        "{\"step\":2,\"loss\":3,\"expert_load\":1.5,\"experts_unused\":2,\"expert_loads\":[null,1.5,1.25]}\n"
        "{\"step\":3,\"loss\":3,\"expert_load\":2,\"experts_unused\":0,\"expert_loads\":[[],2,\"x\"]}\n"
        "{\"step\":4,\"loss\":3,\"expert_load\":4,\"expert_loads\":[1,1]}\n"
        "{\"step\":5,\"loss\":3,\"expert_loads\":[1,1,1]}\n";
    struct qkv_context *ctx = make_context();
    struct qkv_run *run;
    (void)state;
    assert_ok(ctx, qkv_run_read(ctx, make_run("loads", log, NULL), &run));
    assert_int_equal(qkv_run_steps(run), 5);
    assert_int_equal(qkv_run_load_layers(run), 3);
    for (size_t i = 0; i < 6; i++)
        for (size_t layer = 0; layer < 4; layer++) {
            const double load = qkv_run_load(run, i, layer);
            const double expected = i == 1 && layer == 1 ? 1.5 : i == 1 && layer == 2 ? 1.25 : 2;
            const bool has = layer == 1 ? i == 1 || i == 2 : layer == 2 && i == 1;
            assert_true(has ? load == expected : isnan(load));
        }
    assert_true(isnan(qkv_run_step(run, 0)->expert_load) && qkv_run_step(run, 3)->expert_load == 4);
    assert_true(qkv_run_step(run, 1)->experts_unused == 2 && isnan(qkv_run_step(run, 3)->experts_unused));
    assert_ok(ctx, qkv_runs_write_page(ctx, &run, 1, 0, test_path("loads.html")));
    json_t *root = page_data(test_path("loads.html"));
    json_t *curves = json_object_get(json_array_get(json_object_get(root, "runs"), 0), "curves");
    json_t *layers = json_object_get(curves, "layers"), *first = json_array_get(layers, 0);
    assert_int_equal(json_array_size(layers), 2); /* those that have a number */
    assert_string_equal(json_string_value(json_object_get(first, "name")), "decoder 1");
    assert_true(json_number_value(json_array_get(json_object_get(first, "load"), 2)) == 2);
    assert_true(json_is_null(json_array_get(json_object_get(first, "load"), 0)));
    assert_true(json_number_value(json_array_get(json_object_get(curves, "expert_load"), 3)) == 4);
    json_decref(root);
    qkv_run_free(run);
    qkv_context_free(ctx);
}

static void patience_ends_a_run(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_run *run;
    static const char log[] = "{\"step\":1,\"loss\":1,\"valid_loss\":3}\n{\"step\":2,\"loss\":1,\"valid_loss\":2}\n"
                              "{\"step\":3,\"loss\":1,\"valid_loss\":2.5}\n{\"step\":4,\"loss\":1,\"valid_loss\":2}\n";
    (void)state;
    assert_ok(ctx, qkv_run_read(ctx, make_run("patient", log, "{\"options\":{\"steps\":9,\"patience\":3}}"), &run));
    assert_false(qkv_run_ended(run));
    qkv_run_free(run);
    assert_ok(ctx, qkv_run_read(ctx, make_run("patient", log, "{\"options\":{\"steps\":9,\"patience\":2}}"), &run));
    assert_true(qkv_run_ended(run));
    qkv_run_free(run);
    qkv_context_free(ctx);
}

/* ---- the line through the losses -------------------------------------------------------------------------------- */

struct losses {
    size_t count;
    double *tokens, *loss; /* of each step; NaN: none */
};

static struct qkv_run *run_of(struct qkv_context *ctx, const char *name, const struct losses *l, size_t count) {
    struct qkv_buffer log = {0};
    struct qkv_run *run;
    double read = 0;
    for (size_t i = 0; i < count; i++) {
        read += l->tokens[i];
        assert_ok(ctx, qkv_buffer_print(ctx, &log, "{\"step\":%zu,\"tokens\":%.0f", i + 1, read));
        if (!isnan(l->loss[i])) assert_ok(ctx, qkv_buffer_print(ctx, &log, ",\"loss\":%.17g", l->loss[i]));
        assert_ok(ctx, qkv_buffer_print(ctx, &log, "}\n"));
    }
    assert_ok(ctx, qkv_run_read(ctx, make_run(name, log.data, NULL), &run));
    assert_int_equal(qkv_run_steps(run), count);
    qkv_buffer_free(&log);
    return run;
}

/* The definition, each point a sum over all steps before it. */
static double smooth_at(const struct losses *l, size_t k) {
    double sum = 0, weights = 0, later = 1, read = 0;
    for (size_t i = 0; i <= k; i++) read += l->tokens[i];
    for (size_t i = k + 1; i-- > 0; read -= l->tokens[i]) {
        double keep = exp(-l->tokens[i] / fmin(200000, read / 20));
        if (isnan(l->loss[i])) continue;
        sum += (1 - keep) * later * l->loss[i];
        weights += (1 - keep) * later;
        later *= keep;
    }
    return weights > 0 ? sum / weights : NAN;
}

static void the_line_is_a_mean_over_a_number_of_tokens(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_random random = test_random(5);
    (void)state;
    for (int round = 0; round < 5; round++) {
        size_t count = test_between(&random, 1, 600), most = (size_t)1 << test_between(&random, 0, 16);
        double *tokens = calloc(count, sizeof *tokens), *loss = calloc(count, sizeof *loss),
               *out = calloc(count, sizeof *out);
        struct losses l = {count, tokens, loss};
        for (size_t i = 0; i < count; i++) {
            tokens[i] = (double)test_between(&random, 1, most);
            loss[i] = qkv_random_below(&random, 9) ? (double)qkv_random_below(&random, 1000) / 100 : (double)NAN;
        }
        struct qkv_run *run = run_of(ctx, "smooth", &l, count), *shorter = run_of(ctx, "shorter", &l, (count + 1) / 2);
        qkv_run_smooth(run, out);
        for (size_t k = 0; k < count; k++) {
            double wanted = smooth_at(&l, k);
            assert_true(isnan(wanted) ? isnan(out[k]) : fabs(out[k] - wanted) < 1e-9);
        }
        double *begin = calloc(count, sizeof *begin); /* what comes later changes nothing */
        qkv_run_smooth(shorter, begin);
        for (size_t k = 0; k < (count + 1) / 2; k++) assert_true(begin[k] == out[k] || isnan(out[k]));
        qkv_run_free(run);
        qkv_run_free(shorter);
        free(begin);
        free(out);
        free(loss);
        free(tokens);
    }
    qkv_context_free(ctx);
}

/* Two runs that lose alike over tokens, with batches of 768 and 6,144, the second three times as long. */
static void equal_losses_have_one_line_at_any_batch_and_length(void **state) {
    struct qkv_context *ctx = make_context();
    enum { SMALL = 2400, LARGE = 900, RATIO = 8 };
    static double small_tokens[SMALL], small_loss[SMALL], large_tokens[LARGE], large_loss[LARGE], small_line[SMALL],
        large_line[LARGE];
    struct losses small = {SMALL, small_tokens, small_loss}, large = {LARGE, large_tokens, large_loss};
    (void)state;
    for (size_t i = 0; i < SMALL; i++) {
        small_tokens[i] = 768;
        small_loss[i] = 1.5 + 3 / (1 + 768 * (double)(i + 1) / 50000);
    }
    for (size_t i = 0; i < LARGE; i++) {
        large_tokens[i] = 768 * RATIO;
        large_loss[i] = 1.5 + 3 / (1 + 768 * RATIO * (double)(i + 1) / 50000);
    }
    struct qkv_run *first = run_of(ctx, "small", &small, SMALL), *second = run_of(ctx, "large", &large, LARGE);
    qkv_run_smooth(first, small_line);
    qkv_run_smooth(second, large_line);
    for (size_t i = 0; i < LARGE && (i + 1) * RATIO <= SMALL; i++)
        assert_true(fabs(large_line[i] - small_line[(i + 1) * RATIO - 1]) < 0.05);
    for (size_t i = 0; i < SMALL; i++) assert_true(fabs(small_line[i] - small_loss[i]) < 0.05); /* and does not lag */
    qkv_run_free(first);
    qkv_run_free(second);
    qkv_context_free(ctx);
}

/* ---- what is shown ---------------------------------------------------------------------------------------------- */

static void the_best_follows_the_metric(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_run *run;
    static const char log[] =
        "{\"step\":1,\"loss\":1,\"seconds\":2,\"tokens_per_second\":100}\n"
        "{\"step\":2,\"loss\":0.9,\"valid_loss\":0.5,\"accuracy\":0.7}\n"
        "{\"step\":3,\"loss\":0.8,\"valid_loss\":0.6,\"accuracy\":0.9,\"tokens_per_second\":300}\n"
        "{\"step\":4,\"loss\":0.75,\"valid_loss\":0.7,\"accuracy\":0.8,\"seconds\":9}\n";
    (void)state;
    assert_ok(
        ctx, qkv_run_read(ctx, make_run("judged", log, "{\"options\":{\"metric\":\"accuracy\",\"labeled\":\"a.tsv\"}}"),
                          &run));
    struct qkv_run_summary s = qkv_run_summarize(run);
    assert_string_equal(qkv_run_unit(run), "line");
    assert_true(s.step == 4 && s.loss == 0.75 && s.seconds == 9 && s.valid_loss == 0.7 && s.metric == 0.8);
    assert_true(s.best == 0.9 && s.best_step == 3 && s.evaluations == 3 && s.tokens_per_second == 200);
    qkv_run_free(run);
    assert_ok(ctx, qkv_run_read(ctx, make_run("judged", log, "{\"options\":{\"pairs\":\"a.tsv\"}}"), &run));
    s = qkv_run_summarize(run);
    assert_string_equal(qkv_run_unit(run), "target token");
    assert_true(s.best == 0.5 && s.best_step == 2 && isnan(s.metric));
    qkv_run_free(run);
    assert_ok(ctx, qkv_run_read(ctx, make_run("judged", "", "{\"options\":{\"task\":\"mlm\"}}"), &run));
    s = qkv_run_summarize(run);
    assert_string_equal(qkv_run_unit(run), "masked token");
    assert_true(s.step == 0 && isnan(s.loss) && isnan(s.best) && isnan(s.tokens_per_second));
    qkv_run_free(run);
    qkv_context_free(ctx);
}

static void names_are_what_folders_differ_in(void **state) {
    struct qkv_context *ctx = make_context();
    static const struct {
        const char *folders[3], *names[3];
    } cases[] = {
        {{"norms/pre-warmup=0-seed1337/", "norms/post-warmup=0-seed1337"}, {"pre", "post"}},
        {{"x/a/run", "x/b/run/"}, {"a", "b"}},
        {{"run", "run-2"}, {"run", "run-2"}},
        {{"run-1", "run-2"}, {"run-1", "run-2"}},
        {{"lr-1e-3", "lr-1e-4", "lr-2e-3"}, {"lr-1e-3", "lr-1e-4", "lr-2e-3"}},
        {{"c/mha", "c/gqa-2", "c/mqa"}, {"mha", "gqa-2", "mqa"}},
        {{"deep/below/one"}, {"one"}},
        {{"same", "same"}, {"same", "same"}},
        {{"a", "a/b"}, {"a", "a/b"}},
        {{"", "-", "/"}, {"", "-", "/"}},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char **names;
        size_t count = 0;
        while (count < 3 && cases[i].folders[count]) count++;
        assert_ok(ctx, qkv_short_names(ctx, cases[i].folders, count, &names));
        for (size_t k = 0; k < count; k++) assert_string_equal(names[k], cases[i].names[k]);
        qkv_free_names(names, count);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_read_as_far_as_it_goes),
        cmocka_unit_test(long_runs_are_thinned),
        cmocka_unit_test(loads_of_experts_are_read_as_far_as_they_go),
        cmocka_unit_test(patience_ends_a_run),
        cmocka_unit_test(the_line_is_a_mean_over_a_number_of_tokens),
        cmocka_unit_test(equal_losses_have_one_line_at_any_batch_and_length),
        cmocka_unit_test(the_best_follows_the_metric),
        cmocka_unit_test(names_are_what_folders_differ_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
