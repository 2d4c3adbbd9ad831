/* Memory: free memory is read from the machine, control groups and limits; a plan that needs more is refused before
 * anything is allocated; qkv info prints what a process needs. */
#include "train_fixture.h"

#include <fcntl.h>

#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((uint64_t)1 << 20)

/* ---- a machine of files ----------------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text) {
    struct qkv_context ctx = {.threads = 1};
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", test_path(name));
    *strrchr(folder, '/') = 0;
    assert_ok(&ctx, qkv_make_folder(&ctx, folder));
    test_write_file(test_path(name), text, strlen(text));
}

static void write_number(const char *name, uint64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)number);
    write_text(name, text);
}

/* The files below a folder of the test's own; nothing is used by the process. */
static struct qkv_memory_files machine(const char *name, const char *membership) {
    static char paths[4][1100];
    static const char *const names[] = {"meminfo", "membership", "cgroup", "statm"};
    char path[200];
    test_remove_tree(test_path(name));
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", name, names[i]);
        snprintf(paths[i], sizeof paths[i], "%s", test_path(path));
    }
    snprintf(path, sizeof path, "%s/meminfo", name);
    write_text(path, "MemTotal:  8388608 kB\nMemFree:   100 kB\nMemAvailable:   4194304 kB\n"); /* 4 GiB */
    snprintf(path, sizeof path, "%s/membership", name);
    write_text(path, membership);
    snprintf(path, sizeof path, "%s/statm", name);
    write_text(path, "0 0 0 0 0 0 0\n");
    return (struct qkv_memory_files){paths[0], paths[1], paths[2], paths[3]};
}

static void the_machine_tells_what_is_available(void **state) {
    (void)state;
    struct qkv_memory_files files = machine("plain", "0::/\n");
    struct qkv_memory_left left = qkv_memory_physical(&files);
    assert_true(left.bytes == 4096 * MIB);
    assert_string_equal(left.why, "the memory of this machine");
    files.meminfo = test_path("nothing");
    assert_true(qkv_memory_physical(&files).bytes == UINT64_MAX);
}

static void groups_leave_their_limit_less_what_no_file_holds(void **state) {
    (void)state;
    struct qkv_memory_files files = machine("v2", "0::/outer/inner\n");
    write_text("v2/cgroup/outer/inner/memory.max", "max\n");
    write_number("v2/cgroup/outer/inner/memory.current", 200 * MIB);
    assert_true(qkv_memory_physical(&files).bytes == 4096 * MIB);
    write_number("v2/cgroup/outer/memory.max", 1000 * MIB); /* a group that holds ours */
    write_number("v2/cgroup/outer/memory.current", 700 * MIB);
    assert_true(qkv_memory_physical(&files).bytes == 300 * MIB);
    write_text("v2/cgroup/outer/memory.stat", "anon 5\nfile 9\ninactive_file 104857600\nactive_file 104857600\n");
    struct qkv_memory_left left = qkv_memory_physical(&files); /* pages of files can be given back */
    assert_true(left.bytes == 500 * MIB);
    assert_non_null(strstr(left.why, "the limit of the control group at "));
    assert_non_null(strstr(left.why, "/v2/cgroup/outer"));
    write_number("v2/cgroup/outer/inner/memory.max", 100 * MIB); /* more is used than allowed */
    assert_true(qkv_memory_physical(&files).bytes == 0);
}

