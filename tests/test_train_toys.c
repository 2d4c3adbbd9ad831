/* Lines as separate sequences: the first loss of a run is that of a pass over rows made here by hand, for the next
 * token and for masks; parts of a batch, resuming and random masks. test_golden anchors the passes. */
/* labels: numeric quick */
#include "train_fixture.h"

#include "context_fixture.h"

enum { BEGIN = 1, END = 2, ROWS = 3, T = 8 };

/* Ids of words: <pad> <s> </s> (<mask>) the sat on cat mat dog rug bird tree, by frequency and first appearance. */
static const char corpus[] = "the cat sat on the mat\n\n  the dog sat on the rug\r\nthe bird\tsat on tree\n";
static const int32_t sentences[ROWS][6] = {{0, 3, 1, 2, 0, 4}, {0, 5, 1, 2, 0, 6}, {0, 7, 1, 2, 8, -1}};

static struct qkv_train_options toy_options(const char *preset) {
    static char path[1024];
    struct qkv_train_options o;
    snprintf(path, sizeof path, "%s", test_path("toy.txt"));
    test_write_file(path, corpus, sizeof corpus - 1);
    assert_ok(ctx, qkv_train_defaults(ctx, preset, &o));
    o.lines = path;
    o.steps = 4;
    return o;
}

static struct qkv_trainer *toy_begin(const char *preset, const struct qkv_train_options *o, const char *run) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_trainer *t;
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, preset, NULL, 0));
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, o, fixture_run(run), NULL, NULL, &t));
    return t;
}

/* The loss of rows, of the model that a run begins with. */
static double loss_of(struct qkv_model *model, size_t B, const int32_t *ids, const int32_t *targets,
                      const int32_t *lengths) {
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_pass *pass;
    batch.B = B, batch.T = T, batch.ids = ids, batch.targets = targets, batch.lengths = lengths;
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    const double loss = qkv_pass_loss(pass, NULL);
    qkv_pass_free(pass);
    return loss;
}

/* <s>, the words, </s>; how many these are. */
static int32_t toy_row(size_t i, int32_t first_word, int32_t ids[T]) {
    int32_t n = 0;
    for (size_t k = 0; k < T; k++) ids[k] = 0;
    ids[n++] = BEGIN;
    for (size_t k = 0; k < 6 && sentences[i][k] >= 0; k++) ids[n++] = first_word + sentences[i][k];
    ids[n++] = END;
    return n;
}

static void each_token_of_a_line_predicts_the_next(void **state) {
    (void)state;
    struct qkv_train_options o = toy_options("tiny-lm");
    struct qkv_trainer *t = toy_begin("tiny-lm", &o, "next");
    int32_t ids[ROWS * T], targets[ROWS * T], lengths[ROWS];
    size_t valid;
    assert_int_equal(qkv_model_spec(qkv_trainer_model(t))->vocab, 12);
    assert_int_equal(qkv_trainer_lines(t, &valid), ROWS);
    assert_int_equal(valid, 0);
    for (size_t i = 0; i < ROWS; i++) {
        lengths[i] = toy_row(i, 3, ids + i * T) - 1;
        for (size_t k = 0; k < T; k++) targets[i * T + k] = (int32_t)k < lengths[i] ? ids[i * T + k + 1] : QKV_IGNORE;
    }
    const double expected = loss_of(qkv_trainer_model(t), ROWS, ids, targets, lengths);
    const struct qkv_train_report first = fixture_steps(ctx, t, 1);
    assert_close(first.loss, expected, 1e-5);
    qkv_trainer_free(t);
}

static void each_token_of_a_line_is_hidden_once(void **state) {
    (void)state;
    struct qkv_train_options o = toy_options("tiny-encoder");
    struct qkv_trainer *t = toy_begin("tiny-encoder", &o, "each");
    int32_t ids[17 * T], targets[17 * T], lengths[17];
    size_t rows = 0;
    assert_int_equal(qkv_model_spec(qkv_trainer_model(t))->vocab, 13);
    assert_int_equal(qkv_trainer_lines(t, NULL), 17);
    for (size_t i = 0; i < ROWS; i++) {
        int32_t whole[T], n = toy_row(i, 4, whole);
        for (int32_t hidden = 1; hidden < n - 1; hidden++, rows++) {
            lengths[rows] = n;
            for (int32_t k = 0; k < T; k++) {
                ids[rows * T + (size_t)k] = k == hidden ? 3 : whole[k];
                targets[rows * T + (size_t)k] = k == hidden ? whole[k] : QKV_IGNORE;
            }
        }
    }
    assert_int_equal(rows, 17);
    const double expected = loss_of(qkv_trainer_model(t), rows, ids, targets, lengths);
    assert_close(fixture_steps(ctx, t, 1).loss, expected, 1e-5);
    qkv_trainer_free(t);
}

