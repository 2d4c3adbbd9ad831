/* translate.c: "qkv translate" turns lines into lines with an encoder-decoder, by greedy search, beam search or
 * sampling. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_text.h"

struct arguments {
    const char *input, *output, *long_lines;
    int64_t beam, n_best, max_tokens, no_repeat, batch, top_k, seed;
    double length_penalty, temperature, top_p;
    bool sample, scores, quiet, force, json;
    struct cli_common common;
};

static const struct arguments defaults = {.long_lines = "error",
                                          .beam = 1,
                                          .n_best = 1,
                                          .length_penalty = 0.6,
                                          .top_k = 0,
                                          .seed = -1,
                                          .temperature = 1,
                                          .top_p = 1};

static const struct cli_option options[] = {
    {CLI_COUNT, 0, "beam", "N", offsetof(struct arguments, beam),
     .help = "number of hypotheses of the beam search (1: greedy)", .low = 1, .high = 65536, .subject = "search"},
    {CLI_COUNT, 0, "n-best", "N", offsetof(struct arguments, n_best),
     .help =
         "number of results to write for each line, best first: line number, rank, score and text, separated by tabs",
     .low = 1, .high = 65536, .subject = "search"},
    {CLI_REAL, 0, "length-penalty", "A", offsetof(struct arguments, length_penalty),
     .help = "exponent of the length penalty: a score is log-probability / ((5 + length)/6)^A (0: off)",
     .subject = "search"},
    {CLI_COUNT, 0, "max-tokens", "N", offsetof(struct arguments, max_tokens),
     .help = "maximum length of a result in tokens (0: what the model's context allows, at most 3 times the line's "
             "tokens + 50)",
     .high = INT64_MAX, .subject = "search"},
    {CLI_COUNT, 0, "no-repeat", "N", offsetof(struct arguments, no_repeat),
     .help = "no sequence of N tokens occurs twice in a result (0: off)", .high = INT32_MAX, .subject = "search"},
    {CLI_FLAG, 0, "sample", NULL, offsetof(struct arguments, sample),
     .help = "draw tokens at random instead of searching", .subject = "sampling"},
    {CLI_REAL, 0, "temp", "X", offsetof(struct arguments, temperature),
     .help = "sampling: temperature; 1 is the model's own distribution", .high = CLI_ENDLESS, .subject = "sampling"},
    {CLI_COUNT, 0, "top-k", "N", offsetof(struct arguments, top_k),
     .help = "sampling: number of likeliest tokens to choose among (0: all)", .high = INT32_MAX, .subject = "sampling"},
    {CLI_ABOVE, 0, "top-p", "X", offsetof(struct arguments, top_p),
     .help = "sampling: choose among the fewest likeliest tokens with a total probability of at least X (1: all)",
     .high = 1, .subject = "sampling"},
    {CLI_COUNT, 's', "seed", "N", offsetof(struct arguments, seed), .help = "sampling: seed of the random choices",
     .high = INT64_MAX, .before = "from the clock; shown at the end", .subject = "sampling"},
    {CLI_FLAG, 0, "scores", NULL, offsetof(struct arguments, scores),
     .help = "write the score of each line and a tab before the line", .subject = "output"},
    {CLI_READ, 0, "input", "FILE", offsetof(struct arguments, input),
     .help = "file of lines to read, at most 1 GiB; - is standard input", .subject = "input"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output),
     .help = "file to write when all lines are done", .subject = "output"},
    CLI_JSON(struct arguments, "a line for each text, with its translations and their scores,"),
    CLI_FORCE(struct arguments),
    {CLI_COUNT, 0, "batch", "N", offsetof(struct arguments, batch),
     .help = "number of lines in a batch; the results do not depend on it (0: 32)", .high = 65536, .subject = "input"},
    CLI_LONG(struct arguments, "lines"),
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress and no statistics",
     .subject = "output"},
    CLI_MODEL(struct arguments),
    CLI_CACHE(struct arguments),
};

CLI_CONDITION(translate_searches, struct arguments, !a->sample)
CLI_CONDITION(translate_samples, struct arguments, a->sample)
CLI_CONDITION(is_greedy, struct arguments, a->temperature == 0)
CLI_CONDITION(keeps_one, struct arguments, a->top_k == 1)
CLI_CONDITION(has_one_result, struct arguments, (a->sample ? a->n_best : a->beam) == 1 && !a->scores && !a->json)
CLI_CONDITION(writes_scores, struct arguments, a->n_best > 1)
CLI_CONDITION(writes_json, struct arguments, a->json)
CLI_CONDITION(writes_no_file, struct arguments, !a->output)

static const struct cli_rule rules[] = {
    {"temp top-k top-p seed", translate_searches, "only sampling chooses; add --sample"},
    {"beam", translate_samples, "--sample draws instead of searching"},
    {"top-k top-p seed", is_greedy, "--temp 0 always takes the likeliest token"},
    {"temp top-p seed", keeps_one, "--top-k 1 always takes the likeliest token"},
    {"length-penalty", has_one_result,
     "there is one result to a line, and its score is not written; add --beam N or --scores"},
    {"scores", writes_json, "--json writes them anyway"},
    {"scores", writes_scores, "--n-best writes them anyway"},
    {"input", cli_has_texts, CLI_WHY_TEXTS},
    {"force", writes_no_file, CLI_WHY_OUTPUT},
};

struct writer {
    const struct arguments *arguments;
    struct cli_progress progress;
    FILE *file;
    size_t lines;
    bool terminal; /* control characters would act on it: they are shown as U+FFFD */
    struct qkv_json json;
    const char *const *sources;
};

