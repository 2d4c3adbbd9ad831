/* Which feed a run has, and whether its options go together. */
#include <string.h>

#include "model/spec.h"
#include "train/train.h"

const struct qkv_dataset *qkv_dataset_choose(const struct qkv_train_options *options) {
    if (options->lines) return &qkv_dataset_lines;
    if (options->pairs) return &qkv_dataset_pairs;
    if (options->labeled) return &qkv_dataset_labeled;
    if (options->examples) return &qkv_dataset_examples;
    return options->task && !strcmp(options->task, "mlm") ? &qkv_dataset_mlm : &qkv_dataset_text;
}

/* Tasks of labelled lines and of examples are called as the heads that do them. */
static enum qkv_status dataset_check_task(struct qkv_context *ctx, const struct qkv_train_options *o,
                                          const struct qkv_spec *spec) {
    const char *head = qkv_head_text(spec->head.kind);
    if (!o->task || (!o->labeled && !o->examples) || !strcmp(o->task, head)) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "task %s needs head.kind %s, but head.kind is %s; set head.kind=%s, or leave the task out", o->task,
                    o->task, head, o->task);
}

/* One class has the probability 1, whatever its score. */
static enum qkv_status dataset_check_classes(struct qkv_context *ctx, const struct qkv_train_options *o,
                                             const struct qkv_spec *spec) {
    if ((!o->labeled && !o->examples) || !qkv_head_has_classes(spec) || spec->head.classes != 1) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "head.classes is 1: a model with one score (a reranker, a regression) is used, but not trained, as "
                    "cross-entropy tells classes apart; set head.classes to 2 or more%s",
                    o->from ? ", or begin with a new head (option new_head)" : "");
}

enum qkv_status qkv_dataset_check(struct qkv_context *ctx, const struct qkv_train_options *o,
                                  const struct qkv_spec *spec) {
    enum qkv_status status = qkv_dataset_choose(o)->check(ctx, o, spec);
    if (!status) status = dataset_check_task(ctx, o, spec);
    return status ? status : dataset_check_classes(ctx, o, spec);
}

void qkv_trainer_choose(struct qkv_trainer *t) {
    t->feed = qkv_dataset_choose(&t->options);
    qkv_metric_find(t->options.metric, &t->metric);
}

const char *const *qkv_feed_files(const struct qkv_train_options *options) {
    if (options->lines) return options->lines_files;
    if (options->examples) return options->examples_files;
    return options->pairs ? options->pairs_files : options->labeled ? options->labeled_files : options->data_files;
}

const struct qkv_lines *qkv_lines_of(uint64_t kind) {
    static const struct qkv_lines *const all[QKV_LINES_KINDS] = {[QKV_LINES_TEXT] = &qkv_lines_text_kind,
                                                                 [QKV_LINES_PAIRS] = &qkv_lines_pairs_kind,
                                                                 [QKV_LINES_LABELED] = &qkv_lines_labeled_kind,
                                                                 [QKV_LINES_WORDS] = &qkv_lines_words_kind};
    return kind < QKV_LINES_KINDS ? all[kind] : NULL;
}
