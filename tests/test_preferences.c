/* Learning from preferences: losses and gradients beside float64 (tests/golden/preferences, which
 * make/preference_cases.py made), what holds where model and reference are the same, the same bits on ranks, parts and
 * after resuming, and what is refused. */
/* labels: numeric quick */
#include "rank_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

#define CASES TEST_SOURCE_DIR "/tests/golden/preferences/"
#define MODEL CASES "model"

static struct qkv_train_options options_of(const char *path) {
    struct qkv_train_options o;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    o.preferences = path;
    o.from = MODEL;
    o.steps = 8, o.batch = 4, o.warmup = 0, o.rate = 1e-3, o.eval_every = 2, o.save_every = 4;
    return o;
}

/* ---- beside float64 ---------------------------------------------------------------------------------------------- */

static struct qkv_train_options golden_options(const json_t *made) {
    struct qkv_train_options o = options_of(CASES "pairs.jsonl");
    fixture_no_validation(&o);
    o.preference_loss = json_string_value(json_object_get(made, "loss"));
    o.preference_beta = json_number_value(json_object_get(made, "beta"));
    o.label_smoothing = json_number_value(json_object_get(made, "smoothing"));
    o.rate = json_number_value(json_object_get(made, "rate"));
    o.optimizer = "sgd", o.momentum = 0, o.schedule = "constant", o.weight_decay = 0, o.clip = 0;
    o.batch = 5, o.steps = 4, o.precision = "fp32";
    return o;
}

static void check_golden(const json_t *made, size_t i, int64_t accumulate, int64_t groups) {
    struct qkv_train_options o = golden_options(made);
    struct qkv_trainer *trainer;
    o.accumulate = accumulate, o.groups = groups;
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

/* ---- identities -------------------------------------------------------------------------------------------------- */

/* Pairs that prefer the larger of two numbers. */
static const char *write_pairs(const char *name, size_t count) {
    static char path[1024];
    struct qkv_random random = qkv_random_start(test_seed(), 8);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        const int a = (int)qkv_random_below(&random, 40), b = 41 + (int)qkv_random_below(&random, 40);
        if (i % 2)
            assert_ok(ctx, qkv_buffer_print(ctx, &text,
                                            "{\"prompt\":\"%d or %d?\",\"chosen\":\" %d\",\"rejected\":\" %d\"}\n", a,
                                            b, b, a));
        else
            assert_ok(ctx, qkv_buffer_print(ctx, &text,
                                            "{\"prompt\":[{\"role\":\"user\",\"content\":\"%d %d\"}],"
                                            "\"chosen\":[{\"role\":\"assistant\",\"content\":\"%d\"}],"
                                            "\"rejected\":[{\"role\":\"assistant\",\"content\":\"%d!\"}]}\n",
                                            a, b, b, a));
    }
    snprintf(path, sizeof path, "%s", test_path(name));
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
    return path;
}

/* Before the first step model and reference are the same, so all margins are 0, and no pair is right; margins then
 * rise. */