/* In version 1, the controller "memory" counts; in a container its own group is the root of the mount. */
static void groups_of_version_1_are_read_too(void **state) {
    (void)state;
    struct qkv_memory_files files = machine("v1", "4:cpu,cpuacct:/c\n7:memory:/docker/abc\n0::/\n");
    write_number("v1/cgroup/memory/memory.limit_in_bytes", 300 * MIB);
    write_number("v1/cgroup/memory/memory.usage_in_bytes", 150 * MIB);
    write_text("v1/cgroup/memory/memory.stat", "cache 1\ntotal_inactive_file 20971520\ntotal_active_file 10485760\n");
    assert_true(qkv_memory_physical(&files).bytes == 180 * MIB);
    write_number("v1/cgroup/memory/memory.limit_in_bytes", UINT64_C(9223372036854771712)); /* no limit */
    assert_true(qkv_memory_physical(&files).bytes == 4096 * MIB);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

/* A context in a group that has so much left. */
static struct qkv_context *limited(struct qkv_memory_files *files, uint64_t bytes, bool ignore) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = 1, .ignore_memory = ignore};
    *files = machine("box", "0::/\n");
    write_number("box/cgroup/memory.max", bytes);
    write_number("box/cgroup/memory.current", 0);
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    ctx->memory_files = files;
    return ctx;
}

static struct qkv_spec large_spec(struct qkv_context *ctx) {
    return fixture_spec(ctx, (const char *const[]){"d_model=256", "context=128", "vocab=4096", NULL});
}

static void a_run_that_needs_more_is_refused_before_its_folder_is_made(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 20 * MIB, false);
    struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"d_model=256", "context=128", NULL});
    struct qkv_trainer *trainer;
    options.batch = 64;
    options.accumulate = 1;
    options.precision = "fp32";
    const char *folder = fixture_run("refused");
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer), QKV_MEMORY);
    /* groups keep sums that wait for others */
    assert_message(ctx, "choose a smaller option batch or an option accumulate of up to 64, with option groups = 1 (");
    options.groups = 1;
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer), QKV_MEMORY);
    assert_message(ctx, "choose a smaller option batch or an option accumulate of up to 64 (");
    assert_message(ctx, "option ignore_memory");
    assert_int_not_equal(access(folder, F_OK), 0);
    write_number("box/cgroup/memory.max", 5 * MIB);
    options.batch = 1;
    options.checkpoint_activations = true; /* what cannot help any more is not said */
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer), QKV_MEMORY);
    assert_null(strstr(qkv_message(ctx), "option batch"));
    assert_null(strstr(qkv_message(ctx), "option checkpoint_activations"));
    assert_message(ctx, "a smaller model");
    qkv_context_free(ctx);
}

/* The largest of the amounts in brackets, in MiB. */
static double largest_way(const char *message) {
    double largest = 0, x;
    for (const char *at = message; (at = strchr(at, '(')); at++)
        if (sscanf(at, "(%lf MiB)", &x) == 1 && x > largest) largest = x;
    return largest;
}

static void only_ways_that_there_is_memory_for_are_named(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 20 * MIB, false);
    struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"d_model=256", "context=128", NULL});
    struct qkv_trainer *trainer = NULL;
    bool recomputing = false;
    options.batch = 64;
    options.accumulate = 1;
    options.precision = "fp32";
    for (uint64_t mib = 4; !trainer && mib < 4000; mib += mib < 20 ? 1 : 10) {
        write_number("box/cgroup/memory.max", mib * MIB);
        enum qkv_status status = qkv_trainer_create(ctx, &spec, &options, fixture_run("ways"), NULL, NULL, &trainer);
        if (status == QKV_OK) break;
        assert_int_equal(status, QKV_MEMORY);
        assert_true(largest_way(qkv_message(ctx)) <= (double)mib + 0.05);
        recomputing = recomputing || strstr(qkv_message(ctx), ", option checkpoint_activations (");
    }
    assert_non_null(trainer);
    assert_true(recomputing);
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
}

static void a_refused_run_starts_when_memory_is_ignored_or_enough(void **state) {
    (void)state;
    for (int ignore = 0; ignore < 2; ignore++) {
        struct qkv_memory_files files;
        struct qkv_context *ctx = limited(&files, ignore ? 1 * MIB : 3000 * MIB, ignore);
        struct qkv_train_options options = fixture_options(ctx);
        OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"d_model=256", "context=128", NULL});
        struct qkv_trainer *trainer;
        options.batch = 8;
        assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, fixture_run("taken"), NULL, NULL, &trainer));
        qkv_trainer_free(trainer);
        qkv_context_free(ctx);
    }
}

