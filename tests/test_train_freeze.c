/* Runs with frozen weights: these stay as they began, the run resumes exactly, and its record and checkpoint name
 * them. */
/* labels: numeric quick */
#include "train_same.h"
#include "weights.h"

#include "io/safetensors.h"

/* Two patterns; the embedding stays with them. */
static struct qkv_train_options freeze_options(struct qkv_context *ctx) {
    struct qkv_train_options options = fixture_options(ctx);
    assert_ok(ctx, qkv_train_set(ctx, &options, "freeze", "*embed*"));
    assert_ok(ctx, qkv_train_set(ctx, &options, "freeze", "decoder.layers.0.attn.?.weight"));
    return options;
}

static bool freeze_is(const char *name) {
    return strstr(name, "embed") || (strstr(name, "layers.0.attn.") && strstr(name, "weight"));
}

/* Frozen tensors of two checkpoints have the same bits and no moments, the others differ and have them. */
static void freeze_compare(struct qkv_context *ctx, const char *begun, const char *folder) {
    struct qkv_tensors *a, *b;
    char path[2048], name[256];
    size_t frozen = 0;
    snprintf(path, sizeof path, "%s/first.safetensors", begun);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &a));
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    assert_ok(ctx, qkv_tensors_open(ctx, path, &b));
    for (size_t i = 0; i < qkv_tensors_count(b); i++) {
        const struct qkv_array *x = qkv_tensors_at(b, i), *y = qkv_tensors_find(a, x->name);
        if (!strncmp(x->name, "optimizer.", 10)) continue;
        assert_non_null(y);
        snprintf(name, sizeof name, "optimizer.v.%s", x->name);
        assert_true((qkv_tensors_find(b, name) != NULL) == !freeze_is(x->name));
        assert_true(!memcmp(x->data, y->data, x->bytes) == freeze_is(x->name));
        frozen += freeze_is(x->name);
    }
    assert_int_equal(frozen, 6);
    qkv_tensors_close(a);
    qkv_tensors_close(b);
}

static void a_run_with_frozen_weights_goes_on_exactly(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options = freeze_options(ctx);
    char whole[1024], cut[1024];
    size_t size;
    snprintf(whole, sizeof whole, "%s", fixture_run("whole"));
    snprintf(cut, sizeof cut, "%s", fixture_run("cut"));
    struct qkv_trainer *t = fixture_begin(ctx, whole, &options);
    assert_non_null(strstr(qkv_trainer_note(t, 0), "6 of 36 weights are frozen"));
    char *first = fixture_read(whole, "checkpoint.safetensors", &size);
    fixture_write(whole, "first.safetensors", first, size);
    free(first);
    fixture_steps(ctx, t, 6);
    qkv_trainer_free(t);
    freeze_compare(ctx, whole, whole);
    t = fixture_begin(ctx, cut, &options);
    fixture_steps(ctx, t, 3);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_trainer_resume(ctx, cut, NULL, NULL, NULL, &t));
    fixture_steps(ctx, t, 6);
    qkv_trainer_free(t);
    assert_same_runs(ctx, whole, cut);
    qkv_context_free(ctx);
}

static void the_record_of_what_is_frozen_belongs_to_the_run(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options options = freeze_options(ctx);
    static const char list[] = "[\"*embed*\",";
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", fixture_run("record"));
    struct qkv_trainer *t = fixture_begin(ctx, folder, &options);
    fixture_steps(ctx, t, 3);
    qkv_trainer_free(t);
    const char *const other[] = {"freeze=head*"};
    const struct qkv_resume_options changes = {.size = sizeof changes, .settings = other, .setting_count = 1};
    assert_status(ctx, qkv_trainer_resume(ctx, folder, &changes, NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "freeze cannot change when a run goes on");
    char *json = fixture_read(folder, "train.json", NULL), *at = strstr(json, "\"freeze\"");
    assert_non_null(at);
    at = strstr(at, "*embed*");
    assert_true(at && sizeof list > 1);
    memcpy(at, "*norm.*", 7); /* by hand */
    fixture_write(folder, "train.json", json, strlen(json));
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "has other options than the checkpoint was trained with");
    free(json);
    qkv_context_free(ctx);
}

