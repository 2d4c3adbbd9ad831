/* Learning from preferences, a line of JSON each: a prompt, the answer that is chosen and the one that is rejected.
 * With the margin m = (log π(chosen) − log ρ(chosen)) − (log π(rejected) − log ρ(rejected)), where π is the model that
 * learns and ρ the reference, the one that the run began with:
 *
 *   dpo: −log σ(β·m), of sums over the tokens of an answer (Rafailov et al. 2023); with label smoothing e
 *        (1 − e)·(−log σ(β·m)) + e·(−log σ(−β·m)) (Mitchell 2023)
 *   ipo: (m − 1/(2β))², of means over them (Azar et al. 2023; means as in TRL)
 *
 * The reference's log probabilities are computed once, when the run begins: it then is the model itself, so no second
 * copy of the weights is needed, with and without an adapter, and no further pass in each step. They are in
 * reference.safetensors. A step first runs its batch forward to know the margins; then the gradient of each answer is
 * that of its cross-entropy times a factor that the margin tells. Dropout would make both runs differ, so there is
 * none.
 *
 * A pair is one example of both sequences, the chosen one first; in a batch they are neighbours. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "io/adapter_files.h"
#include "model/model.h"
#include "op/builders.h"
#include "data/talks.h"

enum { CHOSEN, REJECTED, SIDES };
enum { REFERENCE_PAIRS = 4 }; /* that the reference reads at a time */

struct preference_data {
    double *reference, *valid_reference; /* (examples, SIDES): −log ρ of the answers */
    struct qkv_pass *look;               /* forward alone: the margins of a batch */
    float *found, *weights, *losses;     /* (positions): of the rows of a batch */
    struct qkv_loss_rows rows;           /* that the pass of the step reads */
};
struct preference_loss {
    bool ipo;
    double beta, smoothing;
};
/* What is known of a pair. */
struct preference_pair {
    double nll[SIDES], reference[SIDES];
    size_t counted[SIDES], last[SIDES]; /* tokens that count, and the place of the last one in the row */
    double margin, loss, slope;         /* slope: of the loss by the margin */
};

static struct preference_loss preference_loss_of(const struct qkv_train_options *o) {
    return (struct preference_loss){
        .ipo = !strcmp(o->preference_loss, "ipo"), .beta = o->preference_beta, .smoothing = o->label_smoothing};
}

static enum qkv_status dataset_preferences_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                                 const struct qkv_spec *spec) {
    struct qkv_adapter_settings adapter = {0};
    if (!options->from)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "preferences need a model to begin with, which is also their reference; name it (option from)");
    enum qkv_status status = options->lora ? qkv_adapter_parse(ctx, options->lora, &adapter) : QKV_OK;
    free(adapter.targets);
    if (!status && adapter.dropout > 0)
        status =
            qkv_fail(ctx, QKV_ARGUMENT, "lora has a dropout, but preferences are learnt without dropout; leave it out");
    return status ? status : qkv_text_model_check(ctx, spec);
}

/* ---- lines as tokens -------------------------------------------------------------------------------------------- */

static bool preference_same(const struct qkv_talk talks[SIDES]) {
    return talks[CHOSEN].count == talks[REJECTED].count &&
           !memcmp(talks[CHOSEN].ids, talks[REJECTED].ids, talks[CHOSEN].count * sizeof(int32_t));
}

/* Both sequences, one behind the other. */
static enum qkv_status preference_join(const struct qkv_line_coder *c, const struct qkv_talk talks[SIDES],
                                       struct qkv_line *line) {
    const size_t first = talks[CHOSEN].count, second = talks[REJECTED].count;
    line->main = qkv_allocate(c->ctx, first + second, sizeof *line->main);
    line->beside = qkv_allocate(c->ctx, first + second, sizeof *line->beside);
    if (!line->main || !line->beside) return QKV_MEMORY;
    memcpy(line->main, talks[CHOSEN].ids, first * sizeof *line->main);
    memcpy(line->main + first, talks[REJECTED].ids, second * sizeof *line->main);
    memcpy(line->beside, talks[CHOSEN].marks, first * sizeof *line->beside);
    memcpy(line->beside + first, talks[REJECTED].marks, second * sizeof *line->beside);
    line->beside[first - 1] &= ~QKV_MARK_LAST;
    line->beside[first] |= QKV_MARK_SECOND;
    line->main_count = line->beside_count = first + second;
    return QKV_OK;
}

