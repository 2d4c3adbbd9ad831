/* Resuming a run with a new end: the rate after it, options that may change, and that no bit changes. */
#include "train_fixture.h"
#include "train_same.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

static struct qkv_trainer *go_on(const char *folder, int64_t steps, const char *extend, const char *setting) {
    struct qkv_trainer *trainer;
    struct qkv_resume_options o = {
        .size = sizeof o, .steps = steps, .extend = extend, .settings = &setting, .setting_count = setting != NULL};
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, &o, NULL, NULL, &trainer));
    return trainer;
}

/* Goes on, trains up to `step`, saves there and loses what came behind. */
static void train_to(const char *folder, int64_t steps, const char *extend, int64_t step) {
    struct qkv_trainer *trainer = go_on(folder, steps, extend, NULL);
    fixture_steps(ctx, trainer, step);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
}

static void begin(const char *folder, const struct qkv_train_options *o, int64_t step) {
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, o);
    fixture_steps(ctx, trainer, step);
    assert_ok(ctx, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
}

/* ---- the rate --------------------------------------------------------------------------------------------------- */

static struct qkv_train_options plain_options(const char *schedule, int64_t steps) {
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.schedule = schedule;
    o.rate = 1;
    o.min_rate = 0.2;
    o.warmup = 4;
    o.steps = steps;
    return o;
}

static void the_rate_is_continuous_at_every_seam(void **state) {
    (void)state;
    static const char *const schedules[] = {"cosine", "linear", "constant", "inverse_sqrt", "wsd"};
    for (size_t k = 0; k < TEST_COUNT(schedules); k++) {
        for (int extend = 0; extend < 3; extend++) {
            for (int64_t at = 1; at <= 30; at++) {
                struct qkv_train_options o = plain_options(schedules[k], 60);
                struct qkv_seam items[] = {{at, 40, (enum qkv_extend)extend}, {at + 3, 60, (enum qkv_extend)extend}};
                struct qkv_seams seams = {.items = items, .count = 2, .first_end = 30};
                for (int64_t s = 1; s < 60; s++) {
                    double before = qkv_learning_rate(&o, &seams, s - 1), now = qkv_learning_rate(&o, &seams, s);
                    assert_true(now > 0 && now <= 1 + 1e-12 && now - before <= 0.2 + 1e-12); /* a step of the warm-up */
                    if (extend == QKV_EXTEND_DECAY && s >= 5) assert_true(now <= before + 1e-12);
                    if (extend == QKV_EXTEND_FLAT && s >= at) assert_true(now == before);
                }
            }
        }
    }
}

static void decay_ends_at_the_least_rate_and_rewarm_is_a_schedule_of_its_own(void **state) {
    (void)state;
    struct qkv_train_options o = plain_options("linear", 40);
    struct qkv_seam seam = {20, 40, QKV_EXTEND_DECAY};
    struct qkv_seams seams = {.items = &seam, .count = 1, .first_end = 25};
    double reached = qkv_learning_rate(&o, &seams, 19);
    assert_close(reached, 1 - 0.8 * 15 / 20, 1e-12); /* of a run of 25 steps: steps 4 … 24 */
    assert_close(qkv_learning_rate(&o, &seams, 39), 0.2, 1e-12);
    assert_close(qkv_learning_rate(&o, &seams, 29), (reached + 0.2) / 2, 1e-12);
    seam.extend = QKV_EXTEND_REWARM;
    assert_close(qkv_learning_rate(&o, &seams, 20), reached + (1 - reached) / 5, 1e-12);
    assert_close(qkv_learning_rate(&o, &seams, 24), 1, 1e-12);
    assert_close(qkv_learning_rate(&o, &seams, 39), 0.2, 1e-12);
    seam.extend = QKV_EXTEND_FLAT;
    assert_true(qkv_learning_rate(&o, &seams, 39) == reached);
}

