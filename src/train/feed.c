/* Which feed a run has, and whether its options go together. */
#include <string.h>

#include "train/train.h"

const struct qkv_feed *qkv_feed_choose(const struct qkv_train_options *options) {
    if (options->pairs) return &qkv_feed_pairs;
    if (options->labeled) return &qkv_feed_labeled;
    return options->task && !strcmp(options->task, "mlm") ? &qkv_feed_mlm : &qkv_feed_text;
}

enum qkv_status qkv_feed_check(struct qkv_context *ctx, const struct qkv_train_options *o,
                               const struct qkv_spec *spec) {
    return qkv_feed_choose(o)->check(ctx, o, spec);
}

const char *const *qkv_feed_files(const struct qkv_train_options *options) {
    return options->pairs ? options->pairs_files : options->labeled ? options->labeled_files : options->data_files;
}
