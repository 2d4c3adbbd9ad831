/* Learning from arrays: the examples of safetensors files, images, frames, vectors or ids, each with its target.
 *
 * An epoch shuffles all examples and cuts them into batches of the same size; those that are left over are other
 * ones in the next epoch. In order (option in_order) they are cut as they stand, and those at the end that make no
 * whole batch are left out. So a step's batch is a function of (seed, step), and a run that goes on reads the same
 * files again. */
#include <stdlib.h>
#include <string.h>

#include "model/spec.h"
#include "train/example_files.h"
#include "train/train.h"

struct qkv_example_data {
    struct qkv_example_files train, valid; /* valid.count 0: the last of `train` are kept for validation */
    size_t count, kept;                    /* to learn from, and kept */
    uint32_t *order;                       /* (count): of an epoch */
    uint64_t epoch;
    float *features; /* of a batch */
};

static enum qkv_status dataset_examples_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                              const struct qkv_spec *spec) {
    (void)options;
    return qkv_example_files_check(ctx, spec);
}

/* ---- the files -------------------------------------------------------------------------------------------------- */

/* What is known of the files of a new run; of one that goes on, whether they are the same. */
static enum qkv_status examples_facts(struct qkv_trainer *t, struct qkv_text_files *files,
                                      struct qkv_text_facts *facts) {
    struct qkv_text_facts now = {.vocab = facts->vocab, .tokenizer = facts->tokenizer};
    const bool fresh = facts->bytes == 0;
    for (size_t i = 0; i < files->count; i++) {
        struct qkv_text_file *file = &files->items[i];
        struct qkv_map map = {0};
        qkv_rank_alive(t->ctx);
        enum qkv_status status = qkv_read_file(t->ctx, file->path, &map);
        if (status) return status;
        const uint64_t hash = qkv_hash(QKV_HASH_START, map.data, map.size), bytes = map.size;
        qkv_unmap_file(&map);
        if (!fresh && (hash != file->hash || bytes != file->bytes))
            return qkv_fail(
                t->ctx, QKV_FORMAT,
                "%s has changed since the run began (%llu bytes then, %llu now); restore it, or start a new "
                "run in another folder",
                file->path, (unsigned long long)file->bytes, (unsigned long long)bytes);
        file->bytes = bytes, file->hash = hash;
    }
    qkv_text_files_sum(files, &now);
    if (fresh) *facts = now;
    return QKV_OK;
}

static enum qkv_status examples_open_side(struct qkv_trainer *t, const struct qkv_spec *spec,
                                          struct qkv_text_files *files, struct qkv_text_facts *facts,
                                          struct qkv_example_files *out) {
    enum qkv_status status = examples_facts(t, files, facts);
    for (size_t i = 0; i < files->count && !status; i++) {
        const size_t before = out->count;
        status = qkv_example_files_add(t->ctx, spec, files->items[i].path, out);
        files->items[i].lines = out->count - before;
        files->items[i].tokens = files->items[i].lines * out->T;
    }
    facts->tokens = out->count * out->T;
    return status;
}

static enum qkv_status dataset_examples_prepare(struct qkv_trainer *t, struct qkv_spec *spec) {
    struct qkv_example_files files = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < t->facts.data_files.count && !status && !spec->head.classes; i++)
        status = qkv_example_files_add(t->ctx, spec, t->facts.data_files.items[i].path, &files);
    if (!status && spec->head.classes == 0 && qkv_head_has_classes(spec)) spec->head.classes = (int)files.classes;
    qkv_example_files_close(&files);
    t->facts.data.vocab = t->facts.valid.vocab = 1; /* there is no tokenizer */
    return status ? status : qkv_spec_check(t->ctx, spec);
}

static enum qkv_status dataset_examples_restore(struct qkv_trainer *t) {
    (void)t;
    return QKV_OK;
}