static enum qkv_status dataset_preferences_encode(const struct qkv_line_coder *c, const struct qkv_tsv *file,
                                                  const struct qkv_tsv_row *row, struct qkv_line *line) {
    static const char *const keys[SIDES] = {"chosen", "rejected"};
    const struct qkv_talk_coder coder = qkv_talks_coder(c);
    struct qkv_talk talks[SIDES] = {0};
    json_t *root;
    enum qkv_status status = qkv_talks_read(c, file, row, &root);
    if (status) return status;
    for (size_t i = 0; i < SIDES && !status; i++)
        status = qkv_talk_encode_answer(&coder, root, "prompt", keys[i], &talks[i]);
    json_decref(root);
    if (!status && preference_same(talks))
        status = qkv_fail(c->ctx, QKV_FORMAT,
                          "\"chosen\" and \"rejected\" are the same, so they prefer nothing; remove the line");
    if (status) status = qkv_talks_fail(c, file, row->line, status);
    for (size_t i = 0; i < SIDES && !status; i++) status = qkv_talks_fit(c, file, row, &talks[i], line);
    if (!status) line->skipped |= preference_same(talks); /* cut to what they share */
    if (!status) status = preference_join(c, talks, line);
    for (size_t i = 0; i < SIDES; i++) qkv_talk_free(&talks[i]);
    return status;
}

static const struct qkv_lines lines_preferences = {
    .name = "preferences", .first = "preference", .marks = true, .two = true, .encode = dataset_preferences_encode};

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Of the shapes of pairs, which hold both sequences: those of their batches. */
static void preference_shapes(struct qkv_pass_shape *shapes, size_t count, size_t T) {
    for (size_t i = 0; i < count; i++) {
        shapes[i].rows = shapes[i].B * shapes[i].T;
        shapes[i].T = qkv_min(shapes[i].T, T);
        shapes[i].B *= SIDES;
    }
}

/* Where the rejected answer of a pair begins. */
static size_t preference_second(const struct qkv_examples *e, size_t i) {
    size_t k = e->main_at[i];
    while (k + 1 < e->main_at[i + 1] && !(qkv_tokens_at(&e->beside, k) & QKV_MARK_SECOND)) k++;
    return k;
}

/* Whether a sequence, the tokens [begin, end) of the file, has one that counts, and is no longer than T. */
static bool preference_counts(const struct qkv_examples *e, size_t begin, size_t end, size_t T) {
    bool counts = false;
    for (size_t k = begin + 1; k < end; k++) counts |= (qkv_tokens_at(&e->beside, k) & QKV_MARK_COUNTS) > 0;
    return counts && end - begin <= T;
}

/* Marks are those of pairs: a damaged file is not read further. */
static enum qkv_status preference_check(struct qkv_data *d, const struct qkv_examples *e) {
    for (size_t i = 0; i < e->count; i++) {
        const size_t second = preference_second(e, i);
        if (qkv_tokens_at(&e->beside, second) & QKV_MARK_SECOND && preference_counts(e, e->main_at[i], second, d->T) &&
            preference_counts(e, second, e->main_at[i + 1], d->T))
            continue;
        return qkv_fail(d->ctx, QKV_FORMAT,
                        "%s: pair %zu does not have two answers with a token that counts; remove the file, and it is "
                        "made again",
                        e->beside.path, i);
    }
    return QKV_OK;
}

static enum qkv_status dataset_preferences_open(struct qkv_data *d) {
    d->own = qkv_allocate(d->ctx, 1, sizeof(struct preference_data));
    enum qkv_status status = d->own ? qkv_lines_open(d, &lines_preferences, -1, -1) : QKV_MEMORY;
    if (!status) status = preference_check(d, &d->lines.examples);
    if (!status) status = preference_check(d, &d->lines.valid_examples);
    preference_shapes(d->lines.shapes, d->lines.shape_count, d->T);
    preference_shapes(d->lines.validation_shapes, d->lines.validation_shape_count, d->T);
    return status;
}

