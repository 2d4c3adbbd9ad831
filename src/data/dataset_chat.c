/* Learning from talks and from prompts with completions, a line of JSON each (talk.h): the next token, where that is
 * one of the assistant's.
 *
 * The token file beside holds the marks of each token. A batch has whole talks, which the pass packs without padding;
 * none attends to another. */
#include "data/talks.h"

static enum qkv_status dataset_chat_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                          const struct qkv_spec *spec) {
    enum qkv_status status = qkv_text_model_check(ctx, spec);
    return status ? status : qkv_talks_check(ctx, options);
}

/* ---- lines as tokens -------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_chat_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                           const struct qkv_tsv_row *row, struct qkv_line *line) {
    const struct qkv_talk_coder coder = qkv_talks_coder(c);
    struct qkv_talk talk = {0};
    json_t *root;
    enum qkv_status status = qkv_talks_read(c, file, row, &root);
    if (status) return status;
    status = qkv_talk_encode(&coder, root, &talk);
    json_decref(root);
    if (status) return qkv_talks_fail(c, file, row->line, status);
    status = qkv_talks_fit(c, file, row, &talk, line);
    line->main = talk.ids, line->beside = talk.marks;
    line->main_count = line->beside_count = talk.count;
    return status;
}

static const struct qkv_lines lines_chat = {
    .name = "chat", .first = "talk", .marks = true, .encode = dataset_chat_encode};

static enum qkv_status dataset_chat_open(struct qkv_data *d) {
    return qkv_lines_open(d, &lines_chat, -1, -1);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static void dataset_chat_rows(struct qkv_data *d, const struct qkv_examples *examples, const uint32_t *rows,
                              struct qkv_batch *batch) {
    const size_t T = batch->T;
    for (size_t r = 0; r < batch->B; r++) {
        int32_t *ids = d->rows.ids + r * T, *targets = d->rows.targets + r * T;
        const size_t n = qkv_examples_main(examples, rows[r], ids);
        qkv_examples_beside(examples, rows[r], targets);
        for (size_t i = 0; i + 1 < n; i++) targets[i] = targets[i + 1] & QKV_MARK_COUNTS ? ids[i + 1] : QKV_IGNORE;
        d->rows.lengths[r] = (int32_t)n - 1;
    }
    batch->ids = d->rows.ids;
    batch->targets = d->rows.targets;
    batch->lengths = d->rows.lengths;
}

static enum qkv_status dataset_chat_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss, double *metric) {
    enum qkv_status status = qkv_lines_validate(d, pass, NULL, NULL, loss);
    *metric = *loss;
    return status;
}

const struct qkv_dataset qkv_dataset_chat = {
    QKV_DATASET_OPTION(chat),
    .noun = "talks",
    .nouns = "talks",
    .reads = QKV_READS_LINES,
    .tasks = QKV_TASKS_NONE,
    .tokenizers = 1,
    .talks = true,
    .lines = {&lines_chat},
    .check = dataset_chat_check,
    .prepare = qkv_talks_prepare,
    .restore = qkv_talks_restore,
    .open = dataset_chat_open,
    .begin = qkv_lines_begin,
    .fill = qkv_lines_fill,
    .rows = dataset_chat_rows,
    .epoch = qkv_lines_epoch,
    .total = qkv_lines_total,
    .count = qkv_lines_count,
    .validate = dataset_chat_validate,
};