static void margins_begin_at_0_and_rise(void **state) {
    (void)state;
    static const char *const kinds[] = {"dpo", "ipo"}, *const adapters[] = {NULL,
                                                                            "rank=4,targets=mlp.c_fc,attn.c_proj"};
    const double begins[] = {0.69314718055994531, 1 / (4 * 0.3 * 0.3)};
    const char *path = write_pairs("rise.jsonl", 40);
    for (size_t k = 0; k < 4; k++) {
        struct qkv_train_options o = options_of(path);
        struct qkv_trainer *trainer;
        struct qkv_train_report r = {0};
        o.valid = path; /* the pairs that are learnt */
        o.preference_loss = kinds[k % 2], o.preference_beta = 0.3, o.lora = adapters[k / 2];
        o.metric = "accuracy", o.steps = 20, o.eval_every = 20, o.rate = k / 2 ? 1e-2 : 2e-3;
        assert_ok(ctx, qkv_trainer_create(ctx, NULL, &o, fixture_run("rises"), NULL, NULL, &trainer));
        assert_ok(ctx, qkv_trainer_step(trainer, &r));
        if (!(fabs(r.loss - begins[k % 2]) < 1e-6)) fail_msg("%s begins with %.9g", kinds[k % 2], r.loss);
        r = fixture_steps(ctx, trainer, 20);
        if (!(r.valid_loss < 0.9 * begins[k % 2] && r.metric > 0.5))
            fail_msg("%s: valid loss %g, accuracy %g", kinds[k % 2], r.valid_loss, r.metric);
        qkv_trainer_free(trainer);
    }
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

/* An adapter's run has no weights of a model. */
static void assert_as_the_one(const struct run *run) {
    const char *weights = run->options.lora ? "adapter_model.safetensors" : "model.safetensors";
    char *a = log_numbers(test_path("one")), *b = log_numbers(run->folder);
    assert_same_logs(a, b);
    free(a);
    free(b);
    assert_same_tensors(ctx, test_path("one"), run->folder, "checkpoint.safetensors");
    assert_same_tensors(ctx, test_path("one"), run->folder, "reference.safetensors");
    assert_same_tensors(ctx, test_path("one"), run->folder, weights);
}

static void ranks_and_resuming_change_no_bit(void **state) {
    (void)state;
    static const char *const adapters[] = {NULL, "rank=2,targets=mlp.c_fc,attn.c_proj"};
    for (size_t k = 0; k < TEST_COUNT(adapters); k++) {
        struct run run = {.options = options_of(write_pairs("ranks.jsonl", 30)), .until = 8};
        run.options.groups = 4, run.options.lora = adapters[k];
        make_run_of_one(&run, "several");
        for (int ranks = 2; ranks <= 4; ranks++) {
            run.folder = fixture_run("several");
            expect_run(&run, ranks);
            assert_as_the_one(&run);
        }
        run.folder = fixture_run("several");
        run.until = 3;
        expect_run(&run, 1);
        if (adapters[k]) { /* the reference is the model with the adapter off */
            char path[1100];
            snprintf(path, sizeof path, "%s/reference.safetensors", run.folder);
            assert_int_equal(unlink(path), 0);
        }
        run.until = 8, run.again = true;
        expect_run(&run, adapters[k] ? 1 : 2);
        assert_as_the_one(&run);
    }
}

static void run_with(const char *name, int threads, const struct qkv_train_options *o) {
    struct qkv_context *own = fixture_context(threads);
    struct qkv_trainer *trainer;
    assert_ok(own, qkv_trainer_create(own, NULL, o, fixture_run(name), NULL, NULL, &trainer));
    fixture_steps(own, trainer, 8);
    assert_ok(own, qkv_trainer_save(trainer));
    qkv_trainer_free(trainer);
    qkv_context_free(own);
}

static void threads_and_parts_change_no_bit(void **state) {
    (void)state;
    char one[1024], other[1024];
    struct qkv_train_options o = options_of(write_pairs("threads.jsonl", 30));
    snprintf(one, sizeof one, "%s", test_path("one"));
    snprintf(other, sizeof other, "%s", test_path("other"));
    o.groups = 4;
    run_with("one", 1, &o);
    run_with("other", 3, &o);
    assert_same_runs(ctx, one, other);
    o.accumulate = 3;
    run_with("other", 1, &o);
    assert_same_runs(ctx, one, other);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refuse(const struct qkv_train_options *o, enum qkv_status status, const char *message) {
    const char *folder = fixture_run("refused");
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_create(ctx, NULL, o, folder, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
    assert_false(qkv_file_exists(folder));
}

static void bad_preferences_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"b\"}",
         "bad.jsonl:1: \"chosen\" and \"rejected\" are the same"},
        {"{\"prompt\":\"a\",\"chosen\":\"b\"}", "bad.jsonl:1: \"prompt\" and \"rejected\" must be two texts"},
        {"{\"chosen\":\"b\",\"rejected\":\"c\"}", "bad.jsonl:1: \"prompt\" and \"chosen\" must be two texts"},
        {"[1]", "bad.jsonl:1: the line is a list"},
    };
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path("bad.jsonl"));
    struct qkv_train_options o = options_of(path), x;
    fixture_no_validation(&o);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        test_write_file(path, bad[i].text, strlen(bad[i].text));
        refuse(&o, QKV_FORMAT, bad[i].message);
    }
    assert_null(strstr(qkv_message(ctx), "text")); /* which are no lines of preferences */
    o.preferences = CASES "pairs.jsonl";
    x = o, x.dropout = 0.1;
    refuse(&x, QKV_ARGUMENT, "dropout is given, but preferences are learnt without dropout");
    x = o, x.lora = "rank=2,dropout=0.1,targets=mlp.c_fc";
    refuse(&x, QKV_ARGUMENT, "lora has a dropout, but preferences are learnt without dropout; leave it out");
    x = o, x.preference_loss = "kto";
    refuse(&x, QKV_ARGUMENT, "preference_loss is \"kto\"; it must be dpo or ipo");
    x = o, x.preference_beta = 0;
    refuse(&x, QKV_ARGUMENT, "preference_beta is 0");
    x = o, x.preference_loss = "ipo", x.label_smoothing = 0.1;
    refuse(&x, QKV_ARGUMENT, "label_smoothing is given, but the preference_loss ipo has none");
    x = o, x.preferences = NULL, x.chat = o.preferences, x.preference_beta = 0.2;
    refuse(&x, QKV_ARGUMENT, "preference_beta is given, but only preferences (preferences) have one");
}

