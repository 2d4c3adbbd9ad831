/* Learning to classify lines: a label, a tab and a text in each; or words, with a head that classifies tokens
 * (dataset_words.c).
 *
 * A text is stored as <s> x… </s>: pooling the first position then has one of its own to read. Its label is stored
 * as the number of its class; the names, sorted, are in labels.txt. */
#include <stdlib.h>
#include <string.h>

#include "text/sequence.h"
#include "data/data.h"
#include "data/tsv.h"

static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};

static enum qkv_status dataset_labeled_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                             const struct qkv_spec *spec) {
    (void)options;
    if (spec->head.kind == QKV_HEAD_CLASSIFY || spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS) return QKV_OK;
    return qkv_fail(
        ctx, QKV_SPEC,
        "labelled lines need head.kind classify; choose a classifier, as the preset text-classifier, or for "
        "labelled words head.kind classify_tokens");
}

/* ---- lines as tokens -------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_labeled_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                              const struct qkv_tsv_row *row, struct qkv_line *line) {
    const struct qkv_tokenizer *tokenizer = c->tokenizer;
    size_t label = qkv_labels_find(c, row->first, row->first_size);
    if (label == c->label_count) return qkv_labels_unknown(c, file, row->line, row->first, row->first_size);
    line->beside = qkv_allocate(c->ctx, 1, sizeof *line->beside);
    if (!line->beside) return QKV_MEMORY;
    line->beside[0] = (int32_t)label;
    line->beside_count = 1;
    enum qkv_status status =
        qkv_source_encode(c->ctx, tokenizer, row->second, row->second_size, true, true, &line->main, &line->main_count);
    if (status) return qkv_tsv_fail_at(file, row->line, status);
    const struct qkv_sequence_frame frame = qkv_source_frame(tokenizer, true, true);
    if (qkv_line_fit(c, line, frame, line->main, &line->main_count) != QKV_FATE_REFUSED) return QKV_OK;
    return qkv_tsv_fail(file, row->line,
                        "the text has %zu tokens with " QKV_TOKEN_BEGIN " and " QKV_TOKEN_END
                        ", more than the context of %zu; shorten or remove the line, or choose a larger context, or "
                        "what becomes of long lines (option long = skip, keep-start or keep-end)",
                        line->main_count, c->T);
}

static const struct qkv_lines lines_labeled = {
    .name = "labeled", .first = "label", .second = "text", .encode = dataset_labeled_encode};

/* ---- labels ----------------------------------------------------------------------------------------------------- */

struct text {
    const char *data;
    size_t size;
};

static int compare_texts(const void *left, const void *right) {
    const struct text *a = left, *b = right;
    return qkv_labels_compare(a->data, a->size, b->data, b->size);
}

struct found { /* the labels of all rows, in the files that are open */
    struct text *items;
    size_t count, capacity;
};

static enum qkv_status read_labels(struct qkv_data *d, struct qkv_tsv *file, bool words, struct found *all) {
    struct qkv_tsv_row row;
    bool end = false;
    enum qkv_status status = QKV_OK;
    while (!status && !(status = qkv_tsv_next(file, &row, &end)) && !end) {
        const struct text label =
            words ? (struct text){row.second, row.second_size} : (struct text){row.first, row.first_size};
        if (memchr(label.data, '\r', label.size))
            status = qkv_tsv_fail(file, row.line, "the label holds a carriage return; remove it");
        if (status) return status;
        struct text *grown = qkv_list_room(d->ctx, all->items, &all->capacity, all->count, 1, sizeof *grown);
        if (!grown) return QKV_MEMORY;
        all->items = grown;
        all->items[all->count++] = label;
    }
    return status;
}

/* The different ones, sorted, as the labels of the data. */
static enum qkv_status keep_labels(struct qkv_data *d, struct text *all, size_t count) {
    char name[QKV_FILES_NAME];
    size_t kept = 0;
    qsort(all, count, sizeof *all, compare_texts);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || compare_texts(&all[kept - 1], &all[i]) != 0) all[kept++] = all[i];
    d->labels = qkv_allocate(d->ctx, kept, sizeof *d->labels);
    if (!d->labels) return QKV_MEMORY;
    for (; d->label_count < kept; d->label_count++) {
        const struct text *label = &all[d->label_count];
        d->labels[d->label_count] = qkv_copy_bytes(d->ctx, label->data, label->size);
        if (!d->labels[d->label_count]) return QKV_MEMORY;
    }
    if (kept < 2)
        return qkv_fail(d->ctx, QKV_FORMAT, "%s: every line has the label \"%.100s\"; a classifier needs at least two",
                        qkv_text_files_name(&d->facts->data_files, name), d->labels[0]);
    return QKV_OK;
}

