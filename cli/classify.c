/* classify.c: "qkv classify": the class of each line of a text. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

struct arguments {
    const char *input, *output, *long_lines, *examples;
    int64_t top;
    bool force;
    struct cli_common common;
};

static const struct arguments defaults = {.top = 3, .long_lines = "error"};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "input", "FILE", offsetof(struct arguments, input),
     "read the lines from a file of at most 1 GiB; - is standard input", 0, 0, NULL},
    {CLI_TEXT, 0, "examples", "FILE", offsetof(struct arguments, examples),
     "read examples from a safetensors file in place of texts: in.pixels, in.features, in.vectors or in.ids", 0, 0,
     NULL},
    {CLI_TEXT, 'o', "output", "FILE", offsetof(struct arguments, output), "write to a file, once all lines are done", 0,
     0, NULL},
    CLI_FORCE(struct arguments),
    {CLI_COUNT, 0, "top", "N", offsetof(struct arguments, top), "how many classes to show for a line, likeliest first",
     1, 1 << 20, NULL},
    CLI_LONG(struct arguments, "lines"),
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(has_examples, struct arguments, a->examples)
CLI_CONDITION(writes_no_file, struct arguments, !a->output)

static const struct cli_rule rules[] = {
    {"input", cli_has_texts, CLI_WHY_TEXTS},
    {"input long", has_examples, "--examples reads no text"},
    {"force", writes_no_file, CLI_WHY_OUTPUT},
};

static void print_label(FILE *file, struct qkv_model *model, size_t class) {
    const char *label = qkv_model_label(model, class);
    if (label)
        fputs(label, file);
    else
        fprintf(file, "%zu", class);
}

/* The likeliest first, of equals the one of lower number; shown ones are taken out of `probabilities`. */
static void print_line(FILE *file, struct qkv_model *model, float *probabilities, size_t classes, size_t top) {
    for (size_t i = 0; i < top && i < classes; i++) {
        size_t best = 0;
        for (size_t k = 1; k < classes; k++)
            if (probabilities[k] > probabilities[best]) best = k;
        if (i) putc('\t', file);
        print_label(file, model, best);
        fprintf(file, "\t%.4f", (double)probabilities[best]);
        probabilities[best] = -1;
    }
    putc('\n', file);
}

/* Of a line that is blank, or skipped. */
static bool is_empty(const float *probabilities, size_t classes) {
    for (size_t k = 0; k < classes; k++)
        if (probabilities[k] > 0) return false;
    return true;
}

static int classify_all(struct cli_lines_job *job, const struct arguments *a) {
    struct qkv_model *model = job->model;
    const struct cli_lines *lines = &job->lines;
    const struct qkv_spec *spec = qkv_model_spec(model);
    size_t classes = spec->head.classes > 0 ? (size_t)spec->head.classes : 1;
    struct cli_output output = {0};
    float *probabilities = calloc(lines->count + 1, classes * sizeof *probabilities);
    if (!probabilities) return cli_failed("out of memory");
    const struct qkv_line_options reading = cli_lines_options(job);
    int code = qkv_classify_with(model, lines->items, lines->count, &reading, probabilities)
                   ? cli_lines_broken(job->ctx, lines)
                   : CLI_DONE;
    if (code == CLI_DONE) code = cli_lines_output(job, &output);
    if (code == CLI_DONE) {
        for (size_t i = 0; i < lines->count; i++) {
            if (is_empty(probabilities + i * classes, classes))
                putc('\n', output.file);
            else
                print_line(output.file, model, probabilities + i * classes, classes, (size_t)a->top);
        }
        cli_lines_say_long(job);
        code = cli_output_end(&output, code);
    }
    free(probabilities);
    return code;
}

/* Examples of a file, a line each. */
static int classify_examples(const struct arguments *a, const char *folder) {
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct cli_output output = {0};
    const char *const items[] = {folder, a->examples};
    const struct cli_reads reads = {.items = items, .count = CLI_COUNT_OF(items)};
    float *probabilities = NULL;
    size_t count = 0;
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = cli_load(&a->common, ctx, folder, &model);
    if (code == CLI_DONE && qkv_classify_examples(model, a->examples, &probabilities, &count)) code = cli_broken(ctx);
    if (code == CLI_DONE) code = cli_output_begin(ctx, a->output, a->force, &reads, &output);
    const size_t classes = count ? (size_t)qkv_model_spec(model)->head.classes : 1;
    for (size_t i = 0; i < count && code == CLI_DONE; i++)
        print_line(output.file, model, probabilities + i * classes, classes, (size_t)a->top);
    if (code == CLI_DONE) code = cli_output_end(&output, code);
    qkv_free(probabilities);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

static int classify_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct cli_lines_job job = {.common = &a->common,
                                .words = words,
                                .count = count,
                                .input = a->input,
                                .output = a->output,
                                .long_lines = a->long_lines,
                                .force = a->force};
    if (!count) return cli_usage("classify: say which model folder: %s classify MODEL \"a line of text\"", cli_program);
    if (a->examples && count > 1)
        return cli_usage("classify: --examples reads a file in place of texts; leave \"%s\" out", words[1]);
    if (a->examples) return classify_examples(a, words[0]);
    int code = cli_lines_open(&job, NULL);
    if (code == CLI_DONE) code = classify_all(&job, a);
    cli_lines_close(&job);
    return code;
}

const struct cli_command *cli_classify(void) {
    static const struct cli_command command = {
        .name = "classify",
        .summary = "the class of each line of a text",
        .usage = "MODEL TEXT… [options]\nMODEL [--input FILE] [--output FILE] [options]\n"
                 "MODEL --examples FILE [--output FILE] [options]",
        .description =
            "Writes a line for each text, each line of the file or of standard input: the likeliest class, a tab, its "
            "probability, then the next ones. A blank line, or one that --long skips, gives a blank line. What is said "
            "of a line does not depend "
            "on the others, in bf16 but for rounding.",
        .examples = "qkv classify topic/ \"What is the capital of Peru ?\"\n"
                    "qkv classify topic/ --input questions.txt --output answers.tsv --top 1\n"
                    "head -5 questions.txt | qkv classify topic/ | cut -f1",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = SIZE_MAX,
        .run = classify_run,
    };
    return &command;
}