/* One sequence, the tokens [begin, end) of the file, as a row of T. */
static void preference_row(struct qkv_data *d, const struct qkv_examples *e, size_t begin, size_t end, size_t row,
                           size_t T) {
    int32_t *ids = d->rows.ids + row * T, *targets = d->rows.targets + row * T;
    for (size_t k = begin; k + 1 < end; k++) {
        ids[k - begin] = qkv_tokens_at(&e->main, k);
        targets[k - begin] =
            qkv_tokens_at(&e->beside, k + 1) & QKV_MARK_COUNTS ? qkv_tokens_at(&e->main, k + 1) : QKV_IGNORE;
    }
    d->rows.lengths[row] = (int32_t)(end - begin) - 1;
}

/* Pairs as a batch; rows NULL: `pairs` of them from `first` on. */
static void preference_batch(struct qkv_data *d, const struct qkv_examples *e, const uint32_t *rows, size_t first,
                             size_t pairs, struct qkv_batch *batch) {
    batch->B = SIDES * pairs;
    batch->T = 1;
    for (size_t r = 0; r < pairs; r++) {
        const size_t i = rows ? rows[r] : first + r, second = preference_second(e, i);
        batch->T = qkv_max(batch->T, qkv_max(second - e->main_at[i], e->main_at[i + 1] - second) - 1);
    }
    for (size_t r = 0; r < pairs; r++) {
        const size_t i = rows ? rows[r] : first + r, second = preference_second(e, i);
        preference_row(d, e, e->main_at[i], second, SIDES * r + CHOSEN, batch->T);
        preference_row(d, e, second, e->main_at[i + 1], SIDES * r + REJECTED, batch->T);
    }
    batch->ids = d->rows.ids;
    batch->targets = d->rows.targets;
    batch->lengths = d->rows.lengths;
}

/* ---- margins ---------------------------------------------------------------------------------------------------- */

