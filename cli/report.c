/* report.c: "qkv report" shows the logs of training runs as a page of curves, or as a few lines in the terminal. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cli_lab.h"

struct arguments {
    const char *output, *csv, *tensorboard;
    int64_t every;
    bool follow, force, json;
    struct cli_common common;
};

static const struct arguments defaults = {.every = 5, .common = {.threads = 1}};

static const struct cli_option options[] = {
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output), .help = "write a page (HTML, one file)"},
    {CLI_WRITE, 0, "csv", "FILE", offsetof(struct arguments, csv),
     .help = "write the steps as a table of comma-separated values (-: to standard output)"},
    {CLI_FOLDER, 0, "tensorboard", "FOLDER", offsetof(struct arguments, tensorboard),
     .help = "write the steps as event files of TensorBoard, FOLDER/RUN/events.out.tfevents.0.qkv"},
    {CLI_FLAG, 0, "follow", NULL, offsetof(struct arguments, follow),
     .help = "with -o: write the page again while the runs train, until they end; the page reloads itself"},
    {CLI_COUNT, 0, "every", "SECONDS", offsetof(struct arguments, every),
     .help = "with --follow: seconds between two updates", .low = 1, .high = 86400},
    CLI_JSON(struct arguments, "the last numbers of each run"),
    {CLI_FLAG, 0, "force", NULL, offsetof(struct arguments, force), .help = "replace files that exist"},
};

CLI_CONDITION(writes_page, struct arguments, a->output || a->csv || a->tensorboard)
CLI_CONDITION(writes_once, struct arguments, !a->follow)
CLI_CONDITION(follows, struct arguments, a->follow)
CLI_CONDITION(writes_no_file, struct arguments, !a->output && !a->tensorboard && (!a->csv || !strcmp(a->csv, "-")))

static const struct cli_rule rules[] = {
    {"json", writes_page, "it is what is printed where no file is written; leave the file out"},
    {"every", writes_once, "it is for --follow; add that"},
    {"force", writes_no_file, CLI_WHY_OUTPUT},
    {"csv tensorboard", follows, "--follow writes the page alone, again and again; leave one of them out"},
};

struct runs {
    struct qkv_run **items;
    size_t count;
};

static void report_forget(struct runs *runs) {
    for (size_t i = 0; runs->items && i < runs->count; i++) qkv_run_free(runs->items[i]);
    free(runs->items);
    *runs = (struct runs){0};
}

static int read_runs(struct qkv_context *ctx, const char *const *folders, size_t count, struct runs *runs) {
    *runs = (struct runs){.items = calloc(count, sizeof *runs->items), .count = count};
    if (!runs->items) return cli_failed("out of memory");
    for (size_t i = 0; i < count; i++)
        if (qkv_run_read(ctx, folders[i], &runs->items[i])) return cli_broken(ctx);
    return CLI_DONE;
}

/* ---- in the terminal --------------------------------------------------------------------------------------------- */

/* Prints the losses as a row of `cells` small bars, each the mean over a part of the run. */
static void print_spark(const struct qkv_run *run, size_t cells, bool valid) {
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char plain[] = "_.-~=+*#";
    double *mean = calloc(cells, sizeof *mean), low = INFINITY, high = -INFINITY;
    size_t *seen = calloc(cells, sizeof *seen), steps = qkv_run_steps(run);
    for (size_t i = 0; mean && seen && i < steps; i++) {
        const struct qkv_run_step *s = qkv_run_step(run, i);
        double x = valid ? s->valid_loss : s->loss;
        size_t c = i * cells / steps;
        if (!isfinite(x)) continue;
        mean[c] += x;
        seen[c]++;
    }
    for (size_t c = 0; mean && seen && c < cells; c++) {
        if (!seen[c]) continue;
        mean[c] /= (double)seen[c];
        low = fmin(low, mean[c]);
        high = fmax(high, mean[c]);
    }
    for (size_t c = 0; mean && seen && c < cells; c++) {
        size_t level = seen[c] && high > low ? (size_t)((mean[c] - low) / (high - low) * 7.999) : 0;
        if (!seen[c])
            putchar(' ');
        else if (cli_locale_utf8())
            fputs(bars[level], stdout);
        else
            putchar(plain[level]);
    }
    if (high >= low) printf("  %.4g to %.4g", low, high);
    putchar('\n');
    free(mean);
    free(seen);
}

