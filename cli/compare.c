/* compare.c: "qkv compare" trains variants of a model on the same data, measures them, and shows them in a table and
 * a page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_lab.h"
#include "cli_ranks.h"
#include "cli_train.h"

enum { CACHES = 16, TRAINING = CLI_TRAIN_OPTIONS + 2 * QKV_FILES_MAX };

struct arguments {
    const char *preset, *spec, *out, *cache;
    struct cli_texts set, specs, axis;
    int64_t seeds;
    bool force, json;
    bool quiet, plain;
    struct cli_common common;
    struct cli_train_values training;
};

static const struct arguments defaults = {.seeds = 1};

static const struct cli_option own_options[] = {
    {CLI_TEXTS, 0, "axis", "NAME=A,B", offsetof(struct arguments, axis),
     .help = "setting to vary, and its values; several axes give all combinations of their values",
     .subject = "comparison"},
    {CLI_READS, 0, "specs", "FILE...", offsetof(struct arguments, specs),
     .help = "models to compare (JSON, as config.json), instead of variants of one model", .subject = "model"},
    {CLI_FOLDER, 0, "out", "FOLDER", offsetof(struct arguments, out),
     .help = "folder for the runs and the results; the same command again continues in it", .subject = "saving"},
    {CLI_TEXT, 0, "preset", "NAME", offsetof(struct arguments, preset), .choice = cli_choose_preset,
     .help = "model to vary", .before = "nano-gpt", .subject = "model"},
    {CLI_READ, 0, "spec", "FILE", offsetof(struct arguments, spec),
     .help = "model to vary, described as JSON (config.json)", .subject = "model"},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct arguments, set), .help = "setting of the model of all variants",
     .subject = "model"},
    {CLI_COUNT, 0, "seeds", "N", offsetof(struct arguments, seeds),
     .help = "number of seeds, from --seed on, to train every variant with; the results are mean and deviation",
     .low = 1, .high = 100, .subject = "comparison"},
    {CLI_TEXT, 0, "cache", "N,N", offsetof(struct arguments, cache),
     .help = "lengths of the key-value cache at which decoding is measured", .before = "64,256,1024,4096",
     .subject = "comparison"},
    {CLI_FLAG, 0, "force", NULL, offsetof(struct arguments, force),
     .help = "replace files in FOLDER that have the names of the results", .subject = "saving"},
    CLI_JSON(struct arguments, "results.json, instead of the table,"),
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress", .subject = "output"},
    {CLI_FLAG, 0, "plain", NULL, offsetof(struct arguments, plain),
     .help = "show plain lines instead of a progress bar", .subject = "output"},
    CLI_COMMON(struct arguments),
    CLI_IGNORE_MEMORY(struct arguments),
    CLI_IGNORE_DIGEST(struct arguments),
};

CLI_CONDITION(is_quiet, struct arguments, a->quiet)

static const struct cli_rule rules[] = {{"plain", is_quiet, CLI_WHY_QUIET}};

/* ---- progress ---------------------------------------------------------------------------------------------------- */

struct watch {
    struct qkv_comparison *c;
    struct cli_progress *progress;
    struct cli_task task;
    size_t variant, seed; /* the run in progress; SIZE_MAX: none */
    double began;
    int64_t first;
    char rank[24]; /* " (rank 2)"; "" if there is one rank */
};

/* "gqa:2"; with several seeds "gqa:2, seed 1338", as in the name of the run's folder. */
static const char *run_name(const struct watch *w, size_t variant, size_t seed, char *text, size_t size) {
    const char *name = qkv_comparison_variant(w->c, variant)->name;
    if (qkv_comparison_seeds(w->c) > 1)
        snprintf(text, size, "%.60s, seed %lld", name, (long long)qkv_comparison_seed(w->c, seed));
    else
        snprintf(text, size, "%.60s", name);
    return text;
}

static void show_bar(const struct watch *w, const char *name, const struct qkv_train_report *r) {
    size_t runs = qkv_comparison_seeds(w->c) * qkv_comparison_count(w->c);
    size_t at = w->seed * qkv_comparison_count(w->c) + w->variant;
    char which[128], step[64], loss[32], left[64], number[CLI_NUMBER];
    double share = r->steps > 0 ? (double)r->step / (double)r->steps : 0;
    double each = r->step > w->first ? (qkv_clock() - w->began) / (double)(r->step - w->first) : 0;
    snprintf(which, sizeof which, "%zu/%zu %s", at + 1, runs, name);
    snprintf(step, sizeof step, "step %lld/%lld", (long long)r->step, (long long)r->steps);
    snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    snprintf(left, sizeof left, "%s left",
             cli_seconds(number, each * ((double)(runs - at) - share) * (double)r->steps));
    const char *fields[] = {which, step, loss, left};
    cli_progress_show(w->progress, ((double)at + share) / (double)runs, fields, CLI_COUNT_OF(fields));
}

