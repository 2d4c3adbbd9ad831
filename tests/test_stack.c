/* What calls need of a stack is no more than context.h says: each group of calls runs in a thread whose stack is painted, and what is
 * painted over is measured. */
#include "train_fixture.h"

#include <pthread.h>

#include <sys/mman.h>

enum { PROMISED = 256 << 10, STACK = 4 << 20, PAINT = 0xa5 };

/* One group of calls, on a stack of its own. cmocka's checks belong to the main thread. */
struct group {
    const char *name;
    enum qkv_status (*run)(struct qkv_context *ctx);
    struct qkv_context *ctx;
    enum qkv_status status;
};

static void *group_run(void *argument) {
    struct group *group = argument;
    group->status = group->run(group->ctx);
    return NULL;
}

static size_t stack_used(struct group *group) {
    pthread_attr_t attributes;
    pthread_t thread;
    size_t clean = 0;
    unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    memset(stack, PAINT, STACK);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, group_run, group), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    while (clean < STACK && stack[clean] == PAINT) clean++;
    assert_int_equal(munmap(stack, STACK), 0);
    return STACK - clean;
}

/* ---- groups of calls ------------------------------------------------------------------------------------------------- */

static const char *run_folder(void) {
    static char path[1024];
    snprintf(path, sizeof path, "%s", test_path("run"));
    return path;
}

static enum qkv_status use_context(struct qkv_context *ctx) {
    struct qkv_context *other;
    (void)ctx;
    enum qkv_status status = qkv_context_create(&other, NULL);
    qkv_context_free(other);
    return status;
}

static enum qkv_status use_specs(struct qkv_context *ctx) {
    static struct qkv_spec spec, again;
    static const char *const settings[] = {"d_model=64", "decoder.layers=3"};
    enum qkv_status status = QKV_OK;
    const char *name;
    for (size_t i = 0; qkv_preset_at(i, &name, NULL) && !status; i++) {
        char *json = NULL;
        status = qkv_spec_preset(ctx, &spec, name, NULL, 0);
        if (!status) status = qkv_spec_print(ctx, &spec, &json);
        if (!status) status = qkv_spec_parse(ctx, &again, name, json, strlen(json), NULL, 0);
        qkv_free(json);
    }
    if (!status) status = qkv_spec_preset(ctx, &spec, "nano-gpt", settings, TEST_COUNT(settings));
    if (!status) status = qkv_spec_check_settings(ctx, settings, TEST_COUNT(settings));
    return status;
}

/* A file that is lists in lists, as deep as its reader lets them be and deeper; settings make it copy what it read. */
static enum qkv_status use_hostile_json(struct qkv_context *ctx) {
    static struct qkv_spec spec;
    static char json[5000];
    const char *setting = "d_model=64";
    for (size_t depth = 100; depth <= 2000; depth += 1900) {
        char *at = json + snprintf(json, sizeof json, "{\"format\":");
        memset(at, '[', depth);
        memset(at + depth, ']', depth);
        memcpy(at + 2 * depth, "}", 2);
        if (!qkv_spec_parse(ctx, &spec, "deep", json, strlen(json), &setting, 1)) return QKV_ARGUMENT;
    }
    return QKV_OK;
}

static enum qkv_status use_plan(struct qkv_context *ctx) {
    static struct qkv_spec spec;
    struct qkv_costs costs;
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "gpt2-small", NULL, 0);
    return status ? status : qkv_measure_costs(ctx, &spec, 1, 64, &costs);
}

static enum qkv_status use_training(struct qkv_context *ctx) {
    static struct qkv_spec spec;
    struct qkv_train_options options;
    struct qkv_train_report report;
    struct qkv_trainer *trainer = NULL;
    char data[1024];
    snprintf(data, sizeof data, "%s", test_path("stack.txt"));
    fixture_text(data, 3000, 1);
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "nano-gpt", (const char *const[]){"d_model=32"}, 1);
    if (!status) status = qkv_train_defaults(ctx, "nano-gpt", &options);
    if (!status) status = qkv_train_set(ctx, &options, "data", data);
    options.steps = 4, options.batch = 2, options.warmup = 1, options.tokenizer = "bpe:300";
    if (!status) status = qkv_trainer_create(ctx, &spec, &options, run_folder(), NULL, NULL, &trainer);
    for (int i = 0; i < 2 && !status; i++) status = qkv_trainer_step(trainer, &report);
    if (!status) status = qkv_trainer_save(trainer);
    qkv_trainer_free(trainer);
    trainer = NULL;
    if (!status) status = qkv_trainer_resume(ctx, run_folder(), 0, NULL, NULL, &trainer);
    for (int i = 0; i < 2 && !status; i++) status = qkv_trainer_step(trainer, &report);
    if (!status) status = qkv_trainer_save(trainer);
    qkv_trainer_free(trainer);
    return status;
}

