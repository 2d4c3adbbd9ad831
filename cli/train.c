/* train.c: "qkv train": starts a run or goes on with one, shows its progress, and stops at a signal without losing
 * anything. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct arguments {
    const char *preset, *spec, *out, *resume, *extend;
    struct cli_texts set;
    int64_t sample;
    bool quiet, plain, profile;
    struct cli_common common;
    struct cli_train_values training;
};

static const struct cli_option own_options[] = {
    {CLI_TEXT, 0, "preset", "NAME", offsetof(struct arguments, preset), "a named model, with settings to train it", 0,
     0, NULL},
    {CLI_TEXT, 0, "spec", "FILE", offsetof(struct arguments, spec), "a model described as JSON (config.json)", 0, 0,
     NULL},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct arguments, set),
     "changes the model: decoder.attention.kv_heads=2, position.kind=rope", 0, 0, NULL},
    {CLI_TEXT, 0, "out", "RUN", offsetof(struct arguments, out), "the folder to make for the run", 0, 0, NULL},
    {CLI_TEXT, 0, "resume", "RUN", offsetof(struct arguments, resume),
     "go on from the checkpoint in this folder; --steps may set a new end", 0, 0, NULL},
    {CLI_TEXT, 0, "extend", "HOW", offsetof(struct arguments, extend),
     "with --resume and --steps, the rate up to the new end, from the rate reached: decay (falls on to min-rate), flat "
     "(stays), rewarm (rises to rate again, then the schedule)",
     0, 0, "decay"},
    {CLI_COUNT, 0, "sample", "N", offsetof(struct arguments, sample),
     "tokens of a sample, or of some targets, to show after each evaluation and to keep in samples.jsonl", 0, 1000000,
     NULL},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), "show errors only", 0, 0, NULL},
    {CLI_FLAG, 0, "plain", NULL, offsetof(struct arguments, plain), "plain lines instead of a progress bar", 0, 0,
     NULL},
    {CLI_FLAG, 0, "profile", NULL, offsetof(struct arguments, profile),
     "at the end, show where the time of the steps went, by operator", 0, 0, NULL},
    CLI_COMMON(struct arguments),
    CLI_IGNORE_MEMORY(struct arguments),
    CLI_IGNORE_DIGEST(struct arguments),
};

/* The value of an option of training, NULL if it is not given. */
static const char *training_value(const struct arguments *a, const char *option) {
    const char *name, *value, *help;
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++)
        if (!strcmp(name, option)) return cli_train_value(&a->training, i);
    return NULL;
}

static bool reads_no_model(const void *values, size_t arguments) {
    const struct arguments *a = values;
    (void)arguments;
    return !a->resume && !training_value(a, "from");
}

static bool is_quiet(const void *values, size_t arguments) {
    const struct arguments *a = values;
    (void)arguments;
    return a->quiet;
}

static const struct cli_rule rules[] = {
    {"plain", is_quiet, CLI_WHY_QUIET},
    {"ignore-digest", reads_no_model, "a new run has no model to check; it is for --resume and --from"},
};

/* ---- starting -------------------------------------------------------------------------------------------------------- */

/* What is wrong with --sample in this run; false if nothing is. */
static bool is_sample_idle(const struct arguments *a, const struct qkv_train_options *options) {
    const char *why = NULL;
    if (a->sample == 0) return false;
    if (options->labeled)
        why = "shows what a model writes, but this one classifies";
    else if (options->task && !strcmp(options->task, "mlm"))
        why = "shows what a model writes, but this one fills masks";
    else if (!options->valid && options->valid_fraction == 0)
        why = "shows a sample after each evaluation, but nothing is kept for validation (valid_fraction 0)";
    if (why) cli_say("train: --sample %s; leave it out", why);
    return why != NULL;
}

static int check_start(const struct arguments *a, const struct qkv_train_options *options) {
    if (options->from) {
        const char *beside = a->preset ? "preset" : a->spec ? "spec" : NULL;
        if (beside)
            return cli_usage("train: --%s has no place beside --from: the model is that of %s", beside, options->from);
    } else if (!a->preset && !a->spec)
        return cli_usage("train: say which model: --preset NAME or --spec FILE (\"%s help train\" lists the presets)",
                         cli_program);
    if (a->preset && a->spec) return cli_usage("train: --preset and --spec exclude each other");
    if (!options->data && !options->pairs && !options->labeled)
        return cli_usage("train: say what to train on: --data FILE (or --pairs FILE, or --labeled FILE)");
    if (!a->out || !*a->out) return cli_usage("train: say where the run shall be: --out FOLDER");
    if (a->extend)
        return cli_usage(
            "train: --extend says what the rate does where a run gets a new end, beside --resume and --steps");
    return is_sample_idle(a, options) ? CLI_USAGE : CLI_DONE;
}

