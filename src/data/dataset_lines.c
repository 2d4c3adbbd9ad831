/* Learning from lines of text, each a sequence of its own that begins and ends: <s> x… </s>.
 *
 * Task text: each token predicts the next one. Task mlm: some tokens of a line are hidden (masking.c), at least one;
 * or, with the option mask_each, a line is as many examples as it has tokens, and each hides another one. Beside the
 * tokens of an example its token file has the place of that token, 0 without the option. */
#include <string.h>

#include "text/sequence.h"
#include "text/text.h"
#include "data/data.h"
#include "data/tsv.h"

static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK};

/* ---- lines as tokens -------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_lines_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                            const struct qkv_tsv_row *row, struct qkv_line *line) {
    const struct qkv_tokenizer *tokenizer = c->tokenizer;
    const int32_t end = qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_END);
    const char *text = row->first;
    size_t size = row->first_size;
    qkv_sequence_trim(tokenizer, true, true, &text, &size);
    enum qkv_status status =
        qkv_tokenizer_encode_sequence(c->ctx, tokenizer, text, size, false, &line->main, &line->main_count);
    if (status) return qkv_tsv_fail_at(file, row->line, status);
    struct qkv_sequence_frame frame = qkv_source_frame(tokenizer, false, false);
    size_t n = line->main_count;
    if (n == 0 || line->main[n - 1] != end) {
        int32_t *more = qkv_reallocate(c->ctx, line->main, n + 1, sizeof *more);
        if (!more) return QKV_MEMORY;
        line->main = more;
        line->main[n++] = end;
        line->main_count = n;
        frame.after++;
    }
    if (qkv_line_fit(c, line, frame, line->main, &line->main_count) == QKV_FATE_REFUSED)
        return qkv_tsv_fail(file, row->line,
                            "the line has %zu tokens with " QKV_TOKEN_BEGIN " and " QKV_TOKEN_END
                            ", more than the context of %zu; shorten or remove the line, or choose a larger context, "
                            "or what becomes of long lines (option long = skip, keep-start or keep-end)",
                            n, c->T);
    if (line->skipped) return QKV_OK;
    n = line->main_count;
    line->examples = c->repeat && n > 2 ? n - 2 : 1; /* for each token between its first and its last */
    line->beside_count = line->examples;
    line->beside = qkv_allocate(c->ctx, line->examples, sizeof *line->beside);
    if (!line->beside) return QKV_MEMORY;
    for (size_t i = 0; c->repeat && i < line->examples; i++) line->beside[i] = n > 2 ? (int32_t)i + 1 : 0;
    return QKV_OK;
}

static const struct qkv_lines lines_text = {
    .name = "text", .first = "text", .repeats = true, .encode = dataset_lines_encode};

/* ---- tokenizer -------------------------------------------------------------------------------------------------- */

/* What is read begins with <s>; what is read from both sides ends with </s> too. A tokenizer.json that has a
 * template keeps it. */
static enum qkv_status dataset_lines_template(struct qkv_data *d) {
    const int32_t *before, *after;
    size_t before_count, after_count;
    if (qkv_tokenizer_template(d->tokenizer, &before, &before_count, &after, &after_count)) return QKV_OK;
    const bool bos = qkv_tokenizer_special(d->tokenizer, QKV_TOKEN_BEGIN) < 0,
               eos = qkv_tokenizer_special(d->tokenizer, QKV_TOKEN_END) < 0; /* as the lines have them */
    return qkv_template_make(d->ctx, d->tokenizer, bos ? QKV_WORD_BEGIN : QKV_TOKEN_BEGIN,
                             !qkv_task_masks(d->options) ? NULL
                             : eos                       ? QKV_WORD_END
                                                         : QKV_TOKEN_END);
}

static enum qkv_status dataset_lines_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    struct qkv_data_facts *f = d->facts;
    const struct qkv_tokenizer_choice choice = {.what = "tokenizer",
                                                .choice = d->options->tokenizer,
                                                .specials = specials,
                                                .special_count = qkv_task_masks(d->options) ? 3 : 2};
    enum qkv_status status = qkv_lines_tokenizer(d, &lines_text, 0, choice, &d->tokenizer);
    if (!status) status = dataset_lines_template(d);
    if (!status) status = qkv_origin_vocab(d, "vocab", &spec->vocab, qkv_tokenizer_vocab(d->tokenizer));
    if (!status) status = qkv_spec_check(d->ctx, spec);
    f->beside_data.vocab = f->beside_valid.vocab = (uint64_t)spec->context;
    return status ? status
                  : qkv_tokenizer_keep(d->ctx, d->tokenizer, d->folder, QKV_TOKENIZER_FILE, &f->data, &f->valid);
}