static enum qkv_status find_labels(struct qkv_data *d, const struct qkv_lines *lines, bool words) {
    struct qkv_text_files *files = &d->facts->data_files;
    const bool keep = qkv_text_files_fit(d->ctx, files);
    struct qkv_tsv *open = qkv_allocate(d->ctx, files->count, sizeof *open);
    struct found all = {0};
    enum qkv_status status = open ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < files->count && !status; i++) {
        status = qkv_tsv_open_file(d->ctx, &files->items[i], keep, lines->first, lines->second, &open[i]);
        if (!status) status = read_labels(d, &open[i], words, &all);
    }
    if (!status) status = keep_labels(d, all.items, all.count);
    free(all.items);
    for (size_t i = 0; open && i < files->count; i++) qkv_tsv_close(&open[i]);
    free(open);
    return status;
}

/* labels.txt, and its hash in the facts. Tokens that are not scored have a number too. */
static enum qkv_status write_labels(struct qkv_data *d, bool words) {
    struct qkv_buffer text = {0};
    char *path = qkv_join_path(d->ctx, d->folder, QKV_LABELS_FILE);
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < d->label_count && !status; i++)
        status = qkv_buffer_print(d->ctx, &text, "%s\n", d->labels[i]);
    if (!status) status = qkv_write_file(d->ctx, path, text.data, text.size);
    struct qkv_text_facts *data = &d->facts->beside_data, *valid = &d->facts->beside_valid;
    if (!status) data->tokenizer = valid->tokenizer = qkv_hash(QKV_HASH_START, text.data, text.size);
    data->vocab = valid->vocab = d->label_count + words;
    qkv_buffer_free(&text);
    free(path);
    return status;
}

/* The lines of labels.txt, whose hash is right, so it is what write_labels wrote. */
static enum qkv_status split_labels(struct qkv_data *d, const char *text, size_t size) {
    d->labels = qkv_allocate(d->ctx, (size_t)d->facts->beside_data.vocab, sizeof *d->labels);
    if (!d->labels) return QKV_MEMORY;
    while (size > 0 && d->label_count < d->facts->beside_data.vocab) {
        const char *stop = memchr(text, '\n', size);
        size_t n = stop ? (size_t)(stop - text) : size, taken = stop ? n + 1 : n;
        d->labels[d->label_count] = qkv_copy_bytes(d->ctx, text, n);
        if (!d->labels[d->label_count]) return QKV_MEMORY;
        d->label_count++;
        text += taken;
        size -= taken;
    }
    return QKV_OK;
}

static enum qkv_status restore_labels(struct qkv_data *d) {
    struct qkv_map map = {0};
    char *path = qkv_join_path(d->ctx, d->folder, QKV_LABELS_FILE);
    enum qkv_status status = path ? qkv_read_file(d->ctx, path, &map) : QKV_MEMORY;
    if (!status && qkv_hash(QKV_HASH_START, map.data, map.size) != d->facts->beside_data.tokenizer)
        status = qkv_fail(d->ctx, QKV_FORMAT,
                          "%s does not hold the labels that this run was trained with; restore it, or start a new run "
                          "in another folder",
                          path);
    if (!status) status = split_labels(d, (const char *)map.data, map.size);
    qkv_unmap_file(&map);
    free(path);
    return status;
}

/* ---- tokenizer and classes -------------------------------------------------------------------------------------- */

static enum qkv_status set_classes(struct qkv_data *d, struct qkv_spec *spec) {
    int count = (int)d->label_count;
    char name[QKV_FILES_NAME];
    if (spec->head.classes == 0) spec->head.classes = count;
    if (spec->head.classes == count) return QKV_OK;
    return qkv_fail(
        d->ctx, QKV_SPEC,
        "the spec's head.classes is %d but %s has %d different labels; set head.classes=%d, or leave it out",
        spec->head.classes, qkv_text_files_name(&d->facts->data_files, name), count, count);
}

static enum qkv_status dataset_labeled_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    const bool words = spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    const struct qkv_lines *lines = words ? &qkv_lines_words_kind : &lines_labeled;
    const struct qkv_tokenizer_choice choice = {
        .what = "tokenizer", .choice = d->options->tokenizer, .specials = specials, .special_count = 2};
    enum qkv_status status = find_labels(d, lines, words);
    if (!status && d->origin) status = qkv_origin_labels(d);
    if (!status) status = set_classes(d, spec);
    if (!status) status = qkv_lines_tokenizer(d, lines, words ? 0 : 1, choice, &d->tokenizer);
    if (!status) status = qkv_origin_vocab(d, "vocab", &spec->vocab, qkv_tokenizer_vocab(d->tokenizer));
    if (!status) status = qkv_spec_check(d->ctx, spec);
    if (!status) status = write_labels(d, words);
    return status ? status
                  : qkv_tokenizer_keep(d->ctx, d->tokenizer, d->folder, QKV_TOKENIZER_FILE, &d->facts->data,
                                       &d->facts->valid);
}

static enum qkv_status dataset_labeled_restore(struct qkv_data *d) {
    enum qkv_status status =
        qkv_tokenizer_return(d->ctx, d->folder, QKV_TOKENIZER_FILE, &d->facts->data, &d->tokenizer);
    return status ? status : restore_labels(d);
}

/* ---- the files ------------------------------------------------------------------------------------------------- */