static void schedules_without_an_end_go_on_as_they_were(void **state) {
    (void)state;
    static const char *const schedules[] = {"constant", "inverse_sqrt"};
    for (size_t k = 0; k < 2; k++) {
        struct qkv_train_options o = plain_options(schedules[k], 50);
        struct qkv_seam items[] = {{2, 30, QKV_EXTEND_DECAY}, {17, 50, QKV_EXTEND_DECAY}};
        struct qkv_seams seams = {.items = items, .count = 2, .first_end = 10};
        for (int64_t s = 0; s < 50; s++)
            assert_true(qkv_learning_rate(&o, &seams, s) == qkv_learning_rate(&o, NULL, s));
    }
}

/* A run that is in its flat part gets the schedule of a run that had the new end from its first step. */
static void a_stable_run_goes_on_as_a_longer_one(void **state) {
    (void)state;
    struct qkv_train_options o = plain_options("wsd", 60);
    for (int64_t at = 1; at <= 24; at++) { /* of 30 steps the last 6 fall */
        struct qkv_seam seam = {at, 60, QKV_EXTEND_DECAY};
        struct qkv_seams seams = {.items = &seam, .count = 1, .first_end = 30};
        for (int64_t s = 0; s < 60; s++)
            assert_true(qkv_learning_rate(&o, &seams, s) == qkv_learning_rate(&o, NULL, s));
    }
    struct qkv_seam seam = {27, 60, QKV_EXTEND_DECAY};
    struct qkv_seams seams = {.items = &seam, .count = 1, .first_end = 30};
    assert_close(qkv_learning_rate(&o, &seams, 26), 1 - 0.8 * 3 / 6, 1e-12);
    assert_close(qkv_learning_rate(&o, &seams, 27), 0.6, 1e-12); /* what it had reached */
    assert_close(qkv_learning_rate(&o, &seams, 59), 0.2, 1e-12);
}

static double rate_behind(const char *folder, int64_t steps, const char *extend, const char *note) {
    struct qkv_trainer *trainer = go_on(folder, steps, extend, NULL);
    assert_non_null(qkv_trainer_note(trainer, 0));
    if (!strstr(qkv_trainer_note(trainer, 0), note)) fail_msg("%s", qkv_trainer_note(trainer, 0));
    assert_null(qkv_trainer_note(trainer, 1));
    double rate = fixture_steps(ctx, trainer, 7).rate;
    qkv_trainer_free(trainer);
    return rate;
}

static void a_finished_run_goes_on_at_the_rate_it_reached(void **state) {
    (void)state;
    const char *folder = fixture_run("finished");
    struct qkv_train_options o = fixture_options(ctx);
    o.save_every = 0; /* so that the extensions below all begin at step 6 */
    begin(folder, &o, 6);
    assert_close(rate_behind(folder, 60, NULL, "was 0.0001 at step 6, is 0.0001 at the next and 0.0001 at the last"),
                 1e-4, 1e-12);
    assert_close(rate_behind(folder, 50, "flat", "(extend flat)"), 1e-4, 1e-12);
    assert_close(rate_behind(folder, 60, "rewarm", "is 0.0004 at the next"), 4e-4,
                 1e-12); /* a third of the way to 0.001 */
    char *json = fixture_read(folder, "train.json", NULL);
    assert_non_null(strstr(json, "\"extended\": {\"first_end\": 6, \"seams\": [{\"step\": 6, \"end\": 60, \"extend\": "
                                 "\"rewarm\"}]}"));
    free(json);
}

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

