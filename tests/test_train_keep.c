/* Earlier checkpoints and the best one (option keep): which exist, that each is complete, and runs that begin at
 * them. */
/* labels: quick */
#include "train_same.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>

#include <sys/resource.h>
#include <sys/stat.h>

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

static struct qkv_train_options keeping(int64_t keep) {
    struct qkv_train_options o = fixture_options(ctx);
    o.steps = 12;
    o.save_every = 3;
    o.eval_every = 2;
    o.rate = 1e-2;
    o.keep = keep;
    return o;
}

static struct qkv_trainer *go_back(const char *folder, const char *checkpoint) {
    const struct qkv_resume_options o = {.size = sizeof o, .checkpoint = checkpoint};
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, &o, NULL, NULL, &trainer));
    return trainer;
}

/* Counts the files of the folder whose names begin with `begin`; none of them is half-written. */
static size_t count_files(const char *folder, const char *begin) {
    DIR *entries = opendir(folder);
    size_t count = 0;
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
        assert_null(strstr(entry->d_name, ".tmp"));
    }
    closedir(entries);
    return count;
}

static int64_t step_of(const char *folder, const char *name) {
    char path[2048];
    struct qkv_tensors *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &file));
    const int64_t step = strtoll(qkv_tensors_metadata(file, "step"), NULL, 10);
    qkv_tensors_close(file);
    return step;
}

/* The loss of a model over the text of the fixture. */
static double loss_of(const char *path) {
    struct qkv_model *model;
    struct qkv_evaluation e;
    assert_ok(ctx, qkv_model_load(ctx, path, &model));
    assert_ok(ctx, qkv_evaluate_text(model, &(const char *){fixture_options(ctx).data}, 1, NULL, NULL, NULL, &e));
    qkv_model_free(model);
    return e.loss;
}

static void the_best_checkpoint_has_the_weights_of_the_model(void **state) {
    (void)state;
    const char *folder = fixture_run("best");
    struct qkv_train_options o = keeping(3);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_train_report r = {0};
    int64_t best = 0;
    while (r.step < 12) {
        assert_ok(ctx, qkv_trainer_step(trainer, &r));
        if (r.best) best = r.step;
        assert_int_equal(r.saved, r.step % 3 == 0 || r.best);
        if (best) assert_int_equal(step_of(folder, "checkpoint-best.safetensors"), best);
    }
    qkv_trainer_free(trainer);
    assert_int_equal(count_files(folder, "checkpoint"), 4); /* the latest, two before it, the best */
    char path[2048];
    snprintf(path, sizeof path, "%s/checkpoint-best.safetensors", folder);
    assert_true(loss_of(path) == loss_of(folder));
}

static void without_keep_there_is_one_checkpoint(void **state) {
    (void)state;
    const char *folder = fixture_run("one");
    struct qkv_train_options o = keeping(1);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 12);
    qkv_trainer_free(trainer);
    assert_int_equal(count_files(folder, "checkpoint"), 1);
}

static void a_run_that_goes_back_makes_the_same_steps_again(void **state) {
    (void)state;
    const char *folder = fixture_run("back");
    struct qkv_train_options o = keeping(100);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 12);
    qkv_trainer_free(trainer);
    char *straight = log_numbers(folder);
    size_t size;
    char *latest = fixture_read(folder, "checkpoint.safetensors", &size);
    trainer = go_back(folder, "checkpoint-6.safetensors");
    assert_int_equal(step_of(folder, "checkpoint.safetensors"), 6); /* what a kill would go on from */
    size_t kept_size;
    char *kept = fixture_read(folder, "checkpoint-12.safetensors", &kept_size); /* what was the latest */
    assert_int_equal(size, kept_size);
    assert_memory_equal(latest, kept, size);
    assert_int_equal(fixture_steps(ctx, trainer, 7).step, 7);
    qkv_trainer_free(trainer);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, 12);
    qkv_trainer_free(trainer);
    char *back = log_numbers(folder);
    assert_string_equal(straight, back);
    assert_int_equal(step_of(folder, "checkpoint.safetensors"), 12);
    assert_int_equal(count_files(folder, "checkpoint-12"), 0); /* the latest has replaced it */
    trainer = go_back(folder, "checkpoint-best.safetensors");
    fixture_steps(ctx, trainer, 12);
    qkv_trainer_free(trainer);
    free(back);
    back = log_numbers(folder);
    assert_string_equal(straight, back);
    free(straight);
    free(back);
    free(latest);
    free(kept);
}