static bool write_nowhere(void *user, const char *text, size_t size) {
    (void)user, (void)text, (void)size;
    return true;
}

/* Of the run before: loaded, evaluated, asked to go on, saved. */
static enum qkv_status use_model(struct qkv_context *ctx) {
    struct qkv_generate_options options = qkv_generate_defaults();
    struct qkv_evaluation evaluation;
    struct qkv_model *model = NULL;
    char data[1024];
    snprintf(data, sizeof data, "%s", test_path("stack.txt"));
    options.tokens = 8;
    enum qkv_status status = qkv_model_load(ctx, run_folder(), &model);
    if (!status) status = qkv_generate(model, "the cat", 7, &options, write_nowhere, NULL, NULL);
    if (!status) status = qkv_evaluate_text(model, data, NULL, NULL, NULL, &evaluation);
    if (!status) status = qkv_model_save(model, test_path("saved"));
    qkv_model_free(model);
    return status;
}

static enum qkv_status use_published(struct qkv_context *ctx) {
    static const char *const folders[] = {"gpt2", "llama_sharded", "t5_v1_1", "gpt_oss_small", "whisper_long"};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < TEST_COUNT(folders) && !status; i++) {
        struct qkv_model *model = NULL;
        char path[1024];
        snprintf(path, sizeof path, "%s/golden/hf/%s", TEST_SOURCE_DIR "/tests", folders[i]);
        status = qkv_model_load(ctx, path, &model);
        if (!status) status = qkv_model_export_published(model, NULL, "f32", test_path(folders[i]));
        qkv_model_free(model);
    }
    return status;
}

/* A preset that no family has the whole of is refused with what the nearest has otherwise; modules are parts of one. */
static enum qkv_status use_families_and_modules(struct qkv_context *ctx) {
    static struct qkv_spec spec;
    struct qkv_module *module = NULL;
    struct qkv_model *model = NULL;
    const struct qkv_module_options options = {.kind = QKV_MODULE_CROSS_ATTENTION};
    const char *const settings[] = {"vocab=50", "d_model=32", "decoder.attention.heads=2"};
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "nano-gpt", settings, TEST_COUNT(settings));
    if (!status) status = qkv_model_create(ctx, &spec, 1, &model);
    if (!status) status = qkv_model_export_published(model, "llama", "f32", test_path("llama"));
    if (status == QKV_SPEC) status = QKV_OK;
    qkv_model_free(model);
    if (!status) status = qkv_module_create_with(ctx, &spec, &options, &module);
    qkv_module_free(module);
    return status;
}

static void each_group_of_calls_needs_no_more_stack_than_is_said(void **state) {
    (void)state;
    static const struct group groups[] = {{.name = "a context", .run = use_context},
                                          {.name = "specs", .run = use_specs},
                                          {.name = "files that are no specs", .run = use_hostile_json},
                                          {.name = "costs", .run = use_plan},
                                          {.name = "training", .run = use_training},
                                          {.name = "models", .run = use_model},
                                          {.name = "published folders", .run = use_published},
                                          {.name = "families and modules", .run = use_families_and_modules}};
#if defined(TEST_SANITIZED) || defined(TEST_BEHAVIOUR_SANITIZER)
    skip(); /* the sanitizers' stacks are others */
#endif
    for (size_t i = 0; i < TEST_COUNT(groups); i++) {
        struct group group = groups[i];
        group.ctx = fixture_context(2);
        const size_t used = stack_used(&group);
        if (group.status) fail_msg("%s: %s", group.name, qkv_message(group.ctx));
        print_message("%s: %zu KiB of stack\n", group.name, used >> 10);
        if (used > PROMISED) fail_msg("%s: %zu bytes of stack; context.h says %d", group.name, used, PROMISED);
        qkv_context_free(group.ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_of_calls_needs_no_more_stack_than_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
