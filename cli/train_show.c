/* train_show.c: what a run shows after an evaluation: its numbers, and a sample of what the model writes. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static bool collect(void *user, const char *text, size_t size) {
    (void)user;
    for (size_t i = 0; i < size; i++) { /* four columns of margin; no control characters on a terminal */
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            fputs("\n    ", stderr);
        else if (c >= 32 && c != 127)
            fputc(c, stderr);
    }
    return true;
}

static enum qkv_status show_sample(struct cli_progress *progress, struct qkv_model *model, int64_t tokens) {
    struct qkv_generate_options options = {.sampling = qkv_sampling_defaults(), .tokens = (size_t)tokens, .end_id = -1};
    struct qkv_generate_report report;
    options.sampling.temperature = 0.8;
    if (progress->kind == CLI_SILENT) return QKV_OK;
    cli_progress_clear(progress);
    fputs("    ", stderr);
    enum qkv_status status = qkv_generate(model, "\n", 1, &options, collect, NULL, &report);
    fputc('\n', stderr);
    return status;
}

/* The sources of the first lines of a file of pairs, each line's end and target cut off. */
static size_t read_sources(const char *path, char lines[][256], size_t most) {
    FILE *file = fopen(path, "r");
    size_t count = 0;
    while (file && count < most && fgets(lines[count], sizeof lines[count], file)) {
        char *tab = strchr(lines[count], '\t');
        if (!tab) continue; /* a blank line, or one too long to show */
        *tab = 0;
        count++;
    }
    if (file) fclose(file);
    return count;
}

struct showing {
    char (*lines)[256];
};

static bool show_target(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    const struct showing *s = user;
    (void)rank, (void)score;
    fputs("    ", stderr);
    collect(NULL, s->lines[line], strlen(s->lines[line]));
    fputs(" -> ", stderr);
    collect(NULL, text, size);
    fputc('\n', stderr);
    return true;
}

/* A few validation sources with what greedy search makes of them. */
static enum qkv_status show_targets(struct cli_progress *progress, struct qkv_trainer *trainer, int64_t tokens) {
    enum { SHOWN = 3 };
    const struct qkv_train_options *options = qkv_trainer_options(trainer);
    struct qkv_search_options search = qkv_search_defaults();
    char lines[SHOWN][256];
    const char *texts[SHOWN];
    struct showing showing = {lines};
    if (progress->kind == CLI_SILENT) return QKV_OK;
    size_t count = read_sources(options->valid ? options->valid : options->pairs, lines, SHOWN);
    for (size_t i = 0; i < count; i++) texts[i] = lines[i];
    search.max_tokens = (size_t)tokens;
    cli_progress_clear(progress);
    return qkv_translate(qkv_trainer_model(trainer), texts, count, &search, show_target, &showing);
}

enum qkv_status cli_train_show(struct cli_progress *progress, struct qkv_trainer *trainer, int64_t tokens) {
    return qkv_trainer_options(trainer)->pairs ? show_targets(progress, trainer, tokens)
                                               : show_sample(progress, qkv_trainer_model(trainer), tokens);
}

void cli_train_evaluated(struct cli_progress *progress, const struct qkv_train_report *r) {
    if (!r->evaluated || progress->kind == CLI_SILENT) return;
    char metric[64] = "";
    if (strcmp(r->metric_name, "loss") != 0) snprintf(metric, sizeof metric, ", %s %.4f", r->metric_name, r->metric);
    cli_progress_line(progress, "step %lld: loss %.4f, validation loss %.4f%s%s%s", (long long)r->step, r->loss,
                      r->valid_loss, metric, r->best ? ", the best so far" : "", r->saved ? ", saved" : "");
}
