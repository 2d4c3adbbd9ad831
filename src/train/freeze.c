/* Weights that do not learn, and those that learn at a rate of their own, by patterns of their names (options freeze
 * and rates). */
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "train/train.h"

enum qkv_status qkv_rate_parse(struct qkv_context *ctx, const char *text, size_t *pattern, double *rate) {
    const char *equals = strrchr(text, '=');
    *pattern = equals ? (size_t)(equals - text) : 0;
    if (!equals || !qkv_real_parse(equals + 1, rate))
        return qkv_fail(ctx, QKV_ARGUMENT, "rates: \"%.100s\" is not PATTERN=X, as in *embed*=0.1", text);
    if (*rate > 0) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "rates: \"%.100s\" must have a number greater than 0 (what is not to learn is frozen: freeze)",
                    text);
}

static enum qkv_status freeze_rate(struct qkv_model *model, const char *text) {
    struct qkv_context *ctx = qkv_model_context(model);
    size_t n;
    double rate;
    bool learns = false;
    enum qkv_status status = qkv_rate_parse(ctx, text, &n, &rate);
    char *pattern = status ? NULL : qkv_copy_string(ctx, text);
    if (!pattern) return status ? status : QKV_MEMORY;
    pattern[n] = 0;
    status = qkv_model_set_rate_all(model, pattern, rate, NULL);
    if (status) qkv_fail_at(ctx, "rates");
    for (size_t i = 0; i < model->weights.count; i++) {
        const struct qkv_weight *weight = &model->weights.list[i];
        learns = learns || (weight->trainable && qkv_text_matches(weight->array.name, pattern));
    }
    if (!status && !learns)
        status = qkv_fail(ctx, QKV_ARGUMENT, "rates: all weights like \"%.100s\" are frozen; leave it out", pattern);
    free(pattern);
    return status;
}

enum qkv_status qkv_train_freeze(const struct qkv_train_options *options, struct qkv_model *model) {
    struct qkv_context *ctx = qkv_model_context(model);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_FILES_MAX && options->freeze[i] && !status; i++) {
        status = qkv_model_set_trainable_all(model, options->freeze[i], false, NULL);
        if (status) qkv_fail_at(ctx, "freeze");
    }
    size_t learn = 0;
    for (size_t i = 0; i < model->weights.count; i++) learn += model->weights.list[i].trainable;
    for (size_t i = 0; i < QKV_FILES_MAX && options->rates[i] && !status && learn; i++)
        status = freeze_rate(model, options->rates[i]);
    if (status || learn) return status;
    return qkv_fail(ctx, QKV_ARGUMENT, "freeze leaves none of the %zu weights to learn; leave a pattern out",
                    model->weights.count);
}

enum qkv_status qkv_train_check_freeze(struct qkv_context *ctx, const struct qkv_train_options *options,
                                       const struct qkv_spec *spec) {
    struct qkv_model *plan = NULL;
    if (!options->freeze[0] && !options->rates[0]) return QKV_OK;
    enum qkv_status status = qkv_model_plan(ctx, spec, &plan);
    if (!status) status = qkv_train_freeze(options, plan);
    qkv_model_free(plan);
    return status;
}

/* A note for each rate that some have. */
static enum qkv_status freeze_note_rates(struct qkv_trainer *t) {
    const struct qkv_weights *w = &t->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        size_t alike = 0, before = 0;
        const float rate = w->list[i].rate;
        for (size_t k = 0; k < w->count; k++) {
            if (!w->list[k].trainable || w->list[k].rate != rate) continue;
            alike++;
            before += k < i;
        }
        if (rate == 1 || before || !w->list[i].trainable) continue;
        status =
            qkv_trainer_add_note(t, "%zu of %zu weights learn with %g times the rate", alike, w->count, (double)rate);
    }
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
    enum qkv_status status = QKV_OK;
    if (frozen)
        status = qkv_trainer_add_note(t, "%zu of %zu weights are frozen: %zu of %zu numbers do not learn", frozen,
                                      w->count, numbers, all);
    return status ? status : freeze_note_rates(t);
}