/* Notes the labels of an example in `seen`, or gives the first that is not there; −1 where all are. */
static int32_t example_labels(const struct qkv_examples *examples, size_t i, bool *seen, bool learn) {
    for (size_t k = examples->beside_at[i]; k < examples->beside_at[i + 1]; k++) {
        const int32_t label = qkv_tokens_at(&examples->beside, k) - examples->beside_each;
        if (label >= 0 && !learn && !seen[label]) return label;
        if (label >= 0) seen[label] = true;
    }
    return -1;
}

/* Without a file to validate on the last lines are: their labels must be among those to learn from. */
static enum qkv_status check_held_out(struct qkv_data *d) {
    const struct qkv_examples *examples = &d->lines.examples;
    char name[QKV_FILES_NAME];
    size_t kept = d->options->valid ? 0 : (size_t)((double)examples->count * d->options->valid_fraction);
    bool *seen = qkv_allocate(d->ctx, d->label_count + 1, sizeof *seen);
    enum qkv_status status = seen ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < examples->count && !status; i++) {
        const int32_t label = example_labels(examples, i, seen, i < examples->count - kept);
        const char *unit = examples->beside_each ? "sentences" : "lines";
        if (label >= 0)
            status = qkv_fail(d->ctx, QKV_FORMAT,
                              "the label \"%.100s\" stands only in the last %zu %s of %s, which are kept for "
                              "validation; shuffle the %s, or give a file to validate on (valid)",
                              d->labels[label], kept, unit, qkv_text_files_name(&d->facts->data_files, name), unit);
    }
    free(seen);
    return status;
}

static enum qkv_status open_data(struct qkv_data *d) {
    const bool words = qkv_model_spec(d->model)->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    const int32_t end = qkv_tokenizer_role(qkv_model_tokenizer(d->model), QKV_TOKEN_ROLE_END);
    enum qkv_status status = qkv_lines_template(d, qkv_model_tokenizer(d->model), true);
    if (!status) status = qkv_model_set_labels(d->model, (const char *const *)d->labels, d->label_count);
    if (!status) status = qkv_lines_open(d, words ? &qkv_lines_words_kind : &lines_labeled, end, -1);
    return status ? status : check_held_out(d);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

static void fill_rows(struct qkv_data *d, const struct qkv_examples *examples, const uint32_t *rows,
                      struct qkv_batch *batch) {
    size_t T = batch->T, of_each = examples->beside_each ? T : 1;
    for (size_t r = 0; r < batch->B; r++) {
        int32_t *targets = d->rows.targets + r * of_each;
        d->rows.lengths[r] = (int32_t)qkv_examples_main(examples, rows[r], d->rows.ids + r * T);
        const size_t n = qkv_examples_beside(examples, rows[r], targets);
        if (examples->beside_each) qkv_words_targets(targets, n, T);
    }
    batch->ids = d->rows.ids;
    batch->targets = d->rows.targets;
    batch->lengths = d->rows.lengths;
}

struct score {
    size_t right, all;
};

static void count_right(struct qkv_pass *pass, const struct qkv_batch *batch, void *user) {
    struct score *score = user;
    struct qkv_array logits = qkv_pass_output(pass);
    const size_t classes = logits.shape[logits.rank - 1], rows = batch->B * (logits.rank > 2 ? batch->T : 1);
    for (size_t r = 0; r < rows; r++) {
        const float *row = (const float *)logits.data + r * classes;
        size_t best = 0;
        if (batch->targets[r] == QKV_IGNORE) continue;
        for (size_t k = 1; k < classes; k++) best = row[k] > row[best] ? k : best;
        score->right += best == (size_t)batch->targets[r];
        score->all++;
    }
}

/* What classifies a line has its scores without being asked for them. */
static bool dataset_labeled_scores(const struct qkv_spec *spec) {
    return spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
}

static enum qkv_status dataset_labeled_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss,
                                                double *metric) {
    struct score score = {0};
    enum qkv_status status = qkv_lines_validate(d, pass, count_right, &score, loss);
    bool accuracy = d->metric == QKV_METRIC_ACCURACY;
    *metric = accuracy && score.all ? (double)score.right / (double)score.all : *loss;
    return status;
}

const struct qkv_dataset qkv_dataset_labeled = {
    QKV_DATASET_OPTION(labeled),
    .noun = "labelled lines",
    .nouns = "labelled lines",
    .reads = QKV_READS_LINES,
    .tasks = QKV_TASKS_CLASSES,
    .tokenizers = 1,
    .labels = true,
    .metrics = 1U << QKV_METRIC_ACCURACY,
    .lines = {&lines_labeled, &qkv_lines_words_kind},
    .scores = dataset_labeled_scores,
    .check = dataset_labeled_check,
    .prepare = dataset_labeled_prepare,
    .restore = dataset_labeled_restore,
    .open = open_data,
    .begin = qkv_lines_begin,
    .fill = qkv_lines_fill,
    .rows = fill_rows,
    .epoch = qkv_lines_epoch,
    .total = qkv_lines_total,
    .count = qkv_lines_count,
    .validate = dataset_labeled_validate,
};