/* What is wrong with the files of a run, or with the options beside them. */
static int train_failed(const struct qkv_context *ctx, enum qkv_status status) {
    return status ? cli_broken(ctx) : CLI_DONE;
}

const char *cli_train_value_at(const struct cli_train_values *values, size_t i, size_t k) {
    if (values->files[i].count) return k < values->files[i].count ? values->files[i].items[k] : NULL;
    if (k > 0) return NULL;
    return values->flag[i] ? "true" : values->option[i];
}

const char *cli_train_value(const struct cli_train_values *values, size_t i) {
    return cli_train_value_at(values, i, 0);
}

int cli_check_doubles(const char *command, const struct cli_texts *set, const struct cli_train_values *values) {
    const char *name, *value, *help;
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        if (strcmp(name, "dropout") != 0 && strcmp(name, "context") != 0) continue;
        size_t n = strlen(name);
        for (size_t k = 0; cli_train_value(values, i) && k < set->count; k++)
            if (strncmp(set->items[k], name, n) == 0 && set->items[k][n] == '=')
                return cli_usage("%s: --set %s has no effect beside --%s %s; leave one of them out", command,
                                 set->items[k], name, cli_train_value(values, i));
    }
    return CLI_DONE;
}

static const char *train_given(const struct arguments *a, size_t i) {
    return cli_train_value(&a->training, i);
}

/* Beside --from the model stays as it is, but for its dropout. */
static int set_from(struct qkv_context *ctx, const struct arguments *a, struct qkv_train_options *options) {
    static const char dropout[] = "dropout=";
    for (size_t i = 0; options->from && i < a->set.count; i++) {
        const char *setting = a->set.items[i];
        if (strncmp(setting, dropout, sizeof dropout - 1) != 0)
            return cli_usage(
                "train: --set %s has no place beside --from: the model is that of %s (only its dropout may be "
                "another)",
                setting, options->from);
        if (qkv_train_set(ctx, options, "dropout", setting + sizeof dropout - 1)) return cli_misused(ctx);
    }
    return CLI_DONE;
}

/* All that can be said of a new run's options before a file is read: with a preset, whether they suit its spec too. */
static int read_options(struct qkv_context *ctx, const struct arguments *a, struct qkv_train_options *options,
                        struct qkv_spec *spec) {
    const char *name, *value, *help;
    if (qkv_train_defaults(ctx, a->preset, options)) return cli_misused(ctx);
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++)
        for (size_t k = 0; (value = cli_train_value_at(&a->training, i, k)); k++)
            if (qkv_train_set(ctx, options, name, value)) return cli_misused(ctx);
    int code = set_from(ctx, a, options);
    if (!code) code = check_start(a, options);
    if (!code) code = cli_check_doubles("train", &a->set, &a->training);
    if (code) return code;
    if (qkv_train_check(ctx, options)) return cli_misused(ctx);
    if (options->from) return CLI_DONE;
    if (a->spec) return qkv_spec_check_settings(ctx, a->set.items, a->set.count) ? cli_misused(ctx) : CLI_DONE;
    if (qkv_spec_preset(ctx, spec, a->preset, a->set.items, a->set.count) || qkv_train_check_spec(ctx, options, spec))
        return cli_misused(ctx);
    return CLI_DONE;
}

static int train_start(struct qkv_context *ctx, const struct arguments *a, struct cli_task *task,
                       struct qkv_trainer **trainer) {
    struct qkv_train_options options;
    struct qkv_spec spec;
    int code = read_options(ctx, a, &options, &spec);
    if (code) return code;
    if (a->spec && qkv_spec_read(ctx, &spec, a->spec, a->set.items, a->set.count)) return cli_broken(ctx);
    enum qkv_status status =
        qkv_trainer_create(ctx, options.from ? NULL : &spec, &options, a->out, cli_task_progress, task, trainer);
    cli_progress_clear(task->progress);
    if (status == QKV_STOPPED) {
        cli_say("interrupted before the first step; there is nothing to resume");
        return CLI_INTERRUPTED;
    }
    return train_failed(ctx, status);
}

