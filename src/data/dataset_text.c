/* Learning from a text, by windows that begin anywhere in it: the next token (task text), or tokens that are hidden
 * (task mlm, masking.c). */
#include "data/data.h"

/* ---- tokenizer -------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_text_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    static const char *const specials[] = {QKV_TOKEN_MASK};
    struct qkv_tokenizer_choice choice = {.what = "tokenizer",
                                          .choice = d->options->tokenizer,
                                          .specials = specials,
                                          .special_count = qkv_task_masks(d->options)};
    if (!d->origin && qkv_tokenizer_learns(choice.choice)) {
        choice.files = &d->facts->data_files;
        choice.progress = d->progress;
        choice.user = d->user;
    }
    enum qkv_status status = qkv_text_files_plain(d->ctx, &d->facts->data_files);
    if (!status) status = qkv_text_files_plain(d->ctx, &d->facts->valid_files);
    if (!status) status = qkv_text_tokenizer(d, &choice, spec);
    return !status && d->options->documents ? qkv_documents_check(d->ctx, d->tokenizer) : status;
}

/* ---- the texts -------------------------------------------------------------------------------------------------- */

struct text {         /* the one to learn from, or to validate on */
    const char *path; /* of its token file */
    struct qkv_text_files *files;
    struct qkv_text_facts *facts;
};

/* Makes a missing token file again. */
static enum qkv_status dataset_text_remake(struct qkv_data *d, const struct text *text) {
    struct qkv_text_facts now = *text->facts;
    struct qkv_text_files files;
    enum qkv_status status = qkv_text_files_copy(d->ctx, text->files, &files);
    if (status) return status;
    status =
        qkv_tokens_write(d->ctx, text->path, &files, qkv_model_tokenizer(d->model), &now, NULL, d->progress, d->user);
    if (status)
        qkv_fail_at(d->ctx, "making %s again, which is missing", text->path);
    else
        status = qkv_same_text(d->ctx, text->path, &(struct qkv_same_text){text->files, &files, text->facts, &now});
    qkv_text_files_free(&files);
    return status;
}

static enum qkv_status open_tokens(struct qkv_data *d, const struct text *text, struct qkv_tokens *tokens) {
    enum qkv_status status = QKV_OK;
    if (text->facts->bytes == 0)
        status = qkv_tokens_write(d->ctx, text->path, text->files, qkv_model_tokenizer(d->model), text->facts, d->notes,
                                  d->progress, d->user);
    else if (!qkv_file_exists(text->path))
        status = dataset_text_remake(d, text);
    qkv_text_files_drop(text->files);
    return status ? status : qkv_tokens_open(d->ctx, text->path, text->facts, tokens);
}

/* Cuts the token files into the parts to learn from and to validate on. */
static enum qkv_status dataset_text_split(struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    struct qkv_text_files *data = &d->facts->data_files;
    size_t count = d->windows.data_tokens.count, kept = o->valid ? 0 : (size_t)((double)count * o->valid_fraction);
    qkv_text_files_hold_out(data, kept);
    if (o->valid) {
        d->windows.train = qkv_tokens_part(&d->windows.data_tokens, 0, count);
        d->windows.valid = qkv_tokens_part(&d->windows.valid_tokens, 0, d->windows.valid_tokens.count);
    } else {
        d->windows.train = qkv_tokens_part(&d->windows.data_tokens, 0, count - kept);
        d->windows.valid = qkv_tokens_part(&d->windows.data_tokens, count - kept, kept);
    }
    if (d->windows.train.count < d->T + 1)
        return qkv_text_short(d, "training", data, d->windows.train.count,
                              !o->valid && count > d->T ? ", or a smaller valid_fraction" : "");
    return qkv_text_valid_short(d);
}

static enum qkv_status dataset_text_open(struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    d->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    struct text data = {d->data_path, &d->facts->data_files, &d->facts->data};
    struct text valid = {d->valid_path, &d->facts->valid_files, &d->facts->valid};
    enum qkv_status status = open_tokens(d, &data, &d->windows.data_tokens);
    if (!status && o->valid) status = open_tokens(d, &valid, &d->windows.valid_tokens);
    return status ? status : dataset_text_split(d);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

static size_t dataset_text_place(const struct qkv_data *d, uint64_t step, size_t row,
                                 const struct qkv_tokens **tokens) {
    *tokens = &d->windows.train;
    return qkv_draw_window((uint64_t)d->options->seed, step, row, d->windows.train.count - d->T);
}

static enum qkv_status dataset_text_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end,
                                         struct qkv_batch *batch) {
    return qkv_text_fill(d, step, begin, end, dataset_text_place, batch);
}

const struct qkv_dataset qkv_dataset_data = {
    QKV_DATASET_OPTION(data),
    .mixture = &qkv_dataset_mixture,
    .noun = "a text",
    .nouns = "texts",
    .reads = QKV_READS_TEXT,
    .tasks = QKV_TASKS_TEXT,
    .tokenizers = 1,
    .check = qkv_text_check,
    .prepare = dataset_text_prepare,
    .restore = qkv_text_restore,
    .open = dataset_text_open,
    .begin = qkv_text_begin,
    .fill = dataset_text_fill,
    .epoch = qkv_text_epoch,
    .total = qkv_text_total,
    .count = qkv_text_count,
    .validate = qkv_text_validate,
};
