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
    enum qkv_status status = qkv_feed_choose(o)->check(ctx, o, spec);
    if (status) return status;
    if (o->data && o->batch_tokens > 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "batch_tokens is %lld, but the windows of a text are all as long; set batch instead, and "
                        "batch_tokens to 0",
                        (long long)o->batch_tokens);
    if (o->source_tokenizer && !o->pairs)
        return qkv_fail(ctx, QKV_ARGUMENT, "source_tokenizer is given, but only pairs have sources");
    struct qkv_train_options plain;
    status = qkv_train_defaults(ctx, NULL, &plain);
    if (status) return status;
    if (o->mask_probability != plain.mask_probability && qkv_feed_choose(o) != &qkv_feed_mlm)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask_probability is given, but only the task mlm masks tokens");
    if (!strcmp(o->metric, "accuracy") && !o->labeled)
        return qkv_fail(ctx, QKV_ARGUMENT, "metric accuracy needs labelled lines (labeled)");
    if ((!strcmp(o->metric, "exact") || !strcmp(o->metric, "token_error")) && !o->pairs)
        return qkv_fail(ctx, QKV_ARGUMENT, "metric %s needs pairs: it compares what is found with the targets",
                        o->metric);
    return QKV_OK;
}

const char *const *qkv_feed_files(const struct qkv_train_options *options) {
    return options->pairs ? options->pairs_files : options->labeled ? options->labeled_files : options->data_files;
}
