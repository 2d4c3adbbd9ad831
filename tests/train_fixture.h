/* train_fixture.h: shared by the tests of training: a context, a small spec, a text with something to learn, the
 * options of a short run, and running one. Header-only. */
#ifndef QKV_TRAIN_FIXTURE_H
#define QKV_TRAIN_FIXTURE_H

#include "test.h"

#include <unistd.h>

#include "train/train.h"

/* cmocka's assert_float_equal compares as floats. */
#define assert_close(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

static inline struct qkv_context *fixture_context(int threads) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = threads, .precision = QKV_PRECISION_AUTO};
    enum qkv_status status = qkv_context_create(&ctx, &options);
    assert_ok(ctx, status);
    return ctx;
}

/* A GPT of one or two layers; settings as in qkv_spec_parse, NULL-terminated. */
static inline struct qkv_spec fixture_spec(struct qkv_context *ctx, const char *const *settings) {
    static const char json[] =
        "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,\"position\":{\"kind\":\"learned\"},"
        "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2},\"norm\":{\"kind\":\"layernorm\"},"
        "\"ffn\":{\"kind\":\"gelu\",\"d_ff\":64}}}";
    struct qkv_spec spec = {0};
    size_t count = 0;
    while (settings && settings[count]) count++;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, sizeof json - 1, settings, count));
    return spec;
}

/* Words that follow each other by simple rules, so that a model can learn them; a new text for each stream. */
static inline void fixture_text(const char *path, size_t bytes, uint64_t stream) {
    static const char *const words[] = {"the cat ", "sat on ", "the mat. ", "a dog ", "ran home. ", "the end.\n"};
    struct qkv_random random = qkv_random_start(2024, stream);
    char *text = malloc(bytes + 16);
    size_t size = 0, word = 0;
    while (size < bytes) {
        size_t n = strlen(words[word]);
        memcpy(text + size, words[word], n);
        size += n;
        word = (word + 1 + (size_t)qkv_random_below(&random, 2)) % TEST_COUNT(words);
    }
    test_write_file(path, text, bytes);
    free(text);
}

/* A short run on a text. */
static inline struct qkv_train_options fixture_options_on(struct qkv_context *ctx, const char *data) {
    struct qkv_train_options options;
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &options));
    options.data = data;
    options.steps = 6;
    options.batch = 4;
    options.warmup = 2;
    options.eval_every = 2;
    options.eval_batches = 2;
    options.save_every = 3;
    options.dropout = 0.1;
    return options;
}

/* The same on text.txt, which is made if it does not exist. */
static inline struct qkv_train_options fixture_options(struct qkv_context *ctx) {
    static char path[1024];
    snprintf(path, sizeof path, "%s", test_path("text.txt"));
    if (!qkv_file_exists(path)) fixture_text(path, 3000, 1);
    return fixture_options_on(ctx, path);
}

/* Nothing is kept for validation, so there are no evaluations to choose. */
static inline void fixture_no_validation(struct qkv_train_options *options) {
    options->valid_fraction = 0;
    qkv_train_unset(options, "eval_every");
    qkv_train_unset(options, "eval_batches");
}

/* A fresh path in the test's folder with nothing there. The text stays valid for the next 15 calls of test_path. */
static inline const char *fixture_run(const char *name) {
    const char *path = test_path(name);
    test_remove_tree(path);
    return path;
}

/* Steps until `step` is reached; the last report. */
static inline struct qkv_train_report fixture_steps(struct qkv_context *ctx, struct qkv_trainer *trainer,
                                                    int64_t step) {
    struct qkv_train_report report = {0};
    do assert_ok(ctx, qkv_trainer_step(trainer, &report));
    while (report.step < step);
    return report;
}

/* The file FOLDER/NAME whole, fails the test where it is missing; free() it. */
static inline char *fixture_read(const char *folder, const char *name, size_t *size) {
    char path[2048];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *data = test_read_file(path, &n);
    if (!data) {
        print_error("%s is missing\n", path);
        fail();
    }
    if (size) *size = n;
    return data;
}

static inline bool fixture_has(const char *folder, const char *name) {
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static inline void fixture_write(const char *folder, const char *name, const void *data, size_t n) {
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    test_write_file(path, data, n);
}

/* qkv_tokens_write of one file. */
static inline enum qkv_status fixture_tokens(struct qkv_context *ctx, const char *path, const char *text,
                                             const struct qkv_tokenizer *tokenizer, struct qkv_text_facts *facts,
                                             qkv_progress *progress, void *user) {
    struct qkv_text_files files = {0};
    assert_ok(ctx, qkv_text_files_add(ctx, &files, &(struct qkv_text_file){.path = (char *)(uintptr_t)text}));
    enum qkv_status status = qkv_tokens_write(ctx, path, &files, tokenizer, facts, NULL, progress, user);
    qkv_text_files_free(&files);
    return status;
}

/* A trainer of the small spec, which must come about. */
static inline struct qkv_trainer *fixture_begin(struct qkv_context *ctx, const char *folder,
                                                const struct qkv_train_options *options) {
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, options, folder, NULL, NULL, &trainer));
    return trainer;
}

#endif
