/* classify.c: "qkv classify" prints the class of each line of a text, of each pair of texts, or of each word. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

struct arguments {
    const char *input, *output, *long_lines, *examples;
    int64_t top;
    bool force, words, pairs, json;
    struct cli_common common;
};

static const struct arguments defaults = {.long_lines = "error"};

static const struct cli_option options[] = {
    {CLI_READ, 0, "input", "FILE", offsetof(struct arguments, input),
     .help = "file of lines to read, at most 1 GiB; - is standard input", .subject = "input"},
    {CLI_READ, 0, "examples", "FILE", offsetof(struct arguments, examples),
     .help = "safetensors file of examples to read instead of texts: in.pixels, in.features, in.vectors or in.ids",
     .subject = "input"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output),
     .help = "file to write when all lines are done", .subject = "output"},
    CLI_FORCE(struct arguments),
    {CLI_COUNT, 0, "top", "N", offsetof(struct arguments, top), .help = "number of classes to print, likeliest first",
     .low = 1, .high = 1 << 20, .before = "3; for words the likeliest one, without its probability",
     .subject = "output"},
    {CLI_FLAG, 0, "words", NULL, offsetof(struct arguments, words),
     .help =
         "models that label words: read one word a line, and ignore what follows a tab; an empty line ends a sentence",
     .subject = "input"},
    {CLI_FLAG, 0, "pairs", NULL, offsetof(struct arguments, pairs),
     .help = "read each line as a pair of texts, separated by a tab; on the command line every two texts are a pair",
     .subject = "input"},
    {CLI_FLAG, 0, "json", NULL, offsetof(struct arguments, json),
     .help = "print a line of JSON for each text, pair or example, with the probabilities of the --top likeliest "
             "classes; for words, a line for each sentence",
     .subject = "output"},
    CLI_LONG(struct arguments, "lines"),
    CLI_ADAPTER(struct arguments),
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(has_examples, struct arguments, a->examples)
CLI_CONDITION(writes_no_file, struct arguments, !a->output)

static const struct cli_rule rules[] = {
    {"input", cli_has_texts, CLI_WHY_TEXTS},
    {"input long words pairs", has_examples, "--examples reads no text"},
    {"words", cli_has_texts, "a text of the command line is a sentence; white space separates its words"},
    {"force", writes_no_file, CLI_WHY_OUTPUT},
};

/* Ends the output, and says what a file has: results of so many lines, words, pairs or examples. */
static int classify_end(struct cli_output *output, const struct arguments *a, size_t count, const char *unit,
                        int code) {
    code = cli_output_end(output, code);
    if (code == CLI_DONE && a->output)
        cli_wrote(a->output, "the results of %zu %s%s", count, unit, count == 1 ? "" : "s");
    return code;
}

enum { CLASSES_SHOWN = 3 }; /* a line */

static size_t classify_top(const struct arguments *a) {
    return a->top ? (size_t)a->top : CLASSES_SHOWN;
}

static void print_label(FILE *file, struct qkv_model *model, size_t class) {
    const char *label = qkv_model_label(model, class);
    if (label)
        fputs(label, file);
    else
        fprintf(file, "%zu", class);
}

/* Whether a line is blank or skipped: the library gives it no probabilities (a score of NaN if the model has one
 * class). */
static bool is_empty(const float *probabilities, size_t classes) {
    if (classes == 1) return isnan(probabilities[0]);
    for (size_t k = 0; k < classes; k++)
        if (probabilities[k] > 0) return false;
    return true;
}

static size_t likeliest(const float *probabilities, size_t classes) {
    size_t best = 0;
    for (size_t k = 1; k < classes; k++)
        if (probabilities[k] > probabilities[best]) best = k;
    return best;
}

/* Prints the `top` likeliest classes; of equal ones, the lower number comes first. Overwrites `probabilities`. A
 * model with one class prints its score. */
static void print_line(FILE *file, struct qkv_model *model, float *probabilities, size_t classes, size_t top) {
    if (classes == 1) fprintf(file, "%.4f", (double)probabilities[0]);
    for (size_t i = 0; i < top && i < classes && classes > 1; i++) {
        const size_t best = likeliest(probabilities, classes);
        if (i) putc('\t', file);
        print_label(file, model, best);
        fprintf(file, "\t%.4f", (double)probabilities[best]);
        probabilities[best] = -1;
    }
    putc('\n', file);
}

/* Writes the same to the open JSON object: "label" and "probabilities", or "score" for a model with one class; null
 * for an empty line. */