/* An option's name as it is typed, "--eval-every". */
static void append_option(char *text, size_t size, const char *before, const char *name) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s--%s", before, name);
    for (char *c = text + used; *c; c++) *c = *c == '_' ? '-' : *c;
}

static int refuse_change(const char *option, const char *why) {
    const char *name, *value, *help;
    char may[256] = "", asked[64] = "";
    append_option(asked, sizeof asked, "", option);
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++)
        if (qkv_train_may_change(name, NULL)) append_option(may, sizeof may, *may ? ", " : "", name);
    return cli_usage("train: %s cannot change beside --resume: %s; what may change: %s", asked, why, may);
}

static bool is_extend(const char *word) {
    static const char *const names[] = {
#define NAME(name, text, help) text,
        QKV_EXTEND_LIST(NAME)
#undef NAME
    };
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++)
        if (!strcmp(names[i], word)) return true;
    return false;
}

/* What is wrong with the words beside --resume before any file was read. */
static int check_resume(struct qkv_context *ctx, const struct arguments *a) {
    const char *name, *value, *help, *why;
    struct qkv_train_options trial;
    bool longer = false;
    if (a->preset || a->spec || a->set.count || a->out)
        return cli_usage("train: --resume goes on with the model and folder of the run; --%s has no place beside it",
                         a->preset ? "preset"
                         : a->spec ? "spec"
                         : a->out  ? "out"
                                   : "set");
    if (qkv_train_defaults(ctx, NULL, &trial)) return cli_misused(ctx);
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        if (!train_given(a, i)) continue;
        longer |= !strcmp(name, "steps");
        if (!qkv_train_may_change(name, &why)) return refuse_change(name, why);
        if (qkv_train_set(ctx, &trial, name, train_given(a, i))) return cli_misused(ctx);
    }
    if (a->extend && !is_extend(a->extend))
        return cli_usage("train: extend is \"%s\"; it must be decay, flat or rewarm", a->extend);
    if (a->extend && !longer)
        return cli_usage("train: --extend says what the rate does up to a new end; set that with --steps");
    return CLI_DONE;
}

/* The options that change, "name=value" each, in texts that the caller frees. */
static size_t list_changes(const struct arguments *a, char **settings) {
    const char *name, *value, *help;
    size_t count = 0;
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        if (!train_given(a, i)) continue;
        size_t n = strlen(name) + strlen(train_given(a, i)) + 2;
        settings[count] = malloc(n);
        if (settings[count]) snprintf(settings[count], n, "%s=%s", name, train_given(a, i));
        count++;
    }
    return count;
}

static int train_resume(struct qkv_context *ctx, const struct arguments *a, struct cli_task *task,
                        struct qkv_trainer **trainer) {
    char *settings[CLI_TRAIN_OPTIONS];
    int code = check_resume(ctx, a);
    if (code) return code;
    size_t count = list_changes(a, settings), known = 0;
    while (known < count && settings[known]) known++;
    struct qkv_resume_options options = {
        .extend = a->extend, .settings = (const char *const *)settings, .setting_count = count};
    enum qkv_status status = QKV_MEMORY;
    if (known == count) status = qkv_trainer_resume_with(ctx, a->resume, &options, cli_task_progress, task, trainer);
    for (size_t i = 0; i < count; i++) free(settings[i]);
    cli_progress_clear(task->progress);
    if (known < count) return cli_failed("out of memory");
    if (status == QKV_STOPPED) {
        cli_say("interrupted before the first step; %s is as it was", a->resume);
        return CLI_INTERRUPTED;
    }
    return train_failed(ctx, status);
}

/* "a.txt", or "a.txt and 2 more files", of those to train on. */
static const char *name_data(const struct qkv_trainer *trainer, char *text, size_t size) {
    struct qkv_train_file file = {.path = ""}, other;
    size_t count = 1;
    qkv_trainer_file(trainer, 0, &file);
    while (qkv_trainer_file(trainer, count, &other) && !other.valid) count++;
    if (count == 1)
        snprintf(text, size, "%s", file.path);
    else
        snprintf(text, size, "%s and %zu more file%s", file.path, count - 1, count == 2 ? "" : "s");
    return text;
}