/* Lines as tutorials have them, between <bos> and <eos>, are the same rows with these as their tokens. */
static void lines_between_bos_and_eos_are_the_same_rows(void **state) {
    (void)state;
    static const char written[] = "<bos> the cat sat on the mat <eos>\n\n <bos> the dog sat on the rug <eos>\r\n"
                                  "<bos> the bird\tsat on tree <eos>\n";
    static const char *const presets[] = {"tiny-lm", "tiny-encoder"}, *const texts[] = {"<bos> the cat", "the cat"};
    for (size_t p = 0; p < TEST_COUNT(presets); p++) {
        struct qkv_train_options o = toy_options(presets[p]);
        struct qkv_trainer *t = toy_begin(presets[p], &o, "plain");
        const double plain = fixture_steps(ctx, t, 3).loss;
        qkv_trainer_free(t);
        test_write_file(o.lines, written, sizeof written - 1);
        t = toy_begin(presets[p], &o, "written");
        const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(qkv_trainer_model(t));
        assert_int_equal(qkv_tokenizer_special(tokenizer, "<bos>"), BEGIN);
        assert_int_equal(qkv_tokenizer_special(tokenizer, "<eos>"), END);
        assert_int_equal(qkv_tokenizer_special(tokenizer, "<s>"), -1);
        for (size_t i = 0; i < TEST_COUNT(texts); i++) {
            int32_t *ids;
            size_t n;
            assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, tokenizer, texts[i], strlen(texts[i]), true, &ids, &n));
            assert_int_equal(n, p ? 4 : 3); /* a mask is seen from both sides, so <eos> stands behind */
            assert_int_equal(ids[0], BEGIN);
            qkv_free(ids);
        }
        assert_true(fixture_steps(ctx, t, 3).loss == plain);
        qkv_trainer_free(t);
    }
}

/* The last losses of a run, whole and in parts; and with a checkpoint in the middle. */
static void parts_and_resuming_change_no_bit(void **state) {
    (void)state;
    static const char *const presets[] = {"tiny-lm", "tiny-encoder", "bert-tiny"};
    for (size_t p = 0; p < TEST_COUNT(presets); p++) {
        struct qkv_train_options o = toy_options(presets[p]);
        const bool drawn = p == 2;
        o.tokenizer = "whitespace";
        o.warmup = 0;
        o.batch = 2;
        o.dropout = 0;
        o.valid_fraction = 0;
        o.eval_every = 0;
        if (drawn) o.mask_probability = 0.4;
        struct qkv_trainer *t = toy_begin(presets[p], &o, "whole");
        const double whole = fixture_steps(ctx, t, 4).loss;
        qkv_trainer_free(t);
        o.accumulate = 2;
        t = toy_begin(presets[p], &o, "parts");
        fixture_steps(ctx, t, 2);
        assert_ok(ctx, qkv_trainer_save(t));
        qkv_trainer_free(t);
        assert_ok(ctx, qkv_trainer_resume(ctx, test_path("parts"), NULL, NULL, NULL, &t));
        const double parts = fixture_steps(ctx, t, 4).loss;
        if (parts != whole) print_error("%s: %.17g, not %.17g\n", presets[p], parts, whole);
        assert_true(parts == whole);
        qkv_trainer_free(t);
    }
}

static void what_lines_cannot_be_is_refused(void **state) {
    (void)state;
    struct qkv_train_options o = toy_options("tiny-lm");
    struct qkv_trainer *t;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, "tiny-translator", NULL, 0));
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_SPEC);
    qkv_spec_free(&spec);
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, "tiny-lm", NULL, 0));
    o.mask_each = true;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "mask_each is given, but only lines");
    o = toy_options("tiny-lm");
    o.context = 6;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_FORMAT);
    assert_message(ctx, "toy.txt:1: the line has 8 tokens with <s> and </s>, more than the context of 6");
    o = toy_options("tiny-lm");
    o.pairs = o.lines;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("x"), NULL, NULL, &t), QKV_ARGUMENT);
    assert_message(ctx, "pairs and lines exclude each other");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_token_of_a_line_predicts_the_next),
        cmocka_unit_test(each_token_of_a_line_is_hidden_once),
        cmocka_unit_test(lines_between_bos_and_eos_are_the_same_rows),
        cmocka_unit_test(parts_and_resuming_change_no_bit),
        cmocka_unit_test(what_lines_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