static void a_run_without_its_reference_is_refused(void **state) {
    (void)state;
    static const char *const reasons[] = {"with other pairs; restore it", "with other weights (from); restore it"};
    struct run run = {.options = options_of(write_pairs("gone.jsonl", 30)), .until = 3};
    struct qkv_trainer *trainer;
    char *files[3];
    size_t sizes[3];
    for (size_t i = 0; i < 3; i++) { /* the reference of two other runs, then of this one */
        char name[16];
        snprintf(name, sizeof name, "gone-%zu", i);
        run.options.preferences = write_pairs(i ? "gone.jsonl" : "others.jsonl", i ? 30 : 29);
        run.options.from = i == 1 ? TEST_SOURCE_DIR "/tests/golden/teacher/model" : MODEL; /* of the same tokenizer */
        run.folder = fixture_run(name);
        expect_run(&run, 1);
        files[i] = fixture_read(run.folder, "reference.safetensors", &sizes[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        fixture_write(run.folder, "reference.safetensors", files[i], sizes[i]);
        assert_status(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer), QKV_FORMAT);
        assert_message(ctx, reasons[i]);
    }
    fixture_write(run.folder, "reference.safetensors", files[2], sizes[2] - 8);
    for (size_t i = 0; i < 3; i++) free(files[i]);
    assert_status(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer), QKV_FORMAT);
    char path[1100];
    snprintf(path, sizeof path, "%s/reference.safetensors", run.folder);
    assert_int_equal(unlink(path), 0);
    assert_status(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer), QKV_FILE);
    assert_message(ctx, "reference.safetensors");
}

/* Marks of damaged files would be places and numbers of tokens. */
static void damaged_marks_are_refused(void **state) {
    (void)state;
    enum { HEADER = 64, COUNTS = 1, LAST = 2, SECOND = 4 };
    struct run run = {.options = options_of(write_pairs("marks.jsonl", 30)), .until = 3};
    struct qkv_trainer *trainer;
    size_t size = 0;
    run.folder = fixture_run("marks");
    expect_run(&run, 1);
    char *good = fixture_read(run.folder, "tokens.data.beside.bin", &size), *file = malloc(size);
    for (size_t kind = 0; kind < 5; kind++) {
        bool second = false;
        memcpy(file, good, size);
        for (size_t at = HEADER; at + 1 < size; at += 2) { /* 16 bits each */
            second = second || good[at] & SECOND;
            if (kind == 0) file[at] &= ~SECOND;
            if (kind == 1 || (kind == 2 && second) || (kind == 3 && !second)) file[at] &= ~COUNTS;
            if (kind == 4) file[at] |= SECOND;
            if (good[at] & LAST) second = false;
        }
        fixture_write(run.folder, "tokens.data.beside.bin", file, size);
        assert_status(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer), QKV_FORMAT);
        assert_message(ctx, "tokens.data.beside.bin: pair 0 does not have two answers with a token that counts");
    }
    fixture_write(run.folder, "tokens.data.beside.bin", good, size);
    free(good);
    free(file);
    assert_ok(ctx, qkv_trainer_resume(ctx, run.folder, NULL, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_those_of_float64),
        cmocka_unit_test(margins_begin_at_0_and_rise),
        cmocka_unit_test(ranks_and_resuming_change_no_bit),
        cmocka_unit_test(threads_and_parts_change_no_bit),
        cmocka_unit_test(bad_preferences_are_refused),
        cmocka_unit_test(a_run_without_its_reference_is_refused),
        cmocka_unit_test(damaged_marks_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
