/* The options of training: defaults, texts, ranges, which of them have an effect together; and the learning rate
 * that they give. */
/* labels: numeric quick */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(2)
#include "context_fixture.h"

/* ---- options ---------------------------------------------------------------------------------------------------- */

static void options_have_the_defaults_of_the_list(void **state) {
    (void)state;
    struct qkv_train_options o;
    const char *name, *value, *help;
    size_t count = 0;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    assert_null(o.data);
    assert_int_equal(o.steps, 2000);
    assert_true(o.rate == 1e-3 && o.min_rate == -1 && o.beta2 == 0.99);
    assert_string_equal(o.optimizer, "adamw");
    for (; qkv_train_option_at(count, &name, &value, &help); count++) {
        assert_true(*name && *help);
        if (!strcmp(name, "rate")) assert_string_equal(value, "1e-3");
        if (!strcmp(name, "min_rate")) assert_string_equal(value, "-1");
        if (!strcmp(name, "schedule")) assert_string_equal(value, "cosine");
        if (!strcmp(name, "data")) assert_string_equal(value, "");
        if (*value && strcmp(name, "data") != 0) assert_ok(ctx, qkv_train_set(ctx, &o, name, value));
    }
    assert_int_equal(count, 64);
}

static void options_are_set_from_text(void **state) {
    (void)state;
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    assert_ok(ctx, qkv_train_set(ctx, &o, "rate", "3e-4"));
    assert_ok(ctx, qkv_train_set(ctx, &o, "steps", "12345678901"));
    assert_ok(ctx, qkv_train_set(ctx, &o, "data", "a b.txt"));
    assert_true(o.rate == 3e-4 && o.steps == INT64_C(12345678901));
    assert_string_equal(o.data, "a b.txt");
    assert_status(ctx, qkv_train_set(ctx, &o, "rat", "1"), QKV_ARGUMENT);
    assert_message(ctx, "no training option \"rat\"");
    assert_message(ctx, "save_every");
    assert_message(ctx, "average"); /* the last one of the list */
    static const char *const bad_counts[] = {"",   "1.5", "1e3", "0x10", " 1", "1 ", "--1", "99999999999999999999",
                                             "abc"};
    for (size_t i = 0; i < TEST_COUNT(bad_counts); i++) {
        assert_status(ctx, qkv_train_set(ctx, &o, "steps", bad_counts[i]), QKV_ARGUMENT);
        assert_message(ctx, "steps is \"");
        assert_message(ctx, "whole number");
    }
    static const char *const bad_reals[] = {"", "nan", "inf", "1e999", "1,5", "1.5x", " 1"};
    for (size_t i = 0; i < TEST_COUNT(bad_reals); i++) {
        assert_status(ctx, qkv_train_set(ctx, &o, "rate", bad_reals[i]), QKV_ARGUMENT);
        assert_message(ctx, "must be a number");
    }
    assert_true(o.rate == 3e-4 && o.steps == INT64_C(12345678901));
}

static void presets_bring_their_recipe(void **state) {
    (void)state;
    struct qkv_train_options o;
    const char *name;
    assert_ok(ctx, qkv_train_defaults(ctx, "baby-gpt", &o));
    assert_int_equal(o.batch, 64);
    assert_int_equal(o.steps, 5000);
    for (size_t i = 0; qkv_preset_at(i, &name, NULL); i++) {
        assert_ok(ctx, qkv_train_defaults(ctx, name, &o));
        o.data = "x";
        assert_ok(ctx, qkv_train_check(ctx, &o));
    }
    assert_status(ctx, qkv_train_defaults(ctx, "huge-gpt", &o), QKV_ARGUMENT);
    assert_message(ctx, "huge-gpt");
}