/* Of several files the ones that what is held out begins and ends in. */
static void introduce_held_out(struct cli_progress *progress, const struct qkv_trainer *trainer) {
    struct qkv_train_file file, first = {0}, last = {0};
    size_t count = 0, held = 0;
    for (; qkv_trainer_file(trainer, count, &file) && !file.valid; count++) {
        if (!file.held_out) continue;
        if (held++ == 0) first = file;
        last = file;
    }
    if (count < 2 || held == 0) return;
    bool whole = first.held_out == (first.lines ? first.lines : first.tokens);
    cli_progress_line(progress, "valid   %s %s%s%s", whole ? "all of" : "the end of", first.path,
                      held > 2   ? ", and all up to the end of "
                      : held > 1 ? " and all of "
                                 : "",
                      held > 1 ? last.path : "");
}

/* What is learnt from, and how much of it there is. */
static void introduce_data(struct cli_progress *progress, struct qkv_trainer *trainer,
                           const struct qkv_train_options *options) {
    const struct qkv_spec *spec = qkv_model_spec(qkv_trainer_model(trainer));
    size_t valid_tokens, tokens = qkv_trainer_tokens(trainer, &valid_tokens);
    size_t valid, lines = qkv_trainer_lines(trainer, &valid);
    char text[3][CLI_NUMBER], kind[64] = "lines", file[512];
    name_data(trainer, file, sizeof file);
    if (!lines) {
        cli_progress_line(progress, "data    %s, %s tokens to train on, %s to validate on", file,
                          cli_grouped(text[0], tokens), cli_grouped(text[1], valid_tokens));
        introduce_held_out(progress, trainer);
        return;
    }
    if (options->pairs) snprintf(kind, sizeof kind, "pairs");
    if (options->labeled) snprintf(kind, sizeof kind, "lines of %d classes", spec->head.classes);
    cli_progress_line(progress, "data    %s, %s %s (%s tokens) to train on, %s to validate on", file,
                      cli_grouped(text[0], lines), kind, cli_grouped(text[1], tokens), cli_grouped(text[2], valid));
    introduce_held_out(progress, trainer);
}

static const char *batch_text(char *text, size_t size, const struct qkv_train_options *options,
                              const struct qkv_spec *spec) {
    char rows[48] = "";
    if (options->data) {
        snprintf(text, size, "%lld x %lld tokens", (long long)options->batch,
                 (long long)(options->context > 0 ? options->context : spec->context));
        return text;
    }
    if (options->batch) snprintf(rows, sizeof rows, "%lld lines", (long long)options->batch);
    if (options->batch_tokens)
        snprintf(text, size, "at most %s%s%lld tokens", rows, *rows ? " and " : "", (long long)options->batch_tokens);
    else
        snprintf(text, size, "%s", rows);
    return text;
}

static void train_introduce(struct cli_progress *progress, struct qkv_trainer *trainer, const struct arguments *a) {
    const struct qkv_train_options *options = qkv_trainer_options(trainer);
    struct qkv_model *model = qkv_trainer_model(trainer);
    const struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    size_t parameters = 0;
    char text[2][CLI_NUMBER];
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        parameters += qkv_array_elements(qkv_model_parameter(model, i));
    cli_progress_line(progress, "model   %s%s%s parameters, vocabulary %d, context %d",
                      a->preset                     ? a->preset
                      : a->spec                     ? a->spec
                      : !a->resume && options->from ? options->from
                                                    : "",
                      a->preset || a->spec || (!a->resume && options->from) ? ", " : "",
                      cli_short(text[0], (double)parameters), spec->vocab, spec->context);
    introduce_data(progress, trainer, options);
    const char *precision = qkv_context_precision(ctx) == QKV_FP32 ? "fp32"
                            : qkv_context_native_bf16(ctx)         ? "bf16"
                                                                   : "bf16 (emulated)";
    cli_progress_line(progress, "machine %d thread%s, %s, %s, %s for weights, optimizer and one step",
                      qkv_context_threads(ctx), qkv_context_threads(ctx) == 1 ? "" : "s", qkv_context_isa(ctx),
                      precision, cli_bytes(text[1], qkv_trainer_bytes(trainer)));
    if (qkv_context_precision(ctx) != QKV_FP32) cli_say_emulated(ctx, NULL);
    char batch[96];
    cli_progress_line(progress, "run     %s, %lld steps of %s; Ctrl-C saves and stops", a->resume ? a->resume : a->out,
                      (long long)options->steps, batch_text(batch, sizeof batch, options, spec));
}