static double preference_sigmoid(double x) {
    const double e = qkv_exp(-fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* −log σ(x) */
static double preference_softplus(double x) {
    return qkv_log(1 + qkv_exp(-fabs(x))) + (x < 0 ? -x : 0);
}

static void preference_measure(const struct preference_loss *l, struct preference_pair *p) {
    double gain[SIDES]; /* log π − log ρ */
    for (size_t s = 0; s < SIDES; s++) gain[s] = (p->reference[s] - p->nll[s]) / (l->ipo ? (double)p->counted[s] : 1);
    p->margin = gain[CHOSEN] - gain[REJECTED];
    if (l->ipo) {
        const double off = p->margin - 1 / (2 * l->beta);
        p->loss = off * off, p->slope = 2 * off;
        return;
    }
    const double x = l->beta * p->margin, e = l->smoothing;
    p->loss = (1 - e) * preference_softplus(x) + e * preference_softplus(-x);
    p->slope = l->beta * (e * preference_sigmoid(x) - (1 - e) * preference_sigmoid(-x));
}

/* Runs a batch forward: the −log probability of each token is then in `found`. */
static enum qkv_status preference_run(struct qkv_data *d, struct qkv_pass *pass, const struct qkv_batch *batch) {
    struct preference_data *own = d->own;
    const struct qkv_loss_rows rows = {.found = own->found};
    qkv_pass_set_loss_rows(pass, &rows);
    const enum qkv_status status = qkv_pass_forward(pass, batch);
    qkv_pass_set_loss_rows(pass, NULL);
    return status;
}

/* The answers of pair r of a batch that has been run. */
static void preference_sum(const struct qkv_data *d, const struct qkv_batch *batch, size_t r,
                           struct preference_pair *p) {
    const struct preference_data *own = d->own;
    for (size_t s = 0; s < SIDES; s++) {
        const size_t row = SIDES * r + s;
        p->nll[s] = 0, p->counted[s] = 0, p->last[s] = row * batch->T;
        for (size_t k = row * batch->T; k < row * batch->T + (size_t)d->rows.lengths[row]; k++) {
            if (d->rows.targets[k] == QKV_IGNORE) continue;
            p->nll[s] += (double)own->found[k];
            p->counted[s]++;
            p->last[s] = k;
        }
    }
}

static void preference_refer(const double *reference, size_t i, struct preference_pair *p) {
    for (size_t s = 0; s < SIDES; s++) p->reference[s] = reference[SIDES * i + s];
}

/* ---- the reference ---------------------------------------------------------------------------------------------- */

static enum qkv_status preference_refer_all(struct qkv_data *d, const struct qkv_examples *e, double **reference) {
    struct preference_data *own = d->own;
    struct preference_pair p;
    struct qkv_batch batch = {0};
    size_t pairs = qkv_min((size_t)REFERENCE_PAIRS, d->B / SIDES), positions = d->rows.positions;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0, n; i < e->count && !status; i += n) {
        n = qkv_min(pairs, e->count - i);
        size_t longest = 0;
        for (size_t k = i; k < i + n; k++) longest = qkv_max(longest, e->main_at[k + 1] - e->main_at[k]);
        while (n > 1 && SIDES * n * longest > positions) n--;
        status =
            qkv_train_progress(d->ctx, d->progress, d->user, "reading with the reference", (double)i, (double)e->count);
        batch = (struct qkv_batch){0};
        preference_batch(d, e, NULL, i, n, &batch);
        if (!status) status = preference_run(d, own->look, &batch);
        for (size_t r = 0; r < n && !status; r++) {
            preference_sum(d, &batch, r, &p);
            for (size_t s = 0; s < SIDES; s++) (*reference)[SIDES * (i + r) + s] = p.nll[s];
        }
    }
    return status;
}

static const char *const reference_names[2] = {"data", "valid"};

/* What the log probabilities depend on: the pairs and how they are written, and the weights of the reference. */
enum { REFERENCE_KEYS = 4 }; /* two keys with their values */
struct reference_ties {
    char data[17], from[17];
    const char *keys[REFERENCE_KEYS];
};

static void reference_tie(const struct qkv_data *d, struct reference_ties *ties) {
    const struct qkv_data_facts *f = d->facts;
    const uint64_t data[] = {f->data.hash,    f->data.tokens,    f->valid.hash,
                             f->valid.tokens, f->data.tokenizer, f->beside_data.tokenizer};
    snprintf(ties->data, sizeof ties->data, "%016" PRIx64, qkv_hash(QKV_HASH_START, data, sizeof data));
    snprintf(ties->from, sizeof ties->from, "%016" PRIx64, d->from_hash);
    const char *const keys[REFERENCE_KEYS] = {"data", ties->data, "from", ties->from};
    memcpy(ties->keys, keys, sizeof keys);
}

static enum qkv_status preference_write(struct qkv_data *d, const char *path) {
    const struct preference_data *own = d->own;
    const struct qkv_examples *examples[2] = {&d->lines.examples, &d->lines.valid_examples};
    double *const values[2] = {own->reference, own->valid_reference};
    struct qkv_array arrays[2];
    const size_t count = examples[1]->count ? 2 : 1;
    for (size_t i = 0; i < count; i++)
        arrays[i] = (struct qkv_array){.name = reference_names[i],
                                       .dtype = QKV_F64,
                                       .rank = 2,
                                       .shape = {examples[i]->count, SIDES},
                                       .data = values[i],
                                       .bytes = examples[i]->count * SIDES * sizeof(double)};
    struct reference_ties ties;
    reference_tie(d, &ties);
    return qkv_tensors_write(d->ctx, path, arrays, count, ties.keys, REFERENCE_KEYS / 2);
}

static enum qkv_status reference_check(const struct qkv_data *d, const char *path, const struct qkv_tensors *tensors) {
    struct reference_ties ties;
    reference_tie(d, &ties);
    for (size_t i = 0; i < REFERENCE_KEYS; i += 2) {
        const char *text = qkv_tensors_metadata(tensors, ties.keys[i]);
        if (text && !strcmp(text, ties.keys[i + 1])) continue;
        return qkv_fail(d->ctx, QKV_FORMAT, "%s is of another run, with other %s; restore it", path,
                        i ? "weights (from)" : "pairs");
    }
    return QKV_OK;
}

static enum qkv_status preference_read(struct qkv_data *d, const char *path) {
    struct preference_data *own = d->own;
    const struct qkv_examples *examples[2] = {&d->lines.examples, &d->lines.valid_examples};
    double *const values[2] = {own->reference, own->valid_reference};
    struct qkv_tensors *tensors = NULL;
    enum qkv_status status = qkv_tensors_open(d->ctx, path, &tensors);
    if (status) qkv_fail_at(d->ctx, "the log probabilities of the reference");
    if (!status) status = reference_check(d, path, tensors);
    for (size_t i = 0; i < 2 && !status; i++) {
        const size_t bytes = examples[i]->count * SIDES * sizeof(double);
        const struct qkv_array *array = bytes ? qkv_tensors_find(tensors, reference_names[i]) : NULL;
        if (!bytes) continue;
        if (!array || array->dtype != QKV_F64 || array->bytes != bytes)
            status = qkv_fail(d->ctx, QKV_FORMAT, "%s does not hold %zu pairs of this run (\"%s\"); restore it", path,
                              examples[i]->count, reference_names[i]);
        else
            memcpy(values[i], array->data, bytes);
    }
    qkv_tensors_close(tensors);
    return status;
}

static enum qkv_status preference_take(struct qkv_data *d) {
    struct preference_data *own = d->own;
    own->reference = qkv_allocate(d->ctx, SIDES * d->lines.examples.count, sizeof(double));
    own->valid_reference = qkv_allocate(d->ctx, SIDES * d->lines.valid_examples.count + 1, sizeof(double));
    own->found = qkv_allocate(d->ctx, d->rows.positions, sizeof(float));
    own->weights = qkv_allocate(d->ctx, d->rows.positions, sizeof(float));
    own->losses = qkv_allocate(d->ctx, d->rows.positions, sizeof(float));
    const bool taken = own->reference && own->valid_reference && own->found && own->weights && own->losses;
    return taken ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status dataset_preferences_ready(struct qkv_data *d, bool fresh) {
    struct preference_data *own = d->own;
    struct qkv_pass_options options = qkv_pass_defaults();
    char *path = qkv_join_path(d->ctx, d->folder, QKV_REFERENCE_FILE);
    enum qkv_status status = path ? preference_take(d) : QKV_MEMORY;
    options.B = d->B;
    options.T = d->T;
    options.shapes = d->lines.shapes;
    options.shape_count = d->lines.shape_count;
    if (!status) status = qkv_pass_create(d->model, &options, &own->look);
    if (!status && !fresh && (!d->options->lora || qkv_file_exists(path))) {
        status = preference_read(d, path);
        free(path);
        return status;
    }
    if (!status) status = preference_refer_all(d, &d->lines.examples, &own->reference);
    if (!status) status = preference_refer_all(d, &d->lines.valid_examples, &own->valid_reference);
    if (!status) status = preference_write(d, path);
    free(path);
    return status;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_preferences_begin(struct qkv_data *d, uint64_t step, struct qkv_dataset_step *out) {
    enum qkv_status status = qkv_lines_begin(d, step, out);
    out->targets = out->rows; /* the loss is the mean over pairs */
    return status;
}

/* The factor of each token of an answer, and the loss of the pair, which its last token carries. */
static void preference_weigh(struct qkv_data *d, const struct qkv_batch *batch, size_t r,
                             const struct preference_loss *l, const struct preference_pair *p) {
    struct preference_data *own = d->own;
    for (size_t s = 0; s < SIDES; s++) {
        const double sign = s == CHOSEN ? -1 : 1, each = l->ipo ? (double)p->counted[s] : 1;
        const size_t begin = (SIDES * r + s) * batch->T;
        for (size_t k = begin; k < begin + batch->T; k++) {
            own->weights[k] = (float)(sign * p->slope / each);
            own->losses[k] = 0;
        }
    }
    own->losses[p->last[CHOSEN]] = (float)p->loss;
}

static enum qkv_status dataset_preferences_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end,
                                                struct qkv_batch *batch) {
    struct preference_data *own = d->own;
    const struct preference_loss l = preference_loss_of(d->options);
    const size_t b = qkv_batches_at_step(&d->lines.batches, (uint64_t)d->options->seed, step);
    const uint32_t *rows = d->lines.batches.order + d->lines.batches.cut[b] + begin;
    struct qkv_batch look = {0};
    struct preference_pair p;
    preference_batch(d, &d->lines.examples, rows, 0, end - begin, &look);
    enum qkv_status status = preference_run(d, own->look, &look);
    for (size_t r = 0; r < end - begin && !status; r++) {
        preference_sum(d, &look, r, &p);
        preference_refer(own->reference, rows[r], &p);
        preference_measure(&l, &p);
        preference_weigh(d, &look, r, &l, &p);
    }
    batch->B = look.B, batch->T = look.T;
    batch->lengths = look.lengths;
    batch->label_smoothing = 0; /* it is one of pairs here */
    own->rows = (struct qkv_loss_rows){.weights = own->weights, .losses = own->losses};
    d->loss_rows = &own->rows;
    return status;
}

/* ---- validation ------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_preferences_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss,
                                                    double *metric) {
    const struct preference_data *own = d->own;
    const struct qkv_batches *b = &d->lines.valid_batches;
    const struct qkv_examples *e = d->options->valid ? &d->lines.valid_examples : &d->lines.examples;
    const double *reference = d->options->valid ? own->valid_reference : own->reference;
    const struct preference_loss l = preference_loss_of(d->options);
    const size_t most = (size_t)d->options->eval_batches, count = most && most < b->count ? most : b->count;
    double sum = 0;
    size_t pairs = 0, right = 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = i * (b->count / count) + i * (b->count % count) / count; /* spread evenly */
        const uint32_t *rows = b->order + b->cut[at];
        struct qkv_batch batch = {0};
        struct preference_pair p;
        preference_batch(d, e, rows, 0, b->shapes[at].B, &batch);
        status = qkv_train_progress(d->ctx, d->progress, d->user, "validating", (double)i, (double)count);
        if (!status) status = preference_run(d, pass, &batch);
        for (size_t r = 0; r < b->shapes[at].B && !status; r++, pairs++) {
            preference_sum(d, &batch, r, &p);
            preference_refer(reference, rows[r], &p);
            preference_measure(&l, &p);
            sum += p.loss, right += p.margin > 0;
        }
    }
    *loss = sum / (double)pairs;
    *metric = d->metric == QKV_METRIC_ACCURACY ? (double)right / (double)pairs : *loss;
    return status;
}

static void dataset_preferences_close(struct qkv_data *d) {
    struct preference_data *own = d->own;
    if (!own) return;
    qkv_pass_free(own->look);
    free(own->reference);
    free(own->valid_reference);
    free(own->found);
    free(own->weights);
    free(own->losses);
    free(own);
}

const struct qkv_dataset qkv_dataset_preferences = {
    QKV_DATASET_OPTION(preferences),
    .noun = "preferences",
    .nouns = "preferences",
    .reads = QKV_READS_LINES,
    .tasks = QKV_TASKS_NONE,
    .tokenizers = 1,
    .talks = true,
    .prefers = true,
    .sequences = SIDES,
    .lines = {&lines_preferences},
    .metrics = 1U << QKV_METRIC_ACCURACY,
    .check = dataset_preferences_check,
    .prepare = qkv_talks_prepare,
    .restore = qkv_talks_restore,
    .open = dataset_preferences_open,
    .ready = dataset_preferences_ready,
    .begin = dataset_preferences_begin,
    .fill = dataset_preferences_fill,
    .epoch = qkv_lines_epoch,
    .total = qkv_lines_total,
    .count = qkv_lines_count,
    .validate = dataset_preferences_validate,
    .close = dataset_preferences_close,
};