/* Where the packed copy of quantised weights does not fit, products read the file. */
static void short_memory_leaves_quantised_weights_in_the_file(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 3000 * MIB, false);
    struct qkv_gguf_options format = qkv_gguf_defaults();
    const char *path = test_path("few.gguf");
    OWNED_SPEC struct qkv_spec spec = large_spec(ctx);
    struct qkv_model *model;
    struct qkv_opening *opening;
    struct qkv_needs packed, mapped;
    format.format = "q8_0";
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_export_gguf(model, &format, path, NULL));
    qkv_model_free(model);
    assert_ok(ctx, qkv_model_open(ctx, path, NULL, &opening));
    assert_ok(ctx, qkv_opening_needs(opening, NULL, &packed));
    assert_false(qkv_model_mapped(qkv_opening_plan(opening)));
    qkv_opening_free(opening);
    write_number("box/cgroup/memory.max", packed.model - 1);
    assert_ok(ctx, qkv_model_open(ctx, path, NULL, &opening));
    assert_true(qkv_model_mapped(qkv_opening_plan(opening)));
    assert_ok(ctx, qkv_opening_needs(opening, NULL, &mapped));
    assert_true(mapped.model + mapped.mapped / 2 < packed.model);
    assert_ok(ctx, qkv_model_fill(opening, &model));
    qkv_opening_free(opening);
    qkv_model_free(model);
    write_number("box/cgroup/memory.max", mapped.model - 1);
    assert_ok(ctx, qkv_model_open(ctx, path, NULL, &opening));
    assert_false(qkv_model_mapped(qkv_opening_plan(opening)));
    assert_status(ctx, qkv_model_fill(opening, &model), QKV_MEMORY);
    qkv_opening_free(opening);
    ctx->ignore_memory = true;
    assert_ok(ctx, qkv_model_open(ctx, path, NULL, &opening));
    assert_false(qkv_model_mapped(qkv_opening_plan(opening)));
    qkv_opening_free(opening);
    qkv_context_free(ctx);
}

/* Lines: their shapes are known when they are read; what was begun is cleared away. */
static void a_run_on_lines_is_refused_by_their_shapes(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 24 * MIB, false);
    char lines[64 * 130 + 1], *at = lines;
    for (int i = 0; i < 64; i++) {
        at += sprintf(at, "%c\t", 'a' + i % 2);
        memset(at, 'x', 120), at += 120;
        at += sprintf(at, "\n");
    }
    test_write_file(test_path("lines.tsv"), lines, (size_t)(at - lines));
    struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec =
        fixture_spec(ctx, (const char *const[]){"d_model=256", "context=128", "head.kind=classify", "tie=none", NULL});
    struct qkv_trainer *trainer;
    options.data = NULL;
    options.labeled = test_path("lines.tsv");
    options.batch = 32;
    options.precision = "fp32";
    options.groups = 1;
    const char *folder = fixture_run("refused");
    assert_status(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer), QKV_MEMORY);
    assert_message(ctx, "choose a smaller option batch or an option accumulate of up to 32 (");
    assert_int_not_equal(access(folder, F_OK), 0);
    write_number("box/cgroup/memory.max", 3000 * MIB);
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer));
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
}

