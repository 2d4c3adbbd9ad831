/* Faults that stop a run lose nothing: numbers that overflow, a full disk, a killed process. */
/* labels: quick */
#include "train_fixture.h"

#include <signal.h>

#include <sys/resource.h>
#include <sys/wait.h>

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"
#include "weights.h"

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static void a_diverging_run_keeps_its_checkpoint(void **state) {
    (void)state;
    const char *folder = fixture_run("diverges");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_train_report report = {0};
    o.rate = 1e30;
    o.min_rate = 0;
    o.clip = 0;
    o.steps = 50;
    o.save_every = o.eval_every = 0;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    size_t size, size_after;
    char *before = fixture_read(folder, "checkpoint.safetensors", &size), *after;
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < 50 && !status; i++) status = qkv_trainer_step(trainer, &report);
    assert_status(ctx, status, QKV_NUMBER);
    assert_message(
        ctx, "start again with a lower rate (now 1e+30) or a longer warmup (now 2); the checkpoint of step 0 in ");
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_NUMBER);
    assert_status(ctx, qkv_trainer_save(trainer), QKV_NUMBER);
    assert_message(ctx, "nothing was saved");
    qkv_trainer_free(trainer);
    after = fixture_read(folder, "checkpoint.safetensors", &size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    assert_false(fixture_has(folder, "model.safetensors"));
    free(before);
    free(after);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
}

static void a_broken_evaluation_saves_nothing(void **state) {
    (void)state;
    const char *folder = fixture_run("evaluation");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_train_report report;
    o.rate = 1e30;
    o.eval_every = o.save_every = 1;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_NUMBER);
    assert_message(ctx, "step 1: the validation loss is not a finite number");
    assert_message(ctx, "the checkpoint of step 0");
    assert_true(report.step == 1 && !report.best && !report.saved && isnan(report.best_loss));
    assert_status(ctx, qkv_trainer_save(trainer), QKV_NUMBER);
    assert_false(fixture_has(folder, "model.safetensors"));
    qkv_trainer_free(trainer);
}

static void broken_weights_are_not_saved(void **state) {
    (void)state;
    const char *folder = fixture_run("broken");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_train_report report;
    fixture_steps(ctx, trainer, 1);
    test_weights_mutable(qkv_trainer_model(trainer), 1)[0] = INFINITY;
    assert_status(ctx, qkv_trainer_save(trainer), QKV_NUMBER);
    assert_message(ctx, "step 1: ");
    assert_message(ctx, "the checkpoint of step 0");
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_NUMBER);
    assert_message(ctx, "step 2: the loss is");
    qkv_trainer_free(trainer);
}

static void a_router_without_numbers_is_named_with_its_step(void **state) {
    (void)state;
    static const char *const experts[] = {"decoder.ffn.experts={\"count\": 4}", NULL};
    static const char name[] = "decoder.layers.1.ffn.router.weight";
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, experts);
    const struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer;
    struct qkv_train_report report;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("router"), NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 1);
    struct qkv_model *model = qkv_trainer_model(trainer);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        if (!strcmp(qkv_model_parameter(model, i)->name, name)) test_weights_mutable(model, i)[3] = NAN;
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_NUMBER);
    assert_message(ctx, "decoder.layers.1.ffn.router.weight: row 0 has a score that is not finite, at step 2");
    assert_status(ctx, qkv_trainer_save(trainer), QKV_NUMBER);
    qkv_trainer_free(trainer);
}

/* ---- a full disk ------------------------------------------------------------------------------------------------ */

static void limit_files(size_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes ? (rlim_t)bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    const char *folder = fixture_run("full");
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_train_report report;
    struct qkv_trainer *trainer = NULL;
    signal(SIGXFSZ, SIG_IGN);
    for (size_t limit = 16; limit < 70000; limit = limit * 3 / 2) { /* each file in turn is the one that does not fit */
        limit_files(limit);
        enum qkv_status status = qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer);
        limit_files(0);
        assert_status(ctx, status, QKV_FILE);
        assert_message(ctx, "File too large");
        assert_false(qkv_file_exists(folder));
    }
    o.eval_every = 0;
    trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 2);
    size_t size, size_after;
    char *before = fixture_read(folder, "checkpoint.safetensors", &size), *after;
    limit_files(size / 2);
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_FILE);
    limit_files(0);
    assert_message(ctx, "checkpoint.safetensors");
    assert_int_equal(report.step, 3);
    assert_false(report.saved);
    after = fixture_read(folder, "checkpoint.safetensors", &size_after);
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    free(after);
    assert_ok(ctx, qkv_trainer_save(trainer)); /* there is room again */
    after = fixture_read(folder, "checkpoint.safetensors", &size_after);
    assert_true(size_after != size || memcmp(before, after, size) != 0);
    size_t log_size;
    free(fixture_read(folder, "log.jsonl", &log_size));
    limit_files(log_size + 10); /* the log's line does not fit */
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_FILE);
    assert_message(ctx, "log.jsonl");
    limit_files(0);
    size_t log_after;
    free(fixture_read(folder, "log.jsonl", &log_after));
    assert_int_equal(log_size, log_after);
    assert_ok(ctx, qkv_trainer_step(trainer, &report)); /* the line is made up for */
    assert_int_equal(report.step, 4);
    qkv_trainer_free(trainer);
    free(before);
    free(after);
}

