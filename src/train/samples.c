/* samples.jsonl: what a run's model wrote after evaluations, a line each:
 *
 *   {"step":250,"text":"…"}
 *
 * After going back to a checkpoint steps come again: what was written before of that step and later ones is void. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "train/train.h"

enum { SAMPLES_SOURCES = 3, SAMPLES_READ = 4096 }; /* sources of a sample, and where in a file they are looked for */

/* ---- what the model writes -------------------------------------------------------------------------------------- */

struct sample {
    struct qkv_context *ctx;
    struct qkv_buffer *text;
    const char *const *sources;
};

static bool samples_append(const struct sample *s, const char *text, size_t size) {
    return qkv_buffer_append(s->ctx, s->text, text, size) == QKV_OK;
}

static bool samples_take_text(void *user, const char *text, size_t size) {
    return samples_append(user, text, size);
}

static enum qkv_status samples_write_text(struct qkv_trainer *t, size_t tokens, struct sample *s) {
    struct qkv_generate_options options = {
        .size = sizeof options, .sampling = qkv_sampling_defaults(), .tokens = tokens, .end_id = -1};
    struct qkv_generate_report report;
    const bool line = t->data.dataset->reads == QKV_READS_LINES; /* between <s> and </s> */
    options.sampling.temperature = 0.8;
    if (line) options.end_id = (int32_t)qkv_tokenizer_role(qkv_model_tokenizer(t->model), QKV_TOKEN_ROLE_END);
    return qkv_generate(t->model, "\n", !line, &options, samples_take_text, s, &report);
}

/* The sources of the first lines of a file of pairs, zero-terminated in `data`; those past its end are not read. */
static size_t samples_cut_sources(char *data, const char **sources) {
    size_t count = 0;
    if (!strncmp(data, "\xEF\xBB\xBF", 3)) data += 3;
    for (char *end; count < SAMPLES_SOURCES && (end = strchr(data, '\n')); data = end + 1) {
        char *tab = memchr(data, '\t', (size_t)(end - data));
        if (!tab) continue; /* a blank line */
        *tab = 0;
        sources[count++] = data;
    }
    return count;
}

/* The file whose first sources are shown: the first to validate on, without one the first to train on. A run goes on
 * without its files, so one that is gone has none. */
static size_t samples_read_sources(struct qkv_trainer *t, char data[SAMPLES_READ + 2], const char **sources) {
    const struct qkv_text_files *files =
        t->facts.texts.valid_files.count ? &t->facts.texts.valid_files : &t->facts.texts.data_files;
    struct qkv_file file = {0};
    size_t n = 0;
    if (files->count && !qkv_file_open(t->ctx, files->items[0].path, &file)) {
        n = file.size < SAMPLES_READ ? file.size : SAMPLES_READ;
        if (qkv_file_read(&file, 0, data, n)) n = 0;
    }
    if (file.size <= SAMPLES_READ) data[n++] = '\n'; /* the last line may have no end of its own */
    data[n] = 0;
    qkv_file_close(&file);
    qkv_forgive(t->ctx);
    return samples_cut_sources(data, sources);
}

static bool samples_take_target(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    const struct sample *s = user;
    (void)rank, (void)score;
    return (line == 0 || samples_append(s, "\n", 1)) && samples_append(s, s->sources[line], strlen(s->sources[line])) &&
           samples_append(s, " -> ", 4) && samples_append(s, text, size);
}

/* A few sources with what greedy search makes of them. */
static enum qkv_status samples_write_targets(struct qkv_trainer *t, size_t tokens, struct sample *s) {
    struct qkv_search_options search = qkv_search_defaults();
    const char *sources[SAMPLES_SOURCES];
    char data[SAMPLES_READ + 2];
    size_t count = samples_read_sources(t, data, sources);
    s->sources = sources;
    search.max_tokens = tokens;
    return qkv_translate(t->model, sources, count, &search, samples_take_target, s);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* Opens the samples to append a line: *size is where, *torn whether the last line has no end, as a full disk leaves
 * it. */
static int samples_open(const char *path, off_t *size, bool *torn) {
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

/* Appends a line, written at once, so that a reader meanwhile sees all of it or nothing; of one that does not fit
 * nothing stays. `line` begins with the line end that a torn line before it lacks. */
static enum qkv_status samples_append_line(struct qkv_context *ctx, const char *path, const struct qkv_buffer *line) {
    off_t size;
    bool torn;
    int file = samples_open(path, &size, &torn);
    if (file < 0) return qkv_fail_file(ctx, "write", path, errno);
    size_t skip = torn ? 0 : 1, n = line->size - skip;
    errno = ENOSPC;
    bool whole = write(file, line->data + skip, n) == (ssize_t)n;
    int error = errno;
    if (!whole && ftruncate(file, size) != 0) {
        /* a part stays; the next line begins behind it */
    }
    close(file);
    return whole ? QKV_OK : qkv_fail_file(ctx, "write", path, error);
}

static enum qkv_status samples_keep(struct qkv_trainer *t, const struct qkv_buffer *text) {
    struct qkv_json json = {.ctx = t->ctx};
    char *path = qkv_join_path(t->ctx, t->folder, QKV_SAMPLES_FILE);
    if (!path) return QKV_MEMORY;
    qkv_json_line(&json, 0);
    qkv_json_begin(&json, '{');
    qkv_json_put_integer(&json, "step", t->report.step);
    qkv_json_key(&json, "text");
    qkv_json_string(&json, text->size ? text->data : "", text->size);
    qkv_json_end(&json, '}');
    qkv_json_line(&json, 0);
    qkv_json_flush(&json);
    enum qkv_status status = json.status ? json.status : samples_append_line(t->ctx, path, &json.text);
    qkv_json_free(&json);
    free(path);
    return status;
}

enum qkv_status qkv_trainer_sample(struct qkv_trainer *trainer, size_t tokens, char **text, size_t *size) {
    QKV_CALL(trainer ? trainer->ctx : NULL);
    QKV_NEED(qkv_call, trainer);
    QKV_NEED(qkv_call, text);
    QKV_NEED(qkv_call, size);
    struct qkv_trainer *t = trainer;
    struct qkv_buffer out = {0};
    struct sample s = {.ctx = t->ctx, .text = &out};
    *text = NULL;
    *size = 0;
    const bool pairs = t->data.dataset->tokenizers == 2;
    if (t->data.dataset->tasks == QKV_TASKS_CLASSES || qkv_task_masks(&t->options))
        return qkv_fail(t->ctx, QKV_ARGUMENT, "a model that classifies or fills masks writes no sample");
    enum qkv_status status = pairs ? samples_write_targets(t, tokens, &s) : samples_write_text(t, tokens, &s);
    if (!status) status = samples_keep(t, &out);
    if (!status && !out.data) status = qkv_buffer_append(t->ctx, &out, "", 0);
    if (status) {
        qkv_buffer_free(&out);
        return status;
    }
    *text = out.data;
    *size = out.size;
    return QKV_OK;
}
