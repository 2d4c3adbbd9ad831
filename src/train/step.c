/* The step of training: a batch, forward and backward over its parts, the sum of their gradients, clipping (Pascanu et
 * al. 2013: gradients times clip/norm where norm > clip), the update. Evaluation, log and checkpoint follow in
 * trainer.c. */
#include <math.h>

#include "base/math.h"
#include "base/profile.h"
#include "model/model.h"
#include "op/builders.h"
#include "train/train.h"

/* A step of the optimizer. */
struct step {
    uint64_t number;               /* of steps done before it */
    struct qkv_dataset_step batch; /* its rows */
    struct qkv_parts parts;        /* the part in work */
    struct qkv_rank_share share;   /* the groups that this rank makes, as nodes of the tree */
    size_t node;                   /* of the share: the one in work */
    struct qkv_pass_part part;     /* what the pass knows of the part, until backward is done */
    double losses[QKV_GROUPS_MAX]; /* of groups */
    double loss, norm, scale;      /* scale: of the gradients, for clipping */
};

enum qkv_status qkv_trainer_fail_number(struct qkv_trainer *t, int64_t step, const char *what) {
    t->failed = true;
    return qkv_fail(
        t->ctx, QKV_NUMBER,
        "step %lld: the %s%s is not a finite number, so training cannot go on; start again with a lower rate (now "
        "%g) or a longer warmup (now %lld); the checkpoint of step %lld in %s is whole",
        (long long)step, what, t->blame, t->options.rate, (long long)t->options.warmup, (long long)t->saved_step,
        t->folder);
}

/* A lap over `floats` of every parameter's. */
static void step_lap(struct qkv_trainer *t, const char *name, double floats) {
    qkv_profile_lap(t->ctx, name, QKV_PROFILE_WHOLE, 0, floats * sizeof(float) * (double)t->model->weights.floats);
}

static bool step_ranks(const struct qkv_trainer *t) {
    return qkv_context_ranks(t->ctx) > 1;
}

/* The batch, and the parts in which it goes through the pass. With several ranks all of this happens after a failure,
 * too: the others wait for the sums. */
static enum qkv_status step_batch(struct qkv_trainer *t, struct step *s) {
    const struct qkv_train_options *o = &t->options;
    enum qkv_status status = t->data.dataset->begin(&t->data, s->number, &s->batch);
    const size_t rows = s->batch.rows;
    s->parts = qkv_parts_of(o, rows);
    s->share = qkv_rank_share_of(t->ctx, o, rows, qkv_context_rank(t->ctx));
    step_lap(t, "data", 0);
    if (t->model->dirty) qkv_model_clear_gradients(t->model); /* a step was begun and not ended */
    s->parts.several |= step_ranks(t) && s->parts.groups > 1;
    qkv_part_sums_begin(&t->sums, &s->parts);
    qkv_rank_sums_begin(&t->rank_sums, o, rows);
    if (s->share.count && step_ranks(t)) s->parts = qkv_parts_of_node(o, rows, &s->share, 0);
    return status;
}

/* Goes to the next part of this rank's groups, node by node of the tree. */
static bool step_next(struct qkv_trainer *t, struct step *s) {
    if (!step_ranks(t)) return qkv_parts_next(&s->parts);
    while (s->node < s->share.count) {
        if (qkv_parts_next(&s->parts)) return true;
        qkv_rank_sums_keep(&t->rank_sums, &s->share, s->node++);
        if (s->node < s->share.count) s->parts = qkv_parts_of_node(&t->options, s->batch.rows, &s->share, s->node);
    }
    return false;
}

/* Counts the sequences of rows that have several. */
static void step_widen(struct qkv_pass_part *part, size_t sequences) {
    for (size_t i = 0; i <= part->groups; i++) part->first[i] *= sequences;
    part->first_row *= sequences;
}