static void patterns_that_match_nothing_or_all_are_refused_before_a_folder_is_made(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    static const struct {
        const char *pattern, *message;
    } cases[] = {
        {"decoder.layer.*", "no weight has a name like \"decoder.layer.*\"; the model has 36, such as decoder."},
        {"", "no weight has a name like \"\""},
        {"*", "freeze leaves none of the 36 weights to learn"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_train_options options = fixture_options(ctx);
        OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
        struct qkv_trainer *t;
        char folder[1024];
        snprintf(folder, sizeof folder, "%s", fixture_run("refused"));
        assert_ok(ctx, qkv_train_set(ctx, &options, "freeze", cases[i].pattern));
        assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &t), QKV_ARGUMENT);
        assert_message(ctx, cases[i].message);
        assert_false(qkv_file_exists(folder));
    }
    struct qkv_train_options options = fixture_options(ctx);
    for (size_t i = 0; i < QKV_FILES_MAX; i++) assert_ok(ctx, qkv_train_set(ctx, &options, "freeze", "*embed*"));
    assert_status(ctx, qkv_train_set(ctx, &options, "freeze", "*embed*"), QKV_ARGUMENT);
    assert_message(ctx, "freeze has more than 64 patterns");
    qkv_context_free(ctx);
}

/* ---- rates ------------------------------------------------------------------------------------------------------ */

/* Plain gradient descent, so that a step is as long as its rate. */
static struct qkv_train_options rate_options(struct qkv_context *ctx) {
    struct qkv_train_options o = fixture_options(ctx);
    fixture_no_validation(&o);
    o.optimizer = "sgd", o.momentum = 0, o.weight_decay = 0, o.schedule = "constant", o.warmup = 0, o.rate = 0.5;
    o.precision = "fp32";
    return o;
}

/* The weights before and after a step, one after the other. */
static void rate_step(struct qkv_context *ctx, const struct qkv_train_options *o, float *before, float *after) {
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("rates"), o);
    const struct qkv_model *m = qkv_trainer_model(t);
    for (int k = 0; k < 2; k++) {
        float *to = k ? after : before;
        for (size_t i = 0; i < qkv_model_parameters(m); i++) {
            const size_t n = qkv_array_elements(qkv_model_parameter(m, i));
            memcpy(to, test_weights(m, i), n * sizeof *to);
            to += n;
        }
        if (!k) fixture_steps(ctx, t, 1);
    }
    qkv_trainer_free(t);
}

/* "*.bias=0.5", "*norm*=2", "decoder.layers.1.ffn_norm.bias=0.25": the last that names a weight counts. */
static double rate_of(const char *name) {
    if (!strcmp(name, "decoder.layers.1.ffn_norm.bias")) return 0.25;
    return strstr(name, "norm") ? 2 : strstr(name, ".bias") ? 0.5 : 1;
}

