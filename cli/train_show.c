/* train_show.c: what a run shows after an evaluation: its numbers, and a sample of what the model writes, which also becomes a line
 * of samples.jsonl in the run's folder:
 *
 *   {"step":250,"text":"…"}
 *
 * After going back to a checkpoint steps come again: what was written before of that step and later ones is void. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cli.h"

/* ---- samples -------------------------------------------------------------------------------------------------------- */

static bool train_show_collect(void *user, const char *text, size_t size) {
    return fwrite(text, 1, size, user) == size;
}

static enum qkv_status write_sample(FILE *out, struct qkv_model *model, int64_t tokens) {
    struct qkv_generate_options options = {.sampling = qkv_sampling_defaults(), .tokens = (size_t)tokens, .end_id = -1};
    struct qkv_generate_report report;
    options.sampling.temperature = 0.8;
    return qkv_generate(model, "\n", 1, &options, train_show_collect, out, &report);
}

/* The sources of the first lines of a file of pairs, each line's end and target cut off. */
static size_t read_sources(const char *path, char lines[][256], size_t most) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;
    FILE *file =
        descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) ? fdopen(descriptor, "r") : NULL;
    size_t count = 0;
    if (!file && descriptor >= 0) close(descriptor);
    while (file && count < most && fgets(lines[count], sizeof lines[count], file)) {
        char *tab = strchr(lines[count], '\t');
        if (!tab) continue; /* a blank line, or one too long to show */
        *tab = 0;
        count++;
    }
    if (file) fclose(file);
    return count;
}

struct writing {
    FILE *out;
    char (*lines)[256];
};

static bool write_target(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    const struct writing *w = user;
    (void)rank, (void)score;
    fprintf(w->out, line ? "\n%s -> " : "%s -> ", w->lines[line]);
    return train_show_collect(w->out, text, size);
}

/* A few validation sources with what greedy search makes of them. */
static enum qkv_status write_targets(FILE *out, struct qkv_trainer *trainer, int64_t tokens) {
    enum { SHOWN = 3 };
    struct qkv_train_file file = {0}, next;
    struct qkv_search_options search = qkv_search_defaults();
    char lines[SHOWN][256];
    const char *texts[SHOWN];
    struct writing writing = {out, lines};
    /* The first file to validate on; without one the first to train on. */
    for (size_t i = 0; qkv_trainer_file(trainer, i, &next) && !file.valid; i++)
        if (i == 0 || next.valid) file = next;
    size_t count = read_sources(file.path, lines, SHOWN);
    for (size_t i = 0; i < count; i++) texts[i] = lines[i];
    search.max_tokens = (size_t)tokens;
    return qkv_translate(qkv_trainer_model(trainer), texts, count, &search, write_target, &writing);
}

/* Four columns of margin; no control characters on a terminal. */
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

/* Opens the samples to append a line: *size is where, *torn whether the last line has no end, as a full disk leaves it. */
static int open_samples(const char *path, off_t *size, bool *torn) {
    /* O_NONBLOCK: a pipe must not keep the training waiting. */
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    struct stat info;
    char last = '\n';
    if (file < 0) return -1;
    bool fine = fstat(file, &info) == 0;
    if (fine && !S_ISREG(info.st_mode)) fine = false, errno = EINVAL;
    *size = fine ? info.st_size : 0;
    if (fine && *size > 0) fine = pread(file, &last, 1, *size - 1) == 1;
    *torn = last != '\n';
    if (fine) return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}

/* Appends a line, written at once, so that a reader meanwhile sees all of it or nothing; of one that does not fit nothing stays.
 * `line` begins with the line end that a torn line before it lacks. */
static bool append_sample(const char *path, const char *line, size_t length) {
    off_t size;
    bool torn;
    int file = open_samples(path, &size, &torn);
    if (file < 0) return false;
    if (!torn) line++, length--;
    errno = ENOSPC;
    bool whole = write(file, line, length) == (ssize_t)length;
    int error = errno;
    if (!whole && ftruncate(file, size) != 0) {
        /* a part stays; the next line begins behind it */
    }
    close(file);
    errno = error;
    return whole;
}

static int train_show_keep(const char *folder, int64_t step, const char *text, size_t size) {
    char *line = NULL, *path = NULL;
    size_t length = 0, n = strlen(folder) + sizeof "/samples.jsonl";
    FILE *out = open_memstream(&line, &length);
    if (out) {
        fprintf(out, "\n{\"step\":%lld,\"text\":", (long long)step);
        cli_write_quoted(out, text, size);
        fputs("}\n", out);
        if (fclose(out) != 0) length = 0;
        path = malloc(n);
    }
    int code = CLI_DONE;
    if (!path || !length) {
        code = cli_failed("out of memory");
    } else {
        snprintf(path, n, "%s/samples.jsonl", folder);
        if (!append_sample(path, line, length)) code = cli_failed("cannot write %s: %s", path, cli_error_text(errno));
    }
    free(path);
    free(line);
    return code;
}

int cli_train_show(struct cli_progress *progress, struct qkv_trainer *trainer, const char *folder, int64_t step,
                   int64_t tokens) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return cli_failed("out of memory");
    bool pairs = qkv_trainer_options(trainer)->pairs != NULL;
    enum qkv_status status =
        pairs ? write_targets(out, trainer, tokens) : write_sample(out, qkv_trainer_model(trainer), tokens);
    int code = status ? cli_broken(qkv_model_context(qkv_trainer_model(trainer))) : CLI_DONE;
    if (fclose(out) != 0 && !code) code = cli_failed("out of memory");
    if (!code) train_show_all(progress, text, size);
    if (!code) code = train_show_keep(folder, step, text, size);
    free(text);
    return code;
}

void cli_train_evaluated(struct cli_progress *progress, const struct qkv_train_report *r) {
    if (!r->evaluated || progress->kind == CLI_SILENT) return;
    char metric[64] = "";
    if (strcmp(r->metric_name, "loss") != 0) snprintf(metric, sizeof metric, ", %s %.4f", r->metric_name, r->metric);
    cli_progress_line(progress, "step %lld: loss %.4f, validation loss %.4f%s%s%s", (long long)r->step, r->loss,
                      r->valid_loss, metric, r->best ? ", the best so far" : "", r->saved ? ", saved" : "");
}
