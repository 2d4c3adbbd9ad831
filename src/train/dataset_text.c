/* Learning from a text, by windows that begin anywhere in it: the next token (task text), or tokens that are hidden
 * (task mlm, masking.c). */
#include <stdlib.h>
#include <unistd.h>

#include "train/train.h"

/* ---- tokenizer -------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_text_prepare(struct qkv_trainer *t, struct qkv_spec *spec) {
    static const char *const specials[] = {QKV_TOKEN_MASK};
    struct qkv_tokenizer_choice choice = {.what = "tokenizer",
                                          .choice = t->options.tokenizer,
                                          .specials = specials,
                                          .special_count = qkv_task_masks(&t->options)};
    if (!t->origin && qkv_tokenizer_learns(choice.choice)) {
        choice.files = &t->facts.data_files;
        choice.progress = t->progress;
        choice.user = t->user;
    }
    enum qkv_status status = t->origin ? qkv_origin_tokenizer(t, false, specials, choice.special_count, &t->tokenizer)
                                       : qkv_tokenizer_make(t->ctx, &choice, &t->tokenizer);
    if (!status) status = qkv_origin_vocab(t, "vocab", &spec->vocab, qkv_tokenizer_vocab(t->tokenizer));
    if (!status) status = qkv_spec_check(t->ctx, spec);
    if (!status)
        status =
            qkv_tokenizer_keep(t->ctx, t->tokenizer, t->folder, QKV_TOKENIZER_FILE, &t->facts.data, &t->facts.valid);
    return !status && t->options.documents ? qkv_documents_check(t->ctx, t->tokenizer) : status;
}

enum qkv_status qkv_text_restore(struct qkv_trainer *t) {
    return qkv_tokenizer_return(t->ctx, t->folder, QKV_TOKENIZER_FILE, &t->facts.data, &t->tokenizer);
}

/* ---- the texts -------------------------------------------------------------------------------------------------- */

struct text {         /* the one to learn from, or to validate on */
    const char *path; /* of its token file */
    struct qkv_text_files *files;
    struct qkv_text_facts *facts;
};

/* Makes a missing token file again. */
static enum qkv_status dataset_text_remake(struct qkv_trainer *t, const struct text *text) {
    struct qkv_text_facts now = *text->facts;
    struct qkv_text_files files;
    enum qkv_status status = qkv_text_files_copy(t->ctx, text->files, &files);
    if (status) return status;
    status =
        qkv_tokens_write(t->ctx, text->path, &files, qkv_model_tokenizer(t->model), &now, NULL, t->progress, t->user);
    if (status)
        qkv_fail_at(t->ctx, "making %s again, which is missing", text->path);
    else
        status = qkv_trainer_same_text(t, text->path, &(struct qkv_same_text){text->files, &files, text->facts, &now});
    qkv_text_files_free(&files);
    return status;
}

static enum qkv_status open_tokens(struct qkv_trainer *t, const struct text *text, struct qkv_tokens *tokens) {
    enum qkv_status status = QKV_OK;
    if (text->facts->bytes == 0)
        status = qkv_tokens_write(t->ctx, text->path, text->files, qkv_model_tokenizer(t->model), text->facts,
                                  &t->notes, t->progress, t->user);
    else if (!qkv_file_exists(text->path))
        status = dataset_text_remake(t, text);
    qkv_text_files_drop(text->files);
    return status ? status : qkv_tokens_open(t->ctx, text->path, text->facts, tokens);
}

static struct qkv_tokens part_of(const struct qkv_tokens *whole, size_t begin, size_t count) {
    struct qkv_tokens part = *whole;
    part.start += begin; /* the whole owns the file */
    part.count = count;
    return part;
}

static enum qkv_status too_short(const struct qkv_trainer *t, const char *what, const struct qkv_text_files *files,
                                 size_t count, const char *other_way) {
    char shorter[64] = "", text[QKV_FILES_NAME];
    if (count >= 2) snprintf(shorter, sizeof shorter, "a context of at most %zu, ", count - 1);
    return qkv_fail(t->ctx, QKV_ARGUMENT,
                    "the %s part of %s has %zu tokens, but a context of %zu needs %zu: choose "
                    "%smore text%s",
                    what, qkv_text_files_name(files, text), count, t->T, t->T + 1, shorter, other_way);
}

/* Cuts the token files into the parts to learn from and to validate on. */
static enum qkv_status dataset_text_split(struct qkv_trainer *t) {
    const struct qkv_train_options *o = &t->options;
    struct qkv_text_files *data = &t->facts.data_files;
    size_t count = t->windows.data_tokens.count, kept = o->valid ? 0 : (size_t)((double)count * o->valid_fraction);
    qkv_text_files_hold_out(data, kept);
    if (o->valid) {
        t->windows.train = part_of(&t->windows.data_tokens, 0, count);
        t->windows.valid = part_of(&t->windows.valid_tokens, 0, t->windows.valid_tokens.count);
    } else {
        t->windows.train = part_of(&t->windows.data_tokens, 0, count - kept);
        t->windows.valid = part_of(&t->windows.data_tokens, count - kept, kept);
    }
    if (t->windows.train.count < t->T + 1)
        return too_short(t, "training", data, t->windows.train.count,
                         !o->valid && count > t->T ? ", or a smaller valid_fraction" : "");
    if (qkv_trainer_validates(t) && t->windows.valid.count < t->T + 1)
        return too_short(t, "validation", o->valid ? &t->facts.valid_files : data, t->windows.valid.count,
                         o->valid ? "" : ", a larger valid_fraction, or 0 for no validation");
    return QKV_OK;
}