/* The notes that were not shown yet; they are no progress, so --quiet shows them too. */
static void show_notes(struct cli_progress *progress, const struct qkv_trainer *trainer, size_t *shown) {
    const char *note;
    for (; (note = qkv_trainer_note(trainer, *shown)); ++*shown) {
        cli_progress_clear(progress);
        cli_say("%s", note);
    }
}

/* ---- running --------------------------------------------------------------------------------------------------------- */

struct running {
    struct cli_progress *progress;
    double began, speed; /* tokens a second, smoothed */
    size_t notes;        /* of the trainer that were shown */
    int64_t first;       /* steps done before this process */
};

static void show_step(struct running *run, const struct qkv_train_report *r) {
    char step[64], loss[32], valid[32] = "", left[64], speed[48], share[32], number[2][CLI_NUMBER];
    const char *fields[6] = {step, loss};
    size_t count = 2;
    double elapsed = qkv_clock() - run->began;
    int64_t done = r->step - run->first;
    snprintf(step, sizeof step, "step %lld/%lld", (long long)r->step, (long long)r->steps);
    snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    if (isfinite(r->valid_loss)) {
        snprintf(valid, sizeof valid, "valid %.4f", r->valid_loss);
        fields[count++] = valid;
    }
    snprintf(left, sizeof left, "%s left",
             cli_seconds(number[0], done > 0 ? elapsed / (double)done * (double)(r->steps - r->step) : 0));
    fields[count++] = left;
    snprintf(speed, sizeof speed, "%s tokens/s", cli_short(number[1], run->speed));
    fields[count++] = speed;
    if (isfinite(r->flops_share) && r->flops_share > 0) {
        snprintf(share, sizeof share, "%.0f%% of peak", 100 * r->flops_share);
        fields[count++] = share;
    }
    cli_progress_show(run->progress, r->steps > 0 ? (double)r->step / (double)r->steps : -1, fields, count);
}

static int train_interrupted(struct qkv_trainer *trainer, struct cli_progress *progress, const struct arguments *a,
                             const struct qkv_train_report *r) {
    const char *folder = a->resume ? a->resume : a->out;
    cli_progress_clear(progress);
    if (!r->saved && qkv_trainer_save(trainer)) return cli_broken(qkv_model_context(qkv_trainer_model(trainer)));
    cli_say("interrupted and saved after step %lld of %lld; go on with: %s train --resume %s", (long long)r->step,
            (long long)r->steps, cli_program, folder);
    return CLI_INTERRUPTED;
}

/* The command that suits what was learnt. */
static void train_suggest(struct cli_progress *progress, const char *folder, const struct qkv_train_options *options) {
    if (options->pairs)
        cli_progress_line(progress, "try: %s translate %s \"a source\"", cli_program, folder);
    else if (options->labeled)
        cli_progress_line(progress, "try: %s classify %s \"a text\"", cli_program, folder);
    else if (options->task && !strcmp(options->task, "mlm"))
        cli_progress_line(progress, "try: %s fill %s \"a text with a <mask> in it\"", cli_program, folder);
    else
        cli_progress_line(progress, "try: %s generate %s -n 300", cli_program, folder);
}

static void train_conclude(struct cli_progress *progress, const struct arguments *a, struct qkv_trainer *trainer,
                           const struct qkv_train_report *r) {
    const char *folder = a->resume ? a->resume : a->out, *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    const struct qkv_train_options *options = qkv_trainer_options(trainer);
    bool loss = strcmp(r->metric_name, "loss") == 0;
    char time[CLI_NUMBER], best[96] = "", early[96] = "";
    if (isfinite(r->best_metric))
        snprintf(best, sizeof best, ", best %s %.4f", loss ? "validation loss" : r->metric_name, r->best_metric);
    if (r->ended)
        snprintf(early, sizeof early, " (of %lld: the last %lld evaluations brought no better %s)",
                 (long long)options->steps, (long long)options->patience, r->metric_name);
    cli_progress_line(progress, "\n%lld steps done in %s%s%s", (long long)r->steps, cli_seconds(time, r->seconds), best,
                      early);
    cli_progress_line(progress, "  model       %s%smodel.safetensors (with config.json and tokenizer.json)", folder,
                      slash);
    cli_progress_line(progress, "  log         %s%slog.jsonl", folder, slash);
    cli_progress_line(progress, "  checkpoint  %s%scheckpoint.safetensors", folder, slash);
    train_suggest(progress, folder, options);
}

