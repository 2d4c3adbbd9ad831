/* epochs: the option epochs, passes over the data to train on, sets the number of steps once the data is open. */
#include <string.h>

#include "base/math.h"
#include "train/train.h"

double qkv_trainer_epoch(const struct qkv_trainer *trainer) {
    return trainer ? trainer->data.dataset->epoch(&trainer->data) : 0;
}

enum qkv_status qkv_epochs_steps(struct qkv_trainer *t, double epochs, int64_t *steps) {
    const double each = t->data.dataset->epoch(&t->data), all = epochs * each, most = 1e15; /* as the option steps */
    if (!(all <= most))
        return qkv_fail(t->ctx, QKV_ARGUMENT, "%.15g epochs of %.15g steps are more than %.0f steps; choose fewer",
                        epochs, each, most);
    *steps = (int64_t)qkv_fmax(1, qkv_ceil(all * (1 - 1e-12))); /* 0.1 of 30 steps is 3, not 4 for a last bit */
    return QKV_OK;
}

enum qkv_status qkv_epochs_settle(struct qkv_context *ctx, struct qkv_train_options *options, int64_t steps,
                                  struct qkv_texts *notes) {
    struct qkv_train_options settled = *options; /* as of a run that says its steps */
    settled.epochs = -1;
    settled.steps = steps;
    enum qkv_status status = qkv_train_settle(ctx, &settled, NULL, notes);
    if (!status) status = qkv_train_check_needs(ctx, &settled);
    options->steps = steps;
    options->warmup = settled.warmup;
    memcpy(options->origin.settled, settled.origin.settled, sizeof options->origin.settled);
    return status;
}

enum qkv_status qkv_epochs_begin(struct qkv_trainer *t) {
    int64_t steps = 0;
    if (!t->fresh || t->options.epochs <= 0) return QKV_OK;
    const enum qkv_status status = qkv_epochs_steps(t, t->options.epochs, &steps);
    return status ? status : qkv_epochs_settle(t->ctx, &t->options, steps, &t->notes);
}
