/* Learning from arrays: the examples of safetensors files, images, frames, vectors or ids, each with its target.
 *
 * An epoch shuffles all examples and cuts them into batches of the same size; those that are left over are other
 * ones in the next epoch. In order (option in_order) they are cut as they stand, and those at the end that make no
 * whole batch are left out. So a step's batch is a function of (seed, step), and a run that goes on reads the same
 * files again. */
#include <stdlib.h>
#include <string.h>

#include "model/spec.h"
#include "data/example_files.h"
#include "data/data.h"

struct qkv_example_data {
    struct qkv_example_files train, valid; /* valid.count 0: the last of `train` are kept for validation */
    size_t count, kept;                    /* to learn from, and kept */
    uint32_t *order;                       /* (count): of an epoch */
    uint64_t epoch;
    float *features; /* of a batch */
};

static const struct qkv_example_data *examples_own(const struct qkv_data *d) {
    return d->own;
}

static enum qkv_status dataset_examples_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                              const struct qkv_spec *spec) {
    (void)options;
    return qkv_example_files_check(ctx, spec);
}

/* ---- the files -------------------------------------------------------------------------------------------------- */

/* What is known of the files of a new run; of one that goes on, whether they are the same. */
static enum qkv_status examples_facts(struct qkv_data *d, struct qkv_text_files *files, struct qkv_text_facts *facts) {
    struct qkv_text_facts now = {.vocab = facts->vocab, .tokenizer = facts->tokenizer};
    const bool fresh = facts->bytes == 0;
    for (size_t i = 0; i < files->count; i++) {
        struct qkv_text_file *file = &files->items[i];
        struct qkv_map map = {0};
        qkv_rank_alive(d->ctx);
        enum qkv_status status = qkv_read_file(d->ctx, file->path, &map);
        if (status) return status;
        const uint64_t hash = qkv_hash(QKV_HASH_START, map.data, map.size), bytes = map.size;
        qkv_unmap_file(&map);
        if (!fresh && (hash != file->hash || bytes != file->bytes))
            return qkv_fail(
                d->ctx, QKV_FORMAT,
                "%s has changed since the run began (%llu bytes then, %llu now); restore it, or start a new "
                "run in another folder",
                file->path, (unsigned long long)file->bytes, (unsigned long long)bytes);
        file->bytes = bytes, file->hash = hash;
    }
    qkv_text_files_sum(files, &now);
    if (fresh) *facts = now;
    return QKV_OK;
}

static enum qkv_status examples_open_side(struct qkv_data *d, const struct qkv_spec *spec, struct qkv_text_files *files,
                                          struct qkv_text_facts *facts, struct qkv_example_files *out) {
    enum qkv_status status = examples_facts(d, files, facts);
    for (size_t i = 0; i < files->count && !status; i++) {
        const size_t before = out->count;
        status = qkv_example_files_add(d->ctx, spec, files->items[i].path, out);
        files->items[i].lines = out->count - before;
        files->items[i].tokens = files->items[i].lines * out->T;
    }
    facts->tokens = out->count * out->T;
    return status;
}

static enum qkv_status dataset_examples_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    struct qkv_example_files files = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < d->facts->data_files.count && !status && !spec->head.classes; i++)
        status = qkv_example_files_add(d->ctx, spec, d->facts->data_files.items[i].path, &files);
    if (!status && spec->head.classes == 0 && qkv_head_has_classes(spec)) spec->head.classes = (int)files.classes;
    qkv_example_files_close(&files);
    d->facts->data.vocab = d->facts->valid.vocab = 1; /* there is no tokenizer */
    return status ? status : qkv_spec_check(d->ctx, spec);
}

static enum qkv_status dataset_examples_restore(struct qkv_data *d) {
    (void)d;
    return QKV_OK;
}