static int train_loop(struct qkv_trainer *trainer, struct cli_progress *progress, const struct arguments *a) {
    struct running run = {.progress = progress, .began = qkv_clock(), .first = -1};
    show_notes(progress, trainer, &run.notes);
    struct qkv_context *ctx = qkv_model_context(qkv_trainer_model(trainer));
    for (;;) {
        struct qkv_train_report r = {0};
        if (qkv_trainer_step(trainer, &r)) {
            cli_progress_clear(progress);
            return cli_broken(ctx);
        }
        if (run.first < 0) {
            run.first = r.step - 1;
            if (r.step >= r.steps && !r.saved) {
                cli_progress_line(progress, "all %lld steps were done before; --steps N sets a later end",
                                  (long long)r.steps);
                return CLI_DONE;
            }
        }
        show_notes(progress, trainer, &run.notes);
        run.speed = run.speed > 0 ? 0.9 * run.speed + 0.1 * r.tokens_per_second : r.tokens_per_second;
        cli_train_evaluated(progress, &r);
        if (r.evaluated && a->sample > 0) {
            int code = cli_train_show(progress, trainer, a->sample);
            if (code) return code;
        }
        if (r.step >= r.steps) {
            train_conclude(progress, a, trainer, &r);
            return CLI_DONE;
        }
        if (cli_stopping) return train_interrupted(trainer, progress, a, &r);
        if (cli_progress_due(progress)) show_step(&run, &r);
    }
}

static int run_train(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_trainer *trainer = NULL;
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    (void)words, (void)count;
    cli_progress_start(&progress, a->quiet, a->plain);
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) {
        cli_catch_signals();
        code = a->resume ? train_resume(ctx, a, &task, &trainer) : train_start(ctx, a, &task, &trainer);
    }
    if (code == CLI_DONE && a->resume && is_sample_idle(a, qkv_trainer_options(trainer))) code = CLI_FAILED;
    if (code == CLI_DONE) {
        task.finish = true;
        train_introduce(&progress, trainer, a);
        progress.latest = 0; /* the first step is shown at once */
        if (a->profile && qkv_trainer_profile_start(trainer)) code = cli_broken(ctx);
    }
    if (code == CLI_DONE) {
        code = train_loop(trainer, &progress, a);
        if (a->profile) cli_print_profile(qkv_trainer_profile(trainer));
    }
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
    return code;
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

/* What stands for a value in the help: FILE, N for a whole number, X for another one, else NAME. */
static const char *argument_of(const char *value, const char *help) {
    int64_t whole;
    double number;
    if (strstr(help, "file ")) return "FILE";
    if (strstr(help, "model folder")) return "MODEL";
    if (!value || !*value) return "NAME";
    return cli_read_count(value, 0, INT64_MAX, &whole) ? "N" : cli_read_real(value, &number) ? "X" : "NAME";
}

/* Options that only other tasks than a text's next token have, and those about a model that there is already. */
static bool is_for_others(const char *name) {
    static const char *const others[] = {"pairs",  "labeled",      "task", "mask_probability", "source_tokenizer",
                                         "metric", "batch_tokens", "from", "new_head"};
    for (size_t i = 0; i < CLI_COUNT_OF(others); i++)
        if (!strcmp(others[i], name)) return true;
    return false;
}

size_t cli_train_options(struct cli_option *options, size_t offset, bool texts_only) {
    size_t count = 0;
    const char *name, *value, *help;
    for (size_t i = 0; i < CLI_TRAIN_OPTIONS && qkv_train_option_at(i, &name, &value, &help); i++) {
        size_t at = offset + offsetof(struct cli_train_values, option) + i * sizeof(const char *);
        if (texts_only && is_for_others(name)) continue;
        options[count] = (struct cli_option){CLI_TEXT, 0, name, argument_of(value, help), at, help, 0, 0, value};
        if (qkv_train_option_lists(i)) {
            options[count].kind = CLI_TEXTS;
            options[count].offset = offset + offsetof(struct cli_train_values, files) + i * sizeof(struct cli_texts);
        }
        if (strcmp(value, "false") == 0) {
            at = offset + offsetof(struct cli_train_values, flag) + i * sizeof(bool);
            options[count] = (struct cli_option){CLI_FLAG, 0, name, NULL, at, help, 0, 0, NULL};
        }
        count++;
    }
    return count;
}

