/* follow: the model of a run that goes on, with its data; and ranks that follow rank 0, which has the run's folder
 * ready: they read it as one that goes on, and write nothing. */
#include <stdlib.h>

#include "model/model.h"
#include "train/train.h"

enum qkv_status qkv_resume_model(struct qkv_trainer *t) {
    struct qkv_spec *spec = qkv_allocate(t->ctx, 1, sizeof *spec);
    char *path = qkv_join_path(t->ctx, t->folder, QKV_CONFIG_FILE);
    enum qkv_status status = path && spec ? qkv_spec_read(t->ctx, spec, path, NULL, 0) : QKV_MEMORY;
    free(path);
    if (!status) status = qkv_dataset_check(t->ctx, &t->options, spec);
    if (!status) status = qkv_trainer_apply(t->ctx, &t->options, spec);
    if (!status) status = t->data.dataset->restore(&t->data);
    if (!status) status = qkv_trainer_build(t, spec);
    qkv_spec_free(spec);
    free(spec);
    return status;
}

enum qkv_status qkv_resume_follow(struct qkv_trainer *t) {
    qkv_train_release(&t->options);
    qkv_data_facts_free(&t->facts.texts);
    qkv_model_free(t->origin);
    t->data.origin = t->origin = NULL;
    t->options = (struct qkv_train_options){0};
    t->facts = (struct qkv_run_facts){0};
    t->fresh = false;
    enum qkv_status status = qkv_train_json_read(t->ctx, t->folder, &t->options, &t->facts);
    if (!status) status = qkv_train_precision(t->ctx, &t->options, false);
    if (!status) qkv_trainer_choose(t);
    if (!status) status = qkv_resume_model(t);
    if (!status) status = qkv_checkpoint_read(t);
    t->report.steps = t->options.steps;
    return status;
}
