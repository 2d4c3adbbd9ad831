/* Calls need no more stack than context.h says: each group of calls runs in a thread whose stack is filled with a
 * pattern, and what is overwritten is measured. */
/* labels: quick */
#include "rank_fixture.h"

#include <pthread.h>

#include <sys/mman.h>

enum { PROMISED = 100 << 10, STACK = 4 << 20, PAINT = 0xa5 };

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

/* ---- groups of calls -------------------------------------------------------------------------------------------- */

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
    OWNED_SPEC struct qkv_spec spec = {0}, again = {0};
    static const char *const settings[] = {"d_model=64", "decoder.layers=3"};
    enum qkv_status status = QKV_OK;
    const char *name;
    for (size_t i = 0; qkv_preset_at(i, &name, NULL) && !status; i++) {
        char *json = NULL;
        qkv_spec_free(&spec);
        status = qkv_spec_preset(ctx, &spec, name, NULL, 0);
        if (!status) status = qkv_spec_print(ctx, &spec, &json);
        qkv_spec_free(&again);
        if (!status) status = qkv_spec_parse(ctx, &again, name, json, strlen(json), NULL, 0);
        qkv_free(json);
    }
    qkv_spec_free(&spec);
    if (!status) status = qkv_spec_preset(ctx, &spec, "nano-gpt", settings, TEST_COUNT(settings));
    if (!status) status = qkv_spec_check_settings(ctx, settings, TEST_COUNT(settings));
    return status;
}

/* A file that is lists in lists, as deep as its reader lets them be and deeper; settings make it copy what it read. */
static enum qkv_status use_hostile_json(struct qkv_context *ctx) {
    OWNED_SPEC struct qkv_spec spec = {0};
    static char json[5000];
    const char *setting = "d_model=64";
    for (size_t depth = 100; depth <= 2000; depth += 1900) {
        char *at = json + snprintf(json, sizeof json, "{\"format\":");
        memset(at, '[', depth);
        memset(at + depth, ']', depth);
        memcpy(at + 2 * depth, "}", 2);
        qkv_spec_free(&spec);
        if (!qkv_spec_parse(ctx, &spec, "deep", json, strlen(json), &setting, 1)) return QKV_ARGUMENT;
    }
    return QKV_OK;
}

/* A template that calls itself as deep as it may, with values as deep as they may be. */
static enum qkv_status use_chat(struct qkv_context *ctx) {
    static const char source[] =
        "{% macro m(x, y=1) %}{% for i in [x] %}{% if i is defined %}{{ '%s' % (m([i], y=i) ~ (1 if i else 2)) }}"
        "{% endif %}{% endfor %}{% endmacro %}{% set n = namespace(l=[]) %}{% for i in range(100) %}"
        "{% set n.l = [n.l] %}{% endfor %}{{ n.l }}{{ n.l|tojson }}{{ n.l == n.l }}{{ m(1) }}";
    struct qkv_chat_template *t = NULL;
    struct qkv_rendered rendered;
    enum qkv_status status = qkv_chat_template_parse(ctx, "template", source, strlen(source), &t);
    if (!status && qkv_chat_template_render(ctx, t, NULL, "[]", 2, &rendered) != QKV_FORMAT) status = QKV_ARGUMENT;
    qkv_chat_template_free(t);
    char *deep = malloc(100001);
    if (!deep) return QKV_MEMORY;
    static const char *const parts[] = {"((((", "[[[[", "-+-+", "{1:[", "a(a(", "a[a["};
    for (size_t i = 0; i < TEST_COUNT(parts) && !status; i++) {
        memcpy(deep, "{{ ", 3);
        for (size_t at = 3; at + 4 < 100000; at += 4) memcpy(deep + at, parts[i], 4);
        if (qkv_chat_template_parse(ctx, "template", deep, 99000, &t) != QKV_FORMAT) status = QKV_ARGUMENT;
    }
    free(deep);
    return status;
}

static enum qkv_status use_plan(struct qkv_context *ctx) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_costs costs;
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "gpt2-small", NULL, 0);
    return status ? status : qkv_measure_costs(ctx, &spec, 1, 64, &costs);
}

static enum qkv_status use_training(struct qkv_context *ctx) {
    OWNED_SPEC struct qkv_spec spec = {0};
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
    if (!status) status = qkv_trainer_resume(ctx, run_folder(), NULL, NULL, NULL, &trainer);
    for (int i = 0; i < 2 && !status; i++) status = qkv_trainer_step(trainer, &report);
    if (!status) status = qkv_trainer_save(trainer);
    qkv_trainer_free(trainer);
    return status;
}