static void a_model_that_needs_more_is_not_loaded(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 1000 * MIB, false);
    OWNED_SPEC struct qkv_spec spec = large_spec(ctx);
    struct qkv_model *model;
    const char *folder = fixture_run("large");
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_save(model, folder));
    qkv_model_free(model);
    write_number("box/cgroup/memory.max", 5 * MIB);
    assert_status(ctx, qkv_model_load(ctx, folder, &model), QKV_MEMORY);
    assert_message(ctx, "MiB are needed, but only 5.0 MiB are left by the limit of the control group");
    assert_null(strstr(qkv_message(ctx), "option precision"));
    ctx->ignore_memory = true;
    assert_ok(ctx, qkv_model_load(ctx, folder, &model));
    qkv_model_free(model);
    ctx->ignore_memory = false;
    qkv_context_set_precision(ctx, QKV_MIXED_BF16); /* weights twice: once is less */
    assert_status(ctx, qkv_model_load(ctx, folder, &model), QKV_MEMORY);
    assert_message(ctx, "choose option precision = fp32 (");
    qkv_context_free(ctx);
}

/* The memory in which a session or pass computes counts, too, with weights that were made and not used yet. */
static void passes_and_sessions_are_compared_with_what_is_left(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 1000 * MIB, false);
    OWNED_SPEC struct qkv_spec spec = large_spec(ctx);
    struct qkv_model *model;
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    write_number("box/cgroup/memory.max", qkv_arena_total() + 8 * MIB);
    struct qkv_pass_options options = {.size = sizeof options, .B = 64, .T = 128, .logits = true};
    assert_status(ctx, qkv_pass_create(model, &options, &pass), QKV_MEMORY);
    assert_message(ctx, "one pass: ");
    assert_message(ctx, "MiB are left by the limit of the control group"); /* 8 less the graph_arena */
    options.B = 1;
    assert_ok(ctx, qkv_pass_create(model, &options, &pass));
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