static void put_classes(struct qkv_json *out, struct qkv_model *model, float *p, size_t classes, size_t top) {
    char number[CLI_NUMBER];
    const bool empty = is_empty(p, classes);
    if (empty) qkv_json_put_raw(out, classes == 1 ? "score" : "label", "null");
    if (classes == 1 && !empty) qkv_json_put_number(out, "score", (double)p[0], 9);
    if (classes == 1 || empty) return;
    for (size_t i = 0; i < top && i < classes; i++) {
        const size_t best = likeliest(p, classes);
        const char *label = qkv_model_label(model, best);
        snprintf(number, sizeof number, "%zu", best);
        if (!i) qkv_json_put_text(out, "label", label ? label : number);
        if (!i) qkv_json_key(out, "probabilities");
        if (!i) qkv_json_begin(out, '{');
        qkv_json_put_number(out, label ? label : number, (double)p[best], 9);
        p[best] = -1;
    }
    qkv_json_end(out, '}');
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

struct classify_words {
    const char **words;     /* of all sentences; they point into the lines, which words_of cuts */
    size_t *counts, *lines; /* of each sentence: the number of its words, and the line where it begins */
    size_t count, sentences;
    char *text;
};

/* Appends the words of a line and returns how many. Words end at white space; with `each`, a line is one word that
 * ends at a tab. */
static size_t words_of(char *line, bool each, const char **words) {
    static const char *const space = " \t\r\n\v\f";
    size_t n = 0;
    if (each) {
        line[strcspn(line, "\t")] = 0;
        if (!cli_is_blank(line)) words[n++] = line;
        return n;
    }
    for (line += strspn(line, space); *line; line += strspn(line, space)) {
        words[n++] = line;
        line += strcspn(line, space);
        if (*line) *line++ = 0;
    }
    return n;
}

static int words_cut(const struct cli_lines *lines, bool each, struct classify_words *w) {
    size_t size = 1;
    bool open = false; /* the next line belongs to the same sentence */
    for (size_t i = 0; i < lines->count; i++) size += strlen(lines->items[i]) + 1;
    char *at = w->text = malloc(size);
    w->words = malloc(size * sizeof *w->words);
    w->counts = calloc(lines->count + 1, sizeof *w->counts);
    w->lines = calloc(lines->count + 1, sizeof *w->lines);
    if (!w->text || !w->words || !w->counts || !w->lines) return cli_failed("out of memory");
    for (size_t i = 0; i < lines->count; i++) {
        const size_t bytes = strlen(lines->items[i]) + 1;
        memcpy(at, lines->items[i], bytes);
        if (!each && lines->name && strchr(at, '\t'))
            return cli_failed("%s:%zu: a tab in this line; if each line is a word, a tab and its label, add --words",
                              lines->name, i + 1);
        const size_t n = words_of(at, each, w->words + w->count);
        if (n && !open) w->lines[w->sentences++] = i + 1;
        if (n) w->counts[w->sentences - 1] += n;
        open = each && n;
        w->count += n;
        at += bytes;
    }
    return CLI_DONE;
}

/* Reports an error of the library; an error in a sentence names the line where the sentence begins. */
static int words_broken(const struct cli_lines_job *job, const struct classify_words *w) {
    size_t number = 0;
    if (!job->lines.name || sscanf(qkv_message(job->ctx), "sentence %zu", &number) != 1 || number < 1 ||
        number > w->sentences)
        return cli_broken(job->ctx);
    return cli_failed("%s:%zu: %s", job->lines.name, w->lines[number - 1], cli_message(job->ctx));
}

/* Prints a word, a tab, and its label or its `top` likeliest ones. A word that --long left out has an empty label. */
static void words_print(FILE *file, struct qkv_model *model, const char *word, float *p, size_t classes, size_t top) {
    fprintf(file, "%s\t", word);
    if ((top || classes == 1) && !is_empty(p, classes)) {
        print_line(file, model, p, classes, top);
        return;
    }
    if (!is_empty(p, classes)) print_label(file, model, likeliest(p, classes));
    putc('\n', file);
}

static void words_json(struct qkv_json *out, struct qkv_model *model, const char *word, float *p, size_t classes,
                       size_t top) {
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "word", word);
    put_classes(out, model, p, classes, top);
    qkv_json_end(out, '}');
}

