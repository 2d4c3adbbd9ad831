/* embed.c: "qkv embed" writes vectors of lines of text, as a NumPy file or as text, and finds the lines nearest to a
 * text.
 * A .npy file, version 1.0: "\x93NUMPY" 1 0, the length of the header (16 bits, little-endian), the header (a Python
 * dictionary, padded with spaces so that the data begins at a multiple of 64 bytes), and the floats, little-endian,
 * row by row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

struct arguments {
    const char *input, *output, *pool, *nearest, *among, *long_lines, *prompt_name, *query_prompt_name;
    int64_t top;
    bool text, normalize, force, json;
    struct cli_common common;
};

static const struct arguments defaults = {.top = 5};

static const struct cli_option options[] = {
    {CLI_READ, 0, "input", "FILE", offsetof(struct arguments, input),
     .help = "file of lines to read, at most 1 GiB; - is standard input", .subject = "input"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output),
     .help = "NumPy file of the vectors to write (.npy, float32, a row for each line); with --text, a text file",
     .subject = "output"},
    CLI_FORCE(struct arguments),
    CLI_JSON(struct arguments, "a line for each text, with its vector, or the nearest lines,"),
    {CLI_FLAG, 0, "text", NULL, offsetof(struct arguments, text),
     .help = "write the vectors as text, with tabs between the numbers", .subject = "output"},
    {CLI_TEXT, 0, "pool", "NAME", offsetof(struct arguments, pool), .choice = cli_choose_pool,
     .help = "mean of a line's tokens, its first or last token, or max: the largest number of each channel",
     .before =
         "the pooling of modules.json in the model's folder; else last for a model without an encoder, mean for others",
     .subject = "vectors"},
    {CLI_TEXT, 0, "prompt-name", "NAME", offsetof(struct arguments, prompt_name),
     .help = "name of a prompt in config_sentence_transformers.json in the model's folder, which is put before each "
             "line; \"\" is no prompt",
     .before =
         "default_prompt_name of that file; for lines of --among the first of document, passage and corpus that it has",
     .subject = "vectors"},
    {CLI_TEXT, 0, "query-prompt-name", "NAME", offsetof(struct arguments, query_prompt_name),
     .help = "name of a prompt in the same file, which is put before the text of --nearest",
     .before = "query if the file has it, else its default_prompt_name", .subject = "vectors"},
    {CLI_FLAG, 0, "normalize", NULL, offsetof(struct arguments, normalize), .help = "scale the vectors to length 1",
     .subject = "vectors"},
    {CLI_TEXT, 0, "nearest", "TEXT", offsetof(struct arguments, nearest), .help = "text to find the nearest lines of",
     .subject = "nearest lines"},
    {CLI_READ, 0, "among", "FILE", offsetof(struct arguments, among),
     .help = "file of the lines to search, at most 1 GiB; - is standard input", .subject = "nearest lines"},
    {CLI_COUNT, 0, "top", "N", offsetof(struct arguments, top), .help = "number of nearest lines to print", .low = 1,
     .high = INT32_MAX, .subject = "nearest lines"},
    {CLI_TEXT, 0, "long", "NAME", offsetof(struct arguments, long_lines), .choice = cli_choose_long,
     .help = "rule for lines with more tokens than the model's context: {} (the part that is kept)",
     .before = "error; keep-start if the model has a modules.json", .subject = "input"},
    CLI_ADAPTER(struct arguments),
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(writes_no_file, struct arguments, !a->output)
CLI_CONDITION(embed_compares, struct arguments, a->nearest)
CLI_CONDITION(writes_vectors, struct arguments, !a->nearest)

static const struct cli_rule rules[] = {
    {"normalize", embed_compares, "--nearest compares by the cosine, which the length of vectors does not change"},
    {"input text output force", embed_compares,
     "--nearest shows lines of --among; it takes no other lines and writes no vectors"},
    {"query-prompt-name", writes_vectors, "it names a prompt for the text of --nearest; add that, or leave this out"},
    {"top", writes_vectors, "it counts the lines of --nearest; add that, or leave this out"},
    {"input", cli_has_texts, CLI_WHY_TEXTS},
    {"force", writes_no_file, CLI_WHY_OUTPUT},
};

static int read_pool(const char *name, enum qkv_pool *pool) {
    static const char *const names[] = {
#define NAME(kind, text, help) text,
        QKV_POOL_LIST(NAME)
#undef NAME
    };
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        *pool = (enum qkv_pool)i;
        if (!strcmp(name, names[i])) return CLI_DONE;
    }
    *pool = QKV_POOL_MAX;
    return !strcmp(name, "max") ? CLI_DONE
                                : cli_usage("embed: --pool is \"%s\"; it must be mean, first, last or max", name);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static void print_numpy(FILE *file, const float *vectors, size_t rows, size_t columns) {
    char header[192];
    size_t front = 10; /* bytes before the header */
    int n = snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows,
                     columns);
    size_t size = (front + (size_t)n + 1 + 63) / 64 * 64 - front;
    memset(header + n, ' ', size - (size_t)n);
    header[size - 1] = '\n';
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    putc((int)(size & 255), file);
    putc((int)(size >> 8), file);
    fwrite(header, 1, size, file);
    for (size_t i = 0; i < rows * columns; i++) {
        uint32_t bits;
        memcpy(&bits, vectors + i, sizeof bits);
        for (int shift = 0; shift < 32; shift += 8) putc((int)(bits >> shift & 255), file);
    }
}

