/* Evaluating a model on files of talks: the loss of what training on them has a loss for, in passes over talks of
 * similar length. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/math.h"
#include "model/model.h"
#include "rank/evaluate_share.h"
#include "text/sequence.h"
#include "text/text.h"
#include "train/train.h"
#include "data/records.h"
#include "data/sources.h"
#include "data/talks.h"

enum {
    WINDOW = 1024, /* talks encoded and sorted at a time */
    ROWS = 64,
    TOKENS = 4096 /* rows × longest */
};

struct talks_run {
    struct qkv_model *model;
    struct qkv_line_coder coder;
    struct qkv_text_files files;
    char name[QKV_FILES_NAME];  /* of the files, for messages */
    double before, total;       /* bytes of the files before; of all of them */
    struct qkv_records records; /* of the file that is read */
    struct qkv_line *lines;     /* (WINDOW) */
    size_t count, index, long_lines;
    struct qkv_pass *pass;
    size_t B, T;
    int32_t *ids, *targets;          /* (B,T) each */
    struct qkv_evaluate_share share; /* a part for each batch */
};

static int talks_by_length(const void *left, const void *right) {
    const struct qkv_line *a = left, *b = right;
    if (a->main_count != b->main_count) return a->main_count < b->main_count ? -1 : 1;
    return a->examples < b->examples ? -1 : a->examples > b->examples; /* where it is in the file */
}

static size_t talks_rows(size_t T) {
    const size_t rows = TOKENS / T;
    return rows < 1 ? 1 : rows > ROWS ? ROWS : rows;
}

/* A pass that takes the batch: planned for twice the length at most, so that few are made while lengths grow. The next
 * window begins with short talks again, so with more of them. */
static enum qkv_status talks_room(struct talks_run *r, size_t B, size_t longest) {
    size_t T = 16, n;
    if (B <= r->B && longest <= r->T) return QKV_OK;
    while (T < longest) T *= 2;
    const size_t rows = qkv_max(talks_rows(T / 2 + 1), B);
    T = qkv_min(T, (size_t)qkv_model_spec(r->model)->context);
    if (!qkv_multiply(rows, T, &n)) return qkv_fail_memory(r->coder.ctx, SIZE_MAX, "the ids of a batch");
    qkv_pass_free(r->pass);
    r->pass = NULL;
    r->B = r->T = 0;
    free(r->ids);
    free(r->targets);
    r->ids = qkv_allocate(r->coder.ctx, n, sizeof *r->ids);
    r->targets = qkv_allocate(r->coder.ctx, n, sizeof *r->targets);
    if (!r->ids || !r->targets) return QKV_MEMORY;
    r->B = rows;
    r->T = T;
    return qkv_pass_create(
        r->model, &QKV_OPTIONS(qkv_pass_options, .B = rows, .T = T, .rows = qkv_min(n, qkv_max(T, (size_t)TOKENS))),
        &r->pass);
}

static enum qkv_status talks_batch(struct talks_run *r, const struct qkv_line *lines, size_t B) {
    struct qkv_batch batch = {.B = B, .T = lines[B - 1].main_count - 1};
    int32_t lengths[ROWS];
    size_t counted;
    const bool mine = qkv_evaluate_share_next(&r->share);
    struct qkv_evaluate_part *part = qkv_evaluate_share_add(&r->share, 1);
    if (!part) return QKV_MEMORY;
    if (!mine) return QKV_OK;
    enum qkv_status status = talks_room(r, B, batch.T);
    if (status) return status;
    for (size_t b = 0; b < B; b++) {
        const struct qkv_line *line = &lines[b];
        lengths[b] = (int32_t)line->main_count - 1;
        for (size_t i = 0; i + 1 < line->main_count; i++) {
            r->ids[b * batch.T + i] = line->main[i];
            r->targets[b * batch.T + i] = line->beside[i + 1] & QKV_MARK_COUNTS ? line->main[i + 1] : QKV_IGNORE;
        }
    }
    batch.ids = r->ids;
    batch.targets = r->targets;
    batch.lengths = lengths;
    status = qkv_pass_forward(r->pass, &batch);
    if (status) return status;
    const double loss = qkv_pass_loss(r->pass, &counted);
    part->nll = loss * (double)counted;
    part->tokens = counted;
    return QKV_OK;
}

static void talks_clear(struct talks_run *r) {
    for (size_t i = 0; i < r->count; i++) {
        qkv_free(r->lines[i].main);
        qkv_free(r->lines[i].beside);
    }
    r->count = 0;
}

/* Runs over the talks that are encoded. */
static enum qkv_status talks_window(struct talks_run *r, qkv_progress *progress, void *user) {
    enum qkv_status status = QKV_OK;
    qsort(r->lines, r->count, sizeof *r->lines, talks_by_length);
    const double done = r->before + (double)r->records.bytes.file_at;
    for (size_t first = 0, B; first < r->count && !status; first += B) {
        for (B = 1; first + B < r->count && B < talks_rows(r->lines[first + B].main_count);) B++;
        status = qkv_train_progress(r->coder.ctx, progress, user, "evaluating", done, r->total);
        if (!status) status = talks_batch(r, r->lines + first, B);
    }
    talks_clear(r);
    return status;
}