/* "-" for a loss that is not finite, a short form for a huge one. */
static char *loss_text(char text[CLI_NUMBER], double x) {
    snprintf(text, CLI_NUMBER, !isfinite(x) ? "-" : fabs(x) < 1e6 ? "%.4f" : "%.4g", x);
    return text;
}

static const char *state_text(const struct qkv_run *run) {
    const struct qkv_run_condition *c = qkv_run_condition(run);
    return c->killed ? "interrupted: its process was killed" : qkv_run_state_name(c->state);
}

static void print_state(const struct qkv_run *run) {
    printf("  state    %s", state_text(run));
    if (*qkv_run_condition(run)->message) {
        printf(": ");
        cli_print_name(qkv_run_condition(run)->message, SIZE_MAX);
    }
    putchar('\n');
}

/* `name`: the part in which its name differs from the other runs. */
static void print_run(const struct qkv_run *run, const char *name) {
    size_t cells = (size_t)cli_width(STDOUT_FILENO);
    const struct qkv_run_summary s = qkv_run_summarize(run);
    const char *metric = qkv_run_metric(run);
    char time[CLI_NUMBER], number[CLI_NUMBER];
    cells = cells > 100 ? 60 : cells > 50 ? cells - 40 : 10;
    cli_print_name(name, SIZE_MAX);
    if (!s.step) {
        printf("\n  no step is logged yet\n");
        return;
    }
    printf("\n  steps    %s", cli_grouped(number, (size_t)s.step));
    if (qkv_run_planned(run) > 0) printf(" of %s", cli_grouped(number, (size_t)qkv_run_planned(run)));
    printf(" in %s, ", cli_seconds(time, isfinite(s.seconds) ? s.seconds : 0));
    if (s.tokens_per_second < 1e15)
        printf("%s tokens/s\n", cli_short(number, s.tokens_per_second));
    else
        printf("- tokens/s\n");
    print_state(run);
    printf("  loss     %s  ", loss_text(number, s.loss));
    print_spark(run, cells, false);
    if (isfinite(s.valid_loss)) {
        printf("  valid    %s  ", loss_text(number, s.valid_loss));
        print_spark(run, cells, true);
    }
    if (s.evaluations && metric) {
        printf("  metric   %s  ", loss_text(number, s.metric));
        cli_print_name(metric, SIZE_MAX);
        putchar('\n');
    }
    if (s.evaluations)
        printf("  best     %s  at step %s\n", loss_text(number, s.best), cli_grouped(time, (size_t)s.best_step));
    const struct qkv_run_step *last = qkv_run_step(run, qkv_run_steps(run) - 1);
    if (last && isfinite(last->expert_load))
        printf("  experts  the busiest has %.4g times the mean of its layer, %.0f have no row\n", last->expert_load,
               isfinite(last->experts_unused) ? last->experts_unused : 0);
    if (qkv_run_machine(run)) {
        printf("  machine  ");
        cli_print_name(qkv_run_machine(run), SIZE_MAX);
        putchar('\n');
    }
    if (qkv_run_damaged(run))
        printf("  (%zu lines of the log are damaged and were passed over)\n", qkv_run_damaged(run));
}