static int words_write(FILE *file, struct qkv_model *model, const struct classify_words *w, float *p,
                       const struct arguments *a) {
    const size_t classes = (size_t)qkv_model_spec(model)->head.classes;
    int code = CLI_DONE;
    for (size_t s = 0, at = 0; s < w->sentences && code == CLI_DONE; at += w->counts[s++]) {
        struct qkv_json out = {.style = QKV_JSON_SPACED, .file = file};
        if (a->json) qkv_json_begin(&out, '[');
        for (size_t i = at; i < at + w->counts[s]; i++)
            if (a->json)
                words_json(&out, model, w->words[i], p + i * classes, classes, classify_top(a));
            else
                words_print(file, model, w->words[i], p + i * classes, classes, (size_t)a->top);
        if (!a->json) putc('\n', file);
        if (!a->json) continue;
        qkv_json_end(&out, ']');
        qkv_json_line(&out, 0);
        qkv_json_flush(&out);
        if (out.status) code = cli_failed("the JSON could not be written");
        qkv_json_free(&out);
    }
    return code;
}

static int classify_words(struct cli_lines_job *job, const struct arguments *a) {
    struct qkv_model *model = job->model;
    const size_t classes = (size_t)qkv_model_spec(model)->head.classes;
    const struct qkv_line_options reading = cli_lines_options(job);
    struct classify_words w = {0};
    struct cli_output output = {0};
    float *probabilities = NULL;
    int code = words_cut(&job->lines, a->words, &w);
    if (code == CLI_DONE) probabilities = calloc(w.count + 1, classes * sizeof *probabilities);
    if (code == CLI_DONE && !probabilities) code = cli_failed("out of memory");
    if (code == CLI_DONE && qkv_classify_words(model, w.words, w.counts, w.sentences, &reading, probabilities))
        code = words_broken(job, &w);
    if (code == CLI_DONE) code = cli_lines_output(job, &output);
    if (code == CLI_DONE) {
        code = words_write(output.file, model, &w, probabilities, a);
        cli_lines_say_long(job);
        code = classify_end(&output, a, w.count, "word", code);
    }
    free(probabilities);
    free(w.words);
    free(w.counts);
    free(w.lines);
    free(w.text);
    return code;
}

/* ---- lines and pairs --------------------------------------------------------------------------------------------- */

/* Prints one line for each text or pair; `texts` is NULL for examples. */
static int results_write(FILE *file, struct qkv_model *model, const struct arguments *a, const char *const *texts,
                         const char *const *seconds, float *p, size_t count) {
    const size_t classes = (size_t)qkv_model_spec(model)->head.classes;
    int code = CLI_DONE;
    for (size_t i = 0; i < count && code == CLI_DONE; i++, p += classes) {
        struct qkv_json out = {.style = QKV_JSON_SPACED, .file = file};
        if (!a->json && is_empty(p, classes)) putc('\n', file);
        if (!a->json && !is_empty(p, classes)) print_line(file, model, p, classes, classify_top(a));
        if (!a->json) continue;
        qkv_json_begin(&out, '{');
        if (texts) qkv_json_put_text(&out, "text", texts[i]);
        if (seconds) qkv_json_put_text(&out, "pair", seconds[i]);
        put_classes(&out, model, p, classes, classify_top(a));
        qkv_json_end(&out, '}');
        qkv_json_line(&out, 0);
        qkv_json_flush(&out);
        if (out.status) code = cli_failed("the JSON could not be written");
        qkv_json_free(&out);
    }
    return code;
}

struct classify_pairs {
    const char **firsts, **seconds; /* they point into the lines, which pairs_cut cuts */
    size_t count;
    char *text;
};

/* Makes pairs from two texts of the command line, or from each line cut at its tab; a blank line makes an empty
 * pair. */
static int pairs_cut(const struct cli_lines *lines, struct classify_pairs *p) {
    size_t size = 1;
    for (size_t i = 0; i < lines->count; i++) size += strlen(lines->items[i]) + 1;
    char *at = p->text = malloc(size);
    p->firsts = calloc(lines->count + 1, sizeof *p->firsts);
    p->seconds = calloc(lines->count + 1, sizeof *p->seconds);
    if (!p->text || !p->firsts || !p->seconds) return cli_failed("out of memory");
    if (!lines->name && lines->count % 2)
        return cli_usage("classify: --pairs takes two texts for each pair; give an even number of texts");
    for (size_t i = 0; i < lines->count; i++) {
        const size_t bytes = strlen(lines->items[i]) + 1;
        memcpy(at, lines->items[i], bytes);
        if (!lines->name) {
            *(i % 2 ? &p->seconds[p->count++] : &p->firsts[p->count]) = at;
        } else {
            char *tab = strchr(at, '\t');
            if ((!tab && !cli_is_blank(at)) || (tab && strchr(tab + 1, '\t')))
                return cli_failed("%s:%zu: %s; with --pairs a line is two texts with one tab between them", lines->name,
                                  i + 1, tab ? "more than one tab" : "no tab in this line");
            if (tab) *tab = 0;
            p->firsts[p->count] = at;
            p->seconds[p->count++] = tab ? tab + 1 : "";
        }
        at += bytes;
    }
    return CLI_DONE;
}