/* Encodes a line, of which nothing is left if it is skipped. */
static enum qkv_status talks_add(struct talks_run *r, const struct qkv_record *record) {
    const struct qkv_tsv file = {.ctx = r->coder.ctx, .path = r->records.path}; /* for messages */
    const struct qkv_tsv_row row = {.first = record->text, .first_size = record->size, .line = (size_t)record->line};
    struct qkv_line *line = &r->lines[r->count++];
    *line = (struct qkv_line){0};
    enum qkv_status status = r->coder.lines->encode(&r->coder, &file, &row, line);
    line->examples = r->index++;
    r->long_lines += line->is_long;
    if (status || !line->skipped) return status;
    qkv_free(line->main);
    qkv_free(line->beside);
    r->count--;
    return QKV_OK;
}

static enum qkv_status talks_read_file(struct talks_run *r, const char *path, qkv_progress *progress, void *user) {
    struct qkv_record record;
    bool end = false;
    enum qkv_status status = qkv_records_open(r->coder.ctx, path, &r->records);
    if (status) return status;
    while (!status && !(status = qkv_records_next(&r->records, &record, &end)) && !end) {
        status = talks_add(r, &record);
        if (!status && r->count == WINDOW) status = talks_window(r, progress, user);
    }
    r->before += (double)r->records.bytes.file.size;
    qkv_records_close(&r->records);
    r->records = (struct qkv_records){0};
    return status;
}

static enum qkv_status talks_read(struct talks_run *r, qkv_progress *progress, void *user) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->files.count && !status; i++)
        status = talks_read_file(r, r->files.items[i].path, progress, user);
    return status ? status : talks_window(r, progress, user);
}

static enum qkv_status talks_prepare(struct talks_run *r, const char *const *paths, size_t count) {
    struct qkv_context *ctx = r->coder.ctx;
    enum qkv_status status = qkv_text_model_check(ctx, qkv_model_spec(r->model));
    for (size_t i = 0; i < count && !status; i++) status = qkv_sources_list_once(ctx, paths[i], &r->files);
    if (status) return status;
    if (!r->files.count) return qkv_fail(ctx, QKV_ARGUMENT, "no file of talks to evaluate is named");
    if (!r->coder.tokenizer)
        return qkv_tokenizer_missing(ctx, qkv_model_tokenizer_problem(r->model), NULL, QKV_TOKENIZER_FILE, "");
    qkv_text_files_name(&r->files, r->name);
    r->total = (double)qkv_text_files_size(&r->files);
    r->lines = qkv_allocate(ctx, WINDOW, sizeof *r->lines);
    return r->lines ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status talks_report(const struct talks_run *r, struct qkv_talks_evaluation *evaluation) {
    const struct qkv_evaluate_part all = qkv_evaluate_share_sum(&r->share);
    if (!r->index)
        return qkv_fail(r->coder.ctx, QKV_FORMAT, "%s is empty; give a file with a talk in each line", r->name);
    if (!all.tokens)
        return qkv_fail(r->coder.ctx, QKV_ARGUMENT,
                        "every line of %s has more tokens than the context of %zu, so long %s leaves none", r->name,
                        r->coder.T, qkv_long_name(r->coder.kind));
    if (!isfinite(all.nll))
        return qkv_fail(r->coder.ctx, QKV_NUMBER,
                        "the loss over %s is not a finite number: the model's weights are broken; take those of an "
                        "earlier checkpoint",
                        r->name);
    evaluation->tokens = (size_t)all.tokens;
    evaluation->lines = r->index;
    evaluation->long_lines = r->long_lines;
    evaluation->loss = all.nll / (double)all.tokens;
    evaluation->perplexity = qkv_exp(evaluation->loss);
    return QKV_OK;
}

enum qkv_status qkv_evaluate_talks(struct qkv_model *model, const struct qkv_chat_template *templates,
                                   const char *const *paths, size_t count, enum qkv_long long_lines,
                                   qkv_progress *progress, void *user, struct qkv_talks_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, evaluation);
    QKV_NEED_ALL(qkv_call, count, paths);
    struct qkv_context *ctx = qkv_model_context(model);
    struct talks_run r = {.model = model,
                          .coder = {.ctx = ctx,
                                    .lines = qkv_lines_of("chat"),
                                    .tokenizer = qkv_model_tokenizer(model),
                                    .T = (size_t)qkv_model_spec(model)->context,
                                    .kind = long_lines,
                                    .templates = templates,
                                    .now = (int64_t)time(NULL)}};
    const double started = qkv_clock();
    *evaluation = (struct qkv_talks_evaluation){0};
    r.share = (struct qkv_evaluate_share){.ctx = ctx, .size = sizeof(struct qkv_evaluate_part)};
    enum qkv_status status = talks_prepare(&r, paths, count);
    status = qkv_rank_check_evaluation(model, &r.files, status);
    if (!status) status = talks_read(&r, progress, user);
    status = qkv_evaluate_share_gather(&r.share, status);
    if (!status) status = talks_report(&r, evaluation);
    evaluation->seconds = qkv_clock() - started;
    talks_clear(&r);
    qkv_records_close(&r.records);
    qkv_text_files_free(&r.files);
    qkv_pass_free(r.pass);
    qkv_evaluate_share_free(&r.share);
    free(r.lines);
    free(r.ids);
    free(r.targets);
    return status;
}