static void a_checkpoint_is_a_model_by_its_path(void **state) {
    (void)state;
    const char *folder = fixture_run("named");
    struct qkv_train_options o = keeping(2);
    o.eval_every = 3;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    double after[13] = {0};
    struct qkv_train_report r = {0};
    while (r.step < 12) {
        assert_ok(ctx, qkv_trainer_step(trainer, &r));
        if (!r.saved) continue;
        struct qkv_evaluation e;
        assert_ok(ctx, qkv_evaluate_text(qkv_trainer_model(trainer), &(const char *){o.data}, 1, NULL, NULL, NULL, &e));
        after[r.step] = e.loss;
    }
    qkv_trainer_free(trainer);
    char path[2048];
    snprintf(path, sizeof path, "%s/checkpoint-9.safetensors", folder);
    enum qkv_precision precision, of_folder;
    assert_ok(ctx, qkv_model_precision(ctx, path, &precision));
    assert_ok(ctx, qkv_model_precision(ctx, folder, &of_folder));
    assert_int_equal(precision, of_folder);
    const enum qkv_precision before = qkv_context_precision(ctx);
    qkv_context_set_precision(ctx, precision);
    assert_true(loss_of(path) == after[9]);
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    assert_true(loss_of(path) == after[12]);
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_plan_load(ctx, path, &model));
    qkv_model_free(model);
    /* The spec in the folder is another one. */
    size_t size;
    char *config = fixture_read(folder, "config.json", &size), *kind = strstr(config, "\"gelu\"");
    assert_non_null(kind);
    memcpy(kind, "\"relu\"", 6);
    fixture_write(folder, "config.json", config, size);
    free(config);
    assert_status(ctx, qkv_model_load(ctx, path, &model), QKV_SPEC);
    assert_message(ctx, "belong to another spec than config.json");
    qkv_context_set_precision(ctx, before);
}

static void what_is_no_checkpoint_of_the_run_is_refused(void **state) {
    (void)state;
    const char *folder = fixture_run("refused");
    struct qkv_train_options o = keeping(2);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    static const struct {
        const char *name, *sentence;
        enum qkv_status status;
    } cases[] = {{"checkpoint-5.safetensors", "has no checkpoint-5.safetensors; name one that is there", QKV_FILE},
                 {"model.safetensors", "so it is no checkpoint of this program", QKV_FORMAT},
                 {"../refused/checkpoint.safetensors", "it must be the name of a file", QKV_ARGUMENT},
                 {"", "it must be the name of a file", QKV_ARGUMENT},
                 {"train.json", "train.json", QKV_FORMAT}};
    size_t size, after_size;
    char *before = fixture_read(folder, "checkpoint.safetensors", &size);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct qkv_resume_options r = {.size = sizeof r, .checkpoint = cases[i].name};
        assert_status(ctx, qkv_trainer_resume(ctx, folder, &r, NULL, NULL, &trainer), cases[i].status);
        assert_message(ctx, cases[i].sentence);
        assert_int_equal(count_files(folder, "checkpoint"), 3);
    }
    char *after = fixture_read(folder, "checkpoint.safetensors", &after_size);
    assert_int_equal(size, after_size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

static void a_full_disk_leaves_all_checkpoints_whole(void **state) {
    (void)state;
    const char *folder = fixture_run("full");
    struct qkv_train_options o = keeping(3);
    struct qkv_train_report r;
    struct rlimit limit, all;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 5);
    const size_t files = count_files(folder, "checkpoint");
    const int64_t best = step_of(folder, "checkpoint-best.safetensors");
    const int64_t latest = step_of(folder, "checkpoint.safetensors");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    limit = all;
    limit.rlim_cur = 60000; /* less than a checkpoint, more than the log */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const enum qkv_status status = qkv_trainer_step(trainer, &r);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_status(ctx, status, QKV_FILE);
    /* The latest may have got its second name by now. */
    assert_true(count_files(folder, "checkpoint") - files <= 1);
    assert_int_equal(step_of(folder, "checkpoint-best.safetensors"), best);
    assert_int_equal(step_of(folder, "checkpoint.safetensors"), latest);
    while (r.step < 12) assert_ok(ctx, qkv_trainer_step(trainer, &r));
    qkv_trainer_free(trainer);
    assert_int_equal(count_files(folder, "checkpoint"), 4);
    trainer = go_back(folder, "checkpoint-best.safetensors");
    qkv_trainer_free(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_checkpoint_has_the_weights_of_the_model),
        cmocka_unit_test(without_keep_there_is_one_checkpoint),
        cmocka_unit_test(a_run_that_goes_back_makes_the_same_steps_again),
        cmocka_unit_test(a_checkpoint_is_a_model_by_its_path),
        cmocka_unit_test(what_is_no_checkpoint_of_the_run_is_refused),
        cmocka_unit_test(a_full_disk_leaves_all_checkpoints_whole),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
