/* Training on rows of a text with several documents, or with a prefix: which targets count, parts and threads that
 * change no bit, resuming, validation, and refusals. */
/* labels: numeric */
#include "train_fixture.h"

#include <math.h>

static struct qkv_context *ctx;
static char text[1024];

static int setup(void **state) {
    (void)state;
    ctx = fixture_context(1);
    snprintf(text, sizeof text, "%s", test_path("documents.txt"));
    struct qkv_random random = test_random(1);
    struct qkv_buffer all = {0};
    while (all.size < 5000) { /* documents of 0 to 9 words; the tokenizer learns from a text that names the end token */
        for (uint64_t n = qkv_random_below(&random, 10); n > 0; n--)
            assert_ok(ctx, qkv_buffer_print(ctx, &all, "%s ", n % 3 ? "the cat" : "a dog ran"));
        assert_ok(ctx, qkv_buffer_print(ctx, &all, "<|endoftext|>"));
    }
    test_write_file(text, all.data, all.size);
    qkv_buffer_free(&all);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

enum form { DOCUMENTS, RANDOM_PREFIX, FIVE, FORMS };

static struct qkv_train_options options_of(enum form form) {
    struct qkv_train_options o = fixture_options_on(ctx, text);
    o.tokenizer = "bpe:300";
    o.documents = form == DOCUMENTS;
    o.prefix = form == RANDOM_PREFIX ? "random" : form == FIVE ? "5" : NULL;
    return o;
}

static int32_t end_of(const struct qkv_trainer *t) {
    return qkv_tokenizer_special(qkv_model_tokenizer(t->model), "<|endoftext|>");
}

/* Written out: what one window of T tokens and the one behind it says of a row. Returns the targets that count. */
static size_t expect_row(enum form form, int32_t end, const int32_t *ids, size_t T, int32_t prefix, int32_t *targets,
                         int32_t *documents) {
    size_t counted = 0;
    for (size_t t = 0; t < T; t++) {
        documents[t] = 0;
        for (size_t k = 0; k < t; k++) documents[t] += ids[k] == end;
        const bool first_of_next = ids[t] == end, inside = t + 1 < (size_t)prefix;
        targets[t] = (form == DOCUMENTS ? first_of_next : inside) ? QKV_IGNORE : ids[t + 1];
        counted += targets[t] != QKV_IGNORE;
    }
    return counted;
}

static void rows_say_which_targets_count(void **state) {
    (void)state;
    for (enum form form = 0; form < FORMS; form++) {
        struct qkv_train_options o = options_of(form);
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("rows"), &o);
        const size_t T = t->data.T;
        size_t seen = 0;
        for (uint64_t step = 0; step < 8; step++) {
            struct qkv_dataset_step begun;
            struct qkv_batch batch = {0};
            int32_t window[64], targets[64], documents[64];
            size_t counted = 0;
            assert_ok(ctx, t->data.dataset->begin(&t->data, step, &begun));
            assert_ok(ctx, t->data.dataset->fill(&t->data, step, 0, begun.rows, &batch));
            assert_true((batch.documents != NULL) == (form == DOCUMENTS) &&
                        (batch.prefix != NULL) == (form != DOCUMENTS));
            for (size_t r = 0; r < begun.rows; r++) {
                const size_t start = qkv_draw_window((uint64_t)o.seed, step, r, t->data.windows.train.count - T);
                const int32_t prefix = batch.prefix ? batch.prefix[r] : 0;
                assert_ok(ctx, qkv_tokens_read(&t->data.windows.train, start, T + 1, window));
                counted += expect_row(form, end_of(t), window, T, prefix, targets, documents);
                assert_memory_equal(t->data.rows.targets + r * T, targets, T * sizeof *targets);
                assert_memory_equal(t->data.rows.ids + r * T, window, T * sizeof *window);
                if (form == DOCUMENTS) assert_memory_equal(batch.documents + r * T, documents, T * sizeof *documents);
                if (form == FIVE) assert_int_equal(prefix, 5);
                assert_in_range(prefix, 0, T - 1);
                seen |= (size_t)1 << (form == DOCUMENTS ? (size_t)documents[T - 1] : (size_t)prefix);
            }
            assert_int_equal(begun.targets, counted);
        }
        assert_true(form == FIVE || (seen & (seen - 1))); /* not always the same */
        qkv_trainer_free(t);
    }
}

static double *losses_of(struct qkv_train_options *o, const char *folder, int threads, size_t steps) {
    double *losses = calloc(steps, sizeof *losses);
    struct qkv_train_report report;
    ctx->threads = threads;
    struct qkv_trainer *t = fixture_begin(ctx, folder, o);
    for (size_t i = 0; i < steps; i++) {
        assert_ok(ctx, qkv_trainer_step(t, &report));
        losses[i] = report.loss;
        assert_true(isfinite(report.loss));
    }
    qkv_trainer_free(t);
    ctx->threads = 1;
    return losses;
}

