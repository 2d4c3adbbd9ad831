/* The trainer's step. The order within one: forward and backward over the parts of the batch, clipping (Pascanu et al.
 * 2013: gradients times clip/norm where norm > clip), the update, then what falls due: evaluation, the log's line, the
 * checkpoint. The line is written before the checkpoint, so a killed run may have lines too many but never too few. */
#include <math.h>
#include <string.h>

#include "base/profile.h"
#include "model/model.h"
#include "train/train.h"

/* ---- the update ------------------------------------------------------------------------------------------------- */

static enum qkv_status fail_number(struct qkv_trainer *t, int64_t step, const char *what) {
    t->failed = true;
    return qkv_fail(
        t->ctx, QKV_NUMBER,
        "step %lld: the %s%s is not a finite number, so training cannot go on; start again with a lower rate (now "
        "%g) or a longer warmup (now %lld); the checkpoint of step %lld in %s is whole",
        (long long)step, what, t->blame, t->options.rate, (long long)t->options.warmup, (long long)t->saved_step,
        t->folder);
}

/* A lap over `floats` of every parameter's. */
static void trainer_lap(struct qkv_trainer *t, const char *name, double floats) {
    qkv_profile_lap(t->ctx, name, QKV_PROFILE_WHOLE, 0, floats * sizeof(float) * (double)t->model->weights.floats);
}

/* Goes to the next part of this rank's groups, node by node of the tree. */
static bool trainer_next(struct qkv_trainer *t, struct qkv_parts *parts, const struct qkv_rank_share *share,
                         size_t *node, size_t rows) {
    if (qkv_context_ranks(t->ctx) == 1) return qkv_parts_next(parts);
    while (*node < share->count) {
        if (qkv_parts_next(parts)) return true;
        qkv_rank_sums_keep(&t->rank_sums, share, (*node)++);
        if (*node < share->count) *parts = qkv_parts_of_node(&t->options, rows, share, *node);
    }
    return false;
}

/* Forward and backward over the whole batch, part by part. */
static enum qkv_status trainer_pass(struct qkv_trainer *t, struct qkv_dataset_step *step, double *loss) {
    const struct qkv_train_options *o = &t->options;
    uint64_t s = (uint64_t)t->report.step;
    enum qkv_status status = t->dataset->begin(t, s, step);
    struct qkv_parts parts = qkv_parts_of(o, step->rows);
    struct qkv_rank_share share = qkv_rank_share_of(t->ctx, o, step->rows, qkv_context_rank(t->ctx));
    struct qkv_pass_part part;
    double losses[QKV_GROUPS_MAX] = {0};
    size_t counted, node = 0;
    const bool several = qkv_context_ranks(t->ctx) > 1;
    trainer_lap(t, "data", 0);
    if (t->model->dirty) qkv_model_clear_gradients(t->model); /* a step was begun and not ended */
    parts.several |= several && parts.groups > 1;
    qkv_part_sums_begin(&t->sums, &parts);
    qkv_rank_sums_begin(&t->rank_sums, o, step->rows);
    if (share.count && several) parts = qkv_parts_of_node(o, step->rows, &share, 0);
    while (!status && trainer_next(t, &parts, &share, &node, step->rows)) {
        struct qkv_batch batch = {
            .ids = t->rows.ids, .targets = t->rows.targets, .loss_count = step->targets, .loss_sequences = step->rows};
        batch.label_smoothing = o->label_smoothing;
        batch.dropout_seed = qkv_draw_dropout((uint64_t)o->seed, s, parts.groups ? 0 : parts.count - 1);
        if (parts.groups) qkv_parts_tell(&parts, losses, &part);
        qkv_pass_set_part(t->pass, parts.groups ? &part : NULL);
        qkv_part_sums_next(&t->sums, &parts);
        qkv_rank_sums_part(&t->rank_sums, &parts, node, t->pass);
        status = t->dataset->fill(t, s, parts.begin, parts.end, &batch);
        trainer_lap(t, "data", 0);
        if (!status) status = qkv_pass_forward(t->pass, &batch);
        if (status == QKV_NUMBER) qkv_fail_at(t->ctx, "step %lld", (long long)t->report.step + 1);
        if (!status) *loss += qkv_pass_loss(t->pass, &counted);
        if (!status) status = qkv_pass_backward(t->pass);
        if (!status) status = qkv_part_sums_end(&t->sums, &parts);
    }
    const enum qkv_status lost = qkv_rank_sums_end(&t->rank_sums); /* others wait for them, whatever has failed here */
    status = qkv_rank_settle(t, lost ? lost : status, step->rows, losses);
    if (!status) status = qkv_rank_loads(t->model);
    if (several) trainer_lap(t, "ranks", 1);
    if (parts.groups) *loss = qkv_parts_loss(&parts, losses) / (double)step->targets;
    if (!status && !isfinite(*loss)) qkv_rank_blame_losses(t, step->rows, losses);
    return status;
}