/* Reports an error of the library; an error in a pair names its line. */
static int pairs_broken(const struct cli_lines_job *job) {
    size_t number = 0;
    if (!job->lines.name || sscanf(qkv_message(job->ctx), "pair %zu", &number) != 1) return cli_broken(job->ctx);
    return cli_failed("%s:%zu: %s", job->lines.name, number, cli_message(job->ctx));
}

static int classify_all(struct cli_lines_job *job, const struct arguments *a) {
    struct qkv_model *model = job->model;
    const struct cli_lines *lines = &job->lines;
    const struct qkv_spec *spec = qkv_model_spec(model);
    const size_t classes = spec->head.classes > 0 ? (size_t)spec->head.classes : 1;
    struct cli_output output = {0};
    struct classify_pairs pairs = {0};
    float *p = calloc(lines->count + 1, classes * sizeof *p);
    const struct qkv_line_options reading = cli_lines_options(job);
    int code = p ? CLI_DONE : cli_failed("out of memory");
    if (code == CLI_DONE && a->pairs) code = pairs_cut(lines, &pairs);
    if (code == CLI_DONE && a->pairs &&
        qkv_classify_pairs(model, pairs.firsts, pairs.seconds, pairs.count, &reading, p))
        code = pairs_broken(job);
    if (code == CLI_DONE && !a->pairs && qkv_classify(model, lines->items, lines->count, &reading, p))
        code = cli_lines_broken(job->ctx, lines);
    if (code == CLI_DONE) code = cli_lines_output(job, &output);
    if (code == CLI_DONE) {
        code = results_write(output.file, model, a, a->pairs ? pairs.firsts : lines->items, pairs.seconds, p,
                             a->pairs ? pairs.count : lines->count);
        cli_lines_say_long(job);
        code = classify_end(&output, a, a->pairs ? pairs.count : lines->count, a->pairs ? "pair" : "line", code);
    }
    free(p);
    free(pairs.firsts);
    free(pairs.seconds);
    free(pairs.text);
    return code;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Prints each answer: its text, a tab, its score; an empty line if there is no answer. */
static int answers_write(FILE *file, const struct classify_pairs *pairs, const struct qkv_answer *answers, bool json) {
    int code = CLI_DONE;
    for (size_t i = 0; i < pairs->count && code == CLI_DONE; i++) {
        const struct qkv_answer *a = &answers[i];
        struct qkv_json out = {.style = QKV_JSON_SPACED, .file = file};
        char *text = strndup(pairs->seconds[i] + a->begin, a->end - a->begin);
        if (!text) return cli_failed("out of memory");
        if (!json && a->end) fprintf(file, "%s\t%.4f", text, a->score);
        if (!json) putc('\n', file);
        if (json) {
            qkv_json_begin(&out, '{');
            qkv_json_put_text(&out, "question", pairs->firsts[i]);
            if (a->end) qkv_json_put_text(&out, "answer", text);
            if (!a->end) qkv_json_put_raw(&out, "answer", "null");
            qkv_json_put_count(&out, "begin", a->begin);
            qkv_json_put_count(&out, "end", a->end);
            qkv_json_put_number(&out, "score", a->score, 9);
            qkv_json_end(&out, '}');
            qkv_json_line(&out, 0);
            qkv_json_flush(&out);
            if (out.status) code = cli_failed("the JSON could not be written");
            qkv_json_free(&out);
        }
        free(text);
    }
    return code;
}

static int classify_answers(struct cli_lines_job *job, const struct arguments *a) {
    struct classify_pairs pairs = {0};
    struct cli_output output = {0};
    struct qkv_answer *answers = calloc(job->lines.count + 1, sizeof *answers);
    const struct qkv_line_options reading = cli_lines_options(job);
    int code = answers ? pairs_cut(&job->lines, &pairs) : cli_failed("out of memory");
    if (code == CLI_DONE && qkv_answer(job->model, pairs.firsts, pairs.seconds, pairs.count, &reading, answers))
        code = pairs_broken(job);
    if (code == CLI_DONE) code = cli_lines_output(job, &output);
    if (code == CLI_DONE) {
        code = answers_write(output.file, &pairs, answers, a->json);
        cli_lines_say_long(job);
        code = classify_end(&output, a, pairs.count, "pair", code);
    }
    free(answers);
    free(pairs.firsts);
    free(pairs.seconds);
    free(pairs.text);
    return code;
}

/* Prints one line for each example of --examples. */
static int classify_examples(const struct arguments *a, const char *folder) {
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct cli_output output = {0};
    float *probabilities = NULL;
    size_t count = 0;
    const struct qkv_use_options use = {.size = sizeof use, .use = QKV_USE_CLASSIFY, .file = a->examples};
    struct qkv_opening *opening = NULL;
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = cli_open_model(&a->common, ctx, folder, &opening);
    if (code == CLI_DONE && qkv_opening_check_use(opening, &use)) code = cli_broken(ctx);
    if (code == CLI_DONE) code = cli_load_opened(&a->common, ctx, folder, opening, &model);
    qkv_opening_free(opening);
    if (code == CLI_DONE && qkv_classify_examples(model, a->examples, &probabilities, &count)) code = cli_broken(ctx);
    if (code == CLI_DONE) code = cli_output_begin(ctx, a->output, a->force, &output);
    if (code == CLI_DONE) code = results_write(output.file, model, a, NULL, NULL, probabilities, count);
    if (code == CLI_DONE) code = classify_end(&output, a, count, "example", code);
    qkv_free(probabilities);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

static int classify_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct cli_lines_job job = {
        .common = &a->common,
        .words = words,
        .count = count,
        .input = a->input,
        .output = a->output,
        .long_lines = a->long_lines,
        .force = a->force,
        .use = {.size = sizeof(struct qkv_use_options), .use = QKV_USE_CLASSIFY, .pairs = a->pairs}};
    if (!count) return cli_usage("classify: name a model folder: %s classify MODEL \"a line of text\"", cli_program);
    if (a->examples && count > 1)
        return cli_usage("classify: --examples reads a file in place of texts; leave \"%s\" out", words[1]);
    if (a->examples) return classify_examples(a, words[0]);
    int code = cli_lines_open(&job, NULL);
    const bool of_words = code == CLI_DONE && qkv_model_spec(job.model)->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    if (code == CLI_DONE && !of_words && a->words)
        code = cli_failed("--words needs a model that classifies words, with head.kind classify_tokens; %s has another "
                          "head",
                          words[0]);
    const bool answers = code == CLI_DONE && qkv_model_answers(job.model) && a->pairs;
    if (code == CLI_DONE && of_words && a->pairs && !answers)
        code =
            cli_failed("--pairs needs a model that classifies texts, with head.kind classify, or answers questions; %s "
                       "classifies words",
                       words[0]);
    if (answers && a->top) code = cli_failed("--top is for classes, and only the best answer is printed; leave it out");
    if (code == CLI_DONE)
        code = answers ? classify_answers(&job, a) : of_words ? classify_words(&job, a) : classify_all(&job, a);
    cli_lines_close(&job);
    return code;
}

const struct cli_command *cli_classify(void) {
    static const struct cli_command command = {
        .name = "classify",
        .words = CLI_WORD_MODEL,
        .summary = "print the class of each line, each pair of texts, or each word",
        .usage = "MODEL TEXT… [options]\nMODEL [--input FILE] [--output FILE] [options]\n"
                 "MODEL --examples FILE [--output FILE] [options]",
        .description =
            "Writes a line for each text of the command line, or for each line of a file or of standard input: the "
            "likeliest class, a tab and its probability, then the next classes in the same way. A blank line gives a "
            "blank line, and so does a line that --long skips. The result of a line does not depend on the other "
            "lines; in bf16 it can differ by rounding. A model with one class, such as a reranker or a regression, "
            "gives a score, which is the output of the head.\n\n"
            "With --pairs each line has two texts, such as a question and an answer. The template of the tokenizer "
            "joins them into one sequence. If a pair is longer than the context, its longer text is cut.\n\n"
            "A model that answers questions reads pairs of a question and a text. It writes the words of the text that "
            "answer the question (at most 15 tokens), a tab and a score: the probability that the answer begins there, "
            "times the probability that it ends there.\n\n"
            "A model whose head classifies tokens labels words. Each text or line is a sentence, and white space "
            "separates its words. With --words each line is a word, and an empty line ends a sentence. The output has "
            "a line for each word, with the word, a tab and its label, and an empty line after each sentence.",
        .examples = "qkv classify topic/ \"What is the capital of Peru ?\"\n"
                    "qkv classify topic/ --input questions.txt --output answers.tsv --top 1\n"
                    "qkv classify tagger/ --input test.conll --words --json\n"
                    "qkv classify reranker/ --pairs \"capital of Peru\" \"Lima is the capital of Peru.\"\n"
                    "qkv classify squad/ --pairs \"Who sings ?\" \"The queen sings at sea.\"\n"
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