static void impossible_options_are_named(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"steps", "0", "steps is 0; it must be from 1 to 1000000000000000"},
        {"batch", "0", "batch is 0"},
        {"batch", "99999999999", "batch is 99999999999"},
        {"accumulate", "0", "accumulate is 0"},
        {"accumulate", "13", "accumulate is 13 but a batch of 12"},
        {"context", "-1", "context is -1"},
        {"rate", "0", "rate is 0; it must be greater than 0"},
        {"rate", "-0.5", "rate is -0.5"},
        {"rate", "1e39", "rate is 1e39; it must be greater than 0 and at most 3.4e+38"},
        {"min_rate", "-0.5", "min_rate is -0.5"},
        {"min_rate", "2", "min_rate is 2, more than rate"},
        {"warmup", "-3", "warmup is -3"},
        {"beta1", "1", "beta1 is 1"},
        {"beta2", "-0.1", "beta2 is -0.1"},
        {"eps", "0", "eps is 0"},
        {"momentum", "1", "momentum is 1"},
        {"average", "1", "average is 1"},
        {"weight_decay", "-1", "weight_decay is -1"},
        {"clip", "-1", "clip is -1"},
        {"dropout", "1", "dropout is 1"},
        {"dropout", "-0.5", "dropout is -0.5"},
        {"seed", "-1", "seed is -1"},
        {"valid_fraction", "1", "valid_fraction is 1"},
        {"valid_fraction", "-0.1", "valid_fraction is -0.1"},
        {"eval_every", "-1", "eval_every is -1"},
        {"eval_batches", "-1", "eval_batches is -1"},
        {"save_every", "-1", "save_every is -1"},
        {"keep", "0", "keep is 0"},
        {"optimizer", "adm", "optimizer is \"adm\"; it must be adamw, adam, sgd, lion, muon or adafactor"},
        {"schedule", "cos", "schedule is \"cos\"; it must be cosine, linear, constant, inverse_sqrt or wsd"},
        {"data", "", "data has an empty name in it"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct qkv_train_options o;
        assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
        o.data = "text.txt";
        assert_ok(ctx, qkv_train_check(ctx, &o));
        enum qkv_status status = qkv_train_set(ctx, &o, bad[i][0], bad[i][1]);
        assert_status(ctx, status ? status : qkv_train_check(ctx, &o), QKV_ARGUMENT);
        assert_message(ctx, bad[i][2]);
    }
    struct qkv_train_options o = fixture_options(ctx);
    o.data = "";
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "data is missing");
    o = fixture_options(ctx);
    o.rate = NAN;
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
}

/* ---- options that mean something -------------------------------------------------------------------------------- */

static struct qkv_train_options chosen(const char *preset, const char *const *settings) {
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, preset, &o));
    for (; settings[0]; settings += 2) assert_ok(ctx, qkv_train_set(ctx, &o, settings[0], settings[1]));
    return o;
}

