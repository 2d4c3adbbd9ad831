/* state.json: the state of a run in its folder, for any reader and whatever happened to its writer. */
/* labels: quick */
#include "train_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include <sys/file.h>
#include <sys/wait.h>

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"
#include "weights.h"

static struct qkv_run_condition look(const char *folder) {
    struct qkv_run_condition c;
    assert_ok(ctx, qkv_run_condition_read(ctx, folder, &c));
    return c;
}

/* ---- the life of a run ------------------------------------------------------------------------------------------ */

static void a_run_is_running_then_interrupted_then_done(void **state) {
    (void)state;
    const char *folder = fixture_run("life");
    struct qkv_train_options o = fixture_options(ctx);
    assert_int_equal(look(folder).state, QKV_RUN_UNKNOWN);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_run_condition c = look(folder);
    assert_int_equal(c.state, QKV_RUN_RUNNING);
    assert_true(c.step == 0 && c.saved == 0 && c.steps == 6 && c.pid == getpid());
    assert_true(llabs(c.started - (int64_t)time(NULL)) < 600 && c.updated >= c.started);
    fixture_steps(ctx, trainer, 4);
    c = look(folder);
    assert_true(c.state == QKV_RUN_RUNNING && c.step == 4 && c.saved == 3);
    qkv_trainer_free(trainer);
    c = look(folder);
    assert_true(c.state == QKV_RUN_INTERRUPTED && !c.killed && c.step == 4 && c.saved == 3);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    assert_int_equal(look(folder).state, QKV_RUN_RUNNING);
    fixture_steps(ctx, trainer, 6);
    c = look(folder);
    assert_true(c.state == QKV_RUN_DONE && c.step == 6 && c.saved == 6 && c.steps == 6);
    qkv_trainer_free(trainer);
    assert_int_equal(look(folder).state, QKV_RUN_DONE);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer)); /* nothing is left to do */
    qkv_trainer_free(trainer);
    assert_int_equal(look(folder).state, QKV_RUN_DONE);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, &QKV_OPTIONS(qkv_resume_options, .steps = 9), NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
    c = look(folder);
    assert_true(c.state == QKV_RUN_INTERRUPTED && c.steps == 9 && c.step == 6);
}

static void a_failed_run_says_why(void **state) {
    (void)state;
    const char *folder = fixture_run("failed");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_train_report report;
    fixture_steps(ctx, trainer, 1);
    test_weights_mutable(qkv_trainer_model(trainer), 1)[0] = INFINITY;
    assert_status(ctx, qkv_trainer_step(trainer, &report), QKV_NUMBER);
    char why[1024];
    snprintf(why, sizeof why, "%s", qkv_message(ctx));
    qkv_trainer_free(trainer);
    struct qkv_run_condition c = look(folder);
    assert_true(c.state == QKV_RUN_FAILED && c.step == 1 && c.saved == 0);
    assert_string_equal(c.message, why);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    c = look(folder);
    assert_true(c.state == QKV_RUN_RUNNING && !c.message[0]);
    qkv_trainer_free(trainer);
}

static void a_run_that_cannot_begin_leaves_no_state(void **state) {
    (void)state;
    const char *folder = fixture_run("unbegun");
    struct qkv_train_options o = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_trainer *trainer;
    spec.vocab = 7; /* of another tokenizer */
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer), QKV_SPEC);
    assert_false(fixture_has(folder, "state.json") || fixture_has(folder, "log.jsonl"));
}

static void patience_makes_a_run_done(void **state) {
    (void)state;
    const char *folder = fixture_run("patience");
    struct qkv_train_options o = fixture_options(ctx);
    o.steps = 400;
    o.rate = 1e-30; /* nothing gets better */
    o.patience = 2;
    o.eval_every = 1;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_train_report r = {0};
    do assert_ok(ctx, qkv_trainer_step(trainer, &r));
    while (r.step < r.steps);
    assert_true(r.ended && r.step < 400);
    qkv_trainer_free(trainer);
    struct qkv_run_condition c = look(folder);
    assert_true(c.state == QKV_RUN_DONE && c.steps == r.step && c.step == r.step);
}

/* ---- who wrote it ----------------------------------------------------------------------------------------------- */

/* A folder whose state was written by a process on some machine, so many seconds ago. */
static const char *recorded(const char *name, const char *boot, const char *host, long seconds_ago) {
    const char *folder = fixture_run(name);
    char text[1024], time_text[QKV_UTC_TEXT];
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    qkv_utc_text(time_text, (int64_t)time(NULL) - seconds_ago);
    snprintf(text, sizeof text,
             "{\"state\":\"running\",\"step\":50,\"saved\":50,\"steps\":100,\"seconds\":5,\"pid\":%ld,\"host\":\"%s\","
             "\"boot\":\"%s\",\"space\":\"pid:[1]\",\"started\":\"%s\",\"updated\":\"%s\",\"message\":null}",
             (long)getpid(), host, boot, time_text, time_text);
    fixture_write(folder, "state.json", text, strlen(text));
    return folder;
}