/* ---- the files ------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_lines_open(struct qkv_data *d) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(d->model);
    enum qkv_status status = qkv_lines_template(d, tokenizer, qkv_task_masks(d->options));
    return status ? status : qkv_lines_open(d, &lines_text, qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_END), -1);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Hides tokens of a row of n between its first and its last: the one at `place`, or, where that is 0, some drawn at
 * random. */
static void lines_hide(const struct qkv_data *d, size_t place, struct qkv_random *random, size_t n, int32_t *ids,
                       int32_t *targets) {
    const struct qkv_masking masking = qkv_masking_of(d->options, qkv_model_tokenizer(d->model));
    for (size_t i = 0; i < n; i++) targets[i] = QKV_IGNORE;
    if (!place && n > 2 && qkv_mask_row(&masking, random, n - 2, ids + 1, targets + 1)) return;
    if (!place && n > 2) place = 1 + (size_t)qkv_random_below(random, n - 2);
    targets[place] = ids[place];
    ids[place] = masking.mask;
}

/* One example in a row of T: what the model reads, and what it is to say; the tokens that it reads. */
static size_t lines_row(const struct qkv_data *d, const struct qkv_examples *examples, size_t i,
                        struct qkv_random *random, int32_t *ids, int32_t *targets) {
    size_t n = qkv_examples_main(examples, i, ids);
    int32_t place = 0;
    if (!qkv_task_masks(d->options)) {
        memcpy(targets, ids + 1, (n - 1) * sizeof *targets);
        return n - 1;
    }
    qkv_examples_beside(examples, i, &place);
    lines_hide(d, (size_t)place < n ? (size_t)place : 0, random, n, ids, targets);
    return n;
}

/* Of a step its rows from `begin` on; what is kept for validation hides the same tokens every time. */
static void lines_rows(struct qkv_data *d, const struct qkv_examples *examples, const uint32_t *rows,
                       const uint64_t *step, size_t begin, struct qkv_batch *batch) {
    const uint64_t seed = (uint64_t)d->options->seed;
    for (size_t r = 0; r < batch->B; r++) {
        struct qkv_random random = step ? qkv_draw_masks(seed, *step, begin + r) : qkv_draw_valid_masks(seed, rows[r]);
        d->rows.lengths[r] = (int32_t)lines_row(d, examples, rows[r], &random, d->rows.ids + r * batch->T,
                                                d->rows.targets + r * batch->T);
    }
    batch->ids = d->rows.ids;
    batch->targets = d->rows.targets;
    batch->lengths = d->rows.lengths;
}

static void dataset_lines_rows(struct qkv_data *d, const struct qkv_examples *examples, const uint32_t *rows,
                               struct qkv_batch *batch) {
    lines_rows(d, examples, rows, NULL, 0, batch);
}

static enum qkv_status dataset_lines_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end,
                                          struct qkv_batch *batch) {
    const struct qkv_batches *b = &d->lines.batches;
    const size_t at = qkv_batches_at_step(&d->lines.batches, (uint64_t)d->options->seed, step);
    batch->B = end - begin;
    batch->T = b->shapes[at].T;
    lines_rows(d, &d->lines.examples, b->order + b->cut[at] + begin, &step, begin, batch);
    return QKV_OK;
}

/* What counts: all tokens but the first of each line, or those that are hidden, which are made once to be counted. */
static enum qkv_status dataset_lines_begin(struct qkv_data *d, uint64_t step, struct qkv_dataset_step *out) {
    enum qkv_status status = qkv_lines_begin(d, step, out);
    struct qkv_batch batch;
    out->targets = 0;
    for (size_t r = 0; r < out->rows && !status; r++) {
        status = dataset_lines_fill(d, step, r, r + 1, &batch);
        for (int32_t i = 0; i < d->rows.lengths[0]; i++) out->targets += d->rows.targets[i] != QKV_IGNORE;
    }
    return status;
}

static enum qkv_status dataset_lines_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss, double *metric) {
    enum qkv_status status = qkv_lines_validate(d, pass, NULL, NULL, loss);
    *metric = *loss;
    return status;
}

const struct qkv_dataset qkv_dataset_lines = {
    QKV_DATASET_OPTION(lines),
    .noun = "lines",
    .nouns = "texts",
    .reads = QKV_READS_LINES,
    .tasks = QKV_TASKS_TEXT,
    .tokenizers = 1,
    .lines = {&lines_text},
    .check = qkv_text_check,
    .prepare = dataset_lines_prepare,
    .restore = qkv_text_restore,
    .open = dataset_lines_open,
    .begin = dataset_lines_begin,
    .fill = dataset_lines_fill,
    .rows = dataset_lines_rows,
    .epoch = qkv_lines_epoch,
    .total = qkv_lines_total,
    .count = qkv_lines_count,
    .validate = dataset_lines_validate,
};