#ifndef TEST_ADDRESS_SANITIZER
static void limits_of_the_process_count(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct qkv_memory_files files = machine("limits", "0::/\n");
        files.process = "/proc/self/statm";
        struct qkv_context ctx = {.threads = 1, .memory_files = &files};
        bool good = !qkv_memory_check(&ctx, 512 * MIB, "this", NULL);
        struct rlimit limit = {256 * MIB, 256 * MIB};
        good = good && !setrlimit(RLIMIT_DATA, &limit);
        good =
            good && qkv_memory_check(&ctx, 512 * MIB, "this", NULL) == QKV_MEMORY && strstr(ctx.message, "ulimit -d");
        good = good && !setrlimit(RLIMIT_AS, &limit);
        good =
            good && qkv_memory_check(&ctx, 512 * MIB, "this", NULL) == QKV_MEMORY && strstr(ctx.message, "ulimit -v");
        good = good && !qkv_memory_check(&ctx, 1 * MIB, "this", NULL);
        _exit(good ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

/* ---- the peak of a process -------------------------------------------------------------------------------------- */

/* Runs the command with its output in a file; the most memory that it had, in bytes. */
static double peak_of(const char *const *words) {
    struct rusage usage;
    int result;
    pid_t child = fork();
    if (child == 0) {
        int out = open(test_path("out"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
        execv(TEST_COMMAND, (char *const *)(uintptr_t)words);
        _exit(127);
    }
    assert_int_equal(wait4(child, &result, 0, &usage), child);
    assert_int_equal(result, 0);
    return (double)usage.ru_maxrss * 1024;
}

/* A model of 74 MB, made by a child: this process stays small, as the peak of what it starts begins with its own. */
static void save_peak_model(const char *folder) {
    int result;
    pid_t child = fork();
    if (child == 0) {
        struct qkv_context *ctx = fixture_context(1);
        OWNED_SPEC struct qkv_spec spec =
            fixture_spec(ctx, (const char *const[]){"d_model=512", "context=64", "vocab=8192", "decoder.layers=4",
                                                    "decoder.ffn.d_ff=2048", "decoder.attention.heads=8", NULL});
        struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
        struct qkv_tokenizer *tokenizer;
        struct qkv_model *model;
        bool good = !qkv_tokenizer_train(ctx, &options, "", 0, &tokenizer) &&
                    !qkv_model_create(ctx, &spec, 1, &model) && !qkv_model_set_tokenizer(model, tokenizer) &&
                    !qkv_model_save(model, folder);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void generating_peaks_at_what_info_says(void **state) {
    (void)state;
    if (!*TEST_COMMAND) skip();
    const char *folder = fixture_run("peak");
    save_peak_model(folder);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const char *precision = bf16 ? "bf16" : "fp32";
        const char *info[] = {"qkv", "info", folder, "--precision", precision, "--threads", "1", "--json", NULL};
        const char *run[] = {"qkv",         "generate", folder, "-n", "63",        "--prompt", "a", "-q",
                             "--precision", precision,  "-s",   "1",  "--threads", "1",        NULL};
        peak_of(info);
        char *json = test_read_file(test_path("out"), NULL), *at = json ? strstr(json, "\"run_bytes\": ") : NULL;
        assert_non_null(at);
        const char *own = strstr(json, "\"process_bytes\": ");
        assert_non_null(own);
        const double model = strtod(at + strlen("\"run_bytes\": "), NULL);
        const double said = model + strtod(own + strlen("\"process_bytes\": "), NULL), peak = peak_of(run);
        free(json);
        print_message("%s: %.1f MiB; info says %.1f, %.1f of them the model's\n", precision, peak / (double)MIB,
                      said / (double)MIB, model / (double)MIB);
        assert_true(model > 70e6 && said > model);
        assert_true(peak < said + 1.5 * (double)MIB && said < 1.15 * peak);
    }
}
/* ---- lines ------------------------------------------------------------------------------------------------------- */

enum { FEW_LINES = 1 << 13, MANY_LINES = 6 * FEW_LINES, LINE_NUMBERS = 8 }; /* numbers: of a result, at most */

static struct qkv_model *lines_model(struct qkv_context *ctx, bool embeds) {
    static const char text[] = "abcdefghijklmnopqrstuvwxyz \n";
    static const char json[] = "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 28, \"d_model\": 8, \"context\": 32, "
                               "%s\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 1}, \"ffn\": {\"d_ff\": 8}}}";
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_CHARS};
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model;
    char whole[500];
    snprintf(whole, sizeof whole, json, embeds ? "" : "\"head\": {\"kind\": \"classify\", \"classes\": 2}, ");
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &tokenizer));
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "lines", whole, strlen(whole), NULL, 0));
    spec.vocab = spec.source_vocab = qkv_tokenizer_vocab(tokenizer);
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

/* The most memory, in bytes, of a child that reads so many lines. */
static double peak_of_lines(bool embeds, size_t count) {
    struct rusage usage;
    int result;
    const pid_t child = fork();
    if (child == 0) {
        struct qkv_context *ctx = fixture_context(1);
        struct qkv_model *model = lines_model(ctx, embeds);
        const char **lines = calloc(count, sizeof *lines);
        float *numbers = calloc(count * LINE_NUMBERS, sizeof *numbers);
        for (size_t i = 0; lines && i < count; i++) lines[i] = &"abcdefghijklmnopqrst"[i % 16];
        const bool good = lines && numbers &&
                          !(embeds ? qkv_embed(model, lines, count, NULL, numbers)
                                   : qkv_classify(model, lines, count, NULL, numbers));
        _exit(good ? 0 : 1);
    }
    assert_int_equal(wait4(child, &result, 0, &usage), child);
    assert_int_equal(result, 0);
    return (double)usage.ru_maxrss * 1024;
}

/* Lines are read a window at a time, so more lines take the memory of the caller's lists alone. */
static void many_lines_take_no_more_memory_than_few(void **state) {
    (void)state;
    const size_t more = (MANY_LINES - FEW_LINES) * (sizeof(char *) + LINE_NUMBERS * sizeof(float));
    for (int embeds = 0; embeds < 2; embeds++) {
        const double few = peak_of_lines(embeds, FEW_LINES), many = peak_of_lines(embeds, MANY_LINES);
        print_message("%s: %.1f MiB for %d lines, %.1f for %d\n", embeds ? "embed" : "classify", few / (double)MIB,
                      (int)FEW_LINES, many / (double)MIB, (int)MANY_LINES);
        assert_true(many - few < (double)(more + MIB));
    }
}
#endif

/* Sources and targets of so many positions each, for a model that reads up to 1,024. */
static const char *write_pairs(struct qkv_context *ctx, size_t sources, size_t targets) {
    enum { PAIRS = 16 };
    int32_t *zeros = calloc(PAIRS * 1024, sizeof *zeros);
    struct qkv_array arrays[] = {
        {.name = "in.source", .dtype = QKV_I32, .rank = 2, .shape = {PAIRS, sources}, .data = zeros},
        {.name = "in.ids", .dtype = QKV_I32, .rank = 2, .shape = {PAIRS, targets}, .data = zeros},
        {.name = "in.targets", .dtype = QKV_I32, .rank = 2, .shape = {PAIRS, targets}, .data = zeros}};
    for (size_t i = 0; i < TEST_COUNT(arrays); i++) arrays[i].bytes = qkv_array_elements(&arrays[i]) * sizeof *zeros;
    const char *path = test_path("pairs.safetensors");
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, TEST_COUNT(arrays), NULL, 0));
    free(zeros);
    return path;
}