static void options_without_effect_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *settings[12], *sentence;
    } bad[] = {
        {{"data", "a", "momentum", "0.9"},
         "momentum is given, but only the optimizers sgd and muon have one; leave it out, or choose"},
        {{"data", "a", "optimizer", "sgd", "beta1", "0.9"}, "beta1 is given, but the optimizer sgd has none"},
        {{"data", "a", "optimizer", "sgd", "beta2", "0.5"}, "beta2 is given, but"},
        {{"data", "a", "schedule", "linear", "decay_share", "0.5"}, "decay_share is given, but only the schedule wsd"},
        {{"data", "a", "optimizer", "sgd", "eps", "1e-8"}, "eps is given, but"},
        {{"data", "a", "optimizer", "lion", "eps", "1e-8"}, "eps is given, but the optimizer lion has none"},
        {{"data", "a", "optimizer", "lion", "momentum", "0.5"}, "momentum is given, but only the optimizers sgd"},
        {{"data", "a", "mask_probability", "0.15"}, "mask_probability is given, but only the task mlm masks tokens"},
        {{"data", "a", "batch_tokens", "100"}, "batch_tokens is given, but the windows of a text are all as long"},
        {{"data", "a", "source_tokenizer", "chars"}, "source_tokenizer is given, but only pairs have sources"},
        {{"data", "a", "valid", "b", "valid_fraction", "0.1"}, "valid_fraction has no place beside a file"},
        {{"data", "a", "schedule", "constant", "min_rate", "1e-4"}, "min_rate is given, but only the schedules cosine"},
        {{"data", "a", "schedule", "inverse_sqrt", "min_rate", "0"},
         "min_rate is given, but only the schedules cosine"},
        {{"data", "a", "valid_fraction", "0", "eval_every", "5"}, "eval_every is given, but nothing is kept"},
        {{"data", "a", "valid_fraction", "0", "eval_batches", "20"}, "eval_batches is given, but nothing is kept"},
        {{"data", "a", "steps", "20", "warmup", "100"},
         "warmup is 100, but steps is 20: the rate would never be reached"},
        {{"data", "a", "steps", "20", "warmup", "20"}, "choose a warmup of less than 20, or more steps"},
        {{"data", "a", "rate", "1e-4", "min_rate", "1e-3"}, "min_rate is 0.001, more than rate, 0.0001"},
        {{"data", "a", "batch", "4", "accumulate", "5"}, "accumulate is 5 but a batch of 4"},
        {{"pairs", "a", "task", "mlm"}, "task mlm learns from a text"},
        {{"data", "a", "metric", "accuracy"}, "metric accuracy needs labelled lines"},
        {{"labeled", "a", "metric", "exact"}, "metric exact needs pairs"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct qkv_train_options o = chosen(NULL, bad[i].settings);
        if (qkv_train_check(ctx, &o) != QKV_ARGUMENT) fail_msg("accepted: %s", bad[i].sentence);
        assert_message(ctx, bad[i].sentence);
    }
    struct qkv_train_options o = chosen(NULL, (const char *const[]){"data", "a", NULL});
    o.momentum = 0.5; /* written by hand */
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "momentum is given");
    qkv_train_unset(&o, "momentum");
    assert_ok(ctx, qkv_train_check(ctx, &o));
}

static void options_with_an_effect_are_accepted(void **state) {
    (void)state;
    static const char *const good[][12] = {
        {"data", "a", "optimizer", "sgd", "momentum", "0.5"},
        {"data", "a", "optimizer", "muon", "momentum", "0.5"},
        {"data", "a", "schedule", "wsd", "min_rate", "0"},
        {"data", "a", "schedule", "wsd", "decay_share", "1"},
        {"data", "a", "optimizer", "adam", "beta1", "0.8", "eps", "1e-7"},
        {"data", "a", "task", "mlm", "mask_probability", "0.3"},
        {"pairs", "a", "batch_tokens", "100", "source_tokenizer", "chars"},
        {"data", "a", "valid", "b", "valid_fraction", "0"},
        {"data", "a", "schedule", "linear", "min_rate", "0"},
        {"data", "a", "schedule", "constant", "min_rate", "-1"},
        {"data", "a", "steps", "20", "warmup", "19"},
        {"data", "a", "steps", "1", "warmup", "0"},
        {"data", "a", "batch_tokens", "0", "patience", "0"},
    };
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        struct qkv_train_options o = chosen(NULL, good[i]);
        assert_ok(ctx, qkv_train_check(ctx, &o));
    }
}