static void print_text(FILE *file, const float *vectors, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns; c++)
            fprintf(file, "%.9g%c", (double)vectors[i * columns + c], c + 1 < columns ? '\t' : '\n');
}

/* A line of JSON for each line. */
static int embed_json(FILE *file, const struct cli_lines *lines, const float *vectors, size_t columns) {
    int code = CLI_DONE;
    for (size_t i = 0; i < lines->count && !code; i++) {
        struct qkv_json out = cli_json_stream(file);
        qkv_json_begin(&out, '{');
        qkv_json_put_text(&out, "text", lines->items[i]);
        qkv_json_key(&out, "vector");
        qkv_json_begin(&out, '[');
        for (size_t c = 0; c < columns; c++) qkv_json_number(&out, (double)vectors[i * columns + c], 9);
        qkv_json_end(&out, ']');
        qkv_json_end(&out, '}');
        code = cli_json_end(&out);
    }
    return code;
}

static void embed_set_lines(struct qkv_embed_options *how, struct qkv_line_options lines) {
    how->long_lines = lines.long_lines, how->long_count = lines.long_count, how->max_tokens = lines.max_tokens;
}

static int write_vectors(struct cli_lines_job *job, const struct arguments *a, struct qkv_embed_options how) {
    struct qkv_model *model = job->model;
    const struct cli_lines *lines = &job->lines;
    const size_t columns = qkv_embed_width(model);
    struct cli_output output = {0};
    float *vectors = calloc(lines->count + 1, columns * sizeof *vectors);
    if (!vectors) return cli_failed("out of memory");
    int code = CLI_DONE;
    embed_set_lines(&how, cli_lines_options(job));
    if (qkv_embed(model, lines->items, lines->count, &how, vectors)) code = cli_lines_broken(job->ctx, lines);
    if (code == CLI_DONE) code = cli_lines_output(job, &output);
    if (code == CLI_DONE) {
        if (a->json)
            code = embed_json(output.file, lines, vectors, columns);
        else
            (a->text ? print_text : print_numpy)(output.file, vectors, lines->count, columns);
        cli_lines_say_long(job);
        code = cli_output_end(&output, code);
    }
    if (code == CLI_DONE && a->output)
        cli_wrote(a->output, "%zu vector%s of %zu numbers", lines->count, lines->count == 1 ? "" : "s", columns);
    free(vectors);
    return code;
}

/* ---- nearest lines ----------------------------------------------------------------------------------------------- */

struct neighbour {
    size_t line;
    double cosine;
};

static int nearest_first(const void *a, const void *b) {
    const struct neighbour *x = a, *y = b;
    if (x->cosine != y->cosine) return x->cosine > y->cosine ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static bool is_zero(const float *vector, size_t columns) {
    size_t c = 0;
    while (c < columns && vector[c] == 0) c++;
    return c == columns;
}

static int nearest_json(const struct cli_lines *lines, const struct neighbour *nearest, size_t count) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_key(&out, "nearest");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < count; i++) {
        qkv_json_begin(&out, '{');
        qkv_json_put_number(&out, "cosine", nearest[i].cosine, 9);
        qkv_json_put_count(&out, "line", nearest[i].line + 1);
        qkv_json_put_text(&out, "text", lines->items[nearest[i].line]);
        qkv_json_end(&out, '}');
    }
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

