/* eval.c: "qkv eval": how well a model predicts a text. */
#include <stdio.h>

#include "cli.h"

struct arguments {
    const char *data;
    int64_t batch, context;
    bool json, quiet;
    struct cli_common common;
};

static const struct arguments defaults = {0};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "data", "FILE", offsetof(struct arguments, data), "the text", 0, 0, NULL},
    {CLI_COUNT, 0, "batch", "N", offsetof(struct arguments, batch), "windows at a time", 0, 1 << 20, "8"},
    {CLI_COUNT, 0, "context", "N", offsetof(struct arguments, context), "tokens a window", 0, 1 << 24, "the model's"},
    {CLI_FLAG, 0, "json", NULL, offsetof(struct arguments, json), "print JSON", 0, 0, NULL},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), "no progress", 0, 0, NULL},
    CLI_COMMON(struct arguments),
};

static void print_result(const struct qkv_evaluation *e, bool json) {
    if (json) {
        printf("{\"loss\": %.9g, \"perplexity\": %.9g, \"bits_per_byte\": %.9g, \"tokens\": %zu, \"bytes\": %zu, "
               "\"seconds\": %.3f}\n",
               e->loss, e->perplexity, e->bits_per_byte, e->tokens, e->bytes, e->seconds);
        return;
    }
    char number[2][CLI_NUMBER];
    printf("loss           %.4f nats a token\n", e->loss);
    printf("perplexity     %.4g\n", e->perplexity);
    printf("bits per byte  %.4f\n", e->bits_per_byte);
    printf("over           %s tokens (%s bytes), in %.1f s\n", cli_grouped(number[0], e->tokens),
           cli_grouped(number[1], e->bytes), e->seconds);
}

static int run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct qkv_evaluation evaluation;
    struct qkv_evaluate_options o = {.batch = (size_t)a->batch, .context = (size_t)a->context};
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    if (!count) return cli_usage("eval: say which model folder: %s eval RUN --data FILE", cli_program);
    if (!a->data) return cli_usage("eval: say which text: --data FILE");
    cli_progress_start(&progress, a->quiet, false);
    if (progress.kind == CLI_LINES) progress.kind = CLI_SILENT; /* the result is the only line worth having */
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE && qkv_model_load(ctx, words[0], &model)) code = cli_broken(ctx);
    if (code == CLI_DONE) {
        cli_catch_signals();
        enum qkv_status status = qkv_evaluate_text(model, a->data, &o, cli_task_progress, &task, &evaluation);
        cli_progress_clear(&progress);
        if (status == QKV_STOPPED)
            code = CLI_INTERRUPTED;
        else if (status)
            code = cli_broken(ctx);
        else
            print_result(&evaluation, a->json);
    }
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_eval(void) {
    static const struct cli_command command = {
        .name = "eval",
        .summary = "loss, perplexity and bits per byte of a model on a text",
        .usage = "RUN --data FILE [options]",
        .description =
            "Cuts the text into windows side by side and predicts every token but the first once. The loss is in "
            "nats a token; bits per byte compare models with different tokenizers.",
        .examples = "qkv eval run/ --data other.txt\n"
                    "qkv eval run/ --data other.txt --json",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = run,
    };
    return &command;
}
