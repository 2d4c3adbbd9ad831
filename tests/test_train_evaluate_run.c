/* Evaluation of what a run validates on: its files, or the part of its texts that it holds out, of plain texts and of
 * mixtures; and models whose tokenizer is another one. */
/* labels: numeric quick */
#include "train_fixture.h"

#define FIXTURE_CONTEXT fixture_context(1)
#include "context_fixture.h"

static void refuse_run(struct qkv_model *model, const char *folder, enum qkv_status status, const char *message) {
    struct qkv_evaluation e;
    assert_status(ctx, qkv_evaluate_run(model, folder, NULL, NULL, NULL, &e), status);
    assert_message(ctx, message);
    assert_true(e.tokens == 0);
}

static struct qkv_evaluation evaluate(struct qkv_model *model, const char *folder) {
    struct qkv_evaluation e;
    assert_ok(ctx, qkv_evaluate_run(model, folder, NULL, NULL, NULL, &e));
    return e;
}

static struct qkv_evaluation evaluate_text(struct qkv_model *model, const char *path) {
    struct qkv_evaluation e;
    assert_ok(ctx, qkv_evaluate_text(model, &path, 1, NULL, NULL, NULL, &e));
    return e;
}

static void same_evaluation(const struct qkv_evaluation *a, const struct qkv_evaluation *b) {
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->bytes, b->bytes);
    assert_true(a->loss == b->loss && a->perplexity == b->perplexity && a->bits_per_byte == b->bits_per_byte);
}

/* A model with a tokenizer. */
static struct qkv_model *model_with(struct qkv_tokenizer *tokenizer, const char *setting) {
    const char *const settings[] = {setting, NULL};
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, settings);
    struct qkv_model *model;
    spec.vocab = spec.source_vocab = qkv_tokenizer_vocab(tokenizer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

/* A model whose tokenizer has as many tokens as that of `folder`, and others. */
static struct qkv_model *model_of_others(const char *folder) {
    struct qkv_tokenizer *own, *other;
    char *path = qkv_join_path(ctx, folder, QKV_TOKENIZER_FILE);
    assert_ok(ctx, qkv_tokenizer_load(ctx, path, &own));
    const int vocab = qkv_tokenizer_vocab(own);
    size_t size = 0;
    char *json = test_read_file(path, &size);
    for (size_t i = 0; i + 4 < size; i++) /* the ids of two characters change places */
        if (!memcmp(json + i, "\"t\":", 4))
            memcpy(json + i, "\"a\":", 4);
        else if (!memcmp(json + i, "\"a\":", 4))
            memcpy(json + i, "\"t\":", 4);
    const char *changed = test_path("others.json");
    test_write_file(changed, json, size);
    assert_ok(ctx, qkv_tokenizer_load(ctx, changed, &other));
    assert_int_equal(qkv_tokenizer_vocab(other), vocab);
    qkv_tokenizer_free(own);
    free(json);
    free(path);
    return model_with(other, NULL);
}

static void remove_file(const char *folder, const char *name) {
    char *path = qkv_join_path(ctx, folder, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

/* Of files to validate on the evaluation is that of the files; of a part that is held out it is over all its tokens. */
static void the_validation_part_of_a_run_is_evaluated(void **state) {
    (void)state;
    const char *valid = test_path("run-valid.txt"), *folder = fixture_run("validated"), *held = fixture_run("held-out");
    const char *none = fixture_run("no-validation"), *lines = fixture_run("of-lines");
    struct qkv_train_options o = fixture_options(ctx);
    size_t held_tokens;
    fixture_text(valid, 700, 9);
    o.valid = valid;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, trainer, 2);
    struct qkv_model *model = qkv_trainer_model(trainer);
    struct qkv_evaluation file = evaluate_text(model, valid), part = evaluate(model, folder);
    same_evaluation(&part, &file);
    remove_file(folder, QKV_TOKENS_DATA_FILE); /* it is not needed */
    remove_file(folder, QKV_TOKENS_VALID_FILE);
    part = evaluate(model, folder);
    same_evaluation(&part, &file);
    /* Another run's part, of the same tokenizer. */
    o.valid = NULL;
    struct qkv_trainer *other = fixture_begin(ctx, held, &o);
    qkv_trainer_tokens(other, &held_tokens);
    qkv_trainer_free(other);
    part = evaluate(model, held);
    assert_int_equal(part.tokens, held_tokens - 1);
    assert_int_equal(part.bytes, part.tokens); /* characters of one byte */
    assert_close(part.bits_per_byte, part.loss / log(2), 1e-9);
    remove_file(held, QKV_TOKENS_DATA_FILE);
    struct qkv_evaluation again = evaluate(model, held);
    same_evaluation(&again, &part);
    assert_true(fixture_has(held, QKV_TOKENS_DATA_FILE));
    fixture_no_validation(&o);
    qkv_trainer_free(fixture_begin(ctx, none, &o));
    refuse_run(model, none, QKV_ARGUMENT, "no-validation has no part of a text to validate on");
    o = fixture_options(ctx);
    o.lines = o.data, o.data = NULL;
    o.long_lines = "keep-start";
    qkv_trainer_free(fixture_begin(ctx, lines, &o));
    refuse_run(model, lines, QKV_ARGUMENT, "of-lines has no part of a text to validate on");
    refuse_run(model, test_path("nowhere"), QKV_FILE, "nowhere holds no training run");
    qkv_trainer_free(trainer);
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_CHARS};
    struct qkv_tokenizer *tokenizer;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, "ab", 2, &tokenizer));
    model = model_with(tokenizer, NULL);
    refuse_run(model, held, QKV_ARGUMENT, "but the model's is 3; name a text instead");
    qkv_model_free(model);
}