/* Forward over the rows of a part; the pass knows which groups they are. */
static enum qkv_status step_forward(struct qkv_trainer *t, struct step *s) {
    const struct qkv_train_options *o = &t->options;
    const size_t sequences = qkv_max(t->data.dataset->sequences, 1);
    struct qkv_batch rows = {.ids = t->data.rows.ids,
                             .targets = t->data.rows.targets,
                             .loss_count = s->batch.targets,
                             .loss_sequences = s->batch.rows * sequences,
                             .label_smoothing = o->label_smoothing};
    size_t counted;
    rows.dropout_seed = qkv_draw_dropout((uint64_t)o->seed, s->number, s->parts.groups ? 0 : s->parts.count - 1);
    if (s->parts.groups) qkv_parts_tell(&s->parts, s->losses, &s->part);
    if (s->parts.groups) step_widen(&s->part, sequences);
    qkv_pass_set_part(t->pass, s->parts.groups ? &s->part : NULL);
    qkv_part_sums_next(&t->sums, &s->parts);
    qkv_rank_sums_part(&t->rank_sums, &s->parts, s->node, t->pass);
    enum qkv_status status = t->data.dataset->fill(&t->data, s->number, s->parts.begin, s->parts.end, &rows);
    step_lap(t, "data", 0);
    struct qkv_loss_rows loss_rows = t->data.loss_rows ? *t->data.loss_rows : (struct qkv_loss_rows){0};
    if (!status) status = qkv_teacher_read(t, &rows, &loss_rows);
    qkv_pass_set_loss_rows(t->pass, &loss_rows);
    if (!status) status = qkv_pass_forward(t->pass, &rows);
    if (status == QKV_NUMBER) qkv_fail_at(t->ctx, "step %lld", (long long)t->report.step + 1);
    if (!status) s->loss += qkv_pass_loss(t->pass, &counted);
    return status;
}

/* The sum of the gradients and losses of all parts, and of all ranks, which wait for it, whatever has failed here. */
static enum qkv_status step_sum(struct qkv_trainer *t, struct step *s, enum qkv_status status) {
    const size_t rows = s->batch.rows;
    const enum qkv_status lost = qkv_rank_sums_end(&t->rank_sums);
    status = qkv_rank_settle(&t->rank_sums, t->model, &t->options, lost ? lost : status, rows, s->losses);
    if (!status) status = qkv_rank_loads(t->model);
    if (step_ranks(t)) step_lap(t, "ranks", 1);
    if (s->parts.groups) s->loss = qkv_parts_loss(&s->parts, s->losses) / (double)s->batch.targets;
    if (status || isfinite(s->loss)) return status;
    qkv_rank_blame_losses(t->ctx, &t->options, rows, s->losses, t->blame);
    return qkv_trainer_fail_number(t, t->report.step + 1, "loss");
}

/* The norm of all gradients, and what they are multiplied by. */
static enum qkv_status step_clip(struct qkv_trainer *t, struct step *s) {
    const double limit = t->options.clip;
    enum qkv_status status = qkv_rank_norm(t->model, &s->norm);
    step_lap(t, "gradient norm", 1);
    if (!status && !isfinite(s->norm))
        status = qkv_rank_blame_norm(&t->rank_sums, t->model, &t->options, s->batch.rows, t->blame);
    if (status) return status;
    if (!isfinite(s->norm)) return qkv_trainer_fail_number(t, t->report.step + 1, "norm of the gradients");
    s->scale = limit > 0 && s->norm > limit ? limit / s->norm : 1;
    return QKV_OK;
}

static double step_rate(const struct qkv_trainer *t) {
    const int64_t s = t->report.step, last = t->rates.steps - 1;
    if (!t->rates.steps) return qkv_learning_rate(&t->options, &t->facts.seams, s);
    return t->rates.low * qkv_pow(t->rates.high / t->rates.low, qkv_fmin(1, (double)s / (double)last));
}

static enum qkv_status step_update(struct qkv_trainer *t, const struct step *s) {
    const double rate = step_rate(t);
    enum qkv_status status = qkv_optimizer_step(t->optimizer, rate, s->scale);
    if (status) return status;
    qkv_loads_take(t);
    step_lap(t, "optimizer", (double)(2 + 2 * qkv_optimizer_moments(t->optimizer) + 2));
    t->report.step++;
    t->report.loss = s->loss;
    t->report.norm = s->norm;
    t->report.rate = rate;
    t->pending = true;
    return QKV_OK;
}

static enum qkv_status step_run(struct qkv_trainer *t, struct step *s) {
    enum qkv_status status = step_batch(t, s);
    while (!status && step_next(t, s)) {
        status = step_forward(t, s);
        if (!status) status = qkv_pass_backward(t->pass);
        if (!status) status = qkv_part_sums_end(&t->sums, &s->parts);
    }
    status = step_sum(t, s, status);
    if (!status) status = step_clip(t, s);
    return status ? status : step_update(t, s);
}

enum qkv_status qkv_trainer_learn(struct qkv_trainer *t) {
    struct step step = {.number = (uint64_t)t->report.step};
    const double started = qkv_clock();
    t->ctx->profile = t->profile;
    if (t->profile) qkv_profile_start(t->profile);
    enum qkv_status status = step_run(t, &step);
    t->ctx->profile = NULL;
    if (status) return status;
    const double seconds = qkv_clock() - started;
    t->report.tokens_per_second = (double)step.batch.tokens / (seconds > 1e-9 ? seconds : 1e-9);
    t->report.flops_share = t->peak > 0 ? t->train_flops * t->report.tokens_per_second / t->peak : 0;
    t->profiled++;
    return QKV_OK;
}
