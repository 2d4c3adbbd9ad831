/* lines.c: reads the lines for commands that print a result for each line of a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

static int lines_cut(struct cli_lines *lines, size_t size, const char *name) {
    size_t count = 0;
    if (size >= 3 && !memcmp(lines->data, "\xef\xbb\xbf", 3)) { /* skips a byte order mark */
        memmove(lines->data, lines->data + 3, size - 3);
        size -= 3;
    }
    for (size_t i = 0; i < size; i++) count += lines->data[i] == '\n';
    count += size > 0 && lines->data[size - 1] != '\n';
    lines->items = malloc((count + 1) * sizeof *lines->items);
    if (!lines->items) return cli_failed("out of memory");
    for (char *at = lines->data, *end = at + size; lines->count < count;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        *stop = 0;
        if (strlen(at) < (size_t)(stop - at))
            return cli_failed("%s:%zu: a NUL byte in this line, so it is not text; convert it to UTF-8 first", name,
                              lines->count + 1);
        if (stop > at && stop[-1] == '\r') stop[-1] = 0;
        lines->items[lines->count++] = at;
        at = stop + 1;
    }
    return CLI_DONE;
}

/* Reads the lines: the words of the command line, else the lines of `input`, else those of standard input. */
static int lines_read(const char *const *words, size_t count, const char *input, struct cli_lines *lines) {
    *lines = (struct cli_lines){0};
    if (count) {
        lines->items = malloc(count * sizeof *lines->items);
        if (!lines->items) return cli_failed("out of memory");
        memcpy(lines->items, words, count * sizeof *lines->items);
        lines->count = count;
        return CLI_DONE;
    }
    if (!input) input = "-";
    size_t size;
    int code = cli_read_all(input, CLI_LINES_MAX, &lines->data, &size);
    if (code) return code;
    char *grown = realloc(lines->data, size + 1); /* room for the NUL of a last line without line end */
    if (!grown) return cli_failed("out of memory");
    lines->data = grown;
    lines->name = strcmp(input, "-") ? input : "standard input";
    return lines_cut(lines, size, lines->name);
}

bool cli_has_texts(const void *values, size_t arguments) {
    (void)values;
    return arguments > 1;
}

int cli_lines_broken(const struct qkv_context *ctx, const struct cli_lines *lines) {
    const char *sentence = cli_message(ctx);
    if (!lines->name || strncmp(sentence, "line ", 5) != 0) return cli_broken(ctx);
    return cli_failed("%s, %s", lines->name, sentence);
}

/* Reads the lines, opens the model unless it is loaded, and checks whether what is done with them fits into the
 * memory. */
static int lines_begin(struct cli_lines_job *job, struct qkv_opening **opening) {
    int code = lines_read(job->words + 1, job->count - 1, job->input, &job->lines);
    if (code != CLI_DONE) return code;
    job->use.texts = (const char *const *)job->lines.items;
    job->use.text_count = job->lines.count;
    job->use.loaded = job->model != NULL;
    const enum qkv_status status = job->model ? qkv_use_check_memory(job->ctx, job->words[0], &job->use)
                                              : cli_open_with(job->common, job->ctx, job->words[0], opening);
    const bool failed = status || (*opening && qkv_opening_check_use(*opening, &job->use));
    return failed ? cli_broken(job->ctx) : CLI_DONE;
}

int cli_lines_open(struct cli_lines_job *job, enum qkv_status (*suits)(struct qkv_model *model)) {
    const bool waits = job->count < 2 && (!job->input || !strcmp(job->input, "-"));
    struct qkv_opening *opening = NULL, *again = NULL;
    const char *folder = job->words[0];
    int code = cli_open(job->common, &job->ctx);
    if (code == CLI_DONE) code = cli_read_long(job->ctx, job->long_lines, &job->long_kind);
    if (code == CLI_DONE) code = cli_set_precision(job->common, job->ctx, folder);
    if (code == CLI_DONE && !waits) code = lines_begin(job, &opening);
    if (code == CLI_DONE && waits && cli_open_with(job->common, job->ctx, folder, &opening))
        code = cli_broken(job->ctx);
    if (code == CLI_DONE) code = cli_load_opened(job->common, job->ctx, folder, opening, &job->model);
    qkv_opening_free(opening);
    if (code == CLI_DONE && suits && suits(job->model)) code = cli_broken(job->ctx);
    return code == CLI_DONE && waits ? lines_begin(job, &again) : code;
}

void cli_lines_close(struct cli_lines_job *job) {
    free(job->lines.data);
    free(job->lines.items);
    qkv_model_free(job->model);
    qkv_context_free(job->ctx);
}

int cli_lines_output(const struct cli_lines_job *job, struct cli_output *output) {
    return cli_output_begin(job->ctx, job->output, job->force, output);
}

bool cli_is_blank(const char *text) {
    return text[strspn(text, " \t\r\n\v\f")] == 0;
}

int cli_read_long(struct qkv_context *ctx, const char *name, enum qkv_long *kind) {
    return qkv_long_find(ctx, name, kind) ? cli_usage("--%s", cli_message(ctx)) : CLI_DONE;
}

struct qkv_line_options cli_lines_options(struct cli_lines_job *job) {
    struct qkv_line_options options = qkv_line_defaults();
    options.long_lines = job->long_kind;
    options.long_count = &job->long_count;
    options.max_tokens = job->max_tokens;
    return options;
}

void cli_lines_say_long(const struct cli_lines_job *job) {
    const bool pairs = job->use.pairs;
    const size_t n = job->long_count, all = job->lines.count / (pairs && !job->lines.name ? 2 : 1) - job->left_out;
    if (n && job->long_kind != QKV_LONG_ERROR)
        cli_say("%zu of %zu %s %s more tokens than the model's %s of %zu and %s %s (--long %s)", n, all,
                pairs ? "pairs" : "lines", n == 1 ? "has" : "have", job->max_tokens ? "maximum" : "context",
                job->max_tokens ? job->max_tokens : (size_t)qkv_model_spec(job->model)->context,
                n == 1 ? "was" : "were", qkv_long_done(job->long_kind), job->long_lines);
}
