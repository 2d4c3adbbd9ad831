/* train_start.c: checks the command line of "qkv train", and starts or resumes a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_train.h"

bool cli_train_sample_idle(const struct cli_train_arguments *a, const struct qkv_train_options *options) {
    const char *why = NULL;
    if (a->sample == 0) return false;
    if (options->labeled || options->examples)
        why = "shows what a model writes, but this one classifies";
    else if (options->task && !strcmp(options->task, "mlm"))
        why = "shows what a model writes, but this one fills masks";
    else if (!options->valid && options->valid_fraction == 0)
        why = "shows a sample after each evaluation, but there is no validation data (valid_fraction 0)";
    if (why) cli_say("train: --sample %s; leave it out", why);
    return why != NULL;
}

/* No option names training data. */
static int check_data(void) {
    const char *name;
    char others[256] = "";
    size_t n = 0;
    for (size_t i = 0; qkv_train_option_at(i, &name, NULL, NULL) && n < sizeof others; i++)
        if (qkv_train_option_data(i) && strcmp(name, "data") != 0)
            n += (size_t)snprintf(others + n, sizeof others - n, "%s--%s FILE", n ? ", " : "", name);
    return cli_usage("train: name a file to train on: --data FILE (or %s)", others);
}

static int check_start(const struct cli_train_arguments *a, const struct qkv_train_options *options) {
    if (options->from) {
        const char *given = a->preset ? "preset" : a->spec ? "spec" : NULL;
        if (given)
            return cli_usage(
                "train: --%s and --from exclude each other: the model is that of %s; leave one of them out", given,
                options->from);
    } else if (!a->preset && !a->spec)
        return cli_usage("train: name a model: --preset NAME or --spec FILE (\"%s help train\" lists the presets)",
                         cli_program);
    if (a->preset && a->spec) return cli_usage("train: --preset and --spec exclude each other");
    if (!qkv_train_data(options)) return check_data();
    if (!a->out || !*a->out) return cli_usage("train: name a folder for the run: --out FOLDER");
    if (a->extend)
        return cli_usage("train: --extend says how the rate goes on to the new end of a run; it needs --resume, and "
                         "--steps or --epochs");
    return cli_train_sample_idle(a, options) ? CLI_USAGE : CLI_DONE;
}

/* An error of the library about the files of a run, or about the options given with them. */
static int train_failed(const struct qkv_context *ctx, enum qkv_status status) {
    return status ? cli_broken(ctx) : CLI_DONE;
}

static const char *train_given(const struct cli_train_arguments *a, size_t i) {
    return cli_train_value(&a->training, i);
}

/* Whether a setting is a dropout, of the whole model or of a part: decoder.attention.dropout=0.1. */
static bool sets_dropout(const char *setting) {
    const char *key = setting, *end = setting + strcspn(setting, "=");
    for (const char *c = setting; c < end; c++)
        if (*c == '.') key = c + 1;
    return !strncmp(key, "dropout=", strlen("dropout=")) ||
           !strncmp(key, "residual_dropout=", strlen("residual_dropout="));
}

/* With --from, --set may change dropouts alone: the model stays as it is. */
static int set_from(struct qkv_context *ctx, const struct cli_train_arguments *a, struct qkv_train_options *options) {
    static const char dropout[] = "dropout=";
    for (size_t i = 0; options->from && i < a->set.count; i++) {
        const char *setting = a->set.items[i];
        if (!sets_dropout(setting))
            return cli_usage(
                "train: --set %s cannot change the model of --from, which is that of %s; only its dropouts may change",
                setting, options->from);
        if (!strncmp(setting, dropout, sizeof dropout - 1) &&
            qkv_train_set(ctx, options, "dropout", setting + sizeof dropout - 1))
            return cli_misused(ctx);
    }
    if (options->from && qkv_spec_check_settings(ctx, a->set.items, a->set.count)) return cli_misused(ctx);
    return CLI_DONE;
}

/* Reads the spec of a new run; *given becomes NULL if the model of --from is used as it is. */
static int read_spec(struct qkv_context *ctx, const struct cli_train_arguments *a,
                     const struct qkv_train_options *options, struct qkv_spec *spec, const struct qkv_spec **given) {
    const bool from = options->from != NULL;
    bool reads = !from && a->spec;
    for (size_t i = 0; from && i < a->set.count; i++) /* also an option of training, which needs no spec */
        reads |= strncmp(a->set.items[i], "dropout=", strlen("dropout=")) != 0;
    *given = from && !reads ? NULL : spec;
    if (!reads) return CLI_DONE;
    const enum qkv_status status = from ? qkv_folder_spec(ctx, options->from, a->set.items, a->set.count, spec)
                                        : qkv_spec_read(ctx, spec, a->spec, a->set.items, a->set.count);
    return status ? cli_broken(ctx) : CLI_DONE;
}

/* An error in the options is one of the command line, unless a file gives options, too. */
static int train_refuse(const struct qkv_context *ctx, const struct cli_train_arguments *a) {
    return a->config ? cli_broken(ctx) : cli_misused(ctx);
}

/* Reads options from a file over the defaults; the caller frees *texts. A model that the command line names replaces
 * the file's model to begin with. */
