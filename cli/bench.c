/* bench.c: "qkv bench" measures the peaks of this machine, then the rows of the benchmark as shares of these peaks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_lab.h"
#include "cli_ranks.h"

struct arguments {
    const char *json, *text, *precision;
    struct cli_texts filter;
    double seconds;
    int64_t rounds;
    bool full, list, force, quiet;
    struct cli_common common;
};

static const struct arguments defaults = {.seconds = 0.4, .rounds = 5};

static const struct cli_option options[] = {
    {CLI_TEXTS, 'f', "filter", "TEXT", offsetof(struct arguments, filter),
     .help = "measure only rows with TEXT in their label: a group, a shape, a form or a precision"},
    {CLI_FLAG, 0, "full", NULL, offsetof(struct arguments, full),
     .help = "measure the big rows too, which need much time or memory; a filter that names one also includes it"},
    {CLI_FLAG, 0, "list", NULL, offsetof(struct arguments, list),
     .help = "show the labels of all rows, or of the rows of --filter and --precision, and measure nothing"},
    {CLI_ABOVE, 0, "seconds", "X", offsetof(struct arguments, seconds), .help = "approximate time to measure a row",
     .high = 1000000},
    {CLI_COUNT, 0, "rounds", "N", offsetof(struct arguments, rounds),
     .help = "number of rounds in the time of a row; the median round is the result", .low = 1, .high = 101},
    {CLI_TEXT, 0, "precision", "NAME", offsetof(struct arguments, precision), .choice = cli_choose_storage,
     .help = "measure only rows of this precision, fp32 or bf16, emulated or not",
     .before = "the precisions that this machine has instructions for"},
    CLI_JSON_FILE(struct arguments, "the results"),
    {CLI_FLAG, 0, "force", NULL, offsetof(struct arguments, force), .help = "replace the file of --json if it exists"},
    {CLI_READ, 0, "text", "FILE", offsetof(struct arguments, text),
     .help = "text for the recipe of nano-gpt, a big row (--full or --filter recipe) with 2,000 steps of training"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress"},
    CLI_COMMON(struct arguments),
    CLI_IGNORE_MEMORY(struct arguments),
};

/* Turns the command line into options of the library; `big` adds the big rows. */
static struct qkv_bench_options chosen_rows(const struct arguments *a, bool big) {
    return (struct qkv_bench_options){
        .filters = a->filter.items, .filter_count = a->filter.count, .precision = a->precision, .big = big};
}

CLI_CONDITION(only_lists, struct arguments, a->list)
CLI_CONDITION(writes_no_file, struct arguments, !cli_json_file(a->json))

/* Whether --full adds no row to the usual ones. */
static bool adds_nothing(const void *values, size_t arguments) {
    const struct arguments *a = values;
    const struct qkv_bench_options all = chosen_rows(a, true), usual = chosen_rows(a, false);
    struct qkv_bench_row row;
    (void)arguments;
    for (size_t i = 0; a->full && qkv_bench_row_at(i, &row); i++)
        if (qkv_bench_chooses(&all, &row) && !qkv_bench_chooses(&usual, &row)) return false;
    return true;
}

static bool trains_no_recipe(const void *values, size_t arguments) {
    const struct arguments *a = values;
    const struct qkv_bench_options chosen = chosen_rows(a, a->full);
    struct qkv_bench_row row;
    (void)arguments;
    for (size_t i = 0; qkv_bench_row_at(i, &row); i++)
        if (row.reads_text && qkv_bench_chooses(&chosen, &row)) return false;
    return true;
}

static const struct cli_rule rules[] = {
    {"full seconds rounds json force text quiet threads isa ignore-memory", only_lists, "--list measures nothing"},
    {"full", adds_nothing, "the filter chooses no big rows, or names them, which is enough"},
    {"text", trains_no_recipe, "the recipe of nano-gpt is not among the rows; add --full, or --filter recipe"},
    {"force", writes_no_file, "it replaces the file of --json; add that"},
};

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct table {
    struct cli_progress progress;
    const char *group; /* of the row printed last */
    size_t rows;
};

enum { LABEL = 42, UNIT = 64 };