static bool show_step(void *user, size_t variant, size_t seed, const struct qkv_train_report *r) {
    struct watch *w = user;
    char name[96];
    run_name(w, variant, seed, name, sizeof name);
    if (w->variant != variant || w->seed != seed) {
        w->variant = variant;
        w->seed = seed;
        w->began = qkv_clock();
        w->first = r->step;
    }
    if (r->evaluated && r->step >= r->steps)
        cli_progress_line(w->progress, "%s: %lld steps, loss %.4f, validation loss %.4f%s", name, (long long)r->step,
                          r->loss, r->valid_loss, w->rank);
    else if (!cli_ranks_follow() && cli_progress_due(w->progress))
        show_bar(w, name, r);
    return !cli_stopping;
}

static bool show_task(void *user, const char *what, double done, double total) {
    struct watch *w = user;
    if (cli_ranks_follow()) return !cli_stopping;
    return cli_task_progress(&w->task, what, done, total);
}

static void show_note(void *user, const char *note) {
    struct watch *w = user;
    cli_progress_clear(w->progress);
    cli_say("%s", note);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int compare_interrupted(struct cli_progress *progress, const char *out) {
    cli_progress_clear(progress);
    cli_say("interrupted; the same command goes on with %s", out);
    return CLI_INTERRUPTED;
}

/* Prints results.json, which was just written. */
static int compare_json(const char *folder) {
    char *text = NULL;
    size_t size = 0;
    if (cli_ranks_follow()) return CLI_DONE;
    const size_t length = strlen(folder) + sizeof "/" QKV_COMPARISON_RESULTS;
    char *path = malloc(length);
    if (path) snprintf(path, length, "%s/%s", folder, QKV_COMPARISON_RESULTS);
    int code = path ? cli_read_all(path, CLI_LINES_MAX, &text, &size) : cli_failed("out of memory");
    if (!code && fwrite(text, 1, size, stdout) != size) code = CLI_FAILED;
    free(text);
    free(path);
    return code;
}

/* Some variants may fail; if all do, the comparison has failed. */
static int compare_conclude(const struct qkv_comparison *c, struct cli_progress *progress, const char *out, bool json) {
    const struct qkv_variant *v;
    size_t failed = 0, count = qkv_comparison_count(c);
    int code = json ? compare_json(out) : cli_compare_table(c);
    if (code) return code;
    for (size_t i = 0; (v = qkv_comparison_variant(c, i)); i++) failed += v->failure != NULL;
    const char *slash = out[strlen(out) - 1] == '/' ? "" : "/";
    if (cli_ranks_follow()) return failed == count ? CLI_FAILED : CLI_DONE;
    cli_progress_line(
        progress,
        "\n* the best of its column; a loss is the best only if it is lower by more than the deviations over the seeds "
        "(--seeds), a speed only if it is higher by more than its measurements differ. %s%sindex.html shows curves and "
        "charts, results.json and results.csv have the numbers",
        out, slash);
    if (failed == count) return cli_failed("no variant could be trained and measured");
    if (failed) cli_say("%zu of %zu variants failed; the table says why", failed, count);
    return CLI_DONE;
}

static int compare_all(struct qkv_context *ctx, const struct arguments *a, const struct qkv_compare_options *o) {
    struct cli_progress progress;
    struct qkv_comparison *c = NULL;
    cli_progress_start(&progress, a->quiet, a->plain);
    if (qkv_comparison_create(ctx, o, a->out, &c)) return cli_broken(ctx);
    struct watch watch = {.c = c, .progress = &progress, .task = {.progress = &progress}, .variant = SIZE_MAX};
    struct qkv_compare_listener listener = {
        .step = show_step, .progress = show_task, .note = show_note, .user = &watch};
    if (cli_ranks_count() > 1) snprintf(watch.rank, sizeof watch.rank, " (rank %d)", cli_ranks_communicator()->rank);
    cli_ranks_hint("the same command goes on with %s", a->out);
    cli_catch_signals();
    if (!cli_ranks_follow())
        cli_progress_line(&progress,
                          "%zu variants, %lld seed%s each, in %s; Ctrl-C stops, and the same command goes on",
                          qkv_comparison_count(c), (long long)a->seeds, a->seeds == 1 ? "" : "s", a->out);
    enum qkv_status status = qkv_comparison_train(c, &listener);
    if (!status) status = qkv_comparison_measure(c, &listener);
    cli_progress_clear(&progress);
    if (!status) status = qkv_comparison_write(c);
    int code = status == QKV_STOPPED ? compare_interrupted(&progress, a->out)
               : status              ? cli_broken(ctx)
                                     : compare_conclude(c, &progress, a->out, a->json);
    qkv_comparison_free(c);
    return code;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int read_caches(const char *text, size_t caches[CACHES], size_t *count) {
    *count = 0;
    while (text) {
        size_t n = strcspn(text, ",");
        char number[24] = "";
        int64_t value;
        if (n < sizeof number) memcpy(number, text, n);
        if (!cli_read_count(number, 1, 1 << 24, &value) || *count == CACHES)
            return cli_usage("--cache needs at most %d whole numbers with commas between them, not \"%s\"", CACHES,
                             text);
        caches[(*count)++] = (size_t)value;
        text = text[n] ? text + n + 1 : NULL;
    }
    return CLI_DONE;
}

/* Lists each given option of training as "name=value"; the caller frees the texts. */
static int list_training(const struct arguments *a, char **list, size_t *count) {
    const char *name, *value, *help;
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        for (size_t k = 0; (value = cli_train_value_at(&a->training, i, k)); k++) {
            if (*count == TRAINING) return cli_usage("compare: there are more than %d options of training", TRAINING);
            size_t n = strlen(name) + strlen(value) + 2;
            list[*count] = malloc(n);
            if (!list[*count]) return cli_failed("out of memory");
            snprintf(list[(*count)++], n, "%s=%s", name, value);
        }
    }
    return CLI_DONE;
}

static int compare_check(const struct arguments *a, size_t words) {
    if (words && !a->specs.count)
        return cli_usage(
            "compare: only --specs takes several files; a word without a name before it is none of its options");
    if (!a->axis.count && a->specs.count + words < 2)
        return cli_usage("compare: nothing varies; give --axis kv=mha,gqa:2,mqa, or --specs and two files or more");
    if ((a->preset != NULL) + (a->spec != NULL) + (a->specs.count > 0) > 1)
        return cli_usage("compare: --preset, --spec and --specs exclude each other");
    if (!a->out || !*a->out) return cli_usage("compare: name a folder for the runs and the results: --out FOLDER");
    return cli_check_doubles("compare", &a->set, &a->training);
}

/* Whether a variant asks for bf16: by its name, or by $QKV_PRECISION. */
static bool asks_for_bf16(const struct qkv_context *ctx, const struct qkv_compare_options *o) {
    bool automatic = true;
    for (size_t i = 0; i < o->axis_count; i++) {
        if (strncmp(o->axes[i], "precision=", 10) != 0) continue;
        if (strstr(o->axes[i], "bf16")) return true;
        automatic = strstr(o->axes[i], "auto") != NULL;
    }
    for (size_t i = 0; i < o->training_count; i++) {
        if (strncmp(o->training[i], "precision=", 10) != 0) continue;
        if (!strcmp(o->training[i], "precision=bf16")) return true;
        automatic = !strcmp(o->training[i], "precision=auto");
    }
    return automatic && qkv_auto_precision(ctx) == QKV_MIXED_BF16;
}

/* Exit code CLI_USAGE for QKV_ARGUMENT: each message of the library about an argument is about the command line. */
static int run_with(const struct arguments *a, const char *const *specs, size_t spec_count) {
    struct qkv_context *ctx = NULL;
    char *training[TRAINING] = {NULL};
    size_t training_count = 0, caches[CACHES], cache_count = 0;
    int code = a->cache ? read_caches(a->cache, caches, &cache_count) : CLI_DONE;
    if (!code) code = list_training(a, training, &training_count);
    if (!code) code = cli_open(&a->common, &ctx);
    struct qkv_compare_options o = {.preset = a->preset,
                                    .spec = a->spec,
                                    .settings = a->set.items,
                                    .setting_count = a->set.count,
                                    .specs = specs,
                                    .spec_count = spec_count,
                                    .axes = a->axis.items,
                                    .axis_count = a->axis.count,
                                    .training = (const char *const *)training,
                                    .training_count = training_count,
                                    .seeds = (size_t)a->seeds,
                                    .force = a->force,
                                    .caches = a->cache ? caches : NULL,
                                    .cache_count = cache_count};
    if (!code && qkv_compare_check(ctx, &o)) code = cli_misused(ctx);
    if (!code && asks_for_bf16(ctx, &o)) cli_say_emulated(ctx, NULL);
    if (!code) code = compare_all(ctx, a, &o);
    for (size_t i = 0; i < training_count; i++) free(training[i]);
    qkv_context_free(ctx);
    return code;
}

static int compare_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    int code = compare_check(a, count);
    if (code) return code;
    const char **specs = calloc(a->specs.count + count + 1, sizeof *specs);
    if (!specs) return cli_failed("out of memory");
    if (a->specs.count) memcpy(specs, a->specs.items, a->specs.count * sizeof *specs);
    for (size_t i = 0; i < count; i++) specs[a->specs.count + i] = words[i];
    code = run_with(a, specs, a->specs.count + count);
    free(specs);
    return code;
}