/* Enough of them for a batch. */
static enum qkv_status examples_cut(struct qkv_trainer *t) {
    struct qkv_example_data *d = t->examples;
    const struct qkv_train_options *o = &t->options;
    char name[QKV_FILES_NAME];
    qkv_text_files_name(&t->facts.data_files, name);
    d->kept = o->valid ? 0 : (size_t)((double)d->train.count * o->valid_fraction);
    d->count = d->train.count - d->kept;
    qkv_text_files_hold_out(&t->facts.data_files, d->kept);
    if (!o->valid && o->valid_fraction > 0 && d->kept == 0)
        return qkv_fail(t->ctx, QKV_ARGUMENT,
                        "%s has %zu example%s, of which a valid_fraction of %g keeps none for validation; give more, a "
                        "file to validate on (valid), or valid_fraction 0 for no validation",
                        name, d->train.count, d->train.count == 1 ? "" : "s", o->valid_fraction);
    if (d->count > UINT32_MAX - 1)
        return qkv_fail(t->ctx, QKV_FORMAT, "%s has %zu examples; at most %lu can be learnt from", name, d->count,
                        (unsigned long)UINT32_MAX - 1);
    if (d->count >= (size_t)o->batch) return QKV_OK;
    return qkv_fail(t->ctx, QKV_ARGUMENT, "batch is %lld, but %s has %zu examples to learn from; choose at most that",
                    (long long)o->batch, name, d->count);
}

static enum qkv_status dataset_examples_open(struct qkv_trainer *t) {
    const struct qkv_train_options *o = &t->options;
    const struct qkv_spec *spec = qkv_model_spec(t->model);
    struct qkv_example_data *d = t->examples = qkv_allocate(t->ctx, 1, sizeof *d);
    size_t floats;
    if (!d) return QKV_MEMORY;
    enum qkv_status status = examples_open_side(t, spec, &t->facts.data_files, &t->facts.data, &d->train);
    if (!status && o->valid) status = examples_open_side(t, spec, &t->facts.valid_files, &t->facts.valid, &d->valid);
    if (!status) status = examples_cut(t);
    if (status) return status;
    t->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    t->T = d->train.T > d->valid.T ? d->train.T : d->valid.T;
    t->source_T = d->train.source.T > d->valid.source.T ? d->train.source.T : d->valid.source.T;
    d->epoch = UINT64_MAX;
    d->order = qkv_allocate(t->ctx, d->count, sizeof *d->order);
    if (!qkv_multiply(t->B, qkv_example_files_floats(&d->train) + 1, &floats))
        return qkv_fail_memory(t->ctx, SIZE_MAX, "the features of a batch");
    d->features = qkv_allocate(t->ctx, floats, sizeof *d->features);
    return d->order && d->features ? QKV_OK : QKV_MEMORY;
}

