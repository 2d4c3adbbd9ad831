/* Evaluation of a model on what a run validates on: the files of its option valid are read again, as qkv_evaluate_text
 * reads them; of a part that is held out the tokens of the run are evaluated. */
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "model/spec.h"
#include "text/text.h"
#include "train/evaluator.h"
#include "train/train.h"

struct evaluated_run {
    struct qkv_train_options options;
    struct qkv_run_facts facts;
    struct qkv_data data;
};

/* ---- the run and its tokenizer ----------------------------------------------------------------------------------- */

static enum qkv_status run_print_tokenizer(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer,
                                           struct qkv_buffer *text) {
    enum qkv_status status = qkv_tokenizer_print(ctx, tokenizer, text);
    for (int role = 0; role < QKV_TOKEN_ROLES && !status; role++)
        status = qkv_buffer_print(ctx, text, "\nrole %d: %d", role,
                                  qkv_tokenizer_role(tokenizer, (enum qkv_token_role)role));
    return status;
}

/* The tokens of a run mean something only to a model that has its tokenizer. */
static enum qkv_status run_check_tokenizer(struct qkv_evaluator *e, const char *folder,
                                           const struct qkv_run_facts *facts) {
    struct qkv_tokenizer *own = NULL;
    struct qkv_buffer model = {0}, run = {0};
    enum qkv_status status = qkv_tokenizer_return(e->ctx, folder, QKV_TOKENIZER_FILE, &facts->texts.data, &own);
    if (!status) status = run_print_tokenizer(e->ctx, e->tokenizer, &model);
    if (!status) status = run_print_tokenizer(e->ctx, own, &run);
    if (!status && (model.size != run.size || memcmp(model.data, run.data, run.size) != 0))
        status = qkv_fail(e->ctx, QKV_ARGUMENT,
                          "the model's tokenizer is not that of the run %s, so the tokens of the run are not those of "
                          "the model; name a text instead",
                          folder);
    qkv_tokenizer_free(own);
    qkv_buffer_free(&model);
    qkv_buffer_free(&run);
    return status;
}

static enum qkv_status run_read(struct qkv_evaluator *e, const char *folder, struct evaluated_run *r) {
    enum qkv_status status = qkv_train_json_read(e->ctx, folder, &r->options, &r->facts);
    if (status) return status;
    const struct qkv_dataset *dataset = qkv_dataset_of(&r->options);
    if (dataset->reads != QKV_READS_TEXT || !qkv_train_validates(&r->options))
        return qkv_fail(e->ctx, QKV_ARGUMENT, "the run %s has no part of a text to validate on; name a text instead",
                        folder);
    if (r->facts.texts.data.vocab > (uint64_t)qkv_model_spec(e->model)->vocab)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "the tokens of the run %s are of a vocabulary of %llu, but the model's "
                        "is %d; name a text instead",
                        folder, (unsigned long long)r->facts.texts.data.vocab, qkv_model_spec(e->model)->vocab);
    return run_check_tokenizer(e, folder, &r->facts);
}

/* ---- files to validate on ---------------------------------------------------------------------------------------- */

static enum qkv_status run_changed(const struct qkv_evaluator *e, const struct qkv_text_file *then) {
    return qkv_fail(e->ctx, QKV_FORMAT,
                    "%s has changed since the run began, which validated on %llu other bytes; restore it, or evaluate "
                    "the model on it as a text",
                    then->path, (unsigned long long)then->bytes);
}

