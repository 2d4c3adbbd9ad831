/* After its first step, a training run asks the system for no memory, and generation asks for none after its first
 * token. Counting functions replace the malloc family and mmap, for every kind of dataset, several numbers of threads,
 * parts of a batch, checkpointed activations and a profile; and for every way to choose tokens, one continuation and
 * several, and contexts that are full. Steps that end with an evaluation or a checkpoint are not counted. */
/* labels: numeric */
#include "train_fixture.h"

#include <errno.h>
#include <stdatomic.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#if defined(__GLIBC__) && defined(__LP64__) && !defined(TEST_SANITIZED)
#define COUNTS 1
#else
#define COUNTS 0 /* the sanitizers have replaced these functions, or their real names are not known */
#endif

static atomic_bool counting;
static atomic_size_t allocations;

#if COUNTS
#pragma GCC visibility push(default) /* so that the libraries call them too */
static void count_one(void) {
    if (atomic_load(&counting)) atomic_fetch_add(&allocations, 1);
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    count_one();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    count_one();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    count_one();
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    count_one();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    count_one();
    return (void *)(uintptr_t)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}
#pragma GCC visibility pop
#endif

/* ---- runs ------------------------------------------------------------------------------------------------------- */

enum feed { TEXT, MLM, PAIRS, LABELED, FEEDS };
static const char *const names[FEEDS] = {"text", "mlm", "pairs", "labeled"};

#define START "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,\"position\":{\"kind\":\"learned\"},"
static const char *const specs[FEEDS] = {
    START "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}",
    START "\"encoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}",
    START
    "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}},\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}",
    START "\"head\":{\"kind\":\"classify\",\"pool\":\"mean\"},\"encoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}"};

/* Lines of many lengths, so that no two batches have one shape. */
static void write_lines(struct qkv_context *ctx, const char *path, enum feed feed) {
    struct qkv_random random = qkv_random_start(4, 4);
    struct qkv_buffer text = {0};
    for (int i = 0; i < 60; i++) {
        char word[16] = "";
        size_t n = 1 + (size_t)qkv_random_below(&random, 12);
        for (size_t k = 0; k < n; k++) word[k] = (char)('a' + qkv_random_below(&random, 4));
        const char *first = feed == LABELED ? (word[0] < 'c' ? "low" : "high") : word;
        assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t%s\n", first, feed == LABELED ? word : word + n / 2));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

static struct qkv_train_options options_of(struct qkv_context *ctx, enum feed feed) {
    static char path[1024];
    struct qkv_train_options o = fixture_options(ctx);
    o.steps = 40;
    o.eval_every = 0;
    o.save_every = 0;
    if (feed == MLM) o.task = "mlm";
    if (feed == TEXT || feed == MLM) return o;
    snprintf(path, sizeof path, "%s", test_path(names[feed]));
    write_lines(ctx, path, feed);
    o.data = NULL;
    o.batch_tokens = 40;
    *(feed == PAIRS ? &o.pairs : &o.labeled) = path;
    return o;
}

static void expect_none(enum feed feed, int threads, int64_t accumulate, bool checkpoint, bool profile) {
    struct qkv_context *ctx = fixture_context(threads);
    struct qkv_train_options o = options_of(ctx, feed);
    struct qkv_train_report report;
    struct qkv_trainer *t;
    OWNED_SPEC struct qkv_spec spec = {0};
    o.accumulate = accumulate;
    o.checkpoint_activations = checkpoint;
    o.precision = checkpoint ? "bf16" : "fp32";
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, names[feed], specs[feed], strlen(specs[feed]), NULL, 0));
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &o, fixture_run("run"), NULL, NULL, &t));
    if (profile) assert_ok(ctx, qkv_trainer_profile_start(t));
    assert_ok(ctx, qkv_trainer_step(t, &report));
    while (report.step < o.steps - 1) {
        atomic_store(&allocations, 0);
        atomic_store(&counting, true);
        enum qkv_status status = qkv_trainer_step(t, &report);
        atomic_store(&counting, false);
        assert_ok(ctx, status);
        if (atomic_load(&allocations))
            fail_msg("%s, %d threads, %d parts%s%s: %zu allocations in step %d", names[feed], threads, (int)accumulate,
                     checkpoint ? ", checkpointed" : "", profile ? ", profiled" : "", atomic_load(&allocations),
                     (int)report.step);
    }
    qkv_trainer_free(t);
    qkv_context_free(ctx);
}

