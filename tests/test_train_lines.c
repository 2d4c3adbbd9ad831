/* Training on files of lines, pairs and labelled lines: errors of the files with their lines, batches that visit
 * every example once an epoch, resuming bit for bit, and parts of a batch. test_train_learns.c tests what is
 * learned. */
/* labels: numeric quick */
#include "lines_fixture.h"
#include "weights.h"

#include <signal.h>
#include <sys/wait.h>

static void refuse(const char *json, const char *setting, const struct qkv_train_options *o, enum qkv_status status,
                   const char *message) {
    const char *folder = fixture_run("refused");
    OWNED_SPEC struct qkv_spec spec = spec_of(json, setting);
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, o, folder, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
    assert_false(qkv_file_exists(folder));
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static void bad_lines_are_refused_with_their_number(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"ab\tba\n\nabc\n", "bad.tsv:3: no tab in this line; write a source, a tab and a target"},
        {"ab\tba\nab\tb\ta\n", "bad.tsv:2: more than one tab"},
        {"\tba\n", "bad.tsv:1: the source is empty"},
        {"ab\tba\nab\t \n", "bad.tsv:2: the target is empty"},
        {"ab\tba\nabcdefghijklmnop\tb\n", "bad.tsv:2: the source has 17 tokens with the </s> at its end, more than the "
                                          "context of 16; shorten or remove the line, or choose a larger context"},
        {"ab\tba\n\nab\tabcdefghijklmnop\n", "bad.tsv:3: the target has 17 tokens with the <s> before it"},
        {"", "bad.tsv is empty"},
        {"\n \n", "bad.tsv is empty"},
    };
    struct qkv_train_options o = options_of(false, "bad.tsv", 0);
    fixture_no_validation(&o);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        test_write_file(o.pairs, bad[i].text, strlen(bad[i].text));
        refuse(pair_json, NULL, &o, QKV_FORMAT, bad[i].message);
    }
    struct qkv_train_options good = options_of(false, "pairs.tsv", 40);
    good.valid = test_path("bad.tsv");
    test_write_file(good.valid, "ab\n", 3);
    refuse(pair_json, NULL, &good, QKV_FORMAT, "bad.tsv:1: no tab");
    good.valid = NULL;
    good.pairs = test_path("nowhere.tsv");
    refuse(pair_json, NULL, &good, QKV_FILE, "nowhere.tsv");
}

static void bad_labels_are_refused(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(true, "labels.tsv", 40);
    char valid[1024];
    snprintf(valid, sizeof valid, "%s", test_path("valid.tsv"));
    o.valid = valid;
    test_write_file(valid, "more\taab\nworse\tab\n", 18);
    refuse(class_json, NULL, &o, QKV_FORMAT,
           "valid.tsv:2: the label \"worse\" does not occur in training; the known ones are less, more");
    test_write_file(valid, "more\taaaaaaaaaaaaaaa\n", 21);
    refuse(class_json, NULL, &o, QKV_FORMAT, "valid.tsv:1: the text has 17 tokens with <s> and </s>");
    test_write_file(valid, "more\taa\n", 8);
    refuse(class_json, "head.classes=3", &o, QKV_SPEC, "head.classes is 3 but");
    o.labeled = valid;
    refuse(class_json, NULL, &o, QKV_FORMAT, "every line has the label \"more\"");
}