static void parts_and_threads_change_no_bit(void **state) {
    (void)state;
    for (enum form form = 0; form < FORMS; form++) {
        struct qkv_train_options o = options_of(form);
        double *whole = losses_of(&o, fixture_run("parts"), 1, 6);
        for (int64_t parts = 2; parts <= 4; parts++) {
            o.accumulate = parts;
            double *other = losses_of(&o, fixture_run("parts"), (int)parts - 1, 6);
            assert_memory_equal(whole, other, 6 * sizeof *whole);
            free(other);
        }
        free(whole);
    }
}

static void a_run_goes_on_to_the_bit(void **state) {
    (void)state;
    for (enum form form = 0; form < FORMS; form++) {
        struct qkv_train_options o = options_of(form);
        struct qkv_train_report report;
        struct qkv_trainer *t;
        double *whole = losses_of(&o, fixture_run("whole"), 1, 6);
        const char *folder = fixture_run("stopped");
        free(losses_of(&o, folder, 1, 3)); /* the third step saves */
        size_t size;
        char *json = fixture_read(folder, "train.json", &size), *config = fixture_read(folder, "config.json", &size);
        assert_non_null(strstr(json, form == DOCUMENTS ? "\"documents\": true"
                                     : form == FIVE    ? "\"prefix\": \"5\""
                                                       : "\"prefix\": \"random\""));
        assert_true((strstr(config, "\"prefix\": true") != NULL) == (form != DOCUMENTS));
        free(json), free(config);
        assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t));
        for (size_t i = 3; i < 6; i++) {
            assert_ok(ctx, qkv_trainer_step(t, &report));
            assert_true(report.loss == whole[i]);
        }
        qkv_trainer_free(t);
        free(whole);
    }
}

/* Window by window, through the public pass. */
static void validation_measures_the_same(void **state) {
    (void)state;
    for (enum form form = 0; form < FORMS; form++) {
        struct qkv_train_options o = options_of(form);
        struct qkv_train_report report;
        o.eval_batches = 0, o.steps = 2, o.warmup = 1, o.dropout = 0;
        struct qkv_trainer *t = fixture_begin(ctx, fixture_run("valid"), &o);
        report = fixture_steps(ctx, t, 2);
        const size_t T = t->data.T, count = t->data.windows.valid.count;
        struct qkv_pass *pass;
        double nll = 0;
        size_t counted = 0;
        assert_ok(ctx, qkv_pass_create(t->model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T), &pass));
        for (size_t start = 0; start + 1 < count; start += T) {
            const size_t n = count - 1 - start < T ? count - 1 - start : T;
            int32_t window[64], targets[64], documents[64];
            const int32_t prefix = form == FIVE ? (int32_t)(n > 5 ? 5 : n - 1) : (int32_t)(n / 2);
            struct qkv_batch batch = {.B = 1, .T = n, .ids = window, .targets = targets};
            assert_ok(ctx, qkv_tokens_read(&t->data.windows.valid, start, n + 1, window));
            expect_row(form, end_of(t), window, n, prefix, targets, documents);
            if (form == DOCUMENTS)
                batch.documents = documents;
            else
                batch.prefix = &prefix;
            assert_ok(ctx, qkv_pass_forward(pass, &batch));
            size_t here;
            const double loss = qkv_pass_loss(pass, &here);
            nll += loss * (double)here, counted += here;
        }
        if (!(fabs(report.valid_loss - nll / (double)counted) <= 1e-5 * report.valid_loss))
            fail_msg("form %d: %.9g, not %.9g", (int)form, report.valid_loss, nll / (double)counted);
        qkv_pass_free(pass);
        qkv_trainer_free(t);
    }
}

/* Half of each window is prefix, and bytes are those of what is predicted. */
static void evaluation_gives_a_model_with_a_prefix_one(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(RANDOM_PREFIX);
    struct qkv_evaluation evaluation;
    o.eval_batches = 0, o.steps = 2, o.warmup = 1, o.dropout = 0, o.valid = text;
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("evaluated"), &o);
    struct qkv_train_report report = fixture_steps(ctx, t, 2);
    const size_t T = t->data.T, count = t->data.windows.valid.count, tail = (count - 1) % T;
    assert_ok(ctx, qkv_evaluate_text(t->model, &(const char *){text}, 1, NULL, NULL, NULL, &evaluation));
    assert_int_equal(evaluation.tokens, (count - 1) / T * (T - T / 2 + 1) + (tail + 1 > T / 2 ? tail - T / 2 + 1 : 0));
    assert_true(fabs(evaluation.loss - report.valid_loss) <= 0.02 * report.valid_loss); /* the tail is cut elsewhere */
    assert_true(evaluation.bytes < 4000 && evaluation.bytes > 2000);
    qkv_trainer_free(t);
}