static const char *own_boot(void) {
    static char boot[64];
    size_t size;
    char *text = test_read_file("/proc/sys/kernel/random/boot_id", &size);
    snprintf(boot, sizeof boot, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
    free(text);
    return boot;
}

/* Gives the log a time in the past, so that it is no later sign than the state. */
static void write_log(const char *folder, const char *text, long seconds_ago) {
    char path[2048];
    const struct timespec then[2] = {{.tv_sec = time(NULL) - seconds_ago}, {.tv_sec = time(NULL) - seconds_ago}};
    fixture_write(folder, "log.jsonl", text, strlen(text));
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

static void a_free_log_of_this_machine_means_that_the_process_was_killed(void **state) {
    (void)state;
    if (!own_boot()[0]) skip();
    const char *folder = recorded("here", own_boot(), "some-container", 0);
    write_log(folder, "{\"step\":51,\"loss\":1}\n{\"step\":52,\"loss\":1}\n{\"step\":53,\"lo", 0);
    struct qkv_run_condition c = look(folder);
    assert_true(c.state == QKV_RUN_INTERRUPTED && c.killed && c.step == 52 && c.saved == 50);
    assert_string_equal(c.host, "some-container");
}

static void a_locked_log_means_that_somebody_trains(void **state) {
    (void)state;
    const char *folder = recorded("locked", "another-boot", "elsewhere", 100000);
    char path[2048];
    write_log(folder, "", 100000);
    assert_int_equal(look(folder).state, QKV_RUN_INTERRUPTED);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    const int file = open(path, O_RDWR);
    assert_int_equal(flock(file, LOCK_EX), 0);
    struct qkv_run_condition c = look(folder);
    assert_true(c.state == QKV_RUN_RUNNING && c.pid == getpid());
    static const char before[] = "{\"state\":\"interrupted\",\"pid\":3,\"host\":\"gone\"}";
    fixture_write(folder, "state.json", before, strlen(before)); /* somebody begins and has not said so yet */
    c = look(folder);
    assert_true(c.state == QKV_RUN_RUNNING && c.pid == 0 && !c.host[0]);
    close(file);
    assert_int_equal(look(folder).state, QKV_RUN_INTERRUPTED);
}

static void a_run_on_another_machine_lives_as_long_as_it_gives_signs(void **state) {
    (void)state;
    const char *folder = recorded("elsewhere", "another-boot", "elsewhere", 30);
    assert_int_equal(look(folder).state, QKV_RUN_RUNNING);
    folder = recorded("elsewhere", "another-boot", "elsewhere", 700);
    assert_int_equal(look(folder).state, QKV_RUN_INTERRUPTED);
    write_log(folder, "{\"step\":77}\n", 20); /* a line is a sign */
    struct qkv_run_condition c = look(folder);
    assert_true(c.state == QKV_RUN_RUNNING && c.step == 77);
    write_log(folder, "{\"step\":77}\n", 700);
    assert_int_equal(look(folder).state, QKV_RUN_INTERRUPTED);
    char text[512], time_text[QKV_UTC_TEXT]; /* steps of 100 s each */
    snprintf(
        text, sizeof text,
        "{\"state\":\"running\",\"step\":50,\"steps\":100,\"seconds\":5000,\"pid\":1,\"boot\":\"x\",\"host\":\"y\","
        "\"updated\":\"%s\"}",
        qkv_utc_text(time_text, (int64_t)time(NULL) - 1500));
    fixture_write(folder, "state.json", text, strlen(text));
    assert_int_equal(look(folder).state, QKV_RUN_RUNNING);
}

static void training_refuses_a_folder_that_another_machine_trains_in(void **state) {
    (void)state;
    const char *folder = fixture_run("shared");
    struct qkv_train_options o = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o), *second;
    fixture_steps(ctx, trainer, 3);
    qkv_trainer_free(trainer);
    const char *other = recorded("other", "another-boot", "elsewhere", 5);
    size_t size;
    char *text = fixture_read(other, "state.json", &size);
    fixture_write(folder, "state.json", text, size);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "another process is training in this folder: process ");
    assert_message(ctx, " on elsewhere, with its latest sign ");
    assert_message(ctx, "remove state.json");
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &second), QKV_FILE);
    assert_message(ctx, "another process is training in this folder");
    char *after = fixture_read(folder, "state.json", NULL);
    assert_memory_equal(text, after, size);
    free(after);
    free(text);
    char path[2048];
    snprintf(path, sizeof path, "%s/state.json", folder);
    assert_int_equal(unlink(path), 0);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
}

/* ---- files that nobody vouches for ------------------------------------------------------------------------------ */

