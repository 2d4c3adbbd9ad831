/* text_windows: what the kinds of data whose rows are windows of texts have in common: the task, rows, counts,
 * validation. */
#include <string.h>

#include "data/data.h"

enum qkv_status qkv_text_restore(struct qkv_data *d) {
    return qkv_tokenizer_return(d->ctx, d->folder, QKV_TOKENIZER_FILE, &d->facts->data, &d->tokenizer);
}

enum qkv_status qkv_text_short(const struct qkv_data *d, const char *what, const struct qkv_text_files *files,
                               size_t count, const char *other_way) {
    char shorter[64] = "", text[QKV_FILES_NAME];
    if (count >= 2) snprintf(shorter, sizeof shorter, "a context of at most %zu, ", count - 1);
    return qkv_fail(d->ctx, QKV_ARGUMENT,
                    "the %s part of %s has %zu tokens, but a context of %zu needs %zu: choose "
                    "%smore text%s",
                    what, qkv_text_files_name(files, text), count, d->T, d->T + 1, shorter, other_way);
}

enum qkv_status qkv_text_valid_short(const struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    if (!qkv_train_validates(o) || d->windows.valid.count > d->T) return QKV_OK;
    return qkv_text_short(d, "validation", o->valid ? &d->facts->valid_files : &d->facts->data_files,
                          d->windows.valid.count, o->valid ? "" : ", a larger valid_fraction, or 0 for no validation");
}

enum qkv_status qkv_text_tokenizer(struct qkv_data *d, const struct qkv_tokenizer_choice *choice,
                                   struct qkv_spec *spec) {
    enum qkv_status status =
        d->origin ? qkv_origin_tokenizer(d, false, choice->specials, choice->special_count, &d->tokenizer)
                  : qkv_tokenizer_make(d->ctx, choice, &d->tokenizer);
    if (!status) status = qkv_origin_vocab(d, "vocab", &spec->vocab, qkv_tokenizer_vocab(d->tokenizer));
    if (!status) status = qkv_spec_check(d->ctx, spec);
    if (status) return status;
    return qkv_tokenizer_keep(d->ctx, d->tokenizer, d->folder, QKV_TOKENIZER_FILE, &d->facts->data, &d->facts->valid);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Row `at` of the buffers as the options want it. */
static void text_row(struct qkv_data *d, size_t at, int32_t prefix) {
    int32_t *targets = d->rows.targets + at * d->T;
    if (d->rows.documents)
        qkv_row_documents(qkv_document_end(qkv_model_tokenizer(d->model)), d->T, d->rows.ids + at * d->T, targets,
                          d->rows.documents + at * d->T);
    if (!d->rows.prefix) return;
    d->rows.prefix[at] = prefix;
    qkv_row_ignore_prefix(prefix, d->T, targets);
}

enum qkv_status qkv_text_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end, qkv_text_place *place,
                              struct qkv_batch *batch) {
    enum qkv_status status = QKV_OK;
    const struct qkv_train_options *o = d->options;
    const struct qkv_masking masking = qkv_masking_of(o, qkv_model_tokenizer(d->model));
    const bool masks = qkv_task_masks(o);
    for (size_t r = begin; r < end && !status; r++) {
        const struct qkv_tokens *tokens;
        const size_t start = place(d, step, r, &tokens), at = (r - begin) * d->T;
        status = qkv_tokens_window(d->ctx, tokens, start, d->T, d->rows.ids + at, d->rows.targets + at);
        if (status) return status;
        text_row(d, r - begin, o->prefix ? qkv_row_prefix(o, step, r, d->T) : 0);
        if (!masks) continue;
        struct qkv_random random = qkv_draw_masks((uint64_t)o->seed, step, r);
        qkv_mask_row(&masking, &random, d->T, d->rows.ids + at, d->rows.targets + at);
    }
    batch->B = end - begin;
    batch->T = d->T;
    batch->documents = d->rows.documents;
    batch->prefix = d->rows.prefix;
    return status;
}

/* Where not all targets count, those of all rows are counted by making each of them once. */
enum qkv_status qkv_text_begin(struct qkv_data *d, uint64_t step, struct qkv_dataset_step *out) {
    const size_t rows = (size_t)d->options->batch;
    const bool masks = qkv_task_masks(d->options);
    struct qkv_batch batch;
    enum qkv_status status = QKV_OK;
    *out = (struct qkv_dataset_step){.rows = rows, .targets = rows * d->T, .tokens = rows * d->T};
    if (!masks && !d->rows.documents && !d->rows.prefix) return QKV_OK;
    out->targets = 0;
    for (size_t r = 0; r < out->rows && !status; r++) {
        status = d->dataset->fill(d, step, r, r + 1, &batch);
        for (size_t i = 0; i < d->T && !status; i++) out->targets += d->rows.targets[i] != QKV_IGNORE;
    }
    /* documents of nothing but their end: no loss, and no gradient */
    if (!masks && !out->targets) out->targets = 1;
    return status;
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_text_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                               const struct qkv_spec *spec) {
    if (qkv_task_masks(options)) return qkv_masking_check(ctx, spec);
    enum qkv_status status = qkv_text_model_check(ctx, spec);
    return status ? status : qkv_prefix_check(ctx, options, spec);
}

void qkv_text_count(const struct qkv_data *d, struct qkv_data_counts *counts) {
    counts->tokens = d->windows.train.count;
    counts->valid_tokens = d->windows.valid.count;
}

enum qkv_status qkv_text_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss, double *metric) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(d->model);
    const struct qkv_masking masking = qkv_masking_of(d->options, tokenizer);
    size_t windows;
    qkv_multiply((size_t)d->options->eval_batches, (size_t)d->options->batch, &windows); /* SIZE_MAX: the whole text */
    struct qkv_validation validation = {.pass = pass,
                                        .tokens = &d->windows.valid,
                                        .B = d->B,
                                        .T = d->T,
                                        .windows = windows,
                                        .ids = d->rows.ids,
                                        .targets = d->rows.targets,
                                        .masking = qkv_task_masks(d->options) ? &masking : NULL,
                                        .documents = d->rows.documents,
                                        .end = qkv_document_end(tokenizer),
                                        .prefix = d->rows.prefix,
                                        .options = d->options,
                                        .seed = (uint64_t)d->options->seed};
    enum qkv_status status = qkv_validate(d->ctx, &validation, d->progress, d->user, loss);
    *metric = *loss;
    return status;
}

double qkv_text_epoch(const struct qkv_data *d) {
    return (double)d->windows.train.count / ((double)d->options->batch * (double)d->T);
}

uint64_t qkv_text_total(struct qkv_data *d, uint64_t step) {
    return (step + 1) * (uint64_t)d->options->batch * d->T;
}