const struct cli_command *cli_train(void) {
    static const struct arguments defaults = {0};
    static struct cli_option options[CLI_COUNT_OF(own_options) + CLI_TRAIN_OPTIONS];
    static struct cli_command command = {
        .name = "train",
        .summary = "train a model on a text, pairs or labelled lines, or go on with a run",
        .usage = "--preset NAME --data FILE --out RUN [options]\n"
                 "--preset NAME --pairs FILE --out RUN [options]\n"
                 "--preset NAME --labeled FILE --out RUN [options]\n"
                 "--spec FILE --data FILE --out RUN [options]\n"
                 "--from MODEL --data FILE --out RUN [options]\n"
                 "--resume RUN [--steps N [--extend HOW]]",
        .description =
            "Makes a folder RUN: the model with the best validation loss (config.json, model.safetensors, "
            "tokenizer.json), "
            "the latest state (checkpoint.safetensors), the options (train.json) and a log with a line of JSON a step "
            "(log.jsonl). --resume goes on from the checkpoint as if training had never stopped: the losses are the "
            "same, "
            "bit for bit. With --steps it gets a new end; from there on the learning rate follows --extend, and both "
            "rates are reported. By default it decays: it never jumps, and a finished run goes on at min-rate. Other "
            "options that change no number of a step may change too: --eval-every (which chooses the steps that may be "
            "the best, and what --patience counts), --save-every, --patience, --checkpoint-activations.\n\nCtrl-C "
            "finishes the step, saves and exits with 130; a second one stops at once, and the "
            "checkpoint "
            "of before stays whole.\n\nWhat is learnt: the next token of a text (--data), its masked tokens (--data "
            "and --task mlm), "
            "the target of a source (--pairs: a source, a tab, a target in each line), the label of a line (--labeled: "
            "a "
            "label, a tab, a text). --from MODEL begins with the weights, spec and tokenizers of a model folder or run "
            "instead of --preset or --spec, with a new optimizer and schedule; --new-head gives it a new head where "
            "its "
            "own does not fit the task or the labels. A preset brings its own defaults for the options "
            "below.\n\n--data, --pairs, "
            "--labeled and --valid may be repeated, and a folder stands for the files in it, sorted by name, without "
            "hidden files and inner folders. Several texts are one after the other, an end token between them where "
            "the tokenizer has one; what is held out for validation is the last part of all of it. train.json records "
            "each file.\n\n--profile prints, at "
            "the end "
            "or "
            "when it is interrupted, a table of a step's time: for each operator the calls, the time and its share, "
            "the "
            "FLOP/s of products and attention with their share of the measured peak, and the bytes/s of what is bound "
            "by memory. Activations and residual additions forward are part of the products before them. Evaluations, "
            "the log and checkpoints are not in it.",
        .examples = "qkv train --preset nano-gpt --data shakespeare.txt --out run/\n"
                    "qkv train --preset baby-gpt --set decoder.attention.kv_heads=2 --data shakespeare.txt --out run/\n"
                    "qkv train --spec my.json --tokenizer bpe:4096 --batch 32 --rate 6e-4 --data book.txt --out run/\n"
                    "qkv train --preset g2p --pairs train.tsv --valid valid.tsv --out g2p/\n"
                    "qkv train --preset text-classifier --labeled train.tsv --valid test.tsv --out topic/\n"
                    "qkv train --preset bert-tiny --data text.txt --out enc/\n"
                    "qkv train --from run/ --data other.txt --rate 1e-4 --out tuned/\n"
                    "qkv train --from enc/ --new-head --labeled train.tsv --out topic/\n"
                    "qkv train --resume run/ --steps 10000\n"
                    "qkv train --resume run/ --steps 10000 --extend rewarm",
        .options = options,
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .presets = true,
        .run = run_train,
    };
    if (!command.option_count) {
        memcpy(options, own_options, sizeof own_options);
        command.option_count =
            CLI_COUNT_OF(own_options) +
            cli_train_options(options + CLI_COUNT_OF(own_options), offsetof(struct arguments, training), false);
    }
    return &command;
}