/* Enough of them for a batch. */
static enum qkv_status examples_cut(struct qkv_data *d) {
    struct qkv_example_data *e = d->own;
    const struct qkv_train_options *o = d->options;
    char name[QKV_FILES_NAME];
    qkv_text_files_name(&d->facts->data_files, name);
    e->kept = o->valid ? 0 : (size_t)((double)e->train.count * o->valid_fraction);
    e->count = e->train.count - e->kept;
    qkv_text_files_hold_out(&d->facts->data_files, e->kept);
    if (!o->valid && o->valid_fraction > 0 && e->kept == 0)
        return qkv_fail(d->ctx, QKV_ARGUMENT,
                        "%s has %zu example%s, of which a valid_fraction of %g keeps none for validation; give more, a "
                        "file to validate on (valid), or valid_fraction 0 for no validation",
                        name, e->train.count, e->train.count == 1 ? "" : "s", o->valid_fraction);
    if (e->count > UINT32_MAX - 1)
        return qkv_fail(d->ctx, QKV_FORMAT, "%s has %zu examples; at most %lu can be learnt from", name, e->count,
                        (unsigned long)UINT32_MAX - 1);
    if (e->count >= (size_t)o->batch) return QKV_OK;
    return qkv_fail(d->ctx, QKV_ARGUMENT, "batch is %lld, but %s has %zu examples to learn from; choose at most that",
                    (long long)o->batch, name, e->count);
}

static enum qkv_status dataset_examples_open(struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    const struct qkv_spec *spec = qkv_model_spec(d->model);
    struct qkv_example_data *e = d->own = qkv_allocate(d->ctx, 1, sizeof *e);
    size_t floats;
    if (!e) return QKV_MEMORY;
    enum qkv_status status = examples_open_side(d, spec, &d->facts->data_files, &d->facts->data, &e->train);
    if (!status && o->valid) status = examples_open_side(d, spec, &d->facts->valid_files, &d->facts->valid, &e->valid);
    if (!status) status = examples_cut(d);
    if (status) return status;
    d->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    d->T = e->train.T > e->valid.T ? e->train.T : e->valid.T;
    d->source_T = e->train.source.T > e->valid.source.T ? e->train.source.T : e->valid.source.T;
    e->epoch = UINT64_MAX;
    e->order = qkv_allocate(d->ctx, e->count, sizeof *e->order);
    if (!qkv_multiply(d->B, qkv_example_files_floats(&e->train) + 1, &floats))
        return qkv_fail_memory(d->ctx, SIZE_MAX, "the features of a batch");
    e->features = qkv_allocate(d->ctx, floats, sizeof *e->features);
    return e->order && e->features ? QKV_OK : QKV_MEMORY;
}

static void dataset_examples_close(struct qkv_data *d) {
    struct qkv_example_data *e = d->own;
    if (!e) return;
    qkv_example_files_close(&e->train);
    qkv_example_files_close(&e->valid);
    free(e->order);
    free(e->features);
    free(e);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* Fisher and Yates. */
static void examples_shuffle(struct qkv_example_data *e, const struct qkv_train_options *o, uint64_t epoch) {
    struct qkv_random random = qkv_draw_epoch((uint64_t)o->seed, epoch);
    if (e->epoch == epoch) return;
    for (size_t i = 0; i < e->count; i++) e->order[i] = (uint32_t)i;
    for (size_t i = o->in_order ? 1 : e->count; i > 1; i--) {
        const size_t k = (size_t)qkv_random_below(&random, i);
        const uint32_t value = e->order[i - 1];
        e->order[i - 1] = e->order[k];
        e->order[k] = value;
    }
    e->epoch = epoch;
}

static size_t examples_batches(const struct qkv_data *d) {
    return examples_own(d)->count / (size_t)d->options->batch;
}

static double dataset_examples_epoch(const struct qkv_data *d) {
    return (double)examples_batches(d);
}

/* The examples of a step. */
static const uint32_t *examples_at_step(struct qkv_data *d, uint64_t step) {
    struct qkv_example_data *e = d->own;
    const size_t batches = examples_batches(d);
    examples_shuffle(e, d->options, step / batches);
    return e->order + step % batches * (size_t)d->options->batch;
}

/* Of examples by their numbers; NULL: those from `first` on. */
static enum qkv_status examples_batch(struct qkv_data *d, const struct qkv_example_files *files,
                                      const uint32_t *numbers, size_t first, struct qkv_batch *batch) {
    struct qkv_example_rows rows = {.features = examples_own(d)->features,
                                    .ids = d->rows.ids,
                                    .lengths = d->rows.lengths,
                                    .targets = d->rows.targets,
                                    .types = d->rows.types,
                                    .source = d->rows.source,
                                    .source_lengths = d->rows.source_lengths};
    enum qkv_status status = QKV_OK;
    for (size_t r = 0; r < batch->B && !status; r++)
        status = qkv_example_files_row(files, numbers ? numbers[r] : first + r, r, &rows);
    qkv_example_files_batch(files, &rows, batch);
    return status;
}

static enum qkv_status dataset_examples_begin(struct qkv_data *d, uint64_t step, struct qkv_dataset_step *out) {
    const uint32_t *rows = examples_at_step(d, step);
    *out = (struct qkv_dataset_step){.rows = (size_t)d->options->batch};
    for (size_t r = 0; r < out->rows; r++) {
        size_t tokens, targets;
        enum qkv_status status = qkv_example_files_count(&examples_own(d)->train, rows[r], &tokens, &targets);
        if (status) return status;
        out->tokens += tokens, out->targets += targets;
    }
    if (!out->targets) out->targets = 1; /* none counts: no loss, and no gradient */
    return QKV_OK;
}

static enum qkv_status dataset_examples_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end,
                                             struct qkv_batch *batch) {
    batch->B = end - begin;
    return examples_batch(d, &examples_own(d)->train, examples_at_step(d, step) + begin, 0, batch);
}

