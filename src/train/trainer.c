/* A trainer between two steps: what falls due after a step (step.c), evaluation, the log's line, the checkpoint; and
 * what may be known of it. The line is written before the checkpoint, so a killed run may have lines too many but never
 * too few. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/profile.h"
#include "model/model.h"
#include "train/train.h"

/* ---- what falls due --------------------------------------------------------------------------------------------- */

static bool falls_due(const struct qkv_trainer *t, int64_t every) {
    return t->report.step >= t->options.steps || qkv_trainer_ended(t) || (every > 0 && t->report.step % every == 0);
}

/* Writes the files of the run: rank 0. */
static bool trainer_leads(const struct qkv_trainer *t) {
    return qkv_context_rank(t->ctx) == 0;
}

/* The best model, or the latest, into the folder: by all ranks. Averages, if there are some, are in the place of the
 * weights then. */
static enum qkv_status trainer_save_model(struct qkv_trainer *t) {
    return qkv_rank_save_model(t->model, qkv_optimizer_masters(t->optimizer), t->folder);
}

/* Calls `work` with the averages in the place of the weights. */
static enum qkv_status trainer_with_average(struct qkv_trainer *t, enum qkv_status (*work)(struct qkv_trainer *)) {
    enum qkv_status status = qkv_optimizer_average(t->optimizer), back;
    if (!status) status = work(t);
    back = qkv_optimizer_average(t->optimizer);
    return status ? status : back;
}

static enum qkv_status trainer_evaluate(struct qkv_trainer *t) {
    double found[3] = {0}, loss, metric; /* by rank 0: and whether it is the best */
    enum qkv_status status = QKV_OK;
    if (trainer_leads(t)) status = t->data.dataset->validate(&t->data, t->validation_pass, &found[0], &found[1]);
    found[2] = qkv_metric_better(t->data.metric, found[1], t->report.best_metric);
    status = qkv_rank_agree(t->ctx, status);
    if (!status) status = qkv_rank_broadcast(t->ctx, found, sizeof found);
    if (status) return status;
    loss = found[0];
    metric = found[1];
    if (!isfinite(loss)) return qkv_trainer_fail_number(t, t->report.step, "validation loss");
    const bool best = found[2] > 0;
    if (best) status = trainer_save_model(t);
    status = qkv_rank_agree(t->ctx, status);
    if (status) return status;
    t->report.evaluated = true;
    t->report.valid_loss = loss;
    t->report.metric = metric;
    t->report.best = best;
    t->stale = best ? 0 : t->stale + 1;
    if (best) t->report.best_loss = loss;
    if (best) t->report.best_metric = metric;
    return QKV_OK;
}

static enum qkv_status write_line(struct qkv_trainer *t) {
    struct qkv_train_report line = t->report;
    line.seconds = t->earlier + qkv_clock() - t->started;
    line.metric_name = t->options.metric;
    return qkv_log_write(t->ctx, &t->log, &line, t->data.dataset->total(&t->data, (uint64_t)t->report.step - 1));
}

/* The checkpoint and the model, by all ranks; what else there is by rank 0. */
static enum qkv_status trainer_write(struct qkv_trainer *t) {
    const bool leads = trainer_leads(t);
    /* Until an evaluation has chosen the best weights, the model in the folder is the latest. */
    bool latest = isnan(t->report.best_loss); /* as rank 0 has it, who alone knows whether the model is there */
    enum qkv_status status = qkv_rank_agree(t->ctx, leads ? qkv_log_sync(t->ctx, &t->log) : QKV_OK);
    if (!status) status = qkv_checkpoint_write(t);
    if (!status) status = qkv_rank_broadcast(t->ctx, &latest, sizeof latest);
    if (!status && latest) status = trainer_with_average(t, trainer_save_model);
    return status || !leads ? status : qkv_state_saved(t);
}

enum qkv_status qkv_trainer_save(struct qkv_trainer *t) {
    QKV_CALL(t ? t->ctx : NULL);
    QKV_NEED(qkv_call, t);
    if (t->failed)
        return qkv_fail(t->ctx, QKV_NUMBER,
                        "nothing was saved, as training failed with numbers that are not finite; the "
                        "checkpoint of step %lld in %s is whole",
                        (long long)t->saved_step, t->folder);
    enum qkv_status status = qkv_rank_agree(t->ctx, trainer_write(t));
    if (!status) t->saved_step = t->report.step;
    return status;
}

/* What comes behind an update: evaluation, the line of the log, the checkpoint. */
static enum qkv_status trainer_conclude(struct qkv_trainer *t) {
    enum qkv_status status = QKV_OK;
    if (qkv_train_validates(&t->options) && falls_due(t, t->options.eval_every))
        status = trainer_with_average(t, trainer_evaluate);
    if (!status && trainer_leads(t)) status = write_line(t);
    status = qkv_rank_agree(t->ctx, status);
    if (status) return status;
    t->pending = false;
    if (!falls_due(t, t->options.save_every) && !qkv_checkpoint_due(t)) return QKV_OK;
    status = qkv_trainer_save(t);
    t->report.saved = !status;
    return status;
}