/* "12.3 us", "4.56 ms", "7.89 s" */
static char *bench_duration(char *text, double seconds) {
    double scale = seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1, value = seconds * scale;
    snprintf(text, UNIT, "%.*f %s",
             value < 10    ? 2
             : value < 100 ? 1
                           : 0,
             value,
             scale == 1e6   ? "us"
             : scale == 1e3 ? "ms"
                            : "s");
    return text;
}

/* "187 GFLOP/s", "27.4 GB/s" */
static char *bench_rate(char *text, double a_second, const char *unit) {
    double value = a_second * 1e-9;
    snprintf(text, UNIT, "%.*f %s", value < 100 ? 1 : 0, value, unit);
    return text;
}

static void show_machine(void *user, const struct qkv_bench_machine *m) {
    struct table *table = user;
    char number[3][CLI_NUMBER], unit[UNIT];
    cli_progress_clear(&table->progress);
    printf("%s, %d thread%s, kernels %s", m->cpu, m->threads, m->threads == 1 ? "" : "s", m->isa);
    if (m->cache[0])
        printf("; caches %s, %s, %s", cli_bytes(number[0], m->cache[0]), cli_bytes(number[1], m->cache[1]),
               cli_bytes(number[2], m->cache[2]));
    printf("\nqkv %s, compiled by %s\n", qkv_version(), m->compiler);
    printf("peaks: %s in fp32", bench_rate(unit, m->fp32_flops, "GFLOP/s"));
    if (m->bf16_flops > 0) printf(", %s in bf16", bench_rate(unit, m->bf16_flops, "GFLOP/s"));
    printf(", %s read%s\n", bench_rate(unit, m->read_bytes, "GB/s"),
           m->bf16_flops > 0 ? "" : "; bf16 would be emulated");
    fflush(stdout);
}

static const char *bench_meaning(const char *group) {
    const char *name, *what;
    for (size_t i = 0; (name = qkv_bench_group_at(i, &what)); i++)
        if (!strcmp(name, group)) return what;
    return "";
}

/* Prints the figures that only some rows have: tokens a second, memory, loss, peers. */
static void show_more(const struct qkv_bench_row *row) {
    char number[CLI_NUMBER], unit[UNIT];
    const double amount = row->reads ? row->bytes : row->flops;
    if (row->tokens > 0) printf("  %10s tokens/s", cli_grouped(number, (size_t)(row->tokens / row->seconds + 0.5)));
    if (row->memory > 0) printf("  %9s", cli_bytes(number, row->memory));
    if (row->pass_memory > 0) printf("  %9s a pass", cli_bytes(number, row->pass_memory));
    if (!isnan(row->loss)) printf("  loss %.4f", row->loss);
    for (size_t i = 0; i < row->peer_count; i++)
        printf("  %s %s", row->peers[i].name,
               bench_rate(unit, amount / row->peers[i].seconds, row->reads ? "GB/s" : "GFLOP/s"));
}

static void show_row(void *user, const struct qkv_bench_row *row) {
    struct table *table = user;
    char label[QKV_BENCH_LABEL], time[UNIT], unit[UNIT];
    cli_progress_clear(&table->progress);
    if (!table->group || strcmp(table->group, row->group) != 0)
        printf("\n%s: %s\n", row->group, bench_meaning(row->group));
    table->group = row->group;
    table->rows++;
    snprintf(label, sizeof label, "%-26s %-8s %s", row->name, row->form, row->precision);
    printf("  %-*s", LABEL, label);
    if (row->left_out[0]) {
        printf("left out: %s\n", row->left_out);
    } else {
        const double amount = row->reads ? row->bytes : row->flops;
        printf("%9s  %12s %4.0f %% of %s", bench_duration(time, row->seconds),
               bench_rate(unit, amount / row->seconds, row->reads ? "GB/s" : "GFLOP/s"), 100 * row->share,
               row->reads ? "read" : "peak");
        if (row->spread > QKV_BENCH_SPREAD) printf("  (rounds differ by %.0f %%)", 100 * row->spread);
        show_more(row);
        printf("\n");
    }
    fflush(stdout);
}

/* Where JSON is all that standard output gets. */
static void count_row(void *user, const struct qkv_bench_row *row) {
    struct table *table = user;
    (void)row;
    table->rows++;
}