/* Writes the description of the command, with the axes of the library. */
static void compare_describe(char *text, size_t size) {
    static const char before[] =
        "Trains every variant on the same text, with the same batches and seeds, in a run of its own in FOLDER. train "
        "--resume, eval, info, report and inspect read these runs like any other. A mixture of texts is made tokens "
        "once, in FOLDER/shards. Then it measures each variant: the "
        "loss over the whole validation part (as eval prints it for FOLDER/valid.txt), the speed of training, of "
        "reading a prompt and of decoding at several lengths of the cache, the cache of a token and the memory to "
        "train (as info prints them). Speeds are medians. The variants take turns in the measurement of prompts and "
        "decoding, with random weights and a context that is long enough.\n\n";
    static const char after[] =
        "The table is printed on standard output. FOLDER gets results.json, results.csv and index.html, a page that "
        "loads nothing else. A variant that cannot be built or trained is marked in the table, and the others "
        "continue; the exit code is 1 only if all fail. Ctrl-C finishes the step and saves; the same command "
        "continues, and a different command is refused in the same folder. Under mpirun the ranks share the runs: one "
        "rank trains a run as one process does, and rank 0 measures the speeds.";
    const char *name, *values, *help;
    size_t n = (size_t)snprintf(text, size, "%s--axis NAME=A,B varies one of these:", before);
    for (size_t i = 0; qkv_axis_at(i, &name, &values, &help) && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "\n%s (%s): %s.", name, help, values);
    if (n < size)
        snprintf(
            text + n, size - n,
            "\n\nBetween gated feed-forwards and others, d_ff changes by the factor 2/3 or 3/2, so that the number of "
            "parameters is about the same. Experts are gated (swiglu, or the gated kind of the model). An expert "
            "has 1/(k + S) of the d_ff of one feed-forward, so that the FLOPs of a token are about the same. The "
            "weights of the k chosen experts sum to k.\n\n"
            "An option of training is an axis too (warmup=0,100, rate=1e-3,3e-4, precision=fp32,bf16, optimizer, "
            "schedule, dropout, and others), and so is a key of the spec with a dot (decoder.layers=2,4).\n\n"
            "%s",
            after);
}

