/* Learning from files of lines, pairs and labelled ones: the files' errors with their lines, batches that visit every example
 * once an epoch, runs that go on bit for bit, parts of a batch, what is learnt, and when training ends early. */
#include "train_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

#define START "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,"
static const char pair_json[] = START "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}},"
                                      "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
static const char class_json[] = START "\"head\":{\"kind\":\"classify\",\"pool\":\"mean\"},"
                                       "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";

static struct qkv_spec spec_of(const char *json, const char *setting) {
    struct qkv_spec spec;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), &setting, setting ? 1 : 0));
    return spec;
}

/* Random words of a few letters and their reverse; or "more" and "less" by which letter a text has more of. */
static void write_lines(const char *path, size_t count, bool labels, uint64_t seed) {
    struct qkv_random random = qkv_random_start(seed, 5);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        char word[16], back[16];
        size_t n = 2 + (size_t)qkv_random_below(&random, 7), ones = 0;
        for (size_t k = 0; k < n; k++) {
            word[k] = (char)('a' + qkv_random_below(&random, labels ? 2 : 5));
            ones += word[k] == 'a';
        }
        for (size_t k = 0; k < n; k++) back[k] = word[n - 1 - k];
        const char *label = 2 * ones > n ? "more" : "less";
        if (labels)
            assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t%.*s\n", label, (int)n, word));
        else
            assert_ok(ctx, qkv_buffer_print(ctx, &text, "%.*s\t%.*s\n", (int)n, word, (int)n, back));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static struct qkv_train_options options_of(bool labels, const char *name, size_t lines) {
    static char paths[2][1024];
    struct qkv_train_options o;
    char *path = paths[labels];
    snprintf(path, sizeof paths[0], "%s", test_path(name));
    if (lines) write_lines(path, lines, labels, 1);
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &o));
    if (labels)
        o.labeled = path;
    else
        o.pairs = path;
    o.steps = 8;
    o.batch = 8;
    o.warmup = 2;
    o.eval_every = 2;
    o.eval_batches = 2;
    o.save_every = 4;
    o.dropout = 0.1;
    return o;
}

static struct qkv_trainer *begin(bool labels, const char *folder, const struct qkv_train_options *o) {
    struct qkv_spec spec = spec_of(labels ? class_json : pair_json, NULL);
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, o, folder, NULL, NULL, &trainer));
    return trainer;
}

static void refuse(const char *json, const char *setting, const struct qkv_train_options *o, enum qkv_status status,
                   const char *message) {
    const char *folder = fixture_run("refused");
    struct qkv_spec spec = spec_of(json, setting);
    struct qkv_trainer *trainer;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, o, folder, NULL, NULL, &trainer), status);
    assert_null(trainer);
    assert_message(ctx, message);
    assert_false(qkv_file_exists(folder));
}

/* ---- files ------------------------------------------------------------------------------------------------------------------ */

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
    refuse(pair_json, "vocab=9", &o, QKV_SPEC, "vocab is 9 but the tokenizer has");
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

/* ---- batches ------------------------------------------------------------------------------------------------------------------ */

