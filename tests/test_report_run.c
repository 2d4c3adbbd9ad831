/* Runs read from folders that nobody vouches for. */
#include "report_fixture.h"

/* ---- runs ---------------------------------------------------------------------------------------------------------------------- */

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_read_as_far_as_it_goes),
        cmocka_unit_test(long_runs_are_thinned),
        cmocka_unit_test(patience_ends_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