static void defaults_give_way_to_what_was_chosen(void **state) {
    (void)state;
    struct qkv_texts notes = {0};
    struct qkv_train_options o =
        chosen("nano-gpt", (const char *const[]){"data", "a", "rate", "5e-5", "steps", "20", NULL});
    assert_true(o.min_rate == 1e-4 && o.warmup == 100);
    assert_ok(ctx, qkv_train_check(ctx, &o));
    assert_ok(ctx, qkv_train_settle(ctx, &o, NULL, &notes));
    assert_true(o.min_rate == 5e-6 && o.warmup == 2);
    assert_int_equal(notes.count, 2);
    assert_string_equal(notes.items[0], "min_rate is 5e-06 in place of the default 0.0001, as rate is below that");
    assert_string_equal(notes.items[1],
                        "warmup is 2 in place of the default 100, as the run has no more steps than that");
    assert_ok(ctx, qkv_train_check(ctx, &o));
    qkv_texts_free(&notes);
    o = chosen("gpt2-small", (const char *const[]){"data", "a", "batch", "4", NULL});
    assert_ok(ctx, qkv_train_settle(ctx, &o, NULL, &notes));
    assert_int_equal(o.accumulate, 4);
    o = chosen("bert-base", (const char *const[]){"data", "a", "batch", "8", NULL});
    assert_ok(ctx, qkv_train_settle(ctx, &o, NULL, &notes));
    assert_int_equal(o.accumulate, 2); /* parts of four, as in the recipe */
    o = chosen("bert-tiny", (const char *const[]){"labeled", "a", NULL});
    assert_ok(ctx, qkv_train_settle(ctx, &o, NULL, &notes));
    assert_null(o.task);
    o = chosen("text-classifier", (const char *const[]){"labeled", "a", "valid_fraction", "0", NULL});
    assert_ok(ctx, qkv_train_settle(ctx, &o, NULL, &notes));
    assert_string_equal(o.metric, "loss");
    OWNED_SPEC struct qkv_spec tied = {0};
    const char *const tie[] = {"tie=all"};
    assert_ok(ctx, qkv_spec_preset(ctx, &tied, "g2p", tie, 1));
    o = chosen("g2p", (const char *const[]){"pairs", "a", NULL});
    assert_ok(ctx, qkv_train_check_spec(ctx, &o, &tied));
    assert_ok(ctx, qkv_train_settle(ctx, &o, &tied, &notes));
    assert_null(o.source_tokenizer);
    assert_int_equal(notes.count, 5);
    o = chosen("g2p", (const char *const[]){"pairs", "a", "source_tokenizer", "chars", NULL});
    assert_status(ctx, qkv_train_check_spec(ctx, &o, &tied), QKV_ARGUMENT);
    qkv_texts_free(&notes);
}

/* The options in a train.json were accepted once. */
static void recorded_options_need_no_effect(void **state) {
    (void)state;
    const char *folder = fixture_run("recorded");
    struct qkv_train_options o = fixture_options(ctx), back;
    struct qkv_run_facts facts = {.texts.data = {.bytes = 1, .hash = 2, .tokens = 3, .tokenizer = 4, .vocab = 5}}, read;
    o.steps = 4;
    o.warmup = 100;
    o.momentum = 0.5;
    o.valid_fraction = 0;
    o.schedule = "constant";
    o.min_rate = 1e-5;
    assert_status(ctx, qkv_train_check(ctx, &o), QKV_ARGUMENT);
    assert_ok(ctx, qkv_make_folder(ctx, folder));
    assert_ok(ctx, qkv_train_json_write(ctx, folder, &o, &facts));
    assert_ok(ctx, qkv_train_json_read(ctx, folder, &back, &read));
    assert_true(back.warmup == 100 && back.momentum == 0.5 && back.min_rate == 1e-5);
    assert_ok(ctx, qkv_train_check(ctx, &back));
    assert_ok(ctx, qkv_train_set(ctx, &back, "momentum", "0.4"));
    assert_status(ctx, qkv_train_check(ctx, &back), QKV_ARGUMENT);
    qkv_train_unset(&back, "momentum");
    back.momentum = 0.9;
    qkv_train_release(&back);
    qkv_text_files_free(&read.texts.data_files);
}

static void reals_are_written_short_and_read_back(void **state) {
    (void)state;
    char text[QKV_REAL_TEXT];
    double back;
    struct qkv_random random = test_random(1);
    qkv_real_text(text, 0.1);
    assert_string_equal(text, "0.1");
    qkv_real_text(text, 3e-4);
    assert_string_equal(text, "0.0003");
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = qkv_random_bits(&random);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        qkv_real_text(text, x);
        assert_true(qkv_real_parse(text, &back) && back == x);
    }
}