const struct cli_command *cli_compare(void) {
    static char description[4096];
    static struct cli_option options[CLI_COUNT_OF(own_options) + CLI_TRAIN_OPTIONS];
    static const char *const files[] = {QKV_COMPARISON_FILES, NULL};
    static struct cli_command command = {
        .name = "compare",
        .words = CLI_WORDS_FILES,
        .writes = files,
        .summary = "train variants of a model on the same data and measure them",
        .usage = "--data FILE --axis NAME=A,B --out FOLDER [options]\n"
                 "--data FILE --specs a.json b.json --out FOLDER [options]",
        .description = description,
        .examples = "qkv compare --data shakespeare.txt --axis kv=mha,gqa:2,mqa --steps 1000 --out compare/\n"
                    "qkv compare --data book.txt --axis norm=pre,post --axis warmup=0,100 --seeds 3 --out norms/\n"
                    "qkv compare --data book.txt --specs a.json b.json --out two/\n"
                    "qkv report compare/mha compare/mqa -o report.html",
        .options = options,
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = SIZE_MAX,
        .presets = true,
        .ranks = CLI_RANKS_APART,
        .run = compare_run,
    };
    if (!command.option_count) {
        compare_describe(description, sizeof description);
        memcpy(options, own_options, sizeof own_options);
        command.option_count =
            CLI_COUNT_OF(own_options) +
            cli_train_options(options + CLI_COUNT_OF(own_options), offsetof(struct arguments, training), true);
    }
    return &command;
}
