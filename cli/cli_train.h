/* cli_train.h: what the files of "qkv train", and of commands with its options, share. */
#ifndef QKV_CLI_TRAIN_H
#define QKV_CLI_TRAIN_H

#include "cli.h"

/* The options of training as a command line gives them. */
enum { CLI_TRAIN_OPTIONS = 64 };
struct cli_train_values {
    const char *option[CLI_TRAIN_OPTIONS];     /* in the order of qkv_train_option_at; NULL: not given */
    struct cli_texts files[CLI_TRAIN_OPTIONS]; /* of those that may come more than once */
    bool flag[CLI_TRAIN_OPTIONS];              /* of those that take no value: given */
};
/* The value of the i-th option of training as it was given, or NULL; the first one, or the k-th, counted from 0. */
const char *cli_train_value(const struct cli_train_values *values, size_t i);
const char *cli_train_value_at(const struct cli_train_values *values, size_t i, size_t k);
/* Refuses settings that an option of training takes the place of, as both say how large dropout or context is. */
int cli_check_doubles(const char *command, const struct cli_texts *set, const struct cli_train_values *values);
/* Sets options as the command line has them, in place of what they are (of a file). CLI_DONE, or CLI_FAILED with the context's
 * sentence. */
int cli_train_set_all(struct qkv_context *ctx, const struct cli_train_values *values, const struct cli_texts *set,
                      struct qkv_train_options *options);
/* Rows for the table of a command whose struct has the values at `offset`: how many. `texts_only`: without those that only pairs,
 * labelled lines and masked texts have. */
size_t cli_train_options(struct cli_option *options, size_t offset, bool texts_only);
/* The command line of "qkv train". */
struct cli_train_arguments {
    const char *preset, *spec, *config, *out, *resume, *extend;
    const char *checkpoint; /* in the folder `resume`; NULL: the latest */
    struct cli_texts set;
    int64_t sample, log_every;
    bool quiet, plain, profile;
    struct cli_common common;
    struct cli_train_values training;
};
/* Starts a run, or goes on with one: CLI_DONE with a trainer, or the exit code after a message (train_start.c). */
int cli_train_start(struct qkv_context *ctx, const struct cli_train_arguments *arguments, struct cli_task *task,
                    struct qkv_trainer **trainer);
int cli_train_resume(struct qkv_context *ctx, const struct cli_train_arguments *arguments, struct cli_task *task,
                     struct qkv_trainer **trainer);
/* Whether --sample has nothing to show in this run, after a message. */
bool cli_train_sample_idle(const struct cli_train_arguments *arguments, const struct qkv_train_options *options);
/* What the run is, before its first step, with the memory that it takes at most: what reading its data has taken until now, or
 * what the process had before (`own` bytes) with all that the trainer works in (train_introduce.c). */
void cli_train_introduce(struct cli_progress *progress, struct qkv_trainer *trainer,
                         const struct cli_train_arguments *arguments, size_t own);
/* The notes past the first *shown, which counts them; they are no progress, so --quiet shows them too. */
void cli_train_notes(struct cli_progress *progress, const struct qkv_trainer *trainer, size_t *shown);
/* A line about an evaluation, if there was one. */
void cli_train_evaluated(struct cli_progress *progress, const struct qkv_train_report *report);
/* What the model writes, a text of so many tokens or the targets of a few sources, is shown and kept in the run's folder. */
int cli_train_show(struct cli_progress *progress, struct qkv_trainer *trainer, int64_t tokens);
/* The table of --profile, on standard output. */
void cli_print_profile(struct qkv_profile_report report);

#endif
