/* Going on with a run: every file of the folder is read and checked against the others before the first step, so a run
 * goes on exactly as it was or not at all. A token file that is missing is made again from its text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "train/train.h"

/* A run that lost its best model chooses anew. */
static enum qkv_status check_best(struct qkv_trainer *t) {
    char *path = qkv_join_path(t->ctx, t->folder, t->options.lora ? QKV_ADAPTER_WEIGHTS_FILE : QKV_WEIGHTS_FILE);
    if (!path) return QKV_MEMORY;
    if (!qkv_file_exists(path)) t->report.best_loss = t->report.best_metric = NAN;
    free(path);
    return QKV_OK;
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static enum qkv_status resume_note_end(struct qkv_trainer *t, int64_t before, const struct qkv_seam *seam) {
    const struct qkv_seams *seams = &t->facts.seams;
    long long step = t->report.step, steps = t->options.steps;
    if (!seam)
        return qkv_trainer_add_note(
            t,
            "the run ends at step %lld now, no longer at %lld; no step was done, so the schedule "
            "is the one of a run of that length",
            steps, (long long)before);
    double was = qkv_learning_rate(&t->options, seams, step - 1);
    if (steps == step)
        return qkv_trainer_add_note(t, "the run ends at step %lld now, no longer at %lld; the rate was %.3g", steps,
                                    (long long)before, was);
    double is = qkv_learning_rate(&t->options, seams, step), last = qkv_learning_rate(&t->options, seams, steps - 1);
    return qkv_trainer_add_note(
        t,
        "the run ends at step %lld now, no longer at %lld: the rate was %.3g at step %lld, is %.3g "
        "at the next and %.3g at the last one (extend %s)",
        steps, (long long)before, was, step, is, last, qkv_extend_name(seam->extend));
}

/* Whether the run has that end by the same kind of seam: the command was interrupted and is given again. */
static bool resume_repeats(const struct qkv_trainer *t, const struct qkv_seam *seam) {
    const struct qkv_seams *seams = &t->facts.seams;
    const struct qkv_seam *last = seams->count > 0 ? &seams->items[seams->count - 1] : NULL;
    return last && seam->end == last->end && seam->extend == last->extend;
}

/* The end that is asked for is before the steps done. */
static enum qkv_status resume_fail_end(struct qkv_trainer *t, const struct qkv_resume_options *o) {
    const long long end = o->steps, step = t->report.step;
    if (o->epochs > 0)
        return qkv_fail(t->ctx, QKV_ARGUMENT,
                        "epochs is %.15g, which are %lld steps, but the run has done %lld already; choose more",
                        o->epochs, end, step);
    return qkv_fail(t->ctx, QKV_ARGUMENT, "steps is %lld but the run has done %lld already; choose more", end, step);
}

/* Another number of steps: from the next step on the rate follows another curve. */
static enum qkv_status resume_set_end(struct qkv_trainer *t, struct qkv_resume_options *o) {
    int64_t before = t->options.steps, step = t->report.step;
    enum qkv_status status = o->epochs > 0 ? qkv_epochs_steps(t, o->epochs, &o->steps) : QKV_OK;
    struct qkv_seam seam = {.step = step, .end = o->steps};
    if (!status && o->extend) status = qkv_extend_parse(t->ctx, o->extend, &seam.extend);
    if (status) return status;
    if (o->steps > 0 && o->steps < step) return resume_fail_end(t, o);
    if (o->steps <= 0 || o->steps == before) {
        if (!o->extend || resume_repeats(t, &seam)) return QKV_OK;
        return qkv_fail(t->ctx, QKV_ARGUMENT,
                        "extend says what the rate does up to a new end, but the run ends at step %lld as before; set "
                        "steps, or leave extend out",
                        (long long)before);
    }
    t->options.steps = o->steps;
    if (o->epochs <= 0) t->options.epochs = -1; /* they no longer set the number */
    t->stale = 0;                               /* whoever asks for more steps has patience */
    if (step > 0) status = qkv_seams_add(t->ctx, &t->facts.seams, before, &seam);
    if (!status) status = qkv_train_check(t->ctx, &t->options);
    return status ? status : resume_note_end(t, before, step > 0 ? &seam : NULL);
}

/* Evaluations choose the best model and are what patience counts. */
static enum qkv_status resume_note_evaluations(struct qkv_trainer *t, int64_t before) {
    const struct qkv_train_options *o = &t->options;
    char every[48] = "at the end only", waits[96] = "";
    if (o->eval_every == before || !qkv_train_validates(o)) return QKV_OK;
    if (o->eval_every > 0) snprintf(every, sizeof every, "every %lld steps", (long long)o->eval_every);
    if (o->patience > 0)
        snprintf(waits, sizeof waits, ", and a patience of %lld evaluations is %.15g steps", (long long)o->patience,
                 (double)o->patience * (double)o->eval_every);
    return qkv_trainer_add_note(t, "evaluations come %s now; the best model is chosen among those%s", every, waits);
}

/* Reads the options, then what is to change: in *options the end that is asked for. */
static enum qkv_status resume_options(struct qkv_trainer *t, struct qkv_resume_options *o) {
    enum qkv_status status = qkv_train_json_read(t->ctx, t->folder, &t->options, &t->facts);
    int64_t end = t->options.steps, every = t->options.eval_every;
    const double epochs = t->options.epochs;
    if (!status) status = qkv_train_change(t->ctx, &t->options, o->settings, o->setting_count);
    if (!status && (o->steps > 0 || t->options.steps != end) && (o->epochs != 0 || t->options.epochs != epochs))
        status = qkv_fail(t->ctx, QKV_ARGUMENT, "steps and epochs exclude each other: set one of them");
    if (o->epochs != 0) t->options.epochs = o->epochs;
    if (!status && (o->setting_count || o->epochs != 0)) status = qkv_train_check(t->ctx, &t->options);
    if (!status) status = resume_note_evaluations(t, every);
    if (o->steps == 0 && t->options.steps != end) o->steps = t->options.steps;
    if (t->options.epochs > 0 && t->options.epochs != epochs) o->epochs = t->options.epochs;
    t->options.steps = end; /* until the checkpoint tells where the seam lies */
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* A plain name, of a file in the folder. */
static enum qkv_status resume_check_name(struct qkv_trainer *t, const char *name) {
    if (!name || (*name && !strchr(name, '/'))) return QKV_OK;
    return qkv_fail(t->ctx, QKV_ARGUMENT, "checkpoint is \"%.100s\"; it must be the name of a file in the run's folder",
                    name);
}

/* An earlier checkpoint takes the place of the latest, so that a kill goes on from there too. */
static enum qkv_status resume_go_back(struct qkv_trainer *t) {
    char *from = t->checkpoint ? qkv_join_path(t->ctx, t->folder, t->checkpoint) : NULL;
    enum qkv_status status = t->checkpoint && !from ? QKV_MEMORY : QKV_OK;
    if (!status && from) status = qkv_checkpoint_keep_later(t);
    if (!status && from) status = qkv_checkpoint_write_alone(t, from);
    t->checkpoint = NULL;
    free(from);
    return status;
}

static enum qkv_status resume_all(struct qkv_trainer *t, struct qkv_resume_options *o) {
    enum qkv_status status = qkv_run_check_files(t->ctx, t->folder);
    if (!status) status = resume_check_name(t, o->checkpoint);
    if (!status) status = resume_options(t, o);
    if (!status) status = qkv_train_precision(t->ctx, &t->options, false);
    if (!status) qkv_trainer_choose(t);
    if (!status) status = qkv_state_refuse_living(t->ctx, t->folder);
    if (!status) status = qkv_log_open(t->ctx, &t->log, t->folder);
    if (!status) status = qkv_resume_model(t);
    t->checkpoint = o->checkpoint;
    if (!status) status = qkv_checkpoint_read(t);
    if (!status) status = check_best(t);
    int64_t end = t->options.steps;
    if (!status) status = resume_set_end(t, o);
    if (!status) status = resume_go_back(t);
    if (!status && (o->setting_count || o->epochs > 0 || t->options.steps != end))
        status = qkv_train_json_write(t->ctx, t->folder, &t->options, &t->facts);
    if (!status) status = qkv_trainer_cut_log(t, t->pending ? t->report.step - 1 : t->report.step);
    t->report.steps = t->options.steps;
    if (!status && t->report.step > 0) status = qkv_machine_note(t->ctx, t->folder, t->report.step);
    return status ? status : qkv_state_begin(t);
}

/* On rank 0 of several, whose orders the others follow, and wait for their end whatever the status was. */
static enum qkv_status resume_lead(struct qkv_context *ctx, struct qkv_trainer *t, struct qkv_resume_options *o,
                                   enum qkv_status status) {
    if (!status) status = resume_all(t, o);
    return qkv_rank_end_orders(ctx, status);
}

void qkv_resume_options_init(struct qkv_resume_options *options, size_t size) {
    static const struct qkv_resume_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_trainer_resume(struct qkv_context *ctx, const char *folder,
                                   const struct qkv_resume_options *options, qkv_progress *progress, void *user,
                                   struct qkv_trainer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    struct qkv_resume_options changes = qkv_resume_defaults();
    struct qkv_trainer *t = NULL;
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_resume_options, &changes, options);
    if (!status) status = qkv_trainer_begin(ctx, folder, progress, user, &t);
    if (!qkv_context_rank(ctx))
        status = resume_lead(ctx, t, &changes, status);
    else if (qkv_rank_follow_orders(ctx)) /* also a rank that cannot go on itself: rank 0 counts on it */
        status = QKV_RANK;
    status = qkv_rank_agree(ctx, status);
    if (!status) status = qkv_rank_check_folder(t);
    if (!status && qkv_context_rank(ctx)) status = qkv_resume_follow(t);
    status = qkv_rank_agree(ctx, status);
    if (!status) status = qkv_rank_check(t, NULL);
    if (!status) status = qkv_rank_agree(ctx, qkv_optimizer_divide(t->optimizer));
    if (status) {
        qkv_trainer_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