static enum qkv_status dataset_text_open(struct qkv_trainer *t) {
    const struct qkv_train_options *o = &t->options;
    t->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    struct text data = {t->data_path, &t->facts.data_files, &t->facts.data};
    struct text valid = {t->valid_path, &t->facts.valid_files, &t->facts.valid};
    enum qkv_status status = open_tokens(t, &data, &t->windows.data_tokens);
    if (!status && o->valid) status = open_tokens(t, &valid, &t->windows.valid_tokens);
    return status ? status : dataset_text_split(t);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Row `at` of the buffers as the options want it. */
static void text_row(struct qkv_trainer *t, size_t at, int32_t prefix) {
    int32_t *targets = t->rows.targets + at * t->T;
    if (t->rows.documents)
        qkv_row_documents(qkv_document_end(qkv_model_tokenizer(t->model)), t->T, t->rows.ids + at * t->T, targets,
                          t->rows.documents + at * t->T);
    if (!t->rows.prefix) return;
    t->rows.prefix[at] = prefix;
    qkv_row_ignore_prefix(prefix, t->T, targets);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

static double dataset_text_epoch(const struct qkv_trainer *t) {
    return (double)t->windows.train.count / ((double)t->options.batch * (double)t->T);
}

static uint64_t dataset_text_total(struct qkv_trainer *t, uint64_t step) {
    return (step + 1) * (uint64_t)t->options.batch * t->T;
}

static enum qkv_status dataset_text_fill(struct qkv_trainer *t, uint64_t step, size_t begin, size_t end,
                                         struct qkv_batch *batch) {
    enum qkv_status status = QKV_OK;
    const struct qkv_train_options *o = &t->options;
    const uint64_t seed = (uint64_t)o->seed;
    const struct qkv_masking masking = qkv_masking_of(o, qkv_model_tokenizer(t->model));
    const bool masks = qkv_task_masks(o);
    for (size_t r = begin; r < end && !status; r++) {
        size_t start = qkv_draw_window(seed, step, r, t->windows.train.count - t->T);
        size_t at = (r - begin) * t->T;
        status = qkv_tokens_window(t->ctx, &t->windows.train, start, t->T, t->rows.ids + at, t->rows.targets + at);
        if (status) return status;
        text_row(t, r - begin, o->prefix ? qkv_row_prefix(o, step, r, t->T) : 0);
        if (!masks) continue;
        struct qkv_random random = qkv_draw_masks(seed, step, r);
        qkv_mask_row(&masking, &random, t->T, t->rows.ids + at, t->rows.targets + at);
    }
    batch->B = end - begin;
    batch->T = t->T;
    batch->documents = t->rows.documents;
    batch->prefix = t->rows.prefix;
    return status;
}

/* Where not all targets count, those of all rows are counted by making each of them once. */
static enum qkv_status dataset_text_begin(struct qkv_trainer *t, uint64_t step, struct qkv_dataset_step *out) {
    const size_t rows = (size_t)t->options.batch;
    const bool masks = qkv_task_masks(&t->options);
    struct qkv_batch batch;
    enum qkv_status status = QKV_OK;
    *out = (struct qkv_dataset_step){.rows = rows, .targets = rows * t->T, .tokens = rows * t->T};
    if (!masks && !t->rows.documents && !t->rows.prefix) return QKV_OK;
    out->targets = 0;
    for (size_t r = 0; r < out->rows && !status; r++) {
        status = dataset_text_fill(t, step, r, r + 1, &batch);
        for (size_t i = 0; i < t->T && !status; i++) out->targets += t->rows.targets[i] != QKV_IGNORE;
    }
    /* documents of nothing but their end: no loss, and no gradient */
    if (!masks && !out->targets) out->targets = 1;
    return status;
}

enum qkv_status qkv_text_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                               const struct qkv_spec *spec) {
    if (qkv_task_masks(options)) return qkv_masking_check(ctx, spec);
    enum qkv_status status = qkv_text_model_check(ctx, spec);
    return status ? status : qkv_prefix_check(ctx, options, spec);
}

static enum qkv_status dataset_text_validate(struct qkv_trainer *t, double *loss, double *metric) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(t->model);
    const struct qkv_masking masking = qkv_masking_of(&t->options, tokenizer);
    size_t windows;
    qkv_multiply((size_t)t->options.eval_batches, (size_t)t->options.batch, &windows); /* SIZE_MAX: the whole text */
    struct qkv_validation validation = {.pass = t->validation_pass,
                                        .tokens = &t->windows.valid,
                                        .B = t->B,
                                        .T = t->T,
                                        .windows = windows,
                                        .ids = t->rows.ids,
                                        .targets = t->rows.targets,
                                        .masking = qkv_task_masks(&t->options) ? &masking : NULL,
                                        .documents = t->rows.documents,
                                        .end = qkv_document_end(tokenizer),
                                        .prefix = t->rows.prefix,
                                        .options = &t->options,
                                        .seed = (uint64_t)t->options.seed};
    enum qkv_status status = qkv_validate(t->ctx, &validation, t->progress, t->user, loss);
    *metric = *loss;
    return status;
}

const struct qkv_dataset qkv_dataset_data = {
    QKV_DATASET_OPTION(data),
    .noun = "a text",
    .nouns = "texts",
    .reads = QKV_READS_TEXT,
    .tasks = QKV_TASKS_TEXT,
    .tokenizers = 1,
    .check = qkv_text_check,
    .prepare = dataset_text_prepare,
    .restore = qkv_text_restore,
    .open = dataset_text_open,
    .begin = dataset_text_begin,
    .fill = dataset_text_fill,
    .epoch = dataset_text_epoch,
    .total = dataset_text_total,
    .validate = dataset_text_validate,
};