/* ---- a killed process ------------------------------------------------------------------------------------------- */

enum { KILL_STEPS = 40 };

/* The program that is killed, as `test_train_faults --train FOLDER DATA`: begins or resumes a run, and trains to the
 * end. */
static int train_to_the_end(const char *folder, const char *data) {
    struct qkv_train_options o = fixture_options_on(ctx, data);
    struct qkv_trainer *trainer;
    struct qkv_train_report report = {0};
    char path[2048];
    snprintf(path, sizeof path, "%s/train.json", folder);
    o.steps = KILL_STEPS;
    o.save_every = 1;
    o.eval_every = 3;
    if (qkv_file_exists(path))
        assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    else
        trainer = fixture_begin(ctx, folder, &o);
    while (report.step < KILL_STEPS) assert_ok(ctx, qkv_trainer_step(trainer, &report));
    qkv_trainer_free(trainer);
    return 0;
}

static size_t log_lines(const char *folder) {
    char path[2048];
    size_t lines = 0;
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    char *log = test_read_file(path, NULL);
    for (const char *c = log; c && *c; c++) lines += *c == '\n';
    free(log);
    return lines;
}

static pid_t start_process(const char *folder, const char *data) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_train_faults", "--train", folder, data, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void train_in_a_process(const char *folder, const char *data) {
    int status;
    pid_t child = start_process(folder, data);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Kills such a process some microseconds after its log has so many lines; false if it had come to its end. */
static bool kill_process(const char *folder, const char *data, size_t lines, size_t after) {
    int status;
    pid_t child = start_process(folder, data), ended = 0;
    while (log_lines(folder) < lines && (ended = waitpid(child, &status, WNOHANG)) == 0) usleep(100);
    if (ended == 0) {
        usleep((useconds_t)after);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status);
}

static void a_killed_run_goes_on_as_if_it_had_not_been(void **state) {
    (void)state;
    const char *whole = fixture_run("unkilled"), *killed = fixture_run("killed"), *data = fixture_options(ctx).data;
    struct qkv_random random = test_random(40);
    size_t kills = 0, lines = 0;
    train_in_a_process(whole, data);
    for (int attempt = 0; attempt < 500 && (kills < 12 || lines + 8 < KILL_STEPS); attempt++) {
        if (kill_process(killed, data, lines, test_between(&random, 0, 4000)))
            kills++, lines += test_between(&random, 1, 3);
        else
            lines = KILL_STEPS; /* it came to its end before */
        const bool ended = lines + 8 >= KILL_STEPS;
        const bool half = fixture_has(killed, "train.json") && !fixture_has(killed, "checkpoint.safetensors");
        if (half || (ended && kills < 12)) { /* half: killed before it had begun */
            test_remove_tree(killed);
            lines = 0;
        }
    }
    assert_true(kills >= 12);
    train_in_a_process(killed, data);
    static const char *const files[] = {"checkpoint.safetensors", "model.safetensors"};
    for (size_t f = 0; f < 2; f++) {
        struct qkv_tensors *a, *b;
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", whole, files[f]);
        assert_ok(ctx, qkv_tensors_open(ctx, path, &a));
        snprintf(path, sizeof path, "%s/%s", killed, files[f]);
        assert_ok(ctx, qkv_tensors_open(ctx, path, &b));
        for (size_t i = 0; i < qkv_tensors_count(a); i++) {
            const struct qkv_array *x = qkv_tensors_at(a, i), *y = qkv_tensors_find(b, x->name);
            assert_non_null(y);
            assert_memory_equal(x->data, y->data, x->bytes);
        }
        qkv_tensors_close(a);
        qkv_tensors_close(b);
    }
    assert_int_equal(log_lines(killed), KILL_STEPS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diverging_run_keeps_its_checkpoint),
        cmocka_unit_test(a_broken_evaluation_saves_nothing),
        cmocka_unit_test(broken_weights_are_not_saved),
        cmocka_unit_test(a_router_without_numbers_is_named_with_its_step),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(a_killed_run_goes_on_as_if_it_had_not_been),
    };
    if (argc == 4 && !strcmp(argv[1], "--train")) {
        setup(NULL);
        return train_to_the_end(argv[2], argv[3]);
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