enum qkv_status qkv_trainer_step(struct qkv_trainer *trainer, struct qkv_train_report *report) {
    QKV_CALL(trainer ? trainer->ctx : NULL);
    QKV_NEED(qkv_call, trainer);
    struct qkv_trainer *t = trainer;
    bool learns = !t->pending && t->report.step < t->options.steps && !qkv_trainer_ended(t);
    enum qkv_status status = QKV_OK;
    t->report.evaluated = t->report.best = t->report.saved = false;
    if (t->failed)
        status = qkv_fail(t->ctx, QKV_NUMBER,
                          "training failed with numbers that are not finite; resume from the checkpoint "
                          "of step %lld in %s",
                          (long long)t->saved_step, t->folder);
    else if (learns)
        status = qkv_check_cancelled(t->ctx, "training");
    if (!status && learns) status = qkv_trainer_learn(t);
    if (!status && t->pending) status = trainer_conclude(t);
    if (status) qkv_state_failed(t, status);
    t->report.ended = !status && qkv_trainer_ended(t);
    t->report.steps = t->report.ended ? t->report.step : t->options.steps;
    t->report.metric_name = t->options.metric;
    t->report.seconds = qkv_clock() - t->started;
    if (report) *report = t->report;
    return status;
}

/* ---- looking at it ---------------------------------------------------------------------------------------------- */

enum qkv_status qkv_trainer_profile_start(struct qkv_trainer *t) {
    QKV_CALL(t ? t->ctx : NULL);
    QKV_NEED(qkv_call, t);
    if (!t->profile) t->profile = qkv_allocate(t->ctx, 1, sizeof *t->profile);
    if (!t->profile) return QKV_MEMORY;
    t->profile->count = 0;
    t->profiled = 0;
    t->rank_sums.busy = t->rank_sums.hidden = 0;
    return QKV_OK;
}

struct qkv_profile_report qkv_trainer_profile(const struct qkv_trainer *t) {
    if (!t) return (struct qkv_profile_report){0};
    struct qkv_profile_report report = {.peak = t->peak};
    if (!t->profile) return report;
    report.steps = t->profiled;
    report.rows = t->profile->rows;
    report.count = t->profile->count;
    report.rank_seconds = t->rank_sums.busy;
    report.rank_hidden = t->rank_sums.hidden;
    for (size_t i = 0; i < report.count; i++) report.seconds += report.rows[i].seconds;
    return report;
}

enum qkv_status qkv_trainer_test_rates(struct qkv_trainer *t, double low, double high, int64_t steps) {
    QKV_CALL(t ? t->ctx : NULL);
    QKV_NEED(qkv_call, t);
    if (!(low > 0 && high > low && high <= FLT_MAX) || steps < 2 || t->report.step > 0)
        return qkv_fail(t->ctx, QKV_ARGUMENT,
                        "a test of rates has two or more steps before any other, and rates that grow from more than 0 "
                        "to at most 3.4e38");
    t->rates.low = low;
    t->rates.high = high;
    t->rates.steps = steps;
    return QKV_OK;
}

struct qkv_model *qkv_trainer_model(struct qkv_trainer *trainer) {
    if (!trainer) return NULL;
    return trainer->model;
}

const struct qkv_train_options *qkv_trainer_options(const struct qkv_trainer *trainer) {
    if (!trainer) return NULL;
    return &trainer->options;
}

bool qkv_trainer_file(const struct qkv_trainer *trainer, size_t i, struct qkv_train_file *file) {
    if (!trainer || !file) return false;
    const struct qkv_text_files *files = &trainer->facts.texts.data_files;
    bool valid = i >= files->count;
    if (valid) {
        i -= files->count;
        files = &trainer->facts.texts.valid_files;
    }
    if (i >= files->count) return false;
    const struct qkv_text_file *f = &files->items[i];
    *file = (struct qkv_train_file){f->path, valid, f->bytes, f->hash, f->tokens, f->lines, f->held_out};
    return true;
}

static struct qkv_data_counts trainer_counts(const struct qkv_trainer *t) {
    struct qkv_data_counts counts = {0};
    if (t && t->data.dataset) t->data.dataset->count(&t->data, &counts);
    return counts;
}

size_t qkv_trainer_lines(const struct qkv_trainer *trainer, size_t *valid) {
    const struct qkv_data_counts counts = trainer_counts(trainer);
    if (trainer && valid) *valid = counts.valid_examples;
    return counts.examples;
}

size_t qkv_trainer_tokens(const struct qkv_trainer *trainer, size_t *valid) {
    const struct qkv_data_counts counts = trainer_counts(trainer);
    if (trainer && valid) *valid = counts.valid_tokens;
    return counts.tokens;
}

size_t qkv_trainer_bytes(const struct qkv_trainer *trainer) {
    if (!trainer) return 0;
    const struct qkv_trainer *t = trainer;
    size_t bytes = qkv_optimizer_bytes(t->optimizer) + qkv_pass_bytes(t->pass) + qkv_data_bytes(&t->data);
    bytes += t->sums.arena.peak + t->rank_sums.arena.capacity;
    if (t->validation_pass) bytes += qkv_pass_bytes(t->validation_pass);
    if (t->model->adapter) bytes += qkv_weights_stored_bytes(qkv_model_base(t->model));
    return bytes + qkv_model_bytes(t->model);
}