/* Steps of an epoch visit every example once; lengths in a batch differ as little as they can; limits hold. */
static void an_epoch_visits_every_example_once(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "pairs.tsv", 300);
    o.batch = 0;
    o.batch_tokens = 60;
    struct qkv_trainer *t = begin(false, fixture_run("epochs"), &o);
    size_t count = t->lines.batches.count, examples = t->lines.batches.examples;
    assert_int_equal(examples, 270);
    unsigned char *seen = calloc(300, 1);
    uint32_t *first = malloc(examples * sizeof *first);
    size_t at = 0, moved = 0;
    for (uint64_t step = 0; step < 2 * count; step++) {
        size_t b = qkv_batches_at_step(&t->lines.batches, 7, step);
        const struct qkv_pass_shape *shape = &t->lines.batches.shapes[b];
        size_t longest = shape->T > shape->source_T ? shape->T : shape->source_T;
        assert_true(shape->B * longest <= 60 && shape->B == t->lines.batches.cut[b + 1] - t->lines.batches.cut[b]);
        for (size_t r = 0; r < shape->B; r++) {
            uint32_t i = t->lines.batches.order[t->lines.batches.cut[b] + r];
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
        size_t b = qkv_batches_at_step(&t->lines.batches, 7, step);
        uint32_t row = t->lines.batches.order[t->lines.batches.cut[b]];
        qkv_batches_at_step(&t->lines.batches, 7, step + 5 * count);
        assert_int_equal(qkv_batches_at_step(&t->lines.batches, 7, step), b);
        assert_int_equal(t->lines.batches.order[t->lines.batches.cut[b]], row);
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
    o.steps = t->options.steps = (int64_t)t->lines.batches.count;
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

/* ---- going on ------------------------------------------------------------------------------------------------------------------ */

static void assert_same_file(const char *a, const char *b, const char *name) {
    size_t n, m;
    char *x = fixture_read(a, name, &n), *y = fixture_read(b, name, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static struct qkv_trainer *resume(const char *folder) {
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, 0, NULL, NULL, &trainer));
    return trainer;
}

/* Weights and moments; the metadata has times. */
static void assert_same_checkpoints(struct qkv_trainer *a, struct qkv_trainer *b) {
    struct qkv_model *x = qkv_trainer_model(a), *y = qkv_trainer_model(b);
    assert_int_equal(qkv_model_parameters(x), qkv_model_parameters(y));
    for (size_t i = 0; i < qkv_model_parameters(x); i++) {
        size_t n = qkv_array_elements(qkv_model_parameter(x, i)) * sizeof(float);
        assert_memory_equal(qkv_model_weights(x, i), qkv_model_weights(y, i), n);
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
    assert_status(ctx, qkv_trainer_resume(ctx, folder, 0, NULL, NULL, &other), QKV_FORMAT);
    assert_message(ctx, "has changed since the run began");
    write_lines(o.labeled, 60, true, 1);
    fixture_write(folder, "labels.txt", "less\nmuch\n", 10);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, 0, NULL, NULL, &other), QKV_FORMAT);
    assert_message(ctx, "labels.txt does not hold the labels that this run was trained with");
}

static void damaged_examples_are_refused(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(false, "going.tsv", 60);
    const char *folder = fixture_run("damaged");
    struct qkv_trainer *t = begin(false, folder, &o);
    int32_t end = t->lines.examples.beside_end;
    qkv_trainer_free(t);
    size_t n;
    char *data = fixture_read(folder, "tokens.data.beside.bin", &n);
    uint16_t id = (uint16_t)end, letter = 0;
    memcpy(data + n - 2, &letter, 2);
    fixture_write(folder, "tokens.data.beside.bin", data, n);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, 0, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "the last sequence has no end");
    memcpy(data + n - 2, &id, 2);
    memcpy(data + n - 4, &id, 2);
    fixture_write(folder, "tokens.data.beside.bin", data, n);
    assert_status(ctx, qkv_trainer_resume(ctx, folder, 0, NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "remove both, and they are made again");
    free(data);
}

/* ---- learning ------------------------------------------------------------------------------------------------------------------- */

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
    struct qkv_spec spec = spec_of(pair_json, "tie=all");
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
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, 300, NULL, NULL, &t)); /* whoever asks for more gets more */
    assert_ok(ctx, qkv_trainer_step(t, &after));
    assert_true(!after.ended && after.step == 9 && after.steps == 300);
    qkv_trainer_free(t);
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
        cmocka_unit_test(copying_is_learnt),
        cmocka_unit_test(labels_are_learnt_and_kept),
        cmocka_unit_test(a_source_has_its_own_tokenizer),
        cmocka_unit_test(patience_ends_a_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