/* Reads the files as training does; they have to be those that the run has read. */
static enum qkv_status run_read_files(struct qkv_evaluator *e, const struct evaluated_run *r, qkv_progress *progress,
                                      void *user) {
    const struct qkv_text_files *then = &r->facts.texts.valid_files;
    struct stat info;
    enum qkv_status status = qkv_text_files_copy(e->ctx, then, &e->files);
    if (status) return status;
    if (qkv_dataset_of(&r->options)->weighs)
        e->key = r->options.text_key && *r->options.text_key ? r->options.text_key : QKV_TEXT_KEY;
    e->skip_bad = r->options.skip_bad;
    e->total = (double)qkv_text_files_size(then);
    qkv_text_files_name(then, e->name);
    for (size_t i = 0; i < then->count; i++)
        if (stat(then->items[i].path, &info) == 0 && (uint64_t)info.st_size != then->items[i].bytes)
            return run_changed(e, &then->items[i]);
    status = qkv_evaluator_read(e, progress, user);
    for (size_t i = 0; i < then->count && !status; i++)
        if (e->files.items[i].hash != then->items[i].hash) status = run_changed(e, &then->items[i]);
    return status;
}

/* ---- a part that is held out ------------------------------------------------------------------------------------- */

/* Opens the tokens of the run. With windows of one token a part of any size will do. */
static enum qkv_status run_open(struct qkv_evaluator *e, const char *folder, struct evaluated_run *r) {
    struct qkv_data *d = &r->data;
    *d = (struct qkv_data){.ctx = e->ctx,
                           .dataset = qkv_dataset_of(&r->options),
                           .options = &r->options,
                           .facts = &r->facts.texts,
                           .model = e->model,
                           .T = 1};
    enum qkv_status status = qkv_data_begin(d, folder);
    return status ? status : d->dataset->open(d);
}

static enum qkv_status run_read_tokens(struct qkv_evaluator *e, const char *folder, struct evaluated_run *r,
                                       qkv_progress *progress, void *user) {
    enum { PIECE = 1024 };
    int32_t ids[PIECE];
    size_t bytes[PIECE];
    const struct qkv_tokens *tokens = &r->data.windows.valid;
    snprintf(e->name, sizeof e->name, "the validation part of %.480s", folder);
    enum qkv_status status = run_open(e, folder, r);
    if (status) return status;
    e->total = (double)tokens->count;
    for (size_t at = 0, n; at < tokens->count && !status; at += n) {
        n = qkv_min(tokens->count - at, PIECE);
        const struct qkv_text_tokens piece = {.ids = ids, .bytes = bytes, .count = n};
        status = qkv_tokens_read(tokens, at, n, ids);
        for (size_t i = 0; i < n && !status; i++) bytes[i] = qkv_text_token_bytes(e->tokenizer, ids[i]);
        if (!status) status = qkv_evaluator_feed(e, &piece, (double)at, progress, user);
    }
    if (!status && e->held > 1) status = qkv_evaluator_flush(e);
    if (e->unknown) e->bytes = 0; /* nothing says what they stood for */
    return status;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static void run_close(struct evaluated_run *r) {
    qkv_data_free(&r->data);
    qkv_train_release(&r->options);
    qkv_data_facts_free(&r->facts.texts);
    qkv_seams_free(&r->facts.seams);
}

enum qkv_status qkv_evaluate_run(struct qkv_model *model, const char *folder,
                                 const struct qkv_evaluate_options *options, qkv_progress *progress, void *user,
                                 struct qkv_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, folder);
    QKV_NEED(qkv_call, evaluation);
    struct qkv_evaluator e = {.model = model};
    struct evaluated_run *r = qkv_allocate(qkv_model_context(model), 1, sizeof *r);
    const double started = qkv_clock();
    *evaluation = (struct qkv_evaluation){0};
    if (!r) return QKV_MEMORY;
    e.sum.share.alone = true;
    enum qkv_status status = qkv_evaluator_begin(&e, options);
    const struct qkv_communicator ranks = e.ctx->ranks; /* no other rank follows */
    e.ctx->ranks = qkv_communicator_defaults();
    if (!status) status = run_read(&e, folder, r);
    if (!status)
        status =
            r->options.valid ? run_read_files(&e, r, progress, user) : run_read_tokens(&e, folder, r, progress, user);
    if (!status) status = qkv_evaluator_report(&e, evaluation);
    e.ctx->ranks = ranks;
    evaluation->seconds = qkv_clock() - started;
    run_close(r);
    free(r);
    qkv_evaluator_end(&e);
    return status;
}
