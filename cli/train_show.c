/* train_show.c: what a run prints after an evaluation: its numbers, and a sample of what the model writes. */
#include <stdio.h>
#include <string.h>

#include "cli_train.h"

/* Prints a text with a margin of four columns; control characters would act on the terminal. */
static void train_show_all(struct cli_progress *progress, const char *text, size_t size) {
    if (progress->kind == CLI_SILENT) return;
    cli_progress_clear(progress);
    fputs("    ", stderr);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            fputs("\n    ", stderr);
        else if (c >= 32 && c != 127)
            fputc(c, stderr);
    }
    fputc('\n', stderr);
}

int cli_train_show(struct cli_progress *progress, struct qkv_trainer *trainer, int64_t tokens) {
    char *text;
    size_t size;
    if (qkv_trainer_sample(trainer, (size_t)tokens, &text, &size))
        return cli_broken(qkv_model_context(qkv_trainer_model(trainer)));
    train_show_all(progress, text, size);
    qkv_free(text);
    return CLI_DONE;
}

void cli_train_evaluated(struct cli_progress *progress, const struct qkv_train_report *r) {
    if (!r->evaluated || progress->kind == CLI_SILENT) return;
    char metric[64] = "";
    if (strcmp(r->metric_name, "loss") != 0) snprintf(metric, sizeof metric, ", %s %.4f", r->metric_name, r->metric);
    cli_progress_line(progress, "step %lld: loss %.4f, validation loss %.4f%s%s%s", (long long)r->step, r->loss,
                      r->valid_loss, metric, r->best ? ", the best so far" : "", r->saved ? ", saved" : "");
}