/* Examples: as long as the files' own, the sources as the targets; what was begun is cleared away. */
static void a_run_on_examples_is_planned_by_their_sizes(void **state) {
    (void)state;
    struct qkv_memory_files files;
    struct qkv_context *ctx = limited(&files, 24 * MIB, false);
    static const char json[] =
        "{\"format\":\"qkv\",\"version\":2,\"vocab\":8,\"d_model\":64,\"context\":1024,\"encoder\":"
        "{\"layers\":2,\"attention\":{\"heads\":4}},\"decoder\":{\"layers\":2,\"attention\":{\"heads\":4}}}";
    struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "pairs", json, strlen(json), NULL, 0));
    options.data = NULL;
    options.batch = 8;
    options.accumulate = options.groups = 1;
    options.precision = "fp32";
    options.tokenizer = NULL;
    const char *folder = fixture_run("pairs");
    for (int many = 0; many < 3; many++) { /* nothing; sources; targets */
        options.examples = write_pairs(ctx, many == 1 ? 1024 : 16, many == 2 ? 1024 : 16);
        const enum qkv_status status = qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer);
        if (!many && status) fail_msg("%s", qkv_message(ctx));
        assert_int_equal(status, many ? QKV_MEMORY : QKV_OK);
        if (many) assert_message(ctx, "choose a smaller option batch or an option accumulate of up to 8");
        if (!many) qkv_trainer_free(trainer);
        test_remove_tree(folder);
    }
    qkv_context_free(ctx);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
#ifndef TEST_ADDRESS_SANITIZER
        cmocka_unit_test(generating_peaks_at_what_info_says), /* first: this process is still small */
        cmocka_unit_test(many_lines_take_no_more_memory_than_few),
        cmocka_unit_test(limits_of_the_process_count),
#endif
        cmocka_unit_test(the_machine_tells_what_is_available),
        cmocka_unit_test(groups_leave_their_limit_less_what_no_file_holds),
        cmocka_unit_test(groups_of_version_1_are_read_too),
        cmocka_unit_test(a_run_that_needs_more_is_refused_before_its_folder_is_made),
        cmocka_unit_test(only_ways_that_there_is_memory_for_are_named),
        cmocka_unit_test(a_refused_run_starts_when_memory_is_ignored_or_enough),
        cmocka_unit_test(short_memory_leaves_quantised_weights_in_the_file),
        cmocka_unit_test(a_run_on_lines_is_refused_by_their_shapes),
        cmocka_unit_test(a_run_on_examples_is_planned_by_their_sizes),
        cmocka_unit_test(a_model_that_needs_more_is_not_loaded),
        cmocka_unit_test(passes_and_sessions_are_compared_with_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