/* A run with separate documents records that, and evaluation with separate documents measures what its validation
 * does; bytes are those of the predicted tokens. */
static void evaluation_keeps_documents_apart(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(DOCUMENTS);
    struct qkv_evaluate_options apart = qkv_evaluate_defaults();
    struct qkv_evaluation evaluation, whole;
    const char *folder = fixture_run("apart");
    bool documents = false;
    o.eval_batches = 0, o.steps = 2, o.warmup = 1, o.dropout = 0, o.valid = text;
    struct qkv_trainer *t = fixture_begin(ctx, folder, &o);
    struct qkv_train_report report = fixture_steps(ctx, t, 2);
    assert_ok(ctx, qkv_model_documents(ctx, folder, &documents));
    assert_true(documents);
    apart.documents = true;
    assert_ok(ctx, qkv_evaluate_text(t->model, &(const char *){text}, 1, &apart, NULL, NULL, &evaluation));
    assert_ok(ctx, qkv_evaluate_text(t->model, &(const char *){text}, 1, NULL, NULL, NULL, &whole));
    if (!(fabs(evaluation.loss - report.valid_loss) <= 1e-5 * report.valid_loss))
        fail_msg("evaluation says %.9g, validation %.9g", evaluation.loss, report.valid_loss);
    size_t tokens = 0, bytes = 0, size;
    int32_t before = -1, id;
    for (size_t i = 0; i < t->data.windows.valid.count; i++, before = id) {
        assert_ok(ctx, qkv_tokens_read(&t->data.windows.valid, i, 1, &id));
        if (i == 0 || before == end_of(t)) continue;
        assert_non_null(qkv_tokenizer_token(qkv_model_tokenizer(t->model), id, &size));
        tokens++, bytes += size;
    }
    assert_int_equal(evaluation.tokens, tokens);
    assert_int_equal(evaluation.bytes, bytes);
    assert_true(whole.tokens > tokens && whole.bytes > bytes && whole.loss != evaluation.loss);
    qkv_trainer_free(t);
    o = options_of(FIVE), o.steps = 1, o.warmup = 0;
    folder = fixture_run("prefixed");
    t = fixture_begin(ctx, folder, &o);
    assert_ok(ctx, qkv_model_documents(ctx, folder, &documents));
    assert_false(documents);
    assert_status(ctx, qkv_evaluate_text(t->model, &(const char *){text}, 1, &apart, NULL, NULL, &evaluation),
                  QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "this model sees a prefix in both directions"));
    qkv_trainer_free(t);
}

static void assert_refused(const struct qkv_train_options *o, const char *sentence) {
    assert_int_not_equal(qkv_train_check(ctx, o), QKV_OK);
    if (!strstr(qkv_message(ctx), sentence)) fail_msg("%s", qkv_message(ctx));
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct qkv_train_options o = options_of(DOCUMENTS);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_trainer *t;
    o.task = "mlm";
    assert_refused(&o, "documents is given, but only rows of a text whose next token is learnt have documents");
    o.task = NULL, o.prefix = "3";
    assert_refused(&o, "documents and prefix exclude each other");
    o.documents = false;
    static const char *const none[] = {"0", "-1", "", "some", "1e3", "5 ", "4294967296000"};
    for (size_t i = 0; i < TEST_COUNT(none); i++) {
        o.prefix = none[i];
        assert_refused(&o, "it must be random or a number of tokens, 1 to 999999999");
    }
    o.prefix = "16";
    assert_int_equal(qkv_train_check_spec(ctx, &o, &spec), QKV_ARGUMENT);
    assert_message(ctx, "prefix is 16, but a row has 16 tokens, some of which are to follow it; choose at most 15");
    o.prefix = "15";
    assert_ok(ctx, qkv_train_check_spec(ctx, &o, &spec));
    o.prefix = NULL, spec.prefix = true;
    assert_int_equal(qkv_train_check_spec(ctx, &o, &spec), QKV_ARGUMENT);
    assert_message(ctx, "the spec's prefix is true");
    o = options_of(RANDOM_PREFIX);
    o.data = NULL, o.labeled = text;
    assert_refused(&o, "prefix is given, but only rows of a text");
    o = options_of(DOCUMENTS);
    o.tokenizer = "chars";
    const char *folder = fixture_run("refused");
    spec.prefix = false;
    assert_int_equal(qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "the tokenizer has no end token");
    assert_false(fixture_has(folder, "train.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_say_which_targets_count),
        cmocka_unit_test(parts_and_threads_change_no_bit),
        cmocka_unit_test(a_run_goes_on_to_the_bit),
        cmocka_unit_test(validation_measures_the_same),
        cmocka_unit_test(evaluation_gives_a_model_with_a_prefix_one),
        cmocka_unit_test(evaluation_keeps_documents_apart),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