/* ---- learning rate ---------------------------------------------------------------------------------------------- */

static void rate_follows_the_schedule(void **state) {
    (void)state;
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.rate = 1;
    o.min_rate = 0.2;
    o.warmup = 4;
    o.steps = 15; /* the schedule runs over steps 4..14 */
    static const double warm[] = {0.2, 0.4, 0.6, 0.8};
    static const char *const schedules[] = {"cosine", "linear", "constant"};
    for (size_t k = 0; k < 3; k++) {
        o.schedule = schedules[k];
        for (int s = 0; s < 4; s++) assert_close(qkv_learning_rate(&o, NULL, s), warm[s], 1e-12);
        assert_close(qkv_learning_rate(&o, NULL, 4), 1, 1e-12);
    }
    assert_close(qkv_learning_rate(&o, NULL, 14), 1, 1e-12);
    o.schedule = "linear";
    assert_close(qkv_learning_rate(&o, NULL, 9), 0.6, 1e-12);
    assert_close(qkv_learning_rate(&o, NULL, 14), 0.2, 1e-12);
    o.schedule = "wsd", o.decay_share = 0.3; /* 4.5 of 15 steps are 5 */
    for (int s = 4; s <= 9; s++) assert_true(qkv_learning_rate(&o, NULL, s) == 1);
    for (int s = 10; s <= 14; s++) assert_close(qkv_learning_rate(&o, NULL, s), 1 - 0.8 * (s - 9) / 5, 1e-12);
    o.decay_share = 1; /* all that the warm-up leaves */
    assert_close(qkv_learning_rate(&o, NULL, 9), 0.6, 1e-12);
    o.decay_share = 1e-9; /* the last step */
    assert_true(qkv_learning_rate(&o, NULL, 13) == 1);
    assert_close(qkv_learning_rate(&o, NULL, 14), 0.2, 1e-12);
    o.schedule = "cosine";
    assert_close(qkv_learning_rate(&o, NULL, 9), 0.6, 1e-12);
    assert_close(qkv_learning_rate(&o, NULL, 6), 0.2 + 0.4 * (1 + 0.80901699437494745), 1e-12); /* cos 36° */
    assert_close(qkv_learning_rate(&o, NULL, 14), 0.2, 1e-12);
    for (int s = 5; s < 15; s++) assert_true(qkv_learning_rate(&o, NULL, s) < qkv_learning_rate(&o, NULL, s - 1));
    o.min_rate = -1;
    assert_close(qkv_learning_rate(&o, NULL, 14), 0.1, 1e-12);
}

static void warmup_may_outlast_the_run(void **state) {
    (void)state;
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.rate = 1;
    for (o.steps = 1; o.steps < 6; o.steps++) {
        o.warmup = 100;
        for (int64_t s = 0; s < o.steps; s++)
            assert_close(qkv_learning_rate(&o, NULL, s), ((double)s + 1) / 101, 1e-12);
        o.warmup = o.steps - 1;
        assert_close(qkv_learning_rate(&o, NULL, o.steps - 1), 1, 1e-12);
        o.warmup = 0;
        assert_close(qkv_learning_rate(&o, NULL, 0), 1, 1e-12);
        if (o.steps > 1) assert_close(qkv_learning_rate(&o, NULL, o.steps - 1), 0.1, 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_the_defaults_of_the_list),
        cmocka_unit_test(options_are_set_from_text),
        cmocka_unit_test(presets_bring_their_recipe),
        cmocka_unit_test(impossible_options_are_named),
        cmocka_unit_test(reals_are_written_short_and_read_back),
        cmocka_unit_test(rate_follows_the_schedule),
        cmocka_unit_test(warmup_may_outlast_the_run),
        cmocka_unit_test(options_without_effect_are_refused),
        cmocka_unit_test(options_with_an_effect_are_accepted),
        cmocka_unit_test(defaults_give_way_to_what_was_chosen),
        cmocka_unit_test(recorded_options_need_no_effect),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