/* The vectors have length 1, so their product is the cosine. */
static int print_nearest(const float *query, const float *vectors, size_t columns, const struct cli_lines_job *job,
                         struct neighbour *all, const struct arguments *a) {
    const size_t top = (size_t)a->top;
    const struct cli_lines *lines = &job->lines;
    size_t count = 0;
    for (size_t i = 0; i < lines->count; i++) {
        double product = 0;
        if (cli_is_blank(lines->items[i])) continue;
        if (job->long_kind == QKV_LONG_SKIP && is_zero(vectors + i * columns, columns)) continue;
        for (size_t c = 0; c < columns; c++) product += (double)query[c] * (double)vectors[i * columns + c];
        all[count++] = (struct neighbour){.line = i, .cosine = product};
    }
    qsort(all, count, sizeof *all, nearest_first);
    if (a->json) return nearest_json(lines, all, count < top ? count : top);
    for (size_t i = 0; i < count && i < top; i++)
        printf("%.4f\t%zu\t%s\n", all[i].cosine, all[i].line + 1, lines->items[all[i].line]);
    return CLI_DONE;
}

/* Embeds the text of --nearest, which must not be skipped. */
static int embed_query(const struct cli_lines_job *job, const char *text, struct qkv_embed_options how, float *query) {
    size_t found = 0;
    how.long_count = &found;
    how.max_tokens = job->max_tokens;
    how.long_lines = job->long_kind == QKV_LONG_SKIP ? QKV_LONG_ERROR : job->long_kind;
    if (qkv_embed(job->model, &text, 1, &how, query))
        return cli_failed("the text of --nearest: %s", cli_message(job->ctx));
    if (found)
        cli_say("the text of --nearest has more tokens than the model's %s of %zu and was %s (--long %s)",
                job->max_tokens ? "maximum" : "context",
                job->max_tokens ? job->max_tokens : (size_t)qkv_model_spec(job->model)->context,
                qkv_long_done(job->long_kind), job->long_lines);
    return CLI_DONE;
}