static void extensions_change_no_bit_of_what_follows(void **state) {
    (void)state;
    static const char *const extends[] = {"decay", "flat", "rewarm"};
    for (size_t i = 0; i < 3; i++) {
        const char *whole = fixture_run("whole"), *parts = fixture_run("parts");
        const char *next = extends[(i + 1) % 3], *last = extends[(i + 2) % 3];
        struct qkv_train_options o = fixture_options(ctx);
        begin(whole, &o, 4);
        begin(parts, &o, 4);
        train_to(whole, 10, extends[i], 10); /* before its end */
        train_to(whole, 14, next, 14);       /* behind it */
        train_to(whole, 20, last, 20);
        qkv_trainer_free(go_on(parts, 8, next, NULL)); /* an extension that no step followed leaves no trace */
        train_to(parts, 10, extends[i], 5);
        train_to(parts, 0, NULL, 8);
        train_to(parts, 0, NULL, 10);
        qkv_trainer_free(go_on(parts, 14, next, NULL));
        train_to(parts, 0, NULL, 11);
        train_to(parts, 14, NULL, 14);
        train_to(parts, 20, last, 17);
        train_to(parts, 20, last, 18); /* the same command once more, after an interruption */
        train_to(parts, 0, NULL, 20);
        assert_same_runs(ctx, whole, parts);
    }
}

static void a_new_end_gives_patience_again_also_to_a_run_that_is_killed_then(void **state) {
    (void)state;
    const char *folder = fixture_run("patience");
    struct qkv_train_options o = fixture_options(ctx);
    o.patience = 1;
    o.eval_every = 1;
    o.save_every = 1;
    o.rate = o.min_rate = 1e-30; /* no evaluation is better than the first */
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    assert_true(fixture_steps(ctx, trainer, 2).ended);
    qkv_trainer_free(trainer);
    qkv_trainer_free(go_on(folder, 9, NULL, NULL)); /* and is killed at once */
    trainer = go_on(folder, 0, NULL, NULL);
    struct qkv_train_report report;
    assert_ok(ctx, qkv_trainer_step(trainer, &report));
    assert_int_equal(report.step, 3);
    qkv_trainer_free(trainer);
}

/* ---- options that change ---------------------------------------------------------------------------------------- */

static void options_that_change_no_number_may_change(void **state) {
    (void)state;
    static const char *const settings[] = {"eval_every=4", "save_every=1", "patience=7", "keep=2",
                                           "checkpoint_activations=true"};
    const char *whole = fixture_run("as_it_was"), *changed = fixture_run("changed");
    struct qkv_train_options o = fixture_options(ctx);
    o.valid_fraction = 0.2;
    o.eval_every = 4;
    begin(whole, &o, 6);
    o.eval_every = 2;
    begin(changed, &o, 1);
    struct qkv_resume_options r = {.size = sizeof r, .settings = settings, .setting_count = TEST_COUNT(settings)};
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, changed, &r, NULL, NULL, &trainer));
    assert_non_null(strstr(qkv_trainer_note(trainer, 0), "evaluations come every 4 steps now"));
    assert_non_null(strstr(qkv_trainer_note(trainer, 0), "a patience of 7 evaluations is 28 steps"));
    fixture_steps(ctx, trainer, 3);
    qkv_trainer_free(trainer);
    trainer = go_on(changed, 0, NULL, NULL); /* the changes are kept, and step 3 was saved */
    assert_null(qkv_trainer_note(trainer, 0));
    const struct qkv_train_options *now = qkv_trainer_options(trainer);
    assert_true(now->eval_every == 4 && now->save_every == 1 && now->keep == 2 && now->patience == 7 &&
                now->checkpoint_activations);
    fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    assert_same_runs(ctx, whole, changed);
}

static void refuse(const char *folder, const char *setting, int64_t steps, const char *extend, const char *message) {
    struct qkv_trainer *trainer;
    struct qkv_resume_options o = {
        .size = sizeof o, .steps = steps, .extend = extend, .settings = &setting, .setting_count = setting != NULL};
    assert_status(ctx, qkv_trainer_resume(ctx, folder, &o, NULL, NULL, &trainer), QKV_ARGUMENT);
    assert_message(ctx, message);
    assert_null(trainer);
}

