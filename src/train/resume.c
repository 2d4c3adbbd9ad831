/* Going on with a run: every file of the folder is read and checked against the others before the first step, so a run
 * goes on exactly as it was or not at all. A token file that is missing is made again from its text. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/train.h"

static enum qkv_status read_tokenizer(struct qkv_trainer *t, struct qkv_tokenizer **out) {
    char *path = qkv_join_path(t->ctx, t->folder, "tokenizer.json");
    uint64_t hash = 0;
    enum qkv_status status = path ? qkv_hash_file(t->ctx, path, &hash) : QKV_MEMORY;
    if (!status && hash != t->facts.data.tokenizer)
        status = qkv_fail(t->ctx, QKV_FORMAT,
                          "%s is not the tokenizer that this run was trained with; restore it, or start "
                          "a new run in another folder",
                          path);
    if (!status) status = qkv_tokenizer_load(t->ctx, path, out);
    free(path);
    return status;
}

static enum qkv_status read_model(struct qkv_trainer *t) {
    struct qkv_tokenizer *tokenizer = NULL;
    struct qkv_spec spec;
    char *path = qkv_join_path(t->ctx, t->folder, "config.json");
    enum qkv_status status = path ? qkv_spec_read(t->ctx, &spec, path, NULL, 0) : QKV_MEMORY;
    free(path);
    if (!status) status = qkv_text_model_check(t->ctx, &spec);
    if (!status) status = qkv_trainer_apply(t->ctx, &t->options, &spec);
    if (!status) status = read_tokenizer(t, &tokenizer);
    return status ? status : qkv_trainer_build(t, &spec, tokenizer);
}

/* Makes a missing token file again, if its text is still the one that the run began with. */
static enum qkv_status remake(struct qkv_trainer *t, const char *path, const char *text,
                              const struct qkv_text_facts *facts) {
    struct qkv_text_facts now = *facts;
    enum qkv_status status =
        qkv_tokens_write(t->ctx, path, text, qkv_model_tokenizer(t->model), &now, t->progress, t->user);
    if (status) {
        qkv_fail_at(t->ctx, "making %s again, which is missing", path);
        return status;
    }
    if (now.bytes == facts->bytes && now.hash == facts->hash && now.tokens == facts->tokens) return QKV_OK;
    unlink(path);
    return qkv_fail(t->ctx, QKV_FORMAT,
                    "%s is missing and %s has changed since the run began (%llu bytes then, %llu now); "
                    "restore one of them, or start a new run in another folder",
                    path, text, (unsigned long long)facts->bytes, (unsigned long long)now.bytes);
}

static enum qkv_status open_tokens(struct qkv_trainer *t, const char *path, const char *text,
                                   const struct qkv_text_facts *facts, struct qkv_tokens *tokens) {
    enum qkv_status status = qkv_file_exists(path) ? QKV_OK : remake(t, path, text, facts);
    return status ? status : qkv_tokens_open(t->ctx, path, facts, tokens);
}

static enum qkv_status read_texts(struct qkv_trainer *t) {
    enum qkv_status status = open_tokens(t, t->data_path, t->options.data, &t->facts.data, &t->data_tokens);
    if (!status && t->options.valid)
        status = open_tokens(t, t->valid_path, t->options.valid, &t->facts.valid, &t->valid_tokens);
    return status ? status : qkv_trainer_split(t);
}

/* A run that lost its best model chooses anew. */
static enum qkv_status check_best(struct qkv_trainer *t) {
    char *path = qkv_join_path(t->ctx, t->folder, "model.safetensors");
    if (!path) return QKV_MEMORY;
    if (!qkv_file_exists(path)) t->report.best_loss = NAN;
    free(path);
    return QKV_OK;
}

static enum qkv_status set_end(struct qkv_trainer *t, int64_t steps) {
    if (steps > 0 && steps < t->report.step)
        return qkv_fail(t->ctx, QKV_ARGUMENT, "steps is %lld but the run has done %lld already; choose more",
                        (long long)steps, (long long)t->report.step);
    if (steps <= 0 || steps == t->options.steps) return QKV_OK;
    t->options.steps = steps;
    enum qkv_status status = qkv_train_check(t->ctx, &t->options);
    return status ? status : qkv_train_json_write(t->ctx, t->folder, &t->options, &t->facts);
}

static enum qkv_status resume(struct qkv_trainer *t, int64_t steps) {
    enum qkv_status status = qkv_train_json_read(t->ctx, t->folder, &t->options, &t->facts);
    if (!status) status = qkv_log_open(t->ctx, &t->log, t->folder);
    if (!status) status = read_model(t);
    if (!status) status = qkv_checkpoint_read(t);
    if (!status) status = read_texts(t);
    if (!status) status = check_best(t);
    if (!status) status = set_end(t, steps);
    if (!status) status = qkv_log_cut(t->ctx, &t->log, t->pending ? t->report.step - 1 : t->report.step);
    t->report.steps = t->options.steps;
    return status;
}

enum qkv_status qkv_trainer_resume(struct qkv_context *ctx, const char *folder, int64_t steps, qkv_progress *progress,
                                   void *user, struct qkv_trainer **out) {
    struct qkv_trainer *t = NULL;
    *out = NULL;
    enum qkv_status status = qkv_trainer_begin(ctx, folder, progress, user, &t);
    if (!status) status = resume(t, steps);
    if (status) {
        qkv_trainer_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