static bool show_progress(void *user, const char *what, double done, double total) {
    struct table *table = user;
    if (cli_progress_due(&table->progress)) cli_progress_show(&table->progress, total > 0 ? done / total : 0, &what, 1);
    return !cli_stopping;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int list_rows(const struct arguments *a, struct qkv_context *ctx) {
    const struct qkv_bench_options chosen = chosen_rows(a, true);
    struct qkv_bench_row row;
    char label[QKV_BENCH_LABEL];
    if (qkv_bench_check(ctx, &chosen)) return cli_misused(ctx);
    for (size_t i = 0; qkv_bench_row_at(i, &row); i++)
        if (qkv_bench_chooses(&chosen, &row)) printf("%s%s\n", qkv_bench_label(&row, label), row.big ? " (big)" : "");
    return CLI_DONE;
}

static int bench_measure(const struct arguments *a, struct qkv_context *ctx) {
    struct table table = {0};
    const bool quiet = a->json && !cli_json_file(a->json);
    struct qkv_bench_options o = {
        .filters = a->filter.items,
        .filter_count = a->filter.count,
        .precision = a->precision,
        .big = a->full,
        .seconds = a->seconds,
        .rounds = (int)a->rounds,
        .json = cli_ranks_follow() ? NULL : a->json,
        .text = a->text,
        .begin = quiet ? NULL : show_machine,
        .row = quiet ? count_row : show_row,
        .progress = show_progress,
        .user = &table,
    };
    o.peers = cli_bench_peers(&o.peer_count);
    cli_progress_start(&table.progress, a->quiet || cli_ranks_follow() || !isatty(STDERR_FILENO), false);
    cli_catch_signals();
    signal(SIGPIPE, SIG_DFL);
    enum qkv_status status = qkv_bench(ctx, &o);
    cli_progress_clear(&table.progress);
    if (status && status != QKV_STOPPED) {
        cli_broken(ctx);
        return status == QKV_ARGUMENT ? CLI_USAGE : CLI_FAILED;
    }
    if (status == QKV_OK && cli_ranks_follow()) return CLI_DONE;
    if (status == QKV_OK && !table.rows)
        return cli_usage(
            "bench: only big rows match, or a precision that this machine emulates; measure them with --full or "
            "--precision, or name one of them (--list)");
    if (status == QKV_OK) return CLI_DONE;
    bool saved = cli_json_file(a->json) && table.rows > 0;
    cli_say("interrupted after %zu row%s%s%s", table.rows, table.rows == 1 ? "" : "s", saved ? "; they are in " : "",
            saved ? a->json : "");
    return CLI_INTERRUPTED;
}

static int bench_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    (void)words, (void)count;
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE && a->list) {
        code = list_rows(a, ctx);
        qkv_context_free(ctx);
        return code;
    }
    const struct qkv_bench_options chosen = chosen_rows(a, a->full);
    if (code == CLI_DONE && qkv_bench_check(ctx, &chosen)) code = cli_misused(ctx);
    if (code == CLI_DONE && a->text && access(a->text, R_OK) != 0) code = cli_failed("cannot read %s", a->text);
    if (code == CLI_DONE) code = bench_measure(a, ctx);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_bench(void) {
    static const struct cli_command command = {
        .name = "bench",
        .summary = "measure this machine: peaks, kernels, training and generation",
        .usage = "[--filter TEXT] [--full] [--json FILE] [options]",
        .description =
            "Measures the peaks of this machine first: fused multiply-adds in registers, and bytes read from memory. "
            "Then it measures the rows. A row has the median time of several rounds, its FLOPs or bytes a second, and "
            "their share of the peak that limits it, measured again in the same rounds. If the rounds differ by more "
            "than 10 %, the row says so, and shows nothing. Without options this takes one to two minutes. Other work "
            "on the "
            "machine makes all rows slower. \"make bench\" also measures OpenBLAS and oneDNN, if they are "
            "installed. Ctrl-C ends the measurement and leaves the results so far.\n\n"
            "Under mpirun the rows of the group reduce measure messages between rank 0 and rank 1; without mpirun, "
            "between two threads. Rank 0 alone measures all other rows.",
        .examples = "qkv bench\n"
                    "qkv bench --filter products --json bench.json\n"
                    "qkv bench --filter \"gpt2-small 4x512\" --seconds 10\n"
                    "qkv bench --filter reduce\n"
                    "qkv bench --list",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 0,
        .ranks = CLI_RANKS_APART,
        .run = bench_run,
    };
    return &command;
}