/* A file that is not what the run read is refused, also one of the same size. */
static void files_that_have_changed_are_refused(void **state) {
    (void)state;
    const char *valid = test_path("changes.txt"), *folder = fixture_run("changes");
    struct qkv_train_options o = fixture_options(ctx);
    fixture_text(valid, 700, 9);
    o.valid = valid;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_model *model = qkv_trainer_model(trainer);
    fixture_text(valid, 701, 9);
    refuse_run(model, folder, QKV_FORMAT, "changes.txt has changed since the run began");
    fixture_text(valid, 700, 10);
    refuse_run(model, folder, QKV_FORMAT, "changes.txt has changed since the run began");
    fixture_text(valid, 700, 9);
    evaluate(model, folder);
    unlink(valid);
    refuse_run(model, folder, QKV_FILE, "changes.txt");
    qkv_trainer_free(trainer);
}

/* With a tokenizer of the same size, whose tokens mean something else; nothing of the run changes. */
static void another_tokenizer_is_refused(void **state) {
    (void)state;
    const char *held = fixture_run("other-held"), *validated = fixture_run("other-valid"),
               *valid = test_path("valid.txt");
    struct qkv_train_options o = fixture_options(ctx);
    fixture_text(valid, 700, 9);
    for (int files = 0; files < 2; files++) {
        const char *folder = files ? validated : held;
        o.valid = files ? valid : NULL;
        struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
        struct qkv_evaluation before = evaluate(qkv_trainer_model(trainer), folder);
        struct qkv_model *other = model_of_others(folder);
        for (int missing = 0; missing < 2; missing++) {
            if (missing) remove_file(folder, files ? QKV_TOKENS_VALID_FILE : QKV_TOKENS_DATA_FILE);
            refuse_run(other, folder, QKV_ARGUMENT, "the model's tokenizer is not that of the run");
        }
        struct qkv_evaluation after = evaluate(qkv_trainer_model(trainer), folder);
        same_evaluation(&after, &before);
        qkv_model_free(other);
        qkv_trainer_free(trainer);
    }
}

/* The context is that of the options or of the model, whatever that of the run was. */
static void the_context_is_not_that_of_the_run(void **state) {
    (void)state;
    static const char *const small[] = {"context=4", NULL};
    const char *path = test_path("short.txt"), *folder = fixture_run("short");
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, small);
    struct qkv_trainer *trainer;
    struct qkv_tokenizer *tokenizer;
    fixture_text(path, 40, 8);
    struct qkv_train_options o = fixture_options_on(ctx, path);
    o.valid_fraction = 0.4;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, folder, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
    char *file = qkv_join_path(ctx, folder, QKV_TOKENIZER_FILE);
    assert_ok(ctx, qkv_tokenizer_load(ctx, file, &tokenizer));
    free(file);
    struct qkv_model *model = model_with(tokenizer, "context=64"); /* neither part has as many tokens */
    struct qkv_evaluation whole = evaluate(model, folder), parts;
    assert_int_equal(whole.tokens, 15);
    assert_ok(ctx,
              qkv_evaluate_run(model, folder, &QKV_OPTIONS(qkv_evaluate_options, .context = 3), NULL, NULL, &parts));
    assert_int_equal(parts.tokens, 15);
    assert_true(parts.loss != whole.loss);
    qkv_model_free(model);
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */

/* Lines `begin` … `end` of JSON; one of each `bad` lines (0: none) is no object. */
static void write_documents(const char *path, int begin, int end, int bad) {
    struct qkv_buffer text = {0};
    for (int i = begin; i < end; i++) {
        if (bad && i % bad == 1) assert_ok(ctx, qkv_buffer_print(ctx, &text, "no object\n"));
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "{\"text\": \"the cat %d sat on mat %d. a dog ran home %d.\"}\n", i,
                                        i * i, 7 * i));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static struct qkv_train_options mixture_options(const char *data) {
    struct qkv_train_options o = fixture_options_on(ctx, data);
    o.tokenizer = "bpe:300";
    return o;
}

/* The documents at the end of the only shard are evaluated, as if they were a file; shards that are missing come back,
 * but not for a model with another tokenizer. */
static void a_part_of_a_mixture_is_evaluated(void **state) {
    (void)state;
    enum { DOCUMENTS = 80 };
    const char *data = test_path("mixture.jsonl"), *folder = fixture_run("mixture"), *rest = test_path("rest.jsonl");
    write_documents(data, 0, DOCUMENTS, 0);
    struct qkv_train_options o = mixture_options(data);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_model *model = qkv_trainer_model(trainer);
    struct qkv_evaluation part = evaluate(model, folder), file = {0};
    int begin = DOCUMENTS;
    while (begin > 0 && file.tokens < part.tokens) {
        write_documents(rest, --begin, DOCUMENTS, 0);
        file = evaluate_text(model, rest);
    }
    assert_true(begin > DOCUMENTS / 2);
    same_evaluation(&part, &file);
    char *shards = qkv_join_path(ctx, folder, "shards");
    test_remove_tree(shards);
    struct qkv_model *other = model_of_others(folder);
    refuse_run(other, folder, QKV_ARGUMENT, "the model's tokenizer is not that of the run");
    assert_false(qkv_file_exists(shards));
    struct qkv_evaluation again = evaluate(model, folder);
    same_evaluation(&again, &part);
    assert_true(qkv_file_exists(shards));
    refuse_run(other, folder, QKV_ARGUMENT, "the model's tokenizer is not that of the run");
    qkv_model_free(other);
    free(shards);
    qkv_trainer_free(trainer);
}

/* As qkv_evaluate_text, and without the lines that the run leaves out. */
static void files_of_a_mixture_are_evaluated(void **state) {
    (void)state;
    const char *data = test_path("train.jsonl"), *clean = test_path("clean.jsonl"), *bad = test_path("bad.jsonl");
    const char *folder = fixture_run("mixture-valid"), *skips = fixture_run("mixture-skips");
    write_documents(data, 0, 60, 0);
    write_documents(clean, 60, 75, 0);
    write_documents(bad, 60, 75, 5);
    struct qkv_train_options o = mixture_options(data);
    o.valid = clean;
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    struct qkv_model *model = qkv_trainer_model(trainer);
    struct qkv_evaluation file = evaluate_text(model, clean), run = evaluate(model, folder);
    assert_true(run.bits_per_byte > 0);
    same_evaluation(&run, &file);
    o.valid = bad;
    o.skip_bad = true;
    qkv_trainer_free(fixture_begin(ctx, skips, &o));
    run = evaluate(model, skips);
    same_evaluation(&run, &file);
    qkv_trainer_free(trainer);
}

/* Tokens whose text is not known, in a part that is held out, leave the number of bytes unknown. */
static void unknown_tokens_have_no_bytes(void **state) {
    (void)state;
    const char *folder = fixture_run("unknown");
    struct qkv_train_options o = fixture_options(ctx);
    o.tokenizer = "chars:10"; /* the text has more characters */
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &o);
    const struct qkv_evaluation held = evaluate(qkv_trainer_model(trainer), folder);
    assert_true(held.unknown > 10);
    assert_int_equal(held.bytes, 0);
    assert_true(held.tokens > 100 && held.loss > 0 && held.bits_per_byte == 0);
    qkv_trainer_free(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_validation_part_of_a_run_is_evaluated), cmocka_unit_test(unknown_tokens_have_no_bytes),
        cmocka_unit_test(files_that_have_changed_are_refused),       cmocka_unit_test(another_tokenizer_is_refused),
        cmocka_unit_test(the_context_is_not_that_of_the_run),        cmocka_unit_test(a_part_of_a_mixture_is_evaluated),
        cmocka_unit_test(files_of_a_mixture_are_evaluated),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