/* Ends the object of a line, if one is open; returns the exit code. */
static int end_object(struct writer *w) {
    if (!w->json.file) return CLI_DONE;
    qkv_json_end(&w->json, ']');
    qkv_json_end(&w->json, '}');
    int code = cli_json_end(&w->json);
    w->json = (struct qkv_json){0};
    return code;
}

/* Puts a translation into the object of its line, which the first translation begins. A blank line has none. */
static bool write_json(struct writer *w, size_t line, size_t rank, const char *text, size_t size, double score,
                       bool blank) {
    if (rank == 0) {
        if (end_object(w)) return false;
        w->json = cli_json_stream(w->file);
        qkv_json_begin(&w->json, '{');
        qkv_json_put_text(&w->json, "text", w->sources[line]);
        qkv_json_key(&w->json, "translations");
        qkv_json_begin(&w->json, '[');
    }
    if (blank) return true;
    qkv_json_begin(&w->json, '{');
    qkv_json_key(&w->json, "text");
    qkv_json_string(&w->json, text, size);
    qkv_json_put_number(&w->json, "score", score, 9);
    qkv_json_end(&w->json, '}');
    return true;
}

/* Writes a text as one line: line ends become spaces. */
static void write_text(const struct writer *w, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const bool ends = text[i] == '\n' || text[i] == '\r' || text[i] == 0;
        cli_put_text(w->file, w->terminal, ends ? " " : text + i, 1);
    }
    putc('\n', w->file);
}

static bool write_line(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    struct writer *w = user;
    const struct arguments *a = w->arguments;
    bool blank = score == 0 && size == 0;
    if (a->json && !write_json(w, line, rank, text, size, score, blank)) return false;
    if (!a->json && !blank && a->n_best > 1)
        fprintf(w->file, "%zu\t%zu\t%.4f\t", line + 1, rank + 1, score);
    else if (!a->json && !blank && a->scores)
        fprintf(w->file, "%.4f\t", score);
    if (!a->json) write_text(w, text, size);
    if (w->terminal) fflush(w->file);
    if (rank == 0 && cli_progress_due(&w->progress)) {
        char done[CLI_NUMBER], all[CLI_NUMBER], field[2 * CLI_NUMBER + 16];
        snprintf(field, sizeof field, "%s of %s lines", cli_grouped(done, line + 1), cli_grouped(all, w->lines));
        cli_progress_show(&w->progress, (double)(line + 1) / (double)w->lines, (const char *const[]){field}, 1);
    }
    return !cli_stopping && !ferror(w->file);
}

static int translate_check(const struct arguments *a) {
    if (!a->sample && a->n_best > a->beam)
        return cli_usage("translate: --n-best %lld needs --beam %lld or more (or --sample)", (long long)a->n_best,
                         (long long)a->n_best);
    return CLI_DONE;
}

static void print_statistics(const struct arguments *a, size_t lines, size_t tokens, double seconds, uint64_t seed) {
    char text[CLI_NUMBER], seeded[48] = "";
    if (a->sample) snprintf(seeded, sizeof seeded, "; seed %llu", (unsigned long long)seed);
    fprintf(stderr, "%s lines in %.2f s (%.0f lines/s, %.0f tokens/s)%s\n", cli_grouped(text, lines), seconds,
            seconds > 0 ? (double)lines / seconds : 0, seconds > 0 ? (double)tokens / seconds : 0, seeded);
}

