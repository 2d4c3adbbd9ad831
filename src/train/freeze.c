/* Weights that do not learn, by patterns of their names (option freeze). */
#include "model/model.h"
#include "train/train.h"

enum qkv_status qkv_train_freeze(const struct qkv_train_options *options, struct qkv_model *model) {
    struct qkv_context *ctx = qkv_model_context(model);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_FILES_MAX && options->freeze[i] && !status; i++) {
        status = qkv_model_set_trainable_all(model, options->freeze[i], false, NULL);
        if (status) qkv_fail_at(ctx, "freeze");
    }
    size_t learn = 0;
    for (size_t i = 0; i < model->weights.count; i++) learn += model->weights.list[i].trainable;
    if (status || learn) return status;
    return qkv_fail(ctx, QKV_ARGUMENT, "freeze leaves none of the %zu weights to learn; leave a pattern out",
                    model->weights.count);
}

enum qkv_status qkv_train_check_freeze(struct qkv_context *ctx, const struct qkv_train_options *options,
                                       const struct qkv_spec *spec) {
    struct qkv_model *plan = NULL;
    if (!options->freeze[0]) return QKV_OK;
    enum qkv_status status = qkv_model_plan(ctx, spec, &plan);
    if (!status) status = qkv_train_freeze(options, plan);
    qkv_model_free(plan);
    return status;
}

enum qkv_status qkv_trainer_note_frozen(struct qkv_trainer *t) {
    const struct qkv_weights *w = &t->model->weights;
    size_t frozen = 0, numbers = 0, all = 0;
    for (size_t i = 0; i < w->count; i++) {
        const size_t n = w->list[i].rows * w->list[i].columns;
        all += n;
        if (w->list[i].trainable) continue;
        frozen++;
        numbers += n;
    }
    if (!frozen) return QKV_OK;
    return qkv_trainer_add_note(t, "%zu of %zu weights are frozen: %zu of %zu numbers do not learn", frozen, w->count,
                                numbers, all);
}