/* Puts the same numbers as an object. */
static void report_put_run(struct qkv_json *out, const struct qkv_run *run, const char *name) {
    const struct qkv_run_summary s = qkv_run_summarize(run);
    const char *message = qkv_run_condition(run)->message;
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "name", name);
    qkv_json_put_text(out, "state", qkv_run_state_name(qkv_run_condition(run)->state));
    qkv_json_put_bool(out, "killed", qkv_run_condition(run)->killed);
    qkv_json_put_text(out, "message", *message ? message : NULL);
    qkv_json_put_integer(out, "step", (int64_t)s.step);
    qkv_json_put_integer(out, "planned", (int64_t)qkv_run_planned(run));
    qkv_json_put_number(out, "seconds", s.seconds, 9);
    qkv_json_put_number(out, "tokens_per_second", s.tokens_per_second, 9);
    qkv_json_put_number(out, "loss", s.step ? s.loss : NAN, 9);
    qkv_json_put_number(out, "valid_loss", s.valid_loss, 9);
    qkv_json_put_text(out, "metric", qkv_run_metric(run));
    qkv_json_put_number(out, "metric_value", s.evaluations ? s.metric : NAN, 9);
    qkv_json_put_number(out, "best", s.evaluations ? s.best : NAN, 9);
    qkv_json_key(out, "best_step");
    if (s.evaluations)
        qkv_json_integer(out, (int64_t)s.best_step);
    else
        qkv_json_raw(out, "null");
    qkv_json_put_integer(out, "evaluations", (int64_t)s.evaluations);
    qkv_json_put_text(out, "machine", qkv_run_machine(run));
    qkv_json_put_count(out, "damaged_lines", qkv_run_damaged(run));
    qkv_json_end(out, '}');
}

static int report_json(const struct runs *runs, char *const *names) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_key(&out, "runs");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < runs->count; i++)
        report_put_run(&out, runs->items[i], names ? names[i] : qkv_run_name(runs->items[i]));
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Counts the steps of all runs; *ended: none is in training any more. */
static size_t all_steps(const struct runs *runs, bool *ended) {
    size_t steps = 0;
    *ended = true;
    for (size_t i = 0; i < runs->count; i++) {
        steps += qkv_run_steps(runs->items[i]);
        if (qkv_run_condition(runs->items[i])->state == QKV_RUN_RUNNING) *ended = false;
    }
    return steps;
}

/* Prints which of the followed runs did not reach their end. */
static void report_unfinished(const struct runs *runs) {
    for (size_t i = 0; i < runs->count; i++) {
        const struct qkv_run *run = runs->items[i];
        char step[CLI_NUMBER];
        if (qkv_run_condition(run)->state != QKV_RUN_DONE)
            cli_say("%s: %s, after step %s", qkv_run_name(run), state_text(run),
                    cli_grouped(step, (size_t)qkv_run_summarize(run).step));
    }
}

