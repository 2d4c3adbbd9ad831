/* Learning from talks and from prompts with completions, a line of JSON each (talk.h): the next token, where that is
 * one of the assistant's.
 *
 * The token file beside holds the marks of each token. A batch has whole talks, which the pass packs without padding;
 * none attends to another. */
#include <string.h>
#include <time.h>

#include "base/json_load.h"
#include "chat/chat_template.h"
#include "text/text.h"
#include "data/data.h"
#include "data/talk.h"
#include "data/tsv.h"

static enum qkv_status dataset_chat_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                          const struct qkv_spec *spec) {
    enum qkv_status status = qkv_text_model_check(ctx, spec);
    if (status || options->from || !qkv_tokenizer_learns(options->tokenizer)) return status;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "talks do not train a tokenizer; begin with a model (option from), or name the file of a tokenizer, "
                    "or bytes (option tokenizer)");
}

/* ---- lines as tokens -------------------------------------------------------------------------------------------- */

/* Cuts ids and marks where the talk is longer than the context, or leaves it out; also if nothing is left that
 * counts. */
static enum qkv_status chat_fit(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                const struct qkv_tsv_row *row, struct qkv_talk *talk, struct qkv_line *line) {
    const struct qkv_sequence_frame frame = {0};
    size_t count = talk->count;
    const enum qkv_long_fate fate = qkv_line_fit(c, line, frame, talk->ids, &count);
    if (fate == QKV_FATE_REFUSED)
        return qkv_tsv_fail(file, row->line,
                            "the talk has %zu tokens, more than the context of %zu; shorten or remove the line, or "
                            "choose a larger context, or what becomes of long lines (option long = skip, keep-start or "
                            "keep-end)",
                            talk->count, c->T);
    if (fate == QKV_FATE_FITS) qkv_line_fit(c, line, frame, talk->marks, &talk->count);
    line->skipped |= !qkv_talk_counts(talk);
    talk->marks[talk->count - 1] |= QKV_MARK_LAST;
    return QKV_OK;
}

/* Puts file and line before the sentence of a line that is wrong. */
static enum qkv_status chat_fail(const struct qkv_line_coder *c, const struct qkv_tsv *file, size_t line,
                                 enum qkv_status status) {
    char sentence[sizeof c->ctx->message];
    if (status != QKV_FORMAT) return qkv_tsv_fail_at(file, line, status);
    memcpy(sentence, c->ctx->message, sizeof sentence);
    return qkv_tsv_fail(file, line, "%s", sentence);
}

static enum qkv_status dataset_chat_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                           const struct qkv_tsv_row *row, struct qkv_line *line) {
    const struct qkv_talk_coder coder = {
        .ctx = c->ctx, .tokenizer = c->tokenizer, .templates = c->templates, .now = c->now};
    const struct qkv_json_text text = {
        .name = "the talk", .data = row->first, .size = row->first_size, .max_size = QKV_CHAT_TALK};
    struct qkv_talk talk = {0};
    json_t *root;
    enum qkv_status status = qkv_json_load(c->ctx, &text, &root);
    if (!status) status = qkv_talk_encode(&coder, root, &talk);
    json_decref(root);
    if (status) return chat_fail(c, file, row->line, status);
    status = chat_fit(c, file, row, &talk, line);
    line->main = talk.ids, line->beside = talk.marks;
    line->main_count = line->beside_count = talk.count;
    return status;
}

static const struct qkv_lines lines_chat = {
    .name = "chat", .first = "talk", .marks = true, .encode = dataset_chat_encode};

/* ---- tokenizer and templates ------------------------------------------------------------------------------------ */

/* The template of the option replaces those of the model. */
static enum qkv_status chat_replace(struct qkv_data *d) {
    const char *path = d->options->template;
    struct qkv_chat_template *t = NULL;
    struct qkv_map map = {0};
    if (!path) return QKV_OK;
    enum qkv_status status = qkv_read_file(d->ctx, path, &map);
    if (!status && !map.size)
        status = qkv_fail(d->ctx, QKV_FORMAT, "%s is empty, but a template writes the text of a talk", path);
    if (!status) status = qkv_chat_template_parse(d->ctx, path, (const char *)map.data, map.size, &t);
    if (!status) {
        qkv_chat_sources_free(&d->tokenizer->chats);
        status = qkv_chat_sources_add(d->ctx, &d->tokenizer->chats, "default", path, (const char *)map.data, map.size);
    }
    qkv_chat_template_free(t);
    qkv_unmap_file(&map);
    return status;
}

/* Those of the run's folder, as whoever talks with the run will read them. */
static enum qkv_status chat_templates(struct qkv_data *d) {
    d->now = (int64_t)time(NULL);
    if (!d->tokenizer->chats.count) return QKV_OK;
    return qkv_chat_template_open(d->ctx, d->folder, NULL, &d->templates);
}

static enum qkv_status dataset_chat_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    struct qkv_data_facts *f = d->facts;
    const struct qkv_tokenizer_choice choice = {.what = "tokenizer", .choice = d->options->tokenizer};
    enum qkv_status status = d->origin ? qkv_origin_tokenizer(d, false, NULL, 0, &d->tokenizer)
                                       : qkv_tokenizer_make(d->ctx, &choice, &d->tokenizer);
    if (!status) status = chat_replace(d);
    if (!status) status = qkv_origin_vocab(d, "vocab", &spec->vocab, qkv_tokenizer_vocab(d->tokenizer));
    if (!status) status = qkv_spec_check(d->ctx, spec);
    if (!status) status = qkv_tokenizer_keep(d->ctx, d->tokenizer, d->folder, QKV_TOKENIZER_FILE, &f->data, &f->valid);
    if (!status) status = chat_templates(d);
    f->beside_data.vocab = f->beside_valid.vocab = QKV_MARKS;
    f->beside_data.tokenizer = f->beside_valid.tokenizer = d->templates ? qkv_chat_template_hash(d->templates) : 0;
    return status;
}

static enum qkv_status dataset_chat_restore(struct qkv_data *d) {
    enum qkv_status status = qkv_text_restore(d);
    if (!status) status = chat_templates(d);
    if (status) return status;
    const uint64_t hash = d->templates ? qkv_chat_template_hash(d->templates) : 0;
    if (hash == d->facts->beside_data.tokenizer) return QKV_OK;
    return qkv_fail(d->ctx, QKV_FORMAT,
                    "%s does not hold the chat template that this run was trained with (" QKV_ROLES_FILE
                    "); restore it, or start a new run in another folder",
                    d->folder);
}

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
    .prepare = dataset_chat_prepare,
    .restore = dataset_chat_restore,
    .open = dataset_chat_open,
    .begin = qkv_lines_begin,
    .fill = qkv_lines_fill,
    .rows = dataset_chat_rows,
    .epoch = qkv_lines_epoch,
    .total = qkv_lines_total,
    .count = qkv_lines_count,
    .validate = dataset_chat_validate,
};
