/* One context serves one thread, several contexts serve several threads: each gives the same bits alone and beside
 * the others. The golden cases anchor what each gives alone. Built with clang's thread sanitizer ("make
 * sanitize-threads"), the same test finds data that contexts share. */
/* labels: quick */
#include "train_fixture.h"
#include "weights.h"

#include <pthread.h>

#ifdef TEST_THREAD_SANITIZER
/* TSan options: two threads that use one file one after the other are not ordered by that, so other data that they
 * share is still a race; and the longest history, because a race is only reported while both of its places are
 * remembered. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "io_sync=0 history_size=7";
}
#endif

enum { STEPS = 6, IDS = 4096, TEXT = 4096 };

/* The work of one thread with a context of its own, and its result. cmocka's checks belong to the main thread, so
 * the job stores its first failure. */
struct job {
    const char *name, *json, *kind; /* kind: the option that names the data */
    const char *isa;                /* NULL: the best */
    enum qkv_precision precision;
    int threads;
    char data[1024], folder[1024];
    enum qkv_status status;
    char message[1024];
    double losses[STEPS], evaluation;
    uint64_t weights; /* a hash of their bytes */
    char text[TEXT];  /* what the trained model says */
    size_t size;
};

static uint64_t hash_floats(uint64_t hash, const float *x, size_t n) { /* FNV-1a */
    const unsigned char *bytes = (const unsigned char *)x;
    for (size_t i = 0; i < n * sizeof *x; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_model(const struct qkv_model *model) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        hash = hash_floats(hash, test_weights(model, i), qkv_array_elements(qkv_model_parameter(model, i)));
    return hash;
}

static bool job_write(void *user, const char *text, size_t size) {
    struct job *job = user;
    if (size > TEXT - job->size) return false;
    memcpy(job->text + job->size, text, size);
    job->size += size;
    return true;
}

static bool job_write_line(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    (void)line, (void)rank, (void)score;
    return job_write(user, text, size);
}

static enum qkv_status job_train(struct qkv_context *ctx, struct job *job) {
    struct qkv_train_options options;
    struct qkv_train_report report = {0};
    struct qkv_trainer *trainer = NULL;
    OWNED_SPEC struct qkv_spec spec = {0};
    enum qkv_status status = qkv_spec_parse(ctx, &spec, job->name, job->json, strlen(job->json), NULL, 0);
    if (!status) status = qkv_train_defaults(ctx, NULL, &options);
    if (!status) status = qkv_train_set(ctx, &options, job->kind, job->data);
    options.steps = STEPS;
    options.batch = 4;
    options.warmup = 2;
    options.eval_every = 3;
    options.eval_batches = 2;
    options.dropout = 0.1;
    options.tokenizer = strcmp(job->kind, "data") == 0 ? "bpe:300" : "chars+bytes";
    options.precision = job->precision == QKV_FP32 ? "fp32" : "bf16";
    if (!status) status = qkv_trainer_create(ctx, &spec, &options, job->folder, NULL, NULL, &trainer);
    for (int i = 0; i < STEPS && !status; i++) {
        status = qkv_trainer_step(trainer, &report);
        job->losses[i] = report.loss;
    }
    if (!status) job->weights = hash_model(qkv_trainer_model(trainer));
    qkv_trainer_free(trainer);
    return status;
}

static enum qkv_status job_use(struct qkv_context *ctx, struct job *job) {
    struct qkv_model *model = NULL;
    enum qkv_status status = qkv_model_load(ctx, job->folder, &model);
    if (!status && strcmp(job->kind, "data") == 0) {
        struct qkv_evaluation evaluation = {0};
        struct qkv_generate_options options = {
            .size = sizeof options, .sampling = qkv_sampling_defaults(), .tokens = 40, .end_id = -1};
        options.sampling.seed = 7;
        status = qkv_generate(model, "the cat", 7, &options, job_write, job, NULL);
        if (!status) status = qkv_evaluate_text(model, &(const char *){job->data}, 1, NULL, NULL, NULL, &evaluation);
        job->evaluation = evaluation.loss;
    } else if (!status && strcmp(job->kind, "pairs") == 0) {
        static const char *const lines[] = {"abc", "de", "edcba"};
        struct qkv_search_options options = qkv_search_defaults();
        struct qkv_pairs_evaluation evaluation = {0};
        options.beam = 2;
        status = qkv_translate(model, lines, TEST_COUNT(lines), &options, job_write_line, job);
        if (!status) status = qkv_evaluate_pairs(model, job->data, NULL, NULL, NULL, &evaluation);
        job->evaluation = evaluation.loss;
    } else if (!status) {
        static const char *const lines[] = {"aab", "bba"};
        struct qkv_labels_evaluation evaluation = {0};
        float probabilities[4] = {0};
        status = qkv_classify(model, lines, TEST_COUNT(lines), NULL, probabilities);
        job_write(job, (const char *)probabilities, sizeof probabilities);
        if (!status) status = qkv_evaluate_labels(model, job->data, NULL, NULL, &evaluation);
        job->evaluation = evaluation.loss;
        qkv_free(evaluation.confusion);
    }
    qkv_model_free(model);
    return status;
}

/* A failure on purpose, so that every context has sentences of its own to keep apart. */
static bool job_fails_alone(struct qkv_context *ctx, const struct job *job) {
    OWNED_SPEC struct qkv_spec spec = {0};
    char expected[64];
    snprintf(expected, sizeof expected, "no-preset-%s", job->name);
    return qkv_spec_preset(ctx, &spec, expected, NULL, 0) == QKV_ARGUMENT && strstr(qkv_message(ctx), expected);
}

static void *job_do(void *argument) {
    struct job *job = argument;
    const struct qkv_context_options options = {
        .size = sizeof options, .threads = job->threads, .isa = job->isa, .precision = job->precision};
    struct qkv_context *ctx = NULL;
    job->status = qkv_context_create(&ctx, &options);
    if (!job->status) job->status = job_train(ctx, job);
    if (!job->status && !job_fails_alone(ctx, job)) job->status = QKV_FORMAT;
    if (!job->status) job->status = job_use(ctx, job);
    snprintf(job->message, sizeof job->message, "%s", ctx ? qkv_message(ctx) : "");
    qkv_context_free(ctx);
    return NULL;
}

/* Lines of letters and their reverse, or with a label. */
static void write_lines(const char *path, bool labels) {
    struct qkv_random random = qkv_random_start(5, labels);
    struct qkv_buffer text = {0};
    for (size_t i = 0; i < 60; i++) {
        char word[16], back[16];
        size_t n = 2 + (size_t)qkv_random_below(&random, 5);
        for (size_t k = 0; k < n; k++) word[k] = (char)('a' + qkv_random_below(&random, labels ? 2 : 5));
        for (size_t k = 0; k < n; k++) back[k] = word[n - 1 - k];
        if (labels)
            assert_int_equal(qkv_buffer_print(NULL, &text, "%s\t%.*s\n", word[0] == 'a' ? "a" : "b", (int)n, word),
                             QKV_OK);
        else
            assert_int_equal(qkv_buffer_print(NULL, &text, "%.*s\t%.*s\n", (int)n, word, (int)n, back), QKV_OK);
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

#define START "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,"
static const char text_json[] =
    START "\"position\":{\"kind\":\"rope\"},\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}";
static const char pair_json[] = START "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}},"
                                      "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
static const char class_json[] =
    START "\"position\":{\"kind\":\"alibi\"},\"head\":{\"kind\":\"classify\",\"pool\":\"mean\"},"
          "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
static const struct job jobs[] = {
    {.name = "text", .json = text_json, .kind = "data"},
    {.name = "pairs", .json = pair_json, .kind = "pairs"},
    {.name = "lines", .json = class_json, .kind = "labeled", .isa = "scalar"},
    {.name = "mixed", .json = text_json, .kind = "data", .precision = QKV_MIXED_BF16},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

/* The jobs, in folders whose names begin so; each context has so many threads. */
static void jobs_make(struct job *out, const char *begin, int threads) {
    for (size_t i = 0; i < JOBS; i++) {
        char name[64];
        out[i] = jobs[i];
        for (size_t t = 0; jobs[i].isa && qkv_isa_at(t); t++) out[i].isa = qkv_isa_at(t); /* the last that was built */
        out[i].threads = threads;
        snprintf(name, sizeof name, "%s.txt", jobs[i].name);
        snprintf(out[i].data, sizeof out[i].data, "%s", test_path(name));
        snprintf(name, sizeof name, "%s-%s", begin, jobs[i].name);
        snprintf(out[i].folder, sizeof out[i].folder, "%s", fixture_run(name));
        if (qkv_file_exists(out[i].data)) continue;
        if (strcmp(jobs[i].kind, "data") == 0)
            fixture_text(out[i].data, 3000, 1);
        else
            write_lines(out[i].data, strcmp(jobs[i].kind, "labeled") == 0);
    }
}

static void jobs_are_done(const struct job *done) {
    for (size_t i = 0; i < JOBS; i++) {
        if (done[i].status) print_error("%s: %s\n", done[i].name, done[i].message);
        assert_int_equal(done[i].status, QKV_OK);
        assert_string_equal(done[i].message, ""); /* not the sentence of the failure before */
        assert_true(done[i].size > 0);
    }
}

static void jobs_are_equal(const struct job *a, const struct job *b) {
    for (size_t i = 0; i < JOBS; i++) {
        assert_memory_equal(a[i].losses, b[i].losses, sizeof a[i].losses);
        assert_memory_equal(&a[i].evaluation, &b[i].evaluation, sizeof a[i].evaluation);
        assert_int_equal(a[i].weights, b[i].weights);
        assert_int_equal(a[i].size, b[i].size);
        assert_memory_equal(a[i].text, b[i].text, a[i].size);
    }
}

static void several_contexts_in_their_threads_give_the_bits_of_each_alone(void **state) {
    (void)state;
    static struct job alone[JOBS], together[JOBS];
    pthread_t threads[JOBS];
    const int each = 2;
    jobs_make(alone, "alone", each);
    for (size_t i = 0; i < JOBS; i++) job_do(&alone[i]);
    jobs_are_done(alone);
    jobs_make(together, "together", each);
    for (size_t i = 0; i < JOBS; i++) assert_int_equal(pthread_create(&threads[i], NULL, job_do, &together[i]), 0);
    for (size_t i = 0; i < JOBS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    jobs_are_done(together);
    jobs_are_equal(alone, together);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_contexts_in_their_threads_give_the_bits_of_each_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