/* Clips the gradients of a batch and moves the weights. */
static enum qkv_status trainer_update(struct qkv_trainer *t, size_t rows, double loss) {
    const struct qkv_train_options *o = &t->options;
    int64_t step = t->report.step + 1;
    if (!isfinite(loss)) return fail_number(t, step, "loss");
    const double rate = qkv_learning_rate(o, &t->facts.seams, t->report.step);
    double norm;
    enum qkv_status status = qkv_rank_norm(t->model, &norm);
    trainer_lap(t, "gradient norm", 1);
    if (!status && !isfinite(norm)) status = qkv_rank_blame_norm(t, rows);
    if (status) return status;
    if (!isfinite(norm)) return fail_number(t, step, "norm of the gradients");
    status = qkv_optimizer_step(t->optimizer, rate, o->clip > 0 && norm > o->clip ? o->clip / norm : 1);
    if (status) return status;
    qkv_loads_take(t);
    trainer_lap(t, "optimizer", (double)(2 + 2 * qkv_optimizer_moments(t->optimizer) + 2));
    t->report.step = step;
    t->report.loss = loss;
    t->report.norm = norm;
    t->report.rate = rate;
    t->pending = true;
    return QKV_OK;
}

/* One step of the optimizer, its time counted where that was asked for. */
static enum qkv_status trainer_learn(struct qkv_trainer *t) {
    struct qkv_dataset_step step = {0};
    double started = qkv_clock(), loss = 0;
    t->ctx->profile = t->profile;
    if (t->profile) qkv_profile_start(t->profile);
    enum qkv_status status = trainer_pass(t, &step, &loss);
    if (!status) status = trainer_update(t, step.rows, loss);
    t->ctx->profile = NULL;
    if (status) return status;
    double seconds = qkv_clock() - started;
    t->report.tokens_per_second = (double)step.tokens / (seconds > 1e-9 ? seconds : 1e-9);
    t->report.flops_share = t->peak > 0 ? t->train_flops * t->report.tokens_per_second / t->peak : 0;
    t->profiled++;
    return QKV_OK;
}

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

/* ---- what falls due --------------------------------------------------------------------------------------------- */

static bool falls_due(const struct qkv_trainer *t, int64_t every) {
    return t->report.step >= t->options.steps || qkv_trainer_ended(t) || (every > 0 && t->report.step % every == 0);
}

/* Writes the files of the run: rank 0. */
static bool trainer_leads(const struct qkv_trainer *t) {
    return qkv_context_rank(t->ctx) == 0;
}

static enum qkv_status trainer_evaluate(struct qkv_trainer *t) {
    double found[3] = {0}, loss, metric; /* by rank 0: and whether it is the best */
    enum qkv_status status = trainer_leads(t) ? t->dataset->validate(t, &found[0], &found[1]) : QKV_OK;
    found[2] = qkv_metric_better(t->metric, found[1], t->report.best_metric);
    status = qkv_rank_agree(t->ctx, status);
    if (!status) status = qkv_rank_broadcast(t->ctx, found, sizeof found);
    if (status) return status;
    loss = found[0];
    metric = found[1];
    if (!isfinite(loss)) return fail_number(t, t->report.step, "validation loss");
    const bool best = found[2] > 0;
    if (best) status = qkv_rank_save_model(t);
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
    return qkv_log_write(t->ctx, &t->log, &line, t->dataset->total(t, (uint64_t)t->report.step - 1));
}