static void test_counting(void **state) {
    (void)state;
    if (!COUNTS) skip();
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    void *volatile block = malloc(10);
    block = realloc(block, 20000);
    free(block);
    block = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    atomic_store(&counting, false);
    assert_int_equal(munmap(block, 4096), 0);
    assert_int_equal(atomic_load(&allocations), 3);
}

static void test_feeds(void **state) {
    (void)state;
    if (!COUNTS) skip();
    for (int feed = 0; feed < FEEDS; feed++)
        for (int64_t accumulate = 1; accumulate <= 3; accumulate += 2)
            expect_none((enum feed)feed, 1, accumulate, accumulate > 1, accumulate == 1);
}

static void test_threads(void **state) {
    (void)state;
    if (!COUNTS) skip();
    for (int threads = 2; threads <= 5; threads += 3)
        for (int feed = 0; feed < FEEDS; feed++) expect_none((enum feed)feed, threads, 1, false, false);
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

enum { GENERATE_CONTEXT = 32 };

static struct qkv_model *generating_model(struct qkv_context *ctx) {
    static const char json[] = "{\"format\":\"qkv\",\"version\":1,\"vocab\":256,\"d_model\":32,\"context\":32,"
                               "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}";
    const struct qkv_tokenizer_options bytes = {.size = sizeof bytes, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, sizeof json - 1, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    assert_ok(ctx, qkv_tokenizer_train(ctx, &bytes, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

struct told {
    size_t count, first; /* tokens so far; counting begins after `first` of them */
};

static bool tell(void *user, const struct qkv_made_token *token) {
    struct told *t = user;
    (void)token;
    if (++t->count != t->first) return true;
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    return true;
}

static bool write_text(void *user, const char *text, size_t size) {
    (void)user, (void)text, (void)size;
    return true;
}

static bool write_one(void *user, size_t index, const char *text, size_t size) {
    (void)index;
    return write_text(user, text, size);
}

/* count 0: one continuation by qkv_generate. Freeing at the end allocates nothing either. */
static void expect_no_token(struct qkv_context *ctx, struct qkv_model *model, const struct qkv_sampling *sampling,
                            size_t tokens, size_t count) {
    static const char *const stops[] = {"never seen in a text of random bytes"};
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_generate_report report;
    /* a full context is run again from its middle: the second time in memory that it has */
    struct told told = {.first = (count ? count : 1) * (tokens > GENERATE_CONTEXT ? 2 * GENERATE_CONTEXT : 1)};
    o.sampling = *sampling, o.tokens = tokens, o.stops = stops, o.stop_count = 1;
    o.take_token = tell, o.take_user = &told;
    enum qkv_status status = count ? qkv_generate_several(model, "ab", 2, &o, count, write_one, NULL, &report)
                                   : qkv_generate(model, "ab", 2, &o, write_text, NULL, &report);
    atomic_store(&counting, false);
    assert_ok(ctx, status);
    assert_int_equal(told.count, tokens * (count ? count : 1));
    if (atomic_load(&allocations))
        fail_msg("%zu continuations of %zu tokens, top_k %d: %zu allocations", count, tokens, sampling->top_k,
                 atomic_load(&allocations));
}

static void test_tokens(void **state) {
    (void)state;
    if (!COUNTS) skip();
    const struct qkv_sampling ways[] = {
        {.temperature = 0, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 1, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 0.8, .top_k = 40, .top_p = 0.9, .min_p = 0.01, .repeat_penalty = 1.2, .repeat_last = 8}};
    struct qkv_context *ctx = fixture_context(2);
    struct qkv_model *model = generating_model(ctx);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t count = 0; count < 4; count += 3) {
            expect_no_token(ctx, model, &ways[i], GENERATE_CONTEXT - 2, count);
            expect_no_token(ctx, model, &ways[i], 5 * GENERATE_CONTEXT, count);
        }
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counting),
        cmocka_unit_test(test_feeds),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