static bool write_nowhere(void *user, const char *text, size_t size) {
    (void)user, (void)text, (void)size;
    return true;
}

/* The run of the calls before: loaded, evaluated, resumed, saved. */
static enum qkv_status use_model(struct qkv_context *ctx) {
    struct qkv_generate_options options = qkv_generate_defaults();
    struct qkv_evaluation evaluation;
    struct qkv_model *model = NULL;
    char data[1024];
    snprintf(data, sizeof data, "%s", test_path("stack.txt"));
    options.tokens = 8;
    enum qkv_status status = qkv_model_load(ctx, run_folder(), &model);
    if (!status) status = qkv_generate(model, "the cat", 7, &options, write_nowhere, NULL, NULL);
    if (!status) status = qkv_evaluate_text(model, &(const char *){data}, 1, NULL, NULL, NULL, &evaluation);
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
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_module *module = NULL;
    struct qkv_model *model = NULL;
    const struct qkv_module_options options = {.size = sizeof options, .kind = QKV_MODULE_CROSS_ATTENTION};
    const char *const settings[] = {"vocab=50", "d_model=32", "decoder.attention.heads=2"};
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "nano-gpt", settings, TEST_COUNT(settings));
    if (!status) status = qkv_model_create(ctx, &spec, 1, &model);
    if (!status) status = qkv_model_export_published(model, "llama", "f32", test_path("llama"));
    if (status == QKV_SPEC) status = QKV_OK;
    qkv_model_free(model);
    if (!status) status = qkv_module_create(ctx, &spec, &options, &module);
    qkv_module_free(module);
    return status;
}

/* Attention on plain buffers: of whole rows, and of packed rows; forward, backward, and its weights. */
static enum qkv_status use_attention(struct qkv_context *ctx) {
    enum { B = 2, H = 4, HKV = 2, T = 40, D = 16 };
    static float q[B * H * T * D], k[B * HKV * T * D], v[B * HKV * T * D], y[B * H * T * D], lse[B * H * T], w[T * T];
    static float dq[B * H * T * D], dk[B * HKV * T * D], dv[B * HKV * T * D];
    static const int32_t cuts[] = {0, 13, B * T};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < TEST_COUNT(q); i++) q[i] = y[i] = (float)(i % 7) / 7;
    for (size_t i = 0; i < TEST_COUNT(k); i++) k[i] = v[i] = (float)(i % 5) / 5;
    for (int packed = 0; packed < 2 && !status; packed++) {
        const size_t rows = packed ? B * T : T, many = packed ? 1 : B;
        struct qkv_attention_call call = {.q = qkv_view_bthd(q, QKV_F32, many, rows, H, D),
                                          .k = qkv_view_bthd(k, QKV_F32, many, rows, HKV, D),
                                          .v = qkv_view_bthd(v, QKV_F32, many, rows, HKV, D),
                                          .y = qkv_view_bthd(y, QKV_F32, many, rows, H, D),
                                          .lse = lse,
                                          .mask = {.causal = true}};
        if (packed) call.mask = (struct qkv_mask){.B = 2, .causal = true, .cu_q = cuts, .cu_k = cuts};
        const struct qkv_attention_gradients g = {.dy = call.y,
                                                  .dq = qkv_view_bthd(dq, QKV_F32, many, rows, H, D),
                                                  .dk = qkv_view_bthd(dk, QKV_F32, many, rows, HKV, D),
                                                  .dv = qkv_view_bthd(dv, QKV_F32, many, rows, HKV, D)};
        status = qkv_attention_forward(ctx, &call);
        if (!status) status = qkv_attention_backward(ctx, &call, &g);
        if (!status) status = qkv_attention_weights(ctx, &call, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 5, w);
    }
    return status;
}

static enum qkv_status use_sessions(struct qkv_context *ctx) {
    static const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
    struct qkv_model *model = NULL;
    struct qkv_session *session = NULL, *fork = NULL;
    struct qkv_decoder *decoder = NULL;
    const struct qkv_session_options shared = {.size = sizeof shared, .pages = 2};
    const struct qkv_decoder_options rows = {.size = sizeof rows, .rows = 3, .chunk = 2};
    const size_t from[] = {0, 0, 2};
    enum qkv_status status = qkv_model_load(ctx, run_folder(), &model);
    if (!status) status = qkv_session_create(model, &shared, &session);
    if (!status) status = qkv_session_append(session, ids, TEST_COUNT(ids));
    if (!status) status = qkv_session_fork(session, &fork);
    if (!status) status = qkv_session_append(fork, ids, 1);
    if (!status) status = qkv_decoder_create(model, &rows, &decoder);
    if (!status) status = qkv_decoder_step(decoder, ids);
    if (!status) status = qkv_decoder_select(decoder, from, TEST_COUNT(from));
    if (!status) status = qkv_decoder_step(decoder, ids);
    qkv_decoder_free(decoder);
    qkv_session_free(fork);
    qkv_session_free(session);
    qkv_model_free(model);
    return status;
}

