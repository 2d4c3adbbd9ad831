/* Training on files of lines, pairs and labelled lines: what a model learns, which model is saved, and early
 * stopping. */
/* labels: numeric */
#include "lines_fixture.h"

/* The target of a word is the word itself. */
static void write_copies(const char *path, size_t count) {
    struct qkv_random random = qkv_random_start(2, 5);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char word[8] = "";
        size_t n = 1 + (size_t)qkv_random_below(&random, 3);
        for (size_t k = 0; k < n; k++) word[k] = (char)('a' + qkv_random_below(&random, 5));
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t%s\n", word, word));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static void copying_is_learnt(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "copies.tsv", 0);
    struct qkv_train_report report;
    write_copies(o.pairs, 2000);
    o.steps = 900;
    o.batch = 32;
    o.rate = 5e-3;
    o.warmup = 50;
    o.beta2 = 0.98;
    o.dropout = 0;
    o.eval_every = 300;
    o.metric = "exact";
    o.label_smoothing = 0.05;
    struct qkv_trainer *t = begin(false, fixture_run("copies"), &o);
    double first = fixture_steps(ctx, t, 1).loss;
    report = fixture_steps(ctx, t, 900);
    print_message("copying: loss %.3f, then %.3f, validation %.3f, exact %.3f\n", first, report.loss, report.valid_loss,
                  report.metric);
    assert_true(report.evaluated && report.loss < 0.3 * first);
    assert_true(report.valid_loss < report.loss); /* the latter is smoothed */
    assert_string_equal(report.metric_name, "exact");
    assert_true(report.metric > 0.2 && report.metric <= 1 && report.best_metric >= report.metric);
    qkv_trainer_free(t);
}

static void labels_are_learnt_and_kept(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(true, "majority.tsv", 1000);
    const char *folder = fixture_run("majority");
    struct qkv_model *model;
    o.steps = 120;
    o.batch = 32;
    o.rate = 5e-3;
    o.dropout = 0;
    o.metric = "accuracy";
    o.eval_every = 60;
    o.eval_batches = 0;
    struct qkv_trainer *t = begin(true, folder, &o);
    struct qkv_train_report report = fixture_steps(ctx, t, 120);
    print_message("majority: accuracy %.3f\n", report.metric);
    assert_true(report.metric > 0.95);
    size_t valid;
    assert_int_equal(qkv_trainer_lines(t, &valid), 900);
    assert_int_equal(valid, 100);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    assert_string_equal(qkv_model_label(model, 0), "less");
    assert_string_equal(qkv_model_label(model, 1), "more");
    assert_null(qkv_model_label(model, 2));
    qkv_model_free(model);
}

static void a_source_has_its_own_tokenizer(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "own.tsv", 50);
    struct qkv_model *model;
    const char *folder = fixture_run("own");
    o.tokenizer = "words";
    o.source_tokenizer = "chars:300";
    struct qkv_trainer *t = begin(false, folder, &o);
    fixture_steps(ctx, t, 8);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    const struct qkv_tokenizer *target = qkv_model_tokenizer(model), *source = qkv_model_source_tokenizer(model);
    assert_true(target != source);
    assert_int_equal(qkv_tokenizer_vocab(source), qkv_model_spec(model)->source_vocab);
    assert_int_equal(qkv_tokenizer_vocab(target), qkv_model_spec(model)->vocab);
    assert_true(qkv_tokenizer_special(source, QKV_TOKEN_END) >= 0 &&
                qkv_tokenizer_special(target, QKV_TOKEN_BEGIN) >= 0);
    qkv_model_free(model);
    OWNED_SPEC struct qkv_spec spec = spec_of(pair_json, "tie=all");
    o.source_tokenizer = NULL;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("shared"), NULL, NULL, &t));
    fixture_steps(ctx, t, 8);
    assert_true(qkv_model_tokenizer(t->model) == qkv_model_source_tokenizer(t->model));
    qkv_trainer_free(t);
    assert_false(fixture_has(test_path("shared"), "source_tokenizer.json"));
    t = resume(test_path("shared"));
    qkv_trainer_free(t);
}

static void patience_ends_a_run(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(true, "patience.tsv", 60);
    const char *folder = fixture_run("patience");
    struct qkv_train_report report = {0}, after;
    o.steps = 200;
    o.rate = 1e-30; /* nothing is learnt, so nothing gets better */
    o.patience = 3;
    struct qkv_trainer *t = begin(true, folder, &o);
    do assert_ok(ctx, qkv_trainer_step(t, &report));
    while (report.step < report.steps);
    assert_true(report.ended && report.saved && report.evaluated);
    assert_int_equal(report.step, 8); /* the first evaluation is the best, three more bring nothing */
    assert_ok(ctx, qkv_trainer_step(t, &after));
    assert_true(after.step == 8 && after.ended && !after.saved);
    qkv_trainer_free(t);
    t = resume(folder);
    assert_ok(ctx, qkv_trainer_step(t, &after));
    assert_true(after.ended && after.step == 8 && after.steps == 8);
    qkv_trainer_free(t);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, &QKV_OPTIONS(qkv_resume_options, .steps = 300), NULL, NULL,
                                      &t)); /* asking for more steps gives more */
    assert_ok(ctx, qkv_trainer_step(t, &after));
    assert_true(!after.ended && after.step == 9 && after.steps == 300);
    qkv_trainer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copying_is_learnt),
        cmocka_unit_test(labels_are_learnt_and_kept),
        cmocka_unit_test(a_source_has_its_own_tokenizer),
        cmocka_unit_test(patience_ends_a_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