static void all_other_changes_are_refused_with_the_reason(void **state) {
    (void)state;
    const char *folder = fixture_run("refused"), *name, *value, *help, *why;
    struct qkv_train_options o = fixture_options(ctx);
    begin(folder, &o, 2);
    char *before = fixture_read(folder, "train.json", NULL);
    refuse(folder, "batch=3", 0, NULL,
           "batch cannot change when a run goes on: another value would give other numbers");
    refuse(folder, "data=x", 0, NULL, "goes on with the data that it began with");
    refuse(folder, "metric=loss", 0, NULL, "what may change: steps, ");
    refuse(folder, "bacth=3", 0, NULL, "there is no training option \"bacth\"");
    refuse(folder, "eval_every", 0, NULL, "not NAME=VALUE");
    refuse(folder, "eval_every=-1", 0, NULL, "eval_every is -1");
    refuse(folder, "patience=x", 0, NULL, "must be a whole number");
    refuse(folder, NULL, 9, "up", "extend is \"up\"; it must be decay, flat or rewarm");
    refuse(folder, NULL, 0, "flat", "but the run ends at step 6 as before");
    refuse(folder, "steps=6", 0, "flat", "but the run ends at step 6 as before");
    refuse(folder, "steps=1", 0, NULL, "the run has done 2 already");
    size_t may = 0, all = 0;
    for (; qkv_train_option_at(all, &name, &value, &help); all++) {
        why = NULL;
        if (qkv_train_may_change(name, &why)) may++;
        assert_true(qkv_train_may_change(name, NULL) == !why);
    }
    assert_true(may == 7 && all > 30);
    char *after = fixture_read(folder, "train.json", NULL);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

#define SEAM "{\"step\": 6, \"end\": 9, \"extend\": \"flat\"}"
static void damaged_seams_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"first_end\": 6, \"seams\": []}",
        "{\"first_end\": 0, \"seams\": [{\"step\": 6, \"end\": 9, \"extend\": \"flat\"}]}",
        "{\"first_end\": 6, \"seams\": [{\"step\": 6, \"end\": 8, \"extend\": \"flat\"}]}",
        "{\"first_end\": 6, \"seams\": [{\"step\": 6, \"end\": 9, \"extend\": \"up\"}]}",
        "{\"first_end\": 6, \"seams\": [{\"step\": 0, \"end\": 9, \"extend\": \"flat\"}]}",
        "{\"first_end\": 6, \"seams\": [" SEAM ", " SEAM "]}",
        "{\"first_end\": 6, \"seams\": 3}",
        "[]",
        "null"};
    const char *folder = fixture_run("seams");
    struct qkv_train_options o = fixture_options(ctx);
    begin(folder, &o, 6);
    qkv_trainer_free(go_on(folder, 9, "flat", NULL));
    char *good = fixture_read(folder, "train.json", NULL), *at = strstr(good, "\"extended\": ");
    assert_non_null(at);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char text[16384];
        struct qkv_trainer *trainer;
        snprintf(text, sizeof text, "%.*s\"extended\": %s\n}\n", (int)(at - good), good, bad[i]);
        fixture_write(folder, "train.json", text, strlen(text));
        assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer), QKV_FORMAT);
        assert_message(ctx, "extended must hold first_end and seams");
    }
    free(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_is_continuous_at_every_seam),
        cmocka_unit_test(decay_ends_at_the_least_rate_and_rewarm_is_a_schedule_of_its_own),
        cmocka_unit_test(schedules_without_an_end_go_on_as_they_were),
        cmocka_unit_test(a_stable_run_goes_on_as_a_longer_one),
        cmocka_unit_test(a_finished_run_goes_on_at_the_rate_it_reached),
        cmocka_unit_test(extensions_change_no_bit_of_what_follows),
        cmocka_unit_test(a_new_end_gives_patience_again_also_to_a_run_that_is_killed_then),
        cmocka_unit_test(options_that_change_no_number_may_change),
        cmocka_unit_test(all_other_changes_are_refused_with_the_reason),
        cmocka_unit_test(damaged_seams_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
