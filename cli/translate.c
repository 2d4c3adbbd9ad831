/* translate.c: "qkv translate" turns lines into lines with an encoder-decoder, by greedy search, beam search or
 * sampling. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_text.h"

struct arguments {
    const char *input, *output, *long_lines, *source, *target;
    int64_t n_best, batch, top_k, seed;
    double temperature, top_p;
    struct cli_search search;
    bool sample, scores, quiet, force, json;
    struct cli_common common;
};

static const struct arguments defaults = {.long_lines = "error",
                                          .n_best = 1,
                                          .top_k = -1,
                                          .seed = -1,
                                          .temperature = -1,
                                          .top_p = -1,
                                          .search = CLI_SEARCH_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_COUNT, 0, "n-best", "N", offsetof(struct arguments, n_best),
     .help =
         "number of results to write for each line, best first: line number, rank, score and text, separated by tabs",
     .low = 1, .high = 65536, .subject = "search"},
    CLI_SEARCH(struct arguments, ""),
    {CLI_FLAG, 0, "sample", NULL, offsetof(struct arguments, sample),
     .help = "draw tokens at random instead of searching",
     .before = "no; yes if the model's generation_config.json has do_sample, and no --beam is given",
     .subject = "sampling"},
    {CLI_REAL, 0, "temp", "X", offsetof(struct arguments, temperature),
     .help = "sampling: temperature; 1 is the model's own distribution", .high = CLI_ENDLESS,
     .before = "1" CLI_FOLDER_VALUE, .subject = "sampling"},
    {CLI_COUNT, 0, "top-k", "N", offsetof(struct arguments, top_k),
     .help = "sampling: number of likeliest tokens to choose among (0: all)", .high = INT32_MAX,
     .before = "0" CLI_FOLDER_VALUE, .subject = "sampling"},
    {CLI_ABOVE, 0, "top-p", "X", offsetof(struct arguments, top_p),
     .help = "sampling: choose among the fewest likeliest tokens with a total probability of at least X (1: all)",
     .high = 1, .before = "1" CLI_FOLDER_VALUE, .subject = "sampling"},
    {CLI_COUNT, 's', "seed", "N", offsetof(struct arguments, seed), .help = "sampling: seed of the random choices",
     .high = INT64_MAX, .before = "from the clock; shown at the end", .subject = "sampling"},
    {CLI_FLAG, 0, "scores", NULL, offsetof(struct arguments, scores),
     .help = "write the score of each line and a tab before the line", .subject = "output"},
    {CLI_TEXT, 0, "source", "LANGUAGE", offsetof(struct arguments, source),
     .help = "language of the texts, as the model names it: en, en_XX, eng_Latn; auto is the model's own",
     .before = "auto", .subject = "input"},
    {CLI_TEXT, 0, "target", "LANGUAGE", offsetof(struct arguments, target),
     .help = "language to translate to; auto is the model's own", .before = "auto", .subject = "input"},
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
    CLI_ADAPTER(struct arguments),
    CLI_MODEL(struct arguments),
    CLI_CACHE(struct arguments),
};

CLI_CONDITION(translate_searches, struct arguments, !a->sample)
CLI_CONDITION(translate_samples, struct arguments, a->sample)
CLI_CONDITION(is_greedy, struct arguments, a->temperature == 0)
CLI_CONDITION(keeps_one, struct arguments, a->top_k == 1)
CLI_CONDITION(has_one_result, struct arguments, (a->sample ? a->n_best : a->search.beam) == 1 && !a->scores && !a->json)
CLI_CONDITION(has_no_beams, struct arguments, a->sample || a->search.beam == 1)
CLI_CONDITION(writes_scores, struct arguments, a->n_best > 1)
CLI_CONDITION(writes_json, struct arguments, a->json)
CLI_CONDITION(writes_no_file, struct arguments, !a->output)

static const struct cli_rule rules[] = {
    {"temp top-k top-p seed", translate_searches, "only sampling chooses; add --sample"},
    {"beam early-stopping", translate_samples, "--sample draws instead of searching"},
    {"early-stopping", has_no_beams, "a greedy search ends with its first result; add --beam N"},
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
    bool blank; /* the line has no result: it is blank, or skipped */
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
static bool write_json(struct writer *w, size_t line, size_t rank, const char *text, size_t size, double score) {
    if (rank == 0) {
        if (end_object(w)) return false;
        w->json = cli_json_stream(w->file);
        qkv_json_begin(&w->json, '{');
        qkv_json_put_text(&w->json, "text", w->sources[line]);
        qkv_json_key(&w->json, "translations");
        qkv_json_begin(&w->json, '[');
    }
    if (w->blank) return true;
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
    if (a->json && !write_json(w, line, rank, text, size, score)) return false;
    if (!a->json && !w->blank && a->n_best > 1)
        fprintf(w->file, "%zu\t%zu\t%.4f\t", line + 1, rank + 1, score);
    else if (!a->json && !w->blank && a->scores)
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

static int translate_check(bool sample, size_t n_best, size_t beam) {
    if (!sample && n_best > beam)
        return cli_usage("translate: --n-best %zu needs --beam %zu or more (or --sample)", n_best, n_best);
    return CLI_DONE;
}

/* Sets how tokens are drawn, where they are: the options, else the folder if it samples, else the model's own
 * distribution. */
static void translate_sampling(const struct arguments *a, struct qkv_search_options *o) {
    if (a->sample && !(o->sampling.temperature > 0)) o->sampling.temperature = 1;
    o->sample |= a->sample;
    if (o->sample) o->beam = 1;
    if (a->temperature >= 0) o->sampling.temperature = a->temperature;
    if (a->top_k >= 0) o->sampling.top_k = (int)a->top_k;
    if (a->top_p >= 0) o->sampling.top_p = a->top_p;
    o->sampling.seed = a->seed >= 0 ? (uint64_t)a->seed : (uint64_t)time(NULL);
}

/* Sets the search: the options, else the model's folder, else defaults. */
static int translate_settle(struct cli_lines_job *job, const struct arguments *a, struct cli_rules_read *read,
                            struct qkv_search_options *o) {
    const bool one = (a->sample ? a->n_best : a->search.beam) <= 1 && !a->scores && !a->json && a->n_best == 1;
    int code = cli_search_settle(&a->search, read, job->model, o);
    translate_sampling(a, o);
    o->n_best = (size_t)a->n_best;
    o->batch = (size_t)a->batch;
    o->long_lines = job->long_kind;
    o->long_count = &job->long_count;
    o->source_language = a->source;
    o->target_language = a->target;
    if (!code && qkv_translate(job->model, NULL, 0, o, write_line, NULL)) code = cli_broken(job->ctx);
    if (!code) code = translate_check(o->sample, o->n_best, o->beam);
    if (!code && one && o->beam == 1 && (!isnan(a->search.length_penalty) || a->search.stopping))
        code = cli_usage("translate: --%s has no effect: there is one result to a line%s; add --beam N",
                         a->search.stopping ? "early-stopping" : "length-penalty",
                         a->search.stopping ? "" : ", and its score is not written");
    return code;
}

static void print_statistics(const struct qkv_search_options *o, size_t lines, size_t tokens, double seconds) {
    char text[CLI_NUMBER], seeded[48] = "";
    if (o->sample) snprintf(seeded, sizeof seeded, "; seed %llu", (unsigned long long)o->sampling.seed);
    fprintf(stderr, "%s lines in %.2f s (%.0f lines/s, %.0f tokens/s)%s\n", cli_grouped(text, lines), seconds,
            seconds > 0 ? (double)lines / seconds : 0, seconds > 0 ? (double)tokens / seconds : 0, seeded);
}

static int translate_all(struct cli_lines_job *job, const struct arguments *a, struct qkv_search_options *o,
                         FILE *file) {
    struct qkv_model *model = job->model;
    const struct cli_lines *lines = &job->lines;
    struct writer w = {.arguments = a, .file = file, .lines = lines->count, .sources = lines->items};
    size_t tokens = 0;
    int code = CLI_DONE;
    o->tokens = &tokens;
    o->blank = &w.blank;
    w.terminal = isatty(fileno(file)) != 0;
    cli_progress_start(&w.progress, a->quiet || w.terminal, false);
    double start = qkv_clock();
    enum qkv_status status = qkv_translate(model, (const char *const *)lines->items, lines->count, o, write_line, &w);
    double seconds = qkv_clock() - start;
    cli_progress_clear(&w.progress);
    code = end_object(&w);
    if (status && status != QKV_STOPPED)
        code = cli_lines_broken(job->ctx, lines);
    else if (cli_stopping)
        code = CLI_INTERRUPTED;
    if (code == CLI_DONE && !status) cli_lines_say_long(job);
    if (code == CLI_DONE && !status && !a->quiet) print_statistics(o, lines->count, tokens, seconds);
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
                                        .width = (size_t)(a->sample        ? a->n_best
                                                          : a->search.beam ? a->search.beam
                                                                           : 1),
                                        .max_tokens = (size_t)a->search.max_tokens}};
    struct cli_output output = {0};
    struct cli_rules_read read = {0};
    struct qkv_search_options o = qkv_search_defaults();
    if (!count) return cli_usage("translate: name a model folder: %s translate MODEL \"a line of text\"", cli_program);
    int code = a->search.beam ? translate_check(a->sample, (size_t)a->n_best, (size_t)a->search.beam) : CLI_DONE;
    if (code == CLI_DONE) code = cli_rules_read(&a->search.rules, &read);
    if (code == CLI_DONE) code = cli_lines_open(&job, translate_suits);
    if (code == CLI_DONE) code = translate_settle(&job, a, &read, &o);
    if (code == CLI_DONE) code = cli_lines_output(&job, &output); /* may wait for a reader */
    if (code == CLI_DONE) {
        cli_catch_signals();
        code = translate_all(&job, a, &o, output.file);
    }
    code = cli_output_end(&output, code);
    cli_rules_free(&read);
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
            "A model of several languages has a token for each, which --source and --target choose by its code: en of "
            "M2M100, eng_Latn of NLLB, en_XX of mBART (en is enough). A code that the model does not have is refused, "
            "with the codes that it has. The tokens are those of the folder's tokenizer.json: qkv does not read the "
            "SentencePiece models of these families.\n\n"
            "With --n-best N each line that is not blank gives up to N lines: the number of the line, the rank, the "
            "score and the text, separated by tabs. At the end the speed is printed on standard error.\n\n"
            "A published model says in its generation_config.json how it is searched: its beams, lengths, penalties "
            "and rules hold unless an option replaces them.",
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