static uint64_t dataset_examples_total(struct qkv_data *d, uint64_t step) {
    return (step + 1) * (uint64_t)d->options->batch * examples_own(d)->train.T;
}

/* ---- validation ------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_examples_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss,
                                                 double *metric) {
    struct qkv_example_data *e = d->own;
    const struct qkv_example_files *files = d->options->valid ? &e->valid : &e->train;
    const size_t first = d->options->valid ? 0 : e->count, all = d->options->valid ? e->valid.count : e->kept;
    const size_t batches = (all + d->B - 1) / d->B, most = (size_t)d->options->eval_batches;
    const size_t count = most && most < batches ? most : batches;
    struct qkv_example_score score = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = (i * (batches / count) + i * (batches % count) / count) * d->B; /* spread evenly */
        struct qkv_batch batch = {.B = all - at < d->B ? all - at : d->B};
        status = qkv_train_progress(d->ctx, d->progress, d->user, "validating", (double)i, (double)count);
        if (!status) status = examples_batch(d, files, NULL, first + at, &batch);
        if (!status) status = qkv_pass_forward(pass, &batch);
        if (!status) qkv_example_score(files, pass, &batch, &score, NULL);
    }
    *loss = score.counted ? score.nll / (double)score.counted : 0;
    *metric = d->metric != QKV_METRIC_ACCURACY ? *loss
              : score.counted                  ? (double)score.right / (double)score.counted
                                               : 0;
    return status;
}

static bool dataset_examples_scores(const struct qkv_spec *spec) {
    (void)spec;
    return true;
}

static void dataset_examples_count(const struct qkv_data *d, struct qkv_data_counts *counts) {
    const struct qkv_example_data *e = d->own;
    const size_t kept = d->options->valid ? e->valid.count : e->kept;
    *counts = (struct qkv_data_counts){
        .examples = e->count, .valid_examples = kept, .tokens = e->count * d->T, .valid_tokens = kept * d->T};
}

const struct qkv_dataset qkv_dataset_examples = {
    QKV_DATASET_OPTION(examples),
    .noun = "examples",
    .nouns = "these examples",
    .reads = QKV_READS_ARRAYS,
    .tasks = QKV_TASKS_CLASSES,
    .metrics = 1U << QKV_METRIC_ACCURACY,
    .scores = dataset_examples_scores,
    .check = dataset_examples_check,
    .prepare = dataset_examples_prepare,
    .restore = dataset_examples_restore,
    .open = dataset_examples_open,
    .begin = dataset_examples_begin,
    .fill = dataset_examples_fill,
    .epoch = dataset_examples_epoch,
    .total = dataset_examples_total,
    .count = dataset_examples_count,
    .validate = dataset_examples_validate,
    .close = dataset_examples_close,
};