static void report_rest(double seconds) {
    double until = qkv_clock() + seconds;
    while (!cli_stopping && qkv_clock() < until) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

/* Writes the page each time that there are new steps; the last page does not reload itself. */
static int report_follow(struct qkv_context *ctx, const struct arguments *a, const char *const *folders, size_t count) {
    size_t written = SIZE_MAX;
    for (;;) {
        struct runs runs;
        bool ended = false;
        int code = read_runs(ctx, folders, count, &runs);
        size_t steps = code ? 0 : all_steps(&runs, &ended);
        bool last = ended || cli_stopping;
        if (!code && (last || steps != written) &&
            qkv_runs_write_page(ctx, runs.items, runs.count, last ? 0 : (int)a->every, a->output))
            code = cli_broken(ctx);
        if (!code && ended && written != SIZE_MAX) report_unfinished(&runs);
        report_forget(&runs);
        if (!code && written == SIZE_MAX && !last)
            fprintf(stderr, "%s: written every %lld s until the run%s end%s; Ctrl-C ends it\n", a->output,
                    (long long)a->every, count == 1 ? "" : "s", count == 1 ? "s" : "");
        if (code || last) return code ? code : ended ? CLI_DONE : CLI_INTERRUPTED;
        written = steps;
        report_rest((double)a->every);
    }
}

/* ---- for other programs ------------------------------------------------------------------------------------------ */

/* The file of --csv; NULL: none, or standard output. */
static const char *report_csv_file(const struct arguments *a) {
    return a->csv && strcmp(a->csv, "-") != 0 ? a->csv : NULL;
}

static void report_wrote(const char *path, const struct runs *runs) {
    bool ended;
    char steps[CLI_NUMBER];
    cli_wrote(path, "%s steps of %zu run%s", cli_grouped(steps, all_steps(runs, &ended)), runs->count,
              runs->count == 1 ? "" : "s");
}

static int report_csv(struct qkv_context *ctx, const struct arguments *a, const struct runs *runs) {
    struct cli_output output;
    if (!a->csv) return CLI_DONE;
    int code = cli_output_begin(ctx, report_csv_file(a), a->force, &output);
    if (!code && qkv_runs_write_csv(ctx, runs->items, runs->count, output.file)) code = cli_broken(ctx);
    code = cli_output_end(&output, code);
    if (!code && report_csv_file(a)) report_wrote(a->csv, runs);
    return code;
}

/* If two runs have the same name, names all by the parts in which their paths differ; else *names stays NULL. */
static enum qkv_status report_names(struct qkv_context *ctx, const struct runs *runs, const char *const *folders,
                                    char ***names) {
    for (size_t i = 0; i < runs->count; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(qkv_run_name(runs->items[i]), qkv_run_name(runs->items[k])))
                return qkv_short_names(ctx, folders, runs->count, names);
    return QKV_OK;
}

static int report_all(struct qkv_context *ctx, const struct arguments *a, const char *const *folders, size_t count) {
    struct runs runs;
    const bool prints = !a->output && !a->csv && !a->tensorboard;
    int code = read_runs(ctx, folders, count, &runs);
    if (!code && a->tensorboard && qkv_runs_write_events(ctx, runs.items, runs.count, a->tensorboard, a->force))
        code = cli_broken(ctx);
    if (!code && a->tensorboard) report_wrote(a->tensorboard, &runs);
    if (!code) code = report_csv(ctx, a, &runs);
    if (!code && a->output && qkv_runs_write_page(ctx, runs.items, runs.count, 0, a->output)) code = cli_broken(ctx);
    if (!code && a->output) report_wrote(a->output, &runs);
    char **names = NULL;
    if (!code && prints && report_names(ctx, &runs, folders, &names)) code = cli_broken(ctx);
    if (!code && a->json) code = report_json(&runs, names);
    for (size_t i = 0; !code && prints && !a->json && i < runs.count; i++) {
        if (i) putchar('\n');
        print_run(runs.items[i], names ? names[i] : qkv_run_name(runs.items[i]));
    }
    qkv_free_names(names, runs.count);
    report_forget(&runs);
    return code;
}

static int report_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    if (!count) return cli_usage("report: name one or more runs: %s report RUN… -o report.html", cli_program);
    if (a->tensorboard && !*a->tensorboard) return cli_usage("report: --tensorboard needs the name of a folder");
    if (a->follow && !a->output)
        return cli_usage("report: --follow writes a page again and again; name its file: -o FILE");
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE && a->follow) cli_catch_signals();
    if (code == CLI_DONE) code = a->follow ? report_follow(ctx, a, words, count) : report_all(ctx, a, words, count);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_report(void) {
    static const struct cli_command command = {
        .name = "report",
        .words = CLI_WORDS_MODELS,
        .summary = "show training runs as a page of curves, also while they train",
        .usage = "RUN… [-o FILE] [options]",
        .description =
            "Reads the log of each run: the loss and the validation loss, the learning rate, the gradient norm and the "
            "speed over steps and over time, the samples (train --sample N), the options, the spec and the machine. "
            "With -o it writes a page, one HTML file that loads nothing else; several runs share its axes. Without -o "
            "it prints a few lines.\n\n"
            "With --follow the page is written again while the runs train, and reloads itself in the browser. It ends "
            "when no run is being trained: each is done, failed, interrupted or killed. Ctrl-C ends it earlier.\n\n"
            "For other programs, --csv writes a line for each step, and --tensorboard writes the files that "
            "TensorBoard reads (tensorboard --logdir FOLDER), in a folder for each run.",
        .examples = "qkv report run/ -o report.html\n"
                    "qkv report run/ other/ -o report.html --force\n"
                    "qkv report run/ -o report.html --follow\n"
                    "qkv report run/ other/ --csv steps.csv\n"
                    "qkv report run/ other/ --tensorboard events/",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = SIZE_MAX,
        .run = report_run,
    };
    return &command;
}
