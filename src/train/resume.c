/* Going on with a run: every file of the folder is read and checked against the others before the first step, so a run
 * goes on exactly as it was or not at all. A token file that is missing is made again from its text. */
#include <math.h>
#include <stdlib.h>

#include "train/train.h"

static enum qkv_status read_model(struct qkv_trainer *t) {
    struct qkv_spec spec;
    char *path = qkv_join_path(t->ctx, t->folder, QKV_CONFIG_FILE);
    enum qkv_status status = path ? qkv_spec_read(t->ctx, &spec, path, NULL, 0) : QKV_MEMORY;
    free(path);
    if (!status) status = qkv_feed_check(t->ctx, &t->options, &spec);
    if (!status) status = qkv_trainer_apply(t->ctx, &t->options, &spec);
    if (!status) status = t->feed->restore(t);
    return status ? status : qkv_trainer_build(t, &spec);
}

/* A run that lost its best model chooses anew. */
static enum qkv_status check_best(struct qkv_trainer *t) {
    char *path = qkv_join_path(t->ctx, t->folder, QKV_WEIGHTS_FILE);
    if (!path) return QKV_MEMORY;
    if (!qkv_file_exists(path)) t->report.best_loss = t->report.best_metric = NAN;
    free(path);
    return QKV_OK;
}

static enum qkv_status set_end(struct qkv_trainer *t, int64_t steps) {
    if (steps > 0 && steps < t->report.step)
        return qkv_fail(t->ctx, QKV_ARGUMENT, "steps is %lld but the run has done %lld already; choose more",
                        (long long)steps, (long long)t->report.step);
    if (steps <= 0 || steps == t->options.steps) return QKV_OK;
    t->options.steps = steps;
    t->stale = 0; /* whoever asks for more steps has patience */
    enum qkv_status status = qkv_train_check(t->ctx, &t->options);
    return status ? status : qkv_train_json_write(t->ctx, t->folder, &t->options, &t->facts);
}

static enum qkv_status resume(struct qkv_trainer *t, int64_t steps) {
    enum qkv_status status = qkv_train_json_read(t->ctx, t->folder, &t->options, &t->facts);
    if (!status) status = qkv_train_precision(t->ctx, &t->options, false);
    t->feed = qkv_feed_choose(&t->options);
    if (!status) status = qkv_log_open(t->ctx, &t->log, t->folder);
    if (!status) status = read_model(t);
    if (!status) status = qkv_checkpoint_read(t);
    if (!status) status = check_best(t);
    if (!status) status = set_end(t, steps);
    if (!status) status = qkv_log_cut(t->ctx, &t->log, t->pending ? t->report.step - 1 : t->report.step);
    t->report.steps = t->options.steps;
    return status || t->report.step == 0 ? status : qkv_machine_note(t->ctx, t->folder, t->report.step);
}

enum qkv_status qkv_trainer_resume(struct qkv_context *ctx, const char *folder, int64_t steps, qkv_progress *progress,
                                   void *user, struct qkv_trainer **out) {
    QKV_CALL(ctx);
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