/* Each kind is trained, saved, read again and used; so are some that others made. */
static enum qkv_status use_tokenizers(struct qkv_context *ctx) {
    static const char text[] = "the cat sat on the mat.\na dog ran home, \xc3\xa9t\xc3\xa9 1234!\n";
    static const char *const folders[] = {"gpt2", "llama_sharded", "t5_v1_1"};
    enum qkv_status status = QKV_OK;
    for (int kind = 0; kind <= QKV_TOKENIZER_BPE + (int)TEST_COUNT(folders) && !status; kind++) {
        const struct qkv_tokenizer_options options = {.size = sizeof options, .kind = (enum qkv_tokenizer_kind)kind};
        struct qkv_tokenizer *made = NULL, *t = NULL;
        char path[1024], *back = NULL;
        int32_t *ids = NULL;
        size_t count = 0, size = 0;
        const bool foreign = kind > QKV_TOKENIZER_BPE;
        if (foreign)
            snprintf(path, sizeof path, "%s/golden/hf/%s", TEST_SOURCE_DIR "/tests",
                     folders[kind - QKV_TOKENIZER_BPE - 1]);
        else
            snprintf(path, sizeof path, "%s", test_path("tokenizer.json"));
        if (!foreign) status = qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &made);
        if (!status && !foreign) status = qkv_tokenizer_save(ctx, made, path);
        if (!status) status = foreign ? qkv_tokenizer_open(ctx, path, &t) : qkv_tokenizer_load(ctx, path, &t);
        if (foreign && status == QKV_FILE) status = QKV_OK; /* it has none */
        if (!status && t) status = qkv_tokenizer_encode_sequence(ctx, t, text, sizeof text - 1, true, &ids, &count);
        if (!status && t) status = qkv_tokenizer_decode(ctx, t, ids, count, &back, &size);
        qkv_free(ids);
        qkv_free(back);
        qkv_tokenizer_free(made);
        qkv_tokenizer_free(t);
    }
    return status;
}

static bool take_nowhere(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    (void)user, (void)line, (void)rank, (void)text, (void)size, (void)score;
    return true;
}

/* A run on lines, in a folder of its own. */
static enum qkv_status train_lines(struct qkv_context *ctx, const char *preset, const char *file, const char *folder) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_train_options options;
    struct qkv_train_report report;
    struct qkv_trainer *trainer = NULL;
    enum qkv_status status = qkv_spec_preset(ctx, &spec, preset, (const char *const[]){"d_model=32"}, 1);
    if (!status) status = qkv_train_defaults(ctx, NULL, &options);
    if (!status) status = qkv_train_set(ctx, &options, strcmp(preset, "tiny-seq2seq") ? "labeled" : "pairs", file);
    options.steps = 3, options.batch = 2, options.warmup = 1;
    if (!status) status = qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer);
    for (int i = 0; i < 3 && !status; i++) status = qkv_trainer_step(trainer, &report);
    if (!status) status = qkv_trainer_save(trainer);
    qkv_trainer_free(trainer);
    return status;
}

/* Twenty lines of two fields each. */
static void write_pairs(const char *path) {
    char text[1024];
    size_t n = 0;
    for (int i = 0; i < 20; i++) n += (size_t)snprintf(text + n, sizeof text - n, "%s\tcat %d\n", i % 2 ? "a" : "b", i);
    test_write_file(path, text, n);
}

static enum qkv_status use_pairs(struct qkv_context *ctx) {
    static const char *const lines[] = {"a", "b"};
    struct qkv_search_options options = qkv_search_defaults();
    struct qkv_pairs_evaluation evaluation;
    struct qkv_model *model = NULL;
    char file[1024], folder[1024];
    snprintf(file, sizeof file, "%s", test_path("pairs.tsv"));
    snprintf(folder, sizeof folder, "%s", test_path("pairs"));
    write_pairs(file);
    options.beam = options.n_best = 2;
    enum qkv_status status = train_lines(ctx, "tiny-seq2seq", file, folder);
    if (!status) status = qkv_model_load(ctx, folder, &model);
    if (!status) status = qkv_translate(model, lines, TEST_COUNT(lines), &options, take_nowhere, NULL);
    if (!status) status = qkv_evaluate_pairs(model, file, NULL, NULL, NULL, &evaluation);
    qkv_model_free(model);
    return status;
}

