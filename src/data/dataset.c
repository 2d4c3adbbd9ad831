/* The list of the kinds of training data, made from QKV_TRAIN_LIST: what a run learns from, as one value. */
#include <stdio.h>
#include <string.h>

#include "model/spec.h"
#include "data/data.h"
#include "data/sources.h"

#undef QKV_DATASET_ROW_DATA
#define QKV_DATASET_ROW_DATA(name) &qkv_dataset_##name,
static const struct qkv_dataset *const datasets[] = {QKV_TRAIN_LIST(QKV_DATASET_ROW)};
enum { DATASETS = sizeof datasets / sizeof *datasets };
/* train.json names all files, and those to validate on, in at most QKV_TRAIN_FILE_BYTES (16 MiB). */
enum { FILES_BYTES = 7 << 20, FILE_BYTES = 200 /* of a file, besides its path */ };

const struct qkv_dataset *qkv_dataset_at(size_t i) {
    return i < DATASETS ? datasets[i] : NULL;
}

const struct qkv_dataset *qkv_dataset_named(const char *option) {
    for (size_t i = 0; i < DATASETS; i++)
        if (!strcmp(datasets[i]->option, option)) return datasets[i];
    return NULL;
}

bool qkv_dataset_given(const struct qkv_dataset *dataset, const struct qkv_train_options *options) {
    const char *first = qkv_dataset_names(dataset, options)[0];
    return first && *first;
}

/* The record of a mixture has its text_key, so that runs of versions without mixtures stay what they are. */
static bool dataset_mixes(const struct qkv_dataset *dataset, const struct qkv_train_options *options) {
    if (!dataset->mixture) return false;
    if (options->text_key && *options->text_key) return true;
    if (options->origin.recorded) return false;
    return qkv_sources_mix(qkv_dataset_names(dataset, options)) || qkv_sources_mix(options->valid_files);
}

const struct qkv_dataset *qkv_dataset_of(const struct qkv_train_options *options) {
    for (size_t i = 0; i < DATASETS; i++)
        if (qkv_dataset_given(datasets[i], options))
            return dataset_mixes(datasets[i], options) ? datasets[i]->mixture : datasets[i];
    return NULL;
}

enum qkv_status qkv_dataset_missing(struct qkv_context *ctx) {
    char others[256] = "";
    size_t n = 0;
    for (size_t i = 1; i < DATASETS && n < sizeof others; i++)
        n += (size_t)snprintf(others + n, sizeof others - n, "%s%s", i > 1 ? ", " : "", datasets[i]->option);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s is missing: name the text file to train on, or files of another kind (%s)",
                    datasets[0]->option, others);
}

const char **qkv_dataset_files(const struct qkv_train_options *options) {
    return qkv_dataset_names(qkv_dataset_of(options), options);
}

bool qkv_dataset_measures(const struct qkv_dataset *dataset, enum qkv_metric metric) {
    return metric == QKV_METRIC_LOSS || (dataset->metrics >> metric & 1);
}

bool qkv_dataset_scores(const struct qkv_train_options *options, const struct qkv_spec *spec) {
    const struct qkv_dataset *dataset = qkv_dataset_of(options);
    return dataset && dataset->scores && dataset->scores(spec);
}

size_t qkv_dataset_batch(const struct qkv_train_options *options) {
    const struct qkv_dataset *dataset = qkv_dataset_of(options);
    return dataset && dataset->reads != QKV_READS_LINES ? (size_t)options->batch : 0;
}

enum qkv_status qkv_dataset_list(struct qkv_context *ctx, const struct qkv_dataset *dataset, const char *const *names,
                                 struct qkv_text_files *files, struct qkv_texts *notes) {
    const char *weighs = dataset->weighs ? NULL : qkv_sources_weight(names);
    size_t bytes = 0;
    if (weighs)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has a weight; only texts (data) are mixed by weights: leave it out",
                        weighs);
    enum qkv_status status = qkv_sources_list(ctx, names, files, notes);
    for (size_t i = 0; i < files->count; i++) bytes += FILE_BYTES + strlen(files->items[i].path);
    if (status || bytes <= FILES_BYTES) return status;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "%s has so many files that a run cannot record them: %zu in %s%s; join some of them",
                    dataset->option, files->count, names[0], names[1] ? " and others" : "");
}

/* Tasks of labelled lines and of examples are called as the heads that do them. */
static enum qkv_status dataset_check_task(struct qkv_context *ctx, const struct qkv_train_options *o,
                                          const struct qkv_spec *spec) {
    const char *head = qkv_head_text(spec->head.kind);
    if (!o->task || !strcmp(o->task, head)) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "task %s needs head.kind %s, but head.kind is %s; set head.kind=%s, or leave the task out", o->task,
                    o->task, head, o->task);
}

/* One class has the probability 1, whatever its score. */
static enum qkv_status dataset_check_classes(struct qkv_context *ctx, const struct qkv_train_options *o,
                                             const struct qkv_spec *spec) {
    if (!qkv_head_has_classes(spec) || spec->head.classes != 1) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "head.classes is 1: a model with one score (a reranker, a regression) is used, but not trained, as "
                    "cross-entropy tells classes apart; set head.classes to 2 or more%s",
                    o->from ? ", or begin with a new head (option new_head)" : "");
}

enum qkv_status qkv_dataset_check(struct qkv_context *ctx, const struct qkv_train_options *o,
                                  const struct qkv_spec *spec) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    enum qkv_status status = dataset->check(ctx, o, spec);
    if (status || dataset->tasks != QKV_TASKS_CLASSES) return status;
    status = dataset_check_task(ctx, o, spec);
    return status ? status : dataset_check_classes(ctx, o, spec);
}

const struct qkv_lines *qkv_lines_of(const char *name) {
    for (size_t i = 0; i < DATASETS; i++)
        for (size_t k = 0; k < QKV_DATASET_LINES && datasets[i]->lines[k]; k++)
            if (!strcmp(datasets[i]->lines[k]->name, name)) return datasets[i]->lines[k];
    return NULL;
}