static int translate_all(struct cli_lines_job *job, const struct arguments *a, FILE *file) {
    struct qkv_model *model = job->model;
    const struct cli_lines *lines = &job->lines;
    struct writer w = {.arguments = a, .file = file, .lines = lines->count, .sources = lines->items};
    struct qkv_search_options o = qkv_search_defaults();
    size_t tokens = 0;
    int code = CLI_DONE;
    o.beam = (size_t)a->beam;
    o.n_best = (size_t)a->n_best;
    o.length_penalty = a->length_penalty;
    o.max_tokens = (size_t)a->max_tokens;
    o.no_repeat = (size_t)a->no_repeat;
    o.batch = (size_t)a->batch;
    o.sample = a->sample;
    o.sampling.temperature = a->temperature;
    o.sampling.top_k = (int)a->top_k;
    o.sampling.top_p = a->top_p;
    o.sampling.seed = a->seed >= 0 ? (uint64_t)a->seed : (uint64_t)time(NULL);
    o.tokens = &tokens;
    o.long_lines = job->long_kind;
    o.long_count = &job->long_count;
    w.terminal = isatty(fileno(file)) != 0;
    cli_progress_start(&w.progress, a->quiet || w.terminal, false);
    double start = qkv_clock();
    enum qkv_status status = qkv_translate(model, (const char *const *)lines->items, lines->count, &o, write_line, &w);
    double seconds = qkv_clock() - start;
    cli_progress_clear(&w.progress);
    code = end_object(&w);
    if (status && status != QKV_STOPPED)
        code = cli_lines_broken(job->ctx, lines);
    else if (cli_stopping)
        code = CLI_INTERRUPTED;
    if (code == CLI_DONE && !status) cli_lines_say_long(job);
    if (code == CLI_DONE && !status && !a->quiet) print_statistics(a, lines->count, tokens, seconds, o.sampling.seed);
    return code;
}

/* Refuses a model that cannot translate before the lines are read. */
static enum qkv_status translate_suits(struct qkv_model *model) {
    struct qkv_search_options o = qkv_search_defaults();
    return qkv_translate(model, NULL, 0, &o, write_line, NULL);
}

static int translate_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct cli_lines_job job = {.common = &a->common,
                                .words = words,
                                .count = count,
                                .input = a->input,
                                .output = a->output,
                                .long_lines = a->long_lines,
                                .force = a->force,
                                .use = {.size = sizeof(struct qkv_use_options),
                                        .use = QKV_USE_TRANSLATE,
                                        .batch = (size_t)a->batch,
                                        .width = (size_t)(a->sample ? a->n_best : a->beam),
                                        .max_tokens = (size_t)a->max_tokens}};
    struct cli_output output = {0};
    if (!count) return cli_usage("translate: name a model folder: %s translate MODEL \"a line of text\"", cli_program);
    int code = translate_check(a);
    if (code == CLI_DONE) code = cli_lines_open(&job, translate_suits);
    if (code == CLI_DONE) code = cli_lines_output(&job, &output); /* may wait for a reader */
    if (code == CLI_DONE) {
        cli_catch_signals();
        code = translate_all(&job, a, output.file);
    }
    code = cli_output_end(&output, code);
    cli_lines_close(&job);
    return code;
}

const struct cli_command *cli_translate(void) {
    static const struct cli_command command = {
        .name = "translate",
        .words = CLI_WORD_MODEL,
        .summary = "translate lines of text with an encoder-decoder",
        .usage = "MODEL TEXT… [options]\nMODEL [--input FILE] [--output FILE] [options]",
        .description =
            "Finds the likeliest target of each text of the command line, or of each line of a file or of standard "
            "input, and writes one line for each, in the same order. A blank line gives a blank line, and so does a "
            "line that --long skips. The result of a line does not depend on the other lines; in bf16 it can differ by "
            "rounding.\n\n"
            "With --n-best N each line that is not blank gives up to N lines: the number of the line, the rank, the "
            "score and the text, separated by tabs. At the end the speed is printed on standard error.",
        .examples = "qkv translate g2p/ \"hello\" --beam 5 --n-best 3\n"
                    "qkv translate g2p/ --beam 5 --input words.txt --output sounds.txt\n"
                    "sort words.txt | qkv translate g2p/ -q | less\n"
                    "qkv translate g2p/ \"hello\" --sample --temp 0.8 --seed 1",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = SIZE_MAX,
        .run = translate_run,
    };
    return &command;
}