static enum qkv_status use_classes(struct qkv_context *ctx) {
    static const char *const lines[] = {"cat 1", "cat 2"};
    struct qkv_labels_evaluation evaluation = {0};
    struct qkv_model *model = NULL;
    float probabilities[4], vectors[2 * 32];
    char file[1024], folder[1024];
    snprintf(file, sizeof file, "%s", test_path("labels.tsv"));
    snprintf(folder, sizeof folder, "%s", test_path("classes"));
    write_pairs(file);
    enum qkv_status status = train_lines(ctx, "text-classifier", file, folder);
    if (!status) status = qkv_model_load(ctx, folder, &model);
    if (!status) status = qkv_classify(model, lines, TEST_COUNT(lines), NULL, probabilities);
    if (!status)
        status = qkv_embed(model, lines, TEST_COUNT(lines),
                           &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN, .normalize = true), vectors);
    if (!status) status = qkv_evaluate_labels(model, file, NULL, NULL, &evaluation);
    qkv_free(evaluation.confusion);
    qkv_model_free(model);
    return status;
}

/* One of two ranks, with calls to the other; that one has a thread of its own. */
static enum qkv_status use_ranks(struct qkv_context *ctx) {
    OWNED_SPEC struct qkv_spec spec = {0};
    static struct rank_group group;
    static struct rank ranks[2];
    pthread_t other;
    char data[1024];
    struct run run = {.folder = test_path("ranks"), .spec = &spec, .until = 3};
    snprintf(data, sizeof data, "%s", test_path("stack.txt"));
    enum qkv_status status = qkv_spec_preset(ctx, &spec, "nano-gpt", (const char *const[]){"d_model=32"}, 1);
    if (!status) status = qkv_train_defaults(ctx, "nano-gpt", &run.options);
    if (!status) status = qkv_train_set(ctx, &run.options, "data", data);
    if (status) return status;
    run.options.steps = 3, run.options.batch = 4, run.options.warmup = 1, run.options.tokenizer = "bpe:300";
    rank_group_start(&group, 2);
    for (int r = 0; r < 2; r++) ranks[r] = (struct rank){.member = {&group, r}, .run = &run};
    if (pthread_create(&other, NULL, rank_main, &ranks[1])) return QKV_MEMORY;
    rank_main(&ranks[0]);
    pthread_join(other, NULL);
    return ranks[0].status ? ranks[0].status : ranks[1].status;
}

static void each_group_of_calls_needs_no_more_stack_than_is_said(void **state) {
    (void)state;
    static const struct group groups[] = {{.name = "a context", .run = use_context},
                                          {.name = "specs", .run = use_specs},
                                          {.name = "files that are no specs", .run = use_hostile_json},
                                          {.name = "chat templates", .run = use_chat},
                                          {.name = "costs", .run = use_plan},
                                          {.name = "training", .run = use_training},
                                          {.name = "models", .run = use_model},
                                          {.name = "published folders", .run = use_published},
                                          {.name = "families and modules", .run = use_families_and_modules},
                                          {.name = "attention", .run = use_attention},
                                          {.name = "sessions", .run = use_sessions},
                                          {.name = "tokenizers", .run = use_tokenizers},
                                          {.name = "pairs", .run = use_pairs},
                                          {.name = "classes", .run = use_classes},
                                          {.name = "ranks", .run = use_ranks}};
#if defined(TEST_SANITIZED) || defined(TEST_BEHAVIOUR_SANITIZER)
    skip(); /* the sanitizers' stacks are others */
#endif
    for (size_t i = 0; i < TEST_COUNT(groups); i++) {
        struct group group = groups[i];
        group.ctx = fixture_context(2);
        const size_t used = stack_used(&group);
        if (group.status) fail_msg("%s: %s", group.name, qkv_message(group.ctx));
        print_message("%s: %zu KiB of stack\n", group.name, used >> 10);
        if (used > PROMISED) fail_msg("%s: %zu bytes of stack; %d are the limit", group.name, used, PROMISED);
        qkv_context_free(group.ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_of_calls_needs_no_more_stack_than_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
