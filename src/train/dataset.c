/* Which feed a run has, and whether its options go together. */
#include <string.h>

#include "train/train.h"

const struct qkv_dataset *qkv_dataset_choose(const struct qkv_train_options *options) {
    if (options->lines) return &qkv_dataset_lines;
    if (options->pairs) return &qkv_dataset_pairs;
    if (options->labeled) return &qkv_dataset_labeled;
    if (options->examples) return &qkv_dataset_examples;
    return options->task && !strcmp(options->task, "mlm") ? &qkv_dataset_mlm : &qkv_dataset_text;
}

enum qkv_status qkv_dataset_check(struct qkv_context *ctx, const struct qkv_train_options *o,
                                  const struct qkv_spec *spec) {
    return qkv_dataset_choose(o)->check(ctx, o, spec);
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
