/* train: trains the variants one after the other, all with the first seed, then all with the next. Each is a run
 * like any other; a run that has begun is resumed. */
#include <stdlib.h>
#include <string.h>

#include "lab/compare/compare_room.h"

/* Whether the steps of a run come from the number of epochs in these options. */
static bool has_epochs(struct qkv_comparison *c, const char *folder, const struct qkv_train_options *options) {
    struct qkv_train_options recorded = {.size = sizeof recorded, .epochs = -1};
    char *texts = NULL, *path = qkv_join_path(c->ctx, folder, QKV_TRAIN_FILE);
    if (path && !qkv_train_defaults(c->ctx, NULL, &recorded))
        qkv_train_read_options(c->ctx, path, &recorded, &texts); /* stays -1 on failure */
    qkv_free(texts);
    free(path);
    return recorded.epochs >= options->epochs;
}

/* Whether a run has done all its steps: those of the options, or, with patience, those that it wanted itself. */
static bool has_ended(struct qkv_comparison *c, const char *folder, const struct qkv_train_options *options) {
    struct qkv_run *run = NULL;
    char *model = qkv_join_path(c->ctx, folder, QKV_WEIGHTS_FILE), *log = qkv_join_path(c->ctx, folder, QKV_LOG_FILE);
    bool ended = model && log && qkv_file_exists(model) && qkv_file_exists(log) &&
                 !qkv_run_read(c->ctx, folder, &run) && qkv_run_ended(run);
    const size_t count = ended ? qkv_run_steps(run) : 0;
    if (ended && options->patience == 0 && options->epochs > 0) ended = has_epochs(c, folder, options);
    if (ended && options->patience == 0 && options->epochs <= 0)
        ended = count && qkv_run_step(run, count - 1)->step >= options->steps;
    qkv_run_free(run);
    free(model);
    free(log);
    return ended;
}

static enum qkv_status open_run(struct qkv_comparison *c, const struct qkv_variant_state *v,
                                const struct qkv_train_options *options, const char *folder,
                                const struct qkv_compare_listener *l, struct qkv_trainer **trainer) {
    char *begun = qkv_join_path(c->ctx, folder, QKV_TRAIN_FILE);
    if (!begun) return QKV_MEMORY;
    bool goes_on = qkv_file_exists(begun);
    free(begun);
    const bool epochs = options->epochs > 0;
    const struct qkv_resume_options end = {
        .size = sizeof end, .steps = epochs ? 0 : options->steps, .epochs = epochs ? options->epochs : 0};
    if (goes_on) return qkv_trainer_resume(c->ctx, folder, &end, l->progress, l->user, trainer);
    const enum qkv_status status = qkv_comparison_check_files(c);
    if (status) return status;
    return qkv_trainer_create(c->ctx, &v->shown.spec, options, folder, l->progress, l->user, trainer);
}

/* Tells the new notes of a trainer. */
static enum qkv_status train_variant_tell(struct qkv_comparison *c, const struct qkv_trainer *trainer,
                                          const struct qkv_compare_listener *l) {
    const char *note;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; !status && (note = qkv_trainer_note(trainer, i)); i++) status = qkv_comparison_note(c, note, l);
    return status;
}

static enum qkv_status train_variant_go(struct qkv_trainer *trainer, size_t variant, size_t seed,
                                        const struct qkv_compare_listener *l) {
    for (;;) {
        struct qkv_train_report r = {0};
        enum qkv_status status = qkv_trainer_step(trainer, &r);
        if (status) return status;
        bool more = !l->step || l->step(l->user, variant, seed, &r);
        if (r.step >= r.steps) return QKV_OK;
        if (more) continue;
        status = r.saved ? QKV_OK : qkv_trainer_save(trainer);
        return status ? status : QKV_STOPPED;
    }
}

static enum qkv_status train_variant_train(struct qkv_comparison *c, size_t variant, size_t seed,
                                           const struct qkv_compare_listener *l) {
    struct qkv_variant_state *v = &c->variants[variant];
    struct qkv_trainer *trainer = NULL;
    char *folder = qkv_join_path(c->ctx, c->folder, v->folders.items[seed]);
    if (!folder) return QKV_MEMORY;
    struct qkv_train_options options;
    enum qkv_status status = qkv_variant_options(c, v, seed, &options);
    if (!status && !has_ended(c, folder, &options)) {
        status = open_run(c, v, &options, folder, l, &trainer);
        if (!status) status = train_variant_tell(c, trainer, l);
        if (!status) status = train_variant_go(trainer, variant, seed, l);
    }
    if (status && status != QKV_STOPPED) {
        qkv_variant_fail(c, v);
        v->lost = true;
        status = QKV_OK;
    }
    qkv_trainer_free(trainer);
    free(folder);
    return status;
}

enum qkv_status qkv_comparison_train(struct qkv_comparison *c, const struct qkv_compare_listener *listener) {
    QKV_CALL(c->ctx);
    static const struct qkv_compare_listener nobody = {0};
    const struct qkv_compare_listener *l = listener ? listener : &nobody;
    enum qkv_status status = QKV_OK;
    for (size_t s = 0; s < c->seeds; s++)
        for (size_t i = 0; i < c->count && !status; i++)
            if (!c->variants[i].shown.failure && qkv_comparison_owns(c, i, s)) status = train_variant_train(c, i, s, l);
    status = qkv_comparison_agree(c, status);
    if (!status) status = qkv_comparison_share_failures(c);
    return status ? status : qkv_comparison_share_notes(c, l);
}
