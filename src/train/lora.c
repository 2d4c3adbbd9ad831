/* lora: training of an adapter (option lora). The trainer's model is that of option from, whose weights stay as its
 * file has them; the run's folder has the adapter, and where the model is. */
#include <stdlib.h>
#include <string.h>

#include "io/adapter_files.h"
#include "io/opening.h"
#include "model/spec.h"
#include "train/train.h"

enum qkv_status qkv_lora_check(struct qkv_context *ctx, const struct qkv_train_options *o) {
    struct qkv_adapter_settings settings;
    if (!o->lora) return QKV_OK;
    enum qkv_status status = qkv_adapter_parse(ctx, o->lora, &settings);
    if (status) return status;
    free(settings.targets);
    const char *other = o->new_head ? "new_head" : o->dropout >= 0 ? "dropout" : o->prefix ? "prefix" : NULL;
    if (!o->from)
        return qkv_fail(ctx, QKV_ARGUMENT, "lora trains an adapter of a model; say which one with option from");
    if (!other) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "lora keeps the model as it is, so option %s has no place beside it; leave it out", other);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* The weights are those that the run began with. */
static enum qkv_status lora_check_base(struct qkv_trainer *t) {
    uint64_t bytes = 0, hash = 0;
    if (t->fresh || !t->facts.from_bytes || t->ctx->ignore_digest) return QKV_OK; /* a new run has just read them */
    const enum qkv_status status = qkv_weights_hash(t->ctx, t->options.from, &bytes, &hash);
    if (status || (bytes == t->facts.from_bytes && hash == t->facts.from_hash)) return status;
    return qkv_fail(t->ctx, QKV_FORMAT,
                    "the weights of %s are not those that the run began with (digest %016llx, not %016llx), and its "
                    "adapter belongs to those; restore them, or go on all the same with option ignore_digest",
                    t->options.from, (unsigned long long)hash, (unsigned long long)t->facts.from_hash);
}

/* Tokens and classes are those of the model: an adapter adds no rows. */
static enum qkv_status lora_check_spec(struct qkv_trainer *t, const struct qkv_spec *spec, const struct qkv_model *m) {
    const struct qkv_spec *own = qkv_model_spec(m);
    bool same = spec->head.classes == own->head.classes && t->data.label_count == m->label_count;
    for (size_t i = 0; same && i < m->label_count; i++) same = !strcmp(t->data.labels[i], m->labels[i]);
    if (t->data.label_count && !m->label_count) same = false;
    if (!t->data.label_count) same = spec->head.classes == own->head.classes;
    if (!same)
        return qkv_fail(t->ctx, QKV_SPEC,
                        "the data have other labels than %s, whose head an adapter keeps; train the model without lora",
                        t->options.from);
    if (spec->vocab == own->vocab && spec->source_vocab == own->source_vocab) return QKV_OK;
    return qkv_fail(
        t->ctx, QKV_SPEC,
        "the data need tokens that %s does not have, and an adapter adds none (vocab %d, not %d); train the "
        "model without lora",
        t->options.from, spec->vocab, own->vocab);
}

static enum qkv_status lora_note(struct qkv_trainer *t) {
    const struct qkv_model_adapter *a = t->model->adapter;
    size_t numbers = 0, all = 0;
    for (size_t i = 0; i < t->model->weights.count; i++)
        numbers += t->model->weights.list[i].rows * t->model->weights.list[i].columns;
    for (size_t i = 0; i < a->base.count; i++) all += a->base.list[i].rows * a->base.list[i].columns;
    const struct qkv_weight *stored = qkv_weights_stored(&a->base);
    return qkv_trainer_add_note(
        t, "%zu numbers learn, those of the adapters of %zu matrices; the %zu numbers of %s stay as they are%s%s",
        numbers, a->part_count, all, t->options.from, stored ? ", in " : "",
        stored ? qkv_types[stored->array.dtype]->name : "");
}

enum qkv_status qkv_lora_build(struct qkv_trainer *t, const struct qkv_spec *spec) {
    enum qkv_status status = lora_check_base(t);
    if (!status && !t->origin) status = qkv_model_load(t->ctx, t->options.from, &t->origin);
    if (!status) status = lora_check_spec(t, spec, t->origin);
    if (status) return status;
    t->model = t->origin;
    t->origin = NULL;
    t->model->precision = qkv_context_precision(t->ctx);
    status = qkv_adapter_begin(t->model, t->options.lora, (uint64_t)t->options.seed);
    if (!status) status = qkv_adapter_set_base(t->model, t->options.from);
    return status ? status : lora_note(t);
}

enum qkv_status qkv_lora_plan(struct qkv_context *ctx, const struct qkv_train_options *options,
                              struct qkv_opening **opening) {
    enum qkv_status status = qkv_model_open(ctx, options->from, NULL, opening);
    if (!status) status = qkv_adapter_begin((*opening)->model, options->lora, 0);
    return status;
}
