/* cli_train.h: for the files of "qkv train" and of commands with its options. */
#ifndef QKV_CLI_TRAIN_H
#define QKV_CLI_TRAIN_H

#include "cli.h"

/* The options of training as a command line gives them. */
#define CLI_TRAIN_ONE(type, name, value, subject, help) +1
enum { CLI_TRAIN_OPTIONS = 0 QKV_TRAIN_LIST(CLI_TRAIN_ONE) };
struct cli_train_values {
    const char *option[CLI_TRAIN_OPTIONS];     /* in the order of qkv_train_option_at; NULL: not given */
    struct cli_texts files[CLI_TRAIN_OPTIONS]; /* the values of options that may be given several times */
    bool flag[CLI_TRAIN_OPTIONS];              /* options without a value: given */
};
/* The i-th option of training as the command line gives it, or NULL: its first value, or its k-th, counted from 0. */
const char *cli_train_value(const struct cli_train_values *values, size_t i);
const char *cli_train_value_at(const struct cli_train_values *values, size_t i, size_t k);
/* Refuses a setting (--set) and an option of training that set the same number, as dropout or context. */
int cli_check_doubles(const char *command, const struct cli_texts *set, const struct cli_train_values *values);
/* Sets the options of the command line over those in *options (read from a file). Returns CLI_DONE, or CLI_FAILED
 * with the context's message. */
int cli_train_set_all(struct qkv_context *ctx, const struct cli_train_values *values, const struct cli_texts *set,
                      struct qkv_train_options *options);
/* Writes rows for the option table of a command whose struct has the values at `offset`; returns how many.
 * `texts_only`: without the options that only pairs, labelled lines and masked texts have. */
size_t cli_train_options(struct cli_option *options, size_t offset, bool texts_only);
/* The command line of "qkv train". */
struct cli_train_arguments {
    const char *preset, *spec, *config, *out, *resume, *extend, *find_rate;
    const char *checkpoint; /* a file in the folder `resume`; NULL: the latest */
    struct cli_texts set;
    int64_t sample, log_every;
    bool quiet, plain, profile, json;
    struct cli_common common;
    struct cli_train_values training;
};
/* Start or resume a run. Return CLI_DONE with a trainer, or the exit code after a message (train_start.c). */
int cli_train_start(struct qkv_context *ctx, const struct cli_train_arguments *arguments, struct cli_task *task,
                    struct qkv_trainer **trainer);
int cli_train_resume(struct qkv_context *ctx, const struct cli_train_arguments *arguments, struct cli_task *task,
                     struct qkv_trainer **trainer);
/* Whether --sample has nothing to show in this run; then prints why. */
bool cli_train_sample_idle(const struct cli_train_arguments *arguments, const struct qkv_train_options *options);
/* Prints what the run is before its first step, and the memory that it will take. The peak is the larger of two:
 * what reading the data has taken, and `own` bytes (of the process before) plus all that the trainer works in
 * (train_introduce.c). */
void cli_train_introduce(struct cli_progress *progress, struct qkv_trainer *trainer,
                         const struct cli_train_arguments *arguments, size_t own);
/* Prints the notes after the first *shown and counts them. They are not progress: --quiet prints them too. */
void cli_train_notes(struct cli_progress *progress, const struct qkv_trainer *trainer, size_t *shown);
/* Prints a line about an evaluation, if there was one. */
void cli_train_evaluated(struct cli_progress *progress, const struct qkv_train_report *report);
/* Shows what the model writes, a text of this many tokens or the targets of a few sources, and stores it in the
 * run's folder. */
int cli_train_show(struct cli_progress *progress, struct qkv_trainer *trainer, int64_t tokens);
/* Prints the result of a run as JSON on standard output; returns the exit code. `state`: "done" or "interrupted"
 * (train_result.c). */
int cli_train_json(struct qkv_trainer *trainer, const struct cli_train_arguments *arguments,
                   const struct qkv_train_report *report, const char *state);
/* --find-rate (train_rate.c): the options of the test, in place of those of a run; makes a folder for it, whose name
 * the caller frees, unless the picture exists; NULL after a message. */
int cli_train_rate_options(const struct cli_train_arguments *arguments, struct qkv_train_options *options);
char *cli_train_rate_folder(const char *picture);
/* Removes that folder with the run in it. */
void cli_train_rate_clear(const char *folder);
/* Makes the steps of the test, prints a table and what to do, and writes the picture; returns the exit code. */
int cli_train_find_rate(struct qkv_trainer *trainer, struct cli_progress *progress,
                        const struct cli_train_arguments *arguments);
/* Prints the table of --profile on standard output. */
void cli_print_profile(struct qkv_profile_report report);

#endif