static int find_nearest(struct cli_lines_job *job, const struct arguments *a, struct qkv_embed_options how,
                        const char *query_prompt) {
    struct qkv_model *model = job->model;
    const struct cli_lines *lines = &job->lines;
    const size_t columns = qkv_embed_width(model);
    float *query = calloc(columns, sizeof *query), *vectors = calloc(lines->count + 1, columns * sizeof *vectors);
    struct neighbour *all = calloc(lines->count + 1, sizeof *all);
    int code = query && vectors && all ? CLI_DONE : cli_failed("out of memory");
    size_t filled = 0;
    for (size_t i = 0; i < lines->count; i++) filled += !cli_is_blank(lines->items[i]);
    job->left_out = lines->count - filled;
    if (code == CLI_DONE && !filled)
        code = cli_failed("%s has no lines to compare with; give a file of lines", lines->name);
    struct qkv_embed_options asking = how;
    asking.prompt = query_prompt;
    embed_set_lines(&how, cli_lines_options(job));
    if (code == CLI_DONE) code = embed_query(job, a->nearest, asking, query);
    if (code == CLI_DONE && qkv_embed(model, lines->items, lines->count, &how, vectors))
        code = cli_lines_broken(job->ctx, lines);
    if (code == CLI_DONE) code = print_nearest(query, vectors, columns, job, all, a);
    if (code == CLI_DONE) cli_lines_say_long(job);
    free(query);
    free(vectors);
    free(all);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int embed_check(const struct arguments *a, size_t texts) {
    if (!a->nearest != !a->among) return cli_usage("embed: --nearest TEXT and --among FILE need each other");
    if (a->nearest && texts)
        return cli_usage("embed: --nearest prints lines of --among; it reads no other lines and writes no vectors");
    if (a->nearest && cli_is_blank(a->nearest)) return cli_usage("embed: --nearest needs a text that is not blank");
    if (a->text && a->json) return cli_usage("embed: --text and --json exclude each other");
    if (!a->nearest && !a->output && !a->text && !a->json)
        return cli_usage("embed: name a file for the vectors: -o vectors.npy, or add --text or --json to print them");
    return CLI_DONE;
}

/* Fills in options that the command line leaves out, as the model's folder says. */
static void embed_complete(struct cli_lines_job *job, const struct arguments *a, struct qkv_embed_options *how) {
    const struct qkv_embed_options own = qkv_embed_defaults(job->model);
    if (!a->pool) how->pool = own.pool;
    /* --nearest compares cosines: its vectors have length 1 */
    how->normalize = how->normalize || own.normalize || a->nearest;
    how->prompt = own.prompt;
    job->max_tokens = own.max_tokens;
    if (a->long_lines || own.long_lines == QKV_LONG_ERROR) return;
    job->long_kind = own.long_lines;
    job->long_lines = "keep-start";
}

/* Returns the text of the prompt with this name; NULL if there is none. */
static const char *embed_find_prompt(const struct qkv_model *model, const char *wanted) {
    const char *name, *text;
    for (size_t i = 0; qkv_model_prompt(model, i, &name, &text); i++)
        if (!strcmp(name, wanted)) return text;
    return NULL;
}

/* Chooses the prompt `asked`; else the first of `names` that the model has; else leaves the usual one. */
static int embed_choose_prompt(const struct qkv_model *model, const char *option, const char *asked,
                               const char *const *names, const char **prompt) {
    const char *name, *text = NULL;
    char known[256] = "";
    for (size_t i = 0; !asked && names && names[i] && !text; i++) text = embed_find_prompt(model, names[i]);
    if (asked) text = *asked ? embed_find_prompt(model, asked) : "";
    if (text) *prompt = text;
    if (text || !asked) return CLI_DONE;
    for (size_t i = 0, n = 0; qkv_model_prompt(model, i, &name, NULL) && n + 64 < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%.50s", i ? ", " : "", name);
    return cli_failed("--%s: the model has no prompt \"%s\"; it has %s", option, asked, *known ? known : "none");
}

static int embed_run(const void *values, const char *const *words, size_t count) {
    static const char *const query_names[] = {"query", NULL}, *const document_names[] = {"document", "passage",
                                                                                         "corpus", NULL};
    const struct arguments *a = values;
    const char *input = a->nearest ? a->among : a->input;
    struct cli_lines_job job = {.common = &a->common,
                                .words = words,
                                .count = count,
                                .input = input,
                                .output = a->output,
                                .long_lines = a->long_lines ? a->long_lines : "error",
                                .force = a->force,
                                .use = {.size = sizeof(struct qkv_use_options), .use = QKV_USE_EMBED}};
    struct qkv_embed_options how = {.size = sizeof how, .pool = QKV_POOL_MEAN, .normalize = a->normalize};
    if (!count) return cli_usage("embed: name a model folder: %s embed MODEL \"a line of text\" -o FILE", cli_program);
    int code = embed_check(a, count - 1);
    if (code == CLI_DONE && a->pool) code = read_pool(a->pool, &how.pool);
    if (code == CLI_DONE) code = cli_lines_open(&job, NULL);
    if (code == CLI_DONE) embed_complete(&job, a, &how);
    const char *query = how.prompt;
    if (code == CLI_DONE)
        code = embed_choose_prompt(job.model, "query-prompt-name", a->query_prompt_name, query_names, &query);
    if (code == CLI_DONE)
        code = embed_choose_prompt(job.model, "prompt-name", a->prompt_name, a->nearest ? document_names : NULL,
                                   &how.prompt);
    if (code == CLI_DONE) code = a->nearest ? find_nearest(&job, a, how, query) : write_vectors(&job, a, how);
    cli_lines_close(&job);
    return code;
}

const struct cli_command *cli_embed(void) {
    static const struct cli_command command = {
        .name = "embed",
        .words = CLI_WORD_MODEL,
        .summary = "compute vectors of lines of text, or find the nearest lines",
        .usage = "MODEL TEXT… -o FILE [options]\nMODEL [--input FILE] -o FILE [options]\n"
                 "MODEL --nearest TEXT --among FILE [options]",
        .description = "Computes a vector for each text of the command line, or for each line of a file or of standard "
                       "input: the hidden states of the encoder, or of the decoder of a model without an encoder, "
                       "pooled over the tokens. A vector has d_model numbers, or as many as the last dense layer of "
                       "modules.json. A blank line gives a vector of zeros, and so does a line that --long skips. With "
                       "--nearest it prints the lines whose vectors have the largest cosine with the vector of the "
                       "text: the cosine, the line number and the line, separated by tabs.",
        .examples = "qkv embed enc/ --input lines.txt -o vectors.npy --normalize\n"
                    "qkv embed enc/ \"one line\" \"another\" --text --pool first\n"
                    "qkv embed embeddinggemma/ --input lines.txt -o lines.npy --prompt-name document\n"
                    "qkv embed enc/ --nearest \"a ship at sea\" --among lines.txt --top 3",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = SIZE_MAX,
        .run = embed_run,
    };
    return &command;
}