static void models_and_options_must_suit(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "pairs.tsv", 40), l = options_of(true, "labels.tsv", 40), x;
    refuse(pair_json, "encoder=null", &o, QKV_SPEC, "this model has no encoder; choose an encoder–decoder");
    refuse(pair_json, "decoder=null", &o, QKV_SPEC, "this model has no decoder");
    refuse(pair_json, "decoder.attention.causal=false", &o, QKV_SPEC, "pairs need a causal decoder");
    refuse(pair_json, "vocab=99", &o, QKV_SPEC, "vocab is 99 but the tokenizer has");
    refuse(pair_json, NULL, &l, QKV_SPEC, "labelled lines need head.kind classify");
    x = o;
    x.source_tokenizer = "chars";
    refuse(pair_json, "tie=all", &x, QKV_ARGUMENT, "source_tokenizer is given, but with tie all");
    x = o;
    x.data = o.pairs;
    refuse(pair_json, NULL, &x, QKV_ARGUMENT, "data and pairs exclude each other");
    x = o;
    x.task = "mlm";
    refuse(pair_json, NULL, &x, QKV_ARGUMENT, "task mlm learns from a text");
    x = o;
    x.metric = "accuracy";
    refuse(pair_json, NULL, &x, QKV_ARGUMENT, "metric accuracy needs labelled lines");
    x = l;
    x.metric = "exact";
    refuse(class_json, NULL, &x, QKV_ARGUMENT, "metric exact needs pairs");
    x.metric = "beauty";
    refuse(class_json, NULL, &x, QKV_ARGUMENT, "metric is \"beauty\"; it must be loss, accuracy, exact or token_error");
    x = l;
    x.patience = 2;
    x.valid_fraction = 0;
    refuse(class_json, NULL, &x, QKV_ARGUMENT, "patience needs something to validate on");
    x = l;
    x.batch_tokens = 5;
    refuse(class_json, NULL, &x, QKV_ARGUMENT, "batch_tokens is 5 but the longest line of");
    x = l;
    x.valid_fraction = 0.001;
    refuse(class_json, NULL, &x, QKV_ARGUMENT, "keeps none for validation");
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* Steps of an epoch visit every example once; lengths in a batch differ as little as they can; limits hold. */
static void an_epoch_visits_every_example_once(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "pairs.tsv", 300);
    o.batch = 0;
    o.batch_tokens = 60;
    struct qkv_trainer *t = begin(false, fixture_run("epochs"), &o);
    size_t count = t->data.lines.batches.count, examples = t->data.lines.batches.examples;
    assert_int_equal(examples, 270);
    unsigned char *seen = calloc(300, 1);
    uint32_t *first = malloc(examples * sizeof *first);
    size_t at = 0, moved = 0;
    for (uint64_t step = 0; step < 2 * count; step++) {
        size_t b = qkv_batches_at_step(&t->data.lines.batches, 7, step);
        const struct qkv_pass_shape *shape = &t->data.lines.batches.shapes[b];
        size_t longest = shape->T > shape->source_T ? shape->T : shape->source_T;
        assert_true(shape->B * longest <= 60 &&
                    shape->B == t->data.lines.batches.cut[b + 1] - t->data.lines.batches.cut[b]);
        for (size_t r = 0; r < shape->B; r++) {
            uint32_t i = t->data.lines.batches.order[t->data.lines.batches.cut[b] + r];
            assert_true(i < 270);
            seen[i]++;
            if (step < count)
                first[at++] = i;
            else
                moved += first[at++ - examples] != i;
        }
        if (step == count - 1) assert_int_equal(at, examples);
    }
    for (size_t i = 0; i < 270; i++) assert_int_equal(seen[i], 2);
    assert_true(moved > 200);        /* another epoch, another order */
    for (size_t k = 0; k < 5; k++) { /* a place is a function of seed and step, wherever one came from */
        uint64_t step = (k * 97) % (3 * count);
        size_t b = qkv_batches_at_step(&t->data.lines.batches, 7, step);
        uint32_t row = t->data.lines.batches.order[t->data.lines.batches.cut[b]];
        qkv_batches_at_step(&t->data.lines.batches, 7, step + 5 * count);
        assert_int_equal(qkv_batches_at_step(&t->data.lines.batches, 7, step), b);
        assert_int_equal(t->data.lines.batches.order[t->data.lines.batches.cut[b]], row);
    }
    free(seen);
    free(first);
    qkv_trainer_free(t);
}

/* No batch of a run asks for more memory than was planned. */
static void plans_hold_every_shape(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "pairs.tsv", 300);
    o.batch = 0;
    o.batch_tokens = 64;
    o.accumulate = 3;
    struct qkv_trainer *t = begin(false, fixture_run("shapes"), &o);
    size_t bytes = qkv_pass_bytes(t->pass), all = qkv_trainer_bytes(t);
    o.steps = t->options.steps = (int64_t)t->data.lines.batches.count;
    fixture_steps(ctx, t, o.steps);
    assert_int_equal(qkv_pass_bytes(t->pass), bytes);
    assert_int_equal(qkv_trainer_bytes(t), all);
    qkv_trainer_free(t);
}

static double step_norm(bool labels, const char *folder, const struct qkv_train_options *o, double *loss) {
    struct qkv_train_report report;
    struct qkv_trainer *t = begin(labels, fixture_run(folder), o);
    assert_ok(ctx, qkv_trainer_step(t, &report));
    *loss = report.loss;
    qkv_trainer_free(t);
    return report.norm;
}

static void parts_of_a_batch_give_its_gradient(void **state) {
    (void)state;
    for (int labels = 0; labels < 2; labels++) {
        struct qkv_train_options o = options_of(labels, labels ? "labels.tsv" : "pairs.tsv", 100);
        double whole, parts, a, b;
        o.dropout = 0;
        o.label_smoothing = 0.1;
        a = step_norm(labels, "whole", &o, &whole);
        o.accumulate = 3;
        b = step_norm(labels, "parts", &o, &parts);
        assert_close(whole, parts, 1e-5);
        assert_close(a, b, 1e-4 * a);
    }
}

/* ---- going on --------------------------------------------------------------------------------------------------- */