/* The checkpoint and the model, by all ranks; what else there is by rank 0. */
static enum qkv_status trainer_write(struct qkv_trainer *t) {
    const bool leads = trainer_leads(t);
    /* Until an evaluation has chosen the best weights, the model in the folder is the latest. */
    bool latest = isnan(t->report.best_loss); /* as rank 0 has it, who alone knows whether the model is there */
    enum qkv_status status = qkv_rank_agree(t->ctx, leads ? qkv_log_sync(t->ctx, &t->log) : QKV_OK);
    if (!status) status = qkv_checkpoint_write(t);
    if (!status) status = qkv_rank_broadcast(t->ctx, &latest, sizeof latest);
    if (!status && latest) status = qkv_rank_save_model(t);
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
    if (qkv_trainer_validates(t) && falls_due(t, t->options.eval_every)) status = trainer_evaluate(t);
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
        status = trainer_learn(t);
    if (!status && t->pending) status = trainer_conclude(t);
    if (status) qkv_state_failed(t, status);
    t->report.ended = !status && qkv_trainer_ended(t);
    t->report.steps = t->report.ended ? t->report.step : t->options.steps;
    t->report.metric_name = t->options.metric;
    t->report.seconds = qkv_clock() - t->started;
    if (report) *report = t->report;
    return status;
}

/* ---- notes ------------------------------------------------------------------------------------------------------ */

/* ---- looking at it ---------------------------------------------------------------------------------------------- */

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
    const struct qkv_text_files *files = &trainer->facts.data_files;
    bool valid = i >= files->count;
    if (valid) {
        i -= files->count;
        files = &trainer->facts.valid_files;
    }
    if (i >= files->count) return false;
    const struct qkv_text_file *f = &files->items[i];
    *file = (struct qkv_train_file){f->path, valid, f->bytes, f->hash, f->tokens, f->lines, f->held_out};
    return true;
}

size_t qkv_trainer_lines(const struct qkv_trainer *trainer, size_t *valid) {
    if (!trainer) return 0;
    size_t kept, count;
    if (trainer->examples) {
        count = qkv_example_data_counts(trainer, &kept);
        if (valid) *valid = kept;
        return count;
    }
    if (valid) *valid = trainer->lines.valid_batches.examples;
    return trainer->lines.batches.examples;
}

static size_t batch_tokens(const struct qkv_batches *batches) {
    size_t tokens = 0;
    for (size_t i = 0; i < batches->count; i++) tokens += (size_t)batches->tokens[i];
    return tokens;
}

size_t qkv_trainer_tokens(const struct qkv_trainer *trainer, size_t *valid) {
    if (!trainer) return 0;
    bool lines = trainer->lines.batches.count > 0;
    size_t kept, count;
    if (trainer->examples) {
        count = qkv_example_data_counts(trainer, &kept);
        if (valid) *valid = kept * trainer->T;
        return count * trainer->T;
    }
    if (valid) *valid = lines ? batch_tokens(&trainer->lines.valid_batches) : trainer->windows.valid.count;
    return lines ? batch_tokens(&trainer->lines.batches) : trainer->windows.train.count;
}

size_t qkv_trainer_bytes(const struct qkv_trainer *trainer) {
    if (!trainer) return 0;
    const struct qkv_trainer *t = trainer;
    size_t bytes = qkv_optimizer_bytes(t->optimizer) + qkv_pass_bytes(t->pass);
    bytes += (2 * t->rows.positions + t->rows.source_positions + 2 * t->B) * sizeof(int32_t);
    bytes += ((t->rows.documents ? t->rows.positions : 0) + (t->rows.types ? t->rows.positions : 0) +
              (t->rows.prefix ? t->B : 0)) *
             sizeof(int32_t);
    bytes += t->sums.arena.peak + t->rank_sums.arena.capacity + qkv_lines_bytes(t);
    if (t->validation_pass) bytes += qkv_pass_bytes(t->validation_pass);
    return bytes + qkv_model_bytes(t->model);
}