void qkv_example_data_free(struct qkv_example_data *d) {
    if (!d) return;
    qkv_example_files_close(&d->train);
    qkv_example_files_close(&d->valid);
    free(d->order);
    free(d->features);
    free(d);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* Fisher and Yates. */
static void examples_shuffle(struct qkv_example_data *d, const struct qkv_train_options *o, uint64_t epoch) {
    struct qkv_random random = qkv_draw_epoch((uint64_t)o->seed, epoch);
    if (d->epoch == epoch) return;
    for (size_t i = 0; i < d->count; i++) d->order[i] = (uint32_t)i;
    for (size_t i = o->in_order ? 1 : d->count; i > 1; i--) {
        const size_t k = (size_t)qkv_random_below(&random, i);
        const uint32_t value = d->order[i - 1];
        d->order[i - 1] = d->order[k];
        d->order[k] = value;
    }
    d->epoch = epoch;
}

static size_t examples_batches(const struct qkv_trainer *t) {
    return t->examples->count / (size_t)t->options.batch;
}

static double dataset_examples_epoch(const struct qkv_trainer *t) {
    return (double)examples_batches(t);
}

/* The examples of a step. */
static const uint32_t *examples_at_step(struct qkv_trainer *t, uint64_t step) {
    struct qkv_example_data *d = t->examples;
    const size_t batches = examples_batches(t);
    examples_shuffle(d, &t->options, step / batches);
    return d->order + step % batches * (size_t)t->options.batch;
}

/* Of examples by their numbers; NULL: those from `first` on. */
static enum qkv_status examples_batch(struct qkv_trainer *t, const struct qkv_example_files *files,
                                      const uint32_t *numbers, size_t first, struct qkv_batch *batch) {
    struct qkv_example_rows rows = {.features = t->examples->features,
                                    .ids = t->rows.ids,
                                    .lengths = t->rows.lengths,
                                    .targets = t->rows.targets,
                                    .types = t->rows.types,
                                    .source = t->rows.source,
                                    .source_lengths = t->rows.source_lengths};
    enum qkv_status status = QKV_OK;
    for (size_t r = 0; r < batch->B && !status; r++)
        status = qkv_example_files_row(files, numbers ? numbers[r] : first + r, r, &rows);
    qkv_example_files_batch(files, &rows, batch);
    return status;
}

static enum qkv_status dataset_examples_begin(struct qkv_trainer *t, uint64_t step, struct qkv_dataset_step *out) {
    const uint32_t *rows = examples_at_step(t, step);
    *out = (struct qkv_dataset_step){.rows = (size_t)t->options.batch};
    for (size_t r = 0; r < out->rows; r++) {
        size_t tokens, targets;
        enum qkv_status status = qkv_example_files_count(&t->examples->train, rows[r], &tokens, &targets);
        if (status) return status;
        out->tokens += tokens, out->targets += targets;
    }
    if (!out->targets) out->targets = 1; /* none counts: no loss, and no gradient */
    return QKV_OK;
}

static enum qkv_status dataset_examples_fill(struct qkv_trainer *t, uint64_t step, size_t begin, size_t end,
                                             struct qkv_batch *batch) {
    batch->B = end - begin;
    return examples_batch(t, &t->examples->train, examples_at_step(t, step) + begin, 0, batch);
}

static uint64_t dataset_examples_total(struct qkv_trainer *t, uint64_t step) {
    return (step + 1) * (uint64_t)t->options.batch * t->examples->train.T;
}

/* ---- validation ------------------------------------------------------------------------------------------------- */

static enum qkv_status dataset_examples_validate(struct qkv_trainer *t, double *loss, double *metric) {
    struct qkv_example_data *d = t->examples;
    const struct qkv_example_files *files = t->options.valid ? &d->valid : &d->train;
    const size_t first = t->options.valid ? 0 : d->count, all = t->options.valid ? d->valid.count : d->kept;
    const size_t batches = (all + t->B - 1) / t->B, most = (size_t)t->options.eval_batches;
    const size_t count = most && most < batches ? most : batches;
    struct qkv_example_score score = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = (i * (batches / count) + i * (batches % count) / count) * t->B; /* spread evenly */
        struct qkv_batch batch = {.B = all - at < t->B ? all - at : t->B};
        status = qkv_train_progress(t->ctx, t->progress, t->user, "validating", (double)i, (double)count);
        if (!status) status = examples_batch(t, files, NULL, first + at, &batch);
        if (!status) status = qkv_pass_forward(t->validation_pass, &batch);
        if (!status) qkv_example_score(files, t->validation_pass, &batch, &score, NULL);
    }
    *loss = score.counted ? score.nll / (double)score.counted : 0;
    *metric = t->metric != QKV_METRIC_ACCURACY ? *loss
              : score.counted                  ? (double)score.right / (double)score.counted
                                               : 0;
    return status;
}

static bool dataset_examples_scores(const struct qkv_spec *spec) {
    (void)spec;
    return true;
}

size_t qkv_example_data_counts(const struct qkv_trainer *t, size_t *valid) {
    const struct qkv_example_data *d = t->examples;
    *valid = t->options.valid ? d->valid.count : d->kept;
    return d->count;
}

const struct qkv_dataset qkv_dataset_examples = {
    QKV_DATASET_OPTION(examples),        .noun = "examples",
    .nouns = "these examples",           .reads = QKV_READS_ARRAYS,
    .tasks = QKV_TASKS_CLASSES,          .metrics = 1U << QKV_METRIC_ACCURACY,
    .scores = dataset_examples_scores,   .check = dataset_examples_check,
    .prepare = dataset_examples_prepare, .restore = dataset_examples_restore,
    .open = dataset_examples_open,       .begin = dataset_examples_begin,
    .fill = dataset_examples_fill,       .epoch = dataset_examples_epoch,
    .total = dataset_examples_total,     .validate = dataset_examples_validate,
};