static int read_config(struct qkv_context *ctx, const struct cli_train_arguments *a, struct qkv_train_options *options,
                       char **texts) {
    if (!a->config) return CLI_DONE;
    if (qkv_train_read_options(ctx, a->config, options, texts)) return cli_broken(ctx);
    if (a->preset || a->spec) {
        qkv_train_unset(options, "from");
        qkv_train_unset(options, "new_head");
    }
    return CLI_DONE;
}

/* Reads and checks the options of a new run before any other file is read; with a preset, also against its spec. */
static int read_options(struct qkv_context *ctx, const struct cli_train_arguments *a, struct qkv_train_options *options,
                        struct qkv_spec *spec, char **texts) {
    if (qkv_train_defaults(ctx, a->preset, options)) return cli_misused(ctx);
    int code = read_config(ctx, a, options, texts);
    if (code) return code;
    if (cli_train_set_all(ctx, &a->training, &a->set, options)) return cli_misused(ctx);
    if (a->find_rate) code = cli_train_rate_options(a, options);
    if (!code) code = set_from(ctx, a, options);
    if (!code) code = check_start(a, options);
    if (!code) code = cli_check_doubles("train", &a->set, &a->training);
    if (code) return code;
    if (qkv_train_check(ctx, options)) return train_refuse(ctx, a);
    if (options->from) return CLI_DONE;
    if (a->spec) return qkv_spec_check_settings(ctx, a->set.items, a->set.count) ? cli_misused(ctx) : CLI_DONE;
    if (qkv_spec_preset(ctx, spec, a->preset, a->set.items, a->set.count)) return cli_misused(ctx);
    return qkv_train_check_spec(ctx, options, spec) ? train_refuse(ctx, a) : CLI_DONE;
}

int cli_train_start(struct qkv_context *ctx, const struct cli_train_arguments *a, struct cli_task *task,
                    struct qkv_trainer **trainer) {
    struct qkv_train_options options;
    struct qkv_spec spec = {0};
    const struct qkv_spec *given = NULL;
    char *texts = NULL; /* of the options in a file */
    int code = read_options(ctx, a, &options, &spec, &texts);
    if (!code) code = read_spec(ctx, a, &options, &spec, &given);
    enum qkv_status status = QKV_OK;
    if (!code) status = qkv_trainer_create(ctx, given, &options, a->out, cli_task_progress, task, trainer);
    qkv_free(texts);
    qkv_spec_free(&spec);
    if (code) return code;
    cli_progress_clear(task->progress);
    if (status == QKV_STOPPED) {
        cli_say("interrupted before the first step; there is nothing to resume");
        return CLI_INTERRUPTED;
    }
    return train_failed(ctx, status);
}

/* Appends an option's name as it is typed: "--eval-every". */
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
    return cli_usage("train: %s cannot change with --resume: %s; these may change: %s", asked, why, may);
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

/* Checks the command line with --resume before any file is read. */
static int check_resume(struct qkv_context *ctx, const struct cli_train_arguments *a) {
    const char *name, *value, *help, *why;
    struct qkv_train_options trial;
    int longer = 0;
    if (a->config) return cli_usage("train: --resume uses the options of the run; leave --config out");
    if (a->preset || a->spec || a->set.count || a->out)
        return cli_usage("train: --resume uses the model and the folder of the run; leave --%s out", a->preset
                                                                                                         ? "preset"
                                                                                                     : a->spec ? "spec"
                                                                                                     : a->out  ? "out"
                                                                                                               : "set");
    if (qkv_train_defaults(ctx, NULL, &trial)) return cli_misused(ctx);
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++) {
        if (!train_given(a, i)) continue;
        longer += !strcmp(name, "steps") || !strcmp(name, "epochs");
        if (!qkv_train_may_change(name, &why)) return refuse_change(name, why);
        if (qkv_train_set(ctx, &trial, name, train_given(a, i))) return cli_misused(ctx);
    }
    if (longer > 1) return cli_usage("train: --steps and --epochs exclude each other; give one of them");
    if (a->extend && !is_extend(a->extend))
        return cli_usage("train: --extend is \"%s\"; it must be decay, flat or rewarm", a->extend);
    if (a->extend && !longer)
        return cli_usage(
            "train: --extend says how the rate goes on to the new end of a run; set that end with --steps or --epochs");
    return CLI_DONE;
}

/* Lists the options that change, each as "name=value"; the caller frees the texts. */
static size_t list_changes(const struct cli_train_arguments *a, char **settings) {
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

int cli_train_resume(struct qkv_context *ctx, const struct cli_train_arguments *a, struct cli_task *task,
                     struct qkv_trainer **trainer) {
    char *settings[CLI_TRAIN_OPTIONS];
    int code = check_resume(ctx, a);
    if (code) return code;
    size_t count = list_changes(a, settings), known = 0;
    while (known < count && settings[known]) known++;
    struct qkv_resume_options options = {.size = sizeof options,
                                         .extend = a->extend,
                                         .checkpoint = a->checkpoint,
                                         .settings = (const char *const *)settings,
                                         .setting_count = count};
    enum qkv_status status = QKV_MEMORY;
    if (known == count) status = qkv_trainer_resume(ctx, a->resume, &options, cli_task_progress, task, trainer);
    for (size_t i = 0; i < count; i++) free(settings[i]);
    cli_progress_clear(task->progress);
    if (known < count) return cli_failed("out of memory");
    if (status == QKV_STOPPED) {
        cli_say("interrupted before the first step; %s is as it was", a->resume);
        return CLI_INTERRUPTED;
    }
    return train_failed(ctx, status);
}
