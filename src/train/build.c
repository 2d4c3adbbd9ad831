/* What starting and resuming a run have in common: the model with its passes and optimizer, the token files and their
 * parts, and the end of a trainer. */
#include <math.h>
#include <stdlib.h>

#include "train/train.h"

enum qkv_status qkv_trainer_begin(struct qkv_context *ctx, const char *folder, qkv_progress *progress, void *user,
                                  struct qkv_trainer **out) {
    struct qkv_trainer *t = qkv_allocate(ctx, 1, sizeof *t);
    *out = t;
    if (!t) return QKV_MEMORY;
    t->ctx = ctx;
    t->progress = progress;
    t->user = user;
    t->started = qkv_clock();
    t->report.loss = t->report.norm = t->report.valid_loss = t->report.best_loss = NAN;
    t->folder = qkv_copy_string(ctx, folder);
    t->data_path = qkv_join_path(ctx, folder, QKV_TOKENS_DATA_FILE);
    t->valid_path = qkv_join_path(ctx, folder, QKV_TOKENS_VALID_FILE);
    return t->folder && t->data_path && t->valid_path ? QKV_OK : QKV_MEMORY;
}

void qkv_trainer_free(struct qkv_trainer *trainer) {
    struct qkv_trainer *t = trainer;
    if (!t) return;
    qkv_pass_free(t->pass);
    qkv_pass_free(t->validation_pass);
    qkv_optimizer_free(t->optimizer);
    qkv_model_free(t->model);
    qkv_tokens_close(&t->data_tokens);
    qkv_tokens_close(&t->valid_tokens);
    qkv_log_close(&t->log);
    qkv_train_release(&t->options);
    free(t->ids);
    free(t->targets);
    free(t->data_path);
    free(t->valid_path);
    free(t->folder);
    free(t);
}

enum qkv_status qkv_trainer_apply(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  struct qkv_spec *spec) {
    if (options->context > spec->context)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "context is %lld but the spec's is %d; choose at most that, or change the spec",
                        (long long)options->context, spec->context);
    if (options->context > 0) spec->context = (int)options->context;
    if (options->dropout >= 0) spec->dropout = options->dropout;
    return QKV_OK;
}

static enum qkv_status make_passes(struct qkv_trainer *t) {
    size_t n;
    struct qkv_pass_options options = {.B = t->B, .T = t->T, .train = true, .dropout = true};
    if (!qkv_multiply(t->B, t->T, &n)) return qkv_fail_memory(t->ctx, SIZE_MAX, "the ids of a batch");
    t->ids = qkv_allocate(t->ctx, n, sizeof *t->ids);
    t->targets = qkv_allocate(t->ctx, n, sizeof *t->targets);
    if (!t->ids || !t->targets) return QKV_MEMORY;
    enum qkv_status status = qkv_pass_create(t->model, &options, &t->pass);
    options.train = false;
    if (!status && (t->options.valid || t->options.valid_fraction > 0))
        status = qkv_pass_create(t->model, &options, &t->validation_pass);
    return status;
}

static enum qkv_status make_optimizer(struct qkv_trainer *t) {
    const struct qkv_train_options *o = &t->options;
    struct qkv_optimizer_options options = {.kind = qkv_train_optimizer(o),
                                            .beta1 = o->beta1,
                                            .beta2 = o->beta2,
                                            .eps = o->eps,
                                            .momentum = o->momentum,
                                            .weight_decay = o->weight_decay};
    return qkv_optimizer_create(t->model, &options, &t->optimizer);
}

enum qkv_status qkv_trainer_build(struct qkv_trainer *t, const struct qkv_spec *spec, struct qkv_tokenizer *tokenizer) {
    const struct qkv_train_options *o = &t->options;
    struct qkv_costs costs;
    t->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    t->T = (size_t)spec->context;
    enum qkv_status status = qkv_model_create(t->ctx, spec, (uint64_t)o->seed, &t->model);
    if (status) {
        qkv_tokenizer_free(tokenizer);
        return status;
    }
    status = qkv_model_set_tokenizer(t->model, tokenizer);
    if (!status) status = make_passes(t);
    if (!status) status = make_optimizer(t);
    if (!status) status = qkv_measure_costs(t->ctx, spec, t->B, t->T, &costs);
    if (status) return status;
    t->train_flops = costs.train_flops;
    t->peak = qkv_measure_flops(t->ctx);
    return QKV_OK;
}

/* ---- parts of the text -------------------------------------------------------------------------------------------------- */

static struct qkv_tokens part_of(const struct qkv_tokens *whole, size_t begin, size_t count) {
    struct qkv_tokens part = *whole;
    part.map = (struct qkv_map){0}; /* the whole owns it */
    part.data += begin * whole->width;
    part.count = count;
    return part;
}

static enum qkv_status too_short(const struct qkv_trainer *t, const char *what, const char *text, size_t count,
                                 const char *other_way) {
    char shorter[64] = "";
    if (count >= 2) snprintf(shorter, sizeof shorter, "a context of at most %zu, ", count - 1);
    return qkv_fail(t->ctx, QKV_ARGUMENT,
                    "the %s part of %s has %zu tokens, but a context of %zu needs %zu: choose "
                    "%smore text%s",
                    what, text, count, t->T, t->T + 1, shorter, other_way);
}

enum qkv_status qkv_trainer_split(struct qkv_trainer *t) {
    const struct qkv_train_options *o = &t->options;
    size_t count = t->data_tokens.count, kept = (size_t)((double)count * o->valid_fraction);
    if (o->valid) {
        t->train = part_of(&t->data_tokens, 0, count);
        t->valid = part_of(&t->valid_tokens, 0, t->valid_tokens.count);
    } else {
        t->train = part_of(&t->data_tokens, 0, count - kept);
        t->valid = part_of(&t->data_tokens, count - kept, kept);
    }
    if (t->train.count < t->T + 1)
        return too_short(t, "training", o->data, t->train.count,
                         !o->valid && count > t->T ? ", or a smaller valid_fraction" : "");
    if (t->validation_pass && t->valid.count < t->T + 1)
        return too_short(t, "validation", o->valid ? o->valid : o->data, t->valid.count,
                         o->valid ? "" : ", a larger valid_fraction, or 0 for no validation");
    return QKV_OK;
}