static void assert_same_file(const char *a, const char *b, const char *name) {
    size_t n, m;
    char *x = fixture_read(a, name, &n), *y = fixture_read(b, name, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* Weights and moments; the metadata has times. */
static void assert_same_checkpoints(struct qkv_trainer *a, struct qkv_trainer *b) {
    struct qkv_model *x = qkv_trainer_model(a), *y = qkv_trainer_model(b);
    assert_int_equal(qkv_model_parameters(x), qkv_model_parameters(y));
    for (size_t i = 0; i < qkv_model_parameters(x); i++) {
        size_t n = qkv_array_elements(qkv_model_parameter(x, i)) * sizeof(float);
        assert_memory_equal(test_weights(x, i), test_weights(y, i), n);
    }
    assert_true(a->report.valid_loss == b->report.valid_loss && a->report.best_metric == b->report.best_metric);
    assert_true(a->report.loss == b->report.loss && a->stale == b->stale);
}

/* Steps in a child that is killed somewhere between two checkpoints. */
static void run_and_be_killed(const char *folder, int64_t steps) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct qkv_trainer *t = resume(folder);
        for (int64_t i = 0; i < steps; i++) qkv_trainer_step(t, NULL);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void resuming_changes_no_bit(void **state) {
    (void)state;
    for (int labels = 0; labels < 2; labels++) {
        struct qkv_train_options o = options_of(labels, "going.tsv", 60);
        const char *whole = fixture_run("whole"), *parts = fixture_run("parts");
        o.batch_tokens = 40;
        o.steps = 20;
        o.metric = labels ? "accuracy" : "token_error";
        struct qkv_trainer *a = begin(labels, whole, &o), *b = begin(labels, parts, &o);
        fixture_steps(ctx, a, 20);
        fixture_steps(ctx, b, 4);
        qkv_trainer_free(b);
        run_and_be_killed(parts, 3);                                /* the checkpoint of step 4 is the latest */
        assert_int_equal(unlink(o.pairs ? o.pairs : o.labeled), 0); /* the originals are not needed any more */
        b = resume(parts);
        assert_int_equal(b->report.step, 4);
        fixture_steps(ctx, b, 12);
        qkv_trainer_free(b);
        b = resume(parts);
        fixture_steps(ctx, b, 20);
        assert_same_checkpoints(a, b);
        qkv_trainer_free(a);
        qkv_trainer_free(b);
        assert_same_file(whole, parts, "model.safetensors");
        assert_same_file(whole, parts, "tokens.data.beside.bin");
    }
}

static void lost_token_files_are_made_again(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(true, "going.tsv", 60);
    const char *folder = fixture_run("lost");
    char path[1024];
    struct qkv_trainer *t = begin(true, folder, &o), *other;
    qkv_trainer_free(t);
    size_t n, m;
    char *before = fixture_read(folder, "tokens.data.beside.bin", &n);
    snprintf(path, sizeof path, "%s/tokens.data.beside.bin", folder);
    assert_int_equal(unlink(path), 0);
    qkv_trainer_free(resume(folder));
    char *after = fixture_read(folder, "tokens.data.beside.bin", &m);
    assert_true(n == m && memcmp(before, after, n) == 0);
    free(before);
    free(after);
    assert_int_equal(unlink(path), 0);
    write_lines(o.labeled, 61, true, 3);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &other), QKV_FORMAT);
    assert_message(ctx, "has changed since the run began");
    write_lines(o.labeled, 60, true, 1);
    fixture_write(folder, "labels.txt", "less\nmuch\n", 10);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &other), QKV_FORMAT);
    assert_message(ctx, "labels.txt does not hold the labels that this run was trained with");
}

static void damaged_examples_are_refused(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "going.tsv", 60);
    const char *folder = fixture_run("damaged");
    struct qkv_trainer *t = begin(false, folder, &o);
    int32_t end = t->data.lines.examples.beside_end;
    qkv_trainer_free(t);
    size_t n;
    char *data = fixture_read(folder, "tokens.data.beside.bin", &n);
    uint16_t id = (uint16_t)end, letter = 0;
    memcpy(data + n - 2, &letter, 2);
    fixture_write(folder, "tokens.data.beside.bin", data, n);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "the last sequence has no end");
    memcpy(data + n - 2, &id, 2);
    memcpy(data + n - 4, &id, 2);
    fixture_write(folder, "tokens.data.beside.bin", data, n);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "remove both, and they are made again");
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_lines_are_refused_with_their_number),
        cmocka_unit_test(bad_labels_are_refused),
        cmocka_unit_test(models_and_options_must_suit),
        cmocka_unit_test(an_epoch_visits_every_example_once),
        cmocka_unit_test(plans_hold_every_shape),
        cmocka_unit_test(parts_of_a_batch_give_its_gradient),
        cmocka_unit_test(resuming_changes_no_bit),
        cmocka_unit_test(lost_token_files_are_made_again),
        cmocka_unit_test(damaged_examples_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