static void a_state_that_is_none_is_unknown(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"state\":7}",
                                        "{\"state\":\"asleep\",\"step\":-4,\"pid\":1e99,\"updated\":\"2024-13-45\"}",
                                        "{\"state\":\"done\",\"state\":\"done\"}",
                                        "{\"state\":\"done\"",
                                        "\xff\xfe"};
    const char *folder = fixture_run("none");
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        fixture_write(folder, "state.json", texts[i], strlen(texts[i]));
        struct qkv_run_condition c = look(folder);
        assert_true(c.state == QKV_RUN_UNKNOWN && c.step == 0 && c.pid == 0 && c.updated == 0);
    }
    char path[2048];
    snprintf(path, sizeof path, "%s/state.json", folder);
    unlink(path);
    assert_int_equal(mkfifo(path, 0666), 0); /* nobody waits for it */
    assert_int_equal(look(folder).state, QKV_RUN_UNKNOWN);
    unlink(path);
    char *large = malloc(1 << 20);
    memset(large, ' ', 1 << 20);
    memcpy(large, "{\"state\":\"done\"}", 16);
    fixture_write(folder, "state.json", large, 1 << 20);
    free(large);
    assert_int_equal(look(folder).state, QKV_RUN_UNKNOWN);
    assert_status(ctx, qkv_run_condition_read(ctx, NULL, &(struct qkv_run_condition){0}), QKV_ARGUMENT);
}

static void changed_bytes_of_a_state_break_nothing(void **state) {
    (void)state;
    struct qkv_random random = test_random(13);
    const char *folder = recorded("bytes", "another-boot", "elsewhere", 5);
    size_t size;
    char *text = fixture_read(folder, "state.json", &size);
    for (int i = 0; i < 300; i++) {
        char *copy = malloc(size);
        memcpy(copy, text, size);
        for (size_t k = 0; k < 1 + (size_t)i % 3; k++)
            copy[test_between(&random, 0, size - 1)] = (char)test_between(&random, 0, 255);
        fixture_write(folder, "state.json", copy, (size_t)test_between(&random, 0, size));
        struct qkv_run_condition c = look(folder);
        assert_in_range(c.state, QKV_RUN_UNKNOWN, QKV_RUN_INTERRUPTED);
        assert_true(c.step >= 0 && c.steps >= 0 && c.saved >= 0 && c.pid >= 0 && c.started >= 0 && c.updated >= 0);
        free(copy);
    }
    free(text);
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

static void looking_keeps_nobody_from_training(void **state) {
    (void)state;
    const char *folder = fixture_run("looked");
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    write_log(folder, "", 0);
    const pid_t child = fork();
    if (child == 0) {
        struct qkv_run_condition c;
        for (;;) qkv_run_condition_read(NULL, folder, &c);
    }
    assert_true(child > 0);
    size_t opened = 0;
    for (int i = 0; i < 300; i++) {
        struct qkv_log log;
        opened += qkv_log_open(ctx, &log, folder) == QKV_OK;
        qkv_log_close(&log);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(opened, 300);
}

static void points_in_time_are_those_of_the_c_library(void **state) {
    (void)state;
    struct qkv_random random = test_random(13);
    for (int i = 0; i < 2000; i++) {
        const int64_t seconds = (int64_t)test_between(&random, 0, 250000000000);
        int64_t again = -1;
        char text[QKV_UTC_TEXT];
        assert_true(qkv_utc_parse(qkv_utc_text(text, seconds), &again));
        assert_true(again == seconds);
        struct tm utc;
        const time_t time = (time_t)seconds;
        assert_non_null(gmtime_r(&time, &utc));
        assert_true(timegm(&utc) == (time_t)again);
    }
    static const char *const wrong[] = {"",
                                        "2024-02-30T00:00:00Z",
                                        "2023-02-29T00:00:00Z",
                                        "2024-00-01T00:00:00Z",
                                        "2024-01-01T24:00:00Z",
                                        "2024-01-01T00:00:00",
                                        "2024-01-01T00:00:00Z ",
                                        "2024-1-1T0:0:0Z"};
    int64_t seconds;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) assert_false(qkv_utc_parse(wrong[i], &seconds));
    assert_true(qkv_utc_parse("2024-02-29T12:34:56Z", &seconds) && seconds == 1709210096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_running_then_interrupted_then_done),
        cmocka_unit_test(a_failed_run_says_why),
        cmocka_unit_test(a_run_that_cannot_begin_leaves_no_state),
        cmocka_unit_test(patience_makes_a_run_done),
        cmocka_unit_test(a_free_log_of_this_machine_means_that_the_process_was_killed),
        cmocka_unit_test(a_locked_log_means_that_somebody_trains),
        cmocka_unit_test(a_run_on_another_machine_lives_as_long_as_it_gives_signs),
        cmocka_unit_test(training_refuses_a_folder_that_another_machine_trains_in),
        cmocka_unit_test(a_state_that_is_none_is_unknown),
        cmocka_unit_test(changed_bytes_of_a_state_break_nothing),
        cmocka_unit_test(looking_keeps_nobody_from_training),
        cmocka_unit_test(points_in_time_are_those_of_the_c_library),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