static void weights_learn_at_the_rate_of_the_last_pattern_that_names_them(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options o = rate_options(ctx);
    enum { MOST = 1 << 16 };
    float *x = calloc(4 * MOST, sizeof *x), *before = x, *after = x + MOST, *rated_before = x + 2 * MOST,
          *rated = x + 3 * MOST;
    rate_step(ctx, &o, before, after);
    assert_ok(ctx, qkv_train_set(ctx, &o, "rates", "*.bias=0.5"));
    assert_ok(ctx, qkv_train_set(ctx, &o, "rates", "*norm*=2"));
    assert_ok(ctx, qkv_train_set(ctx, &o, "rates", "decoder.layers.1.ffn_norm.bias=0.25"));
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("noted"), &o);
    assert_string_equal(qkv_trainer_note(t, 0), "9 of 36 weights learn with 2 times the rate");
    const struct qkv_model *run = qkv_trainer_model(t);
    rate_step(ctx, &o, rated_before, rated);
    size_t at = 0, kinds[3] = {0};
    for (size_t i = 0; i < qkv_model_parameters(run); i++) {
        const struct qkv_array *w = qkv_model_parameter(run, i);
        const double rate = rate_of(w->name);
        double length = 0, off = 0, size = 0;
        for (size_t k = 0; k < qkv_array_elements(w); k++, at++) {
            const double step = (double)after[at] - (double)before[at];
            assert_true(before[at] == rated_before[at]);
            length += step * step;
            size += (double)after[at] * (double)after[at];
            off += pow((double)rated[at] - (double)before[at] - rate * step, 2);
        }
        /* Gradients of keys' biases nearly vanish. */
        if (strstr(w->name, "attn.k.bias")) continue;
        if (!(sqrt(off) <= 1e-4 * sqrt(length) + 2e-7 * sqrt(size) && sqrt(length) > 20e-7 * sqrt(size)))
            fail_msg("%s: %g, %g", w->name, sqrt(off), sqrt(length));
        kinds[rate == 1 ? 0 : rate == 2 ? 1 : 2]++;
    }
    assert_true(at <= MOST && kinds[0] && kinds[1] && kinds[2]);
    free(x);
    qkv_trainer_free(t);
    qkv_context_free(ctx);
}

static void a_run_with_rates_goes_on_exactly_and_keeps_them(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options o = fixture_options(ctx);
    char whole[1024], cut[1024];
    assert_ok(ctx, qkv_train_set(ctx, &o, "rates", "*embed*=0.125"));
    snprintf(whole, sizeof whole, "%s", fixture_run("whole"));
    snprintf(cut, sizeof cut, "%s", fixture_run("cut"));
    struct qkv_trainer *t = fixture_begin(ctx, whole, &o);
    fixture_steps(ctx, t, 6);
    qkv_trainer_free(t);
    t = fixture_begin(ctx, cut, &o);
    fixture_steps(ctx, t, 3);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_trainer_resume(ctx, cut, NULL, NULL, NULL, &t));
    fixture_steps(ctx, t, 6);
    qkv_trainer_free(t);
    assert_same_runs(ctx, whole, cut);
    qkv_context_free(ctx);
}

static void rates_that_make_no_sense_are_refused(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    static const struct {
        const char *rate, *message;
    } cases[] = {
        {"*embed*", "rates: \"*embed*\" is not PATTERN=X"},
        {"*embed*=fast", "rates: \"*embed*=fast\" is not PATTERN=X"},
        {"*embed*=0", "rates: \"*embed*=0\" must have a number greater than 0"},
        {"*embed*=-1", "must have a number greater than 0"},
        {"*embed*=1e7", "the rate of \"*embed*\" is 10000000; it must be greater than 0 and at most 1000000"},
        {"embeds=0.5", "no weight has a name like \"embeds\""},
        {"*position*=0.5", "rates: all weights like \"*position*\" are frozen"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_train_options o = fixture_options(ctx);
        OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
        struct qkv_trainer *t;
        char folder[1024];
        snprintf(folder, sizeof folder, "%s", fixture_run("refused"));
        assert_ok(ctx, qkv_train_set(ctx, &o, "freeze", "*position*"));
        assert_ok(ctx, qkv_train_set(ctx, &o, "rates", cases[i].rate));
        assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &t), QKV_ARGUMENT);
        assert_message(ctx, cases[i].message);
        assert_false(qkv_file_exists(folder));
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_frozen_weights_goes_on_exactly),
        cmocka_unit_test(the_record_of_what_is_frozen_belongs_to_the_run),
        cmocka_unit_test(patterns_that_match_nothing_or_all_are_refused_before_a_folder_is_made),
        cmocka_unit_test(weights_learn_at_the_rate_of_the_last_pattern_that_names_them),
        cmocka_unit_test(a_run_with_rates_goes_on_exactly_and_keeps_them),
        cmocka_unit_test(rates_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
